// A whole network that runs jobs, simulated: memberships, swarms, scheduler and job hosts over the
// simulated transport, with simulated workers. Node 1 is the coordinator.
#ifndef GDF_TESTS_UNIT_JOBS_JOB_NETWORK_H_
#define GDF_TESTS_UNIT_JOBS_JOB_NETWORK_H_

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "gdfd/jobs/job_host.h"
#include "gdfd/jobs/network_coordinator.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_worker.h"
#include "tests/support/temporary_folder.h"

namespace gdf::jobs {

inline bool Says(const absl::Status& status, absl::StatusCode code, std::string_view text) {
  UNSCOPED_INFO(status);
  return status.code() == code && std::string(status.message()).find(text) != std::string::npos;
}

// 12 inner steps in rounds of 4; `nodes`: the lines below "nodes:".
inline std::string JobYaml(const std::string& nodes, const std::string& output = "",
                           int rounds = 3) {
  return absl::StrCat(R"(name: job
kind: train
model:
  gpt2: {layers: 1, heads: 1, width: 8, context: 8}
data:
  text: [data.txt]
  tokenizer: char
  sequence_length: 8
  validation_fraction: 10%
train:
  steps: )",
                      4 * rounds, R"(
  batch_size: 1
  optimizer: {kind: adamw, lr: 1e-3}
rounds:
  inner_steps: 4
  outer: {optimizer: nesterov, lr: 0.7, momentum: 0.9}
  round_deadline: 2m
nodes:
)",
                      nodes, output.empty() ? "" : "output:\n" + output);
}

// Notes the threads that it is to use.
class ThreadNotingWorker final : public sim::SimWorker {
 public:
  ThreadNotingWorker(Executor& executor, sim::SimWorkerOptions options, sim::EmitJournal* journal,
                     Fault fault, std::vector<int64_t>* threads)
      : SimWorker(executor, options, journal, std::move(fault)), threads_(threads) {}
  Task<absl::StatusOr<train::LoadResult>> Load(train::LoadRequest request) override {
    threads_->push_back(request.threads);
    return SimWorker::Load(std::move(request));
  }

 private:
  std::vector<int64_t>* const threads_;
};

class JobNetwork {
 public:
  struct Node {
    explicit Node(int n) : number(n), key(KeyOf(n)), rng(100 + static_cast<uint64_t>(n)) {}
    NodeId id() const { return key.id(); }

    const int number;
    const trust::NodeKey key;
    SeededRng rng;
    MemoryFileSystem files;
    uint64_t memory_bytes = uint64_t{8} << 30;
    uint64_t inputs_cap_bytes = uint64_t{1} << 20;  // takes effect with Start
    uint64_t chunks_cap_bytes = ~uint64_t{0};  // likewise
    int64_t worker_threads = 0;          // the owner's limit; takes effect with Start
    int64_t tasks = 1;                   // likewise
    TaskSlots job_slots;  // since its start
    std::vector<int64_t> threads;        // that workers were loaded with, in order
    sim::SimWorker::Fault fault;  // of its workers
    sim::WorkerTrouble trouble;   // of those that start from now on
    int workers = 0;              // started
    std::vector<train::GpuDevice> gpus;  // found a minute after the start, as by a slow driver
    absl::Status gpu_trouble;            // of workers that are to use one
    std::vector<std::string> devices;    // that workers were started on, in order
    std::unique_ptr<state::State> state;
    std::unique_ptr<sim::SimTransport> transport;  // null while down
    std::unique_ptr<membership::Membership> membership;
    std::shared_ptr<store::ChunkStore> chunks;
    std::unique_ptr<swarm::Swarm> swarm;
    std::unique_ptr<Scheduler> scheduler;
    std::unique_ptr<JobHost> host;
  };

  explicit JobNetwork(uint64_t seed = 1) : network_(executor_, seed) {}
  ~JobNetwork() {
    for (auto& node : nodes_) Crash(*node);
  }

