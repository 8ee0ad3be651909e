// The loops in SIMD form. Highway compiles this file once for each instruction set. Each lane does
// what values.h does to one value, and the values that do not fill a vector go through the scalar
// loops, so the bytes are the same.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/compress/kernels_simd.cc"
#include <hwy/foreach_target.h>  // first: what follows is compiled once a target
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/compress/kernels.h"
#include "core/compress/scalar_loops.h"

HWY_BEFORE_NAMESPACE();
namespace gdf::compress {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR  // no SIMD

const Kernels* GetKernels() { return &ScalarKernels(); }

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using ShortTag = hn::Rebind<uint16_t, FloatTag>;  // as many lanes, so half a vector
using ByteTag = hn::Rebind<uint8_t, FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
using Uints = hn::Vec<UintTag>;
using Bytes = hn::Vec<ByteTag>;

constexpr FloatTag kFloat;
constexpr IntTag kInt;
constexpr UintTag kUint;
constexpr ShortTag kShort;
constexpr ByteTag kByte;

HWY_INLINE size_t Lanes() { return hn::Lanes(kFloat); }
HWY_INLINE Uints Uint(uint32_t value) { return hn::Set(kUint, value); }
HWY_INLINE Ints Int(int32_t value) { return hn::Set(kInt, value); }
HWY_INLINE Floats Float(float value) { return hn::Set(kFloat, value); }
HWY_INLINE Uints Bits(Floats value) { return hn::BitCast(kUint, value); }
HWY_INLINE Floats FromBits(Uints bits) { return hn::BitCast(kFloat, bits); }
HWY_INLINE Ints AsInts(Uints bits) { return hn::BitCast(kInt, bits); }
HWY_INLINE Uints AsUints(Ints bits) { return hn::BitCast(kUint, bits); }

HWY_INLINE Ints MagnitudeBitsOf(Floats value) {
  return AsInts(hn::And(Bits(value), Uint(kMagnitudeMask)));
}

// `yes` where a < b.
HWY_INLINE Uints IfLess(Ints a, Ints b, Uints yes, Uints no) {
  return hn::IfThenElse(hn::RebindMask(kUint, hn::Lt(a, b)), yes, no);
}

// A bit a lane, the first one lowest.
HWY_INLINE uint64_t MaskBits(hn::Mask<IntTag> mask) {
  static_assert(hn::MaxLanes(kInt) <= 16);
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(kInt, mask, bytes);
  return bytes[0] | uint64_t{bytes[1]} << 8;
}

int32_t MaxMagnitude(const float* in, size_t count) {
  Ints most = hn::Zero(kInt);
  size_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) {
    most = hn::Max(most, MagnitudeBitsOf(hn::LoadU(kFloat, in + i)));
  }
  return std::max(hn::GetLane(hn::MaxOfLanes(kInt, most)), scalar::MaxMagnitude(in + i, count - i));
}

// --- What becomes of decoded values ---

struct Assign {
  float* out;

  HWY_INLINE void operator()(size_t i, Floats value) const { hn::StoreU(value, kFloat, out + i); }
  template <typename W>
  bool RestOfWords(const uint8_t* in, size_t i, size_t count) const {
    return scalar::DecodeWords<W>(in, count, out + i);
  }
  template <typename C>
  bool RestOfCodes(const uint8_t* in, float scale, size_t i, size_t count) const {
    return scalar::DecodeCodes<C>(in, count, scale, out + i);
  }
};

struct Add {
  float* acc;
  float weight;

  HWY_INLINE void operator()(size_t i, Floats value) const {
    const Floats product = hn::Mul(Float(weight), value);
    hn::StoreU(hn::Add(hn::LoadU(kFloat, acc + i), product), kFloat, acc + i);
  }
  template <typename W>
  bool RestOfWords(const uint8_t* in, size_t i, size_t count) const {
    return scalar::AccumulateWords<W>(in, count, weight, acc + i);
  }
  template <typename C>
  bool RestOfCodes(const uint8_t* in, float scale, size_t i, size_t count) const {
    return scalar::AccumulateCodes<C>(in, count, scale, weight, acc + i);
  }
};

// --- Words ---

struct Fp32Lanes {
  using Scalar = Fp32Word;
  HWY_INLINE static Uints Load(const uint8_t* in) {
    return hn::LoadU(kUint, reinterpret_cast<const uint32_t*>(in));
  }
  HWY_INLINE static void Store(Floats value, uint8_t* out) {
    hn::StoreU(Bits(value), kUint, reinterpret_cast<uint32_t*>(out));
  }
};

