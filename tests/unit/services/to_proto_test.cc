#include "gdfd/services/to_proto.h"

#include <catch2/catch.hpp>

namespace gdf::services {
namespace {

namespace v1 = control::v1;

const NodeNames kNoNames(std::vector<state::Member>{});

NodeId Node(std::string_view name) { return NodeId(HashBytes(name)); }

state::Member Member(std::string_view key, const std::string& name) {
  state::Member member;
  member.id = Node(key);
  member.profile.name = name;
  return member;
}

TEST_CASE("A status keeps its code and message on its way through gRPC") {
  CHECK(ToGrpc(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    // Cancelled is what gdfd breaks off when it stops: its caller has no connection any more.
    const int told = code == grpc::StatusCode::CANCELLED ? grpc::StatusCode::UNAVAILABLE : code;
    CHECK(static_cast<int>(status.error_code()) == told);
    CHECK(status.error_message() == "why");
  }
}

TEST_CASE("A job's phase says how it ended") {
  state::Job job;
  job.id = JobId{7};
  job.name = "job";
  job.owner = Node("owner");
  CHECK(ToProto(job, kNoNames).phase() == v1::JOB_PHASE_PENDING);
  CHECK(ToProto(job, kNoNames).id() == "j7");
  CHECK(ToProto(job, kNoNames).lead().empty());
  CHECK_FALSE(ToProto(job, kNoNames).has_last_round());
  job.phase = state::JobPhase::kRunning;
  job.lead = Node("lead");
  job.members = {Node("lead"), Node("other")};
  job.rounds_done = 3;
  job.theta = HashBytes("theta");
  job.metrics.train_loss = 1.5;
  const v1::Job running = ToProto(job, kNoNames);
  CHECK(running.phase() == v1::JOB_PHASE_RUNNING);
  CHECK(running.lead() == Node("lead").ToString());
  CHECK(running.members_size() == 2);
  CHECK(running.last_round().round() == 2);
  CHECK(running.last_round().loss() == 1.5);
  CHECK(running.last_round().digest() == HashBytes("theta").ToHex());
  CHECK(running.last_round().fragment_digest().empty());
  job.metrics.fragment = HashBytes("fragment");
  CHECK(ToProto(job, kNoNames).last_round().fragment_digest() == HashBytes("fragment").ToHex());
  job.phase = state::JobPhase::kFinished;
  for (const auto& [verdict, phase] :
       {std::pair{wire::Verdict::kSucceeded, v1::JOB_PHASE_SUCCEEDED},
        std::pair{wire::Verdict::kFailed, v1::JOB_PHASE_FAILED},
        std::pair{wire::Verdict::kCancelled, v1::JOB_PHASE_CANCELLED}}) {
    job.verdict = verdict;
    CHECK(ToProto(job, kNoNames).phase() == phase);
  }
}

TEST_CASE("Nodes are called by their names, by id too where two had the same, by id where unknown") {
  const std::string a = Node("a").Short(), b = Node("b").Short(), c = Node("c").Short();
  const NodeNames names({Member("a", "attic"), Member("b", "barn"), Member("c", "barn")});
  CHECK(names.Of(Node("a")) == "attic");
  CHECK(names.Of(Node("b")) == "barn (" + b + ")");
  CHECK(names.Of(Node("z")) == Node("z").Short());
  // Whole words only: the beginning of a longer id or of a digest is not a node's.
  const std::string more = Node("a").ToString();
  CHECK(names.In("node " + a + ": lost (" + c + "); " + more + " " + Node("z").Short() + " " + a) ==
        "node attic: lost (barn (" + c + ")); " + more + " " + Node("z").Short() + " attic");
  CHECK(names.In("") == "");
  CHECK(names.In("no node, \xc3\xa9\n") == "no node, \xc3\xa9\n");

  state::Job job;
  job.owner = Node("z");
  job.lead = Node("a");
  job.members = {Node("b"), Node("a")};
  job.reason = "lead " + a + ": the disk is full";
  const v1::Job shown = ToProto(job, names);
  CHECK(shown.submitter_name() == Node("z").Short());
  CHECK(shown.lead_name() == "attic");
  CHECK(shown.member_names(0) == "barn (" + b + ")");
  CHECK(shown.member_names(1) == "attic");
  CHECK(shown.reason() == "lead attic: the disk is full");
  const v1::Event event = ToProto(
      state::Event{5, 6, JobId{3}, Node("a"), wire::Severity::kInfo, "lost node " + b}, names);
  CHECK(event.node_name() == "attic");
  CHECK(event.text() == "lost node barn (" + b + ")");
}

TEST_CASE("A round's losses are there when they were measured") {
  state::RoundRecord round;
  round.round = RoundId{4};
  round.epoch = Epoch{2};
  CHECK_FALSE(ToProto(round).has_loss());
  CHECK_FALSE(ToProto(round).has_validation_loss());
  round.metrics.train_loss = 2.5;
  round.metrics.valid_loss = 2.25;
  round.metrics.tokens = 100;
  round.metrics.contributors = 3;
  const v1::Round out = ToProto(round);
  CHECK(out.loss() == 2.5);
  CHECK(out.validation_loss() == 2.25);
  CHECK(out.round() == 4);
  CHECK(out.epoch() == 2);
  CHECK(out.tokens() == 100);
  CHECK(out.members() == 3);
}

TEST_CASE("Members, events and invites carry over") {
  state::Member member;
  member.id = Node("a");
  member.profile = {"n1", {"192.0.2.1:1"}, {8, 100, 200, {{"H200", 300}}}, "0.1.0"};
  member.roles = {trust::Role::kSubmitter, trust::Role::kContributor};
  member.status = state::MemberStatus::kBanned;
  member.coordinator = true;
  const v1::Node node = ToProto(member);
  CHECK(node.id() == Node("a").ToString());
  CHECK(node.name() == "n1");
  CHECK(node.roles() == "submitter,contributor");
  CHECK(node.state() == "banned");
  CHECK(node.coordinator());
  CHECK(node.addresses(0) == "192.0.2.1:1");
  CHECK(node.cpu_threads() == 8);
  CHECK(node.memory_bytes() == 100);
  CHECK(node.gpus(0).name() == "H200");
  CHECK(node.gpus(0).memory_bytes() == 300);

  const v1::Event about_nothing =
      ToProto(state::Event{5, 6, {}, {}, wire::Severity::kWarning, "text"}, kNoNames);
  CHECK(about_nothing.job().empty());
  CHECK(about_nothing.node().empty());
  CHECK(about_nothing.severity() == "warning");
  CHECK(about_nothing.node_name().empty());
  const v1::Event about_a =
      ToProto(state::Event{5, 6, JobId{3}, Node("a"), wire::Severity::kInfo, ""}, kNoNames);
  CHECK(about_a.job() == "j3");
  CHECK(about_a.node() == Node("a").ToString());

  state::InviteRecord invite;
  invite.roles = {trust::Role::kContributor};
  invite.uses_allowed = 3;
  invite.uses = 1;
  CHECK(ToProto(invite).uses_left() == 2);
  invite.uses = 5;  // never negative
  CHECK(ToProto(invite).uses_left() == 0);
}

}  // namespace
}  // namespace gdf::services
