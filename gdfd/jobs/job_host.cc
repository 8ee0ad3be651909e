#include "gdfd/jobs/job_host.h"

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/rounds/receipts.h"
#include "core/wire/artifact_messages.h"
#include "gdfd/jobs/result_rights.h"

namespace gdf::jobs {
namespace {

// After a job's end is recorded its members still have to install the last state.
constexpr absl::Duration kEndPatience = absl::Seconds(60);
// A node that its owner pauses waits so long to be left out by an epoch, after a round has ended.
constexpr absl::Duration kEpochPatience = absl::Seconds(10);
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// Results on their way to others at a time. They share what is loaded, one state for each job.
constexpr int kMaxServed = 4;
constexpr int kMaxServedPerPeer = 2;

// What the job's leads reported of θ_round; none when they did not.
struct Reported {
  Epoch epoch;
  Digest theta;
};
std::optional<Reported> ReportOf(state::State& state, const state::Job& job, RoundId round) {
  if (round.value == 0) return std::nullopt;
  // What it was rolled back to is of that epoch, whatever came after it before.
  if (job.rollback && job.rollback->round == round) return Reported{job.rollback->epoch, job.rollback->theta};
  absl::StatusOr<std::vector<state::RoundRecord>> rounds =
      state.rounds(job.id, RoundId{round.value - 1}, 1);
  const bool found = rounds.ok() && !rounds->empty() && (*rounds)[0].round.next() == round;
  const bool last = round.value == job.rounds_done && !job.theta.zero();
  if (!found && !last) return std::nullopt;
  return Reported{found ? (*rounds)[0].epoch : job.epoch, last ? job.theta : (*rounds)[0].theta};
}

// Whether `commit` is the job's, and made `got`.
absl::Status CheckCommit(state::State& state, const state::Job& job, const wire::StateId& got,
                         const wire::Commit& commit) {
  const wire::StateId& made = commit.receipt.result;
  if (made.round != got.round || made.theta != got.theta) {
    return absl::DataLossError(absl::StrCat("its parameters after ", got.round.value,
                                            " rounds are not those that were committed"));
  }
  return CheckCommitted(state, job, commit);
}

// Whether a result may be given for what `job`, which was read before it was asked for, says: the
// one that was reported, or a later one, not an older one. Reports lag behind what members commit,
// and none comes after a job's end: for a later one the signatures of its commit speak.
absl::Status CheckNewest(state::State& state, const state::Job& job, const Artifacts& artifacts) {
  const wire::StateId& got = artifacts.state->id;
  GDF_ASSIGN_OR_RETURN(const state::Job now, state.job(job.id));
  const RoundId last{now.rounds_done};
  const std::optional<Reported> newest = ReportOf(state, now, last);
  if (artifacts.commit &&
      rounds::Rank(artifacts.commit) > std::pair(newest ? newest->epoch : Epoch{}, last)) {
    return CheckCommit(state, job, got, *artifacts.commit);
  }
  if (got.round.value < job.rounds_done) {
    return absl::UnavailableError(absl::StrCat("has the parameters after ", got.round.value,
                                               " rounds, not those after ", job.rounds_done));
  }
  if (got.round.value == 0) return absl::OkStatus();  // θ_0, and no round is known
  const std::optional<Reported> reported = ReportOf(state, now, got.round);
  if (!reported) {
    return absl::UnavailableError(
        absl::StrCat("gives parameters after ", got.round.value,
                     " rounds, which are neither reported nor of a later commit"));
  }
  if (reported->theta == got.theta) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("its parameters after ", got.round.value,
                                          " rounds are not those that were reported"));
}

}  // namespace

JobHost::JobHost(JobWorld world, CoordinatorFactory make_coordinator)
    : world_(std::move(world)),
      checkpoints_(world_),
      make_coordinator_(std::move(make_coordinator)),
      wake_(world_.executor),
      pause_(world_.executor, world_.files, world_.pause_file),
      tasks_(world_.executor) {
  pause_.Load();
  pause_.OnChange([this] {
    wake_.Push(true);
    for (const auto& [id, task] : jobs_) task->Wake();
    if (on_pause_) on_pause_();
  });
  world_.checkpoints = &checkpoints_;
  state_watcher_ = world_.state.AddWatcher([this](uint64_t) { wake_.Push(true); });
  net::MethodOptions options;
  options.max_concurrent_per_peer = kMaxServedPerPeer;
  registration_ = world_.transport.HandleStream(
      "jobs.artifacts",
      [this](NodeId peer, std::unique_ptr<net::Stream> stream) {
        return ServeArtifacts(peer, std::move(stream));
      },
      options);
}

