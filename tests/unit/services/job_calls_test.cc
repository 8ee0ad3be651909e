#include <grpcpp/grpcpp.h>

#include "gdfd/services/control_service.h"
#include "proto/control.grpc.pb.h"
#include "tests/unit/services/service_node.h"

namespace gdf::services {
namespace {

namespace v1 = control::v1;
using absl::StatusCode;
using trust::Role;

constexpr char kJob[] = R"(name: job
kind: train
model:
  gpt2: {layers: 1, heads: 1, width: 8, context: 8}
data:
  text: [data.txt]
  tokenizer: char
  sequence_length: 8
  validation_fraction: 10%
train:
  steps: 8
  batch_size: 1
  optimizer: {kind: adamw, lr: 1e-3}
rounds:
  inner_steps: 4
  outer: {optimizer: nesterov, lr: 0.7, momentum: 0.9}
nodes:
  count: COUNT
)";

std::string JobYaml(int count) {
  std::string yaml = kJob;
  return yaml.replace(yaml.find("COUNT"), 5, std::to_string(count));
}

control::UploadFile FileOf(const std::string& name, const std::string& content) {
  return {name, content.size(), [content, at = size_t{0}](absl::Span<uint8_t> out) mutable {
            std::copy_n(content.begin() + static_cast<int64_t>(at), out.size(), out.begin());
            at += out.size();
            return absl::OkStatus();
          }};
}

control::SubmitRequest Submission(const std::string& yaml,
                                  std::map<std::string, std::string> inputs,
                                  const std::string& token = "") {
  control::SubmitRequest request;
  request.spec_yaml = yaml;
  request.inputs = std::move(inputs);
  request.submit_token = token;
  return request;
}

control::GenerateRequest Sample(const std::string& job, uint32_t max_tokens) {
  control::GenerateRequest request;
  request.job = job;
  request.max_tokens = max_tokens;
  return request;
}

class Sink final : public control::ExportSink {
 public:
  absl::Status Begin(const std::string& name, uint64_t size) override {
    current_ = name;
    sizes[name] = size;
    files[name].clear();
    return absl::OkStatus();
  }
  absl::Status Data(absl::Span<const uint8_t> piece) override {
    files[current_].append(piece.begin(), piece.end());
    return absl::OkStatus();
  }
  std::map<std::string, std::string> files;
  std::map<std::string, uint64_t> sizes;

