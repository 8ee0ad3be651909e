#include "tests/integration/cluster/cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gdf::cluster {
namespace {

namespace fs = std::filesystem;

// gdfd of another build, such as one with AddressSanitizer, runs the same tests.
std::string GdfdProgram() {
  const char* other = std::getenv("GDF_TEST_GDFD");
  return other != nullptr ? other : GDF_GDFD;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Shared memory by name. memfds have none and end with the processes that hold them.
std::vector<std::string> SharedMemory() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename();
    if (absl::StrContains(name, "gdf") || absl::StrContains(name, "torch")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Sentences of a small grammar: a model has something to learn from the first steps on.
std::string MakeText() {
  const std::vector<std::string> subjects = {"the river", "a stone", "the old king", "my brother",
                                             "the wind"};
  const std::vector<std::string> verbs = {"carries", "remembers", "follows", "forgets", "answers"};
  const std::vector<std::string> objects = {"the sea", "a song", "the long road", "its mother",
                                            "every name"};
  std::string text;
  for (size_t i = 0; text.size() < 24000; ++i) {
    absl::StrAppend(&text, subjects[i * 7 % 5], " ", verbs[(i * i + i / 5) % 5], " ",
                    objects[(i * 3 + i / 25) % 5], i % 4 == 3 ? ".\n" : ", ");
  }
  return text;
}

constexpr char kModel[] = "{gpt2: {layers: 1, heads: 2, width: 16, context: 16}}";
constexpr char kJobYaml[] = R"(name: tiny
kind: train
data:
  text: [text.txt]
  tokenizer: byte
train:
  steps: 20
  batch_size: 4
  optimizer: {lr: 3e-3}
  seed: 7
  threads: 1
rounds:
  inner_steps: 5
  round_deadline: 60s
nodes: {min: 1, max: 4}
model: )";

}  // namespace

Json CtlResult::json() const {
  INFO("gdfctl printed: " << out << err);
  const size_t end = out.find('\n');
  REQUIRE(end != std::string::npos);
  REQUIRE(end + 1 == out.size());
  Json parsed = Json::parse(out, nullptr, false);
  REQUIRE(parsed.is_object());
  REQUIRE(parsed["schema_version"] == 1);
  return parsed;
}

// --- Node ---

Node::Node(Options options) : options_(std::move(options)), listen_(options_.address + ":0") {
  fs::create_directories(options_.folder);
  if (options_.state_folder.empty()) options_.state_folder = options_.folder + "/state";
  WriteFile(options_.folder + "/gdfd.yaml",
            "port_mapping: false\nlog: {level: debug}\n" + options_.config);
}

std::vector<std::string> Node::Arguments() const {
  return {GdfdProgram(),
          "--config",
          options_.folder + "/gdfd.yaml",
          "--state-dir",
          options_.state_folder,
          "--control-socket",
          options_.folder + "/control.sock",
          "--listen",
          listen_,
          "--name",
          options_.name,
          "--worker",
          options_.worker.empty() ? GDF_WORKER_PROGRAM : options_.worker};
}

CtlResult Node::Gdfd(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), GdfdProgram());
  return RunToEnd(std::move(arguments), {});
}

CtlResult Node::Shell(const std::string& line) const {
  return RunToEnd({"/bin/bash", "-c", line},
                  {"GDFD=" + GdfdProgram(), "GDFCTL=" GDF_GDFCTL, "WORKER=" GDF_WORKER_PROGRAM,
                   absl::StrCat("GDF_SOCKET=", options_.folder, "/control.sock")});
}

CtlResult Node::StartInVain() const { return RunToEnd(Arguments(), {}); }

void Node::Start() {
  REQUIRE(process_ == nullptr);
  int pipe_fds[2];
  REQUIRE(pipe2(pipe_fds, O_CLOEXEC) == 0);
  const train::UniqueFd ready(pipe_fds[0]);
  train::UniqueFd told(pipe_fds[1]);
  Process::Options process;
  process.arguments = Arguments();
  process.arguments.insert(process.arguments.end(),
                           {"--ready-fd", std::to_string(Process::kReadyFd)});
  process.error_file = log_path();
  process.output_to_error_file = true;
  process.ready_fd = told.get();
  process_ = std::make_unique<Process>(process);
  told.Reset();
  char word[6] = {};
  const bool heard = AwaitReadable(ready.get(), kDeadline) &&
                     read(ready.get(), word, sizeof(word)) == sizeof(word);
  INFO(name() << " says: " << Log());
  REQUIRE(heard);
  REQUIRE(std::string(word, sizeof(word)) == "ready\n");
  listen_ = Ask({"status"})["listen"][0];
}

int Node::Kill(int signal) {
  REQUIRE(process_ != nullptr);
  if (signal != 0) process_->Signal(signal);
  const std::optional<int> code = process_->Wait();
  INFO(name() << " does not end after signal " << signal << ": " << Log());
  REQUIRE(code.has_value());
  process_.reset();
  return *code;
}

CtlResult Node::Restore(const std::string& archive, const std::string& passphrase) const {
  return RunToEnd({GdfdProgram(), "--restore", archive, "--state-dir", options_.state_folder},
                  {"GDF_PASSPHRASE=" + passphrase});
}

