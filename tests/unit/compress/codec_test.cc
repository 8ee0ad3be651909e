// Packed bytes are worked out by hand from docs/formats/codecs.md and the IEEE 754 encodings.
#include "core/compress/codec.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace gdf::compress {
namespace {

using Bytes = std::vector<uint8_t>;
using Catch::Matchers::Contains;

std::unique_ptr<Codec> Make(const std::string& text) {
  return *Codec::Create(*CodecSpec::Parse(text));
}

Bytes Encode(const Codec& codec, absl::Span<const float> values, const Rounding& rounding = {}) {
  Bytes packed(codec.PackedSize(values.size()));
  codec.Encode(values, absl::MakeSpan(packed), rounding);
  return packed;
}

std::vector<float> Decode(const Codec& codec, absl::Span<const uint8_t> packed, size_t n) {
  std::vector<float> values(n);
  REQUIRE(codec.Decode(packed, absl::MakeSpan(values)).ok());
  return values;
}

// Values of many magnitudes and both signs. The generator's output is fixed by the C++ standard.
std::vector<float> Values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    const int exponent = static_cast<int>(random() % 24) - 20;
    value = std::ldexp(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f, exponent);
  }
  return values;
}

const char* const kAll[] = {"fp32", "bf16", "fp16", "int8:64", "int8", "int8:4096",
                            "int4:64", "int4", "int4:4096", "fp4", "fp4:4096",
                            "sign:64", "sign", "topk2:1", "topk2", "topk8", "topk8:1000", "dct:1", "dct", "dct:32",
                            "int8:64:stochastic", "int8:stochastic", "int4:128:stochastic"};

TEST_CASE("codec specs are read and written") {
  for (const auto& [text, written] :
       std::vector<std::pair<std::string, std::string>>{{"fp32", "fp32"},
                                                        {"bf16", "bf16"},
                                                        {"int8", "int8:256"},
                                                        {"int8:64", "int8:64"},
                                                        {"int8:4096", "int8:4096"},
                                                        {"fp16", "fp16"},
                                                        {"int4", "int4:128"},
                                                        {"fp4", "fp4:64"},
                                                        {"fp4:1024", "fp4:1024"},
                                                        {"sign", "sign:1024"},
                                                        {"topk2", "topk2:64"},
                                                        {"topk8:1", "topk8:1"},
                                                        {"dct", "dct:4"},
                                                        {"int8:stochastic", "int8:256:stochastic"},
                                                        {"int4:64:stochastic", "int4:64:stochastic"}}) {
    const absl::StatusOr<CodecSpec> spec = CodecSpec::Parse(text);
    REQUIRE(spec.ok());
    CHECK(spec->ToString() == written);
    CHECK(*CodecSpec::Parse(written) == *spec);
    CHECK(Make(text)->name() == written);
  }
  for (const char* text :
       {"", "FP32", "int8:", "int8:0", "int8:32", "int8:8192", "int8:100", "int8:+64", "int8:064",
        "int8: 64", "int8:-64", "int8:4294967360", "int8:64x", "int5", "int4:32", "fp4:63", "fp16:64", "fp32:64", "bf16 ",
        "topk2:0", "topk2:1025", "topk", "dct:0", "dct:33", "sign:100", "fp4:stochastic", "fp32:stochastic", ":stochastic", "int8:stochastic:64",
        "int8:064:stochastic", "int8:stochastic:stochastic", "int8::stochastic", "topk8:64:stochastic"}) {
    INFO(text);
    const absl::Status status = CodecSpec::Parse(text).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    const std::string list = "must be one of fp32, bf16, fp16, int8[:BLOCK][:stochastic], int4[:BLOCK][:stochastic], "
                             "fp4[:BLOCK], sign[:BLOCK], topk2[:K], topk8[:K], dct[:K] with BLOCK a power of two "
                             "from 64 to 4096, K from 1 to 1024, for dct to 32";
    const std::string name(std::string_view(text).substr(0, std::string_view(text).find(':')));
    CHECK_THAT(std::string(status.message()), Contains(CodecSpec::IsNamed(text) ? "must be " + name : list));
  }
  CHECK(!Codec::Create({static_cast<CodecKind>(11), 256}).ok());
  CHECK(!Codec::Create({CodecKind::kInt8, 0}).ok());
  CHECK(!Codec::Create({CodecKind::kInt8, 96}).ok());
  CHECK(!Codec::Create({CodecKind::kBf16, 64}).ok());
  CHECK(!Codec::Create({CodecKind::kBf16, 0, 1}).ok());
  CHECK(!Codec::Create({CodecKind::kInt8, 64, 1}).ok());
  CHECK(!Codec::Create({CodecKind::kTopK2, 64, 1}).ok());
  CHECK(!Codec::Create({CodecKind::kFp4, 64, 0, true}).ok());
}

