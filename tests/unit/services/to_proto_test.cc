#include "gdfd/services/to_proto.h"

#include <catch2/catch.hpp>

namespace gdf::services {
namespace {

namespace v1 = control::v1;

NodeId Node(std::string_view name) { return NodeId(HashBytes(name)); }

TEST_CASE("A status keeps its code and message on its way through gRPC") {
  CHECK(ToGrpc(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    CHECK(static_cast<int>(status.error_code()) == code);
    CHECK(status.error_message() == "why");
  }
}

TEST_CASE("A job's phase says how it ended") {
  state::Job job;
  job.id = JobId{7};
  job.name = "job";
  job.owner = Node("owner");
  CHECK(ToProto(job).phase() == v1::JOB_PHASE_PENDING);
  CHECK(ToProto(job).id() == "j7");
  CHECK(ToProto(job).lead().empty());
  CHECK_FALSE(ToProto(job).has_last_round());
  job.phase = state::JobPhase::kRunning;
  job.lead = Node("lead");
  job.members = {Node("lead"), Node("other")};
  job.rounds_done = 3;
  job.theta = HashBytes("theta");
  job.metrics.train_loss = 1.5;
  const v1::Job running = ToProto(job);
  CHECK(running.phase() == v1::JOB_PHASE_RUNNING);
  CHECK(running.lead() == Node("lead").ToString());
  CHECK(running.members_size() == 2);
  CHECK(running.last_round().round() == 2);
  CHECK(running.last_round().loss() == 1.5);
  CHECK(running.last_round().digest() == HashBytes("theta").ToHex());
  job.phase = state::JobPhase::kFinished;
  for (const auto& [verdict, phase] :
       {std::pair{wire::Verdict::kSucceeded, v1::JOB_PHASE_SUCCEEDED},
        std::pair{wire::Verdict::kFailed, v1::JOB_PHASE_FAILED},
        std::pair{wire::Verdict::kCancelled, v1::JOB_PHASE_CANCELLED}}) {
    job.verdict = verdict;
    CHECK(ToProto(job).phase() == phase);
  }
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
      ToProto(state::Event{5, 6, {}, {}, wire::Severity::kWarning, "text"});
  CHECK(about_nothing.job().empty());
  CHECK(about_nothing.node().empty());
  CHECK(about_nothing.severity() == "warning");
  CHECK(ToProto(state::Event{5, 6, JobId{3}, Node("a"), wire::Severity::kInfo, ""}).job() == "j3");

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