JobHost::~JobHost() {
  registration_.Reset();
  world_.state.RemoveWatcher(state_watcher_);
  tasks_.Clear();
}

void JobHost::Start() {
  wake_.Push(true);
  tasks_.Spawn(Run());
}

absl::Status JobHost::Pause(absl::Time until, bool now) {
  GDF_RETURN_IF_ERROR(pause_.Begin(until));
  std::vector<JobId> running;
  for (const auto& [id, task] : jobs_) {
    if (!task->ended()) running.push_back(id);
  }
  for (const JobId id : running) tasks_.Spawn(now ? Leave(id) : HandOver(id));
  return absl::OkStatus();
}

int JobHost::running() const {
  return static_cast<int>(absl::c_count_if(jobs_, [](const auto& entry) { return !entry.second->ended(); }));
}

Task<void> JobHost::HandOver(JobId id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) co_return;
  const std::shared_ptr<JobTask> task = it->second;
  const rounds::JobProgress begun = task->progress();
  const auto goes_on = [&] { return pause_.until() && !task->ended(); };
  const auto takes_part = [&] { return goes_on() && begun.epoch.value != 0 && task->job().IsMember(world_.transport.self()); };
  const auto now = [this] { return world_.executor.clock().Monotonic(); };
  // A round that does not end within this ends without this node.
  const absl::Duration give_up = now() + 2 * task->round_deadline();
  while (takes_part() && task->progress().round == begun.round && now() < give_up) {
    co_await task->WaitForChange(give_up - now());
  }
  const absl::Duration left_out = now() + kEpochPatience;
  while (takes_part() && now() < left_out) co_await task->WaitForChange(left_out - now());
  if (goes_on()) co_await Leave(id);
}

Task<void> JobHost::Leave(JobId id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) co_return;
  const std::shared_ptr<JobTask> task = it->second;
  rounds::EpochRequest request{id, task->job().epoch, {world_.transport.self()}, "its owner has paused it", wire::Leaving::kPaused};
  co_await task->Stop();
  const auto still = jobs_.find(id);
  if (still != jobs_.end() && still->second == task) jobs_.erase(still);
  Log(LogLevel::kInfo, "job_left", {{"job", ToString(id)}, {"why", request.reason}});
  wake_.Push(true);  // it may have been resumed meanwhile
  const std::unique_ptr<rounds::Coordinator> coordinator = make_coordinator_();
  const absl::Status told = co_await coordinator->RequestEpoch(std::move(request));
  // A job that cannot do without this node keeps its place, and waits.
  if (!told.ok()) Log(LogLevel::kInfo, "not_left_out", {{"job", ToString(id)}, {"why", told}});
}

const JobTask* JobHost::Find(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.get();
}

bool JobHost::IsMine(const state::Job& job) const {
  return job.HasPart(world_.transport.self());
}

absl::Status JobHost::Hold(const state::Job& job) {
  if (job.owner != world_.transport.self()) return absl::OkStatus();
  for (const wire::JobInput& input : job.inputs) {
    if (input.holder != world_.transport.self()) continue;
    GDF_ASSIGN_OR_RETURN(Buffer bytes, world_.chunks->Get(input.manifest));
    GDF_ASSIGN_OR_RETURN(store::Manifest manifest, store::Manifest::Decode(bytes.view()));
    std::vector<store::ChunkId> chunks = manifest.Chunks();
    chunks.push_back(input.manifest);
    GDF_RETURN_IF_ERROR(world_.chunks->Pin(swarm::OwnerOf(job.id), chunks));
  }
  return absl::OkStatus();
}

Task<void> JobHost::Run() {
  auto tidy = [files = &world_.files, folder = world_.folder] {
    return RemoveUnfinishedSaves(*files, folder);
  };
  co_await checkpoints_.Tidy();
  const absl::Status tidied = co_await RunOn(world_.pool, world_.executor, std::move(tidy));
  if (!tidied.ok()) Log(LogLevel::kWarning, "unfinished_saves", {{"why", tidied}});
  while (true) {
    co_await wake_.Pop();
    while (!wake_.empty()) co_await wake_.Pop();
    co_await Reconcile();
  }
}

