// One job on simulated nodes: network, disks, clocks, workers and coordinator, with faults on demand, and the invariants
// that must hold whatever happened (invariants.h).
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

#include "core/rounds/job_member.h"
#include "core/schedule/losses.h"
#include "tests/sim/job_options.h"
#include "tests/sim/node_executor.h"
#include "tests/sim/recompute.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_pool.h"
#include "tests/sim/sim_worker.h"

namespace gdf::sim {

class Invariants;

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
  const JobOptions& options() const { return options_; }
  int IndexOf(const NodeId& id) const;

  // The process of `node` is no more; its disk stays as the process saw it. Not from within one of the node's own tasks.
  void Crash(int node);
  // As Crash, and the machine's power is cut: its disk may have lost what was not synced.
  void CutPower(int node);
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
  // Of workers that start from now on.
  void set_worker_trouble(int node, WorkerTrouble trouble) { nodes_[node]->trouble = std::move(trouble); }
  // Told a node's local parameters before each of its steps. Of workers that start from now on.
  void set_before_step(std::function<void(int node, int64_t step, absl::Span<const float> local)> told) {
    before_step_ = std::move(told);
  }
  // Asked before each step of the node's disk.
  void set_disk_fault(int node, SimDisk::Before before) { nodes_[node]->disk_fault = std::move(before); }
  // No bytes more than are there now, and `more`; none: any number.
  void set_disk_room(int node, std::optional<uint64_t> more);
  // What takes disk or processor takes up to this.
  void set_slowness(int node, absl::Duration slowness) { nodes_[node]->slowness = slowness; }
  // Its process is stopped, and goes on.
  void Freeze(int node);
  void Thaw(int node);
  void set_wall_clock_ahead(int node, absl::Duration ahead) { nodes_[node]->executor.set_ahead(ahead); }
  // Crashes `node` at once as seen from outside, from within one of its own calls.
  void CrashFromWithin(int node, bool power = false);
  // Bytes of an exchange were not what their sender sent: what it comes to is not computed again.
  void TellTampered();

  // Which nodes the coordinator says are not there; at first those that are down.
  void set_sees_offline(std::function<bool(int node)> sees) { sees_offline_ = std::move(sees); }
  // Told of each round before the coordinator hears of it; a reporting node that crashes there takes its report with it.
  void set_on_report(std::function<void(const wire::ReportJob&)> hook) { on_report_ = std::move(hook); }
  // A majority loses what it did not have to save: a round may be committed a second time, with another result.
  void set_may_roll_back();

  // Runs until the coordinator has the job's verdict and every node that is up has ended it. False after `limit`.
  bool RunToEnd(absl::Duration limit = absl::Hours(4));

  // --- What happened ---
  bool finished() const { return finish_.has_value(); }
  wire::Verdict verdict() const { return finish_ ? finish_->verdict : wire::Verdict::kNone; }
  const std::string& reason() const { return finish_->reason; }
  const wire::EpochRecord& epoch() const { return epochs_.back(); }
  const std::vector<wire::ReportJob>& reports() const { return reports_; }
  const EmitJournal& journal() const { return journal_; }
  const std::vector<wire::JobEvent>& events() const { return events_; }
  // Who was taken out for good, and why.
  const std::map<NodeId, std::string>& excluded() const { return excluded_; }
  bool HasEvent(std::string_view text) const;
  // It has begun with what its disk held, and goes on.
  bool restored(int node) const { return nodes_[node]->instance != nullptr && nodes_[node]->restored; }
  const rounds::JobMember* member(int node) const;
  // How the job ended on `node`, if it has.
  const std::optional<absl::Status>& ended(int node) const { return nodes_[node]->ended; }
  // From the disk of `node`, by round.
  std::map<RoundId, CommittedRound> Committed(int node);
  // What the disk of `node` is certain to have after a power cut now.
  checkpoint::Loaded Durable(int node) const;
  absl::StatusOr<std::vector<NodeId>> MembersOf(Epoch epoch) const;
  absl::Status CheckCommit(const wire::Commit& commit) const;
  const std::optional<wire::FinishJob>& verdict_given() const { return finish_; }
  const Recompute& recompute() const { return recompute_; }
  const InnerJournal& inner_states() const { return inner_states_; }
  // Has its disk ever been full? Then it may lack what was committed without it.
  bool was_full(int node) const { return nodes_[node]->was_full; }
  const SimTransport* transport(int node) const { return nodes_[node]->transport.get(); }

  // Every invariant that did not hold, one a line.
  std::string Violations();

 private:
  struct Instance;
  struct Node {
    Node(int index, uint64_t seed, SimExecutor& world);
    trust::NodeKey key;
    NodeId id;
    NodeExecutor executor;
    SimDisk disk;
    SimDisk::Before disk_fault;
    bool dying = false;  // nothing more reaches the disk
    bool was_full = false;
    absl::Duration slowness;
    SimWorker::Fault worker_fault;
    absl::Duration step_time = SimWorkerOptions{}.step_time;
    WorkerTrouble trouble;
    std::optional<config::JobSpec> spec;  // instead of the job's
    std::unique_ptr<SimTransport> transport;  // null while down
    std::unique_ptr<SimPool> pool;
    std::unique_ptr<Instance> instance;
    std::unique_ptr<TaskScope> scope;
    std::optional<absl::Status> ended;
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
  std::unique_ptr<rounds::Coordinator> CoordinatorOf(const NodeId& node);
  void Say(const std::string& what);
  absl::Duration Delay();
  absl::Status OnRequestEpoch(const NodeId& from, const rounds::EpochRequest& request);
  absl::Status OnFinish(const NodeId& from, const wire::FinishJob& finish);
  void DropInstances();

  const JobOptions options_;
  const uint64_t seed_;
  config::JobSpec spec_;
  SimExecutor executor_;
  SeededRng rng_;
  SimNetwork network_;
  EmitJournal journal_;
  ProjectionJournal projections_;
  InnerJournal inner_states_;
  std::vector<wire::EpochRecord> epochs_;
  schedule::Losses losses_;  // said in the last of them
  std::optional<wire::FinishJob> finish_;
  std::vector<wire::ReportJob> reports_;
  std::set<int> put_out_;
  std::map<NodeId, std::string> excluded_;
  std::vector<wire::JobEvent> events_;
  std::function<void(const std::string&)> say_;
  std::function<void(int, int64_t, absl::Span<const float>)> before_step_;
  std::function<void(const wire::ReportJob&)> on_report_;
  std::function<bool(int)> sees_offline_ = [this](int node) { return !Up(node); };
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<NodeId> ids_;  // of nodes_
  const Recompute recompute_{options_, spec_, journal_, projections_, inner_states_, ids_};
  std::unique_ptr<Invariants> invariants_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_JOB_H_
