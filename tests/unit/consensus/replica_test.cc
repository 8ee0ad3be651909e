#include <algorithm>
#include <iostream>

#include "cluster.h"

namespace gdf::consensus {
namespace {

const sim::NetworkOptions kFar = {.min_delay = absl::Milliseconds(50), .max_delay = absl::Milliseconds(50)};

TEST_CASE("three coordinators choose one, which records what it is asked to") {
  Cluster cluster(1);
  const int leader = cluster.AwaitLeader();
  for (int i = 0; i < 50; ++i) cluster.Submit("event " + std::to_string(i));
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  cluster.CheckLogs();
  for (int i = 0; i < 3; ++i) CHECK(cluster.replica(i).leader() == Cluster::Id(leader));
}

TEST_CASE("a coordinator that does not lead records nothing, and says who does") {
  Cluster cluster(2);
  const int leader = cluster.AwaitLeader();
  const uint64_t before = cluster.state(leader).last_applied();
  std::optional<absl::Status> answer;
  TaskScope client(cluster.executor());
  const auto ask = [](Replica& replica, std::optional<absl::Status>& answer) -> Task<void> {
    wire::Command command;
    command.actor = Cluster::Id(0);
    command.body = wire::JobEvent{{}, Cluster::Id(0), wire::Severity::kInfo, "text"};
    absl::StatusOr<wire::CommandResult> result = co_await replica.Propose(std::move(command));
    answer = result.status();
  };
  client.Spawn(ask(cluster.replica((leader + 1) % 3), answer));
  REQUIRE(cluster.RunUntil([&] { return answer.has_value(); }));
  CHECK(absl::IsUnavailable(*answer));
  CHECK(answer->message().find(Cluster::Id(leader).Short()) != absl::string_view::npos);
  CHECK(cluster.state(leader).last_applied() == before);
}

TEST_CASE("a command that is not allowed gets its refusal and is no entry") {
  Cluster cluster(3);
  const uint64_t before = cluster.state(cluster.AwaitLeader()).last_applied();
  CHECK(absl::IsNotFound(cluster.Do(wire::CancelJob{{7}, ""})));
  CHECK(cluster.Do(wire::AddCoordinator{Cluster::Id(1)}).code() == absl::StatusCode::kAlreadyExists);
  CHECK(cluster.state(*cluster.Leading()).last_applied() == before);
}

TEST_CASE("the leader is lost: another accepts within 5 s at a round trip of 100 ms, in 30 of 30 seeds") {
  std::vector<absl::Duration> times;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed, 3, 3, kFar);
    const int leader = cluster.AwaitLeader();
    cluster.Submit("before");
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
    cluster.Run(absl::Milliseconds(37 * seed));
    cluster.Crash(leader);
    const absl::Duration lost = cluster.executor().Monotonic();
    cluster.Submit("after");
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }, absl::Seconds(5)));
    times.push_back(cluster.executor().Monotonic() - lost);
    cluster.Start(leader);
    cluster.CheckLogs();
  }
  std::sort(times.begin(), times.end());
  std::cout << "leader lost to next command recorded, 30 seeds: median " << times[15] << ", 95 % within " << times[28]
            << ", longest " << times[29] << "\n";
}

TEST_CASE("a leader that is cut off stops leading before another begins, and then follows") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed);
    const int old = cluster.AwaitLeader();
    cluster.CutOff(old);
    cluster.Submit("during");
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
    CHECK(*cluster.Leading() != old);
    CHECK_FALSE(cluster.replica(old).leading());
    CHECK(cluster.RunUntil([&] { return cluster.replica(old).Leaderless() > absl::Seconds(3); }));
    cluster.HealAll();
    cluster.CheckLogs();
    CHECK(cluster.RunUntil([&] { return cluster.replica(old).Leaderless() == absl::ZeroDuration(); }));
  }
}

TEST_CASE("a leader that one coordinator cannot reach goes on leading") {
  Cluster cluster(10);
  const int leader = cluster.AwaitLeader(), apart = (leader + 1) % 3;
  cluster.Cut(leader, apart);
  for (int i = 0; i < 100; ++i) {
    cluster.Run(absl::Milliseconds(100));
    CHECK(cluster.Leading() == leader);
  }
  CHECK(cluster.replica(apart).leader() == std::nullopt);
  cluster.Submit("with two");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  cluster.Heal(leader, apart);
  cluster.CheckLogs();
}