 private:
  std::string current_;
};

std::unique_ptr<v1::Control::Stub> RawStub(ServiceNode& node) {
  return v1::Control::NewStub(
      grpc::CreateChannel("unix:" + node.socket(), grpc::InsecureChannelCredentials()));
}

// Founds a network and submits j1, which waits for more nodes than there are.
void SubmitWaitingJob(control::Client& client) {
  REQUIRE(client.CreateNetwork("my-net").ok());
  const auto upload = client.Upload("data", {FileOf("data.txt", "text")}, nullptr);
  REQUIRE(client.Submit(Submission(JobYaml(5), {{"data", upload->manifest}})).ok());
}

TEST_CASE("A job is uploaded, planned, submitted, watched to its end, exported and sampled") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->CreateNetwork("my-net").ok());
  control::PlanRequest planned;
  planned.spec_yaml = JobYaml(1);
  planned.data_bytes = 100;
  const auto plan = client->Plan(planned);
  REQUIRE(plan.ok());
  CHECK(plan->placeable);
  CHECK(plan->nodes == std::vector<std::string>{"n1"});
  CHECK(plan->rounds == 2);
  CHECK(plan->parameters > 0);
  CHECK_FALSE(plan->host_memory.empty());
  CHECK(plan->measured_in.empty());  // nothing has trained here yet
  CHECK(plan->duration == absl::ZeroDuration());

  const auto upload = client->Upload("data", {FileOf("data.txt", "In the beginning")}, nullptr);
  INFO(upload.status());
  REQUIRE(upload.ok());
  CHECK(upload->bytes == 16);
  const control::SubmitRequest request =
      Submission(JobYaml(1), {{"data", upload->manifest}}, "token");
  const auto submitted = client->Submit(request);
  INFO(submitted.status());
  REQUIRE(submitted.ok());
  CHECK(submitted->job == "j1");
  CHECK_FALSE(submitted->existed);

  const auto watch = client->WatchJob({.job = "j1", .follow = true});
  std::vector<uint64_t> rounds;
  std::optional<control::Job> finished;
  bool first = true;
  while (const auto update = watch->Next()) {
    if (first) CHECK(update->job);  // the job itself comes first
    first = false;
    if (update->round) rounds.push_back(update->round->round);
    if (update->finished) finished = update->finished;
  }
  CHECK(watch->Finish().ok());
  REQUIRE(finished);
  INFO(finished->reason);
  CHECK(finished->phase == control::JobPhase::kSucceeded);
  CHECK(finished->rounds_done == 2);
  CHECK(rounds.back() == 1);

  const auto timed = client->Plan(planned);
  REQUIRE(timed.ok());
  CHECK(timed->measured_in == "j1");
  CHECK(timed->duration > absl::ZeroDuration());

  // From where it was left, only what is new.
  const auto again =
      client->WatchJob({.job = "j1", .after_event = 1'000'000, .from_round = 2, .follow = true});
  CHECK(again->Next()->job);
  CHECK(again->Next()->finished);
  CHECK_FALSE(again->Next());

  Sink sink;
  CHECK(*client->Export("j1", sink) == client->GetJob("j1")->rounds_done);
  REQUIRE(sink.files.contains("model.safetensors"));
  for (const auto& [name, size] : sink.sizes) CHECK(sink.files[name].size() == size);

  std::string text;
  const auto generated =
      client->Generate(Sample("j1", 5), [&](const std::string& t) {
        text += t;
        return absl::OkStatus();
      });
  INFO(generated.status());
  REQUIRE(generated.ok());
  CHECK(text == "abcabcabcabcabc");
  CHECK(generated->tokens == 5);
  CHECK(loop.Comes([&] { return n1.workers_alive == 0; }));

  CHECK(client->ListJobs()->size() == 1);
  CHECK(Says(client->CancelJob("j1"), StatusCode::kFailedPrecondition, "has ended"));
  CHECK(Says(client->GetJob("j9").status(), StatusCode::kNotFound, "j9"));
  CHECK(client->GetJob("nine").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("A job's checkpoints are listed, checked and exported") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->CreateNetwork("my-net").ok());
  const auto upload = client->Upload("data", {FileOf("data.txt", "In the beginning")}, nullptr);
  REQUIRE(client->Submit(Submission(JobYaml(1) + "checkpoints: {every: 1, keep: 5}\n", {{"data", upload->manifest}})).ok());
  const auto watch = client->WatchJob({.job = "j1", .follow = true});
  while (watch->Next()) continue;
  REQUIRE(watch->Finish().ok());
  REQUIRE(client->GetJob("j1")->phase == control::JobPhase::kSucceeded);
  // Of each θ with its manifest, and the export's files once.
  REQUIRE(loop.Comes([&] { return n1.host().Find(JobId{1}) == nullptr && n1.chunks().usage().chunks == 5; }));

  const absl::StatusOr<control::CheckpointList> list = client->ListCheckpoints("j1");
  INFO(list.status());
  REQUIRE(list.ok());
  CHECK(list->silent.empty());
  CHECK(list->passed_over.empty());
  REQUIRE(list->checkpoints.size() == 2);
  const control::Checkpoint& first = list->checkpoints[0];
  CHECK(first.round == 1);
  CHECK(first.parameters == 100);
  CHECK(first.digest.size() == 64);
  CHECK(first.momentum_digest.size() == 64);
  CHECK(first.epoch == 1);
  CHECK(first.signer_names == std::vector<std::string>{"n1"});
  REQUIRE(first.copies.size() == 1);
  CHECK(first.copies[0].node_name == "n1");
  CHECK(first.copies[0].new_bytes > 800);
  CHECK(list->checkpoints[1].digest == client->GetJob("j1")->last_round->digest);

  const absl::StatusOr<control::CheckpointCheck> check = client->VerifyCheckpoint("j1", 1);
  INFO(check.status());
  REQUIRE(check.ok());
  CHECK(check->whole());
  CHECK(check->chunks == 3);  // θ, the export's files, the manifest of both
  CHECK_FALSE(check->outer_state);

  Sink sink;
  CHECK(*client->Export("j1", sink, 1) == 1);
  REQUIRE(sink.files.contains("model.safetensors"));
  for (const auto& [name, size] : sink.sizes) CHECK(sink.files[name].size() == size);
  Sink newest;
  CHECK(*client->Export("j1", newest) == 2);
  CHECK(newest.files["model.safetensors"] != sink.files["model.safetensors"]);

  CHECK(Says(client->Export("j1", sink, 9).status(), StatusCode::kNotFound, "checkpoint of round 9"));
  CHECK(Says(client->VerifyCheckpoint("j1", 9).status(), StatusCode::kNotFound, "no checkpoint of round 9"));
  CHECK(Says(client->RemoveCheckpoint("j1", 9), StatusCode::kNotFound, "no checkpoint of round 9"));
  const uint64_t bytes = n1.chunks().usage().bytes;
  REQUIRE(client->RemoveCheckpoint("j1", 2).ok());
  CHECK(n1.chunks().usage().bytes < bytes);
  CHECK(client->ListCheckpoints("j1")->checkpoints.size() == 1);
  CHECK(client->VerifyCheckpoint("j1", 1)->whole());
  CHECK(Says(client->RollBackJob("j1", 9, ""), StatusCode::kNotFound, "checkpoint of round 9"));
  CHECK(Says(client->RollBackJob("j1", 1, ""), StatusCode::kFailedPrecondition, "cannot be rolled back"));
  CHECK(client->ListCheckpoints("j9").status().code() == StatusCode::kNotFound);
  CHECK(client->ListCheckpoints("nine").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("The same submit token is the same job, and another job under it is refused") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->CreateNetwork("my-net").ok());
  const auto submit = [&](const std::string& text, const std::string& token) {
    const auto upload = client->Upload("data", {FileOf("data.txt", text)}, nullptr);
    REQUIRE(upload.ok());
    return client->Submit(
        Submission(JobYaml(3), {{"data", upload->manifest}}, token));  // waits: 3 nodes
  };
  const auto first = submit("one text", "t");
  REQUIRE(first.ok());
  const auto second = submit("one text", "t");
  REQUIRE(second.ok());
  CHECK(second->job == first->job);
  CHECK(second->existed);
  CHECK(Says(submit("another text", "t").status(), StatusCode::kAlreadyExists,
             "choose another token"));
  CHECK(submit("another text", "u")->job == "j2");
  CHECK(n1.chunks().Owners() == std::vector<std::string>{"j1", "j2"});  // no upload is left
  const auto jobs = client->ListJobs();
  REQUIRE(jobs->size() == 2);
  CHECK(loop.Comes([&] { return !n1.node().scheduler()->WaitingFor(JobId{1}).empty(); }));
  CHECK_FALSE(client->GetJob("j1")->reason.empty());  // why it waits
  REQUIRE(client->CancelJob("j1").ok());
  CHECK(client->GetJob("j1")->phase == control::JobPhase::kCancelled);
  CHECK(loop.Comes([&] { return n1.chunks().Owners() == std::vector<std::string>{"j2"}; }));
}

