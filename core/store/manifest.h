// A set of files by content: for each its relative path, size and the chunks it is cut into (1 MiB each, the last
// shorter). The digest of a manifest names all of its content. A manifest's bytes fit into one chunk, so that it is
// stored and fetched like one. Bytes: docs/formats/chunks.md.
#ifndef GDF_CORE_STORE_MANIFEST_H_
#define GDF_CORE_STORE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/hash.h"

namespace gdf::store {

using ChunkId = Digest;  // SHA-256 of the chunk's bytes

inline constexpr uint64_t kChunkBytes = uint64_t{1} << 20;     // content is cut at multiples of this
inline constexpr uint64_t kMaxChunkBytes = uint64_t{4} << 20;  // no chunk (a manifest is one) is larger

struct ManifestFile {
  std::string path;  // relative, '/' between plain names
  uint64_t size_bytes = 0;
  std::vector<ChunkId> chunks;  // ceil(size / kChunkBytes)

  // Length of chunk `i`.
  uint64_t ChunkSize(size_t i) const;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  static constexpr size_t kMaxNameBytes = 255;
  static constexpr size_t kMaxPathBytes = 1024;
  static constexpr size_t kMaxFiles = 100'000;

  std::string name;                 // for people
  std::vector<ManifestFile> files;  // ascending by path, no two equal

  uint64_t TotalBytes() const;
  // Distinct chunk ids in order of first use.
  std::vector<ChunkId> Chunks() const;
  const ManifestFile* Find(std::string_view path) const;  // null when absent

  // kInvalidArgument names the file and the rule it breaks (path, order, number of chunks, sizes); one that would
  // not fit into a chunk (about 128 GiB of content) is refused too.
  absl::Status Check() const;
  // Canonical bytes: equal manifests, equal bytes. Check() must hold.
  std::string Encode() const;
  Digest digest() const { return HashBytes(std::string_view(Encode())); }
  // Decodes and checks. kInvalidArgument.
  static absl::StatusOr<Manifest> Decode(std::string_view bytes);

  bool operator==(const Manifest&) const = default;
};

// kInvalidArgument unless `path` is relative with plain names: no empty, "." or ".." part, no backslash, colon or
// control character, valid UTF-8 without surprises being the writer's business.
absl::Status CheckRelativePath(std::string_view path);

}  // namespace gdf::store

#endif  // GDF_CORE_STORE_MANIFEST_H_
