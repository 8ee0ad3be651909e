// One job on simulated nodes: network, disks, workers and coordinator, with faults on demand, and the invariants that
// must hold whatever happened.
//
//   SimJob job(seed, {.nodes = 4});
//   job.Start();
//   job.network().set_on_message([&](const SimMessage& m) { if (m.number == 40) job.Crash(2); });
//   REQUIRE(job.RunToEnd());
//   REQUIRE(job.Violations() == "");
#ifndef GDF_TESTS_SIM_SIM_JOB_H_
#define GDF_TESTS_SIM_SIM_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/rounds/job_member.h"
#include "core/schedule/losses.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_worker.h"
#include "tests/support/faulty_files.h"

namespace gdf::sim {

struct JobOptions {
  int nodes = 4;
  int min_nodes = 2;
  int64_t rounds = 3;
  int64_t inner_steps = 4;  // of a round
  int64_t fragments = 1;
  int64_t delay_steps = 0;
  double mixing = 0;
  uint64_t num_params = 1000;
  std::vector<config::CodecSpec> codecs = {{config::CodecKind::kInt8, 64}};
  uint32_t rank = 0;  // PowerSGD's; codecs must be fp32 then
  config::OuterSpec outer = {};
  std::optional<float> constant_gradient = {};  // see SimWorkerOptions
  std::vector<std::vector<std::string>> sites = {};  // of "node0", ...; none: one level. The codec is fp32
  std::vector<std::pair<int, int>> near = {};  // nodes on one local network: sites are measured
  int64_t checkpoint_every = 1;
  absl::Duration round_deadline = absl::Minutes(2);
  bool returns = false;  // nodes that dropped out stand by, and are members again from the round after the next report on
  NetworkOptions network = {};
};

// What a disk holds of one committed round.
struct CommittedRound {
  checkpoint::OuterStatePtr state;
  std::optional<wire::Commit> commit;
};

class SimJob {
 public:
  explicit SimJob(uint64_t seed, JobOptions options = {});
  ~SimJob();

  // Starts all nodes and opens epoch 1 with all of them, led by node 0.
  void Start();

