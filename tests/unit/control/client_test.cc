// The client against a scripted daemon on a Unix socket.
#include "core/control/client.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "tests/support/fake_gdfd.h"

namespace gdf::control {
namespace {

using testing::FakeGdfd;
namespace v1 = control::v1;

std::unique_ptr<Client> ClientOf(const FakeGdfd& gdfd) { return *Client::Connect({.socket = gdfd.socket()}); }

UploadFile FileOf(const std::string& name, const std::string& content) {
  return {name, content.size(), [content, at = size_t{0}](absl::Span<uint8_t> out) mutable {
            std::memcpy(out.data(), content.data() + at, out.size());
            at += out.size();
            return absl::OkStatus();
          }};
}

TEST_CASE("No daemon is unavailable and the message names the socket") {
  const auto client = *Client::Connect({.socket = "/nonexistent/control.sock"});
  const absl::Status status = client->Status().status();
  CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(status.message()).find("/nonexistent/control.sock") != std::string::npos);
}

TEST_CASE("An endpoint needs a socket or an address") {
  CHECK(Client::Connect({}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("What is not UTF-8 is not sent, and named") {
  FakeGdfd gdfd;
  const auto client = ClientOf(gdfd);
  const std::string bad = "a\xff";
  const auto refused = [](const absl::Status& status, std::string_view field) {
    return status == absl::InvalidArgumentError(
                         absl::StrCat(ToAbsl(field), " has bytes that are not UTF-8 at byte 1"));
  };
  CHECK(refused(client->CreateNetwork(bad).status(), "name"));
  CHECK(refused(client->Join(bad, "").status(), "invite"));
  CHECK(refused(client->Backup(bad).status(), "passphrase"));
  CHECK(refused(client->Generate({.job = "j1", .prompt = bad}, nullptr).status(), "prompt"));
  CHECK(refused(client->Upload("data", {FileOf(bad, "")}, nullptr).status(), "a file's name"));
  SubmitRequest submit;
  submit.inputs = {{"data", bad}};
  CHECK(refused(client->Submit(submit).status(), "value"));  // of an input
  const auto watch = client->WatchJob({.job = bad});
  CHECK_FALSE(watch->Next());
  CHECK(refused(watch->Finish(), "job"));
}

TEST_CASE("The daemon's code and message arrive") {
  FakeGdfd gdfd;
  gdfd.error = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "this node is in no network");
  const absl::Status status = ClientOf(gdfd)->ListNodes().status();
  CHECK(status == absl::FailedPreconditionError("this node is in no network"));
}

TEST_CASE("Status carries every field over") {
  FakeGdfd gdfd;
  gdfd.status_reply.set_version("1.2.3");
  gdfd.status_reply.set_node_id("nodeid");
  gdfd.status_reply.set_network_name("net");
  gdfd.status_reply.set_coordinator(true);
  gdfd.status_reply.set_members(4);
  gdfd.status_reply.set_members_online(3);
  gdfd.status_reply.add_warnings("no Landlock");
  gdfd.status_reply.add_gpus()->set_name("H200");
  gdfd.status_reply.mutable_gpus(0)->set_memory_bytes(300);
  gdfd.status_reply.set_started_unix_ms(1'700'000'000'000);
  v1::Job* job = gdfd.status_reply.add_running();
  job->set_id("j1");
  job->set_phase(v1::JOB_PHASE_RUNNING);
  job->mutable_last_round()->set_validation_loss(1.5);
  const NodeStatus status = *ClientOf(gdfd)->Status();
  CHECK(status.version == "1.2.3");
  CHECK(status.node_id == "nodeid");
  CHECK(status.network_name == "net");
  CHECK(status.coordinator);
  CHECK(status.members == 4);
  CHECK(status.members_online == 3);
  CHECK(status.warnings == std::vector<std::string>{"no Landlock"});
  REQUIRE(status.gpus.size() == 1);
  CHECK(status.gpus[0].name == "H200");
  CHECK(status.gpus[0].memory_bytes == 300);
  CHECK(status.started == absl::FromUnixSeconds(1'700'000'000));
  REQUIRE(status.running.size() == 1);
  CHECK(status.running[0].phase == JobPhase::kRunning);
  CHECK(status.running[0].started == absl::InfinitePast());
  CHECK(status.running[0].last_round->validation_loss == 1.5);
  CHECK(!status.running[0].last_round->loss);
}

TEST_CASE("An upload arrives whole, in pieces of at most 1 MiB, with its progress told") {
  FakeGdfd gdfd;
  const std::string big((size_t{5} << 19) + 7, 'x');  // two and a half pieces and 7 bytes
  std::vector<uint64_t> progress;
  const auto result = ClientOf(gdfd)->Upload("data", {FileOf("a", big), FileOf("empty", ""), FileOf("b", "hello")},
                                             [&](uint64_t sent) { progress.push_back(sent); });
  REQUIRE(result.ok());
  CHECK(result->manifest == "digest-of-data");
  CHECK(result->bytes == big.size() + 5);
  CHECK(gdfd.uploads["data"] == std::map<std::string, std::string>{{"a", big}, {"b", "hello"}, {"empty", ""}});
  CHECK(progress == std::vector<uint64_t>{1 << 20, 2 << 20, big.size(), big.size() + 5});
}

TEST_CASE("A file that cannot be read ends the upload with its name") {
  FakeGdfd gdfd;
  UploadFile file = FileOf("a", "abc");
  file.read = [](absl::Span<uint8_t>) { return absl::DataLossError("I/O error"); };
  CHECK(ClientOf(gdfd)->Upload("data", {file}, nullptr).status() == absl::DataLossError("a: I/O error"));
}

TEST_CASE("A watch gives updates in order and then how it ended") {
  FakeGdfd gdfd;
  gdfd.watches = {{testing::EventUpdate(7, "hello"), testing::RoundUpdate(0, 2.5, 1000),
                   testing::FinishedUpdate(v1::JOB_PHASE_CANCELLED, "by the user")}};
  const auto client = ClientOf(gdfd);
  const auto watch = client->WatchJob({.job = "j1", .after_event = 6, .from_round = 0, .follow = true});
  CHECK(watch->Next()->event->text == "hello");
  CHECK(watch->Next()->round->loss == 2.5);
  CHECK(watch->Next()->finished->phase == JobPhase::kCancelled);
  CHECK(!watch->Next());
  CHECK(watch->Finish().ok());
  CHECK(gdfd.watch_requests[0].after_event() == 6);
  CHECK(gdfd.watch_requests[0].follow());
}

TEST_CASE("A cancelled watch ends") {
  FakeGdfd gdfd;
  gdfd.watches = {{testing::EventUpdate(1, "x")}};
  const auto client = ClientOf(gdfd);
  const auto watch = client->WatchJob({.job = "j1"});
  watch->Cancel();
  while (watch->Next()) {
  }
  CHECK(watch->Finish().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("Generated text comes piece by piece and the figures last") {
  FakeGdfd gdfd;
  v1::GeneratePiece a, b;
  a.set_text("In the ");
  b.set_text("beginning");
  b.set_finished(true);
  b.set_tokens(9);
  b.set_seconds(0.5);
  gdfd.generate_pieces = {a, b};
  std::vector<std::string> pieces;
  absl::Status answer;
  const auto take = [&](const std::string& text) {
    pieces.push_back(text);
    return answer;
  };
  const auto result = ClientOf(gdfd)->Generate({.job = "j1", .prompt = "p", .seed = 3}, take);
  REQUIRE(result.ok());
  CHECK(pieces == std::vector<std::string>{"In the ", "beginning"});
  CHECK(result->tokens == 9);
  CHECK(result->duration == absl::Milliseconds(500));
  CHECK(gdfd.generate_request.seed() == 3);
  answer = absl::DataLossError("no more");
  CHECK(ClientOf(gdfd)->Generate({.job = "j1", .prompt = "p"}, take).status() == answer);
  CHECK(pieces.size() == 3);
}

}  // namespace
}  // namespace gdf::control