TEST_CASE("A submission that cannot be is refused and leaves no upload behind") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  CHECK(Says(n1.Client()->Upload("data", {FileOf("data.txt", "x")}, nullptr).status(),
             StatusCode::kNotFound, "in no network"));
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(n2.Client()
              ->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "")
              .ok());
  // Said before the files travel.
  CHECK(Says(n2.Client()->Upload("data", {FileOf("data.txt", "x")}, nullptr).status(),
             StatusCode::kPermissionDenied, "submit a job"));
  CHECK(n2.chunks().Owners().empty());

  const auto client = n1.Client();
  CHECK(Says(client->Submit(Submission("name: [", {})).status(), StatusCode::kInvalidArgument,
             "job.yaml"));
  CHECK(Says(client->Submit(Submission(JobYaml(1), {{"data", HashBytes("none").ToHex()}})).status(),
             StatusCode::kNotFound, "input data: not uploaded here"));
  CHECK(Says(client->Submit(Submission(JobYaml(1), {{"data", "zz"}})).status(),
             StatusCode::kInvalidArgument, "input data"));

  const auto upload = client->Upload("data", {FileOf("data.txt", "x")}, nullptr);
  std::string huge = JobYaml(1);
  huge.replace(huge.find("width: 8, context"), 17, "width: 65536, context");
  huge.replace(huge.find("layers: 1,"), 10, "layers: 96,");
  const auto refused = client->Submit(Submission(huge, {{"data", upload->manifest}}));
  INFO(refused.status());
  REQUIRE(refused.ok());
  CHECK(refused->job.empty());
  INFO(refused->refused);
  CHECK(refused->refused.find("8.0 GiB") != std::string::npos);
  CHECK(n1.chunks().Owners().empty());
  CHECK(client->ListJobs()->empty());
}

