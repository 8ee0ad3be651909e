#include <catch2/catch.hpp>

#include "core/store/manifest.h"

namespace gdf::store {
namespace {

Manifest Example() {
  Manifest manifest;
  manifest.name = "data";
  manifest.files = {{"a.txt", 0, {}},
                    {"b/c.txt", kChunkBytes, {HashBytes("1")}},
                    {"d.bin", kChunkBytes + 1, {HashBytes("1"), HashBytes("2")}}};
  return manifest;
}

bool Says(const absl::Status& status, std::string_view text) {
  INFO(status);
  return absl::IsInvalidArgument(status) && std::string(status.message()).find(text) != std::string::npos;
}

TEST_CASE("a manifest comes back from its bytes") {
  const Manifest manifest = Example();
  REQUIRE(manifest.Check().ok());
  CHECK(*Manifest::Decode(manifest.Encode()) == manifest);
  CHECK(manifest.TotalBytes() == 2 * kChunkBytes + 1);
  CHECK(manifest.Chunks() == std::vector<ChunkId>{HashBytes("1"), HashBytes("2")});
  CHECK(manifest.files[2].ChunkSize(0) == kChunkBytes);
  CHECK(manifest.files[2].ChunkSize(1) == 1);
  CHECK(manifest.Find("b/c.txt") == &manifest.files[1]);
  CHECK(manifest.Find("b") == nullptr);
  CHECK(manifest.digest() == HashBytes(std::string_view(manifest.Encode())));
}

TEST_CASE("cut manifests and changed counts are refused") {
  const std::string bytes = Example().Encode();
  for (size_t i = 0; i < bytes.size(); ++i) CHECK_FALSE(Manifest::Decode(bytes.substr(0, i)).ok());
  CHECK_FALSE(Manifest::Decode(bytes + "x").ok());
  std::string huge = bytes;  // the first file's size: bytes 7 + 2 + 4 + 4 + 2 + 5 and on
  for (size_t i = 24; i < 32; ++i) huge[i] = '\xff';
  CHECK(Says(Manifest::Decode(huge).status(), "fewer chunks than its size needs"));
}

TEST_CASE("paths must be plain and relative") {
  for (const char* path : {"a", "a/b", "model-00001-of-00002.safetensors", "..a", "a..", "é/ü"}) {
    CHECK(CheckRelativePath(path).ok());
  }
  for (const char* path : {"", "/etc/passwd", "a//b", "a/", "..", "../a", "a/../b", ".", "a/./b", "a\\b", "C:a", "a\nb",
                           "a\x7f", "\xff"}) {
    INFO(path);
    CHECK(absl::IsInvalidArgument(CheckRelativePath(path)));
  }
  CHECK(absl::IsInvalidArgument(CheckRelativePath(std::string_view("a\0b", 3))));
}

TEST_CASE("files must be sorted, distinct and not inside each other") {
  Manifest manifest = Example();
  manifest.files[1].path = "a.txt";
  CHECK(Says(manifest.Check(), "'a.txt' is there twice"));
  manifest = Example();
  std::swap(manifest.files[0], manifest.files[1]);
  CHECK(Says(manifest.Check(), "out of order"));
  manifest.files = {{"a", 0, {}}, {"a-b", 0, {}}, {"a/b", 0, {}}};
  CHECK(Says(manifest.Check(), "'a/b' is inside a path that is a file itself"));
  manifest = Example();
  manifest.files[2].chunks.pop_back();
  CHECK(Says(manifest.Check(), "1048577 bytes and 1 chunks, expected 2"));
}

TEST_CASE("a manifest fits into one chunk or is refused") {
  // 7 + 2 + 0 + 4 bytes in front, 2 + 1 + 8 for the file, 32 a chunk: 131071 chunks fit into 4 MiB, one more does not.
  Manifest manifest;
  manifest.files = {{"a", 131'071 * kChunkBytes, std::vector<ChunkId>(131'071)}};
  CHECK(manifest.Check().ok());
  CHECK(manifest.Encode().size() <= kMaxChunkBytes);
  manifest.files = {{"a", 131'072 * kChunkBytes, std::vector<ChunkId>(131'072)}};
  CHECK(Says(manifest.Check(), "split the content"));
}

}  // namespace
}  // namespace gdf::store
