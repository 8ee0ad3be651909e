// A network with a coordinator "c" (all roles) and a log whose clock the test owns.
#ifndef GDF_TESTS_UNIT_STATE_FIXTURE_H_
#define GDF_TESTS_UNIT_STATE_FIXTURE_H_

#include <catch2/catch.hpp>

#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "core/base/executor.h"
#include "core/base/rng.h"
#include "core/state/command_log.h"
#include "core/state/state.h"

namespace gdf::state {

inline trust::NodeKey KeyOf(std::string_view name) {
  trust::NodeKey::Seed seed = HashBytes(name).bytes;
  return trust::NodeKey::FromSeed(seed);
}
inline NodeId IdOf(std::string_view name) { return KeyOf(name).id(); }

inline wire::NodeProfile ProfileOf(std::string_view name) {
  wire::NodeProfile profile;
  profile.name = std::string(name);
  profile.addresses = {"192.0.2.1:7420"};
  profile.resources = {8, uint64_t{16} << 30, uint64_t{100} << 30, {{"H200", uint64_t{139} << 30}}};
  profile.version = "0.1.0";
  return profile;
}

inline std::string GenesisRecord(std::string_view name = "my-net", std::string_view coordinator = "c",
                                 uint32_t max_members = 100) {
  const trust::NodeKey key = KeyOf(coordinator);
  trust::Genesis genesis;
  genesis.name = std::string(name);
  genesis.created_unix_ms = 1'700'000'000'000;
  genesis.coordinator_key = key.public_key();
  genesis.policy.max_members = max_members;
  return *genesis.Sign(key);
}

class World {
 public:
  explicit World(std::unique_ptr<State> opened = *State::OpenInMemory())
      : state(std::move(opened)), log(*state, clock), rng(state->last_applied() + 1) {}

  absl::StatusOr<wire::CommandResult> Propose(std::string_view actor, wire::CommandBody body) {
    wire::Command command;
    rng.Fill(absl::MakeSpan(command.request));
    command.actor = IdOf(actor);
    command.body = std::move(body);
    return log.Propose(std::move(command));
  }
  // The result's status; OK also means that the log took it.
  absl::Status Do(std::string_view actor, wire::CommandBody body) {
    const absl::StatusOr<wire::CommandResult> result = Propose(actor, std::move(body));
    return result.ok() ? result->status : result.status();
  }
  // Refused with this code and a message that has `text`; nothing changed, the log neither.
  void Refused(std::string_view actor, wire::CommandBody body, absl::StatusCode code, std::string_view text) {
    const uint64_t before = state->last_applied();
    const size_t events = state->events(0)->size();
    const absl::StatusOr<wire::CommandResult> result = Propose(actor, std::move(body));
    REQUIRE(result.ok());
    INFO(result->status);
    CHECK(result->status.code() == code);
    CHECK(std::string(result->status.message()).find(text) != std::string::npos);
    CHECK(state->last_applied() == before);
    CHECK(state->events(0)->size() == events);
  }

  void Found(uint32_t max_members = 100) {
    REQUIRE(Do("c", wire::CreateNetwork{GenesisRecord("my-net", "c", max_members), ProfileOf("c")}).ok());
  }
  int64_t now_ms() const { return absl::ToUnixMillis(clock.Now()); }

  static wire::InviteId InviteIdOf(std::string_view name) {
    wire::InviteId id;
    std::memcpy(id.data(), HashBytes(name).bytes.data(), id.size());
    return id;
  }
  static Digest SecretHashOf(std::string_view name) {
    trust::InviteSecret secret;
    std::memcpy(secret.data(), HashBytes(name).bytes.data(), secret.size());
    return trust::InviteSecretHash(InviteIdOf(name), secret);
  }
  wire::CreateInvite Invite(std::string_view name, trust::RoleSet roles, uint32_t uses = 1) const {
    return {InviteIdOf(name), SecretHashOf(name), roles.bits(), now_ms() + 3'600'000, uses};
  }
  wire::Join JoinWith(std::string_view invite, std::string_view node) const {
    wire::Join join;
    join.network = trust::NetworkIdOf(GenesisRecord());
    if (const auto network = state->network(); network.ok()) join.network = network->id;
    join.invite = InviteIdOf(invite);
    join.secret_hash = SecretHashOf(invite);
    join.public_key = KeyOf(node).public_key();
    join.node = ProfileOf(node);
    return join;
  }
  void Admit(std::string_view node, trust::RoleSet roles) {
    const std::string invite = "for-" + std::string(node);
    REQUIRE(Do("c", Invite(invite, roles)).ok());
    REQUIRE(Do(node, JoinWith(invite, node)).ok());
  }

  static wire::SubmitJob Submission(std::string_view token) {
    wire::SubmitJob submit;
    submit.name = "char-gpt";
    submit.submit_token = std::string(token);
    submit.spec_yaml = "name: char-gpt\n";
    submit.inputs = {{"data", HashBytes("manifest"), 1'000'000, IdOf("c")}};
    submit.planned_rounds = 40;
    return submit;
  }
  static wire::OpenEpoch EpochOf(uint64_t job, uint64_t epoch, std::vector<std::string> members) {
    wire::OpenEpoch open;
    open.job.value = job;
    open.epoch.value = epoch;
    for (const std::string& member : members) open.members.push_back(IdOf(member));
    open.lead = open.members[0];
    open.reason = "placed";
    return open;
  }
  static wire::ReportJob Report(uint64_t job, uint64_t epoch, uint64_t round, std::string_view theta = "theta") {
    wire::ReportJob report;
    report.job.value = job;
    report.epoch.value = epoch;
    report.round.value = round;
    report.theta = HashBytes(std::string(theta) + std::to_string(round));
    report.metrics.train_loss = 2.5;
    report.metrics.tokens = 1000;
    report.metrics.contributors = 2;
    return report;
  }
  static wire::FinishJob Finish(uint64_t job, uint64_t epoch, wire::Verdict verdict, uint64_t rounds = 0) {
    return {{job}, {epoch}, verdict, "", {}, rounds};
  }

  SimExecutor clock;
  std::unique_ptr<State> state;
  CommandLog log;
  SeededRng rng;
};

}  // namespace gdf::state

#endif  // GDF_TESTS_UNIT_STATE_FIXTURE_H_