Task<void> JobHost::Reconcile() {
  absl::StatusOr<std::vector<state::Job>> listed = world_.state.jobs();
  if (!listed.ok()) {
    Log(LogLevel::kError, "jobs_unreadable", {{"why", listed.status()}});
    co_return;
  }
  // A network that has put this node out tells it nothing more: its jobs are over here.
  absl::StatusOr<state::Member> self = world_.state.member(world_.transport.self());
  const bool expelled = self.ok() && self->status != state::MemberStatus::kActive;
  for (const state::Job& summary : *listed) {
    const bool over = expelled || summary.phase == state::JobPhase::kFinished;
    if (!over && summary.phase == state::JobPhase::kRunning) Follow(summary);
    // Beside this, so that other jobs begin while an ended one waits.
    if (over && over_.insert(summary.id).second) tasks_.Spawn(End(summary));
  }
}

void JobHost::Follow(const state::Job& summary) {
  const auto it = jobs_.find(summary.id);
  // A member that dropped out and is called back begins anew, and so do all when a job is rolled back that had come to its
  // last round.
  const bool ended = it != jobs_.end() && it->second->ended();
  const bool goes_on = ended && summary.IsMember(world_.transport.self()) && summary.epoch > it->second->epoch();
  bool begins = it == jobs_.end() ? IsMine(summary) : ended && summary.IsRecruit(world_.transport.self());
  if (begins || goes_on ? pause_.until().has_value() : it == jobs_.end() || ended) return;
  absl::StatusOr<state::Job> job = world_.state.job(summary.id);
  if (goes_on && job.ok()) {
    if (!job->rollback || job->rollback->epoch <= it->second->epoch()) return;
    begins = true;
  }
  if (!job.ok()) {
    Log(LogLevel::kError, "job_unreadable", {{"job", ToString(summary.id)}, {"why", job.status()}});
  } else if (!begins) {
    it->second->Update(*job);
  } else {
    Log(LogLevel::kInfo, "job_begins", {{"job", ToString(job->id)}, {"epoch", job->epoch.value}});
    // It may be placed here before its submission has returned.
    if (absl::Status held = Hold(*job); !held.ok()) {
      Log(LogLevel::kWarning, "input_lost", {{"job", ToString(job->id)}, {"why", held}});
    }
    jobs_[job->id] = std::make_shared<JobTask>(world_, *std::move(job), make_coordinator_(),
                                               [this] { wake_.Push(true); });
  }
}

Task<void> JobHost::End(state::Job summary) {
  const JobId id = summary.id;
  if (const auto it = jobs_.find(id); it != jobs_.end()) {
    const std::shared_ptr<JobTask> task = it->second;
    // One that was away for longer than the last round is brought no further by the others, whose job is over.
    const bool near = summary.IsMember(world_.transport.self()) && task->progress().round.value + 1 >= summary.rounds_done;
    if (summary.verdict == wire::Verdict::kSucceeded && near && !co_await task->WaitForEnd(kEndPatience)) {
      Log(LogLevel::kWarning, "job_does_not_end", {{"job", ToString(id)}});
    }
    co_await task->Stop();
    jobs_.erase(id);
    Log(LogLevel::kInfo, "job_ends",
        {{"job", ToString(id)}, {"verdict", wire::ToString(summary.verdict)}});
  }
  absl::StatusOr<state::Job> job = world_.state.job(id);
  absl::StatusOr<config::JobSpec> spec = job.ok()
                                             ? config::ParseJobSpec(job->spec_yaml, ToString(id))
                                             : absl::StatusOr<config::JobSpec>(job.status());
  const bool keep_model = spec.ok() && spec->output.keep_model;
  const bool keep_data = spec.ok() && spec->output.keep_data;
  auto work = [files = &world_.files, chunks = world_.chunks, folder = FolderOf(world_, id),
               versions = VersionsOf(world_, id), owner = swarm::OwnerOf(id), keep_model, keep_data]() -> absl::Status {
    if (!keep_data) {
      GDF_RETURN_IF_ERROR(chunks->Drop(owner));
      GDF_RETURN_IF_ERROR(files->RemoveTree(folder + "/inputs"));
    }
    GDF_RETURN_IF_ERROR(keep_model ? versions->KeepModels() : versions->RemoveAll());
    return keep_model ? KeepArtifactsOnly(*files, folder) : files->RemoveTree(folder);
  };
  const absl::Status cleaned = co_await RunOn(world_.pool, world_.executor, std::move(work));
  if (!cleaned.ok())
    Log(LogLevel::kWarning, "job_leftovers", {{"job", ToString(id)}, {"why", cleaned}});
  if (!keep_data) world_.input_budget.Release(id);
  // After a start, what was kept counts again. The files are here already: nothing to refuse.
  if (keep_data && IsMine(*job)) world_.input_budget.Take(id, job->inputs).IgnoreError();
}