// Figure 8 of the Raft paper (Ongaro and Ousterhout 2014): an entry of an earlier leader that most coordinators have is
// decided only as the new leader's own, or one with a later entry of another leader would take it back.
TEST_CASE("what a leader decides of an earlier one's stays, whoever of those that have it is lost then") {
  for (const bool lose_leader : {true, false}) {
    INFO((lose_leader ? "the leader" : "the other") << " is lost");
    Cluster cluster(11);
    const int first = cluster.AwaitLeader();
    cluster.CutOff(first);
    cluster.SubmitTo(first, "old");
    REQUIRE(cluster.RunUntil([&] { return cluster.Leading().value_or(first) != first; }));
    const int second = *cluster.Leading(), third = 3 - first - second;
    cluster.CutOff(second);
    cluster.SubmitTo(second, "new");
    cluster.Run(absl::Seconds(3));
    cluster.Crash(second);
    cluster.Heal(first, third);
    REQUIRE(cluster.RunUntil([&] { return cluster.Leading() == first; }));
    REQUIRE(cluster.Has(first, "old"));
    cluster.Crash(lose_leader ? first : third);
    cluster.HealAll();
    cluster.Run(absl::Seconds(3));  // nobody leads
    cluster.Start(second);
    cluster.AwaitLeader();
    cluster.Start(lose_leader ? first : third);
    cluster.CheckLogs();
    CHECK(cluster.Has(second, "old"));
    CHECK_FALSE(cluster.Has(second, "new"));
  }
}

TEST_CASE("without a majority nothing is decided; it goes on when the majority is back") {
  Cluster cluster(4);
  const int leader = cluster.AwaitLeader();
  for (int i = 0; i < 3; ++i) {
    if (i != leader) cluster.Crash(i);
  }
  cluster.Run(absl::Seconds(3));
  cluster.Submit("waits");
  cluster.Run(absl::Minutes(5));
  CHECK_FALSE(cluster.Acknowledged("waits"));
  CHECK_FALSE(cluster.Leading());
  cluster.Start((leader + 1) % 3);
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  cluster.Start((leader + 2) % 3);
  cluster.CheckLogs();
}

TEST_CASE("one of two that comes back after thousands of entries catches up") {
  Cluster cluster(5);
  const int away = (cluster.AwaitLeader() + 1) % 3;
  cluster.Crash(away);
  for (int i = 0; i < 3'000; ++i) cluster.Submit("event " + std::to_string(i) + std::string(400, 'x'));
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }, absl::Minutes(10)));
  cluster.Start(away);
  cluster.CheckLogs();
}

TEST_CASE("a coordinator crashes before each of its commits and starts again: nothing acknowledged is lost") {
  for (const bool leads : {true, false}) {
    bool came = true;
    for (uint64_t k = 1; came; ++k) {
      INFO((leads ? "leader" : "follower") << ", before commit " << k);
      Cluster cluster(100 + k);
      const int leader = cluster.AwaitLeader();
      const int node = leads ? leader : (leader + 1) % 3;
      cluster.CrashBeforeCommit(node, k, absl::Seconds(2));
      for (int i = 0; i < 6; ++i) {
        cluster.Submit("event " + std::to_string(i));
        cluster.Run(absl::Milliseconds(150));
      }
      REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
      came = cluster.crash_came(node);
      cluster.Run(absl::Seconds(3));
      cluster.CheckLogs();
    }
  }
}

// What node 1 answers to a leader's call that the test makes as node 0.
wire::LeadAnswer Lead(Cluster& cluster, net::Transport& as, const wire::LeadCall& call) {
  std::optional<absl::StatusOr<Buffer>> reply;
  TaskScope scope(cluster.executor());
  const auto ask = [](net::Transport& as, const wire::LeadCall& call, auto& reply) -> Task<void> {
    const Buffer request(wire::Encode(call));
    reply = co_await as.Call(Cluster::Id(1), "consensus.lead", request, absl::Seconds(5));
  };
  scope.Spawn(ask(as, call, reply));
  REQUIRE(cluster.RunUntil([&] { return reply.has_value(); }));
  REQUIRE(reply->ok());
  return *wire::DecodeLeadAnswer((*reply)->view());
}