CtlResult Node::RunToEnd(std::vector<std::string> arguments,
                         std::vector<std::string> environment) const {
  const std::string error_file = options_.folder + "/gdfd.err";
  fs::remove(error_file);
  Process::Options options;
  options.arguments = std::move(arguments);
  options.error_file = error_file;
  options.environment = std::move(environment);
  Process process(options);
  CtlResult result;
  result.out = process.ReadAll();
  const std::optional<int> code = process.Wait();
  REQUIRE(code.has_value());
  result.code = *code;
  result.err = ReadFile(error_file);
  return result;
}

std::vector<std::string> Node::CtlArguments(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {GDF_GDFCTL, "--socket", options_.folder + "/control.sock"});
  return arguments;
}

CtlResult Node::Ctl(std::vector<std::string> arguments, absl::Duration timeout) const {
  const std::string error_file = options_.folder + "/gdfctl.err";
  fs::remove(error_file);
  Process::Options options;
  options.arguments = CtlArguments(std::move(arguments));
  options.error_file = error_file;
  Process process(options);
  CtlResult result;
  result.out = process.ReadAll(timeout);
  const std::optional<int> code = process.Wait(absl::Seconds(10));
  result.err = ReadFile(error_file);
  INFO("gdfctl of " << name() << " does not end: " << result.out << result.err);
  REQUIRE(code.has_value());
  result.code = *code;
  return result;
}

Json Node::Ask(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), "--json");
  const CtlResult result = Ctl(arguments);
  INFO("gdfctl of " << name() << ": " << result.out << result.err);
  REQUIRE(result.code == 0);
  return result.json();
}

std::unique_ptr<Process> Node::Watch(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), "--json");
  Process::Options options;
  options.arguments = CtlArguments(std::move(arguments));
  options.error_file = options_.folder + "/watch.err";
  return std::make_unique<Process>(options);
}

Json Node::AwaitStatus(const std::function<bool(const Json&)>& wanted) const {
  const absl::Duration until = MonotonicNow() + kDeadline;
  std::string last;
  while (MonotonicNow() < until) {  // a watch ends with a daemon that begins anew
    const std::unique_ptr<Process> watch = Watch({"status", "-w"});
    while (std::optional<std::string> line = watch->ReadLine(until - MonotonicNow())) {
      Json status = Json::parse(*line);
      if (wanted(status)) return status;
      last = *std::move(line);
    }
  }
  FAIL(name() << " does not come to the wanted status; the last was " << last);
  return {};
}

std::vector<pid_t> Node::Workers() const {
  std::vector<pid_t> workers;
  for (const pid_t child : ChildrenOf(pid())) {
    if (NameOf(child) == "gdf-worker") workers.push_back(child);
  }
  return workers;
}

int Node::OpenMemfds() const {
  std::error_code error;
  int count = 0;
  const fs::directory_iterator fds("/proc/" + std::to_string(pid()) + "/fd", error);
  if (error) return -1;
  for (const fs::directory_entry& fd : fds) {
    const fs::path target = fs::read_symlink(fd.path(), error);
    if (!error && absl::StrContains(target.string(), "memfd:")) ++count;
  }
  return count;
}

bool Node::AwaitNoMemfds() const {
  const absl::Duration until = MonotonicNow() + kDeadline;
  while (OpenMemfds() > 0) {
    if (MonotonicNow() > until) return false;
    Ask({"status"});  // it has handled something more since
  }
  return true;
}

std::string Node::Log() const { return ReadFile(log_path()); }

// --- Cluster ---

Cluster::Cluster(int nodes, const std::string& config)
    : config_(config), shared_memory_before_(SharedMemory()) {
  // What a killed daemon leaves becomes a child of this process, which sees it so.
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  // An address of its own on the loopback network: a port that a node has had is still free when it
  // comes back.
  const pid_t pid = getpid();
  address_ = absl::StrCat("127.", 1 + (pid >> 16) % 254, ".", (pid >> 8) & 255, ".",
                          1 + (pid & 255) % 254);
  WriteFile(text_file(), MakeText());
  SetModel(kModel);
  for (int i = 0; i < nodes; ++i) AddNode().Start();
  node(0).Ask({"network", "create", "test"});
  if (nodes == 1) return;
  const std::string invite = node(0).Ask({"invite", "--role", "contributor", "--ttl", "1h",
                                          "--uses", std::to_string(nodes - 1)})["invite"];
  for (int i = 1; i < nodes; ++i) node(i).Ask({"join", invite});
}

Cluster::~Cluster() {
  const bool failing = std::uncaught_exceptions() > 0;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (!node->running()) continue;
    if (failing) {
      std::cerr << "--- log of " << node->name() << ", pid " << node->pid() << "\n"
                << node->Log() << std::endl;
      continue;
    }
    const int code = node->Kill(SIGTERM);
    CHECK(code == 0);
  }
  if (failing) {
    nodes_.clear();
    return;
  }
  AwaitNoOrphans();
  CHECK(SharedMemory() == shared_memory_before_);
}

