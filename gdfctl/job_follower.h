// Watches one job in the background, across restarts of the daemon: what was told is not told again, and nothing is
// missed. Hands updates over one by one.
#ifndef GDF_GDFCTL_JOB_FOLLOWER_H_
#define GDF_GDFCTL_JOB_FOLLOWER_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/monotonic_cond_var.h"
#include "core/control/client.h"

namespace gdf::ctl {

class JobFollower {
 public:
  // Longest time without a daemon before it gives up: long enough for a machine to start again.
  static constexpr absl::Duration kReconnectFor = absl::Minutes(10);

  // Starts at once. `client` outlives this.
  JobFollower(control::Client& client, const std::string& job);
  ~JobFollower();

  struct Item {
    std::optional<control::JobUpdate> update = std::nullopt;
    bool reconnecting = false;  // the daemon went away just now
    bool timed_out = false;     // nothing came within the time given
    // Set exactly when nothing of the above is: the end. OK after `finished`.
    std::optional<absl::Status> end = std::nullopt;
  };
  // Waits for the next item, at most `timeout`. One thread.
  Item Next(absl::Duration timeout);

 private:
  void Run();
  // One connection, until it ends. `progress`: something was told.
  absl::Status WatchOnce(bool* progress);
  void Push(Item item);
  bool IsNew(const control::JobUpdate& update);

  control::Client& client_;
  control::WatchRequest position_;  // of the background thread
  bool finished_ = false;           // of the background thread

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  control::JobWatch* watch_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  MonotonicCondVar arrived_, stopped_;
  std::thread thread_;
};

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_JOB_FOLLOWER_H_
