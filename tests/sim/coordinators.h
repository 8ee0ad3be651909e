// A network's coordinators on simulated nodes: network, disks, clocks, and clients that write and read the record; with
// faults on demand, and the invariants that must hold whatever happened:
//
//   one leader     no two lead at once
//   one order      what a node has applied is what every other has applied at that place; it stays so over restarts
//   time           the log's time never goes back, whatever the wall clocks do
//   kept           what was acknowledged is in the record for ever, once; nothing is in it twice
//   linearizable   one order of the clients' operations explains what each of them saw
//   progress       within a bounded time without faults everything asked for is answered
//
//   Coordinators coordinators(seed, 3);
//   coordinators.StartClients(4, 20);
//   coordinators.Run(absl::Seconds(10));
//   REQUIRE(coordinators.RunToEnd(absl::Minutes(5)));
//   REQUIRE(coordinators.Violations() == "");
#ifndef GDF_TESTS_SIM_COORDINATORS_H_
#define GDF_TESTS_SIM_COORDINATORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/consensus/replica.h"
#include "core/trust/node_key.h"
#include "tests/sim/linearizable.h"
#include "tests/sim/node_executor.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sqlite_disk.h"
#include "tests/support/temporary_folder.h"

namespace gdf::sim {

// The record as clients see it: a list to which they append, and which they read whole. Since nothing leaves it, its end says
// in which order what is in it was appended, and a read is known by how much it saw.
struct RecordModel {
  using State = size_t;  // length
  struct Call {
    bool reads = false;
    std::optional<size_t> place = {};  // of what is appended, in the end; none: it is not there
  };
  using Answer = size_t;  // of a read
  static std::optional<State> Apply(const State& length, const Call& call, const std::optional<Answer>& answer) {
    if (call.reads) return !answer || *answer == length ? std::optional(length) : std::nullopt;
    return call.place == length ? std::optional(length + 1) : std::nullopt;
  }
};

class Coordinators {
 public:
  Coordinators(uint64_t seed, int count);
  ~Coordinators();

  SimExecutor& executor() { return executor_; }
  SimNetwork& network() { return network_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  NodeId id(int node) const { return nodes_[node]->key.id(); }
  bool Up(int node) const { return nodes_[node]->replica != nullptr; }
  SqliteDisk& disk(int node) { return nodes_[node]->disk; }
  void set_wall_clock_ahead(int node, absl::Duration ahead) { nodes_[node]->executor.set_ahead(ahead); }

  // Each is a no-op when it is so already. Not from within one of the node's own tasks.
  void Crash(int node);
  void CutPower(int node);
  void Restart(int node);
  // From within one of its own calls; nothing more reaches its disk, and nothing leaves it.
  void CrashFromWithin(int node, bool power);
  void Isolate(int node);
  void Rejoin(int node);

  // Clients that ask the coordinators in turn, one operation after the other, each until one says that it is done, or until
  // the client gives up and does not know.
  void StartClients(int clients, int operations);
  // All clients are done, and all nodes have the same record. False after `limit`.
  bool RunToEnd(absl::Duration limit);

  std::string Violations();

 private:
  struct Node {
    Node(int index, uint64_t seed, const std::string& folder, SimExecutor& world);
    const trust::NodeKey key;
    const std::string path;  // of its database
    NodeExecutor executor;
    SeededRng rng;
    SqliteDisk disk;
    std::unique_ptr<state::State> state;  // null while down
    std::unique_ptr<SimTransport> transport;
    std::unique_ptr<consensus::Replica> replica;
    int64_t time_unix_ms = 0;  // of the log, as seen last
    uint64_t applied = 0;      // of those that were looked at, since the start
  };

  struct Asked {
    std::optional<uint64_t> append;  // none: a read
    absl::Duration called;
    std::optional<absl::Duration> answered = {};
    std::vector<uint64_t> seen = {};
  };

  void Found();
  void AfterStep();
  void Violated(const char* invariant, const std::string& what);
  Task<void> RunClient(int operations);
  Task<void> Append(size_t index, uint64_t value, absl::Duration patience);
  Task<void> Read(size_t index);
  absl::StatusOr<std::vector<uint64_t>> Appended(int node);
  void CheckRecord(int node);
  void CheckHistory(const std::vector<uint64_t>& record);
  bool Settled();

  testing::TemporaryFolder folder_;
  SimExecutor executor_;
  SeededRng rng_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<uint64_t, Digest> order_;  // chain digests of what any node has applied
  std::vector<Asked> history_;
  int clients_left_ = 0;
  std::set<std::string> violations_;
  TaskScope clients_{executor_};
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_COORDINATORS_H_
