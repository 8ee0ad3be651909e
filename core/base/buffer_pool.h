// Blocks for frames, used again: a block of a megabyte fresh from the system costs more in page faults than the copy
// that fills it.
#ifndef GDF_CORE_BASE_BUFFER_POOL_H_
#define GDF_CORE_BASE_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gdf {

// `bytes` bytes with any content. From 32 KiB to 2 MiB they come from blocks that others have let go of, of which
// at most 32 MiB are kept; other sizes from the heap. Any thread; the last owner may be on another.
std::shared_ptr<uint8_t[]> AllocateBlock(size_t bytes);

}  // namespace gdf

#endif  // GDF_CORE_BASE_BUFFER_POOL_H_
