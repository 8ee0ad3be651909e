// The versions of one job that a node keeps: a record for each in the job's folder, over chunks in the node's store that an
// owner of its own pins ("j17-checkpoint-40"), so that equal chunks are there once and go with the last version that has them.
//
//   written:  chunks, then their pins, then the record   (each: write, fsync, rename, fsync folder)
//   removed:  the record, then the pins, then the chunks that nobody else pins
//   so a crash in between leaves pins without a record, which Tidy drops, and every other version as it was.
//
// What comes from other members is pinned by another owner until all of it is there ("j17-arriving-40"), so that it may
// take its time beside what is written and removed.
#ifndef GDF_CORE_CHECKPOINT_VERSION_STORE_H_
#define GDF_CORE_CHECKPOINT_VERSION_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file_system.h"
#include "core/checkpoint/outer_state.h"
#include "core/checkpoint/version.h"
#include "core/store/chunk_store.h"

namespace gdf::checkpoint {

// The files that the manifests of a version's parts list: of the model's part the first two.
inline constexpr char kSideFiles[] = "artifacts";
inline constexpr char kTheta[] = "theta";
inline constexpr char kMomentum[] = "momentum";
inline constexpr char kInner[] = "inner";

// What of a version is on this node, as Inspect found it.
struct Inspection {
  uint64_t chunks = 0;  // that are whole, with those of the manifests
  uint64_t bytes = 0;
  struct Missing {
    store::ChunkId id;
    std::string part;  // "model", "outer" or "inner"
  };
  std::vector<Missing> missing;  // or damaged, which removed them; of a part whose manifest is, the manifest alone
  absl::Status digests;          // kDataLoss: whole chunks that are not the committed state
};

// One change at a time; reads are on any thread beside it.
class VersionStore {
 public:
  struct Options {
    std::string folder;  // of this job's records; made when missing
    std::string owner;   // of the job's chunks: "j17"
  };
  // `files` must outlive it.
  VersionStore(FileSystem& files, std::shared_ptr<store::ChunkStore> chunks, Options options)
      : files_(files), chunks_(std::move(chunks)), options_(std::move(options)) {}

  // Their rounds, ascending.
  absl::StatusOr<std::vector<RoundId>> List() const;
  // The bytes of its record, as they are. kNotFound.
  absl::StatusOr<std::string> Record(RoundId round) const;
  // kNotFound; kDataLoss when the record is damaged.
  absl::StatusOr<Version> Load(RoundId round) const;
  // Of what the version has here: outer and inner state go at the end of the job, on purpose.
  bool Keeps(const Version& version, const Digest& part) const;

  // Reads and checks all that it keeps. Fails only when the disk cannot be read.
  absl::StatusOr<Inspection> Inspect(const Version& version) const;
  // Whether a chunk of what it keeps, but for the inner state, is known not to be here; nothing but manifests is read.
  bool HasGaps(const Version& version) const;
  // θ, and the files of an export as they were given. Momentum is left out. kDataLoss or kNotFound naming the first chunk
  // that is damaged or missing.
  absl::StatusOr<OuterStatePtr> ReadModel(const Version& version, Buffer* side_files) const;
  // θ and momentum, which must be kept.
  absl::StatusOr<OuterStatePtr> ReadState(const Version& version) const;
  // The inner state, which must be kept, piece by piece. An error of `take` ends it.
  absl::Status ReadInner(const Version& version, absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> take) const;
  // Puts a chunk of the version back. kDataLoss when `bytes` are not it.
  absl::Status Repair(const Version& version, const store::ChunkId& id, absl::Span<const uint8_t> bytes);

  // Under what owner the chunks of a version are pinned.
  std::string OwnerOf(RoundId round) const;
  // Writes the record of a version whose chunks are here and pinned so, as this node's.
  absl::Status Save(const Version& version, const trust::NodeKey& key);
  // Under what owner chunks of a version come here from others.
  std::string ArrivingOwnerOf(RoundId round) const;
  // A version of which model and outer part have come: pins them as it pins others', and saves it.
  absl::Status Adopt(const Version& version, const trust::NodeKey& key);
  // Drops what was arriving. Not while anything is.
  absl::Status DropArriving();

  // Drops what a version that was not finished or not removed to its end has left.
  absl::Status Tidy();
  absl::Status Remove(RoundId round);
  // Removes it as its owner wishes: the record stays, and says so.
  absl::Status GiveUp(const Version& version, const trust::NodeKey& key);
  // Removes all but the newest `keep`, and tidies.
  absl::Status Retain(int keep);
  // For a job that has ended: of each version, what an export needs stays. May be repeated.
  absl::Status KeepModels();
  absl::Status RemoveAll();

 private:
  friend class VersionWriter;
  std::string Path(RoundId round) const;
  absl::StatusOr<store::Manifest> ReadManifest(const Digest& id) const;
  absl::StatusOr<std::vector<store::ChunkId>> ChunksOf(const Digest& part) const;  // with its manifest
  absl::Status InspectPart(const Version& version, const Digest& part, const char* name, Inspection* found) const;
  absl::StatusOr<std::shared_ptr<OuterState>> ReadTheta(const Version& version, const store::Manifest& model) const;
  absl::StatusOr<tensor::FlatBuffer> ReadValues(const store::Manifest& manifest, const char* file, uint64_t num_values) const;
  absl::Status ReadInto(const store::Manifest& manifest, const char* file, absl::Span<uint8_t> out) const;

  FileSystem& files_;
  const std::shared_ptr<store::ChunkStore> chunks_;
  const Options options_;
};

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_VERSION_STORE_H_