TEST_CASE("packed sizes") {
  CHECK(Make("fp32")->PackedSize(7) == 28);
  CHECK(Make("bf16")->PackedSize(7) == 14);
  const auto int8 = Make("int8:64");
  CHECK(int8->PackedSize(0) == 0);
  CHECK(int8->PackedSize(1) == 5);
  CHECK(int8->PackedSize(64) == 68);
  CHECK(int8->PackedSize(65) == 73);
  CHECK(int8->block() == 64);
  CHECK(Make("bf16")->block() == 1);
  CHECK(Make("fp16")->PackedSize(7) == 14);
  for (const char* name : {"int4:64", "fp4:64"}) {
    CHECK(Make(name)->PackedSize(1) == 5);
    CHECK(Make(name)->PackedSize(2) == 5);
    CHECK(Make(name)->PackedSize(64) == 36);
    CHECK(Make(name)->PackedSize(67) == 36 + 6);
  }
  for (const char* name : kAll) {
    CHECK(Make(name)->PackedSize(0) == 0);
    CHECK(Encode(*Make(name), {}).empty());
    CHECK(Decode(*Make(name), {}, 0).empty());
  }
}

TEST_CASE("fp32 and bf16 packed bytes") {
  CHECK(Encode(*Make("fp32"), {1.0f, -0.0f}) == Bytes{0, 0, 0x80, 0x3F, 0, 0, 0, 0x80});
  // 1.0; pi; the largest float32, which must not become infinity.
  CHECK(Encode(*Make("bf16"), {1.0f, 0x1.921FB6p1f, FLT_MAX, -FLT_MAX}) ==
        Bytes{0x80, 0x3F, 0x49, 0x40, 0x7F, 0x7F, 0x7F, 0xFF});
  const std::vector<float> values = Values(1001, 1);
  CHECK(Decode(*Make("fp32"), Encode(*Make("fp32"), values), 1001) == values);
}

TEST_CASE("a verbatim codec packs values as they lie in memory") {
  const std::vector<float> values = Values(1000, 5);
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  for (const char* name : {"fp32", "bf16", "fp16", "int8", "sign"}) {
    const auto codec = Make(name);
    CHECK(codec->is_verbatim() == (std::string(name) == "fp32" && std::endian::native == std::endian::little));
    if (codec->is_verbatim()) CHECK(Encode(*codec, values) == Bytes(bytes, bytes + values.size() * sizeof(float)));
  }
}

TEST_CASE("int8 packed bytes worked out by hand") {
  const auto codec = Make("int8:64");
  // max |x| = 127, scale 1 = 00 00 80 3F; ties go to even: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, -3.5 ->
  // -4.
  CHECK(Encode(*codec, {-127.0f, 0.5f, 1.5f, 2.5f, -3.5f, 0.49f, -0.51f}) ==
        Bytes{0x00, 0x00, 0x80, 0x3F, 0x81, 0x00, 0x02, 0x02, 0xFC, 0x00, 0xFF});
  // 254 / 127 = 2 = 00 00 00 40; 3 / 2 ties to 2, 5 / 2 ties to 2.
  CHECK(Encode(*codec, {254.0f, 3.0f, 5.0f}) == Bytes{0x00, 0x00, 0x00, 0x40, 0x7F, 0x02, 0x02});
  CHECK(Decode(*codec, Bytes{0x00, 0x00, 0x00, 0x40, 0x7F, 0x02, 0x81}, 3) ==
        std::vector<float>{254.0f, 4.0f, -254.0f});
  // A block of zeros, of either sign, has scale 0.
  CHECK(Encode(*codec, {0.0f, -0.0f}) == Bytes{0, 0, 0, 0, 0, 0});
  // An all-negative block uses the whole range.
  CHECK(Encode(*codec, {-127.0f, -126.0f, -1.0f}) ==
        Bytes{0x00, 0x00, 0x80, 0x3F, 0x81, 0x82, 0xFF});
  // A second block has its own scale: 64 values of 127, then 254.
  std::vector<float> two(65, 127.0f);
  two[64] = 254.0f;
  const Bytes packed = Encode(*codec, two);
  CHECK(Bytes(packed.begin() + 68, packed.end()) == Bytes{0x00, 0x00, 0x00, 0x40, 0x7F});
}