HWY_INLINE Uints LoadShorts(const uint8_t* in) {
  return hn::PromoteTo(kUint, hn::LoadU(kShort, reinterpret_cast<const uint16_t*>(in)));
}
HWY_INLINE void StoreShorts(Uints words, uint8_t* out) {
  hn::StoreU(hn::TruncateTo(kShort, words), kShort, reinterpret_cast<uint16_t*>(out));
}

struct Bf16Lanes {
  using Scalar = Bf16Word;
  HWY_INLINE static Uints Load(const uint8_t* in) { return hn::ShiftLeft<16>(LoadShorts(in)); }
  HWY_INLINE static void Store(Floats value, uint8_t* out) {
    const Ints magnitude = MagnitudeBitsOf(value);
    const Uints finite = AsUints(hn::Min(magnitude, Int(Scalar::kLargest)));
    const Uints kept = IfLess(magnitude, Int(kInfinityBits), finite, Uint(kInfinityBits));
    const Uints odd = hn::And(hn::ShiftRight<16>(kept), Uint(1));
    const Uints rounded = hn::Add(hn::Add(kept, Uint(0x7FFF)), odd);
    const Uints sign = hn::And(Bits(value), Uint(kSignBit));
    StoreShorts(hn::ShiftRight<16>(hn::Or(rounded, sign)), out);
  }
};

struct Fp16Lanes {
  using Scalar = Fp16Word;
  HWY_INLINE static Uints Load(const uint8_t* in) {
    const Uints word = LoadShorts(in);
    const Uints magnitude = hn::And(word, Uint(0x7FFF));
    const Uints wide = hn::ShiftLeft<13>(magnitude);
    const Uints normal = hn::Add(wide, Uint(Scalar::kRebias));
    const Uints least = Uint(Scalar::kLeastNormal);
    const Uints subnormal = Bits(hn::Sub(FromBits(hn::Add(wide, least)), FromBits(least)));
    const Uints finite = IfLess(AsInts(magnitude), Int(0x0400), subnormal, normal);
    const Uints bits =
        IfLess(AsInts(magnitude), Int(Scalar::kInfinity), finite, Uint(kInfinityBits));
    return hn::Or(bits, hn::ShiftLeft<16>(hn::And(word, Uint(0x8000))));
  }
  HWY_INLINE static void Store(Floats value, uint8_t* out) {
    const Ints magnitude = MagnitudeBitsOf(value);
    const Ints finite = hn::Min(magnitude, Int(Scalar::kLargest));
    const Uints kept = AsUints(finite);
    const Uints odd = hn::And(hn::ShiftRight<13>(kept), Uint(1));
    const Uints normal = hn::ShiftRight<13>(
        hn::Add(hn::Sub(kept, Uint(Scalar::kRebias)), hn::Add(Uint(0xFFF), odd)));
    const Floats half = Float(0.5f);
    const Uints subnormal = hn::Sub(Bits(hn::Add(FromBits(kept), half)), Bits(half));
    const Uints rounded = IfLess(finite, Int(Scalar::kLeastNormal), subnormal, normal);
    const Uints word =
        IfLess(magnitude, Int(kInfinityBits), rounded, Uint(Scalar::kInfinity));
    const Uints sign = hn::ShiftRight<16>(hn::And(Bits(value), Uint(kSignBit)));
    StoreShorts(hn::Or(word, sign), out);
  }
};

template <typename L>
void EncodeWords(const float* in, size_t count, uint8_t* out) {
  constexpr size_t kBytes = sizeof(typename L::Scalar::Word);
  size_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) {
    L::Store(hn::LoadU(kFloat, in + i), out + i * kBytes);
  }
  scalar::EncodeWords<typename L::Scalar>(in + i, count - i, out + i * kBytes);
}

template <typename L, typename Use>
HWY_INLINE bool UnpackWords(const uint8_t* in, size_t count, Use use) {
  constexpr size_t kBytes = sizeof(typename L::Scalar::Word);
  Uints bad = hn::Zero(kUint);
  size_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) {
    const Uints bits = L::Load(in + i * kBytes);
    bad = hn::Or(bad, hn::Add(hn::And(bits, Uint(kMagnitudeMask)), Uint(0x00800000)));
    use(i, FromBits(bits));
  }
  const bool good = hn::AllTrue(kUint, hn::Eq(hn::And(bad, Uint(kSignBit)), hn::Zero(kUint)));
  return use.template RestOfWords<typename L::Scalar>(in + i * kBytes, i, count - i) && good;
}

