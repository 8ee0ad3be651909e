// Which codec packs deltas for the wire, as job.yaml and messages name it.
#ifndef GDF_CORE_CONFIG_CODEC_SPEC_H_
#define GDF_CORE_CONFIG_CODEC_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::config {

// docs/formats/codecs.md says what each does; the numbers are part of the formats.
enum class CodecKind : uint8_t { kFp32 = 1, kBf16 = 2, kInt8 = 3, kFp16 = 4, kInt4 = 5, kFp4 = 6 };

// Which codec, with its options.
struct CodecSpec {
  static constexpr uint32_t kMinBlock = 64;
  static constexpr uint32_t kMaxBlock = 4096;

  CodecKind kind = CodecKind::kFp32;
  uint32_t block = 0;  // of a block codec: values under one scale, a power of two; else 0

  // "fp32", "bf16", "fp16", or a block codec: "int8", "int4" or "fp4", with ":BLOCK" or its usual
  // block. kInvalidArgument, "must be one of ...", for anything else.
  static absl::StatusOr<CodecSpec> Parse(std::string_view text);

  // kInvalidArgument for an unknown kind or a block that it cannot have.
  absl::Status Check() const;

  // The inverse of Parse; a block is always written.
  std::string ToString() const;

  friend bool operator==(const CodecSpec& a, const CodecSpec& b) = default;
};

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_CODEC_SPEC_H_