TEST_CASE("An upload that breaks the rules or off leaves nothing") {
  LoopThread loop;
  config::NodeConfig config;
  config.limits.disk_cache_bytes = uint64_t{3} << 20;
  ServiceNode n1(loop, 1, config);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  const auto stub = RawStub(n1);
  using Pieces = std::vector<std::function<void(v1::UploadPiece&)>>;
  const auto name = [](v1::UploadPiece& p) { p.set_manifest_name("data"); };
  const auto file = [](std::string path, uint64_t size) {
    return [=](v1::UploadPiece& p) {
      p.mutable_file()->set_name(path);
      p.mutable_file()->set_size(size);
    };
  };
  const auto data = [](std::string bytes) {
    return [=](v1::UploadPiece& p) { p.set_data(bytes); };
  };
  const auto upload = [&](const Pieces& pieces, bool break_off = false) {
    grpc::ClientContext context;
    v1::UploadReply reply;
    const auto writer = stub->Upload(&context, &reply);
    for (const auto& fill : pieces) {
      v1::UploadPiece piece;
      fill(piece);
      if (!writer->Write(piece)) break;
    }
    if (break_off) {
      context.TryCancel();
    } else {
      writer->WritesDone();
    }
    return writer->Finish();
  };
  const auto refused = [&](const Pieces& pieces, grpc::StatusCode code, const std::string& text) {
    const grpc::Status status = upload(pieces);
    UNSCOPED_INFO(status.error_code() << " " << status.error_message());
    return status.error_code() == code && status.error_message().find(text) != std::string::npos;
  };
  CHECK(upload({name, file("a", 3), data("abc"), file("b/c", 0)}).ok());
  CHECK(n1.chunks().Owners().size() == 1);
  REQUIRE(n1.chunks().Drop(n1.chunks().Owners()[0]).ok());

  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  CHECK(refused({}, kInvalid, "begins with its name"));
  CHECK(refused({name}, kInvalid, "without files"));
  CHECK(refused({name, name}, kInvalid, "begun already"));
  CHECK(refused({file("a", 1)}, kInvalid, "begins with its name"));
  CHECK(refused({name, data("abc")}, kInvalid, "more data"));
  CHECK(refused({name, file("a", 2), data("abc")}, kInvalid, "more data than file 'a'"));
  CHECK(refused({name, file("a", 4), data("abc")}, kInvalid, "lacks 1 bytes"));
  CHECK(refused({name, file("a", 4), data("abc"), file("b", 0)}, kInvalid, "lacks 1 bytes"));
  CHECK(refused({name, file("../a", 1), data("x")}, kInvalid, "../a"));
  CHECK(refused({name, file("/a", 1), data("x")}, kInvalid, "/a"));
  CHECK(refused({name, file("a", 1), data("x"), file("a", 1), data("y")}, kInvalid, "a"));
  CHECK(refused({[](v1::UploadPiece&) {}}, kInvalid, "without content"));
  CHECK(refused({name, file("big", uint64_t{5} << 20), data(std::string(1 << 20, '1')),
                 data(std::string(1 << 20, '2')), data(std::string(1 << 20, '3')),
                 data(std::string(1 << 20, '4')), data(std::string(1 << 20, '5'))},
                grpc::StatusCode::RESOURCE_EXHAUSTED, ""));
  CHECK_FALSE(upload({name, file("a", 3), data("abc")}, true).ok());  // between two files
  CHECK(loop.Comes([&] { return n1.chunks().Owners().empty(); }));
}