Node& Cluster::AddNode(const std::string& config, const std::string& state_folder,
                       const std::string& worker) {
  const std::string name = absl::StrCat("node", nodes_.size());
  nodes_.push_back(std::make_unique<Node>(Node::Options{
      name, folder() + "/" + name, address_, config.empty() ? config_ : config, state_folder,
      worker}));
  return *nodes_.back();
}

void Cluster::Join(Node& node, const std::string& role) {
  node.Ask({"join", nodes_[0]->Ask({"invite", "--role", role, "--ttl", "1h"})["invite"]});
}

Node& Cluster::NodeWithId(const std::string& id) {
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (node->running() && node->id() == id) return *node;
  }
  FAIL("no running node has the id " << id);
  return *nodes_[0];
}

void Cluster::SetModel(const std::string& model) const {
  WriteFile(job_file(), kJobYaml + model + "\n");
}

std::vector<std::string> Cluster::JobArguments(const JobOptions& options) const {
  const int max = options.nodes_max > 0 ? options.nodes_max : static_cast<int>(nodes_.size());
  std::vector<std::string> arguments = {job_file()};
  std::vector<std::string> set = {
      absl::StrCat("train.steps=", options.rounds * options.inner_steps),
      absl::StrCat("rounds.inner_steps=", options.inner_steps),
      absl::StrCat("nodes.min=", options.nodes_min), absl::StrCat("nodes.max=", max)};
  set.insert(set.end(), options.set.begin(), options.set.end());
  for (const std::string& one : set) {
    arguments.push_back("--set");
    arguments.push_back(one);
  }
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

std::string Cluster::Submit(Node& node, const JobOptions& options) const {
  std::vector<std::string> arguments = JobArguments(options);
  arguments.insert(arguments.begin(), "submit");
  return node.Ask(arguments)["job"];
}

std::vector<pid_t> Cluster::Orphans() const {
  std::set<pid_t> mine;
  for (const std::unique_ptr<Node>& node : nodes_) {
    if (node->running()) mine.insert(node->pid());
  }
  std::vector<pid_t> orphans;
  for (const pid_t child : ChildrenOf(getpid())) {
    if (mine.count(child) == 0 && NameOf(child) != "gdfctl") orphans.push_back(child);
  }
  return orphans;
}

void Cluster::AwaitNoOrphans() {
  for (std::vector<pid_t> orphans = Orphans(); !orphans.empty(); orphans = Orphans()) {
    for (const pid_t orphan : orphans) {
      const std::string name = NameOf(orphan);
      if (AwaitEnd(orphan)) continue;
      kill(orphan, SIGKILL);
      AwaitEnd(orphan);
      FAIL_CHECK("process " << orphan << " (" << name << ") outlived the daemon that started it");
    }
  }
}

// --- JobLog ---

JobLog::JobLog(const Node& node, const std::string& job)
    : process_(node.Watch({"job", "logs", "-f", job})) {}

std::optional<Json> JobLog::Next(absl::Duration timeout) {
  const std::optional<std::string> line = process_->ReadLine(timeout);
  if (!line) return std::nullopt;
  absl::StrAppend(&text_, *line, "\n");
  Json update = Json::parse(*line);
  if (update["type"] == "round") rounds_.push_back(update["round"]);
  if (update["type"] == "event") events_.push_back(update["event"]);
  return update;
}

Json JobLog::Await(const std::string& what, const std::function<bool(const Json&)>& wanted,
                   absl::Duration timeout) {
  const absl::Duration until = MonotonicNow() + timeout;
  while (std::optional<Json> update = Next(until - MonotonicNow())) {
    if (wanted(*update)) return *update;
  }
  FAIL((process_->at_end() ? "the log ended before " : "the log goes on without ") << what << ":\n"
                                                                                   << text_);
  return {};
}

Json JobLog::AwaitRound(uint64_t round) {
  return Await(absl::StrCat("round ", round), [round](const Json& update) {
    return update["type"] == "round" && update["round"]["round"] >= round;
  })["round"];
}

Json JobLog::AwaitEvent(const std::string& text) {
  return Await(absl::StrCat("an event with '", text, "'"), [&](const Json& update) {
    return update["type"] == "event" &&
           absl::StrContains(update["event"]["text"].get<std::string>(), text);
  })["event"];
}

Json JobLog::AwaitEnd(absl::Duration timeout) {
  const Json end = Await(
      "the job's end", [](const Json& update) { return update["type"] == "finished"; }, timeout);
  const std::optional<int> code = process_->Wait();
  REQUIRE(code == 0);
  return end["job"];
}

void JobLog::ReadFor(absl::Duration span) {
  const absl::Duration until = MonotonicNow() + span;
  while (MonotonicNow() < until && !process_->at_end()) Next(until - MonotonicNow());
}

bool JobLog::HasEvent(const std::string& text) const {
  return std::any_of(events_.begin(), events_.end(), [&](const Json& event) {
    return absl::StrContains(event["text"].get<std::string>(), text);
  });
}

std::string JobLog::Text() const { return text_; }

}  // namespace gdf::cluster
