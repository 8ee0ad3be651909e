#include "core/checkpoint/version_store.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/checkpoint/record.h"

namespace gdf::checkpoint {
namespace {

constexpr char kPrefix[] = "checkpoint-";
constexpr char kOwnerInfix[] = "-checkpoint-";
constexpr char kArrivingInfix[] = "-arriving-";
constexpr size_t kRoundDigits = 16;

// The round that follows `prefix` in `name`, whose other characters are digits.
std::optional<RoundId> RoundIn(const std::string& name, std::string_view prefix) {
  if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  uint64_t value = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return RoundId{value};
}

struct PartOfVersion {
  Digest Version::*digest;
  const char* name;
};
constexpr PartOfVersion kParts[] = {{&Version::model, "model"}, {&Version::outer, "outer"}, {&Version::inner, "inner"}};

bool IsGone(const absl::Status& status) { return absl::IsDataLoss(status) || absl::IsNotFound(status); }

absl::Status WrongSize(const char* file, uint64_t have, uint64_t want) {
  return absl::DataLossError(absl::StrCat("the checkpoint's ", file, " has ", have, " bytes, expected ", want));
}

// A Merkle root as its bytes come by.
class RootOf {
 public:
  void Take(absl::Span<const uint8_t> bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      const size_t take = std::min(bytes.size(), kMerkleLeafBytes - leaf_.size());
      leaf_.insert(leaf_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(take));
      bytes.remove_prefix(take);
      if (leaf_.size() == kMerkleLeafBytes) EndLeaf();
    }
  }
  Digest Finish() {
    if (!leaf_.empty()) EndLeaf();
    return MerkleRootOfLeaves(std::move(leaves_), total_);
  }

 private:
  void EndLeaf() {
    leaves_.push_back(MerkleLeaf(leaf_));
    leaf_.clear();
  }
  std::vector<uint8_t> leaf_;
  std::vector<Digest> leaves_;
  uint64_t total_ = 0;
};

}  // namespace

std::string VersionStore::Path(RoundId round) const {
  return absl::StrFormat("%s/%s%0*d", options_.folder, kPrefix, static_cast<int>(kRoundDigits), round.value);
}

std::string VersionStore::OwnerOf(RoundId round) const {
  return absl::StrCat(options_.owner, kOwnerInfix, round.value);
}

std::string VersionStore::ArrivingOwnerOf(RoundId round) const {
  return absl::StrCat(options_.owner, kArrivingInfix, round.value);
}

