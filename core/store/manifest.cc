#include "core/store/manifest.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/byte_io.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::store {
namespace {

constexpr std::string_view kMagic = "GDFMAN1";
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;  // far above what fits; keeps sums from overflowing

uint64_t ChunksOf(uint64_t size_bytes) { return size_bytes / kChunkBytes + (size_bytes % kChunkBytes != 0); }

absl::Status Bad(std::string_view path, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("manifest: file '", absl::CHexEscape(ToAbsl(path.substr(0, 200))),
                                                 "' ", ToAbsl(why)));
}

}  // namespace

absl::Status CheckRelativePath(std::string_view path) {
  GDF_RETURN_IF_ERROR(CheckText("manifest: a path", path, Manifest::kMaxPathBytes));
  for (const absl::string_view part : absl::StrSplit(ToAbsl(path), '/')) {
    if (part.empty()) return Bad(path, "has an empty part; expected names joined by '/', not starting with it");
    if (part == "." || part == "..") return Bad(path, "leads out of its folder with '.' or '..'");
    if (part.find_first_of("\\:\n\t") != part.npos) return Bad(path, "has a backslash, colon, tab or newline");
  }
  return absl::OkStatus();
}

uint64_t ManifestFile::ChunkSize(size_t i) const {
  return std::min(kChunkBytes, size_bytes - kChunkBytes * i);
}

uint64_t Manifest::TotalBytes() const {
  uint64_t total = 0;
  for (const ManifestFile& file : files) total += file.size_bytes;
  return total;
}

std::vector<ChunkId> Manifest::Chunks() const {
  absl::flat_hash_set<ChunkId> seen;
  std::vector<ChunkId> chunks;
  for (const ManifestFile& file : files) {
    for (const ChunkId& id : file.chunks) {
      if (seen.insert(id).second) chunks.push_back(id);
    }
  }
  return chunks;
}

const ManifestFile* Manifest::Find(std::string_view path) const {
  const auto at = std::lower_bound(files.begin(), files.end(), path,
                                   [](const ManifestFile& file, std::string_view p) { return file.path < p; });
  return at != files.end() && at->path == path ? &*at : nullptr;
}

absl::Status Manifest::Check() const {
  GDF_RETURN_IF_ERROR(CheckText("manifest: the name", name, kMaxNameBytes));
  if (files.size() > kMaxFiles) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest: ", files.size(), " files, at most ", kMaxFiles, " are allowed"));
  }
  const std::string* previous = nullptr;
  uint64_t encoded = kMagic.size() + 2 + name.size() + 4;
  for (const ManifestFile& file : files) {
    GDF_RETURN_IF_ERROR(CheckRelativePath(file.path));
    if (previous != nullptr && *previous >= file.path) {
      return Bad(file.path, *previous == file.path ? "is there twice" : "is out of order");
    }
    // "a" and "a/b" cannot both be files; between them may sort names such as "a-b".
    for (size_t slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1)) {
      if (Find(std::string_view(file.path).substr(0, slash)) != nullptr) {
        return Bad(file.path, "is inside a path that is a file itself");
      }
    }
    previous = &file.path;
    if (file.size_bytes > kMaxFileBytes) return Bad(file.path, "is larger than 2^50 bytes");
    if (file.chunks.size() != ChunksOf(file.size_bytes)) {
      return Bad(file.path, absl::StrCat("has ", file.size_bytes, " bytes and ", file.chunks.size(),
                                         " chunks, expected ", ChunksOf(file.size_bytes)));
    }
    encoded += 2 + file.path.size() + 8 + Digest::kSize * file.chunks.size();
  }
  if (encoded > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest: ", HumanBytes(TotalBytes()), " in ", files.size(), " files need ", encoded,
                     " bytes to list, at most ", kMaxChunkBytes, " are allowed: split the content"));
  }
  return absl::OkStatus();
}

std::string Manifest::Encode() const {
  ByteWriter out;
  out.Bytes(kMagic).U16(static_cast<uint16_t>(name.size())).Bytes(name).U32(static_cast<uint32_t>(files.size()));
  for (const ManifestFile& file : files) {
    out.U16(static_cast<uint16_t>(file.path.size())).Bytes(file.path).U64(file.size_bytes);
    for (const ChunkId& id : file.chunks) out.Bytes(id.bytes);
  }
  return out.Take();
}

absl::StatusOr<Manifest> Manifest::Decode(std::string_view bytes) {
  if (bytes.size() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest: ", bytes.size(), " bytes, at most ", kMaxChunkBytes, " are allowed"));
  }
  ByteReader in(bytes);
  if (in.Bytes(kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("manifest: the bytes do not start as one (docs/formats/chunks.md)");
  }
  Manifest manifest;
  manifest.name = in.Bytes(in.U16());
  const uint32_t count = in.U32();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    ManifestFile& file = manifest.files.emplace_back();
    file.path = in.Bytes(in.U16());
    file.size_bytes = in.U64();
    const uint64_t chunks = ChunksOf(file.size_bytes);
    if (chunks > in.left() / Digest::kSize) return Bad(file.path, "lists fewer chunks than its size needs");
    file.chunks.reserve(chunks);
    for (uint64_t k = 0; k < chunks; ++k) file.chunks.push_back(in.Digest());
  }
  if (!in.Done()) return absl::InvalidArgumentError("manifest: it is cut short or has bytes left over");
  GDF_RETURN_IF_ERROR(manifest.Check());
  return manifest;
}

}  // namespace gdf::store
