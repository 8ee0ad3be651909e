// A simulated disk: each step of writing, naming and removing a file is one that can fail or be the last, and what was not
// synced may be gone, or half there, once the power was cut. Written by the same steps as a real disk (atomic_file.h).
//
//   SimDisk disk(seed);
//   disk.set_before([&](std::string_view step, const std::string& path) { return ++steps == 7 ? Crash() : Ok(); });
//   disk.CutPower();
#ifndef GDF_TESTS_SIM_SIM_DISK_H_
#define GDF_TESTS_SIM_SIM_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/rng.h"

namespace gdf::sim {

// One thread. A copy is another disk with the same content; nobody writes to it what is being written to the first.
class SimDisk final : public FileSystem {
 public:
  // Asked before each step: "create", "append", "sync", "rename", "sync folder", "remove", "folder". Not OK: it does not
  // happen, and the caller gets that status.
  using Before = std::function<absl::Status(std::string_view step, const std::string& path)>;

  explicit SimDisk(uint64_t seed) : rng_(seed) {}
  void set_before(Before before) { before_ = std::move(before); }
  // It is full at so many bytes.
  void set_capacity_bytes(uint64_t bytes) { capacity_bytes_ = bytes; }
  uint64_t used_bytes() const;

  // Each name is what it was at some time since its folder was synced; each file ends somewhere after what was synced of
  // it, perhaps with zeros up to its length. Nobody may be writing any more.
  void CutPower();

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path, uint32_t mode) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status MakeFolders(const std::string& path, uint32_t mode) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& folder) override;

 private:
  class Writing;
  struct File {
    std::string data;
    size_t synced = 0;  // bytes of it
  };
  using FilePtr = std::shared_ptr<File>;

  absl::Status Ask(std::string_view step, const std::string& path) const {
    return before_ ? before_(step, path) : absl::OkStatus();
  }
  void Name(const std::string& path, FilePtr file);  // null: no more
  void NamesAreSynced(const std::string& folder);

  SeededRng rng_;
  Before before_;
  uint64_t capacity_bytes_ = ~uint64_t{0};
  uint64_t next_temporary_ = 0;
  std::map<std::string, FilePtr> names_;                  // as programs see them
  std::map<std::string, std::vector<FilePtr>> unsynced_;  // what a name was before, oldest first; null: nothing
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_DISK_H_