TEST_CASE("fp16 packed bytes") {
  // 1; 2^-14, the least normal; 2^-24, the least of all; half of it ties to 0; 3/2 of it ties to 2.
  CHECK(Encode(*Make("fp16"), {1.0f, 0x1p-14f, 0x1p-24f, -0x1p-25f, 0x1.8p-24f}) ==
        Bytes{0x00, 0x3C, 0x00, 0x04, 0x01, 0x00, 0x00, 0x80, 0x02, 0x00});
  // 65504 is the largest, and what is above becomes that; 1 + 2^-11 ties to 1; 1 + 3 * 2^-11 to 1 + 2^-9.
  CHECK(Encode(*Make("fp16"), {65504.0f, 65519.0f, -FLT_MAX, 0x1.002p0f, 0x1.006p0f}) ==
        Bytes{0xFF, 0x7B, 0xFF, 0x7B, 0xFF, 0xFB, 0x00, 0x3C, 0x02, 0x3C});
  // Every finite binary16 decodes to its value, worked out from its fields, and comes back the same.
  int wrong = 0;
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const int exponent = static_cast<int>(word >> 10 & 31);
    if (exponent == 31) continue;
    const Bytes packed = {static_cast<uint8_t>(word), static_cast<uint8_t>(word >> 8)};
    const int mantissa = static_cast<int>(word & 1023) + (exponent > 0 ? 1024 : 0);
    const double value = std::ldexp(mantissa, std::max(exponent, 1) - 25) * (word >> 15 ? -1 : 1);
    const std::vector<float> decoded = Decode(*Make("fp16"), packed, 1);
    wrong += double{decoded[0]} != value || Encode(*Make("fp16"), decoded) != packed;
  }
  CHECK(wrong == 0);
}

TEST_CASE("int4 packed bytes worked out by hand") {
  const auto codec = Make("int4:64");
  // max |x| = 7, scale 1; ties go to even; the earlier value is in the lower half; -7 is 9.
  CHECK(Encode(*codec, {-7.0f, 0.5f, 1.5f, 2.5f, -3.5f}) ==
        Bytes{0x00, 0x00, 0x80, 0x3F, 0x09, 0x22, 0x0C});
  CHECK(Decode(*codec, Bytes{0x00, 0x00, 0x00, 0x40, 0x79, 0x0F}, 3) ==
        std::vector<float>{-14.0f, 14.0f, -2.0f});
  CHECK(Encode(*codec, {0.0f, -0.0f, 0.0f}) == Bytes{0, 0, 0, 0, 0, 0});
  std::vector<float> out(3);
  CHECK(!codec->Decode(Bytes{0x00, 0x00, 0x00, 0x40, 0x79, 0x08}, absl::MakeSpan(out)).ok());  // -8
  CHECK(!codec->Decode(Bytes{0x00, 0x00, 0x00, 0x40, 0x89, 0x01}, absl::MakeSpan(out)).ok());
  // What is beyond the last value must be zero.
  CHECK(!codec->Decode(Bytes{0x00, 0x00, 0x00, 0x40, 0x79, 0x1F}, absl::MakeSpan(out)).ok());
}

// The words of Philox4x32-10 for counters 0 and 1 with key 0; the first four are a published answer (Random123,
// kat_vectors), so value 0 draws 0x6627e8d5 and value 16 draws 0xe169c58d.
TEST_CASE("stochastic rounding goes by a random word for each value") {
  // Scale 1. 0x6627e8d5 / 2^32 is 0.39905: with a rest below that, or on the other side of a half, nothing changes.
  std::vector<float> values(64, 0.0f);
  values[63] = 127.0f;
  const auto first = [&](float value) {
    values[0] = value;
    return static_cast<int8_t>(Encode(*Make("int8:64:stochastic"), values)[4]);
  };
  CHECK(first(3.0f) == 3);
  CHECK(first(3.398f) == 3);
  CHECK(first(3.4f) == 4);
  CHECK(first(3.6f) == 3);
  CHECK(first(3.602f) == 4);
  CHECK(first(-3.398f) == -3);
  CHECK(first(-3.4f) == -4);
  CHECK(first(-3.6f) == -3);
  CHECK(first(-3.602f) == -4);
  CHECK(first(127.0f) == 127);
  values[0] = 0.0f;
  // 0xe169c58d is past a half: never another than the nearest.
  values[16] = 0.45f;
  CHECK(Encode(*Make("int8:64:stochastic"), values)[4 + 16] == 0);
  std::vector<float> sevens(64, 0.0f);
  sevens[63] = 7.0f;
  sevens[0] = 3.4f;
  CHECK((Encode(*Make("int4:64:stochastic"), sevens)[4] & 15) == 4);
  sevens[0] = 3.398f;
  CHECK((Encode(*Make("int4:64:stochastic"), sevens)[4] & 15) == 3);
}