TEST_CASE("A sample ends with its caller, and its worker with it") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->CreateNetwork("my-net").ok());
  CHECK(Says(client->Generate(Sample("j1", 5), nullptr).status(), StatusCode::kNotFound, "j1"));
  const auto upload = client->Upload("data", {FileOf("data.txt", "In the beginning")}, nullptr);
  REQUIRE(client->Submit(Submission(JobYaml(1), {{"data", upload->manifest}})).ok());
  REQUIRE(loop.Comes(
      [&] { return n1.member().state().job(JobId{1})->phase == state::JobPhase::kFinished; }));
  REQUIRE(loop.Comes([&] { return n1.workers_alive == 0; }));

  const auto stub = RawStub(n1);
  v1::GenerateRequest request;
  request.set_job("j1");
  request.set_max_tokens(1'000'000'000);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  v1::GeneratePiece piece;
  REQUIRE(reader->Read(&piece));
  CHECK(loop.On([&] { return n1.workers_alive; }) == 1);
  context.TryCancel();
  CHECK(reader->Finish().error_code() == grpc::StatusCode::CANCELLED);
  CHECK(loop.Comes([&] { return n1.workers_alive == 0; }));

  request.set_max_tokens(0);
  grpc::ClientContext none;
  CHECK_FALSE(stub->Generate(&none, request)->Read(&piece));
}

TEST_CASE("A job's events and rounds are told in the order of time, also when there are many") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  SubmitWaitingJob(*client);
  const JobId id{1};
  const NodeId self = n1.member().id();
  loop.On([&] {
    state::State& state = n1.member().state();
    int64_t now = state.last_time_unix_ms();
    uint8_t request = 0;
    const auto append = [&](wire::CommandBody body) {
      wire::Command command;
      command.request = {++request, static_cast<uint8_t>(now % 251), 7};
      command.actor = self;
      command.at_unix_ms = ++now;
      command.body = std::move(body);
      const auto result = state.Append(command);
      INFO(result.status());
      REQUIRE(result.ok());
      REQUIRE(result->status.ok());
    };
    append(wire::OpenEpoch{id, Epoch{1}, {self}, self, ""});
    for (uint64_t round = 0; round < 30; ++round) {
      wire::ReportJob report;
      report.job = id;
      report.epoch = Epoch{1};
      report.round = RoundId{round};
      append(report);
      for (int i = 0; i < 40; ++i) append(wire::JobEvent{id, self, wire::Severity::kInfo, "still here"});
    }
  });
  const auto watch = client->WatchJob({.job = "j1"});
  absl::Time last = absl::InfinitePast();
  int events = 0, rounds = 0;
  while (const auto update = watch->Next()) {
    if (!update->event && !update->round) continue;
    const absl::Time at = update->event ? update->event->at : update->round->at;
    CHECK(at >= last);
    last = at;
    ++(update->event ? events : rounds);
  }
  CHECK(watch->Finish().ok());
  CHECK(events >= 30 * 40);
  CHECK(rounds >= 30);
}

TEST_CASE("Who looks at a job that stands still is told who is silent and when it last got further") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->Pause(absl::ZeroDuration(), false).ok());  // it only looks
  SubmitWaitingJob(*client);
  auto n2 = std::make_unique<TestMember>(loop, 2), n3 = std::make_unique<TestMember>(loop, 3);
  for (auto* node : {n2.get(), n3.get()}) node->JoinAs(n1.member(), {Role::kContributor});
  const JobId id{1};
  REQUIRE(n1.member().Do(wire::OpenEpoch{id, Epoch{1}, {n2->id(), n3->id()}, n2->id(), ""}).ok());
  CHECK_FALSE(client->GetJob("j1")->last_round);
  REQUIRE(n2->Do(wire::ReportJob{id, Epoch{1}, RoundId{0}, HashBytes("theta"), {}, ""}).ok());
  const control::Job going = *client->GetJob("j1");
  CHECK(going.reason.empty());
  REQUIRE(going.last_round);
  const int64_t reported = loop.On([&] { return n1.member().state().last_time_unix_ms(); });
  CHECK(going.last_round->at == absl::FromUnixMillis(reported));
  n3.reset();
  REQUIRE(loop.Comes([&] { return n1.member().membership().Online().size() == 2; }));
  CHECK(client->GetJob("j1")->reason == "not online: n3");
  CHECK(client->Status()->running.at(0).reason == "not online: n3");
  CHECK(client->ListJobs()->at(0).last_round->at == going.last_round->at);
}

