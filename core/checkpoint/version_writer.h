// Writes one version in pieces, so that others have the disk and the processor in between.
//
//   VersionWriter writer(versions, {state, commit, side_files, inner});
//   for (bool more = true; more;) {
//     GDF_ASSIGN_OR_RETURN(more, writer.Step());
//   }
//   GDF_ASSIGN_OR_RETURN(Version version, writer.Finish(key, now_unix_ms));
#ifndef GDF_CORE_CHECKPOINT_VERSION_WRITER_H_
#define GDF_CORE_CHECKPOINT_VERSION_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/checkpoint/record.h"
#include "core/checkpoint/version_store.h"

namespace gdf::checkpoint {

struct VersionInput {
  OuterStatePtr state;
  wire::Commit commit;  // that made it
  Buffer side_files;    // what an export has beside the weights, in whatever form ReadModel is to give it back
  std::shared_ptr<const RecordFile> inner;  // the worker's state at that round; null: it was not saved
  bool holds = true;    // whether this node keeps what every member has alike (holders.h)
};

// One thread at a time; blocks.
class VersionWriter {
 public:
  static constexpr size_t kStepBytes = size_t{8} << 20;

  VersionWriter(std::shared_ptr<VersionStore> versions, VersionInput input);

  // Writes the next piece; false: that was the last. A first step removes versions of this round and later ones: they
  // belong to a history that was rolled back. kResourceExhausted: the disk is full, or chunks have no more room under its
  // cap. After an error, and when it is not to be finished, GiveUp.
  absl::StatusOr<bool> Step();
  // After the last step: pins the chunks and writes the record, if there is anything that this node keeps. Once.
  absl::StatusOr<Version> Finish(const trust::NodeKey& key, int64_t now_unix_ms);
  // Drops the chunks that were written.
  absl::Status GiveUp();

 private:
  // One file of a part.
  struct Source {
    Digest Version::*part;
    const char* name;
    uint64_t size = 0;
    std::function<absl::StatusOr<Buffer>(uint64_t offset, size_t bytes)> read;
  };
  absl::Status Begin();
  absl::Status EndFile();  // and its part, when it is the last of it

  const std::shared_ptr<VersionStore> versions_;
  const VersionInput input_;
  const std::string owner_;
  std::vector<Source> sources_;
  size_t source_ = 0;    // of sources_, that is being written
  uint64_t offset_ = 0;  // in it
  bool begun_ = false;
  store::ChunkWriter chunks_;
  store::Manifest manifest_;               // of the part that is being written
  std::vector<store::ChunkId> ids_;        // of all parts
  uint64_t manifest_bytes_ = 0;            // that were not in the store before
  Version version_;
};

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_VERSION_WRITER_H_