TEST_CASE("stochastic rounding: equal seeds give equal bytes, others others") {
  const auto codec = Make("int8:64:stochastic");
  const std::vector<float> values = Values(1000, 5);
  CHECK(Encode(*codec, values, {7, 128}) == Encode(*codec, values, {7, 128}));
  CHECK(Encode(*codec, values, {7, 128}) != Encode(*codec, values, {8, 128}));
  CHECK(Encode(*codec, values, {7, 128}) != Encode(*codec, values, {7, 192}));
  CHECK(Encode(*codec, values, {7, 0}) != Encode(*codec, values, {7, uint64_t{1} << 40}));
  CHECK(Encode(*codec, values, {7, 0}) != Encode(*codec, values, {7 | uint64_t{1} << 32, 0}));
}

TEST_CASE("stochastic rounding has the value as its mean") {
  // A decoded value is one of two that are a scale apart, so its variance is at most scale^2 / 4, and the mean of S of
  // them is within 6 standard deviations, 3 scale / sqrt(S), of what is expected, but once in 10^9. Expected is the
  // value, but for 2^-24 of a scale for the 23 bits and 2^-16 for the roundings of scale, quotient and product.
  constexpr int kSeeds = 4096;
  for (const char* name : {"int8:64:stochastic", "int4:64:stochastic"}) {
    const auto codec = Make(name);
    std::mt19937 random(13);
    std::vector<float> values(64);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    values[0] = 1.0f;
    values[1] = 0.003f;  // less than half a step
    std::vector<double> sums(64);
    for (int seed = 0; seed < kSeeds; ++seed) {
      const std::vector<float> decoded =
          Decode(*codec, Encode(*codec, values, {static_cast<uint64_t>(seed), 640}), 64);
      for (size_t i = 0; i < 64; ++i) sums[i] += decoded[i];
    }
    const double scale = codec->ErrorBound(1.0f);
    double all = 0.0;
    for (size_t i = 0; i < 64; ++i) {
      const double off = sums[i] / kSeeds - values[i];
      all += off / 64;
      INFO(name << " value " << i << " is off by " << off / scale << " steps");
      CHECK(std::abs(off) <= scale * (3 / std::sqrt(kSeeds) + 0x1p-16));
    }
    CHECK(std::abs(all) <= scale * (3 / std::sqrt(64.0 * kSeeds) + 0x1p-16));
  }
}

TEST_CASE("fp4 packed bytes worked out by hand") {
  const auto codec = Make("fp4:64");
  // max |x| = 6, scale 1: each value of the format, in order of its code.
  const std::vector<float> values = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f,
                                     -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  const Bytes packed = {0x00, 0x00, 0x80, 0x3F, 0x10, 0x32, 0x54, 0x76, 0xA9, 0xCB, 0xED, 0x0F};
  CHECK(Encode(*codec, values) == packed);
  CHECK(Decode(*codec, packed, values.size()) == values);
  // Ties go to the even mantissa: 0.25 -> 0, 0.75 -> 1, 1.25 -> 1, 1.75 -> 2, 2.5 -> 2, 3.5 -> 4,
  // 5 -> 4; a negative value that becomes zero has no sign.
  CHECK(Encode(*codec, {6.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, -0.25f, -0.26f}) ==
        Bytes{0x00, 0x00, 0x80, 0x3F, 0x07, 0x22, 0x44, 0x66, 0x90});
  std::vector<float> out(1);
  CHECK(!codec->Decode(Bytes{0x00, 0x00, 0x80, 0x3F, 0x08}, absl::MakeSpan(out)).ok());  // -0
}

