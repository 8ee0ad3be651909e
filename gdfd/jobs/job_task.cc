#include "gdfd/jobs/job_task.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/state/submission.h"
#include "core/base/text.h"
#include "gdfd/jobs/checkpoints.h"
#include "gdfd/jobs/device.h"
#include "gdfd/jobs/job_request.h"

namespace gdf::jobs {
namespace {

// A worker that keeps dying would burn the night: after this many starts in a row without a
// committed round between them the node gives the job up.
constexpr int kMaxStarts = 3;
constexpr absl::Duration kRestartPause = absl::Seconds(1);
constexpr absl::Duration kAskAgain = absl::Seconds(30);  // to join: a coordinator that restarted has not heard it
constexpr absl::Duration kTakeAgain = absl::Minutes(1);  // copies of checkpoints that were not to be had
constexpr absl::Duration kReleasePause =
    absl::Milliseconds(10);  // a write to disk takes about this long

wire::EpochRecord EpochOf(const state::Job& job) { return {job.epoch, job.lead, job.members}; }

// Errors that another start would only repeat.
bool IsFinal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInvalidArgument ||
         status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kResourceExhausted;
}

}  // namespace

std::string FolderOf(const JobWorld& world, JobId job) {
  return absl::StrCat(world.folder, "/", ToString(job));
}

std::shared_ptr<checkpoint::VersionStore> VersionsOf(const JobWorld& world, JobId job) {
  checkpoint::VersionStore::Options options;
  options.folder = FolderOf(world, job) + "/checkpoints";
  options.owner = swarm::OwnerOf(job);
  return std::make_shared<checkpoint::VersionStore>(world.files, world.chunks, std::move(options));
}

JobTask::JobTask(JobWorld& world, state::Job job, std::unique_ptr<rounds::Coordinator> coordinator,
                 std::function<void()> on_end)
    : world_(world),
      job_(std::move(job)),
      activity_("starting"),
      coordinator_(std::move(coordinator)),
      on_end_(std::move(on_end)),
      tasks_(world.executor) {
  tasks_.Spawn(Run());
}

JobTask::~JobTask() { tasks_.Clear(); }

bool JobTask::IsLead() const { return job_.lead == world_.transport.self(); }

// An epoch without this node ends the member here, unless it is one from before it was called.
void JobTask::Update(const state::Job& job) {
  const bool was_member = job_.IsMember(world_.transport.self());
  const bool others = job.members != job_.members;
  going_back_ = going_back_ || job.rollback != job_.rollback;
  job_ = job;
  Wake();
  if (going_back_) {  // the next start enters the epoch
    if (rounds_end_) rounds_end_->Set(absl::CancelledError("rolled back"));
    return;
  }
  if (member_ && (was_member || !IsRecruit())) member_->SetEpoch(EpochOf(job_));
  if (others) LookAfterCheckpoints();
}

Task<bool> JobTask::WaitForEnd(absl::Duration timeout) {
  if (!ended_) {
    OneShot<bool> end(world_.executor);
    end.SetAfter(timeout, false);
    end_waiters_.push_back(end);
    co_await end.Wait();
  }
  co_return ended_;
}

Task<void> JobTask::WaitForChange(absl::Duration timeout) {
  OneShot<bool> change(world_.executor);
  change.SetAfter(timeout, false);
  change_waiters_.push_back(change);
  co_await change.Wait();
}

void JobTask::Wake() {
  for (const OneShot<bool>& waiter : std::exchange(change_waiters_, {})) waiter.Set(true);
}

Task<void> JobTask::Stop() {
  tasks_.Clear();
  co_await Release();
  if (checkpoints_) co_await checkpoints_->Idle();
  SetEnded();
}

rounds::JobProgress JobTask::progress() const {
  rounds::JobProgress progress;
  progress.activity = activity_;
  if (member_) progress = member_->progress();
  if (member_ && IsRecruit()) progress.activity = "ready to join";
  return progress;
}

