#include "tests/sim/sqlite_disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace gdf::sim {
namespace {

constexpr size_t kSectorBytes = 512;

std::map<std::string, SqliteDisk*, std::less<>>& Disks() {
  static auto* disks = new std::map<std::string, SqliteDisk*, std::less<>>;
  return *disks;
}

int CodeOf(SqliteDisk::Outcome outcome, int lost) {
  return outcome == SqliteDisk::Outcome::kDone ? SQLITE_OK : outcome == SqliteDisk::Outcome::kFull ? SQLITE_FULL : lost;
}

// --- SQLite's interface: https://www.sqlite.org/vfs.html ---

struct OpenFile {
  sqlite3_file base;  // first: SQLite knows an OpenFile by it
  SqliteDisk* disk;
  std::shared_ptr<SqliteDisk::File>* file;
  std::vector<std::unique_ptr<char[]>>* shared;  // what connections would share; there is one
};

OpenFile& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }

int Close(sqlite3_file* file) {
  delete Of(file).file;
  delete Of(file).shared;
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
  const std::string& data = (*Of(file).file)->data;
  const auto begin = std::min<uint64_t>(static_cast<uint64_t>(at), data.size());
  const size_t there = std::min<size_t>(static_cast<size_t>(bytes), data.size() - begin);
  std::memcpy(out, data.data() + begin, there);
  std::memset(static_cast<char*>(out) + there, 0, static_cast<size_t>(bytes) - there);
  return there == static_cast<size_t>(bytes) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 at) {
  SqliteDisk::File::Change change{static_cast<uint64_t>(at),
                                  std::string(static_cast<const char*>(data), static_cast<size_t>(bytes))};
  return CodeOf(Of(file).disk->Change(**Of(file).file, "write", std::move(change)), SQLITE_IOERR_WRITE);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  SqliteDisk::File::Change change{static_cast<uint64_t>(size), "", true};
  return CodeOf(Of(file).disk->Change(**Of(file).file, "truncate", std::move(change)), SQLITE_IOERR_TRUNCATE);
}

int Sync(sqlite3_file* file, int) { return CodeOf(Of(file).disk->Sync(**Of(file).file), SQLITE_IOERR_FSYNC); }

int Size(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>((*Of(file).file)->data.size());
  return SQLITE_OK;
}

int Lock(sqlite3_file*, int) { return SQLITE_OK; }
int IsReserved(sqlite3_file*, int* reserved) {
  *reserved = 0;
  return SQLITE_OK;
}
int Control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return kSectorBytes; }
// What is beside a write is not harmed by it: as SQLite takes of disks by default.
int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** out) {
  std::vector<std::unique_ptr<char[]>>& shared = *Of(file).shared;
  *out = nullptr;
  if (static_cast<size_t>(region) >= shared.size() && extend == 0) return SQLITE_OK;
  while (shared.size() <= static_cast<size_t>(region)) shared.push_back(std::make_unique<char[]>(static_cast<size_t>(bytes)));
  *out = shared[static_cast<size_t>(region)].get();
  return SQLITE_OK;
}
int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
void ShmBarrier(sqlite3_file*) {}
int ShmUnmap(sqlite3_file* file, int) {
  Of(file).shared->clear();
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = {
    2,    Close,      Read,    Write,      Truncate,        Sync,   Size,    Lock,       Lock,
    IsReserved, Control, SectorSize, Characteristics, ShmMap, ShmLock, ShmBarrier, ShmUnmap, nullptr, nullptr};

sqlite3_vfs* System() { return static_cast<sqlite3_vfs*>(sqlite3_vfs_find("unix")); }

int OpenOn(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  SqliteDisk* const disk = name == nullptr ? nullptr : SqliteDisk::At(name);
  if (disk == nullptr) return System()->xOpen(System(), name, file, flags, out_flags);
  std::shared_ptr<SqliteDisk::File> found = disk->Find(name);
  if (found == nullptr && (flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
  if (found == nullptr) found = disk->Create(name);
  OpenFile& open = Of(file);
  open.disk = disk;
  open.file = new std::shared_ptr<SqliteDisk::File>(std::move(found));
  open.shared = new std::vector<std::unique_ptr<char[]>>;
  open.base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char* name, int sync_folder) {
  SqliteDisk* const disk = SqliteDisk::At(name);
  if (disk == nullptr) return System()->xDelete(System(), name, sync_folder);
  disk->Remove(name);
  return SQLITE_OK;
}

int Access(sqlite3_vfs*, const char* name, int flags, int* out) {
  SqliteDisk* const disk = SqliteDisk::At(name);
  if (disk == nullptr) return System()->xAccess(System(), name, flags, out);
  const std::shared_ptr<SqliteDisk::File> file = disk->Find(name);
  *out = file != nullptr && (flags != SQLITE_ACCESS_EXISTS || !file->data.empty()) ? 1 : 0;
  return SQLITE_OK;
}

// Beside the system's, for paths that are on no simulated disk.
void RegisterOnce() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs own = *System();
    own.zName = "gdf-sim";
    own.szOsFile = std::max(own.szOsFile, static_cast<int>(sizeof(OpenFile)));
    own.xOpen = OpenOn;
    own.xDelete = Delete;
    own.xAccess = Access;
    return own;
  }();
  GDF_CHECK(sqlite3_vfs_register(&vfs, /*makeDflt=*/1) == SQLITE_OK);
}

}  // namespace

