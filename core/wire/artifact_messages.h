// Messages by which a job's result (side files and θ) moves between nodes. Decoding bounds names, counts and sizes.
#ifndef GDF_CORE_WIRE_ARTIFACT_MESSAGES_H_
#define GDF_CORE_WIRE_ARTIFACT_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/wire/round_messages.h"

namespace gdf::wire {

inline constexpr size_t kMaxArtifactFiles = 64;
inline constexpr uint64_t kMaxArtifactFileBytes = uint64_t{64} << 20;  // of all side files together
inline constexpr uint64_t kMaxArtifactParams = uint64_t{1} << 40;

struct ArtifactCall {
  JobId job;
  RoundId checkpoint = {};  // the one that is kept of this round; 0: the newest result
};

struct ArtifactFile {
  std::string name;  // a plain file name
  uint64_t size = 0;
};

struct ArtifactHeader {
  std::vector<ArtifactFile> files;
  uint64_t num_params = 0;
  RoundId round;
  Digest theta;
  std::optional<Commit> commit = std::nullopt;  // of that state; none for θ_0
};

std::string Encode(const ArtifactCall& message);
std::string Encode(const ArtifactHeader& message);
absl::StatusOr<ArtifactCall> DecodeArtifactCall(std::string_view bytes);
absl::StatusOr<ArtifactHeader> DecodeArtifactHeader(std::string_view bytes);

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_ARTIFACT_MESSAGES_H_
