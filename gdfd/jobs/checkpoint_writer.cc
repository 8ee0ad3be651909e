#include "gdfd/jobs/checkpoint_writer.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/checkpoint/checkpoint_store.h"
#include "core/checkpoint/holders.h"
#include "gdfd/jobs/artifacts.h"

namespace gdf::jobs {

// One checkpoint on its way to the disk; on the pool, one call at a time.
struct CheckpointWriter::Writing {
  const std::shared_ptr<const Env> env;
  const Offered offered;
  std::optional<checkpoint::VersionWriter> writer = std::nullopt;

  // Of those that were members when it was committed.
  bool Holds() const {
    const wire::Receipt& receipt = offered.commit.receipt;
    const auto replicas = static_cast<size_t>(env->spec.checkpoints.replicas);
    return absl::c_linear_search(checkpoint::HoldersOf(receipt.tag.job, receipt.voters, replicas), env->key.id());
  }
  // Whether there is something to write: not what is kept already, nor what a start has put back that is older than that.
  absl::StatusOr<bool> Begin() {
    const RoundId round = offered.state->id.round;
    GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> kept, env->versions->List());
    if (offered.restored && !kept.empty() && kept.back() >= round) return false;
    const absl::StatusOr<checkpoint::Version> same = env->versions->Load(round);
    if (same.ok() && same->state() == offered.state->id) return false;
    checkpoint::VersionInput input{offered.state, offered.commit, {}, nullptr, Holds()};
    if (input.holds) {
      GDF_ASSIGN_OR_RETURN(input.side_files, ReadSideFiles(env->files, env->folder));
    }
    absl::StatusOr<std::unique_ptr<checkpoint::RecordFile>> inner =
        checkpoint::OpenWorker(env->files, env->folder + "/state", round);
    if (inner.ok()) input.inner = *std::move(inner);
    writer.emplace(env->versions, std::move(input));
    return true;
  }
  absl::Status Finish() {
    GDF_ASSIGN_OR_RETURN(const checkpoint::Version version,
                         writer->Finish(env->key, absl::ToUnixMillis(env->executor.clock().Now())));
    Log(LogLevel::kInfo, "checkpoint_kept",
        {{"job", ToString(version.job())}, {"round", version.round().value}, {"new_bytes", version.new_bytes}});
    return absl::OkStatus();
  }
  // Writes the next piece; false: it is done.
  absl::StatusOr<bool> Next() {
    if (!writer) return Begin();
    absl::StatusOr<bool> more = writer->Step();
    if (more.ok() && *more) return true;
    const absl::Status finished = more.ok() ? Finish() : more.status();
    if (finished.ok()) {
      GDF_RETURN_IF_ERROR(env->versions->Retain(static_cast<int>(env->spec.checkpoints.keep)));
      return false;
    }
    const absl::Status given_up = writer->GiveUp();
    if (!given_up.ok()) Log(LogLevel::kWarning, "checkpoint_leftovers", {{"why", given_up}});
    return finished;
  }
};

CheckpointWriter::CheckpointWriter(Env env)
    : env_(std::make_shared<const Env>(std::move(env))), tasks_(env_->executor) {}

void CheckpointWriter::Offer(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit) {
  Take(std::move(state), commit, /*restored=*/false);
}

void CheckpointWriter::OfferRestored(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit) {
  Take(std::move(state), commit, /*restored=*/true);
}

void CheckpointWriter::Take(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit, bool restored) {
  if (!commit || state->id == last_ || !config::KeepsCheckpoint(env_->spec, state->id.round.value)) return;
  last_ = state->id;
  if (next_) {
    Log(LogLevel::kWarning, "checkpoint_left_out", {{"round", next_->state->id.round.value}, {"for", last_.round.value}});
  }
  next_ = Offered{std::move(state), *commit, restored};
  if (!std::exchange(running_, true)) tasks_.Spawn(Run());
}

Task<void> CheckpointWriter::Run() {
  while (next_) {
    Offered offered = *std::exchange(next_, std::nullopt);
    const RoundId round = offered.state->id.round;
    absl::Status written = co_await Write(std::move(offered));
    co_await Tell(round, std::move(written));
    env_->on_turn();
  }
  running_ = false;
  for (const OneShot<bool>& waiter : std::exchange(idle_, {})) waiter.Set(true);
}

Task<absl::Status> CheckpointWriter::Write(Offered offered) {
  auto writing = std::make_shared<Writing>(Writing{env_, std::move(offered)});
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) {
    auto next = [writing] { return writing->Next(); };
    more = co_await RunOn(env_->pool, env_->executor, std::move(next));
  }
  co_return more.status();
}

// A disk that takes no more fails each time: told once, and when it works again.
Task<void> CheckpointWriter::Tell(RoundId round, absl::Status written) {
  if (!written.ok()) {
    if (++failures_ > 1) co_return;
    std::string text = absl::StrCat("the checkpoint of round ", round.value, " was not written: ", written.message());
    co_await env_->report(wire::Severity::kError, std::move(text));
  } else if (const int failures = std::exchange(failures_, 0); failures > 0) {
    std::string text =
        absl::StrCat("writes checkpoints again, from round ", round.value, " on, after ", Counted(failures, "failure"));
    co_await env_->report(wire::Severity::kInfo, std::move(text));
  }
}

Task<void> CheckpointWriter::Idle() {
  while (running_) {
    OneShot<bool> idle(env_->executor);
    idle_.push_back(idle);
    co_await idle.Wait();
  }
}

}  // namespace gdf::jobs