  SimExecutor& executor() { return executor_; }
  SimNetwork& network() { return network_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  NodeId id(int node) const { return nodes_[node]->id; }
  int IndexOf(const NodeId& id) const;

  // The process of `node` is no more; its disk stays. Not from within one of the node's own tasks.
  void Crash(int node);
  // Crashes it, and the network's record says that it is no member any more.
  void PutOut(int node) {
    put_out_.insert(node);
    Crash(node);
  }
  // Starts it again from its disk; a no-op when it is up.
  void Restart(int node);
  bool Up(int node) const { return nodes_[node]->transport != nullptr; }
  // Cuts `node` from all others.
  void Isolate(int node);
  void Rejoin(int node);

  // Told what happens, with its time: for replays.
  void set_say(std::function<void(const std::string&)> say) { say_ = std::move(say); }

  // What the worker of `node` fails with from now on; null: nothing.
  void set_worker_fault(int node, SimWorker::Fault fault) { nodes_[node]->worker_fault = std::move(fault); }
  void set_step_time(int node, absl::Duration time) { nodes_[node]->step_time = time; }
  // What the outer step of `node` is by instead of the job's, from its start on: a node that computes wrongly.
  void set_outer(int node, config::OuterSpec outer);
  // Told a node's local parameters before each of its steps. Of workers that start from now on.
  void set_before_step(std::function<void(int node, int64_t step, absl::Span<const float> local)> told) {
    before_step_ = std::move(told);
  }
  // Asked before each change of the node's disk.
  void set_disk_fault(int node, FaultyFiles::Before before) { nodes_[node]->files.set_before(std::move(before)); }
  MemoryFileSystem& disk(int node) { return nodes_[node]->disk; }
  // Crashes `node` at once as seen from outside, from within one of its own calls.
  void CrashFromWithin(int node);

  // Which nodes the coordinator says are not there; at first those that are down.
  void set_sees_offline(std::function<bool(int node)> sees) { sees_offline_ = std::move(sees); }
  // Told of each round before the coordinator hears of it; a reporting node that crashes there takes its report with it.
  void set_on_report(std::function<void(const wire::ReportJob&)> hook) { on_report_ = std::move(hook); }
  // A majority loses what it did not have to save: a round may be committed a second time, with another result.
  void set_may_roll_back() { may_roll_back_ = true; }

  // Runs until the coordinator has the job's verdict and every node that is up has ended it. False after `limit`.
  bool RunToEnd(absl::Duration limit = absl::Hours(4));

  // --- What happened ---
  bool finished() const { return finish_.has_value(); }
  wire::Verdict verdict() const { return finish_ ? finish_->verdict : wire::Verdict::kNone; }
  const std::string& reason() const { return finish_->reason; }
  const wire::EpochRecord& epoch() const { return epochs_.back(); }
  const std::vector<wire::ReportJob>& reports() const { return reports_; }
  const std::vector<wire::JobEvent>& events() const { return events_; }
  bool HasEvent(std::string_view text) const;
  const rounds::JobMember* member(int node) const;
  // How the job ended on `node`, if it has.
  const std::optional<absl::Status>& ended(int node) const { return nodes_[node]->ended; }
  // From the disk of `node`, by round.
  std::map<RoundId, CommittedRound> Committed(int node);

  // Every invariant that does not hold, one a line: one digest for each committed round over all nodes, commits by a
  // majority of an epoch that was opened, every state equal to the weighted mean of its contributors' deltas through
  // the outer optimiser, nothing lost by a restart.
  std::string Violations();

 private:
  struct Instance;
  struct Node {
    Node(int index, uint64_t seed);
    trust::NodeKey key;
    NodeId id;
    MemoryFileSystem disk;
    FaultyFiles files;
    SimWorker::Fault worker_fault;
    absl::Duration step_time = SimWorkerOptions{}.step_time;
    std::optional<config::JobSpec> spec;  // instead of the job's
    std::unique_ptr<SimTransport> transport;  // null while down
    std::unique_ptr<Instance> instance;
    std::unique_ptr<TaskScope> scope;
    std::optional<absl::Status> ended;
    RoundId seen;           // newest committed round that this node has shown
    bool restored = false;  // since its start
    bool stands_by = false;  // until an epoch has it
  };
  class NodeCoordinator;

  SimWorkerOptions WorkerOptions(const Node& node);
  Task<void> RunNode(Node* node);
  void Tell(Node& node);
  void AddReturned(std::vector<NodeId>& members) const;
  void TakeBack();
  void Open(wire::EpochRecord next, const std::string& why);
  void Announce();
  void Observe();
  void Say(const std::string& what);
  absl::Duration Delay();
  absl::Status OnRequestEpoch(const NodeId& from, const rounds::EpochRequest& request);
  absl::Status OnFinish(const NodeId& from, const wire::FinishJob& finish);
  void DropInstances();
  absl::StatusOr<std::vector<NodeId>> MembersOf(Epoch epoch) const;
  std::string CheckCommit(const wire::Commit& commit) const;
  std::string CheckRound(const CommittedRound& before, const CommittedRound& round) const;
  std::string CheckFactorRound(const CommittedRound& before, const CommittedRound& round) const;
  bool Reproduces(const CommittedRound& before, const CommittedRound& round, const std::vector<Buffer>& packed) const;
  absl::Span<const float> OuterMomentum(const checkpoint::OuterState& state) const;
  // Is it what the outer step makes of this mean?
  bool Steps(const CommittedRound& before, const CommittedRound& round, absl::Span<const float> mean) const;
  bool IsFirstPass(const wire::RoundTag& tag, uint64_t tokens, const std::vector<float>& mean) const;

  const JobOptions options_;
  const uint64_t seed_;
  config::JobSpec spec_;
  SimExecutor executor_;
  SeededRng rng_;
  InlinePool pool_;
  SimNetwork network_;
  EmitJournal journal_;
  ProjectionJournal projections_;
  std::vector<wire::EpochRecord> epochs_;
  schedule::Losses losses_;  // said in the last of them
  std::optional<wire::FinishJob> finish_;
  std::vector<wire::ReportJob> reports_;
  std::set<int> put_out_;
  std::vector<wire::JobEvent> events_;
  std::map<RoundId, checkpoint::OuterStatePtr> seen_;  // states that a node has shown as committed
  std::string violations_;
  std::function<void(const std::string&)> say_;
  std::function<void(int, int64_t, absl::Span<const float>)> before_step_;
  std::function<void(const wire::ReportJob&)> on_report_;
  std::function<bool(int)> sees_offline_ = [this](int node) { return !Up(node); };
  bool may_roll_back_ = false;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_JOB_H_
