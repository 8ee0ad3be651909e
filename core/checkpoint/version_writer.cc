#include "core/checkpoint/version_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf::checkpoint {

VersionWriter::VersionWriter(std::shared_ptr<VersionStore> versions, VersionInput input)
    : versions_(std::move(versions)),
      input_(std::move(input)),
      owner_(versions_->OwnerOf(input_.state->id.round)),
      chunks_(*versions_->chunks_, owner_) {
  version_.commit = input_.commit;
  version_.num_params = input_.state->theta.size();
  version_.num_momentum = input_.state->momentum.size();
  const auto slices = [](Buffer all) {
    return [all](uint64_t offset, size_t bytes) -> absl::StatusOr<Buffer> { return all.Slice(offset, bytes); };
  };
  const auto values = [this](const tensor::FlatBuffer& buffer) {
    return Buffer::Wrap(tensor::AsBytes(buffer.span()), input_.state);
  };
  // Ascending by name within a part, as manifests have their files.
  if (input_.holds) {
    sources_.push_back({&Version::model, kSideFiles, input_.side_files.size(), slices(input_.side_files)});
    sources_.push_back({&Version::model, kTheta, version_.num_params * sizeof(float), slices(values(input_.state->theta))});
  }
  if (input_.holds && version_.num_momentum > 0) {
    sources_.push_back(
        {&Version::outer, kMomentum, version_.num_momentum * sizeof(float), slices(values(input_.state->momentum))});
  }
  if (input_.inner != nullptr) {
    const auto read = [inner = input_.inner](uint64_t offset, size_t bytes) -> absl::StatusOr<Buffer> {
      std::vector<uint8_t> piece(bytes);
      GDF_RETURN_IF_ERROR(inner->ReadAt(offset, absl::MakeSpan(piece)));
      return Buffer(std::move(piece));
    };
    sources_.push_back({&Version::inner, kInner, input_.inner->size(), read});
  }
}

absl::Status VersionWriter::Begin() {
  begun_ = true;
  GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> rounds, versions_->List());
  for (const RoundId round : rounds) {
    if (round >= input_.state->id.round) GDF_RETURN_IF_ERROR(versions_->Remove(round));
  }
  return versions_->Tidy();
}

absl::StatusOr<bool> VersionWriter::Step() {
  if (!begun_) GDF_RETURN_IF_ERROR(Begin());
  for (size_t left = kStepBytes; left > 0 && source_ < sources_.size();) {
    const Source& source = sources_[source_];
    const size_t bytes = std::min<uint64_t>(left, source.size - offset_);
    if (bytes > 0) {
      GDF_ASSIGN_OR_RETURN(const Buffer piece, source.read(offset_, bytes));
      GDF_RETURN_IF_ERROR(chunks_.Append(piece.span()));
      offset_ += bytes;
      left -= bytes;
    }
    if (offset_ == source.size) GDF_RETURN_IF_ERROR(EndFile());
  }
  return source_ < sources_.size();
}

absl::Status VersionWriter::EndFile() {
  const Source& source = sources_[source_];
  GDF_ASSIGN_OR_RETURN(store::ManifestFile file, chunks_.Finish(source.name));
  ids_.insert(ids_.end(), file.chunks.begin(), file.chunks.end());
  manifest_.files.push_back(std::move(file));
  offset_ = 0;
  ++source_;
  if (source_ < sources_.size() && sources_[source_].part == source.part) return absl::OkStatus();
  manifest_.name = "checkpoint";
  GDF_RETURN_IF_ERROR(Annotate(manifest_.Check(), "a checkpoint"));
  const std::string bytes = std::exchange(manifest_, {}).Encode();
  bool added = false;
  GDF_ASSIGN_OR_RETURN(const store::ChunkId id,
                       versions_->chunks_->Put(AsBytes(std::string_view(bytes)), owner_, &added));
  if (added) manifest_bytes_ += bytes.size();
  ids_.push_back(id);
  version_.*source.part = id;
  return absl::OkStatus();
}

absl::StatusOr<Version> VersionWriter::Finish(const trust::NodeKey& key, int64_t now_unix_ms) {
  version_.new_bytes = chunks_.added_bytes() + manifest_bytes_;
  version_.written_unix_ms = now_unix_ms;
  version_.node = key.id();
  if (ids_.empty()) return version_;
  GDF_RETURN_IF_ERROR(versions_->chunks_->Pin(owner_, ids_));
  GDF_RETURN_IF_ERROR(versions_->Save(version_, key));
  return version_;
}

absl::Status VersionWriter::GiveUp() { return versions_->chunks_->Drop(owner_); }

}  // namespace gdf::checkpoint
