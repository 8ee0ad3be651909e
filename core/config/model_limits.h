// What a model's fields may be: the parser of job.yaml and the check of shapes from everywhere tell the same ranges.
#ifndef GDF_CORE_CONFIG_MODEL_LIMITS_H_
#define GDF_CORE_CONFIG_MODEL_LIMITS_H_

#include <cstdint>

namespace gdf::config {

// They keep every product of a parameter count in 64 bits; the largest model anyone trains is far under.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;  // and values of a head
inline constexpr int64_t kMaxWidth = 65'536;
inline constexpr int64_t kMaxFfnWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxContext = int64_t{1} << 24;
inline constexpr int64_t kMaxVocab = int64_t{1} << 22;
inline constexpr int64_t kMinHeadWidth = 2;  // rotary embedding turns pairs

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_MODEL_LIMITS_H_
