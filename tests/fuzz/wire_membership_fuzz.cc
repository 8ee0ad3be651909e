// links: gdf_wire
// Messages of joining, following, chunks and artifacts from strangers. What decodes must encode to
// something that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/wire/artifact_messages.h"
#include "core/wire/membership_messages.h"

namespace {

template <typename Message>
void Check(absl::StatusOr<Message> (*decode)(std::string_view), std::string_view bytes) {
  const absl::StatusOr<Message> message = decode(bytes);
  if (!message.ok()) return;
  const std::string encoded = Encode(*message);
  const absl::StatusOr<Message> again = decode(encoded);
  GDF_CHECK(again.ok());
  GDF_CHECK(Encode(*again) == encoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::wire;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(&DecodeJoinCall, bytes);
  Check(&DecodeJoinAnswer, bytes);
  Check(&DecodeWatchCall, bytes);
  Check(&DecodeWatchUpdate, bytes);
  Check(&DecodeChunkCall, bytes);
  Check(&DecodeEpochCall, bytes);
  Check(&DecodeArtifactCall, bytes);
  Check(&DecodeArtifactHeader, bytes);
  if (const auto header = DecodeArtifactHeader(bytes); header.ok()) {
    uint64_t total = 0;
    for (const ArtifactFile& file : header->files) {
      GDF_CHECK(!file.name.empty() && file.name.find('/') == std::string::npos);
      total += file.size;
    }
    GDF_CHECK(total <= kMaxArtifactFileBytes);
    GDF_CHECK(header->num_params <= kMaxArtifactParams);
  }
  return 0;
}
