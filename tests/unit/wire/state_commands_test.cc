#include <catch2/catch.hpp>

#include <limits>

#include "core/wire/state_commands.h"

namespace gdf::wire {
namespace {

NodeId Node(std::string_view name) { return NodeId(HashBytes(name)); }

NodeProfile Profile() {
  return {"n1", {"192.0.2.1:1", "[::1]:2"}, {8, 1, 2, {{"H200", 3}}, true}, "0.1.0", true};
}

RoundMetrics Metrics() {
  RoundMetrics m;
  m.train_loss = 2.25;
  m.tokens = 1;
  m.tokens_per_sec = 0.5;
  m.bytes_sent = 2;
  m.bytes_received = 3;
  m.compute_sec = 4;
  m.compress_sec = 5;
  m.exchange_sec = 6;
  m.aggregate_sec = 7;
  m.utilisation = 1;
  m.contributors = 8;
  m.fragment = HashBytes("fragment");
  return m;
}

// One of each kind, with every field set.
std::vector<CommandBody> Bodies() {
  const Digest d = HashBytes("d");
  return {CreateNetwork{"genesis", Profile()},
          CreateInvite{{1}, d, 5, 1'700'000'000'000, 3},
          RevokeInvite{{2}},
          Join{NetworkId(d), {3}, d, {4}, Profile()},
          SetRole{Node("a"), 7},
          RemoveNode{Node("a"), "why"},
          BanNode{Node("a"), "why\nand how"},
          UnbanNode{Node("a")},
          RotateKey{"record"},
          UpdateNode{Profile()},
          SubmitJob{"job", "token", "name: job\n", {{"data", d, 10, Node("a")}, {"model", d, 0, Node("b")}}, 40},
          OpenEpoch{{1}, {2}, {Node("a"), Node("b")}, Node("b"), "lost a node"},
          ReportJob{{1}, {2}, {3}, d, Metrics(), "going well"},
          FinishJob{{1}, {2}, Verdict::kSucceeded, "done", d, 40},
          CancelJob{{1}, "why"},
          JobEvent{{1}, Node("a"), Severity::kError, "crashed"},
          Recruit{{1}, Node("a"), RecruitAction::kExclude, "crashed"},
          RollBackJob{{1}, {40}, HashBytes("theta"), "diverged", {3}},
          AddCoordinator{Node("a")},
          RemoveCoordinator{Node("a")},
          RecoverNetwork{}};
}

Command Of(CommandBody body) {
  Command command;
  command.request[15] = 9;
  command.actor = Node("actor");
  command.at_unix_ms = 1'700'000'000'000;
  command.body = std::move(body);
  return command;
}

TEST_CASE("every kind of command comes back from its bytes") {
  const std::vector<CommandBody> bodies = Bodies();
  REQUIRE(bodies.size() == std::variant_size_v<CommandBody>);
  for (size_t i = 0; i < bodies.size(); ++i) {
    INFO(CommandName(bodies[i]));
    CHECK(bodies[i].index() == i);
    const Command command = Of(bodies[i]);
    const std::string bytes = EncodeCommand(command);
    const auto decoded = DecodeCommand(bytes);
    REQUIRE(decoded.ok());
    CHECK(*decoded == command);
    CHECK(EncodeCommand(*decoded) == bytes);
  }
}

TEST_CASE("cut and foreign bytes are no command") {
  for (const CommandBody& body : Bodies()) {
    const std::string bytes = EncodeCommand(Of(body));
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto decoded = DecodeCommand(std::string_view(bytes).substr(0, i));
      if (decoded.ok()) CHECK_FALSE(*decoded == Of(body));
    }
  }
  CHECK(absl::IsInvalidArgument(DecodeCommand("").status()));
  CHECK(absl::IsInvalidArgument(DecodeCommand("rubbish").status()));
  CHECK(absl::IsInvalidArgument(DecodeCommand(std::string(kMaxCommandBytes + 1, 'x')).status()));
}

template <typename Body>
void Refused(Body body, std::string_view text) {
  const absl::Status status = DecodeCommand(EncodeCommand(Of(std::move(body)))).status();
  INFO(status);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find(text) != std::string::npos);
}