std::shared_ptr<const Artifacts> JobTask::artifacts() const {
  if (!plan_ || !member_ || member_->state() == nullptr) return last_;
  return std::make_shared<Artifacts>(Artifacts{*plan_, member_->state(), member_->commit()});
}

Task<void> JobTask::ReportEvent(wire::Severity severity, std::string text) {
  Log(LogLevel::kInfo, "job_event", {{"job", ToString(job_.id)}, {"text", text}});
  wire::JobEvent event{job_.id, world_.transport.self(), severity,
                       SafeText(text, wire::kMaxTextBytes)};
  const absl::Status told = co_await coordinator_->ReportEvent(std::move(event));
  if (!told.ok())
    Log(LogLevel::kWarning, "event_not_recorded", {{"job", ToString(job_.id)}, {"why", told}});
}

Task<void> JobTask::Run() {
  const TaskSlots::Slot slot = co_await TakeSlot();
  int starts = 0;
  RoundId reached;
  while (true) {
    const absl::Status end = co_await RunOnce();
    if (std::exchange(going_back_, false)) {
      reached = {};
      continue;
    }
    if (member_ && member_->state() != nullptr && member_->state()->id.round > reached) {
      reached = member_->state()->id.round;
      starts = 0;
    }
    if (end.ok() || end.code() == absl::StatusCode::kAborted) break;
    ++starts;
    const bool give_up = IsFinal(end) || starts >= kMaxStarts;
    co_await ReportEvent(
        give_up ? wire::Severity::kError : wire::Severity::kWarning,
        absl::StrCat(give_up ? "gives the job up: " : "starts again after: ", end.message()));
    if (give_up) {
      co_await GiveUp(end);
      break;
    }
    co_await Sleep(world_.executor, kRestartPause);
  }
  co_await Release();
  if (checkpoints_) {
    activity_ = "writing the last checkpoint";
    co_await checkpoints_->Idle();
  }
  SetEnded();
  on_end_();
}

void JobTask::SetEnded() {
  activity_ = "ended";
  ended_ = true;
  for (const OneShot<bool>& waiter : std::exchange(end_waiters_, {})) waiter.Set(true);
  Wake();
}

Task<TaskSlots::Slot> JobTask::TakeSlot() {
  TaskSlots::Slot slot = world_.job_slots.TryTake();
  if (slot != nullptr) co_return slot;
  activity_ = absl::StrCat("waiting for other tasks of this node: limits.tasks is ",
                           world_.job_slots.limit());
  co_await ReportEvent(wire::Severity::kInfo, activity_);
  co_return co_await world_.job_slots.Take(world_.executor);
}

Task<int64_t> JobTask::NumThreads() {
  const int64_t wish = spec_.train.threads;
  const int64_t limit = world_.worker_threads;
  if (limit == 0 || (wish > 0 && wish <= limit)) co_return wish;
  if (wish > limit && !std::exchange(told_threads_, true)) {
    co_await ReportEvent(wire::Severity::kInfo,
                         absl::StrCat("computes with ", limit, " threads, not ", wish,
                                      ": limits.cpu_threads of this node"));
  }
  co_return limit;
}

// The member first, since it uses the others; and what it left on the pool is waited for, so that
// nobody else writes to its folder any more.
Task<void> JobTask::Release() {
  last_ = artifacts();
  member_.reset();
  worker_.reset();
  const std::weak_ptr<checkpoint::CheckpointStore> store = std::exchange(store_, nullptr);
  while (!store.expired()) co_await Sleep(world_.executor, kReleasePause);
}