TEST_CASE("sign packed bytes worked out by hand") {
  const auto codec = Make("sign:64");
  // Mean magnitude 2; bits 1 and 3 are set.
  CHECK(Encode(*codec, {1.0f, -3.0f, 2.0f, -2.0f}) == Bytes{0x00, 0x00, 0x00, 0x40, 0x0A});
  CHECK(Decode(*codec, Bytes{0x00, 0x00, 0x00, 0x40, 0x0A}, 4) ==
        std::vector<float>{2.0f, -2.0f, 2.0f, -2.0f});
  CHECK(codec->PackedSize(64) == 12);
  std::vector<float> out(4);
  CHECK(!codec->Decode(Bytes{0x00, 0x00, 0x00, 0x40, 0x1A}, absl::MakeSpan(out)).ok());
  // Sums that overflow do not.
  const std::vector<float> huge = Decode(*codec, Encode(*codec, std::vector<float>(64, FLT_MAX)), 64);
  CHECK(huge[0] == FLT_MAX);
}

TEST_CASE("top-k packed bytes worked out by hand") {
  // Of 5 values 3 are kept: 1 (-8), 3 (2) and 4 (2): middle 5; lower level 2, higher 8 (0x4000, 0x4100
  // as bfloat16). Codes 3, 0, 0. k = 3 of 4096: 10 low bits an index, 1, 3 and 4; the bitmap has the
  // three bits 0 to 2 set, as all high parts are 0.
  const std::vector<float> values = {0.5f, -8.0f, 0.0f, 2.0f, 2.0f};
  const Bytes packed = {0x00, 0x40, 0x00, 0x41, 0x03, 0x01, 0x0C, 0x40, 0x00, 0x07};
  CHECK(Encode(*Make("topk2:3"), values) == packed);
  CHECK(Decode(*Make("topk2:3"), packed, 5) == std::vector<float>{0.0f, -8.0f, 0.0f, 2.0f, 2.0f});
  // As int8 the scale is 8 / 127 and the codes -127, 32 and 32.
  const std::vector<float> decoded = Decode(*Make("topk8:3"), Encode(*Make("topk8:3"), values), 5);
  CHECK(decoded[1] == Approx(-8.0f));
  CHECK(decoded[3] == Approx(32 * 8.0 / 127));
  CHECK(decoded[0] == 0.0f);
  // 84 bytes a chunk: 0.164 bits a value.
  CHECK(Make("topk2:64")->PackedSize(4096) == 84);
  CHECK(Make("topk2:64")->PackedSize(3 * 4096) == 3 * 84);
  // What a sum has where nothing was kept stays, to the bit.
  std::vector<float> acc = {-0.0f, 1.0f, -0.0f, 1.0f, 1.0f};
  REQUIRE(Make("topk2:3")->DecodeAccumulate(packed, 0.5f, absl::MakeSpan(acc)).ok());
  CHECK(std::signbit(acc[0]));
  CHECK(acc[1] == -3.0f);
}

TEST_CASE("top-k of subnormals whose middle is below all of them decodes") {
  // 5 * 2^-149: each half rounds to 2 * 2^-149, so the middle is 4 * 2^-149. As bfloat16 it is 0.
  for (const float value : {FLT_TRUE_MIN, -0x5p-149f}) {
    CHECK(Decode(*Make("topk2:1"), Encode(*Make("topk2:1"), {0.0f, value}), 2) == std::vector<float>{0.0f, 0.0f});
  }
}

TEST_CASE("top-k bytes of indices that are out of order, out of range, too few or too many are refused") {
  const auto codec = Make("topk2:3");
  const Bytes good = {0x00, 0x40, 0x00, 0x41, 0x03, 0x01, 0x0C, 0x40, 0x00, 0x07};
  std::vector<float> out(5);
  REQUIRE(codec->Decode(good, absl::MakeSpan(out)).ok());
  const auto refuses = [&](size_t at, uint8_t value) {
    Bytes bad = good;
    bad[at] = value;
    return !codec->Decode(bad, absl::MakeSpan(out)).ok() &&
           !codec->DecodeAccumulate(bad, 1.0f, absl::MakeSpan(out)).ok();
  };
  CHECK(refuses(9, 0x03));  // two
  CHECK(refuses(9, 0x0F));  // four
  CHECK(refuses(9, 0x0B));  // the last one is 1028
  CHECK(refuses(7, 0x50));  // the last one is 5
  CHECK(refuses(5, 0x03));  // the first one is 3, as the second
  CHECK(refuses(3, 0xC1));  // a negative level
  CHECK(refuses(3, 0x3F));  // levels in the wrong order
}

