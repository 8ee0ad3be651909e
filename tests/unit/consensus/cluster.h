// Coordinators over the simulated network, each with its state in memory, which is its disk: a crash keeps what was
// committed. Every 100 ms of simulated time it is checked that no two lead at once.
#ifndef GDF_TESTS_UNIT_CONSENSUS_CLUSTER_H_
#define GDF_TESTS_UNIT_CONSENSUS_CLUSTER_H_

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/consensus/replica.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/state/fixture.h"

namespace gdf::consensus {

class Cluster {
 public:
  // Node 0 founds the network; all `nodes` are members of it, the first `coordinators` of them coordinate.
  explicit Cluster(uint64_t seed, int nodes = 3, int coordinators = 3,
                   sim::NetworkOptions options = {.min_delay = absl::Milliseconds(5),
                                                  .max_delay = absl::Milliseconds(60)})
      : rng_(MixSeed(seed, 14)), network_(executor_, seed, options) {
    state::World founder;
    founder.Found();
    for (int i = 1; i < nodes; ++i) founder.Admit(Name(i), {trust::Role::kContributor});
    for (int i = 1; i < coordinators; ++i) REQUIRE(founder.Do("c", wire::AddCoordinator{Id(i)}).ok());
    const auto log = *founder.state->LogEntries(1, size_t{1} << 30);
    for (int i = 0; i < nodes; ++i) {
      nodes_.push_back(std::make_unique<Node>());
      nodes_.back()->state = *state::State::OpenInMemory();
      for (const state::LogEntry& entry : log) REQUIRE(state(i).Apply(entry.index, entry.command).ok());
    }
    founded_ = log.size();
    for (int i = 0; i < nodes; ++i) Start(i);
  }
  ~Cluster() {
    clients_.Clear();
    for (auto& node : nodes_) node->replica.reset();
  }

  static std::string Name(int i) { return i == 0 ? "c" : std::string(1, static_cast<char>('m' + i)); }
  static NodeId Id(int i) { return state::IdOf(Name(i)); }
  int size() const { return static_cast<int>(nodes_.size()); }
  SimExecutor& executor() { return executor_; }
  sim::SimNetwork& network() { return network_; }
  state::State& state(int i) { return *nodes_[i]->state; }
  Replica& replica(int i) { return *nodes_[i]->replica; }
  bool up(int i) const { return nodes_[i]->replica != nullptr; }
  uint64_t commits(int i) const { return nodes_[i]->commits; }

  void Start(int i) {
    Node& node = *nodes_[i];
    node.dying = false;
    node.transport = network_.Join(Id(i));
    node.state->set_before_commit([this, i] { return OnCommit(i); });
    node.replica = std::make_unique<Replica>(Environment{*node.transport, *node.state, rng_});
  }
  void Crash(int i) {
    nodes_[i]->replica.reset();
    nodes_[i]->transport.reset();
  }
  // Node `i` ends just before its `k`-th commit from now on, and starts again after `pause`.
  void CrashBeforeCommit(int i, uint64_t k, absl::Duration pause) {
    nodes_[i]->commits = 0;
    nodes_[i]->crash_before = k;
    nodes_[i]->pause = pause;
  }
  bool crash_came(int i) const { return nodes_[i]->crash_before == 0; }

  std::optional<int> Leading() {
    std::optional<int> leading;
    for (int i = 0; i < size(); ++i) {
      if (!up(i) || !replica(i).leading()) continue;
      CHECK_FALSE(leading);
      leading = i;
    }
    return leading;
  }
  bool RunUntil(std::function<bool()> done, absl::Duration limit = absl::Seconds(60)) {
    const absl::Duration end = executor_.Monotonic() + limit;
    while (!done()) {
      if (executor_.Monotonic() >= end) return false;
      Run(absl::Milliseconds(100));
    }
    return true;
  }
  void Run(absl::Duration time) {
    const absl::Duration end = executor_.Monotonic() + time;
    bool over = false;
    executor_.PostAfter(time, [&over] { over = true; });
    executor_.RunUntil([&] { return over; }, time);
    REQUIRE(executor_.Monotonic() >= end);
    (void)Leading();
  }
  int AwaitLeader(absl::Duration limit = absl::Seconds(20)) {
    REQUIRE(RunUntil([&] { return Leading().has_value(); }, limit));
    return *Leading();
  }