  // The first node founds the network, the others join as `roles`.
  Node& Add(trust::RoleSet roles, uint64_t memory_bytes = uint64_t{8} << 30,
            std::vector<train::GpuDevice> gpus = {}) {
    nodes_.push_back(std::make_unique<Node>(static_cast<int>(nodes_.size()) + 1));
    Node& node = *nodes_.back();
    node.memory_bytes = memory_bytes;
    node.gpus = std::move(gpus);
    Start(node);
    if (nodes_.size() == 1) {
      REQUIRE(node.membership->Found("my-net").ok());
      node.scheduler = std::make_unique<Scheduler>(*node.transport, *node.state, *node.membership);
      if (roles != trust::RoleSet::All()) {
        REQUIRE(Do(node, wire::SetRole{node.id(), roles.bits()}).ok());
      }
      return node;
    }
    trust::Invite invite;
    invite.Randomize(node.rng);
    invite.network = coordinator().state->network()->id;
    invite.roles = roles;
    invite.expires_unix_ms = absl::ToUnixMillis(executor_.Now() + absl::Hours(1));
    invite.coordinators = {{coordinator().id(), {"192.0.2.1:7420"}}};
    REQUIRE(Do(coordinator(),
               wire::CreateInvite{invite.id, trust::InviteSecretHash(invite.id, invite.secret),
                                  roles.bits(), invite.expires_unix_ms, 1})
                .ok());
    const absl::Status joined = Await(node.membership->Join(invite, ""));
    INFO(joined);
    REQUIRE(joined.ok());
    REQUIRE(Comes([&] { return coordinator().membership->IsOnline(node.id()); }));
    return node;
  }
  Node& coordinator() { return *nodes_.at(0); }
  Node& node(int number) { return *nodes_.at(static_cast<size_t>(number - 1)); }

  // The process of `node` is no more; its disk and state stay. Not from within its own tasks.
  void Crash(Node& node) {
    node.transport.reset();
    node.host.reset();
    node.scheduler.reset();
    node.swarm.reset();
    node.chunks.reset();
    node.membership.reset();
    node.state.reset();
  }
  void Start(Node& node) {
    node.state = *state::State::Open(absl::StrCat(folder_.path(), "/n", node.number, ".db"));
    node.transport = network_.Join(node.id());
    node.membership = std::make_unique<membership::Membership>(
        membership::Environment{executor_, *node.transport, *node.state, node.key, node.rng});
    node.chunks = *store::ChunkStore::Open(node.files, {.folder = "/chunks", .cap_bytes = node.chunks_cap_bytes});
    node.swarm = std::make_unique<swarm::Swarm>(
        *node.transport, pool_, node.chunks, [&node](JobId id, NodeId peer) {
          absl::StatusOr<state::Job> job = node.state->job(id);
          return job.ok() && job->HasPart(peer);
        });
    node.job_slots = TaskSlots(node.tasks);
    JobWorld world{executor_,
                   pool_,
                   node.files,
                   *node.transport,
                   *node.state,
                   *node.swarm,
                   node.chunks,
                   node.key,
                   [this, &node](WorkerRequest request) {
                     return StartWorker(this, &node, std::move(request));
                   },
                   "/jobs",
                   "/paused",
                   node.worker_threads,
                   [&node] { return GpusOf(&node); },
                   InputBudget(node.inputs_cap_bytes),
                   node.job_slots,
                   TaskSlots(node.tasks)};
    node.host = std::make_unique<JobHost>(std::move(world), [&node] {
      return std::make_unique<NetworkCoordinator>(*node.transport, *node.state, *node.membership,
                                                  [&node] { return node.scheduler.get(); });
    });
    wire::NodeProfile profile;
    profile.name = absl::StrCat("n", node.number);
    profile.resources.cpu_threads = 2;
    profile.resources.memory_bytes = node.memory_bytes;
    for (const train::GpuDevice& gpu : node.gpus) {
      profile.resources.gpus.push_back({gpu.name, gpu.memory_bytes});
    }
    node.membership->Start(profile);
    TellPauses(*node.host, *node.membership);
    if (node.membership->coordinator()) {
      node.scheduler = std::make_unique<Scheduler>(*node.transport, *node.state, *node.membership);
    }
    node.host->Start();
  }

  absl::StatusOr<wire::CommandResult> Propose(Node& node, wire::CommandBody body) {
    return Await(node.membership->ProposeChecked(std::move(body)));
  }
  absl::Status Do(Node& node, wire::CommandBody body) {
    return Propose(node, std::move(body)).status();
  }