TEST_CASE("dct packed bytes worked out by hand") {
  // 64 values of 15.875 have coefficient 0 alone, 8 * 15.875 = 127: scale 1, code 127, index 0 in 6 bits.
  const Bytes flat = {0x00, 0x00, 0x80, 0x3F, 0x7F, 0x00};
  CHECK(Encode(*Make("dct:1"), std::vector<float>(64, 15.875f)) == flat);
  CHECK(Decode(*Make("dct:1"), flat, 64) == std::vector<float>(64, 15.875f));
  // Function 32 is 1/8 for values 0, 3, 4, 7, ... and -1/8 for 1, 2, 5, 6, ...: sqrt(1/32) times cos(pi / 4 + i pi / 2).
  // A second chunk of it: codes 127 and -127, indices 0 and 32 from the lowest bit: 0x20 << 6 = 0x0800.
  std::vector<float> two(128, 15.875f);
  for (size_t i = 64; i < 128; ++i) two[i] = i % 4 == 0 || i % 4 == 3 ? -15.875f : 15.875f;
  CHECK(Encode(*Make("dct:1"), two) == Bytes{0x00, 0x00, 0x80, 0x3F, 0x7F, 0x81, 0x00, 0x08});
  // 4 of 64 coefficients: 4 bytes of scale, 256 codes and 192 bytes of indices for 4096 values, 0.883 bits a value.
  CHECK(Make("dct")->PackedSize(4096) == 452);
  // A short last chunk goes with zeros after it: 32 values of 2 give 0.125 * 64 = 8 first, then more.
  const std::vector<float> short_chunk = Decode(*Make("dct:32"), Encode(*Make("dct:32"), std::vector<float>(32, 2.0f)), 32);
  for (const float value : short_chunk) CHECK(std::abs(value - 2.0f) < 0.3f);
  // What 4 functions make comes back to half a scale for each.
  std::vector<float> waves(64);
  for (size_t i = 0; i < 64; ++i) {
    for (const int k : {1, 5, 20, 63}) {
      waves[i] += static_cast<float>(std::cos(std::acos(-1.0) * (2.0 * static_cast<double>(i) + 1) * k / 128));
    }
  }
  const std::vector<float> decoded = Decode(*Make("dct:4"), Encode(*Make("dct:4"), waves), 64);
  // Each coefficient is sqrt(32): a scale of sqrt(32) / 127, half of it times sqrt(1/32) for each function.
  for (size_t i = 0; i < 64; ++i) CHECK(std::abs(decoded[i] - waves[i]) <= 4 * 0.5 / 127 + 1e-5);
}

TEST_CASE("dct bytes that nothing is encoded to are refused") {
  const auto codec = Make("dct:2");
  std::vector<float> out(64);
  const auto decodes = [&](const Bytes& packed) {
    const bool good = codec->Decode(packed, absl::MakeSpan(out)).ok();
    CHECK(codec->DecodeAccumulate(packed, 1.0f, absl::MakeSpan(out)).ok() == good);
    return good;
  };
  // Indices 1 and 2: 1 | 2 << 6 = 0x0081.
  CHECK(decodes({0x00, 0x00, 0x80, 0x3F, 0x7F, 0x01, 0x81, 0x00}));
  CHECK(!decodes({0x00, 0x00, 0x80, 0x3F, 0x7F, 0x01, 0x41, 0x00}));  // 1 and 1
  CHECK(!decodes({0x00, 0x00, 0x80, 0x3F, 0x7F, 0x01, 0x42, 0x00}));  // 2 and 1
  CHECK(!decodes({0x00, 0x00, 0x80, 0x3F, 0x7F, 0x01, 0x81, 0x10}));  // a bit after the last
  CHECK(!decodes({0x00, 0x00, 0x80, 0x3F, 0x80, 0x01, 0x81, 0x00}));  // -128
  CHECK(decodes({0x00, 0x00, 0x80, 0x78, 0x7F, 0x7F, 0x81, 0x00}));   // 2^114
  for (const float value : out) CHECK(std::isfinite(value));
  CHECK(!decodes({0x01, 0x00, 0x80, 0x78, 0x7F, 0x7F, 0x81, 0x00}));
}

