// Memory limits by control groups (version 2), where the daemon's own group is delegated to it:
// systemd's Delegate=yes, or a container of its own.
#ifndef GDF_GDFD_SUPERVISOR_CGROUP_H_
#define GDF_GDFD_SUPERVISOR_CGROUP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/unique_fd.h"

namespace gdf::supervisor {

// The folder under which groups for workers can be made. Moves this process, alone in its group,
// into a leaf "gdfd" of it, since a group with limited children must hold no processes.
// `mount`: where version 2 is mounted; `self`: the text of /proc/self/cgroup. kUnavailable with the
// reason when limits cannot be set from here.
absl::StatusOr<std::string> DelegatedCgroup(const std::string& mount, std::string_view self);
// The same by what /proc says of this process, mounted at /sys/fs/cgroup.
absl::StatusOr<std::string> DelegatedCgroup();

// One worker's group, removed with this object (the worker must have ended by then). Movable.
class Cgroup {
 public:
  // A new group under `parent`, which is what DelegatedCgroup gave, with Limit in force.
  static absl::StatusOr<Cgroup> Create(const std::string& parent, uint64_t memory_bytes,
                                       int max_tasks);
  // The group of an existing folder, without limits.
  explicit Cgroup(std::string folder) : folder_(std::move(folder)) {}
  Cgroup(Cgroup&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  ~Cgroup();

  Cgroup& operator=(Cgroup&& other) noexcept {
    std::swap(folder_, other.folder_);
    return *this;
  }

  // No swap, at most `max_tasks` threads; memory_bytes 0: no memory limit. kUnavailable names the
  // file that the kernel did not take.
  absl::Status Limit(uint64_t memory_bytes, int max_tasks) const;
  // Open for writing: a process that writes "0" to it joins the group.
  absl::StatusOr<train::UniqueFd> OpenProcs() const;
  // Whether the kernel has killed a process of the group at its memory limit, not because the whole
  // machine had none left.
  bool RanOutOfMemory() const;

 private:
  std::string folder_;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_CGROUP_H_