SqliteDisk::SqliteDisk(std::string folder, uint64_t seed) : folder_(std::move(folder)), rng_(seed) {
  RegisterOnce();
  GDF_CHECK(Disks().emplace(folder_, this).second);
}

SqliteDisk::~SqliteDisk() { Disks().erase(folder_); }

SqliteDisk* SqliteDisk::At(std::string_view path) {
  const auto it = Disks().find(path.substr(0, path.rfind('/')));
  return it == Disks().end() ? nullptr : it->second;
}

std::shared_ptr<SqliteDisk::File> SqliteDisk::Find(const std::string& path) const {
  const auto it = files_.find(path);
  return it == files_.end() ? nullptr : it->second;
}

std::shared_ptr<SqliteDisk::File> SqliteDisk::Create(const std::string& path) {
  return files_[path] = std::make_shared<File>();
}

void SqliteDisk::Remove(const std::string& path) {
  if (!dead_) files_.erase(path);
}

SqliteDisk::Outcome SqliteDisk::Ask(std::string_view step) const {
  if (dead_) return Outcome::kLost;
  const Outcome outcome = before_ ? before_(step) : Outcome::kDone;
  return dead_ ? Outcome::kLost : outcome;
}

void SqliteDisk::Apply(const File::Change& change, std::string& data) {
  if (change.truncates) {
    data.resize(std::min<size_t>(data.size(), change.at));
    return;
  }
  data.resize(std::max<size_t>(data.size(), change.at + change.bytes.size()));
  data.replace(change.at, change.bytes.size(), change.bytes);
}

SqliteDisk::Outcome SqliteDisk::Change(File& file, std::string_view step, File::Change change) {
  const Outcome outcome = Ask(step);
  if (outcome != Outcome::kDone) return outcome;
  Apply(change, file.data);
  file.unsynced.push_back(std::move(change));
  return Outcome::kDone;
}

SqliteDisk::Outcome SqliteDisk::Sync(File& file) {
  const Outcome outcome = Ask("sync");
  if (outcome != Outcome::kDone) return outcome;
  file.synced = file.data;
  file.unsynced.clear();
  return Outcome::kDone;
}

void SqliteDisk::CutPower() {
  for (auto& [path, file] : files_) {
    file->data = file->synced;
    for (File::Change& change : std::exchange(file->unsynced, {})) {
      const uint64_t fate = rng_.Below(3);
      if (fate == 0) continue;
      if (fate == 1) change.bytes.resize(rng_.Below(change.bytes.size() / kSectorBytes + 1) * kSectorBytes);
      Apply(change, file->data);
    }
    file->synced = file->data;
  }
}

}  // namespace gdf::sim