TEST_CASE("a call that was overtaken takes back nothing, and one of an earlier term counts for nothing") {
  Cluster cluster(12, 2, 2);
  cluster.Crash(0);
  const std::unique_ptr<sim::SimTransport> leader = cluster.network().Join(Cluster::Id(0));
  state::State& state = cluster.state(1);
  std::vector<std::string> entries;
  for (const char* text : {"a", "b"}) {
    wire::Command command;
    command.request[0] = static_cast<uint8_t>(text[0]);
    command.actor = Cluster::Id(0);
    command.at_unix_ms = state.last_time_unix_ms();
    command.body = wire::JobEvent{{}, Cluster::Id(0), wire::Severity::kInfo, text};
    entries.push_back(wire::EncodeCommand(command));
  }
  const uint64_t last = state.last_applied(), since = state.coordinators_since();
  const Digest before = *state.LogDigest(last);
  const wire::LeadCall first{since, 50, {last, before, {}}, {entries[0]}, true, last};
  CHECK(Lead(cluster, *leader, first).holds == last + 1);
  wire::LeadCall second = first;
  second.decided.after = second.applied = last + 1;
  second.decided.chain = state::NextLogDigest(before, entries[0]);
  second.tail = {entries[1]};
  CHECK(Lead(cluster, *leader, second).holds == last + 2);
  CHECK(state.last_applied() == last + 1);
  CHECK(Lead(cluster, *leader, first).holds == last + 2);
  CHECK(state.ballot()->tail == std::vector<std::string>{entries[1]});
  wire::LeadCall earlier = first;
  earlier.term = 49;
  earlier.tail.clear();
  const wire::LeadAnswer answer = Lead(cluster, *leader, earlier);
  CHECK(answer.term == 50);
  CHECK(answer.holds == 0);
  CHECK(state.ballot()->tail == std::vector<std::string>{entries[1]});
}

TEST_CASE("one coordinator records by itself, becomes one of two and one of three, and alone again") {
  Cluster cluster(6, 3, 1);
  cluster.Submit("alone");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }, absl::Milliseconds(200)));
  for (int i = 1; i < 3; ++i) {
    REQUIRE(cluster.Do(wire::AddCoordinator{Cluster::Id(i)}).ok());
    cluster.CatchUp(i);
    cluster.Submit("with " + std::to_string(i));
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  }
  // The one that leads goes, then the other one that was added.
  const int leader = cluster.AwaitLeader();
  REQUIRE(cluster.Do(wire::RemoveCoordinator{Cluster::Id(leader)}).ok());
  cluster.Submit("without the leader");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  cluster.CatchUp(leader);
  CHECK(cluster.replica(leader).leader() == std::nullopt);
  const int second = cluster.AwaitLeader();
  REQUIRE(cluster.Do(wire::RemoveCoordinator{Cluster::Id(3 - leader - second)}).ok());
  CHECK(cluster.AwaitLeader() == second);
  cluster.Submit("alone again");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  for (int i = 0; i < 3; ++i) cluster.CatchUp(i);
  cluster.CheckLogs();
}

TEST_CASE("a coordinator that was away while others were chosen hears it from who was one with it") {
  for (const bool stays : {true, false}) {
    INFO((stays ? "stays one" : "is removed"));
    Cluster cluster(7, 4, 3);
    const int leader = cluster.AwaitLeader(), away = (leader + 1) % 3, third = 3 - leader - away;
    cluster.Crash(away);
    REQUIRE(cluster.Do(wire::AddCoordinator{Cluster::Id(3)}).ok());
    cluster.CatchUp(3);
    REQUIRE(cluster.Do(wire::RemoveCoordinator{Cluster::Id(stays ? third : away)}).ok());
    cluster.Submit("event");
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
    cluster.CatchUp(third);
    cluster.Start(away);
    REQUIRE(cluster.RunUntil([&] { return cluster.replica(away).leader().has_value() == stays; }));
    REQUIRE(cluster.RunUntil([&] { return cluster.state(away).coordinators_since() == cluster.state(leader).coordinators_since(); }));
  }
}

