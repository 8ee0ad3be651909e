#include "tests/sim/sim_job.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/rounds/receipts.h"

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

// The optimiser's, without the factors that may follow it.
absl::Span<const float> SimJob::OuterMomentum(const checkpoint::OuterState& state) const {
  return state.momentum.span().subspan(0, options_.outer.momentum > 0 ? options_.num_params : 0);
}

// What a process has of the job.
struct SimJob::Instance {
  Instance(SimJob& job, Node& node);
  std::unique_ptr<rounds::Coordinator> coordinator;
  SimWorker worker;
  std::shared_ptr<checkpoint::CheckpointStore> store;
  rounds::JobMember member;  // last: it uses the rest
};

class SimJob::NodeCoordinator final : public rounds::Coordinator {
 public:
  NodeCoordinator(SimJob& job, NodeId self) : job_(job), self_(self) {}

  Task<absl::Status> RequestEpoch(rounds::EpochRequest request) override {
    co_await Sleep(job_.executor_, job_.Delay());
    const absl::Status status = job_.OnRequestEpoch(self_, request);
    co_await Sleep(job_.executor_, job_.Delay());
    co_return status;
  }
  Task<absl::Status> ReportJob(wire::ReportJob report) override {
    co_await Sleep(job_.executor_, job_.Delay());
    job_.Say(absl::StrCat("round ", report.round.value, " reported by node ", job_.IndexOf(self_)));
    if (job_.on_report_) job_.on_report_(report);
    co_await Sleep(job_.executor_, job_.Delay());
    if (report.epoch == job_.epoch().epoch) {
      job_.reports_.push_back(std::move(report));
      job_.TakeBack();
    }
    co_await Sleep(job_.executor_, job_.Delay());
    co_return absl::OkStatus();
  }
  Task<absl::Status> FinishJob(wire::FinishJob finish) override {
    co_await Sleep(job_.executor_, job_.Delay());
    const absl::Status status = job_.OnFinish(self_, finish);
    co_await Sleep(job_.executor_, job_.Delay());
    co_return status;
  }
  Task<absl::Status> ReportEvent(wire::JobEvent event) override {
    co_await Sleep(job_.executor_, job_.Delay());
    job_.Say(absl::StrCat("node ", job_.IndexOf(self_), ": ", event.text));
    job_.events_.push_back(std::move(event));
    co_return absl::OkStatus();
  }
  absl::StatusOr<std::vector<NodeId>> MembersOf(JobId, Epoch epoch) override { return job_.MembersOf(epoch); }
  uint64_t RecordedRounds(JobId) override {
    return job_.reports_.empty() ? 0 : job_.reports_.back().round.value + 1;
  }
  bool IsMember(NodeId node) override { return job_.put_out_.count(job_.IndexOf(node)) == 0; }
  std::string NameOf(NodeId node) override { return absl::StrCat("node", job_.IndexOf(node)); }
  bool SeesOffline(NodeId node) override { return job_.sees_offline_(job_.IndexOf(node)); }

 private:
  SimJob& job_;
  const NodeId self_;
};

SimJob::Node::Node(int index, uint64_t seed) : key(KeyOf(index, seed)), id(key.id()), files(disk) {}