TEST_CASE("A new key that the network refuses leaves nothing") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  SubmitWaitingJob(*n1.Client());
  TestMember n2(loop, 2);  // leads the job and does nothing for it
  n2.JoinAs(n1.member(), {Role::kContributor});
  const std::vector<NodeId> members = {n1.member().id(), n2.id()};
  REQUIRE(n1.member().Do(wire::OpenEpoch{JobId{1}, Epoch{1}, members, n2.id(), ""}).ok());
  CHECK(Says(n1.Client()->RotateKey().status(), StatusCode::kFailedPrecondition,
             "is taking part in 1 job: replace its key when"));
  CHECK_FALSE(PosixFileSystem().Exists(n1.folder() + "/next.key"));
}

TEST_CASE("A watcher that goes away does not keep the daemon") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  SubmitWaitingJob(*client);
  const auto watch = client->WatchJob({.job = "j1", .follow = true});
  REQUIRE(watch->Next());
  const absl::Duration begin = loop.Now();
  n1.StopServing();  // with the watch open
  CHECK(loop.Now() - begin < absl::Seconds(10));
  while (watch->Next()) {
  }
  CHECK_FALSE(watch->Finish().ok());
}

TEST_CASE("Followers are bounded, so that they leave room for other calls") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  SubmitWaitingJob(*client);
  const auto stub = RawStub(n1);
  v1::WatchJobRequest request;
  request.set_job("j1");
  request.set_follow(true);
  v1::JobUpdate update;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobUpdate>>> watches;
  for (int i = 0; i < kMostLastingOfOperators; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stub->WatchJob(contexts.back().get(), request));
    REQUIRE(watches.back()->Read(&update));
  }
  const auto one_more = client->WatchJob({.job = "j1", .follow = true});
  CHECK_FALSE(one_more->Next());
  CHECK(Says(one_more->Finish(), StatusCode::kResourceExhausted, "32 callers follow jobs"));
  CHECK(Says(client->Generate(Sample("j1", 5), nullptr).status(), StatusCode::kResourceExhausted,
             "32 callers follow jobs"));
  const auto glance = client->WatchJob({.job = "j1"});
  CHECK(glance->Next());
  while (glance->Next()) {
  }
  CHECK(glance->Finish().ok());
  for (auto& context : contexts) context->TryCancel();
  for (auto& watch : watches) {
    while (watch->Read(&update)) {
    }
    CHECK(watch->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  // Their places are free once the handlers have noticed.
  bool admitted = false;
  for (const absl::Duration until = loop.Now() + absl::Seconds(30); !admitted && loop.Now() < until;) {
    admitted = client->WatchJob({.job = "j1", .follow = true})->Next().has_value();
  }
  CHECK(admitted);
}

TEST_CASE("A submission that is recorded has succeeded, also when its chunks cannot become the job's yet") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  REQUIRE(client->CreateNetwork("my-net").ok());
  const auto upload = client->Upload("data", {FileOf("data.txt", "text")}, nullptr);
  PosixFileSystem files;
  const std::string in_the_way = n1.folder() + "/chunks/pins/j1";
  REQUIRE(files.MakeFolders(in_the_way + "/x", 0700).ok());  // the pin cannot be written
  const auto submitted = client->Submit(Submission(JobYaml(5), {{"data", upload->manifest}}, "token"));
  INFO(submitted.status());
  REQUIRE(submitted.ok());
  CHECK(submitted->job == "j1");
  // The upload's pin keeps them.
  const std::vector<std::string> owners = n1.chunks().Owners();
  CHECK(std::any_of(owners.begin(), owners.end(),
                    [](const std::string& owner) { return owner.rfind("upload", 0) == 0; }));
}

}  // namespace
}  // namespace gdf::services