template <typename L>
bool DecodeWords(const uint8_t* in, size_t count, float* out) {
  return UnpackWords<L>(in, count, Assign{out});
}

template <typename L>
bool AccumulateWords(const uint8_t* in, size_t count, float weight, float* acc) {
  return UnpackWords<L>(in, count, Add{acc, weight});
}

// --- Codes ---

HWY_INLINE Ints RoundToEvenOf(Floats value) {
  const Floats shift = Float(kRoundShift);
  return hn::Sub(hn::BitCast(kInt, hn::Add(value, shift)), hn::BitCast(kInt, shift));
}

template <int kBits>
struct IntLanes {
  using Scalar = IntCode<kBits>;
  HWY_INLINE static Floats Level(Floats value, Floats inverse) {
    return hn::Min(hn::Max(hn::Mul(value, inverse), Float(-Scalar::kLevels)), Float(Scalar::kLevels));
  }
  // Codes in the lower bits of each lane.
  HWY_INLINE static Uints Encode(Floats value, Floats inverse) {
    return hn::And(AsUints(RoundToEvenOf(Level(value, inverse))), Uint((1u << kBits) - 1));
  }
  HWY_INLINE static Uints Encode(Floats value, Floats inverse, Uints words) {
    const Floats level = Level(value, inverse);
    const Ints nearest = RoundToEvenOf(level);
    const Floats rest = hn::Sub(level, hn::ConvertTo(kFloat, nearest));
    const Floats drawn = hn::Add(hn::ConvertTo(kFloat, AsInts(hn::ShiftRight<9>(words))), Float(0.5f));
    const auto moves = hn::RebindMask(kInt, hn::Lt(drawn, hn::Mul(hn::Abs(rest), Float(0x1p23f))));
    const Ints step = hn::Or(hn::ShiftRight<31>(hn::BitCast(kInt, rest)), Int(1));  // -1 or 1
    const Ints rounded = hn::Add(nearest, hn::IfThenElseZero(moves, step));
    return hn::And(AsUints(rounded), Uint((1u << kBits) - 1));
  }
  // From bytes that hold a code each, to what DecodeLanes multiplies with the scale.
  template <typename D>
  HWY_INLINE static hn::Vec<hn::RebindToSigned<D>> Decode(D tag, hn::Vec<D> codes) {
    const hn::RebindToSigned<D> as_signed;
    if constexpr (kBits == 8) return hn::BitCast(as_signed, codes);
    const hn::Vec<D> sign = hn::Set(tag, 1u << (kBits - 1));
    return hn::BitCast(as_signed, hn::Sub(hn::Xor(codes, sign), sign));
  }
  static constexpr float kUnit = 1.0f;
};

alignas(16) constexpr std::array<int8_t, 16> kTwiceFp4 = [] {
  std::array<int8_t, 16> table{};
  for (uint32_t code = 0; code < 16; ++code) table[code] = static_cast<int8_t>(TwiceFp4(code));
  return table;
}();

struct Fp4Lanes {
  using Scalar = Fp4Code;
  HWY_INLINE static Uints Encode(Floats value, Floats inverse) {
    const Floats level = hn::Min(hn::Abs(hn::Mul(value, inverse)), Float(Scalar::kLevels));
    const auto below_2 = hn::Lt(level, Float(2.0f));
    const auto below_4 = hn::Lt(level, Float(4.0f));
    const Floats per_unit = hn::IfThenElse(
        below_2, Float(2.0f), hn::IfThenElse(below_4, Float(1.0f), Float(0.5f)));
    const Ints offset =
        hn::IfThenElse(hn::RebindMask(kInt, below_2), hn::Zero(kInt),
                       hn::IfThenElse(hn::RebindMask(kInt, below_4), Int(2), Int(4)));
    const Uints index = AsUints(hn::Add(RoundToEvenOf(hn::Mul(level, per_unit)), offset));
    const Uints sign = hn::ShiftLeft<3>(hn::ShiftRight<31>(Bits(value)));
    return hn::IfThenZeroElse(hn::Eq(index, hn::Zero(kUint)), hn::Or(index, sign));
  }
  template <typename D>
  HWY_INLINE static hn::Vec<hn::RebindToSigned<D>> Decode(D tag, hn::Vec<D> codes) {
    // The table fills 16 bytes, which a vector of codes need not.
    const hn::FixedTag<int8_t, HWY_MAX(size_t{16}, hn::MaxLanes(tag))> table_tag;
    const hn::RebindToSigned<D> as_signed;
    return hn::TableLookupBytes(hn::LoadDup128(table_tag, kTwiceFp4.data()), hn::BitCast(as_signed, codes));
  }
  static constexpr float kUnit = 0.5f;
};

