#include "core/base/buffer_pool.h"

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gdf {
namespace {

constexpr size_t kSmallest = size_t{32} << 10;
constexpr size_t kLargest = size_t{2} << 20;
constexpr size_t kMostKept = size_t{32} << 20;
// Sizes 32, 40, 48, 56, 64, 80, ... KiB: four between powers of two, so that a block wastes at most a fifth.
constexpr size_t kSteps = 4;
constexpr size_t kClasses = (std::bit_width(kLargest) - std::bit_width(kSmallest)) * kSteps + 1;

struct SizeClass {
  size_t index;
  size_t bytes;
};

SizeClass ClassOf(size_t bytes) {
  const size_t octave = static_cast<size_t>(std::bit_width(bytes - 1)) - 1;  // 2^octave < bytes <= 2^(octave + 1)
  const size_t step = (size_t{1} << octave) / kSteps;
  const size_t steps = (bytes - (size_t{1} << octave) + step - 1) / step;  // 1 to kSteps
  const size_t first = static_cast<size_t>(std::bit_width(kSmallest)) - 1;
  return {(octave - first) * kSteps + steps, (size_t{1} << octave) + steps * step};
}

class Pool {
 public:
  std::unique_ptr<uint8_t[]> Take(size_t index) {
    const absl::MutexLock lock(&mutex_);
    if (free_[index].empty()) return nullptr;
    Kept kept = std::move(free_[index].back());
    free_[index].pop_back();
    kept_bytes_ -= kept.bytes;
    return std::move(kept.block);
  }
  void Give(SizeClass size, std::unique_ptr<uint8_t[]> block) {
    const absl::MutexLock lock(&mutex_);
    if (kept_bytes_ + size.bytes > kMostKept) return;
    kept_bytes_ += size.bytes;
    free_[size.index].push_back({std::move(block), size.bytes});
  }

 private:
  struct Kept {
    std::unique_ptr<uint8_t[]> block;
    size_t bytes;
  };
  absl::Mutex mutex_;
  std::array<std::vector<Kept>, kClasses> free_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Never destroyed: blocks may be let go of by threads that outlive main().
Pool& ThePool() {
  static Pool* const pool = new Pool();
  return *pool;
}

}  // namespace

std::shared_ptr<uint8_t[]> AllocateBlock(size_t bytes) {
  if (bytes <= kSmallest || bytes > kLargest) return std::make_shared_for_overwrite<uint8_t[]>(bytes);
  const SizeClass size = ClassOf(bytes);
  std::unique_ptr<uint8_t[]> block = ThePool().Take(size.index);
  if (!block) block = std::make_unique_for_overwrite<uint8_t[]>(size.bytes);
  return std::shared_ptr<uint8_t[]>(block.release(),
                                    [size](uint8_t* data) { ThePool().Give(size, std::unique_ptr<uint8_t[]>(data)); });
}

}  // namespace gdf
