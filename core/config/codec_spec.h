// Which codec packs deltas for the wire, as job.yaml and messages name it.
#ifndef GDF_CORE_CONFIG_CODEC_SPEC_H_
#define GDF_CORE_CONFIG_CODEC_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::config {

// docs/formats/codecs.md says what each does; the numbers are part of the formats.
enum class CodecKind : uint8_t {
  kFp32 = 1,
  kBf16 = 2,
  kInt8 = 3,
  kFp16 = 4,
  kInt4 = 5,
  kFp4 = 6,
  kSign = 7,
  kTopK2 = 8,
  kTopK8 = 9,
  kDct = 10,
};

// Which codec, with its options.
struct CodecSpec {
  static constexpr uint32_t kMinBlock = 64;
  static constexpr uint32_t kMaxBlock = 4096;
  static constexpr uint32_t kChunk = 4096;  // values of which a top-k codec keeps k
  static constexpr uint32_t kMaxK = 1024;
  static constexpr uint32_t kMaxDctK = 32;  // of 64 coefficients

  CodecKind kind = CodecKind::kFp32;
  uint32_t block = 0;  // of a block codec: values under one scale, a power of two; else 0
  uint32_t k = 0;  // of a top-k codec: values kept of each chunk; of dct: coefficients kept of each
                   // 64; else 0
  bool stochastic = false;  // of int8 and int4: rounded up or down by chance, else to the nearest

  // "fp32", "bf16", "fp16"; a block codec, "int8", "int4", "fp4" or "sign", with ":BLOCK" or its
  // usual block, after which int8 and int4 can have ":stochastic"; or "topk2" (values of 2 bits),
  // "topk8" (int8) or "dct" (int8), with ":K" or its usual k. kInvalidArgument for anything else:
  // "must be ..." with what the codec of that name can have, or with all codecs.
  static absl::StatusOr<CodecSpec> Parse(std::string_view text);
  // Is it a codec's name, alone or before a colon?
  static bool IsNamed(std::string_view text);

  // kInvalidArgument for an unknown kind or a block, k or rounding that it cannot have.
  absl::Status Check() const;

  // The inverse of Parse; block and k are always written.
  std::string ToString() const;

  friend bool operator==(const CodecSpec& a, const CodecSpec& b) = default;
};

// PowerSGD stands where a codec does in job.yaml, and is none of values: deltas go as factors of a rank, and those as
// fp32. docs/formats/low-rank.md.
inline constexpr uint32_t kMaxPowerSgdRank = 64;
// Is it "powersgd", or does it begin with "powersgd:"?
bool IsPowerSgd(std::string_view text);
// The rank of "powersgd", the usual one, or of "powersgd:RANK". kInvalidArgument, "must be ...", for anything else.
absl::StatusOr<uint32_t> ParsePowerSgd(std::string_view text);
// The inverse.
std::string PowerSgdName(uint32_t rank);

// What `auto` in job.yaml stands for: those that keep what a model learns, the most exact first.
std::vector<CodecSpec> AutoCodecs();
inline constexpr size_t kMaxCodecs = 8;  // of one job

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_CODEC_SPEC_H_