// The lead's reason ends the job; another member asks to be left out.
Task<void> JobTask::GiveUp(absl::Status why) {
  absl::Status told;
  if (IsLead()) {
    wire::FinishJob finish;
    finish.job = job_.id;
    finish.epoch = job_.epoch;
    finish.verdict = wire::Verdict::kFailed;
    finish.reason =
        SafeText(absl::StrCat("lead ", world_.transport.self().Short(), ": ", why.message()),
                 wire::kMaxTextBytes);
    absl::StatusOr<state::Job> recorded = world_.state.job(job_.id);
    if (recorded.ok()) {
      finish.rounds_done = recorded->rounds_done;
      finish.theta = recorded->theta;
    }
    told = co_await coordinator_->FinishJob(std::move(finish));
  } else {
    rounds::EpochRequest request;
    request.job = job_.id;
    request.current = job_.epoch;
    request.lost.push_back(world_.transport.self());
    request.reason = std::string(why.message());
    request.leaving = wire::Leaving::kForGood;
    told = co_await coordinator_->RequestEpoch(std::move(request));
  }
  if (!told.ok())
    Log(LogLevel::kWarning, "giving_up_not_recorded", {{"job", ToString(job_.id)}, {"why", told}});
}

Task<absl::Status> JobTask::FetchInputs(std::vector<train::InputFile>* inputs) {
  const state::Job job = job_;  // an epoch may open meanwhile
  GDF_CO_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, world_.state.jobs());
  GDF_CO_RETURN_IF_ERROR(world_.input_budget.Take(job.id, job.inputs));
  std::vector<JobId> kin;
  for (const state::Job& other : jobs) {
    if (other.owner == job.owner) kin.push_back(other.id);
  }
  for (const wire::JobInput& input : job.inputs) {
    activity_ = absl::StrCat("fetching ", input.name);
    std::vector<NodeId> holders = {input.holder};
    for (const NodeId& member : job.members) {
      if (member != input.holder) holders.push_back(member);
    }
    auto show = [this, name = input.name](const swarm::FetchProgress& progress) {
      activity_ = absl::StrCat("fetching ", name, " ", HumanBytes(progress.bytes_done), " of ",
                               HumanBytes(progress.bytes_total));
    };
    swarm::FetchRequest request{job_.id, input.manifest, std::move(holders), kin};
    absl::StatusOr<store::Manifest> manifest =
        co_await world_.swarm.Fetch(std::move(request), std::move(show));
    GDF_CO_RETURN_IF_ERROR(Annotate(manifest.status(), input.name));
    if (manifest->TotalBytes() != input.size_bytes) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("input ", input.name, " has ", manifest->TotalBytes(),
                       " bytes; it was submitted as one of ", input.size_bytes));
    }
    GDF_CO_RETURN_IF_ERROR(co_await AssembleFiles(input.name, *std::move(manifest), inputs));
  }
  co_return absl::OkStatus();
}

// The worker is handed whole files; they lie beside the chunks until the job leaves this node. They
// are put together anew at each start, out of chunks that are checked: the disk may have changed
// them.
Task<absl::Status> JobTask::AssembleFiles(const std::string& input, store::Manifest manifest,
                                          std::vector<train::InputFile>* inputs) {
  activity_ = absl::StrCat("preparing ", input);
  const std::string folder = absl::StrCat(FolderOf(world_, job_.id), "/inputs/", input);
  for (const store::ManifestFile& file : manifest.files) {
    inputs->push_back(
        {absl::StrCat(input, "/", file.path), absl::StrCat(folder, "/", file.path), {}});
  }
  auto work = [files = &world_.files, chunks = world_.chunks, folder, manifest]() -> absl::Status {
    for (const store::ManifestFile& file : manifest.files) {
      const std::string path = absl::StrCat(folder, "/", file.path);
      GDF_RETURN_IF_ERROR(files->MakeFolders(path.substr(0, path.rfind('/')), 0700));
      GDF_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> out, files->Create(path, 0600));
      GDF_RETURN_IF_ERROR(store::Assemble(*chunks, file, *out));
      GDF_RETURN_IF_ERROR(out->Commit());
    }
    return absl::OkStatus();
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(work));
}

Task<absl::StatusOr<std::vector<train::GpuDevice>>> JobTask::FindGpus() {
  std::vector<train::GpuDevice> gpus;
  if (gpu_failed_) co_return gpus;
  if (world_.gpus) gpus = co_await world_.gpus();
  GDF_CO_ASSIGN_OR_RETURN(state::Member self, world_.state.member(world_.transport.self()));
  co_return ChooseGpus(MakeJobRequest(job_, spec_), self.profile.resources.memory_bytes, gpus);
}

