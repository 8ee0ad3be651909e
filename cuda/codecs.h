// Which kernel encodes and decodes for which codec, for a device and for the CPU of the tests alike. `run(kernel)`
// runs one over its items: num_items() of them, each by a team of team_size() threads.
#ifndef GDF_CUDA_CODECS_H_
#define GDF_CUDA_CODECS_H_

#include "cuda/blocks.h"
#include "cuda/plugin.h"
#include "cuda/words.h"

namespace gdf::cuda {

// Numbers of docs/formats/codecs.md.
enum class Kind : uint32_t { kFp32 = 1, kBf16 = 2, kInt8 = 3, kFp16 = 4, kInt4 = 5, kFp4 = 6 };

template <typename Code>
UnitItems UnitsOf(uint64_t num_values, uint32_t block) {
  return {{num_values, block, kScaleBytes + block * Code::kBits / 8}};
}

// What both directions are given.
struct Arrays {
  GdfCudaCodec codec;
  uint64_t num_values;
  Refused refused;
};

template <typename Code, typename Run>
void EncodeByCode(const Arrays& arrays, const float* values, const ByChance& chance, uint8_t* packed, Run run) {
  const UnitItems items = UnitsOf<Code>(arrays.num_values, arrays.codec.block);
  if constexpr (requires { Code::FromFloat(0.0f, 0.0f, 0u); }) {
    if (arrays.codec.stochastic != 0) {
      return run(EncodeCodes<Code, ByChance>{items, values, packed, chance, arrays.refused});
    }
  }
  run(EncodeCodes<Code, ToNearest>{items, values, packed, {}, arrays.refused});
}

template <typename W, typename Run>
void EncodeByWord(const Arrays& arrays, const float* values, uint8_t* packed, Run run) {
  run(EncodeWords<W>{{arrays.num_values}, values, reinterpret_cast<typename W::Word*>(packed), arrays.refused});
}

// False for a codec that is not known.
template <typename Run>
bool EncodeWith(const Arrays& arrays, const float* values, const ByChance& chance, uint8_t* packed, Run run) {
  switch (static_cast<Kind>(arrays.codec.kind)) {
    case Kind::kFp32:
      EncodeByWord<compress::Fp32Word>(arrays, values, packed, run);
      return true;
    case Kind::kBf16:
      EncodeByWord<compress::Bf16Word>(arrays, values, packed, run);
      return true;
    case Kind::kFp16:
      EncodeByWord<compress::Fp16Word>(arrays, values, packed, run);
      return true;
    case Kind::kInt8:
      EncodeByCode<compress::Int8Code>(arrays, values, chance, packed, run);
      return true;
    case Kind::kInt4:
      EncodeByCode<compress::Int4Code>(arrays, values, chance, packed, run);
      return true;
    case Kind::kFp4:
      EncodeByCode<compress::Fp4Code>(arrays, values, chance, packed, run);
      return true;
  }
  return false;
}

template <typename W, typename Use, typename Run>
void DecodeByWord(const Arrays& arrays, const uint8_t* packed, const Use& use, Run run) {
  run(DecodeWords<W, Use>{
      {arrays.num_values}, reinterpret_cast<const typename W::Word*>(packed), use, arrays.refused});
}

template <typename Code, typename Use, typename Run>
void DecodeByCode(const Arrays& arrays, const uint8_t* packed, const Use& use, Run run) {
  run(DecodeCodes<Code, Use>{UnitsOf<Code>(arrays.num_values, arrays.codec.block), packed, use, arrays.refused});
}

// With what becomes of the values, Put or Add.
template <typename Use, typename Run>
bool DecodeWith(const Arrays& arrays, const uint8_t* packed, const Use& use, Run run) {
  switch (static_cast<Kind>(arrays.codec.kind)) {
    case Kind::kFp32:
      DecodeByWord<compress::Fp32Word>(arrays, packed, use, run);
      return true;
    case Kind::kBf16:
      DecodeByWord<compress::Bf16Word>(arrays, packed, use, run);
      return true;
    case Kind::kFp16:
      DecodeByWord<compress::Fp16Word>(arrays, packed, use, run);
      return true;
    case Kind::kInt8:
      DecodeByCode<compress::Int8Code>(arrays, packed, use, run);
      return true;
    case Kind::kInt4:
      DecodeByCode<compress::Int4Code>(arrays, packed, use, run);
      return true;
    case Kind::kFp4:
      DecodeByCode<compress::Fp4Code>(arrays, packed, use, run);
      return true;
  }
  return false;
}

}  // namespace gdf::cuda

#endif  // GDF_CUDA_CODECS_H_
