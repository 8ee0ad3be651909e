#include "gdfctl/job_follower.h"

#include <algorithm>

#include "core/base/clock.h"

namespace gdf::ctl {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(5);

}  // namespace

JobFollower::JobFollower(control::Client& client, const std::string& job) : client_(client) {
  position_.job = job;
  position_.follow = true;
  thread_ = std::thread([this] { Run(); });
}

JobFollower::~JobFollower() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    stopped_.Signal();
    if (watch_ != nullptr) watch_->Cancel();
  }
  thread_.join();
}

JobFollower::Item JobFollower::Next(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !items_.empty(); };
  Item item;
  if (!arrived_.Await(&mutex_, timeout, ready)) {
    item.timed_out = true;
    return item;
  }
  item = std::move(items_.front());
  items_.pop_front();
  return item;
}

void JobFollower::Push(Item item) {
  absl::MutexLock lock(&mutex_);
  items_.push_back(std::move(item));
  arrived_.Signal();
}

bool JobFollower::IsNew(const control::JobUpdate& update) {
  if (update.event) {
    if (update.event->id <= position_.after_event) return false;
    position_.after_event = update.event->id;
  }
  if (update.round) {
    if (update.round->round < position_.from_round) return false;
    position_.from_round = update.round->round + 1;
  }
  return true;
}

absl::Status JobFollower::WatchOnce(bool* progress) {
  std::unique_ptr<control::JobWatch> watch = client_.WatchJob(position_);
  {
    absl::MutexLock lock(&mutex_);
    if (stop_) return absl::CancelledError("stopped");
    watch_ = watch.get();
  }
  while (std::optional<control::JobUpdate> update = watch->Next()) {
    *progress = true;
    finished_ = update->finished.has_value();
    if (IsNew(*update)) Push({.update = std::move(update)});
  }
  absl::MutexLock lock(&mutex_);
  watch_ = nullptr;
  return watch->Finish();
}

void JobFollower::Run() {
  const SystemClock clock;
  absl::Duration pause = kFirstPause;
  bool ever = false;
  absl::Duration gone_since = absl::InfiniteDuration();
  while (true) {
    bool progress = false;
    absl::Status end = WatchOnce(&progress);
    if (finished_) return Push({.end = absl::OkStatus()});
    // A daemon that stops ends its streams in order, without `finished`.
    if (end.ok()) end = absl::UnavailableError("gdfd ended the stream before the job's end");
    ever = ever || progress;
    if (!ever || end.code() != absl::StatusCode::kUnavailable) return Push({.end = end});
    if (progress || gone_since == absl::InfiniteDuration()) {
      gone_since = clock.Monotonic();
      pause = kFirstPause;
      Push({.reconnecting = true});
    }
    if (clock.Monotonic() - gone_since > kReconnectFor) return Push({.end = end});
    absl::MutexLock lock(&mutex_);
    const auto stopped = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; };
    if (stopped_.Await(&mutex_, pause, stopped)) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace gdf::ctl