// Where the job leaves it to the node, a GPU that cannot be used is not the job's end.
Task<absl::StatusOr<train::LoadResult>> JobTask::Load(train::LoadRequest load) {
  GDF_CO_ASSIGN_OR_RETURN(std::vector<train::GpuDevice> gpus, co_await FindGpus());
  absl::StatusOr<train::LoadResult> loaded = co_await LoadOn(gpus, load);
  const bool fall_back = !gpus.empty() && spec_.nodes.device == config::Device::kAuto && !loaded.ok() &&
                         loaded.status().code() != absl::StatusCode::kInvalidArgument &&
                         loaded.status().code() != absl::StatusCode::kAborted;
  if (!fall_back) co_return loaded;
  gpu_failed_ = true;
  worker_.reset();
  co_await ReportEvent(wire::Severity::kWarning,
                       absl::StrCat("computes on the CPU, since ", gpus[0].name,
                                    " cannot be used: ", loaded.status().message()));
  const std::vector<train::GpuDevice> none;
  co_return co_await LoadOn(none, std::move(load));
}

Task<absl::StatusOr<train::LoadResult>> JobTask::LoadOn(std::vector<train::GpuDevice> gpus, train::LoadRequest load) {
  if (!job_.HasPart(world_.transport.self())) {
    co_return absl::AbortedError(absl::StrCat("epoch ", job_.epoch.value, " is without this node"));
  }
  WorkerRequest request;
  request.what = ToString(job_.id);
  request.gpus = std::move(gpus);
  load.device = request.gpus.empty() ? config::Device::kCpu : config::Device::kGpu;
  GDF_CO_ASSIGN_OR_RETURN(worker_, co_await world_.start_worker(std::move(request)));
  // A round's plan says anew which member this node is; until it is one, it comes after them.
  load.member_index = absl::c_find(job_.members, world_.transport.self()) - job_.members.begin();
  load.num_members = std::max(static_cast<int64_t>(job_.members.size()), load.member_index + 1);
  absl::StatusOr<train::LoadResult> loaded = co_await worker_->Load(std::move(load));
  if (loaded.ok()) {
    Log(LogLevel::kInfo, "worker_loaded",
        {{"job", ToString(job_.id)},
         {"device", loaded->device_name},
         {"precision", config::ToString(loaded->precision)}});
  }
  co_return loaded;
}

Task<void> JobTask::AskToJoin() {
  while (IsRecruit()) {
    rounds::EpochRequest request{job_.id, job_.epoch, {}, "ready to join"};
    const absl::Status asked = co_await coordinator_->RequestEpoch(std::move(request));
    if (!asked.ok()) Log(LogLevel::kWarning, "not_asked_to_join", {{"job", ToString(job_.id)}, {"why", asked}});
    co_await Sleep(world_.executor, kAskAgain);
  }
}

