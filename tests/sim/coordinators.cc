#include "tests/sim/coordinators.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/state/command_log.h"
#include "core/trust/genesis.h"

namespace gdf::sim {
namespace {

constexpr char kPrefix[] = "value ";  // of an event's text
constexpr absl::Duration kHop = absl::Milliseconds(30);  // from a client to a coordinator, and back

wire::NodeProfile ProfileOf(int index) {
  wire::NodeProfile profile;
  profile.name = absl::StrCat("node", index);
  profile.addresses = {"192.0.2.1:7420"};
  profile.resources = {8, uint64_t{16} << 30, uint64_t{100} << 30, {}};
  profile.version = "0.1.0";
  return profile;
}

trust::NodeKey KeyOf(int index, uint64_t seed) {
  SeededRng rng(MixSeed(seed, 0x636f6f7264, static_cast<uint64_t>(index)));
  return trust::NodeKey::Generate(rng);
}

// A folder of its own for each disk.
std::string FolderOf(const std::string& folder, int index) {
  const std::string own = absl::StrCat(folder, "/", index);
  GDF_CHECK(PosixFileSystem().MakeFolders(own, 0700).ok());
  return own;
}

}  // namespace

Coordinators::Node::Node(int index, uint64_t seed, const std::string& folder, SimExecutor& world)
    : key(KeyOf(index, seed)),
      path(absl::StrCat(FolderOf(folder, index), "/state.db")),
      executor(world),
      rng(MixSeed(seed, 0x726e67, static_cast<uint64_t>(index))),
      disk(FolderOf(folder, index), MixSeed(seed, 0x6469736b, static_cast<uint64_t>(index))) {}

Coordinators::Coordinators(uint64_t seed, int count)
    : rng_(MixSeed(seed, 0x636c69656e74)), network_(executor_, seed) {
  for (int i = 0; i < count; ++i) nodes_.push_back(std::make_unique<Node>(i, seed, folder_.path(), executor_));
  Found();
  for (int i = 0; i < count; ++i) Restart(i);
}

Coordinators::~Coordinators() {
  clients_.Clear();
  for (int i = 0; i < size(); ++i) Crash(i);
}

// Node 0 founds the network, the others join it and become coordinators; each begins with that on its disk.
void Coordinators::Found() {
  const std::unique_ptr<state::State> founder = *state::State::OpenInMemory();
  state::CommandLog log(*founder, executor_);
  const auto record = [&](int actor, wire::CommandBody body) {
    wire::Command command;
    rng_.Fill(absl::MakeSpan(command.request));
    command.actor = id(actor);
    command.body = std::move(body);
    const absl::StatusOr<wire::CommandResult> result = log.Propose(std::move(command));
    GDF_CHECK(result.ok() && result->status.ok());
  };
  trust::Genesis genesis;
  genesis.name = "my-net";
  genesis.created_unix_ms = absl::ToUnixMillis(executor_.Now());
  genesis.coordinator_key = nodes_[0]->key.public_key();
  genesis.policy.max_members = 100;
  const std::string signed_record = *genesis.Sign(nodes_[0]->key);
  record(0, wire::CreateNetwork{signed_record, ProfileOf(0)});
  for (int i = 1; i < size(); ++i) {
    wire::Join join;
    join.network = trust::NetworkIdOf(signed_record);
    rng_.Fill(absl::MakeSpan(join.invite));
    trust::InviteSecret secret;
    rng_.Fill(absl::MakeSpan(secret));
    join.secret_hash = trust::InviteSecretHash(join.invite, secret);
    join.public_key = nodes_[i]->key.public_key();
    join.node = ProfileOf(i);
    const trust::RoleSet roles = {trust::Role::kContributor};
    record(0, wire::CreateInvite{join.invite, join.secret_hash, roles.bits(),
                                 absl::ToUnixMillis(executor_.Now()) + 3'600'000, 1});
    record(i, join);
    record(0, wire::AddCoordinator{id(i)});
  }
  const auto entries = *founder->LogEntries(1, size_t{1} << 30);
  for (const auto& node : nodes_) {
    const std::unique_ptr<state::State> state = *state::State::Open(node->path);
    for (const state::LogEntry& entry : entries) GDF_CHECK(state->Apply(entry.index, entry.command).ok());
  }
}

// --- Life of a node ---

void Coordinators::Restart(int index) {
  Node& node = *nodes_[index];
  if (Up(index)) return;
  node.disk.Revive();
  absl::StatusOr<std::unique_ptr<state::State>> state = state::State::Open(node.path);
  if (!state.ok() && node.disk.dead()) return;  // it ended while it started, and is started again by whoever ended it
  if (!state.ok()) {
    // A full disk may keep it from starting.
    if (!absl::IsResourceExhausted(state.status())) Violated("kept", absl::StrCat("node ", index, ": ", state.status().ToString()));
    executor_.PostAfter(absl::Seconds(1), [this, index] { Restart(index); });
    return;
  }
  node.state = *std::move(state);
  node.transport = network_.Join(id(index), node.executor);
  node.applied = 0;
  node.replica = std::make_unique<consensus::Replica>(consensus::Environment{*node.transport, *node.state, node.rng});
}

void Coordinators::Crash(int index) {
  Node& node = *nodes_[index];
  if (!Up(index)) return;
  node.disk.Die();
  node.transport->Mute();
  node.replica.reset();
  node.transport.reset();
  node.state.reset();
}

void Coordinators::CutPower(int index) {
  Crash(index);
  nodes_[index]->disk.CutPower();
}

void Coordinators::CrashFromWithin(int index, bool power) {
  nodes_[index]->disk.Die();
  if (nodes_[index]->transport) nodes_[index]->transport->Mute();
  executor_.Post([this, index, power] { power ? CutPower(index) : Crash(index); });
}

void Coordinators::Isolate(int node) {
  for (int i = 0; i < size(); ++i) {
    if (i != node) network_.Cut(id(node), id(i));
  }
}

void Coordinators::Rejoin(int node) {
  for (int i = 0; i < size(); ++i) {
    if (i != node) network_.Heal(id(node), id(i));
  }
}

// --- Clients ---

void Coordinators::StartClients(int clients, int operations) {
  clients_left_ += clients;
  for (int i = 0; i < clients; ++i) clients_.Spawn(RunClient(operations));
}

Task<void> Coordinators::RunClient(int operations) {
  for (int i = 0; i < operations; ++i) {
    co_await Sleep(executor_, absl::Milliseconds(static_cast<int64_t>(rng_.Below(1500))));
    const size_t index = history_.size();
    if (rng_.Below(3) == 0) {
      history_.push_back({std::nullopt, executor_.Monotonic()});
      co_await Read(index);
    } else {
      const bool impatient = rng_.Below(5) == 0;
      const uint64_t value = index + 1;
      history_.push_back({value, executor_.Monotonic()});
      co_await Append(index, value, impatient ? absl::Milliseconds(static_cast<int64_t>(rng_.Below(1000))) : absl::InfiniteDuration());
    }
  }
  --clients_left_;
}

Task<void> Coordinators::Append(size_t index, uint64_t value, absl::Duration patience) {
  wire::Command command;
  rng_.Fill(absl::MakeSpan(command.request));
  command.actor = id(0);
  command.body = wire::JobEvent{{}, id(0), wire::Severity::kInfo, absl::StrCat(kPrefix, value)};
  const absl::Duration begin = executor_.Monotonic();
  for (int i = static_cast<int>(rng_.Below(nodes_.size()));; i = (i + 1) % size()) {
    co_await Sleep(executor_, kHop * rng_.Unit());
    if (executor_.Monotonic() - begin > patience) co_return;
    if (!Up(i)) continue;
    absl::StatusOr<wire::CommandResult> result = co_await nodes_[i]->replica->Propose(command);
    if (!result.ok()) continue;
    if (!result->status.ok()) Violated("kept", absl::StrCat("an event was refused: ", result->status.message()));
    co_await Sleep(executor_, kHop * rng_.Unit());
    history_[index].answered = executor_.Monotonic();
    co_return;
  }
}

// Of a coordinator that says that its record is the network's.
Task<void> Coordinators::Read(size_t index) {
  for (int i = static_cast<int>(rng_.Below(nodes_.size()));; i = (i + 1) % size()) {
    co_await Sleep(executor_, kHop * rng_.Unit());
    if (!Up(i) || !nodes_[i]->replica->leading()) continue;
    absl::StatusOr<std::vector<uint64_t>> seen = Appended(i);
    if (!seen.ok()) continue;
    history_[index].seen = *std::move(seen);
    co_await Sleep(executor_, kHop * rng_.Unit());
    history_[index].answered = executor_.Monotonic();
    co_return;
  }
}

absl::StatusOr<std::vector<uint64_t>> Coordinators::Appended(int node) {
  const auto events = nodes_[node]->state->events(0, {}, 100'000);
  if (!events.ok()) return events.status();
  std::vector<uint64_t> values;
  for (const state::Event& event : *events) {
    uint64_t value = 0;
    if (absl::StartsWith(event.text, kPrefix) && absl::SimpleAtoi(event.text.substr(sizeof(kPrefix) - 1), &value)) {
      values.push_back(value);
    }
  }
  return values;
}

// --- Invariants ---

void Coordinators::Violated(const char* invariant, const std::string& what) {
  violations_.insert(absl::StrCat(invariant, ": ", what));
}

void Coordinators::AfterStep() {
  std::optional<int> leads;
  for (int i = 0; i < size(); ++i) {
    if (!Up(i)) continue;
    Node& node = *nodes_[i];
    if (node.replica->leading()) {
      if (leads) Violated("one leader", absl::StrCat("nodes ", *leads, " and ", i, " lead at once"));
      leads = i;
    }
    for (const uint64_t last = node.state->last_applied(); node.applied < last;) {
      const absl::StatusOr<Digest> chain = node.state->LogDigest(++node.applied);
      if (!chain.ok()) break;  // its disk is no more
      const auto [it, fresh] = order_.emplace(node.applied, *chain);
      if (it->second != *chain) Violated("one order", absl::StrCat("entry ", node.applied, " of node ", i, " is another one"));
      if (node.state->last_time_unix_ms() < node.time_unix_ms) Violated("time", absl::StrCat("the log of node ", i, " goes back"));
      node.time_unix_ms = node.state->last_time_unix_ms();
    }
  }
}

bool Coordinators::Settled() {
  for (int i = 0; i < size(); ++i) {
    if (!Up(i) || nodes_[i]->state->last_applied() != order_.rbegin()->first) return false;
  }
  return true;
}

bool Coordinators::RunToEnd(absl::Duration limit) {
  return executor_.RunUntil(
      [this] {
        AfterStep();
        return clients_left_ == 0 && Settled();
      },
      limit);
}

std::string Coordinators::Violations() {
  for (int i = 0; i < size(); ++i) {
    if (Up(i)) CheckRecord(i);
  }
  return absl::StrJoin(violations_, "\n");
}

void Coordinators::CheckRecord(int node) {
  const absl::StatusOr<std::vector<uint64_t>> record = Appended(node);
  if (!record.ok()) return Violated("kept", absl::StrCat("node ", node, ": ", record.status().ToString()));
  std::map<uint64_t, int> times;
  for (const uint64_t value : *record) {
    if (++times[value] > 1) Violated("kept", absl::StrCat("node ", node, " has value ", value, " more than once"));
  }
  for (const Asked& asked : history_) {
    if (asked.append && asked.answered && times[*asked.append] == 0) {
      Violated("kept", absl::StrCat("value ", *asked.append, " was acknowledged, and node ", node, " does not have it"));
    }
  }
  CheckHistory(*record);
}

void Coordinators::CheckHistory(const std::vector<uint64_t>& record) {
  std::map<uint64_t, size_t> places;
  for (size_t i = 0; i < record.size(); ++i) places.emplace(record[i], i);
  std::vector<Operation<RecordModel>> history;
  for (const Asked& asked : history_) {
    Operation<RecordModel> operation{{.reads = !asked.append}, asked.called, asked.answered, {}};
    if (!asked.append) operation.answer = asked.seen.size();
    if (asked.append && places.count(*asked.append) > 0) operation.call.place = places[*asked.append];
    const bool beginning = asked.seen.size() <= record.size() && std::equal(asked.seen.begin(), asked.seen.end(), record.begin());
    if (!beginning) Violated("linearizable", "a read saw what is not how the record begins");
    history.push_back(std::move(operation));
  }
  history.push_back({{.reads = true}, executor_.Monotonic(), executor_.Monotonic(), record.size()});
  if (!Linearizable<RecordModel>(std::move(history), 0)) Violated("linearizable", "no one order explains what the clients saw");
}

}  // namespace gdf::sim
