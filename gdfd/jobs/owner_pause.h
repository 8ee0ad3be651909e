// Whether this node's owner has it take no work, and until when: kept in a file, so that a restart does not begin again.
#ifndef GDF_GDFD_JOBS_OWNER_PAUSE_H_
#define GDF_GDFD_JOBS_OWNER_PAUSE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/file_system.h"
#include "core/base/task.h"

namespace gdf::jobs {

// On the executor.
class OwnerPause {
 public:
  // `path`: of the file, which holds the end in Unix ms, or 0: until it is ended. All outlive it.
  OwnerPause(Executor& executor, FileSystem& files, std::string path)
      : executor_(executor), files_(files), path_(std::move(path)), tasks_(executor) {}

  // Takes up what the file says. One that cannot be read pauses until that is ended: what its owner meant is not known.
  void Load();
  // Until `until` (InfiniteFuture: until End), in place of what was set before. An error: it is as it was.
  absl::Status Begin(absl::Time until);
  absl::Status End();
  // While it pauses: until when.
  const std::optional<absl::Time>& until() const { return until_; }
  // Called after each change.
  void OnChange(std::function<void()> told) { on_change_ = std::move(told); }

 private:
  void Set(std::optional<absl::Time> until);
  Task<void> EndAt(absl::Time until);

  Executor& executor_;
  FileSystem& files_;
  const std::string path_;
  std::optional<absl::Time> until_;
  std::function<void()> on_change_;
  TaskScope tasks_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_OWNER_PAUSE_H_
