// The kinds of codec behind Codec::Create. Internal to compress.
#ifndef GDF_CORE_COMPRESS_CODECS_H_
#define GDF_CORE_COMPRESS_CODECS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/compress/codec.h"
#include "core/compress/kernels.h"

namespace gdf::compress {

// `spec` fits the kind; `kernels` must outlive the codec.
std::unique_ptr<Codec> MakeTopKCodec(const CodecSpec& spec, const Kernels& kernels);
std::unique_ptr<Codec> MakeDctCodec(const CodecSpec& spec, const Kernels& kernels);

// kInvalidArgument for packed bytes that no encoder of finite values writes.
absl::Status BadPacked(const Codec& codec, const std::string& message);

// BadPacked unless there are as many bytes as `num_values` pack into.
absl::Status CheckPackedSize(const Codec& codec, size_t num_bytes, size_t num_values);

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_CODECS_H_