  // A client asks the coordinators in turn to record an event with this text, until one says that it is done.
  void Submit(const std::string& text) {
    submitted_.insert(text);
    clients_.Spawn(Ask(EventOf(text), text));
  }
  // As Do, without waiting for the answer.
  void Start(wire::CommandBody body) { clients_.Spawn(Ask(std::move(body), "do " + std::to_string(++asked_))); }
  // Node `i` alone is asked, once.
  void SubmitTo(int i, const std::string& text) { clients_.Spawn(AskOnce(i, EventOf(text))); }
  bool Has(int i, const std::string& text) {
    const auto events = state(i).events(0, {}, 100'000);
    REQUIRE(events.ok());
    return std::any_of(events->begin(), events->end(), [&](const state::Event& event) { return event.text == text; });
  }
  // What an administrator asks for; the answer comes in time.
  absl::Status Do(wire::CommandBody body) {
    const std::string id = "do " + std::to_string(++asked_);
    clients_.Spawn(Ask(std::move(body), id));
    REQUIRE(RunUntil([&] { return answers_.contains(id); }));
    return answers_.at(id);
  }
  bool Acknowledged(const std::string& text) const {
    const auto it = answers_.find(text);
    return it != answers_.end() && it->second.ok();
  }
  bool AllAcknowledged() const {
    for (const std::string& text : submitted_) {
      if (!Acknowledged(text)) return false;
    }
    return true;
  }

  // All that are up have the same log, with every acknowledged event once and none twice.
  void CheckLogs() {
    REQUIRE(RunUntil([&] {
      for (int i = 0; i < size(); ++i) {
        if (up(i) && state(i).last_applied() != state(FirstUp()).last_applied()) return false;
      }
      return true;
    }));
    const int first = FirstUp();
    for (int i = 0; i < size(); ++i) {
      if (up(i)) CHECK(*state(i).LogDigest(state(i).last_applied()) == *state(first).LogDigest(state(first).last_applied()));
      if (up(i)) CHECK(*state(i).StateDigest() == *state(first).StateDigest());
    }
    std::map<std::string, int> found;
    const auto events = state(first).events(0, {}, 100'000);
    REQUIRE(events.ok());
    for (const state::Event& event : *events) ++found[event.text];
    for (const std::string& text : submitted_) {
      INFO(text);
      CHECK(found[text] <= 1);
      if (Acknowledged(text)) CHECK(found[text] == 1);
    }
  }
  bool coordinates(int i) {
    const std::vector<NodeId> coordinators = state(i).network()->coordinators;
    return std::find(coordinators.begin(), coordinators.end(), Id(i)) != coordinators.end();
  }
  // Node `i` has all that any node has, as a member that follows does.
  void CatchUp(int i) {
    for (int j = 0; j < size(); ++j) {
      const auto log = state(j).LogEntries(state(i).last_applied() + 1, size_t{1} << 30);
      REQUIRE(log.ok());
      for (const state::LogEntry& entry : *log) {
        const absl::Status applied = state(i).Apply(entry.index, entry.command).status();
        if (nodes_[i]->dying) return;
        INFO(applied);
        REQUIRE(applied.ok());
      }
    }
  }
  void Cut(int i, int j) { network_.Cut(Id(i), Id(j)); }
  void Heal(int i, int j) { network_.Heal(Id(i), Id(j)); }
  void CutOff(int i) {
    for (int j = 0; j < size(); ++j) {
      if (j != i) Cut(i, j);
    }
  }
  void HealAll() {
    for (int i = 0; i < size(); ++i) {
      for (int j = 0; j < i; ++j) Heal(i, j);
    }
  }

 private:
  struct Node {
    std::unique_ptr<state::State> state;
    std::unique_ptr<sim::SimTransport> transport;
    std::unique_ptr<Replica> replica;
    uint64_t commits = 0, crash_before = 0;
    absl::Duration pause;
    bool dying = false;
  };
  int FirstUp() const {
    for (int i = 0; i < size(); ++i) {
      if (up(i)) return i;
    }
    return 0;
  }
  absl::Status OnCommit(int i) {
    Node& node = *nodes_[i];
    if (node.dying) return absl::UnavailableError("this process has crashed");
    if (++node.commits != node.crash_before) return absl::OkStatus();
    node.crash_before = 0;
    node.dying = true;
    node.transport->Mute();
    executor_.Post([this, i] { Crash(i); });
    executor_.PostAfter(node.pause, [this, i] { Start(i); });
    return absl::UnavailableError("this process has crashed");
  }
  static wire::JobEvent EventOf(const std::string& text) { return {{}, Id(0), wire::Severity::kInfo, text}; }
  wire::Command CommandOf(wire::CommandBody body) {
    wire::Command command;
    rng_.Fill(absl::MakeSpan(command.request));
    command.actor = Id(0);
    command.body = std::move(body);
    return command;
  }
  Task<void> AskOnce(int i, wire::CommandBody body) {
    wire::Command command = CommandOf(std::move(body));
    (void)co_await replica(i).Propose(std::move(command));
  }
  Task<void> Ask(wire::CommandBody body, std::string id) {
    const wire::Command command = CommandOf(std::move(body));
    for (int i = static_cast<int>(rng_.Below(nodes_.size()));; i = (i + 1) % size()) {
      if (up(i)) {
        absl::StatusOr<wire::CommandResult> result = co_await replica(i).Propose(command);
        if (result.ok()) {
          answers_[id] = result->status;
          co_return;
        }
      }
      co_await Sleep(executor_, absl::Milliseconds(50));
    }
  }

  SimExecutor executor_;
  SeededRng rng_;
  sim::SimNetwork network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  uint64_t founded_ = 0, asked_ = 0;
  std::set<std::string> submitted_;
  std::map<std::string, absl::Status> answers_;
  TaskScope clients_{executor_};
};

}  // namespace gdf::consensus

#endif  // GDF_TESTS_UNIT_CONSENSUS_CLUSTER_H_