TEST_CASE("of two coordinators the leader goes, and the other one hears it from the node that is none any more") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed, 2, 2);
    const int leader = cluster.AwaitLeader(), other = 1 - leader;
    // The other one has it on its disk, and does not hear that it is decided.
    cluster.CrashBeforeCommit(other, 2, absl::Seconds(static_cast<double>(seed)));
    REQUIRE(cluster.Do(wire::RemoveCoordinator{Cluster::Id(leader)}).ok());
    REQUIRE(cluster.RunUntil([&] { return cluster.Leading() == other; }));
    cluster.Submit("alone");
    REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  }
}

TEST_CASE("coordinators are chosen anew in the midst of crashes and cuts: every acknowledged command stays, once, in one order") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Cluster cluster(seed, 5, 1 + static_cast<int>(seed % 3));
    SeededRng rng(seed ^ 0xc001);
    const auto members_follow = [&] {
      for (int i = 0; i < 5; ++i) {
        if (cluster.up(i) && !cluster.coordinates(i)) cluster.CatchUp(i);
      }
    };
    for (int step = 0; step < 50; ++step) {
      const int node = static_cast<int>(rng.Below(5)), other = static_cast<int>(rng.Below(5));
      switch (rng.Below(8)) {
        case 0: cluster.Start(wire::AddCoordinator{Cluster::Id(node)}); break;
        case 1: cluster.Start(wire::RemoveCoordinator{Cluster::Id(node)}); break;
        case 2:
          if (cluster.up(node)) cluster.CrashBeforeCommit(node, 1 + rng.Below(4), absl::Milliseconds(rng.Below(4000)));
          break;
        case 3:
          if (node != other) cluster.Cut(node, other);
          break;
        case 4:
        case 5: cluster.HealAll(); break;
        default: break;
      }
      cluster.Submit("event " + std::to_string(step));
      cluster.Run(absl::Milliseconds(rng.Below(1500)));
      members_follow();
    }
    cluster.HealAll();
    for (int i = 0; i < 5; ++i) cluster.CrashBeforeCommit(i, 0, {});
    REQUIRE(cluster.RunUntil(
        [&] {
          members_follow();
          return cluster.AllAcknowledged();
        },
        absl::Minutes(5)));
    cluster.Run(absl::Seconds(10));
    members_follow();
    cluster.CheckLogs();
  }
}

TEST_CASE("one that has forgotten its promises follows, and votes again once the coordinators are chosen anew") {
  Cluster cluster(8);
  const int leader = cluster.AwaitLeader(), forgetful = (leader + 1) % 3, third = 3 - leader - forgetful;
  cluster.Crash(forgetful);
  REQUIRE(cluster.state(forgetful).Abstain().ok());
  cluster.Start(forgetful);
  cluster.Submit("first");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  cluster.CheckLogs();
  cluster.Crash(third);
  cluster.Run(absl::Seconds(2));
  cluster.Submit("waits for the third");
  cluster.Run(absl::Seconds(30));
  CHECK_FALSE(cluster.AllAcknowledged());
  cluster.Start(third);
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  REQUIRE(cluster.Do(wire::RemoveCoordinator{Cluster::Id(forgetful)}).ok());
  cluster.CatchUp(forgetful);
  REQUIRE(cluster.Do(wire::AddCoordinator{Cluster::Id(forgetful)}).ok());
  cluster.CatchUp(forgetful);
  cluster.AwaitLeader();
  cluster.Crash(third);
  cluster.Submit("without the third");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
}

TEST_CASE("a coordinator whose log is another one is told, and takes nothing") {
  Cluster cluster(9);
  const int leader = cluster.AwaitLeader(), forked = (leader + 1) % 3;
  cluster.Crash(forked);
  wire::Command command;
  command.actor = Cluster::Id(0);
  command.at_unix_ms = cluster.state(forked).last_time_unix_ms();
  command.body = wire::JobEvent{{}, Cluster::Id(0), wire::Severity::kInfo, "only here"};
  REQUIRE(cluster.state(forked).Append(command)->status.ok());
  cluster.Submit("elsewhere");
  REQUIRE(cluster.RunUntil([&] { return cluster.AllAcknowledged(); }));
  const uint64_t entries = cluster.state(forked).last_applied();
  cluster.Start(forked);
  REQUIRE(cluster.RunUntil([&] { return !cluster.replica(forked).problem().ok(); }));
  CHECK(absl::IsDataLoss(cluster.replica(forked).problem()));
  CHECK(cluster.state(forked).last_applied() == entries);
}

}  // namespace
}  // namespace gdf::consensus