SimJob::Instance::Instance(SimJob& job, Node& node)
    : coordinator(std::make_unique<NodeCoordinator>(job, node.id)),
      worker(job.executor_, job.WorkerOptions(node), &job.journal_,
             [n = &node](std::string_view call, RoundId round) {
               return n->worker_fault ? n->worker_fault(call, round) : absl::OkStatus();
             }),
      store(std::make_shared<checkpoint::CheckpointStore>(
          node.files, checkpoint::CheckpointStore::Options{
                          .folder = kFolder, .keep = 1 << 20, .num_params = job.options_.num_params})),
      member(rounds::RoundEnv{.job = kJob,
                              .submission = kSubmission,
                              .spec = node.spec ? *node.spec : job.spec_,
                              .executor = job.executor_,
                              .pool = job.pool_,
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
  options.fragments = static_cast<uint64_t>(options_.fragments);
  options.has_matrix = options_.rank > 0;
  options.projections = &projections_;
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
  for (int i = 0; i < options.nodes; ++i) nodes_.push_back(std::make_unique<Node>(i, seed));
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
  node.transport = network_.Join(node.id);
  node.scope = std::make_unique<TaskScope>(executor_);
  node.ended.reset();
  node.restored = false;
  node.scope->Spawn(RunNode(&node));
}

void SimJob::Crash(int index) {
  Node& node = *nodes_[index];
  if (!node.transport) return;
  Observe();
  node.transport->Mute();
  node.scope.reset();
  node.instance.reset();
  node.transport.reset();
}

void SimJob::CrashFromWithin(int index) {
  nodes_[index]->transport->Mute();
  executor_.Post([this, index] { Crash(index); });
}

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
      if (begins.value + static_cast<uint64_t>(options_.checkpoint_every) < node->seen.value) {
        absl::StrAppend(&violations_, "node ", node->id.Short(), " restarted at round ", begins.value,
                        " though it had committed round ", node->seen.value, "\n");
      }
      Say(absl::StrCat("node ", IndexOf(node->id), " starts at round ", begins.value));
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
    co_await Sleep(executor_, absl::Seconds(1));
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
  const bool ended = executor_.RunUntil(
      [this] {
        if (!finish_) return false;
        return std::all_of(nodes_.begin(), nodes_.end(),
                           [](const auto& node) { return !node->transport || !node->instance || node->ended; });
      },
      limit);
  Observe();
  return ended;
}

// --- The coordinator: as gdfd's Scheduler and State ---

absl::Status SimJob::OnRequestEpoch(const NodeId& from, const rounds::EpochRequest& request) {
  if (finish_) return absl::FailedPreconditionError("the job is not running");
  const wire::EpochRecord& now = epoch();
  if (!now.Has(from)) return absl::PermissionDeniedError("no member of the job");
  if (request.current != now.epoch) return absl::OkStatus();  // somebody else asked first
  schedule::Losses::Group group{now.members, now.lead, {}, nodes_.size()};
  for (const NodeId& member : now.members) {
    if (Up(IndexOf(member))) group.online.push_back(member);
  }
  losses_.Hear(from, request.lost, executor_.Monotonic());
  wire::EpochRecord next{now.epoch.next(), {}, losses_.Staying(group, executor_.Monotonic())};
  AddReturned(next.members);
  if (next.members == now.members) return absl::UnavailableError("the job keeps its nodes");
  if (next.members.empty() || static_cast<int>(next.members.size()) < options_.min_nodes) {
    return absl::UnavailableError(absl::StrCat("the job needs ", options_.min_nodes, " nodes and has ",
                                               next.members.size(), " left"));
  }
  next.lead = next.Has(now.lead) ? now.lead : next.members.front();
  Open(std::move(next), absl::StrCat("asked for by node ", IndexOf(from), ": ", request.reason));
  return absl::OkStatus();
}

void SimJob::Announce() {
  for (int i = 0; i < size(); ++i) {
    executor_.PostAfter(Delay(), [this, i] {
      Node& node = *nodes_[i];
      if (node.transport && node.instance && node.restored) Tell(node);
    });
  }
}

void SimJob::Tell(Node& node) {
  if (node.stands_by && !epoch().Has(node.id)) return;
  node.stands_by = false;
  node.instance->member.SetEpoch(epoch());
}

void SimJob::AddReturned(std::vector<NodeId>& members) const {
  for (const auto& node : nodes_) {
    const bool there = node->transport && node->instance && node->restored && node->stands_by && !node->ended;
    if (there && !absl::c_linear_search(members, node->id)) members.push_back(node->id);
  }
  absl::c_sort(members, [this](const NodeId& a, const NodeId& b) { return IndexOf(a) < IndexOf(b); });
}

void SimJob::TakeBack() {
  if (finish_) return;
  wire::EpochRecord next{epoch().epoch.next(), epoch().lead, epoch().members};
  AddReturned(next.members);
  if (next.members.size() > epoch().members.size()) Open(std::move(next), "nodes are back");
}

void SimJob::Open(wire::EpochRecord next, const std::string& why) {
  Say(absl::StrCat("epoch ", next.epoch.value, " of ", next.members.size(), " led by node ", IndexOf(next.lead), ": ", why));
  epochs_.push_back(std::move(next));
  losses_ = {};
  Announce();
}