Task<absl::Status> JobTask::RunOnce() {
  co_await Release();
  GDF_CO_ASSIGN_OR_RETURN(spec_, config::ParseJobSpec(job_.spec_yaml, ToString(job_.id)));
  train::LoadRequest load;
  load.job_yaml = job_.spec_yaml;
  GDF_CO_RETURN_IF_ERROR(co_await FetchInputs(&load.inputs));

  activity_ = "loading";
  load.threads = co_await NumThreads();
  GDF_CO_ASSIGN_OR_RETURN(train::LoadResult loaded, co_await Load(std::move(load)));

  const uint64_t num_params = loaded.layout.num_params();
  GDF_CO_ASSIGN_OR_RETURN(plan_, co_await worker_->Export(spec_.output.dtype));
  const std::string folder = FolderOf(world_, job_.id);
  auto save = [files = &world_.files, folder, plan = *plan_, num_params] {
    return SaveExportPlan(*files, folder, plan, num_params);
  };
  absl::Status saved = co_await RunOn(world_.pool, world_.executor, std::move(save));
  GDF_CO_RETURN_IF_ERROR(saved);

  checkpoint::CheckpointStore::Options options;
  options.folder = folder + "/state";
  options.keep = static_cast<int>(spec_.output.keep_checkpoints);
  options.num_params = num_params;
  store_ = std::make_shared<checkpoint::CheckpointStore>(world_.files, options);
  GDF_CO_RETURN_IF_ERROR(co_await GoBack());
  GDF_CO_ASSIGN_OR_RETURN(const state::Network network, world_.state.network());
  member_ = std::make_unique<rounds::JobMember>(
      rounds::RoundEnv{job_.id, state::SubmissionDigest(network.id, job_), spec_, world_.executor, world_.pool, world_.transport, *worker_,
                       std::move(loaded), store_, world_.key, *coordinator_, {},
                       [this] {
                         checkpoints_->Offer(member_->state(), member_->commit());
                         Wake();
                       },
                       [this](Epoch epoch, RoundId newest, std::string why) { return RollBack(epoch, newest, std::move(why)); }});
  GDF_CO_RETURN_IF_ERROR(co_await member_->Start());
  BeginCheckpoints();
  if (going_back_) co_return absl::CancelledError("rolled back");
  TaskScope waiting(world_.executor);
  if (IsRecruit()) {
    waiting.Spawn(AskToJoin());
  } else {
    member_->SetEpoch(EpochOf(job_));
  }
  rounds_end_.emplace(world_.executor);
  waiting.Spawn(PassEnd(member_.get(), *rounds_end_));
  absl::Status end = co_await rounds_end_->Wait();
  rounds_end_.reset();
  // The last round's, before it was settled.
  if (end.ok()) checkpoints_->Offer(member_->state(), member_->commit());
  co_return end;
}

Task<void> JobTask::PassEnd(rounds::JobMember* member, OneShot<absl::Status> end) {
  absl::Status status = co_await member->WaitForEnd();
  end.Set(std::move(status));
}

// Before this node enters an epoch that goes on from a rollback, or any later one.
Task<absl::Status> JobTask::GoBack() {
  do {
    going_back_ = false;
    if (job_.rollback) GDF_CO_RETURN_IF_ERROR(co_await TakeBack(job_));
  } while (going_back_);
  co_return absl::OkStatus();
}

Task<absl::Status> JobTask::RollBack(Epoch epoch, RoundId newest, std::string why) {
  static_assert(config::AnomaliesSpec::kMostRollbacks <= int64_t{wire::kMaxOwnRollbacks});
  const std::optional<state::Rollback> last = job_.rollback;
  const auto most = static_cast<uint64_t>(spec_.rounds.anomalies.rollbacks);
  const uint64_t done = last ? last->by_lead : 0;
  if (done >= most) {
    co_return absl::FailedPreconditionError(absl::StrCat("it has done so ", Counted(done, "time"), ", and rounds.anomalies.rollbacks is ", most));
  }
  GDF_CO_ASSIGN_OR_RETURN(CheckpointList list, co_await world_.checkpoints->List(job_.id));
  // Of rounds after those that it went back to last, what was there before is no part of it any more.
  std::erase_if(list.checkpoints, [&last](const KeptCheckpoint& kept) {
    return last && last->round < kept.version().round() && kept.version().commit.receipt.tag.epoch < last->epoch;
  });
  const checkpoint::Version* const target = NewestOf(list, RoundId{1}, newest);
  if (target == nullptr) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("no node that answers keeps a checkpoint of at most ", Counted(newest.value, "round"), "; checkpoints.every of job.yaml has them kept"));
  }
  wire::RollBackJob back{job_.id, target->round(), target->state().theta, SafeText(why, wire::kMaxTextBytes), epoch};
  co_return co_await coordinator_->RollBackJob(std::move(back));
}