// Of two codes a lane pair, (low | high << 4) as one byte a pair.
HWY_INLINE void StorePairs(Uints codes, uint8_t* out) {
  const hn::Repartition<uint64_t, FloatTag> pair_tag;
  const hn::Rebind<uint8_t, decltype(pair_tag)> byte_tag;
  const auto pairs = hn::BitCast(pair_tag, codes);
  hn::StoreU(hn::TruncateTo(byte_tag, hn::Or(pairs, hn::ShiftRight<28>(pairs))), byte_tag, out);
}

// To their place among codes that begin at `out`.
template <typename C>
HWY_INLINE void StoreCodes(Uints codes, size_t i, uint8_t* out) {
  if constexpr (C::kBits == 8) {
    hn::StoreU(hn::TruncateTo(kByte, codes), kByte, out + i);
  } else {
    StorePairs(codes, out + i / 2);
  }
}

template <typename L>
void EncodeCodes(const float* in, size_t count, float inverse, uint8_t* out) {
  using C = typename L::Scalar;
  size_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) {
    StoreCodes<C>(L::Encode(hn::LoadU(kFloat, in + i), Float(inverse)), i, out);
  }
  scalar::EncodeCodes<C>(in + i, count - i, inverse, out + i * C::kBits / 8);
}

template <typename L>
void EncodeStochastic(const float* in, size_t count, float inverse, const uint32_t* words, uint8_t* out) {
  using C = typename L::Scalar;
  size_t i = 0;
  for (; i + Lanes() <= count; i += Lanes()) {
    const Uints random = hn::LoadU(kUint, words + i);
    StoreCodes<C>(L::Encode(hn::LoadU(kFloat, in + i), Float(inverse), random), i, out);
  }
  scalar::EncodeStochastic<C>(in + i, count - i, inverse, words + i, out + i * C::kBits / 8);
}

template <typename L, typename Use>
HWY_INLINE bool UnpackCodes(const uint8_t* in, size_t count, float scale, Use use) {
  using C = typename L::Scalar;
  const Floats unit = Float(L::kUnit);
  const Floats step = Float(scale);
  size_t i = 0;
  bool good = true;
  if constexpr (C::kBits == 8) {
    Bytes bad = hn::Zero(kByte);
    for (; i + Lanes() <= count; i += Lanes()) {
      const Bytes codes = hn::LoadU(kByte, in + i);
      bad = hn::Or(bad, hn::VecFromMask(kByte, hn::Eq(codes, hn::Set(kByte, uint8_t{C::kUnused}))));
      use(i, hn::Mul(step, hn::ConvertTo(kFloat, hn::PromoteTo(kInt, L::Decode(kByte, codes)))));
    }
    good = hn::AllTrue(kByte, hn::Eq(bad, hn::Zero(kByte)));
  } else {
    // A byte becomes two, one a code: twice as many lanes as a vector of floats has.
    const hn::Repartition<uint8_t, ShortTag> pair_tag;
    const hn::RebindToSigned<ByteTag> signed_tag;
    auto bad = hn::Zero(pair_tag);
    for (; i + 2 * Lanes() <= count; i += 2 * Lanes()) {
      const auto wide = hn::PromoteTo(kShort, hn::LoadU(kByte, in + i / 2));
      const auto halves = hn::Or(hn::And(wide, hn::Set(kShort, 0x000F)),
                                 hn::And(hn::ShiftLeft<4>(wide), hn::Set(kShort, 0x0F00)));
      const auto codes = hn::BitCast(pair_tag, halves);
      bad = hn::Or(bad, hn::VecFromMask(pair_tag, hn::Eq(codes, hn::Set(pair_tag, uint8_t{C::kUnused}))));
      const auto levels = L::Decode(pair_tag, codes);
      const Floats low = hn::ConvertTo(
          kFloat, hn::PromoteTo(kInt, hn::LowerHalf(signed_tag, levels)));
      const Floats high = hn::ConvertTo(
          kFloat, hn::PromoteTo(kInt, hn::UpperHalf(signed_tag, levels)));
      use(i, hn::Mul(step, hn::Mul(unit, low)));
      use(i + Lanes(), hn::Mul(step, hn::Mul(unit, high)));
    }
    good = hn::AllTrue(pair_tag, hn::Eq(bad, hn::Zero(pair_tag)));
  }
  return use.template RestOfCodes<C>(in + i * C::kBits / 8, scale, i, count - i) && good;
}