absl::Status SimJob::OnFinish(const NodeId& from, const wire::FinishJob& finish) {
  if (finish_ || finish.epoch != epoch().epoch || from != epoch().lead) {
    return absl::FailedPreconditionError("not the running epoch's lead");
  }
  Say(absl::StrCat("the job ", wire::ToString(finish.verdict) == "failed" ? "failed: " : "succeeded", finish.reason));
  finish_ = finish;
  const bool ok = finish.verdict == wire::Verdict::kSucceeded;
  executor_.PostAfter(ok ? absl::Seconds(60) : Delay(), [this] { DropInstances(); });
  return absl::OkStatus();
}

void SimJob::DropInstances() {
  for (const auto& node : nodes_) {
    node->scope.reset();
    if (node->instance && !node->ended) node->ended = absl::CancelledError("the job has ended");
    node->instance.reset();
  }
}

// --- Invariants ---

void SimJob::Observe() {
  for (const auto& node : nodes_) {
    if (!node->instance || !node->restored) continue;
    const checkpoint::OuterStatePtr state = node->instance->member.state();
    if (state == nullptr || state->id.round.value == 0) continue;
    node->seen = state->id.round;
    if (may_roll_back_) continue;
    const auto [it, fresh] = seen_.emplace(state->id.round, state);
    if (!fresh && it->second->id.theta != state->id.theta) {
      absl::StrAppend(&violations_, "node ", node->id.Short(), " committed another result of round ",
                      state->id.round.value, "\n");
    }
  }
}

std::map<RoundId, CommittedRound> SimJob::Committed(int index) {
  std::map<RoundId, CommittedRound> rounds;
  MemoryFileSystem copy = nodes_[index]->disk;
  while (true) {  // newest first: what the store loads once the newer ones are gone
    checkpoint::CheckpointStore store(copy, {.folder = kFolder, .keep = 1 << 20, .num_params = options_.num_params});
    const absl::StatusOr<checkpoint::Loaded> loaded = store.Load();
    GDF_CHECK(loaded.ok());
    for (const std::string& damage : loaded->damage) absl::StrAppend(&violations_, "damaged: ", damage, "\n");
    if (!loaded->committed) return rounds;
    const RoundId round = loaded->committed->id.round;
    rounds[round] = {loaded->committed, loaded->commit};
    GDF_CHECK(copy.Remove(absl::StrFormat("%s/committed-%016d", kFolder, round.value)).ok());
  }
}

std::string SimJob::Violations() {
  Observe();
  std::map<RoundId, CommittedRound> all;
  for (int i = 0; i < size(); ++i) {
    for (const auto& [round, committed] : Committed(i)) {
      const auto [it, fresh] = all.emplace(round, committed);
      if (!fresh && it->second.state->id.theta != committed.state->id.theta) {
        absl::StrAppend(&violations_, "the disk of node ", id(i).Short(), " has another result of round ", round.value,
                        "\n");
      }
      if (committed.commit) violations_ += CheckCommit(*committed.commit);
    }
  }
  for (const auto& [round, state] : seen_) {
    const auto it = all.find(round);
    if (it != all.end() && it->second.state->id.theta != state->id.theta) {
      absl::StrAppend(&violations_, "round ", round.value, " was shown and saved with different results\n");
    }
  }
  for (const wire::ReportJob& report : reports_) {
    if (may_roll_back_) break;
    const auto it = all.find(report.round.next());
    if (it != all.end() && it->second.state->id.theta != report.theta) {
      absl::StrAppend(&violations_, "round ", report.round.value, " was reported with another result\n");
    }
  }
  for (const auto& [round, committed] : all) {
    const auto before = all.find(RoundId{round.value - 1});
    if (round.value > 0 && before != all.end()) violations_ += CheckRound(before->second, committed);
  }
  if (finish_ && verdict() == wire::Verdict::kSucceeded) {
    const auto last = all.find(RoundId{static_cast<uint64_t>(options_.rounds)});
    if (last == all.end() || last->second.state->id.theta != finish_->theta) {
      absl::StrAppend(&violations_, "the verdict's parameters are on no disk\n");
    }
  }
  return violations_;
}

absl::StatusOr<std::vector<NodeId>> SimJob::MembersOf(Epoch epoch) const {
  for (const wire::EpochRecord& record : epochs_) {
    if (record.epoch == epoch) return record.members;
  }
  return absl::NotFoundError(absl::StrCat("epoch ", epoch.value, " was not opened"));
}

