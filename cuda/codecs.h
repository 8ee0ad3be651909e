// Which kernel encodes and decodes for which codec, for a device and for the CPU of the tests alike. `run(kernel)`
// runs one over its items: num_items() of them, each by a team of team_size() threads.
#ifndef GDF_CUDA_CODECS_H_
#define GDF_CUDA_CODECS_H_

#include "cuda/blocks.h"
#include "cuda/dct.h"
#include "cuda/plugin.h"
#include "cuda/signs.h"
#include "cuda/topk.h"
#include "cuda/words.h"

namespace gdf::cuda {

// Numbers of docs/formats/codecs.md.
enum class Kind : uint32_t { kFp32 = 1, kBf16 = 2, kInt8 = 3, kFp16 = 4, kInt4 = 5, kFp4 = 6, kSign = 7, kTopK2 = 8, kTopK8 = 9, kDct = 10 };

template <typename Code>
UnitItems UnitsOf(uint64_t num_values, uint32_t block) {
  return {{num_values, block, kScaleBytes + block * Code::kBits / 8}};
}

// What both directions are given.
struct Arrays {
  GdfCudaCodec codec;
  uint64_t num_values;
  const compress::DctTables* tables;  // where kernels can read them
  Refused refused;
};

inline SignItems SignsOf(const Arrays& arrays) {
  const uint32_t block = arrays.codec.block;
  return {{arrays.num_values, block, kScaleBytes + block / kSignsOfByte}};
}

template <typename Levels>
TopKItems<Levels> ChunksOf(const Arrays& arrays) {
  const compress::Layout whole(compress::kTopKChunk, arrays.codec.k, Levels::kBits);
  return {{arrays.num_values, compress::kTopKChunk, static_cast<uint32_t>(whole.bytes)}, arrays.codec.k};
}

inline DctItems DctOf(const Arrays& arrays) {
  const uint32_t kept = kDctChunks * arrays.codec.k;
  const auto bytes = static_cast<uint32_t>(kScaleBytes + kept + compress::BytesOfBits(kept * kDctIndexBits));
  return {{arrays.num_values, kDctChunks * kDctValues, bytes}, arrays.codec.k, arrays.tables};
}

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
    case Kind::kSign:
      run(EncodeSigns{SignsOf(arrays), values, packed, arrays.refused});
      return true;
    case Kind::kTopK2:
      run(EncodeTopK<compress::TwoLevels>{ChunksOf<compress::TwoLevels>(arrays), values, packed, arrays.refused});
      return true;
    case Kind::kTopK8:
      run(EncodeTopK<compress::Int8Levels>{ChunksOf<compress::Int8Levels>(arrays), values, packed, arrays.refused});
      return true;
    case Kind::kDct:
      run(EncodeDct{DctOf(arrays), values, packed, arrays.refused});
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
    case Kind::kSign:
      run(DecodeSigns<Use>{SignsOf(arrays), packed, use, arrays.refused});
      return true;
    case Kind::kTopK2:
      run(DecodeTopK<compress::TwoLevels, Use>{ChunksOf<compress::TwoLevels>(arrays), packed, use, arrays.refused});
      return true;
    case Kind::kTopK8:
      run(DecodeTopK<compress::Int8Levels, Use>{ChunksOf<compress::Int8Levels>(arrays), packed, use, arrays.refused});
      return true;
    case Kind::kDct:
      run(DecodeDct<Use>{DctOf(arrays), packed, use, arrays.refused});
      return true;
  }
  return false;
}

}  // namespace gdf::cuda

#endif  // GDF_CUDA_CODECS_H_