TEST_CASE("int8 handles the ends of the float32 range") {
  const auto codec = Make("int8:64");
  // Below 127 * 2^-126 the scale stays at 2^-126 (00 00 80 00): 3 steps, half a step ties to 0.
  const Bytes tiny = Encode(*codec, {0x3p-126f, 0x1p-127f, FLT_TRUE_MIN, -0x3p-127f});
  CHECK(tiny == Bytes{0x00, 0x00, 0x80, 0x00, 0x03, 0x00, 0x00, 0xFE});
  CHECK(Decode(*codec, tiny, 4) == std::vector<float>{0x3p-126f, 0.0f, 0.0f, -0x1p-125f});
  CHECK(Decode(*codec, Encode(*codec, {FLT_TRUE_MIN}), 1)[0] == 0.0f);
  // The largest values decode to finite ones, within the bound.
  const std::vector<float> huge =
      Decode(*codec, Encode(*codec, {FLT_MAX, -FLT_MAX, FLT_MAX / 2}), 3);
  CHECK(std::abs(double{huge[0]} - FLT_MAX) <= codec->ErrorBound(FLT_MAX));
  CHECK(huge[1] == -huge[0]);
  CHECK(std::abs(double{huge[2]} - FLT_MAX / 2) <= codec->ErrorBound(FLT_MAX));
}

TEST_CASE("every codec stays within its error bound") {
  for (const char* name : kAll) {
    const auto codec = Make(name);
    const size_t block = codec->block();
    for (const size_t n : {1, 63, 64, 65, 255, 1000, 9001}) {
      for (const float magnitude : {1.0f, 1e-38f, 1e-44f, 1e37f}) {
        const bool ends = name == std::string("fp16") || name[0] == 'd';  // at 65504, at 2^117
        if (ends && magnitude > 1.0f) continue;
        std::vector<float> values = Values(n, static_cast<uint32_t>(n));
        for (float& value : values) value *= magnitude;
        const std::vector<float> decoded = Decode(*codec, Encode(*codec, values), n);
        int outside = 0;
        for (size_t begin = 0; begin < n; begin += block) {
          const size_t end = std::min(n, begin + block);
          float max_abs = 0.0f;
          for (size_t i = begin; i < end; ++i) max_abs = std::max(max_abs, std::abs(values[i]));
          for (size_t i = begin; i < end; ++i) {
            outside += std::abs(double{values[i]} - decoded[i]) > codec->ErrorBound(max_abs);
          }
        }
        INFO(name << ", " << n << " values of " << magnitude);
        CHECK(outside == 0);
      }
    }
  }
  CHECK(Make("fp32")->ErrorBound(3.0f) == 0.0);
  CHECK(Make("int8")->ErrorBound(0.0f) == 0.0);
  CHECK(Make("int8")->ErrorBound(127.0f) == Approx(0.5).epsilon(1e-4));
  CHECK(Make("int8:stochastic")->ErrorBound(127.0f) == Approx(1.0).epsilon(1e-4));
  CHECK(Make("bf16")->ErrorBound(1.0f) == 0x1p-8);
}

TEST_CASE("values below zero are packed as exactly as those above") {
  for (const char* name : {"fp32", "bf16", "fp16", "int8:64", "int4:64", "fp4:64"}) {
    const auto codec = Make(name);
    std::vector<float> above = Values(640, 9);
    for (float& value : above) value = std::abs(value);
    std::vector<float> below = above;
    for (float& value : below) value = -value;
    std::vector<float> mirrored = Decode(*codec, Encode(*codec, below), below.size());
    for (float& value : mirrored) value = -value;
    INFO(name);
    CHECK(mirrored == Decode(*codec, Encode(*codec, above), above.size()));
  }
}

TEST_CASE("encoding decoded values again loses next to nothing") {
  // The largest level of an int8 block is 127, so its scale comes out again.
  for (const char* name : {"fp32", "bf16", "int8:64"}) {
    const auto codec = Make(name);
    const std::vector<float> once = Decode(*codec, Encode(*codec, Values(640, 5)), 640);
    const std::vector<float> twice = Decode(*codec, Encode(*codec, once), 640);
    double worst = 0.0;
    for (size_t i = 0; i < once.size(); ++i) {
      if (once[i] != 0.0f) worst = std::max(worst, std::abs(double{twice[i]} / once[i] - 1.0));
    }
    CHECK(worst <= 0x1p-22);  // the scale may differ in its last place
  }
}