  // Puts the text into the store of `node` and submits the job from there.
  JobId Submit(Node& node, const std::string& yaml, const std::string& text = "In the beginning") {
    store::Manifest manifest;
    manifest.name = "data";
    store::ChunkWriter writer(*node.chunks, "upload");
    REQUIRE(writer.Append(AsBytes(text)).ok());
    manifest.files.push_back(*writer.Finish("data.txt"));
    const Digest digest = *node.chunks->Put(AsBytes(std::string_view(manifest.Encode())), "upload");
    absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(yaml, "job.yaml");
    INFO(spec.status());
    REQUIRE(spec.ok());
    wire::SubmitJob submit;
    submit.name = spec->name;
    submit.submit_token = absl::StrCat("token-", ++submissions_);
    submit.spec_yaml = yaml;
    submit.inputs = {{"data", digest, submit_as_bytes.value_or(text.size()), node.id()}};
    submit.planned_rounds = static_cast<uint64_t>(config::NumRounds(*spec));
    const absl::StatusOr<wire::CommandResult> result = Propose(node, std::move(submit));
    INFO(result.status());
    REQUIRE(result.ok());
    REQUIRE(node.host->Hold(*node.state->job(result->job)).ok());
    REQUIRE(node.chunks->Drop("upload").ok());
    return result->job;
  }
  state::Job Job(JobId id) { return *coordinator().state->job(id); }
  bool Finishes(JobId id, absl::Duration limit = absl::Hours(2)) {
    return Comes([&] { return Job(id).phase == state::JobPhase::kFinished; }, limit);
  }
  bool HasEvent(std::string_view text) {
    const std::vector<state::Event> events = *coordinator().state->events(0);
    return std::any_of(events.begin(), events.end(), [&](const state::Event& e) {
      return e.text.find(text) != std::string::npos;
    });
  }

  bool Comes(std::function<bool()> condition, absl::Duration limit = absl::Minutes(10)) {
    return executor_.RunUntil(std::move(condition), limit);
  }
  void Pass(absl::Duration time) {
    executor_.RunUntil([] { return false; }, time);
  }
  template <typename T>
  T Await(Task<T> task) {
    std::optional<T> result;
    TaskScope scope(executor_);
    scope.Spawn(Into(std::move(task), &result));
    REQUIRE(executor_.RunUntil([&] { return result.has_value(); }, absl::Hours(2)));
    return *std::move(result);
  }
  SimExecutor& executor() { return executor_; }
  sim::SimNetwork& network() { return network_; }
  InlinePool& pool() { return pool_; }
  uint64_t num_params = 100;                // of the models that are trained
  std::optional<uint64_t> submit_as_bytes;  // instead of the size that inputs have

 private:
  static trust::NodeKey KeyOf(int number) {
    trust::NodeKey::Seed seed{};
    seed[0] = static_cast<uint8_t>(number);
    return trust::NodeKey::FromSeed(seed);
  }
  template <typename T>
  static Task<void> Into(Task<T> task, std::optional<T>* result) {
    T value = co_await std::move(task);
    result->emplace(std::move(value));
  }
  static Task<std::vector<train::GpuDevice>> GpusOf(Node* node) {
    if (!node->gpus.empty()) co_await Sleep(node->transport->executor(), absl::Minutes(1));
    co_return node->gpus;
  }
  static Task<absl::StatusOr<std::unique_ptr<train::WorkerSession>>> StartWorker(
      JobNetwork* self, Node* node, WorkerRequest request) {
    ++node->workers;
    node->devices.push_back(request.gpus.empty() ? "cpu" : request.gpus[0].name);
    if (!request.gpus.empty() && !node->gpu_trouble.ok()) co_return node->gpu_trouble;
    sim::SimWorkerOptions options;
    options.num_params = self->num_params;
    options.seed = 5;
    options.node = node->id();
    options.trouble = node->trouble;
    auto fault = [node](std::string_view call, RoundId round) {
      return node->fault ? node->fault(call, round) : absl::OkStatus();
    };
    co_return std::unique_ptr<train::WorkerSession>(std::make_unique<ThreadNotingWorker>(
        self->executor_, options, &self->journal_, std::move(fault), &node->threads));
  }

  testing::TemporaryFolder folder_;
  SimExecutor executor_;
  InlinePool pool_;
  sim::SimNetwork network_;
  sim::EmitJournal journal_;
  int submissions_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace gdf::jobs

#endif  // GDF_TESTS_UNIT_JOBS_JOB_NETWORK_H_
