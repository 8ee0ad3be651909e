// Memory shared with a worker, for what is too large for messages. A segment has a fixed size and
// cannot be resized by either end (Linux: a memfd sealed against it), so that no access can fault.
//   A segment  is written over and over: packed deltas, pieces of saved states.
//   A blob     is written once and then sealed whole: small files.
#ifndef GDF_CORE_TRAIN_SHARED_SEGMENT_H_
#define GDF_CORE_TRAIN_SHARED_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/train/unique_fd.h"

namespace gdf::train {

// An address range that is unmapped with its owner.
class Mapping {
 public:
  Mapping(void* data, size_t size) : data_(data), size_(size) {}
  Mapping(const Mapping&) = delete;
  ~Mapping();
  absl::Span<uint8_t> bytes() const { return {static_cast<uint8_t*>(data_), size_}; }

 private:
  void* data_;
  size_t size_;
};

// Movable. The two ends see each other's writes; what the other end may write must be copied before
// it is checked.
class SharedSegment {
 public:
  enum class Peer { kReads, kReadsAndWrites };

  // The daemon's end: `size` bytes of zeros (pages appear when they are touched). With kReads the
  // peer cannot map it for writing. kResourceExhausted when the system has no memory or files left.
  static absl::StatusOr<SharedSegment> Create(uint64_t size, Peer peer);

  // The worker's end of what Create made. kInvalidArgument when it is not exactly `size` bytes.
  static absl::StatusOr<SharedSegment> Open(UniqueFd fd, uint64_t size, bool writable);

  // A descriptor to send to the peer.
  absl::StatusOr<UniqueFd> DuplicateFd() const;

  // Gives the memory back to the system until it is next written: it reads as zeros at both ends.
  // Only for a segment that both may write.
  void Discard();

  absl::Span<uint8_t> bytes() const { return mapping_->bytes(); }
  // The bytes as float32; the size is cut to a multiple of four.
  absl::Span<float> floats() const {
    return {reinterpret_cast<float*>(bytes().data()), bytes().size() / sizeof(float)};
  }

 private:
  SharedSegment(UniqueFd fd, std::unique_ptr<Mapping> mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  UniqueFd fd_;
  std::unique_ptr<Mapping> mapping_;
};

// A blob of `size` bytes that `fill` writes. `size` 0 is allowed. Errors of `fill`;
// kResourceExhausted as above.
absl::StatusOr<UniqueFd> MakeBlob(uint64_t size,
                                  absl::FunctionRef<absl::Status(absl::Span<uint8_t>)> fill);
absl::StatusOr<UniqueFd> MakeBlob(absl::Span<const uint8_t> contents);

// The contents of a blob from the other end, without a copy: nobody can change or cut it any more.
// kInvalidArgument when it is not sealed so, or not exactly `size` bytes.
absl::StatusOr<Buffer> OpenBlob(UniqueFd fd, uint64_t size);

// Maps a regular file or a blob for reading. Only for files whose owner is trusted not to cut them
// while they are mapped. kInvalidArgument when it has another size.
absl::StatusOr<Buffer> MapFile(UniqueFd fd, uint64_t size);

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_SHARED_SEGMENT_H_
