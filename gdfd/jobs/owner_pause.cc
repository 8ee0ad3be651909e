#include "gdfd/jobs/owner_pause.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace gdf::jobs {
namespace {

constexpr uint64_t kMaxFileBytes = 32;

absl::StatusOr<absl::Time> Parse(const std::string& text) {
  int64_t unix_ms = 0;
  if (!absl::SimpleAtoi(text, &unix_ms) || unix_ms < 0) {
    return absl::DataLossError("it does not hold a time in Unix ms");
  }
  return unix_ms == 0 ? absl::InfiniteFuture() : absl::FromUnixMillis(unix_ms);
}

}  // namespace

void OwnerPause::Set(std::optional<absl::Time> until) {
  until_ = until;
  if (until && *until != absl::InfiniteFuture()) tasks_.Spawn(EndAt(*until));
  if (on_change_) on_change_();
}

// The machine may sleep and its clock be set meanwhile: looked at once a minute.
Task<void> OwnerPause::EndAt(absl::Time until) {
  while (until_ == until) {
    const absl::Duration left = until - executor_.clock().Now();
    if (left <= absl::ZeroDuration()) {
      const absl::Status ended = End();
      if (ended.ok()) co_return;
      Log(LogLevel::kWarning, "pause_not_ended", {{"why", ended}});
    }
    co_await Sleep(executor_, std::clamp(left, absl::Seconds(1), absl::Minutes(1)));
  }
}

void OwnerPause::Load() {
  const absl::StatusOr<std::string> text = files_.Read(path_, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return;
  const absl::StatusOr<absl::Time> until = text.ok() ? Parse(*text) : text.status();
  if (!until.ok()) Log(LogLevel::kWarning, "pause_unreadable", {{"file", path_}, {"why", until.status()}});
  Set(until.value_or(absl::InfiniteFuture()));
}

absl::Status OwnerPause::Begin(absl::Time until) {
  const int64_t unix_ms = until == absl::InfiniteFuture() ? 0 : absl::ToUnixMillis(until);
  GDF_RETURN_IF_ERROR(files_.WriteAtomic(path_, absl::StrCat(unix_ms)));
  Set(until == absl::InfiniteFuture() ? until : absl::FromUnixMillis(unix_ms));
  return absl::OkStatus();
}

absl::Status OwnerPause::End() {
  if (!until_) return absl::OkStatus();
  const absl::Status removed = files_.Remove(path_);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  Set(std::nullopt);
  return absl::OkStatus();
}

}  // namespace gdf::jobs
