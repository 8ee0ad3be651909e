#include "tests/sim/sim_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/rounds/receipts.h"
#include "tests/sim/invariants.h"

namespace gdf::sim {
namespace {

constexpr JobId kJob{7};
const Digest kSubmission = HashBytes("submission");
constexpr char kFolder[] = "/jobs/j7/state";
constexpr int kMaxStarts = 3;

config::JobSpec MakeSpec(const JobOptions& options, uint64_t seed) {
  config::JobSpec spec;
  spec.name = "sim";
  spec.train.steps = options.rounds * options.inner_steps;
  spec.train.batch_size = 1;
  spec.train.seed = seed;
  spec.rounds.inner_steps = options.inner_steps * options.fragments;
  spec.rounds.fragments = options.fragments;
  spec.rounds.delay_steps = options.delay_steps;
  spec.rounds.mixing = options.mixing;
  spec.rounds.outer = options.outer;
  spec.rounds.codecs = options.codecs;
  spec.rounds.rank = options.rank;
  spec.rounds.error_feedback = options.rank > 0 || options.codecs.back().kind != config::CodecKind::kFp32;
  spec.rounds.round_deadline = options.round_deadline;
  spec.rounds.steps_by_speed = options.steps_by_speed;
  spec.rounds.late = options.late;
  spec.nodes.min = options.min_nodes;
  spec.nodes.site_source = !options.near.empty()    ? config::SiteSource::kMeasured
                           : options.sites.empty() ? config::SiteSource::kNone
                                                   : config::SiteSource::kNamed;
  spec.nodes.sites = options.sites;
  spec.nodes.max = options.nodes;
  spec.output.checkpoint_every = options.checkpoint_every;
  return spec;
}

trust::NodeKey KeyOf(int index, uint64_t seed) {
  SeededRng rng(MixSeed(seed, 0x6b6579, static_cast<uint64_t>(index)));
  return trust::NodeKey::Generate(rng);
}

}  // namespace

// What a process has of the job.
struct SimJob::Instance {
  Instance(SimJob& job, Node& node);
  std::unique_ptr<rounds::Coordinator> coordinator;
  SimWorker worker;
  std::shared_ptr<checkpoint::CheckpointStore> store;
  rounds::JobMember member;  // last: it uses the rest
};

SimJob::Node::Node(int index, uint64_t seed, SimExecutor& world)
    : key(KeyOf(index, seed)),
      id(key.id()),
      executor(world),
      disk(MixSeed(seed, 0x6469736b, static_cast<uint64_t>(index))) {
  disk.set_before([this](std::string_view step, const std::string& path) {
    if (dying) return absl::UnavailableError("this process has crashed");
    return disk_fault ? disk_fault(step, path) : absl::OkStatus();
  });
}

SimJob::Instance::Instance(SimJob& job, Node& node)
    : coordinator(job.CoordinatorOf(node.id)),
      worker(node.executor, job.WorkerOptions(node), &job.journal_,
             [n = &node](std::string_view call, RoundId round) {
               return n->worker_fault ? n->worker_fault(call, round) : absl::OkStatus();
             }),
      store(std::make_shared<checkpoint::CheckpointStore>(
          node.disk, checkpoint::CheckpointStore::Options{
                          .folder = kFolder, .keep = 1 << 20, .num_params = job.options_.num_params})),
      member(rounds::RoundEnv{.job = kJob,
                              .submission = kSubmission,
                              .spec = node.spec ? *node.spec : job.spec_,
                              .executor = node.executor,
                              .pool = *node.pool,
                              .transport = *node.transport,
                              .worker = worker,
                              .loaded = SimWorker::Loaded(job.WorkerOptions(node)),
                              .store = store,
                              .key = node.key,
                              .coordinator = *coordinator}) {}

SimWorkerOptions SimJob::WorkerOptions(const Node& node) {
  SimWorkerOptions options;
  options.num_params = options_.num_params;
  options.seed = seed_;
  options.node = node.id;
  options.step_time = node.step_time;
  options.trouble = node.trouble;
  options.fragments = static_cast<uint64_t>(options_.fragments);
  options.has_matrix = options_.rank > 0;
  options.projections = &projections_;
  options.inner_states = &inner_states_;
  options.constant_gradient = options_.constant_gradient;
  if (before_step_) {
    options.before_step = [this, index = IndexOf(node.id)](int64_t step, absl::Span<const float> local) {
      before_step_(index, step, local);
    };
  }
  return options;
}

SimJob::SimJob(uint64_t seed, JobOptions options)
    : options_(options),
      seed_(seed),
      spec_(MakeSpec(options, seed)),
      rng_(MixSeed(seed, 0x6a6f62)),
      network_(executor_, seed, options.network) {
  for (int i = 0; i < options.nodes; ++i) nodes_.push_back(std::make_unique<Node>(i, seed, executor_));
  for (const auto& node : nodes_) ids_.push_back(node->id);
  invariants_ = std::make_unique<Invariants>(*this);
}

SimJob::~SimJob() {
  for (int i = 0; i < size(); ++i) Crash(i);
}

void SimJob::Start() {
  wire::EpochRecord first{Epoch{1}, nodes_[0]->id, {}};
  for (const auto& node : nodes_) first.members.push_back(node->id);
  epochs_.push_back(std::move(first));
  for (const auto& [a, b] : options_.near) network_.TellNear(id(a), id(b));
  for (int i = 0; i < size(); ++i) Restart(i);
}

int SimJob::IndexOf(const NodeId& id) const {
  for (int i = 0; i < size(); ++i) {
    if (nodes_[i]->id == id) return i;
  }
  return -1;
}

void SimJob::Say(const std::string& what) {
  if (say_) say_(absl::StrCat(absl::FormatDuration(executor_.Monotonic()), " ", what));
}

absl::Duration SimJob::Delay() { return absl::Milliseconds(2 + static_cast<int64_t>(rng_.Below(40))); }

const rounds::JobMember* SimJob::member(int node) const {
  return nodes_[node]->instance ? &nodes_[node]->instance->member : nullptr;
}

bool SimJob::HasEvent(std::string_view text) const {
  return std::any_of(events_.begin(), events_.end(),
                     [&](const wire::JobEvent& event) { return event.text.find(text) != std::string::npos; });
}

// --- Life of a node ---

void SimJob::Restart(int index) {
  Node& node = *nodes_[index];
  if (node.transport || finished()) return;
  node.dying = false;
  node.transport = network_.Join(node.id, node.executor);
  node.pool = std::make_unique<SimPool>(node.executor, rng_.NextWord(), &node.slowness);
  node.scope = std::make_unique<TaskScope>(node.executor);
  node.ended.reset();
  node.restored = false;
  node.scope->Spawn(RunNode(&node));
}

void SimJob::Crash(int index) {
  Node& node = *nodes_[index];
  if (!node.transport) return;
  invariants_->AfterStep();
  node.dying = true;
  node.transport->Mute();
  node.scope.reset();
  node.instance.reset();
  node.pool.reset();
  node.transport.reset();
  node.executor.Thaw();
}

void SimJob::Freeze(int index) {
  if (!Up(index)) return;
  nodes_[index]->executor.Freeze();
  nodes_[index]->transport->Freeze(true);
}

void SimJob::Thaw(int index) {
  nodes_[index]->executor.Thaw();
  if (Up(index)) nodes_[index]->transport->Freeze(false);
}

void SimJob::CutPower(int index) {
  Crash(index);
  nodes_[index]->disk.CutPower();
}

void SimJob::CrashFromWithin(int index, bool power) {
  nodes_[index]->dying = true;
  nodes_[index]->transport->Mute();
  executor_.Post([this, index, power] { power ? CutPower(index) : Crash(index); });
}

void SimJob::set_disk_room(int index, std::optional<uint64_t> more) {
  Node& node = *nodes_[index];
  node.disk.set_capacity_bytes(more ? node.disk.used_bytes() + *more : ~uint64_t{0});
  node.was_full |= more.has_value();
}

void SimJob::set_may_roll_back() { invariants_->set_may_roll_back(); }

void SimJob::TellTampered() { invariants_->TellTampered(); }

void SimJob::set_outer(int node, config::OuterSpec outer) {
  nodes_[node]->spec = spec_;
  nodes_[node]->spec->rounds.outer = outer;
}

// As gdfd's JobTask: starts the job again after an error that another start may mend.
Task<void> SimJob::RunNode(Node* node) {
  int starts = 0;
  while (true) {
    node->instance.reset();
    node->instance = std::make_unique<Instance>(*this, *node);
    absl::Status end = co_await node->instance->member.Start();
    if (end.ok()) {
      const RoundId begins = node->instance->member.state()->id.round;
      Say(absl::StrCat("node ", IndexOf(node->id), " starts at round ", begins.value));
      invariants_->Started(IndexOf(node->id));
      node->restored = true;
      node->stands_by = options_.returns && !epoch().Has(node->id);
      Tell(*node);
      end = co_await node->instance->member.WaitForEnd();
    }
    const bool out = absl::IsAborted(end) && !options_.returns;
    if (end.ok() || out || (!absl::IsAborted(end) && ++starts >= kMaxStarts) || finished()) {
      Say(absl::StrCat("node ", IndexOf(node->id), " ends: ", end.ToString()));
      node->ended = end;
      co_return;
    }
    Say(absl::StrCat("node ", IndexOf(node->id), " starts again after: ", end.ToString()));
    node->restored = false;
    co_await Sleep(node->executor, absl::Seconds(1));
  }
}

void SimJob::Tell(Node& node) {
  if (node.stands_by && !epoch().Has(node.id)) return;
  node.stands_by = false;
  node.instance->member.SetEpoch(epoch());
}

void SimJob::DropInstances() {
  for (const auto& node : nodes_) {
    node->scope.reset();
    if (node->instance && !node->ended) node->ended = absl::CancelledError("the job has ended");
    node->instance.reset();
  }
}

void SimJob::Isolate(int node) {
  for (int i = 0; i < size(); ++i) {
    if (i != node) network_.Cut(id(node), id(i));
  }
}

void SimJob::Rejoin(int node) {
  for (int i = 0; i < size(); ++i) {
    if (i != node) network_.Heal(id(node), id(i));
  }
}

bool SimJob::RunToEnd(absl::Duration limit) {
  return executor_.RunUntil(
      [this] {
        invariants_->AfterStep();
        if (!finish_) return false;
        return std::all_of(nodes_.begin(), nodes_.end(),
                           [](const auto& node) { return !node->transport || !node->instance || node->ended; });
      },
      limit);
}

// --- What happened ---

std::map<RoundId, CommittedRound> SimJob::Committed(int index) {
  std::map<RoundId, CommittedRound> rounds;
  SimDisk copy = nodes_[index]->disk;
  copy.set_before(nullptr);
  while (true) {  // newest first: what the store loads once the newer ones are gone
    checkpoint::CheckpointStore store(copy, {.folder = kFolder, .keep = 1 << 20, .num_params = options_.num_params});
    const absl::StatusOr<checkpoint::Loaded> loaded = store.Load();
    GDF_CHECK(loaded.ok());
    if (!loaded->committed) return rounds;
    const RoundId round = loaded->committed->id.round;
    rounds[round] = {loaded->committed, loaded->commit};
    GDF_CHECK(copy.Remove(absl::StrFormat("%s/committed-%016d", kFolder, round.value)).ok());
  }
}

checkpoint::Loaded SimJob::Durable(int index) const {
  SimDisk copy = nodes_[index]->disk;
  copy.set_before(nullptr);
  copy.CutPower();
  checkpoint::CheckpointStore store(copy, {.folder = kFolder, .keep = 1 << 20, .num_params = options_.num_params});
  absl::StatusOr<checkpoint::Loaded> loaded = store.Load();
  GDF_CHECK(loaded.ok());
  return *std::move(loaded);
}

absl::Status SimJob::CheckCommit(const wire::Commit& commit) const {
  const absl::StatusOr<std::vector<NodeId>> members = MembersOf(commit.receipt.tag.epoch);
  if (!members.ok()) return members.status();
  if (commit.receipt.contributions.empty()) return absl::DataLossError("it has no contribution");
  return rounds::VerifyCommit(commit, kJob, kSubmission, *members);
}

std::string SimJob::Violations() {
  invariants_->AtEnd();
  return invariants_->violations();
}

}  // namespace gdf::sim
