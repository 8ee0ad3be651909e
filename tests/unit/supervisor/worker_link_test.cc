// A worker's words on their way to the daemon: shell scripts that say what no gdf-worker would.
#include "gdfd/supervisor/worker_link.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "core/train/protocol.h"
#include "gdfd/supervisor/worker_calls.h"

namespace gdf::supervisor {
namespace {

using Json = nlohmann::json;
using Reason = train::ExitInfo::Reason;

constexpr absl::Duration kDeadline = absl::Seconds(60);

// A shell's command that writes these bytes to the worker's socket.
std::string Write(const std::string& bytes) {
  std::string command = "printf '";
  for (const char c : bytes) {
    absl::StrAppendFormat(&command, "\\%03o", static_cast<unsigned char>(c));
  }
  return command + "' >&3; ";
}

std::string Frame(const Json& body) {
  const absl::StatusOr<std::string> frame = train::EncodeFrame(body, 0);
  REQUIRE(frame.ok());
  return *frame;
}

std::unique_ptr<ChildProcess> StartShell(const std::string& script) {
  ChildOptions options;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(options);
  REQUIRE(child.ok());
  return *std::move(child);
}

// A worker that runs `script`, and what it says until its end.
class Told final : public WorkerEvents {
 public:
  static std::shared_ptr<Told> By(const std::string& script,
                                  std::function<void(WorkerLink&)> on_message = {}) {
    auto told = std::make_shared<Told>();
    told->on_message_ = std::move(on_message);
    told->link_ = std::make_unique<WorkerLink>(told->executor_, StartShell(script), "shell", told);
    const Executor::TimerId timer =
        told->executor_.PostAfter(kDeadline, [&executor = told->executor_] { executor.Stop(); });
    told->executor_.Run();
    told->executor_.Cancel(timer);
    REQUIRE(told->end.has_value());
    return told;
  }
  void OnMessage(train::Message message) override {
    messages.push_back(std::move(message.body));
    if (on_message_) on_message_(*link_);
  }
  void OnEnd(train::ExitInfo info) override {
    end = std::move(info);
    executor_.Stop();
  }

  std::vector<Json> messages;
  std::optional<train::ExitInfo> end;

