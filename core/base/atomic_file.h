// The order of steps by which a file is replaced so that a crash at any of them leaves the old one or the new one whole.
// The steps are an operating system's, or those of a simulated disk that forgets what was not synced.
#ifndef GDF_CORE_BASE_ATOMIC_FILE_H_
#define GDF_CORE_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/file_system.h"

namespace gdf {

// A new file beside the one that it is to replace, under a temporary name. Destroying it closes it.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status Write(absl::Span<const uint8_t> data) = 0;
  virtual absl::Status Sync() = 0;        // its bytes survive a crash
  virtual absl::Status Rename() = 0;      // to the name of the one that it replaces
  virtual absl::Status SyncFolder() = 0;  // its name survives a crash
  virtual void Remove() = 0;              // under the temporary name
};

// "x.tmp-12-0", of process 12: what a crash leaves of a file that was being written is known by it.
std::string TemporaryName(std::string_view path, uint64_t process, uint64_t number);

std::unique_ptr<WritableFile> ReplaceAtomically(std::unique_ptr<NewFile> file);

}  // namespace gdf

#endif  // GDF_CORE_BASE_ATOMIC_FILE_H_