std::string SimJob::CheckCommit(const wire::Commit& commit) const {
  const wire::Receipt& receipt = commit.receipt;
  const std::string name = receipt.tag.ToString();
  const absl::StatusOr<std::vector<NodeId>> members = MembersOf(receipt.tag.epoch);
  if (!members.ok()) return absl::StrCat("the commit of ", name, ": ", members.status().message(), "\n");
  const absl::Status valid = rounds::VerifyCommit(commit, kJob, kSubmission, *members);
  if (!valid.ok()) return absl::StrCat("the commit of ", name, " is not valid: ", valid.message(), "\n");
  if (receipt.contributions.empty()) return absl::StrCat(name, " has no contribution\n");
  return "";
}

// The receipt's contributors' deltas give the state. A node that trained twice on a round packed twice.
std::string SimJob::CheckRound(const CommittedRound& before, const CommittedRound& round) const {
  if (options_.rank > 0) return CheckFactorRound(before, round);
  const wire::Receipt& receipt = round.commit->receipt;
  std::vector<std::vector<Buffer>> choices;
  size_t combinations = 1;
  for (const wire::Contribution& c : receipt.contributions) {
    const auto it = journal_.find({c.node, receipt.tag.round});
    if (it == journal_.end()) return absl::StrCat(receipt.tag.ToString(), " names a node that packed nothing\n");
    choices.push_back(it->second);
    combinations *= it->second.size();
  }
  for (size_t pick = 0; pick < combinations; ++pick) {
    std::vector<Buffer> packed;
    size_t rest = pick;
    for (const std::vector<Buffer>& of_node : choices) {
      packed.push_back(of_node[of_node.size() - 1 - rest % of_node.size()]);
      rest /= of_node.size();
    }
    if (Reproduces(before, round, packed)) return "";
  }
  return absl::StrCat("the result of ", receipt.tag.ToString(), " is not what its contributions give\n");
}

// The arithmetic of docs/formats/round-messages.md, written out: no shards, no exchange. With sites float32 is added up in
// another order.
bool SimJob::Reproduces(const CommittedRound& before, const CommittedRound& round,
                        const std::vector<Buffer>& packed) const {
  const wire::Receipt& receipt = round.commit->receipt;
  const std::unique_ptr<compress::Codec> codec = *compress::Codec::Create(options_.codecs[receipt.codec]);
  const train::Fragments fragments =
      *train::Fragments::Create(options_.num_params, static_cast<uint64_t>(options_.fragments));
  const size_t n = fragments.size(receipt.tag.round.value % fragments.count());
  std::vector<float> mean(n);
  std::vector<float> decoded(n);
  float total = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    const float weight = static_cast<float>(receipt.contributions[i].tokens);
    if (!codec->Decode(packed[i].span(), absl::MakeSpan(decoded)).ok()) return false;
    for (size_t k = 0; k < n; ++k) mean[k] = mean[k] + weight * decoded[k];
    total = total + weight;
  }
  for (float& value : mean) value = value / total;
  if (codec->is_dense()) {
    std::vector<uint8_t> once(codec->PackedSize(n));
    codec->Encode(mean, absl::MakeSpan(once), {.seed = MixSeed(spec_.train.seed, receipt.tag.round.value, 0)});
    if (!codec->Decode(once, absl::MakeSpan(mean)).ok()) return false;
  }
  return Steps(before, round, mean);
}

bool SimJob::Steps(const CommittedRound& before, const CommittedRound& round, absl::Span<const float> mean) const {
  const train::Fragments fragments =
      *train::Fragments::Create(options_.num_params, static_cast<uint64_t>(options_.fragments));
  const uint64_t fragment = round.commit->receipt.tag.round.value % fragments.count();
  const size_t n = fragments.size(fragment);
  const absl::Span<const float> theta = before.state->theta.span();
  const absl::Span<const float> momentum = OuterMomentum(*before.state);
  const absl::Span<const float> next_momentum = OuterMomentum(*round.state);
  if (momentum.size() != next_momentum.size()) return false;
  const float rate = static_cast<float>(options_.outer.lr);
  const float mu = static_cast<float>(options_.outer.momentum);
  const size_t begin = fragments.begin(fragment);
  const auto same = [this](float expected, float got) {
    const bool one_level = options_.sites.empty() && options_.near.empty();
    return one_level ? expected == got : std::abs(expected - got) <= 1e-5f * (1 + std::abs(expected));
  };
  for (size_t k = 0; k < options_.num_params; ++k) {  // Nesterov, or SGD without momentum
    const bool in = k >= begin && k - begin < n;
    float m = momentum.empty() ? 0 : momentum[k];
    float next = theta[k];
    if (in) {
      m = mu * m + mean[k - begin];
      next = theta[k] - rate * (momentum.empty() ? m : mean[k - begin] + mu * m);
    }
    if (!same(next, round.state->theta.span()[k])) return false;
    if (!momentum.empty() && !same(m, next_momentum[k])) return false;
  }
  return true;
}