TEST_CASE("packed bytes are cut where values are cut") {
  for (const char* name : kAll) {
    const auto codec = Make(name);
    const std::vector<float> values = Values(10'007, 3);
    const Bytes whole = Encode(*codec, values);
    const uint64_t step = codec->block() * 3;
    for (uint64_t begin = 0; begin < values.size(); begin += step) {
      const uint64_t end = std::min<uint64_t>(values.size(), begin + step);
      const Bytes piece = Encode(*codec, absl::MakeSpan(values).subspan(begin, end - begin), {.first = begin});
      const auto slice = absl::MakeSpan(whole).subspan(
          codec->PackedSize(begin), codec->PackedSize(end) - codec->PackedSize(begin));
      REQUIRE(absl::MakeConstSpan(piece) == absl::MakeConstSpan(slice));
    }
  }
}

TEST_CASE("decode-accumulate is decode, multiply, add, each rounded") {
  for (const char* name : kAll) {
    const auto codec = Make(name);
    const std::vector<float> values = Values(3001, 11);
    const Bytes packed = Encode(*codec, values);
    const std::vector<float> decoded = Decode(*codec, packed, values.size());
    const std::vector<float> start = Values(3001, 12);
    const float weight = 0.3f;
    std::vector<float> acc = start;
    REQUIRE(codec->DecodeAccumulate(packed, weight, absl::MakeSpan(acc)).ok());
    int wrong = 0;
    for (size_t i = 0; i < acc.size(); ++i) {
      const volatile float product = weight * decoded[i];  // volatile: no fused operation
      const volatile float sum = start[i] + product;
      wrong += std::bit_cast<uint32_t>(acc[i]) != std::bit_cast<uint32_t>(float{sum});
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("packed bytes of a wrong length are refused") {
  for (const char* name : kAll) {
    const auto codec = Make(name);
    const Bytes packed = Encode(*codec, Values(100, 2));
    std::vector<float> out(100);
    for (const size_t length : {size_t{0}, packed.size() - 1}) {
      const absl::Status status =
          codec->Decode(absl::MakeSpan(packed).first(length), absl::MakeSpan(out));
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK_THAT(std::string(status.message()),
                 Contains("expected " + std::to_string(packed.size())));
    }
    Bytes longer = packed;
    longer.push_back(0);
    CHECK(!codec->Decode(longer, absl::MakeSpan(out)).ok());
    CHECK(!codec->DecodeAccumulate(longer, 1.0f, absl::MakeSpan(out)).ok());
    CHECK(!codec->Decode(packed, absl::MakeSpan(out).first(50)).ok());
  }
}

TEST_CASE("packed bytes that no finite values give are refused") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf(""), -std::nanf("")}) {
    for (const char* name : kAll) {
      const auto codec = Make(name);
      Bytes packed = Encode(*codec, Values(100, 4));
      const uint32_t bits = std::bit_cast<uint32_t>(bad);
      const bool half = codec->PackedSize(1) == 2;
      // Levels, a scale or a value; a NaN or an infinity in bfloat16 is one in binary16 too.
      const size_t at = codec->block() > 1 ? 0 : 40;
      for (size_t i = 0; i < (half ? 2 : 4); ++i) {
        packed[at + i] = static_cast<uint8_t>(bits >> (8 * (i + (half ? 2 : 0))));
      }
      std::vector<float> out(100);
      INFO(name << " " << bad);
      CHECK(codec->Decode(packed, absl::MakeSpan(out)).code() ==
            absl::StatusCode::kInvalidArgument);
      CHECK(codec->DecodeAccumulate(packed, 1.0f, absl::MakeSpan(out)).code() ==
            absl::StatusCode::kInvalidArgument);
    }
  }
  const auto codec = Make("int8:64");
  std::vector<float> one(1);
  const auto decode = [&](float scale, uint8_t level) {
    const uint32_t bits = std::bit_cast<uint32_t>(scale);
    return codec->Decode(
        Bytes{uint8_t(bits), uint8_t(bits >> 8), uint8_t(bits >> 16), uint8_t(bits >> 24), level},
        absl::MakeSpan(one));
  };
  CHECK(decode(1.0f, 0x81).ok());
  CHECK(!decode(1.0f, 0x80).ok());  // -128
  CHECK(!decode(-1.0f, 1).ok());
  CHECK(!decode(-0.0f, 1).ok());
  CHECK(!decode(FLT_TRUE_MIN, 1).ok());  // subnormal
  CHECK(!decode(FLT_MAX, 1).ok());       // 127 times it would be infinite
  CHECK(decode(0x1.020406p+121f, 127).ok());
  CHECK(std::isfinite(one[0]));
  CHECK(!decode(0x1.020408p+121f, 127).ok());
}

TEST_CASE("values that are not finite are not encoded to words that pass for finite ones") {
  for (const char* name : {"fp32", "bf16", "fp16"}) {
    const auto codec = Make(name);
    std::vector<float> out(2);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      CHECK(!codec->Decode(Encode(*codec, {1.0f, bad}), absl::MakeSpan(out)).ok());
    }
  }
}

}  // namespace
}  // namespace gdf::compress