// A state that was committed before the rollback counts no more, unless it is the one that the job went back to; nor does
// what was prepared. Where the job has gone on since, the others have what this node begins with.
Task<absl::Status> JobTask::TakeBack(state::Job job) {
  const state::Rollback target = *job.rollback;
  auto look = [store = store_]() -> absl::StatusOr<checkpoint::Loaded> {
    store->RemoveLeftovers();
    return store->Load();
  };
  GDF_CO_ASSIGN_OR_RETURN(checkpoint::Loaded held, co_await RunOn(world_.pool, world_.executor, std::move(look)));
  const bool is_target = held.committed != nullptr && held.committed->id.round == target.round &&
                         held.committed->id.theta == target.theta;
  const bool stale = held.commit && held.commit->receipt.tag.epoch < target.epoch && !is_target;
  const bool stale_prepared = held.prepared && held.prepared->tag.epoch < target.epoch;
  if (!stale && !stale_prepared) co_return absl::OkStatus();
  if (!stale) {
    auto drop = [store = store_, held] { return store->Commit(*held.committed, held.commit); };
    co_return co_await RunOn(world_.pool, world_.executor, std::move(drop));
  }
  held = {};
  GDF_CO_ASSIGN_OR_RETURN(const std::vector<state::RoundRecord> since, world_.state.rounds(job.id, target.round, 1));
  if (!since.empty()) {
    auto discard = [store = store_] { return store->Discard(); };
    co_return co_await RunOn(world_.pool, world_.executor, std::move(discard));
  }
  activity_ = absl::StrCat("going back to round ", target.round.value);
  GDF_CO_ASSIGN_OR_RETURN(const checkpoint::Version version, co_await world_.checkpoints->Obtain(job, target));
  // The worker's state first: once the other is there, what is here is what the job went back to.
  auto install = [store = store_, versions = VersionsOf(world_, job.id), version]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(const checkpoint::OuterStatePtr state, versions->ReadState(version));
    if (versions->Keeps(version, version.inner)) {
      GDF_ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::RecordWriter> inner, store->SaveWorker(version.round()));
      const auto append = [&inner](absl::Span<const uint8_t> piece) { return inner->Append(piece); };
      GDF_RETURN_IF_ERROR(versions->ReadInner(version, append));
      GDF_RETURN_IF_ERROR(inner->Commit());
    }
    return store->Commit(*state, version.commit);
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(install));
}

// They go on being written when the worker starts anew.
void JobTask::BeginCheckpoints() {
  if (!checkpoints_) {
    checkpoints_ = std::make_unique<CheckpointWriter>(CheckpointWriter::Env{
        world_.executor, world_.pool, world_.files, world_.key, spec_, FolderOf(world_, job_.id), VersionsOf(world_, job_.id),
        [this](wire::Severity severity, std::string text) { return ReportEvent(severity, std::move(text)); },
        [this] { LookAfterCheckpoints(); }});
  }
  checkpoints_->OfferRestored(member_->state(), member_->commit());
  LookAfterCheckpoints();
}

// After whatever may call this node to keep more than it does: another member left, it was not there, or a copy was damaged.
void JobTask::LookAfterCheckpoints() {
  if (!checkpoints_ || spec_.checkpoints.every == 0) return;
  look_ = true;
  if (!std::exchange(taking_, true)) tasks_.Spawn(TakeCheckpoints());
}

Task<void> JobTask::TakeCheckpoints() {
  while (std::exchange(look_, false)) {
    co_await checkpoints_->Idle();
    const RoundId reached = member_ && member_->state() ? member_->state()->id.round : RoundId{};
    const Checkpoints::Taken taken = co_await world_.checkpoints->TakeCalled(job_, spec_, reached);
    for (const RoundId round : taken.rounds) {
      co_await ReportEvent(wire::Severity::kInfo, absl::StrCat("took a copy of the checkpoint of round ", round.value,
                                                               " from other members, to keep it in place of one that was lost"));
    }
    if (taken.failed.ok()) continue;
    Log(LogLevel::kWarning, "checkpoint_not_taken", {{"job", ToString(job_.id)}, {"why", taken.failed}});
    co_await Sleep(world_.executor, kTakeAgain);
    look_ = true;
  }
  taking_ = false;
}

}  // namespace gdf::jobs
