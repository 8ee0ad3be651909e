// The kernels' arithmetic, run on the CPU lane by lane, against core/compress, whose own bytes are
// checked against values worked out by hand.
#include "cuda/int8_block.h"

#include <catch2/catch.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/compress/codec.h"
#include "tests/unit/cuda/int8_cases.h"

namespace gdf::cuda {
namespace {

using compress::Codec;
using compress::CodecKind;

constexpr uint32_t kWarp = 32;

std::unique_ptr<Codec> Int8(uint32_t block) {
  return *Codec::Create({.kind = CodecKind::kInt8, .block = block});
}

// Room for `n` packed bytes, aligned as device memory is.
struct alignas(256) Line {
  uint8_t bytes[256];
};
struct Packed {
  explicit Packed(size_t n) : lines(n / sizeof(Line) + 1), size(n) {}
  uint8_t* data() { return lines.data()->bytes; }
  absl::Span<uint8_t> span() { return {data(), size}; }
  std::vector<Line> lines;
  size_t size;
};

std::vector<int32_t> Bits(absl::Span<const float> values) {
  std::vector<int32_t> bits;
  for (const float value : values) bits.push_back(BitsOf(value));
  return bits;
}

TEST_CASE("block sizes of the kernels are those of the format") {
  for (uint32_t block = 0; block <= 9000; ++block) {
    const bool known = Codec::Create({.kind = CodecKind::kInt8, .block = block}).ok();
    if (known != IsInt8Block(block)) FAIL("block " << block);
  }
}

TEST_CASE("lanes encode and decode as core/compress, bit for bit") {
  for (const uint32_t block : {64u, 128u, 256u, 1024u, 4096u}) {
    const auto codec = Int8(block);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{3}, size_t{4}, size_t{63}, size_t{64},
                           size_t{65}, size_t{255}, size_t{257}, size_t{4095}, size_t{4101},
                           size_t{3} * block, size_t{3} * block + 130}) {
      for (const Int8Case& test : FiniteCases(n, static_cast<uint32_t>(n) + block)) {
        INFO(test.name << ", " << n << " values, block " << block);
        Packed expected(codec->PackedSize(n));
        codec->Encode(test.values, expected.span());
        Packed packed(codec->PackedSize(n));
        REQUIRE(EncodeInLanes(test.values.data(), n, block, kWarp, packed.data()) ==
                kNothingRefused);
        REQUIRE(packed.span() == expected.span());

        std::vector<float> decoded(n);
        REQUIRE(codec->Decode(packed.span(), absl::MakeSpan(decoded)).ok());
        std::vector<float> in_lanes(n);
        REQUIRE(DecodeInLanes(packed.data(), n, block, kWarp, in_lanes.data()) == kNothingRefused);
        REQUIRE(Bits(in_lanes) == Bits(decoded));
      }
    }
  }
}

TEST_CASE("the number of lanes changes nothing") {
  constexpr uint32_t kBlock = 256;
  for (const Int8Case& test : FiniteCases(700, 11)) {
    Packed one(Int8(kBlock)->PackedSize(700));
    Packed many(one.size);
    EncodeInLanes(test.values.data(), 700, kBlock, 1, one.data());
    EncodeInLanes(test.values.data(), 700, kBlock, 64, many.data());
    CHECK(one.span() == many.span());
  }
}

TEST_CASE("a value that is not finite is refused, with the first block that holds one") {
  constexpr uint32_t kBlock = 64;
  constexpr size_t kNum = 300;
  const auto codec = Int8(kBlock);
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{299}}) {
      std::vector<float> values = FiniteCases(kNum, 5)[0].values;
      values[at] = bad;
      values[kNum - 1] = bad;
      Packed packed(codec->PackedSize(kNum));
      CHECK(EncodeInLanes(values.data(), kNum, kBlock, kWarp, packed.data()) ==
            Refusal(at / kBlock * kBlock, true));
    }
  }
}

TEST_CASE("packed bytes are refused where core/compress refuses them") {
  constexpr uint32_t kBlock = 64;
  constexpr size_t kNum = 200;
  const auto codec = Int8(kBlock);
  const std::vector<float> values = FiniteCases(kNum, 6)[0].values;
  Packed good(codec->PackedSize(kNum));
  codec->Encode(values, good.span());
  std::vector<float> out(kNum);
  const auto check = [&](Packed bad, uint64_t refusal) {
    const absl::Status status = codec->Decode(bad.span(), absl::MakeSpan(out));
    CHECK(DecodeInLanes(bad.data(), kNum, kBlock, kWarp, out.data()) == refusal);
    CHECK(status.ok() == (refusal == kNothingRefused));
    if (status.ok()) return;
    CHECK_THAT(std::string(status.message()),
               Catch::Matchers::Contains(absl::StrCat("block at value ", refusal / 2, " ")));
  };
  const auto with_scale = [&](float scale) {
    Packed bad = good;
    std::memcpy(bad.data() + Int8PackedBegin(128, kBlock), &scale, sizeof(scale));
    return bad;
  };
  for (const float scale : {-0.0f, -1.0f, NAN, INFINITY, FLT_MIN / 2, 0x1.020408p+121f, FLT_MAX}) {
    INFO(scale);
    check(with_scale(scale), Refusal(128, false));
  }
  for (const float scale : {0.0f, FLT_MIN, 1.0f, 0x1.020406p+121f}) {
    INFO(scale);
    check(with_scale(scale), kNothingRefused);
  }
  for (const size_t at : {size_t{0}, size_t{3}, size_t{63}, size_t{64}, size_t{199}}) {
    Packed bad = good;
    const size_t begin = at / kBlock * kBlock;
    bad.data()[Int8PackedBegin(begin, kBlock) + kInt8ScaleBytes + at - begin] = 0x80;
    check(bad, Refusal(begin, true));
  }
  Packed both = with_scale(-1.0f);
  both.data()[kInt8ScaleBytes] = 0x80;
  check(both, Refusal(0, true));
}

}  // namespace
}  // namespace gdf::cuda