template <typename L>
bool DecodeCodes(const uint8_t* in, size_t count, float scale, float* out) {
  return UnpackCodes<L>(in, count, scale, Assign{out});
}

template <typename L>
bool AccumulateCodes(const uint8_t* in, size_t count, float scale, float weight, float* acc) {
  return UnpackCodes<L>(in, count, scale, Add{acc, weight});
}

// --- Sums ---

// add(sum, i) puts the values from `i` on to the running sums of one vector, rest(sum, i) one value to its own.
// Running sum j of kSums is lane j % Lanes() of vector j / Lanes().
template <typename Add, typename Rest>
HWY_INLINE float SumOf(size_t count, Add add, Rest rest) {
  Floats sums[kSums / 4] = {};
  const size_t vectors = kSums / Lanes();
  for (size_t v = 0; v < vectors; ++v) sums[v] = hn::Zero(kFloat);
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t v = 0; v < vectors; ++v) sums[v] = add(sums[v], i + v * Lanes());
  }
  float all[kSums];
  for (size_t v = 0; v < vectors; ++v) hn::StoreU(sums[v], kFloat, all + v * Lanes());
  for (size_t j = 0; i < count; ++i, ++j) all[j] = rest(all[j], i);
  return AddUp(all);
}

float SumMagnitudes(const float* in, size_t count) {
  return SumOf(
      count,
      [in](Floats sum, size_t i) {
        return hn::Add(sum, hn::Mul(hn::Abs(hn::LoadU(kFloat, in + i)), Float(kSumUnit)));
      },
      [in](float sum, size_t i) { return sum + std::abs(in[i]) * kSumUnit; });
}

float Dot(const float* a, const float* b, size_t count) {
  return SumOf(
      count,
      [a, b](Floats sum, size_t i) {
        return hn::Add(sum, hn::Mul(hn::LoadU(kFloat, a + i), hn::LoadU(kFloat, b + i)));
      },
      [a, b](float sum, size_t i) { return Accumulate(sum, a[i], b[i]); });
}

// --- Signs ---

// Values whose bits fill whole bytes.
HWY_INLINE size_t SignGroup() { return HWY_MAX(Lanes(), size_t{8}); }

void EncodeSigns(const float* in, size_t count, float unused, uint8_t* out) {
  size_t i = 0;
  for (; i + SignGroup() <= count; i += SignGroup()) {
    uint32_t bits = 0;
    for (size_t j = 0; j < SignGroup(); j += Lanes()) {
      const Ints value = hn::BitCast(kInt, hn::LoadU(kFloat, in + i + j));
      bits |= static_cast<uint32_t>(MaskBits(hn::Lt(value, hn::Zero(kInt)))) << j;
    }
    std::memcpy(out + i / 8, &bits, SignGroup() / 8);
  }
  scalar::EncodeSigns(in + i, count - i, unused, out + i / 8);
}

template <typename Use>
HWY_INLINE size_t UnpackSigns(const uint8_t* in, size_t count, float scale, Use use) {
  const Uints lane_bit = hn::Shl(Uint(1), hn::Iota(kUint, 0));
  const Uints magnitude = Bits(Float(scale));
  size_t i = 0;
  for (; i + SignGroup() <= count; i += SignGroup()) {
    uint32_t bits = 0;
    std::memcpy(&bits, in + i / 8, SignGroup() / 8);
    for (size_t j = 0; j < SignGroup(); j += Lanes()) {
      const auto positive = hn::Eq(hn::And(Uint(bits >> j), lane_bit), hn::Zero(kUint));
      const Uints sign = hn::IfThenZeroElse(positive, Uint(kSignBit));
      use(i + j, FromBits(hn::Or(magnitude, sign)));
    }
  }
  return i;
}

