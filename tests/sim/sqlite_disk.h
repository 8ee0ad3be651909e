// Simulated disks under SQLite: databases whose files are in memory, where each write and sync is one that can fail or be
// the last, and where what was not synced may be gone, or half there, once the power was cut. A database at
// "<folder of the disk>/..." is on that disk.
//
//   SqliteDisk disk(folder.path(), seed);
//   auto state = state::State::Open(folder.path() + "/state.db");
//   disk.Die();            // the process is no more: what it does from here on reaches no disk
//   state->reset();
//   disk.CutPower();
//   disk.Revive();
#ifndef GDF_TESTS_SIM_SQLITE_DISK_H_
#define GDF_TESTS_SIM_SQLITE_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rng.h"

namespace gdf::sim {

// One thread, as all disks together.
class SqliteDisk {
 public:
  enum class Outcome { kDone, kFull, kLost };  // kLost: an error of the device
  // Asked before each step: "write", "sync", "truncate".
  using Before = std::function<Outcome(std::string_view step)>;

  // `folder` is there, empty, and outlives it; no other disk is for it.
  SqliteDisk(std::string folder, uint64_t seed);
  ~SqliteDisk();

  void set_before(Before before) { before_ = std::move(before); }
  void Die() { dead_ = true; }
  bool dead() const { return dead_; }
  void Revive() { dead_ = false; }
  // Of what was written and not synced, some is there and some is not, and of some the first sectors are. No database on
  // it is open.
  void CutPower();

  // For the file system that SQLite sees.
  struct File {
    struct Change {
      uint64_t at = 0;
      std::string bytes;
      bool truncates = false;  // to `at`
    };
    std::string data;    // as programs see it
    std::string synced;
    std::vector<Change> unsynced;
  };
  static SqliteDisk* At(std::string_view path);
  std::shared_ptr<File> Find(const std::string& path) const;
  std::shared_ptr<File> Create(const std::string& path);
  void Remove(const std::string& path);
  Outcome Change(File& file, std::string_view step, File::Change change);
  Outcome Sync(File& file);

 private:
  Outcome Ask(std::string_view step) const;
  static void Apply(const File::Change& change, std::string& data);

  const std::string folder_;
  SeededRng rng_;
  Before before_;
  bool dead_ = false;
  std::map<std::string, std::shared_ptr<File>> files_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SQLITE_DISK_H_
