// The kernels themselves, run on the CPU thread by thread, against core/compress, whose own bytes are
// checked against values worked out by hand.
#include <catch2/catch.hpp>

#include "cuda/codecs.h"
#include "tests/unit/cuda/cases.h"
#include "tests/unit/cuda/host_team.h"

namespace gdf::cuda {
namespace {

using compress::Codec;
using Bytes = std::vector<uint8_t>;

constexpr float kWeight = 0.3f;
constexpr uint8_t kFiller = 0xAA;
constexpr size_t kGuard = 64;  // bytes after an output that nothing may write

std::vector<uint32_t> Bits(absl::Span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// What kernels refuse of one codec's arrays: the place of the first value, or Refused::kNone.
struct OnHost {
  const Codec& codec;
  uint64_t num_values;
  unsigned long long refused = Refused::kNone;

  Arrays arrays() {
    refused = Refused::kNone;
    const compress::CodecSpec& spec = codec.spec();
    return {{static_cast<uint32_t>(spec.kind), spec.block, spec.k, spec.stochastic ? 1u : 0u},
            num_values, &compress::kDctTables, Refused(&refused)};
  }
  Bytes Encode(const std::vector<float>& values, const compress::Rounding& rounding) {
    Bytes packed(codec.PackedSize(num_values) + kGuard, kFiller);
    REQUIRE(EncodeWith(arrays(), values.data(), {rounding.seed, rounding.first}, packed.data(),
                       [](const auto& kernel) { RunOnHost(kernel, 1); }));
    REQUIRE(Bytes(packed.end() - kGuard, packed.end()) == Bytes(kGuard, kFiller));
    packed.resize(packed.size() - kGuard);
    return packed;
  }
  std::vector<float> Decode(const Bytes& packed) {
    return Unpack(std::vector<float>(num_values, 0.5f), [&](float* out) {
      return DecodeWith(arrays(), packed.data(), Put{out}, [](const auto& kernel) { RunOnHost(kernel, 2); });
    });
  }
  std::vector<float> Accumulate(const Bytes& packed, const std::vector<float>& start) {
    return Unpack(start, [&](float* out) {
      return DecodeWith(arrays(), packed.data(), Add{out, kWeight}, [](const auto& kernel) { RunOnHost(kernel, 3); });
    });
  }
  template <typename To>
  std::vector<float> Unpack(std::vector<float> values, To to) {
    values.resize(num_values + kGuard / sizeof(float), 7.0f);
    REQUIRE(to(values.data()));
    for (size_t i = num_values; i < values.size(); ++i) REQUIRE(values[i] == 7.0f);
    values.resize(num_values);
    return values;
  }
};

std::vector<size_t> Sizes(const Codec& codec) {
  const size_t block = std::max<uint64_t>(codec.block(), 64);
  return {0, 1, 3, 4, 15, 17, 63, 64, 65, 255, 257, 511, 1000, block - 1, block, block + 1, 2 * block + 130, 4101};
}

TEST_CASE("kernels encode, decode and accumulate as core/compress, bit for bit") {
  for (const char* name : kCodecs) {
    const auto codec = CodecOf(name);
    for (const size_t n : Sizes(*codec)) {
      const compress::Rounding rounding{.seed = 77 + n, .first = 3 * codec->block()};
      for (const Case& test : FiniteCases(n, static_cast<uint32_t>(n))) {
        INFO(name << ", " << test.name << ", " << n << " values");
        OnHost host{*codec, n};
        Bytes expected(codec->PackedSize(n));
        codec->Encode(test.values, absl::MakeSpan(expected), rounding);
        REQUIRE(host.Encode(test.values, rounding) == expected);
        REQUIRE(host.refused == Refused::kNone);

        std::vector<float> decoded(n), sums = test.values;
        REQUIRE(codec->Decode(expected, absl::MakeSpan(decoded)).ok());
        REQUIRE(Bits(host.Decode(expected)) == Bits(decoded));
        REQUIRE(host.refused == Refused::kNone);
        REQUIRE(codec->DecodeAccumulate(expected, kWeight, absl::MakeSpan(sums)).ok());
        REQUIRE(Bits(host.Accumulate(expected, test.values)) == Bits(sums));
        REQUIRE(host.refused == Refused::kNone);
      }
    }
  }
}

TEST_CASE("kernels draw by the place of a value, beyond 2^32 too") {
  constexpr size_t kNum = 1000;
  for (const char* name : {"int8:64:stochastic", "int4:1024:stochastic"}) {
    const auto codec = CodecOf(name);
    for (const compress::Rounding& rounding :
         {compress::Rounding{7, 0}, compress::Rounding{8, 0}, compress::Rounding{7, uint64_t{1} << 40},
          compress::Rounding{~uint64_t{0}, 1024}, compress::Rounding{uint64_t{1} << 63, (uint64_t{1} << 36) + 2048}}) {
      const std::vector<float> values = FiniteCases(kNum, 9)[0].values;
      Bytes expected(codec->PackedSize(kNum));
      codec->Encode(values, absl::MakeSpan(expected), rounding);
      OnHost host{*codec, kNum};
      REQUIRE(host.Encode(values, rounding) == expected);
    }
  }
}

TEST_CASE("a value that is not finite is refused, with the first block that holds one") {
  constexpr size_t kNum = 5000;
  for (const char* name : kCodecs) {
    const auto codec = CodecOf(name);
    for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
      for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{4097}, kNum - 1}) {
        INFO(name << ", " << bad << " at " << at);
        std::vector<float> values = FiniteCases(kNum, 5)[0].values;
        values[at] = values[kNum - 1] = bad;
        OnHost host{*codec, kNum};
        host.Encode(values, {});
        CHECK(host.refused == at / codec->block() * codec->block());
      }
    }
  }
}