bool DecodeSigns(const uint8_t* in, size_t count, float scale, float* out) {
  const size_t i = UnpackSigns(in, count, scale, Assign{out});
  return scalar::DecodeSigns(in + i / 8, count - i, scale, out + i);
}

bool AccumulateSigns(const uint8_t* in, size_t count, float scale, float weight, float* acc) {
  const size_t i = UnpackSigns(in, count, scale, Add{acc, weight});
  return scalar::AccumulateSigns(in + i / 8, count - i, scale, weight, acc + i);
}

#include "core/compress/simd_largest.inc"

// --- Random words ---

// Philox in the even lanes; the odd ones hold what is of no use.
struct PhiloxLanes {
  Uints words[4];

  HWY_INLINE static Uints UpperHalves(Uints products) {
    const hn::Repartition<uint64_t, FloatTag> wide;
    return hn::BitCast(kUint, hn::ShiftRight<32>(hn::BitCast(wide, products)));
  }
  HWY_INLINE void Round(Uints key0, Uints key1) {
    const Uints product0 = hn::BitCast(kUint, hn::MulEven(words[0], Uint(kPhiloxFactors[0])));
    const Uints product1 = hn::BitCast(kUint, hn::MulEven(words[2], Uint(kPhiloxFactors[1])));
    words[0] = hn::Xor(hn::Xor(UpperHalves(product1), words[1]), key0);
    words[1] = product1;
    words[2] = hn::Xor(hn::Xor(UpperHalves(product0), words[3]), key1);
    words[3] = product0;
  }
};

void Random(uint64_t seed, uint64_t group, uint32_t* words) {
  static_assert(hn::MaxLanes(kFloat) <= kRandomLanes);
  const uint64_t first = group * kRandomLanes;
  for (size_t lane = 0; lane < kRandomLanes; lane += Lanes()) {
    const Uints counter = hn::Add(Uint(static_cast<uint32_t>(first + lane)), hn::Iota(kUint, 0));
    const Uints upper = Uint(static_cast<uint32_t>(first >> 32));
    const Uints zero = hn::Zero(kUint);
    PhiloxLanes even = {{counter, upper, zero, zero}};
    PhiloxLanes odd = {{PhiloxLanes::UpperHalves(counter), upper, zero, zero}};
    Uints key0 = Uint(static_cast<uint32_t>(seed)), key1 = Uint(static_cast<uint32_t>(seed >> 32));
    for (int round = 0; round < kPhiloxRounds; ++round) {
      even.Round(key0, key1);
      odd.Round(key0, key1);
      key0 = hn::Add(key0, Uint(kPhiloxKeySteps[0]));
      key1 = hn::Add(key1, Uint(kPhiloxKeySteps[1]));
    }
    for (size_t w = 0; w < 4; ++w) {
      const Uints both = hn::OddEven(hn::DupEven(odd.words[w]), even.words[w]);
      hn::StoreU(both, kUint, words + w * kRandomLanes + lane);
    }
  }
}

#include "core/compress/simd_dct.inc"

template <typename L>
constexpr WordLoops kWordLoops = {EncodeWords<L>, DecodeWords<L>, AccumulateWords<L>};
template <typename L>
constexpr CodeLoops kCodeLoops = {EncodeCodes<L>, DecodeCodes<L>, AccumulateCodes<L>};

}  // namespace

const Kernels* GetKernels() {
  static const Kernels kernels = {
      hwy::TargetName(HWY_TARGET), MaxMagnitude,
      kWordLoops<Fp32Lanes>,       kWordLoops<Bf16Lanes>,
      kWordLoops<Fp16Lanes>,       kCodeLoops<IntLanes<8>>,
      kCodeLoops<IntLanes<4>>,     kCodeLoops<Fp4Lanes>,
      SumMagnitudes,               Dot,
      {EncodeSigns, DecodeSigns, AccumulateSigns},
      Select,                      Random,
      EncodeStochastic<IntLanes<8>>, EncodeStochastic<IntLanes<4>>,
      LargestOfDct,                InverseDct,
  };
  return &kernels;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace gdf::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gdf::compress {

HWY_EXPORT(GetKernels);

const Kernels& SimdKernels() { return *HWY_DYNAMIC_DISPATCH(GetKernels)(); }

}  // namespace gdf::compress
#endif