// docs/formats/low-rank.md: the contributors' second passes, all made of one mean of first ones, give the state.
std::string SimJob::CheckFactorRound(const CommittedRound& before, const CommittedRound& round) const {
  const wire::Receipt& receipt = round.commit->receipt;
  SimWorkerOptions of_model;
  of_model.num_params = options_.num_params;
  of_model.has_matrix = true;
  const compress::LowRank low_rank = *compress::LowRank::Create(SimWorker::Loaded(of_model).layout, options_.rank);
  const auto first = projections_.find({receipt.contributions[0].node, receipt.tag.round});
  if (first == projections_.end()) return absl::StrCat(receipt.tag.ToString(), " names a node without a second pass\n");
  for (const Projection& begun : first->second) {
    std::vector<float> second(low_rank.num_second());
    float total = 0;
    for (const wire::Contribution& c : receipt.contributions) {
      const auto of_node = projections_.find({c.node, receipt.tag.round});
      if (of_node == projections_.end()) break;
      // Whoever trained twice on the round is believed by its last one.
      const auto same = std::find_if(of_node->second.rbegin(), of_node->second.rend(),
                                     [&](const Projection& p) { return p.given == begun.given; });
      if (same == of_node->second.rend()) break;
      const float weight = static_cast<float>(c.tokens);
      const auto* values = reinterpret_cast<const float*>(same->packed.span().data());
      for (size_t k = 0; k < second.size(); ++k) second[k] = second[k] + weight * values[k];
      total = total + weight;
    }
    for (float& value : second) value = value / total;
    std::vector<float> left = begun.given, mean(options_.num_params), right(low_rank.num_right());
    low_rank.Orthonormalise(MixSeed(spec_.train.seed, receipt.tag.round.value, 0), absl::MakeSpan(left));
    low_rank.Accumulate(left, second, 1.0f, absl::MakeSpan(mean));
    low_rank.NextRight(second, absl::MakeSpan(right));
    const absl::Span<const float> carried = round.state->momentum.span();
    if (!Steps(before, round, mean) || carried.subspan(carried.size() - right.size()) != absl::MakeConstSpan(right)) {
      continue;
    }
    if (IsFirstPass(receipt.tag, receipt.contributions[0].tokens, begun.given)) return "";
    return absl::StrCat("the factors of ", receipt.tag.ToString(), " are the mean of no first passes\n");
  }
  return absl::StrCat("the result of ", receipt.tag.ToString(), " is not what its contributions' factors give\n");
}

// Of some of the nodes, each with one of the first passes that it packed; all trained on as many tokens.
bool SimJob::IsFirstPass(const wire::RoundTag& tag, uint64_t tokens, const std::vector<float>& mean) const {
  std::vector<std::vector<const Buffer*>> choices;  // of each node; null: it is not among them
  for (const auto& node : nodes_) {
    choices.push_back({nullptr});
    const auto packed = journal_.find({node->id, tag.round});
    if (packed == journal_.end()) continue;
    for (const Buffer& one : packed->second) choices.back().push_back(&one);
  }
  std::vector<size_t> pick(choices.size());
  while (true) {
    std::vector<float> sum(mean.size());
    float total = 0;
    for (size_t i = 0; i < pick.size(); ++i) {
      if (choices[i][pick[i]] == nullptr) continue;
      const auto* values = reinterpret_cast<const float*>(choices[i][pick[i]]->span().data());
      const float weight = static_cast<float>(tokens);
      for (size_t k = 0; k < sum.size(); ++k) sum[k] = sum[k] + weight * values[k];
      total = total + weight;
    }
    for (float& value : sum) value = value / total;
    if (total > 0 && sum == mean) return true;
    size_t digit = 0;
    while (digit < pick.size() && ++pick[digit] == choices[digit].size()) pick[digit++] = 0;
    if (digit == pick.size()) return false;
  }
}

}  // namespace gdf::sim