Task<void> JobHost::Load(JobId job) {
  auto load = [files = &world_.files, folder = FolderOf(world_, job)] {
    return LoadArtifacts(*files, folder);
  };
  absl::StatusOr<Artifacts> loaded = co_await RunOn(world_.pool, world_.executor, std::move(load));
  absl::StatusOr<std::shared_ptr<const Artifacts>> result = nullptr;
  if (!loaded.ok()) {
    result = loaded.status();
  } else {
    result = std::make_shared<const Artifacts>(*std::move(loaded));
    std::erase_if(loaded_, [](const auto& entry) { return entry.second.expired(); });
    loaded_[job] = *result;
  }
  const auto waiters = loading_.extract(job);
  for (const auto& waiter : waiters.mapped()) waiter.Set(result);
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> JobHost::FromDisk(state::Job job) {
  if (const auto it = loaded_.find(job.id); it != loaded_.end()) {
    std::shared_ptr<const Artifacts> found = it->second.lock();
    if (found != nullptr && found->state->id.round.value >= job.rounds_done) co_return found;
  }
  OneShot<absl::StatusOr<std::shared_ptr<const Artifacts>>> result(world_.executor);
  auto& waiters = loading_[job.id];
  waiters.push_back(result);
  if (waiters.size() == 1) tasks_.Spawn(Load(job.id));
  co_return co_await result.Wait();
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> JobHost::OpenLocal(state::Job job) {
  std::shared_ptr<const Artifacts> found;
  if (const JobTask* task = Find(job.id); task != nullptr) found = task->artifacts();
  if (found == nullptr) {
    GDF_CO_ASSIGN_OR_RETURN(found, co_await FromDisk(job));
  }
  absl::Status usable = CheckNewest(world_.state, job, *found);
  if (usable.ok()) co_return found;
  if (!found->passed_over.empty())
    usable = absl::DataLossError(absl::StrCat(usable.message(), ": ", found->passed_over));
  co_return usable;
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> JobHost::OpenRemote(state::Job job) {
  absl::Status last = absl::UnavailableError("no other node took part in it");
  const wire::ArtifactCall call{job.id};
  for (const NodeId& member : job.members) {
    if (member == world_.transport.self()) continue;
    absl::StatusOr<std::shared_ptr<const Artifacts>> fetched =
        co_await FetchArtifacts(world_.transport, world_.pool, member, call);
    absl::Status usable = fetched.status();
    if (fetched.ok()) usable = CheckNewest(world_.state, job, **fetched);
    if (usable.ok()) co_return fetched;
    last = net::NamingPeer(usable, member);
    Log(LogLevel::kWarning, "no_artifacts", {{"job", ToString(job.id)}, {"why", last}});
  }
  // The job that was asked for is known: what is missing is a node that has its result.
  if (absl::IsNotFound(last)) last = absl::UnavailableError(last.message());
  co_return Annotate(last, absl::StrCat("no node gives the parameters of job ", ToString(job.id)));
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> JobHost::Open(JobId id) {
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, world_.state.job(id));
  absl::StatusOr<std::shared_ptr<const Artifacts>> here = co_await OpenLocal(job);
  if (here.ok()) co_return here;
  const bool nothing = absl::IsNotFound(here.status());
  if (job.rounds_done == 0) {
    if (!nothing) co_return here;
    co_return absl::NotFoundError(
        absl::StrCat("job ", ToString(id), " has no parameters yet: no round is done"));
  }
  if (!nothing)
    Log(LogLevel::kWarning, "own_artifacts", {{"job", ToString(id)}, {"why", here.status()}});
  absl::StatusOr<std::shared_ptr<const Artifacts>> remote = co_await OpenRemote(std::move(job));
  if (remote.ok() || nothing) co_return remote;
  // Of two failures, damage on this disk is the one to act on.
  co_return absl::Status(
      here.status().code(),
      absl::StrCat(remote.status().message(), "; this node: ", here.status().message()));
}

Task<void> JobHost::ServeArtifacts(NodeId peer, std::unique_ptr<net::Stream> stream) {
  const absl::Status served = co_await Answer(peer, *stream);
  if (!served.ok()) stream->Cancel(served);
}

Task<absl::Status> JobHost::Answer(NodeId peer, net::Stream& stream) {
  absl::StatusOr<std::optional<Buffer>> request = co_await stream.Receive(kCallTimeout);
  GDF_CO_RETURN_IF_ERROR(request.status());
  if (!request->has_value()) co_return absl::InvalidArgumentError("no result was asked for");
  GDF_CO_ASSIGN_OR_RETURN(wire::ArtifactCall call, wire::DecodeArtifactCall((*request)->view()));
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, world_.state.job(call.job));
  GDF_CO_RETURN_IF_ERROR(CheckMayHaveResult(world_.state, job, peer));
  if (serving_ == kMaxServed) {
    co_return absl::UnavailableError(
        "this node sends as many results as it does at a time; ask again later");
  }
  ++serving_;
  const auto done = absl::MakeCleanup([this] { --serving_; });
  absl::StatusOr<std::shared_ptr<const Artifacts>> artifacts = absl::NotFoundError("");
  if (call.checkpoint.value > 0) {
    artifacts = co_await checkpoints_.OpenLocal(std::move(job), call.checkpoint);
  } else {
    artifacts = co_await OpenLocal(std::move(job));
  }
  if (absl::IsNotFound(artifacts.status())) {  // names a path of this machine, which is nothing to others
    Log(LogLevel::kWarning, "result_not_here", {{"job", ToString(call.job)}, {"why", artifacts.status()}});
    co_return absl::NotFoundError(absl::StrCat("it keeps no result of job ", ToString(call.job)));
  }
  GDF_CO_RETURN_IF_ERROR(artifacts.status());
  co_return co_await SendArtifacts(world_.executor, stream, *std::move(artifacts));
}

Task<absl::StatusOr<Sampler>> JobHost::OpenSampler(JobId id) {
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, world_.state.job(id));
  GDF_CO_ASSIGN_OR_RETURN(std::shared_ptr<const Artifacts> artifacts, co_await Open(id));
  Sampler sampler;
  sampler.slot = world_.sample_slots.TryTake();
  if (sampler.slot == nullptr) {
    co_return absl::ResourceExhaustedError(absl::StrCat(
        "this node runs as many tasks as its owner allows (limits.tasks: ",
        world_.sample_slots.limit(), "); try again when one has ended, or on another node"));
  }
  WorkerRequest request;  // on the CPU: the GPU is the training's
  request.what = absl::StrCat(ToString(id), "-sample");
  GDF_CO_ASSIGN_OR_RETURN(sampler.worker, co_await world_.start_worker(std::move(request)));
  train::LoadRequest load;
  load.job_yaml = job.spec_yaml;
  load.threads = world_.worker_threads;
  // No data: the worker serves samples only. Its tokenizer is the exported one.
  for (const train::ExportPlan::File& file : artifacts->plan.files) {
    if (file.name == "config.json") load.inputs.push_back({"model/config.json", "", file.contents});
    if (file.name == "tokenizer.json")
      load.inputs.push_back({"tokenizer/tokenizer.json", "", file.contents});
  }
  absl::StatusOr<train::LoadResult> loaded = co_await sampler.worker->Load(std::move(load));
  GDF_CO_RETURN_IF_ERROR(loaded.status());
  if (loaded->layout.num_params() != artifacts->state->theta.size()) {
    co_return absl::InternalError(absl::StrCat("the model has ", loaded->layout.num_params(),
                                               " parameters, the job's state ",
                                               artifacts->state->theta.size()));
  }
  sampler.round = artifacts->state->id.round;
  const train::ApplyRequest whole{sampler.round, 0, artifacts->state->theta.span()};
  GDF_CO_RETURN_IF_ERROR(co_await sampler.worker->Apply(whole));
  co_return sampler;
}

void TellPauses(JobHost& host, membership::Membership& membership) {
  const auto tell = [&host, &membership] {
    wire::NodeResources resources = membership.profile().resources;
    resources.paused = host.paused_until().has_value();
    membership.SetResources(std::move(resources));
  };
  host.OnPause(tell);
  tell();
}

}  // namespace gdf::jobs