absl::StatusOr<std::vector<RoundId>> VersionStore::List() const {
  const absl::StatusOr<std::vector<std::string>> names = files_.List(options_.folder);
  if (absl::IsNotFound(names.status())) return std::vector<RoundId>{};
  GDF_RETURN_IF_ERROR(names.status());
  std::vector<RoundId> rounds;
  for (const std::string& name : *names) {
    const std::optional<RoundId> round = RoundIn(name, kPrefix);
    if (round && Path(*round) == absl::StrCat(options_.folder, "/", name)) rounds.push_back(*round);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

absl::StatusOr<std::string> VersionStore::Record(RoundId round) const {
  return files_.Read(Path(round), kMaxVersionBytes);
}

absl::StatusOr<Version> VersionStore::Load(RoundId round) const {
  const std::string path = Path(round);
  GDF_ASSIGN_OR_RETURN(const std::string bytes, Record(round));
  absl::StatusOr<Version> version = DecodeVersion(bytes);
  if (!version.ok()) return Damaged(path, version.status().message());
  if (version->round() != round) return Damaged(path, "is of another round");
  return version;
}

bool VersionStore::Keeps(const Version& version, const Digest& part) const {
  return !part.zero() && (part == version.model || chunks_->PinnedBy(OwnerOf(version.round()), part));
}

absl::StatusOr<store::Manifest> VersionStore::ReadManifest(const Digest& id) const {
  GDF_ASSIGN_OR_RETURN(const Buffer bytes, chunks_->Get(id));
  return store::Manifest::Decode(bytes.view());
}

absl::StatusOr<std::vector<store::ChunkId>> VersionStore::ChunksOf(const Digest& part) const {
  GDF_ASSIGN_OR_RETURN(const store::Manifest manifest, ReadManifest(part));
  std::vector<store::ChunkId> ids = manifest.Chunks();
  ids.push_back(part);
  return ids;
}

absl::Status VersionStore::InspectPart(const Version& version, const Digest& part, const char* name,
                                       Inspection* found) const {
  const absl::StatusOr<Buffer> bytes = chunks_->Get(part);
  if (IsGone(bytes.status())) {
    found->missing.push_back({part, name});
    return absl::OkStatus();
  }
  GDF_RETURN_IF_ERROR(bytes.status());
  GDF_ASSIGN_OR_RETURN(const store::Manifest manifest, store::Manifest::Decode(bytes->view()));
  ++found->chunks;
  found->bytes += bytes->size();
  const size_t before = found->missing.size();
  std::set<store::ChunkId> seen;
  for (const store::ManifestFile& file : manifest.files) {
    RootOf root;
    for (const store::ChunkId& id : file.chunks) {
      const absl::StatusOr<Buffer> chunk = chunks_->Get(id);
      const bool first = seen.insert(id).second;
      if (IsGone(chunk.status())) {
        if (first) found->missing.push_back({id, name});
        continue;
      }
      GDF_RETURN_IF_ERROR(chunk.status());
      if (first) {
        ++found->chunks;
        found->bytes += chunk->size();
      }
      root.Take(chunk->span());
    }
    const Digest* expected = file.path == kTheta      ? &version.state().theta
                             : file.path == kMomentum ? &version.state().momentum
                                                      : nullptr;
    if (expected == nullptr || found->missing.size() != before) continue;
    if (const Digest have = root.Finish(); have != *expected) {
      found->digests.Update(absl::DataLossError(absl::StrCat(file.path, " of round ", version.round().value, " has digest ",
                                                             have.Short(), ", committed was ", expected->Short())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Inspection> VersionStore::Inspect(const Version& version) const {
  Inspection found;
  for (const PartOfVersion& part : kParts) {
    const Digest& digest = version.*part.digest;
    if (Keeps(version, digest)) GDF_RETURN_IF_ERROR(InspectPart(version, digest, part.name, &found));
  }
  return found;
}

bool VersionStore::HasGaps(const Version& version) const {
  for (const Digest& part : {version.model, version.outer}) {
    if (!Keeps(version, part)) continue;
    const absl::StatusOr<std::vector<store::ChunkId>> ids = ChunksOf(part);
    if (!ids.ok()) return true;
    if (!std::all_of(ids->begin(), ids->end(), [this](const store::ChunkId& id) { return chunks_->Has(id); })) return true;
  }
  return false;
}

absl::Status VersionStore::ReadInto(const store::Manifest& manifest, const char* name, absl::Span<uint8_t> out) const {
  const store::ManifestFile* file = manifest.Find(name);
  if (file == nullptr || file->size_bytes != out.size()) {
    return WrongSize(name, file == nullptr ? 0 : file->size_bytes, out.size());
  }
  for (size_t i = 0; i < file->chunks.size(); ++i) {
    GDF_ASSIGN_OR_RETURN(const Buffer chunk, chunks_->Get(file->chunks[i]));
    if (chunk.size() != file->ChunkSize(i)) return WrongSize(name, chunk.size(), file->ChunkSize(i));
    std::memcpy(out.data(), chunk.span().data(), chunk.size());
    out.remove_prefix(chunk.size());
  }
  return absl::OkStatus();
}

// Its size is compared before memory is taken for it.
absl::StatusOr<tensor::FlatBuffer> VersionStore::ReadValues(const store::Manifest& manifest, const char* name,
                                                            uint64_t num_values) const {
  const store::ManifestFile* file = manifest.Find(name);
  const uint64_t expected = num_values * sizeof(float);
  if (file == nullptr || file->size_bytes != expected) {
    return WrongSize(name, file == nullptr ? 0 : file->size_bytes, expected);
  }
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer values, tensor::FlatBuffer::Zeros(num_values));
  GDF_RETURN_IF_ERROR(ReadInto(manifest, name, tensor::AsMutableBytes(values.span())));
  return values;
}

absl::StatusOr<OuterStateDraft> VersionStore::ReadTheta(const Version& version, const store::Manifest& model) const {
  auto state = std::make_shared<OuterState>();
  state->id = version.state();
  GDF_ASSIGN_OR_RETURN(state->theta, ReadValues(model, kTheta, version.num_params));
  GDF_RETURN_IF_ERROR(VerifyTheta(*state));
  return state;
}

absl::StatusOr<OuterStatePtr> VersionStore::ReadModel(const Version& version, Buffer* side_files) const {
  GDF_ASSIGN_OR_RETURN(const store::Manifest manifest, ReadManifest(version.model));
  GDF_ASSIGN_OR_RETURN(OuterStateDraft state, ReadTheta(version, manifest));
  if (const store::ManifestFile* side = manifest.Find(kSideFiles); side != nullptr) {
    std::vector<uint8_t> bytes(side->size_bytes);
    GDF_RETURN_IF_ERROR(ReadInto(manifest, kSideFiles, absl::MakeSpan(bytes)));
    *side_files = Buffer(std::move(bytes));
  }
  return OuterStatePtr(std::move(state));
}

absl::StatusOr<OuterStatePtr> VersionStore::ReadState(const Version& version) const {
  GDF_ASSIGN_OR_RETURN(const store::Manifest model, ReadManifest(version.model));
  GDF_ASSIGN_OR_RETURN(OuterStateDraft state, ReadTheta(version, model));
  if (version.num_momentum > 0) {
    GDF_ASSIGN_OR_RETURN(const store::Manifest outer, ReadManifest(version.outer));
    GDF_ASSIGN_OR_RETURN(state->momentum, ReadValues(outer, kMomentum, version.num_momentum));
  }
  GDF_RETURN_IF_ERROR(VerifyDigests(*state));
  return OuterStatePtr(std::move(state));
}

absl::Status VersionStore::ReadInner(const Version& version,
                                     absl::FunctionRef<absl::Status(absl::Span<const uint8_t>)> take) const {
  GDF_ASSIGN_OR_RETURN(const store::Manifest manifest, ReadManifest(version.inner));
  const store::ManifestFile* file = manifest.Find(kInner);
  if (file == nullptr) return absl::DataLossError("the checkpoint's inner state has no such file");
  for (const store::ChunkId& id : file->chunks) {
    GDF_ASSIGN_OR_RETURN(const Buffer chunk, chunks_->Get(id));
    GDF_RETURN_IF_ERROR(take(chunk.span()));
  }
  return absl::OkStatus();
}

absl::Status VersionStore::Save(const Version& version, const trust::NodeKey& key) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(options_.folder, 0700));
  return files_.WriteAtomic(Path(version.round()), EncodeVersion(version, key));
}

absl::Status VersionStore::Adopt(const Version& version, const trust::NodeKey& key) {
  std::vector<store::ChunkId> all;
  for (const Digest& part : {version.model, version.outer}) {
    if (part.zero()) continue;
    GDF_ASSIGN_OR_RETURN(const std::vector<store::ChunkId> ids, ChunksOf(part));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  GDF_RETURN_IF_ERROR(chunks_->Pin(OwnerOf(version.round()), all));
  GDF_RETURN_IF_ERROR(Save(version, key));
  return chunks_->Drop(ArrivingOwnerOf(version.round()));
}

absl::Status VersionStore::DropArriving() {
  const std::string prefix = absl::StrCat(options_.owner, kArrivingInfix);
  for (const std::string& owner : chunks_->Owners()) {
    if (absl::StartsWith(owner, prefix)) GDF_RETURN_IF_ERROR(chunks_->Drop(owner));
  }
  return absl::OkStatus();
}

absl::Status VersionStore::Repair(const Version& version, const store::ChunkId& id, absl::Span<const uint8_t> bytes) {
  return chunks_->PutExpected(id, bytes, OwnerOf(version.round()));
}

absl::Status VersionStore::Tidy() {
  GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> rounds, List());
  const std::string prefix = absl::StrCat(options_.owner, kOwnerInfix);
  for (const std::string& owner : chunks_->Owners()) {
    const std::optional<RoundId> round = RoundIn(owner, prefix);
    if (round && !std::binary_search(rounds.begin(), rounds.end(), *round)) GDF_RETURN_IF_ERROR(chunks_->Drop(owner));
  }
  const absl::StatusOr<std::vector<std::string>> names = files_.List(options_.folder);
  if (!names.ok()) return absl::IsNotFound(names.status()) ? absl::OkStatus() : names.status();
  for (const std::string& name : *names) {  // of writes that never ended
    if (absl::StrContains(name, ".tmp-")) GDF_RETURN_IF_ERROR(files_.Remove(absl::StrCat(options_.folder, "/", name)));
  }
  return absl::OkStatus();
}

absl::Status VersionStore::Remove(RoundId round) {
  if (const absl::Status removed = files_.Remove(Path(round)); !removed.ok() && !absl::IsNotFound(removed)) return removed;
  return chunks_->Drop(OwnerOf(round));
}

absl::Status VersionStore::GiveUp(const Version& version, const trust::NodeKey& key) {
  Version left = version;
  left.model = left.outer = left.inner = {};
  left.new_bytes = 0;
  GDF_RETURN_IF_ERROR(Save(left, key));
  return chunks_->Drop(OwnerOf(version.round()));
}

absl::Status VersionStore::RemoveAll() {
  GDF_RETURN_IF_ERROR(DropArriving());
  return Retain(0);
}

absl::Status VersionStore::Retain(int keep) {
  GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> rounds, List());
  for (size_t i = 0; i + static_cast<size_t>(std::max(keep, 0)) < rounds.size(); ++i) {
    GDF_RETURN_IF_ERROR(Remove(rounds[i]));
  }
  return Tidy();
}

absl::Status VersionStore::KeepModels() {
  GDF_RETURN_IF_ERROR(DropArriving());
  GDF_RETURN_IF_ERROR(Tidy());
  GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> rounds, List());
  absl::Status result;
  for (const RoundId round : rounds) {
    // What cannot be read now stays whole.
    const absl::StatusOr<Version> version = Load(round);
    if (version.ok() && !version->holds()) {
      result.Update(Remove(round));
      continue;
    }
    const absl::StatusOr<std::vector<store::ChunkId>> ids = version.ok() ? ChunksOf(version->model) : version.status();
    result.Update(ids.ok() ? chunks_->SetPins(OwnerOf(round), *ids) : ids.status());
  }
  return result;
}

}  // namespace gdf::checkpoint
