#include "gdfd/jobs/artifacts.h"

#include "core/base/encoding.h"
#include "core/checkpoint/checkpoint_store.h"
#include "core/wire/artifact_messages.h"
#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;

train::ExportPlan Plan(int64_t params) {
  train::ExportPlan plan;
  const int64_t shape[] = {params};
  REQUIRE(plan.layout.Add("theta", shape).ok());
  plan.files.push_back({"config.json", Buffer(std::string("{}"))});
  plan.files.push_back({"tokenizer.json", Buffer(std::string((size_t{1} << 20) + 5, 't'))});
  return plan;
}

checkpoint::OuterStatePtr StateOf(uint64_t params) {
  auto state = std::make_shared<checkpoint::OuterState>();
  state->theta = *tensor::FlatBuffer::Zeros(params);
  for (uint64_t i = 0; i < params; ++i) state->theta.span()[i] = static_cast<float>(i);
  state->id.round = RoundId{4};
  checkpoint::Identify(*state);
  return state;
}

TEST_CASE("A result that was saved is found again") {
  MemoryFileSystem files;
  CHECK(LoadArtifacts(files, "/jobs/j1").status().code() == StatusCode::kNotFound);
  REQUIRE(SaveExportPlan(files, "/jobs/j1", Plan(300'000), 300'000).ok());
  CHECK(Says(LoadArtifacts(files, "/jobs/j1").status(), StatusCode::kNotFound,
             "no round is committed"));
  checkpoint::CheckpointStore store(files, {.folder = "/jobs/j1/state", .num_params = 300'000});
  REQUIRE(store.Commit(*StateOf(300'000), std::nullopt).ok());
  const auto loaded = LoadArtifacts(files, "/jobs/j1");
  INFO(loaded.status());
  REQUIRE(loaded.ok());
  CHECK(loaded->state->id.theta == StateOf(300'000)->id.theta);
  CHECK(loaded->plan.layout.ToJson() == Plan(300'000).layout.ToJson());
  REQUIRE(loaded->plan.files.size() == 2);
  CHECK(loaded->plan.files[0].name == "config.json");
  CHECK(loaded->plan.files[1].contents.size() == (size_t{1} << 20) + 5);
}

TEST_CASE("Saved side files that were changed, cut, exchanged or lost are not given, and named") {
  MemoryFileSystem files;
  REQUIRE(SaveExportPlan(files, "/jobs/j1", Plan(3), 3).ok());
  checkpoint::CheckpointStore store(files, {.folder = "/jobs/j1/state", .num_params = 3});
  REQUIRE(store.Commit(*StateOf(3), std::nullopt).ok());
  REQUIRE(LoadArtifacts(files, "/jobs/j1").ok());
  const std::string path = "/jobs/j1/artifacts";
  const std::string whole = *files.Read(path);
  // A byte of the magic, the number of parameters, the layout, each file and the checksum.
  for (const size_t at : {size_t{3}, size_t{8}, whole.find("theta"), whole.find("config.json"),
                          whole.find("{}"), whole.find("tttt") + 99, whole.size() - 1}) {
    CAPTURE(at);
    std::string damaged = whole;
    REQUIRE(at < damaged.size());
    damaged[at] ^= 1;
    REQUIRE(files.WriteAtomic(path, damaged).ok());
    CHECK(Says(LoadArtifacts(files, "/jobs/j1").status(), StatusCode::kDataLoss, path));
    CHECK(Says(KeepArtifactsOnly(files, "/jobs/j1"), StatusCode::kDataLoss, path));
  }
  REQUIRE(files.WriteAtomic(path, whole.substr(0, whole.size() - 9)).ok());
  CHECK(Says(LoadArtifacts(files, "/jobs/j1").status(), StatusCode::kDataLoss, path));
  // Another record, whole: the state has not as many parameters.
  REQUIRE(SaveExportPlan(files, "/jobs/j1", Plan(4), 4).ok());
  CHECK(Says(LoadArtifacts(files, "/jobs/j1").status(), StatusCode::kDataLoss, "3 parameters"));
  REQUIRE(files.Remove(path).ok());
  CHECK(LoadArtifacts(files, "/jobs/j1").status().code() == StatusCode::kNotFound);
}

TEST_CASE("Side files that could not be sent are not kept either") {
  MemoryFileSystem files;
  train::ExportPlan plan = Plan(3);
  plan.files.push_back({"vocab.json", Buffer(std::string(wire::kMaxArtifactFileBytes, 'v'))});
  CHECK(Says(SaveExportPlan(files, "/jobs/j1", plan, 3), StatusCode::kInvalidArgument, "64.0 MiB"));
  CHECK_FALSE(files.Exists("/jobs/j1/artifacts"));
}

TEST_CASE("What a cut short save left is removed, and nothing else") {
  MemoryFileSystem files;
  CHECK(RemoveUnfinishedSaves(files, "/jobs").ok());
  REQUIRE(SaveExportPlan(files, "/jobs/j1", Plan(3), 3).ok());
  REQUIRE(SaveExportPlan(files, "/jobs/j22", Plan(3), 3).ok());
  REQUIRE(files.WriteAtomic("/jobs/j3/inputs/data.txt", "data").ok());
  const uint64_t whole = files.used_bytes();
  REQUIRE(files.WriteAtomic("/jobs/j1/artifacts.tmp-12-0", "{").ok());
  REQUIRE(files.WriteAtomic("/jobs/j22/artifacts.tmp-4711-3", "{").ok());
  REQUIRE(RemoveUnfinishedSaves(files, "/jobs").ok());
  CHECK_FALSE(files.Exists("/jobs/j1/artifacts.tmp-12-0"));
  CHECK_FALSE(files.Exists("/jobs/j22/artifacts.tmp-4711-3"));
  CHECK(files.used_bytes() == whole);
}

// Two nodes, of which `b` answers for results as the test says.
struct Pair {
  SimExecutor executor;
  InlinePool pool;
  sim::SimNetwork network{executor, 1};
  std::unique_ptr<sim::SimTransport> a = network.Join(NodeId(HashBytes("a")));
  std::unique_ptr<sim::SimTransport> b = network.Join(NodeId(HashBytes("b")));

  absl::StatusOr<std::shared_ptr<const Artifacts>> Fetch(
      std::function<Task<void>(std::shared_ptr<net::Stream>)> answer) {
    using Result = absl::StatusOr<std::shared_ptr<const Artifacts>>;
    net::Registration serve =
        b->HandleStream("jobs.artifacts",
                        [answer](NodeId, std::unique_ptr<net::Stream> stream) {
                          return Serve(answer, std::shared_ptr<net::Stream>(std::move(stream)));
                        },
                        {});
    std::optional<Result> result;
    TaskScope scope(executor);
    scope.Spawn(Into(FetchArtifacts(*a, pool, b->self(), wire::ArtifactCall{JobId{1}}), &result));
    REQUIRE(executor.RunUntil([&] { return result.has_value(); }));
    return *std::move(result);
  }
  static Task<void> Serve(std::function<Task<void>(std::shared_ptr<net::Stream>)> answer,
                          std::shared_ptr<net::Stream> stream) {
    (co_await stream->Receive()).IgnoreError();
    co_await answer(stream);
  }
  template <typename T>
  static Task<void> Into(Task<T> task, std::optional<T>* result) {
    T value = co_await std::move(task);
    result->emplace(std::move(value));
  }
};

Task<void> SendWhole(Executor& executor, std::shared_ptr<net::Stream> stream,
                     std::shared_ptr<const Artifacts> artifacts) {
  const absl::Status sent = co_await SendArtifacts(executor, *stream, artifacts);
  CHECK(sent.ok());
}

// The header, then these messages, then the end.
Task<void> SendPieces(std::shared_ptr<net::Stream> stream, wire::ArtifactHeader header,
                      std::vector<std::string> pieces) {
  Buffer first(wire::Encode(header));
  (co_await stream->Send(std::move(first))).IgnoreError();
  for (const std::string& piece : pieces) {
    Buffer bytes(piece);
    (co_await stream->Send(std::move(bytes))).IgnoreError();
  }
  stream->Finish();
}

TEST_CASE("A result arrives whole from another node") {
  Pair pair;
  auto artifacts =
      std::make_shared<Artifacts>(Artifacts{Plan(700'000), StateOf(700'000)});  // 2.8 MB
  const auto fetched = pair.Fetch([&](std::shared_ptr<net::Stream> s) {
    return SendWhole(pair.executor, s, artifacts);
  });
  INFO(fetched.status());
  REQUIRE(fetched.ok());
  CHECK((*fetched)->state->id.theta == artifacts->state->id.theta);
  CHECK((*fetched)->state->id.round == RoundId{4});
  CHECK((*fetched)->state->theta.span()[699'999] == 699'999.0f);
  CHECK((*fetched)->plan.layout.ToJson() == artifacts->plan.layout.ToJson());
  REQUIRE((*fetched)->plan.files.size() == 2);
  CHECK((*fetched)->plan.files[1].contents.view() == artifacts->plan.files[1].contents.view());
}

TEST_CASE(
    "A result that is cut short, too long, another than it claims or claims too much is refused") {
  Pair pair;
  const auto state = StateOf(2);
  const std::string theta(AsString(tensor::AsBytes(state->theta.span())));
  wire::ArtifactHeader header{{}, 2, RoundId{4}, state->id.theta};
  const auto fetch = [&](std::vector<std::string> pieces) {
    return pair.Fetch([&](std::shared_ptr<net::Stream> s) { return SendPieces(s, header, pieces); })
        .status();
  };
  CHECK(fetch({theta}).ok());
  CHECK(fetch({theta.substr(0, 3), theta.substr(3)}).ok());
  CHECK(Says(fetch({theta.substr(0, 7)}), StatusCode::kDataLoss, "ends early"));
  CHECK(Says(fetch({theta + "x"}), StatusCode::kDataLoss, "wrong size"));
  CHECK(Says(fetch({"", theta}), StatusCode::kDataLoss, "wrong size"));
  CHECK(fetch({std::string(8, 'x')}).code() == StatusCode::kDataLoss);
  // A number of parameters is not believed: no memory is taken for what does not come.
  header.num_params = wire::kMaxArtifactParams;
  CHECK(Says(fetch({theta}), StatusCode::kDataLoss, "ends early"));
  header.num_params = wire::kMaxArtifactParams + 1;
  CHECK(fetch({theta}).code() == StatusCode::kInvalidArgument);
  header = {{{"../../evil", 1}}, 2, RoundId{4}, state->id.theta};
  CHECK(fetch({"x", theta}).code() == StatusCode::kInvalidArgument);
  // Side files that GDF does not write, and code, are not taken either.
  header = {{{"modeling_evil.py", 1}}, 2, RoundId{4}, state->id.theta};
  CHECK(Says(fetch({"x", theta}), StatusCode::kInvalidArgument, "modeling_evil.py"));
  const std::string config = R"({"auto_map":{"AutoModelForCausalLM":"modeling_evil.Evil"}})";
  header = {{{"config.json", config.size()}}, 2, RoundId{4}, state->id.theta};
  CHECK(Says(fetch({config, theta}), StatusCode::kInvalidArgument, "auto_map"));
}

TEST_CASE("A node that answers nothing or refuses is told from one that has nothing") {
  Pair pair;
  CHECK(Says(pair.Fetch([](std::shared_ptr<net::Stream> s) -> Task<void> {
                   s->Cancel(absl::PermissionDeniedError("not yours"));
                   co_return;
                 })
                 .status(),
             StatusCode::kPermissionDenied, "not yours"));
  CHECK(Says(pair.Fetch([](std::shared_ptr<net::Stream> s) -> Task<void> {
                   s->Finish();
                   co_return;
                 })
                 .status(),
             StatusCode::kDataLoss, "no answer"));
}

}  // namespace
}  // namespace gdf::jobs