 private:
  SystemClock clock_;
  LoopExecutor executor_{clock_};
  std::function<void(WorkerLink&)> on_message_;
  std::unique_ptr<WorkerLink> link_;  // before what it refers to
};

TEST_CASE("what a worker said before it ended is told, then why it ended") {
  const auto told =
      Told::By(Write(Frame({{"step", 1}}) + Frame({{"step", 2}})) + "echo too hot >&2; exit 7");
  REQUIRE(told->messages.size() == 2);
  CHECK(told->messages[1] == Json{{"step", 2}});
  CHECK(told->end->reason == Reason::kExited);
  CHECK(told->end->code == 7);
  CHECK(told->end->text == "the worker exited with status 7; its last line: too hot");
}

TEST_CASE("a last word without a newline counts") {
  CHECK(absl::EndsWith(Told::By("printf 'torn' >&2; kill -SEGV $$")->end->text, "last line: torn"));
}

TEST_CASE("a worker that ends in the middle of a message has not said it") {
  const std::string frame = Frame({{"step", 1}});
  for (const size_t cut : {size_t{1}, train::kFrameHeaderBytes, frame.size() - 1}) {
    INFO(cut);
    const auto told = Told::By(Write(frame + frame.substr(0, cut)));
    CHECK(told->messages.size() == 1);
    CHECK(told->end->reason == Reason::kExited);
  }
}

TEST_CASE("a worker that closes its socket in the middle of a message and goes on is ended") {
  const auto told = Told::By(Write(Frame({{"step", 1}}).substr(0, 12)) + "exec 3>&-; kill -STOP $$");
  CHECK(told->messages.empty());
  CHECK(told->end->reason == Reason::kBrokeProtocol);
  CHECK(told->end->signal == SIGKILL);
  CHECK(absl::StrContains(told->end->text, "closed its socket"));
}

TEST_CASE("a message that says to be too long is not waited for") {
  const auto told = Told::By(Write(Frame({{"step", 1}}) + std::string("\xff\xff\xff\xff\0\0\0\0", 8)) +
                             "kill -STOP $$");
  CHECK(told->messages.size() == 1);
  CHECK(told->end->reason == Reason::kBrokeProtocol);
  CHECK(absl::StrContains(told->end->text, "says 4294967295 bytes"));
}

TEST_CASE("files that did not come, an empty message and no JSON end a worker") {
  const std::pair<std::string, const char*> cases[] = {
      {std::string("\2\0\0\0\1\0\0\0{}", 10), "says 1 files, 0 came with it"},
      {std::string("\2\0\0\0\xff\0\0\0{}", 10), "2 bytes and 255 files"},
      {std::string(8, '\0'), "says 0 bytes"},
      {std::string("\3\0\0\0\0\0\0\0[1]", 11), "not a JSON object"}};
  for (const auto& [bytes, text] : cases) {
    const auto told = Told::By(Write(bytes) + "kill -STOP $$");
    INFO(text << " in " << told->end->text);
    CHECK(told->end->reason == Reason::kBrokeProtocol);
    CHECK(absl::StrContains(told->end->text, text));
  }
}

TEST_CASE("a worker that floods its standard error is still heard, and can be ended") {
  const auto told =
      Told::By(Write(Frame({{"step", 1}})) + "while :; do echo again and again; done >&2",
               [](WorkerLink& link) { link.End(Reason::kStopped, "enough"); });
  CHECK(told->messages.size() == 1);
  CHECK(told->end->reason == Reason::kStopped);
  CHECK(told->end->text == "enough");
  CHECK(told->end->signal == SIGKILL);
}

TEST_CASE("the first word about an end counts") {
  const auto told = Told::By(Write(Frame({{"step", 1}})) + "kill -STOP $$", [](WorkerLink& link) {
    link.End(Reason::kHung, "first");
    link.End(Reason::kStopped, "second");
  });
  CHECK(told->end->reason == Reason::kHung);
  CHECK(told->end->text == "first");
}

// --- WorkerCalls: what messages mean ---

// Runs the worker until it has greeted or ended; what Ready() gives.
absl::StatusOr<SandboxReport> Greeting(const std::string& script, absl::Duration start_timeout) {
  const SystemClock clock;
  LoopExecutor executor(clock);
  std::optional<absl::StatusOr<SandboxReport>> report;
  struct Wait {
    static Task<void> Run(std::shared_ptr<WorkerCalls> calls, LoopExecutor* executor,
                          std::optional<absl::StatusOr<SandboxReport>>* report) {
      absl::StatusOr<SandboxReport> ready = co_await calls->Ready();
      report->emplace(std::move(ready));
      executor->Stop();
    }
  };
  const std::shared_ptr<WorkerCalls> calls = WorkerCalls::Create(executor);
  WorkerLink link(executor, StartShell(script), "shell", calls);
  calls->Attach(&link, start_timeout);
  TaskScope scope(executor);
  scope.Spawn(Wait::Run(calls, &executor, &report));
  executor.PostAfter(kDeadline, [&executor] { executor.Stop(); });
  executor.Run();
  REQUIRE(report.has_value());
  return *report;
}

TEST_CASE("a worker's word about its sandbox is not enough") {
  const Json hello = {{"hello", train::kProtocolVersion},
                      {"in_force", {"everything"}},
                      {"missing", Json::array()}};
  const absl::Status status =
      Greeting(Write(Frame(hello)) + "kill -STOP $$", kDeadline).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(absl::StrContains(status.message(), "has not closed its sandbox"));
}

TEST_CASE("a worker of another version, or that says something else first, is ended") {
  for (const Json& first : {Json{{"hello", train::kProtocolVersion + 1},
                                 {"in_force", Json::array()},
                                 {"missing", Json::array()}},
                            Json{{"id", 1}}}) {
    INFO(first.dump());
    const absl::Status status =
        Greeting(Write(Frame(first)) + "kill -STOP $$", kDeadline).status();
    CHECK(absl::IsUnavailable(status));
    CHECK(absl::StrContains(status.message(), "broke the protocol"));
    CHECK(absl::StrContains(status.message(), "hello"));
  }
}

TEST_CASE("a worker that does not greet in time is ended") {
  const absl::Status status = Greeting("kill -STOP $$", absl::Milliseconds(100)).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(absl::StrContains(status.message(), "not ready within 100 ms"));
}

}  // namespace
}  // namespace gdf::supervisor