TEST_CASE("packed bytes are refused exactly where core/compress refuses them") {
  for (const char* name : kCodecs) {
    const auto codec = CodecOf(name);
    size_t refused = 0, taken = 0;
    for (const size_t n : {size_t{1}, size_t{61}, size_t{64}, size_t{333}, codec->block() + 77}) {
      Bytes good(codec->PackedSize(n));
      const std::vector<float> values = FiniteCases(n, 6)[0].values;
      codec->Encode(values, absl::MakeSpan(good));
      for (const Bytes& form : DamagedForms(good, static_cast<uint32_t>(n))) {
        INFO(name << ", " << n << " values");
        std::vector<float> decoded(n), sums = values;
        const bool fine = codec->Decode(form, absl::MakeSpan(decoded)).ok();
        ++(fine ? taken : refused);
        OnHost host{*codec, n};
        const std::vector<float> on_host = host.Decode(form);
        REQUIRE((host.refused == Refused::kNone) == fine);
        if (fine) REQUIRE(Bits(on_host) == Bits(decoded));
        REQUIRE(codec->DecodeAccumulate(form, kWeight, absl::MakeSpan(sums)).ok() == fine);
        const std::vector<float> summed = host.Accumulate(form, values);
        REQUIRE((host.refused == Refused::kNone) == fine);
        if (fine) REQUIRE(Bits(summed) == Bits(sums));
      }
    }
    CHECK(refused > 0);
    CHECK(taken > 0);
  }
}

TEST_CASE("the first block that is refused is named") {
  const auto codec = CodecOf("int8:64");
  constexpr size_t kNum = 300;
  Bytes packed(codec->PackedSize(kNum));
  codec->Encode(FiniteCases(kNum, 5)[0].values, absl::MakeSpan(packed));
  packed[codec->PackedSize(256) + 4 + 43] = 0x80;
  OnHost host{*codec, kNum};
  host.Decode(packed);
  CHECK(host.refused == 256);
  packed[codec->PackedSize(128) + 3] = 0xFF;
  host.Decode(packed);
  CHECK(host.refused == 128);
}

TEST_CASE("a codec without kernels is told") {
  unsigned long long refused = Refused::kNone;
  const auto nothing = [](const auto&) { FAIL("a kernel ran"); };
  for (const uint32_t kind : {0u, 11u, 257u}) {
    const Arrays arrays{{kind, 64, 0, 0}, 1, nullptr, Refused(&refused)};
    CHECK(!EncodeWith(arrays, nullptr, {0, 0}, nullptr, nothing));
    CHECK(!DecodeWith(arrays, nullptr, Put{nullptr}, nothing));
  }
}

}  // namespace
}  // namespace gdf::cuda