TEST_CASE("numbers and lengths out of bounds are refused by name") {
  const NodeId a = Node("a");
  Refused(SetRole{a, 0}, "set_role: roles is 0");
  Refused(SetRole{a, 8}, "roles is 8");
  Refused(SetRole{NodeId(), 1}, "node is missing");
  Refused(CreateInvite{{}, {}, 1, -1, 1}, "expires_unix_ms is -1");
  Refused(CreateInvite{{}, {}, 1, 1, 0}, "uses is 0");
  Refused(RemoveNode{a, std::string(kMaxTextBytes + 1, 'x')}, "reason has 4097 bytes");
  Refused(RemoveNode{a, "\x1b[2J"}, "control character at byte 0");
  Refused(CancelJob{{0}, ""}, "job is 0");
  Refused(CancelJob{{uint64_t{1} << 60}, ""}, "expected a job id");
  Refused(FinishJob{{1}, {1}, Verdict::kNone, "", {}, 0}, "verdict is 0");
  Refused(FinishJob{{1}, {1}, static_cast<Verdict>(4), "", {}, 0}, "verdict is 4");
  Refused(JobEvent{{1}, a, static_cast<Severity>(3), ""}, "severity is 3");
  Refused(Recruit{{1}, a, static_cast<RecruitAction>(3), ""}, "action is 3");
  Refused(Recruit{{0}, a, RecruitAction::kCall, ""}, "job is 0");
  Refused(RollBackJob{{0}, {1}, HashBytes("t"), ""}, "job is 0");
  Refused(RollBackJob{{1}, {0}, HashBytes("t"), ""}, "round is 0");
  Refused(RollBackJob{{1}, {uint64_t{1} << 60}, HashBytes("t"), ""}, "round is ");
  Refused(RollBackJob{{1}, {1}, {}, ""}, "theta is zero");
  Refused(RollBackJob{{1}, {1}, HashBytes("t"), "", {uint64_t{1} << 60}}, "epoch is ");
  Refused(OpenEpoch{{1}, {1}, {}, a, ""}, "number of members is 0");
  Refused(OpenEpoch{{1}, {1}, {a, a}, a, ""}, "is listed twice");
  Refused(OpenEpoch{{1}, {1}, {a}, Node("b"), ""}, "is not one of the members");
  Refused(OpenEpoch{{1}, {0}, {a}, a, ""}, "epoch is 0");
  Refused(SubmitJob{"Job name", "t", "", {}, 1}, "is not a name");
  Refused(SubmitJob{"job", "", "", {}, 1}, "submit_token is empty");
  Refused(SubmitJob{"job", "t", "", {}, 0}, "planned_rounds is 0");
  Refused(SubmitJob{"job", "t", std::string(kMaxSpecBytes + 1, 'x'), {}, 1}, "spec_yaml has 1048577 bytes");
  const JobInput input{"data", {}, 1, a};
  Refused(SubmitJob{"job", "t", "", {input, input}, 1}, "given twice");
  for (const char* name : {"", ".", "..", "../../etc", "/etc", "data/x", "Data", "\x1b[2J"}) {
    Refused(SubmitJob{"job", "t", "", {{name, {}, 1, a}}, 1}, "expected data, valid, model or tokenizer");
  }
  NodeProfile profile = Profile();
  profile.name = Node("b").ToString();
  Refused(UpdateNode{profile}, "is the id of a node");
  profile = Profile();
  profile.addresses.assign(9, "a:1");
  Refused(UpdateNode{profile}, "number of addresses is 9");
  profile = Profile();
  profile.resources.memory_bytes = ~uint64_t{0};
  Refused(UpdateNode{profile}, "memory_bytes is 18446744073709551615");
}

TEST_CASE("metrics must be finite") {
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  for (const double value : bad) {
    RoundMetrics m = Metrics();
    m.train_loss = value;
    CHECK_FALSE(CheckRoundMetrics(m).ok());
    m = Metrics();
    m.exchange_sec = value;
    CHECK_FALSE(CheckRoundMetrics(m).ok());
  }
  RoundMetrics m = Metrics();
  m.utilisation = 1.5;
  CHECK_FALSE(CheckRoundMetrics(m).ok());
  m = Metrics();
  m.tokens_per_sec = -1;
  CHECK_FALSE(DecodeRoundMetrics(EncodeRoundMetrics(m)).ok());
  CHECK(*DecodeRoundMetrics(EncodeRoundMetrics(Metrics())) == Metrics());
  CHECK(DecodeRoundMetrics(EncodeRoundMetrics({}))->fragment.zero());
}

TEST_CASE("results come back from their bytes") {
  CommandResult result{absl::AbortedError("job j1 is in epoch 2"), {7}, "debian-2"};
  CHECK(*DecodeCommandResult(EncodeCommandResult(result)) == result);
  CHECK(*DecodeCommandResult(EncodeCommandResult({})) == CommandResult{});
  CHECK_FALSE(DecodeCommandResult("\x08\x63").ok());  // code 99
}

}  // namespace
}  // namespace gdf::wire
