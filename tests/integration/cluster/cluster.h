// Real gdfd processes on this machine that form one network, each in a folder of its own, driven by
// gdfctl.
//
//   Cluster cluster(4);
//   const std::string job = cluster.Submit(cluster.node(0), {.rounds = 8});
//   JobLog log(cluster.node(0), job);
//   log.AwaitRound(2);
//   cluster.node(3).Kill(SIGKILL);
//   CHECK(log.AwaitEnd()["phase"] == "succeeded");
//
// The end of a Cluster ends all that it has started and checks that nothing is left: no process, no
// shared memory.
#ifndef GDF_TESTS_INTEGRATION_CLUSTER_CLUSTER_H_
#define GDF_TESTS_INTEGRATION_CLUSTER_CLUSTER_H_

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/cluster/process.h"
#include "tests/support/temporary_folder.h"

namespace gdf::cluster {

using Json = nlohmann::json;

// What a gdfctl that has ended left behind.
struct CtlResult {
  int code = 0;
  std::string out;
  std::string err;
  // The only line of standard output.
  Json json() const;
};

// One gdfd: what it is started with, and its process while it runs.
class Node {
 public:
  struct Options {
    std::string name;
    std::string folder;        // made when missing; state/ and the log are in it
    std::string address;       // to listen on, without a port
    std::string config;        // more lines for gdfd.yaml
    std::string state_folder;  // empty: in `folder`
    std::string worker;        // empty: gdf-worker
  };
  explicit Node(Options options);

  // Returns when it serves. The port of the first start is kept, as a router's mapping would.
  void Start();
  // Expects that it ends before it serves.
  CtlResult StartInVain() const;
  // Another gdfd, with these arguments alone, to its end.
  CtlResult Gdfd(std::vector<std::string> arguments) const;
  // A line of bash, which has the programs as $GDFD, $GDFCTL and $WORKER; $GDF_SOCKET is this node's.
  CtlResult Shell(const std::string& line) const;
  // Expects it to end; the exit code, or 128 + signal. `signal` 0: it ends by itself.
  int Kill(int signal);
  void Restart(int signal) { Kill(signal), Start(); }
  // gdfd --restore, while it does not run.
  CtlResult Restore(const std::string& archive, const std::string& passphrase) const;
  bool running() const { return process_ != nullptr; }
  pid_t pid() const { return process_->pid(); }

  CtlResult Ctl(std::vector<std::string> arguments, absl::Duration timeout = kDeadline) const;
  // Ctl with --json; exit code 0 and one object are required.
  Json Ask(std::vector<std::string> arguments) const;
  // A gdfctl --json that goes on, such as `status -w`.
  std::unique_ptr<Process> Watch(std::vector<std::string> arguments) const;
  // Reads `status -w` until `wanted`, also across a start of the daemon.
  Json AwaitStatus(const std::function<bool(const Json&)>& wanted) const;

  // The gdf-worker processes that it has started.
  std::vector<pid_t> Workers() const;
  // Asks until it holds no memory that it shared with a worker; true also where this user may not
  // know.
  bool AwaitNoMemfds() const;
  const std::string& name() const { return options_.name; }
  const std::string& state_folder() const { return options_.state_folder; }
  std::string id() const { return Ask({"status"})["node_id"]; }
  std::string log_path() const { return options_.folder + "/log"; }
  std::string Log() const;

 private:
  std::vector<std::string> Arguments() const;  // of gdfd
  CtlResult RunToEnd(std::vector<std::string> arguments,
                     std::vector<std::string> environment) const;
  std::vector<std::string> CtlArguments(std::vector<std::string> arguments) const;
  int OpenMemfds() const;  // -1: not known

  Options options_;
  std::string listen_;
  std::unique_ptr<Process> process_;
};

// A job that takes a moment: a GPT-2 of some thousand parameters on a text of some ten thousand
// bytes.
struct JobOptions {
  int rounds = 4;
  int inner_steps = 5;
  int nodes_min = 1;
  int nodes_max = 0;                        // 0: all
  std::vector<std::string> set = {};        // more "key=value"
  std::vector<std::string> arguments = {};  // more for gdfctl submit
};

class Cluster {
 public:
  // `config`: more lines for everybody's gdfd.yaml. Node 0 is the coordinator, the others are
  // contributors.
  explicit Cluster(int nodes, const std::string& config = "");
  ~Cluster();

  Node& node(int index) { return *nodes_[static_cast<size_t>(index)]; }
  size_t size() const { return nodes_.size(); }
  // One that is not started yet.
  Node& AddNode(const std::string& config = "", const std::string& state_folder = "",
                const std::string& worker = "");
  void Join(Node& node, const std::string& role = "contributor");
  Node& NodeWithId(const std::string& id);

  // Another value for `model` in job.yaml.
  void SetModel(const std::string& model) const;
  // The arguments of `submit` and `plan` for such a job.
  std::vector<std::string> JobArguments(const JobOptions& options) const;
  // Its id. Exit code 0 is required.
  std::string Submit(Node& node, const JobOptions& options) const;

  const std::string& folder() const { return folder_.path(); }
  std::string job_file() const { return folder() + "/job.yaml"; }
  std::string text_file() const { return folder() + "/text.txt"; }

  // Waits until no process that a killed node left behind runs any more.
  void AwaitNoOrphans();

 private:
  std::vector<pid_t> Orphans() const;

  testing::TemporaryFolder folder_;
  std::string address_;
  std::string config_;
  std::vector<std::string> shared_memory_before_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

// What `job logs -f` tells.
class JobLog {
 public:
  JobLog(const Node& node, const std::string& job);

  // Reads on until `wanted`, which must come; the object that it was.
  Json Await(const std::string& what, const std::function<bool(const Json&)>& wanted,
             absl::Duration timeout = kDeadline);
  Json AwaitRound(uint64_t round);           // or a later one
  Json AwaitEvent(const std::string& text);  // whose text has `text` in it
  // The job as it ended; the log must end after it with exit code 0.
  Json AwaitEnd(absl::Duration timeout = kDeadline);
  // Reads whatever comes within `span`.
  void ReadFor(absl::Duration span);

  const std::vector<Json>& rounds() const { return rounds_; }
  const std::vector<Json>& events() const { return events_; }
  bool HasEvent(const std::string& text) const;
  std::string Text() const;  // all that came, for messages

 private:
  std::optional<Json> Next(absl::Duration timeout);

  std::unique_ptr<Process> process_;
  std::vector<Json> rounds_, events_;
  std::string text_;
};

}  // namespace gdf::cluster

#endif  // GDF_TESTS_INTEGRATION_CLUSTER_CLUSTER_H_
