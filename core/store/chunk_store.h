// Content-addressed chunks as files under a disk cap: <folder>/ab/cdef… by the hexadecimal id. What no owner pins
// is a cache, evicted least recently used first; what is pinned stays. Owners are jobs ("j17") and uploads.
//
// Any thread; calls read and write files, so make them from the compute pool.
#ifndef GDF_CORE_STORE_CHUNK_STORE_H_
#define GDF_CORE_STORE_CHUNK_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/base/file_system.h"
#include "core/store/manifest.h"

namespace gdf::store {

class ChunkStore {
 public:
  struct Options {
    std::string folder;  // made when missing; nothing else may write there
    uint64_t cap_bytes = ~uint64_t{0};
  };
  struct Usage {
    uint64_t bytes = 0;
    uint64_t pinned_bytes = 0;
    uint64_t cap_bytes = 0;
    size_t chunks = 0;
  };

  // Reads the folder's listing and pins; removes leftovers of interrupted writes.
  static absl::StatusOr<std::unique_ptr<ChunkStore>> Open(FileSystem& files, Options options);

  // Stores `data` (at most kMaxChunkBytes) and returns its id; a no-op when it is there. With an `owner` it is
  // pinned at once, which outlives a restart only after the next Pin or SetPins of that owner.
  // kResourceExhausted when the disk is full or pinned chunks leave no room under the cap; then nothing is stored.
  absl::StatusOr<ChunkId> Put(absl::Span<const uint8_t> data, std::string_view owner = {});
  // As Put; `*added`: whether its file was not here before.
  absl::StatusOr<ChunkId> Put(absl::Span<const uint8_t> data, std::string_view owner, bool* added);
  // Put for bytes from a stranger. kDataLoss when they are not `expected`.
  absl::Status PutExpected(const ChunkId& expected, absl::Span<const uint8_t> data, std::string_view owner = {});

  // The chunk's bytes, verified. kNotFound; kDataLoss when the file is corrupt, which removes it so that it can be
  // fetched again.
  absl::StatusOr<Buffer> Get(const ChunkId& id);
  bool Has(const ChunkId& id) const;
  // Those of `ids` that are not here under a pin of one of `owners`, in order: what only others
  // brought here does not count.
  std::vector<ChunkId> Missing(const std::vector<ChunkId>& ids,
                               const std::vector<std::string>& owners) const;

  // Adds to the pins of `owner` ([a-z0-9-]{1,64}), durably. Chunks may be pinned before they are here.
  absl::Status Pin(std::string_view owner, const std::vector<ChunkId>& ids);
  // Makes `ids` all that `owner` pins, durably, and deletes what only it pinned.
  absl::Status SetPins(std::string_view owner, const std::vector<ChunkId>& ids);
  // The end of an owner: SetPins to nothing.
  absl::Status Drop(std::string_view owner) { return SetPins(owner, {}); }
  bool PinnedBy(std::string_view owner, const ChunkId& id) const;
  // By `owner` or by one whose name begins with it and '-': what belongs to it.
  bool PinnedUnder(std::string_view owner, const ChunkId& id) const;
  std::vector<std::string> Owners() const;  // sorted

  Usage usage() const;

 private:
  struct Entry {
    uint64_t size_bytes = 0;    // of its file, while present
    uint64_t last_use = 0;      // key in evictable_, when there
    uint64_t generation = 0;    // counts completed writes
    uint32_t pins = 0;          // owners that pin it
    bool present = false;       // its file is complete
    bool busy = false;          // its file is being written or deleted by one call
  };

  // Bytes whose hash is `id`. Gives whether their file was not here.
  absl::StatusOr<bool> Store(const ChunkId& id, absl::Span<const uint8_t> data, std::string_view owner);
  ChunkStore(FileSystem& files, Options options) : files_(files), options_(std::move(options)) {}
  absl::Status Load();
  absl::Status LoadPins();
  std::string PathOf(const ChunkId& id) const;
  std::string PinPathOf(std::string_view owner) const;

  // Waits until no other call works on the chunk's file.
  void AwaitIdle(const ChunkId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be called after a change or use of an entry: puts it into, to the end of, or out of the order of eviction,
  // and forgets one of which nothing is left.
  void Settle(const ChunkId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPin(std::string_view owner, const ChunkId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Marks the chunk's file as being deleted; DeleteFiles must follow.
  void MarkDeleted(const ChunkId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes room for `size_bytes`. The chunks that had to go are marked deleted.
  absl::StatusOr<std::vector<ChunkId>> Reserve(uint64_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeleteFiles(const std::vector<ChunkId>& ids) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SavePins(std::string_view owner) ABSL_LOCKS_EXCLUDED(mutex_);

  FileSystem& files_;
  const Options options_;
  mutable absl::Mutex mutex_;  // never held over I/O
  absl::flat_hash_map<ChunkId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, ChunkId> evictable_ ABSL_GUARDED_BY(mutex_);  // present, neither pinned nor busy; by last_use
  std::map<std::string, absl::flat_hash_set<ChunkId>, std::less<>> pins_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;            // present or being written
  uint64_t evictable_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool saving_pins_ ABSL_GUARDED_BY(mutex_) = false;
};

// Cuts a stream of bytes into chunks of a store. One thread.
class ChunkWriter {
 public:
  // Chunks are pinned for `owner`. `store` outlives the writer.
  ChunkWriter(ChunkStore& store, std::string owner) : store_(store), owner_(std::move(owner)) {}
  absl::Status Append(absl::Span<const uint8_t> data);
  // Ends one file of a manifest and starts the next.
  absl::StatusOr<ManifestFile> Finish(std::string path);
  uint64_t added_bytes() const { return added_bytes_; }  // of chunks that were not in the store before

 private:
  absl::Status Flush();
  ChunkStore& store_;
  const std::string owner_;
  std::vector<uint8_t> pending_;
  ManifestFile file_;
  uint64_t added_bytes_ = 0;
};

// Writes the content of `file` out of its chunks in order; does not commit `out`. kNotFound when a chunk is not
// here.
absl::Status Assemble(ChunkStore& store, const ManifestFile& file, WritableFile& out);

}  // namespace gdf::store

#endif  // GDF_CORE_STORE_CHUNK_STORE_H_
