// links: gdf_compress
// Packed deltas of a peer: the first byte chooses the codec, the next two the number of values. What is taken is finite,
// accumulates as it decodes, and can be encoded again.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/compress/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::compress;
  static constexpr const char* kCodecs[] = {"fp32",    "bf16", "fp16",    "int8:64", "int8:256", "int4:64", "int4:4096",
                                            "fp4:128", "sign:64", "topk2:3", "topk2", "topk8",    "topk8:1024",
                                            "int8:64:stochastic", "int4:128:stochastic", "dct:1", "dct", "dct:32"};
  if (size < 3) return 0;
  const auto codec = *Codec::Create(*CodecSpec::Parse(kCodecs[data[0] % std::size(kCodecs)]));
  const size_t count = (data[1] | size_t{data[2]} << 8) % 10000;
  // Bytes that lack are zeros, so that an input reaches the codes whatever its length.
  std::vector<uint8_t> packed(codec->PackedSize(count));
  std::copy_n(data + 3, std::min(packed.size(), size - 3), packed.begin());
  std::vector<float> values(count), acc(count);
  const bool good = codec->Decode(packed, absl::MakeSpan(values)).ok();
  GDF_CHECK(codec->DecodeAccumulate(packed, 1.0f, absl::MakeSpan(acc)).ok() == good);
  if (!good) return 0;
  for (size_t i = 0; i < count; ++i) GDF_CHECK(std::isfinite(values[i]) && acc[i] == values[i]);
  codec->Encode(values, absl::MakeSpan(packed));
  GDF_CHECK(codec->Decode(packed, absl::MakeSpan(acc)).ok());
  if (size - 3 != packed.size()) GDF_CHECK(!codec->Decode({data, size - 3}, absl::MakeSpan(values)).ok());
  return 0;
}
