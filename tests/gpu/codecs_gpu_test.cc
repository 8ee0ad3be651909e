// The kernels on a device against core/compress, bit for bit.
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/compress/codec.h"
#include "tests/gpu/device.h"
#include "tests/unit/cuda/cases.h"

namespace gdf::cuda {
namespace {

using Catch::Matchers::Contains;
using compress::Codec;
using Bytes = std::vector<uint8_t>;

constexpr float kWeight = 0.3f;

template <typename T>
DeviceMemory Upload(Session& session, const std::vector<T>& from) {
  const uint64_t num_bytes = from.size() * sizeof(T);
  absl::StatusOr<DeviceMemory> memory = session.Allocate(num_bytes);
  REQUIRE(memory.ok());
  REQUIRE(session.CopyToDevice({reinterpret_cast<const uint8_t*>(from.data()), num_bytes}, *memory).ok());
  return *std::move(memory);
}

Bytes Download(Session& session, const DeviceMemory& from) {
  Bytes bytes(from.size());
  REQUIRE(session.CopyToHost(from, absl::MakeSpan(bytes)).ok());
  return bytes;
}

Bytes AsBytes(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// Said by its place: what differs may have millions of bytes.
void CheckSame(const Bytes& bytes, const Bytes& expected) {
  REQUIRE(bytes.size() == expected.size());
  const size_t at = std::mismatch(bytes.begin(), bytes.end(), expected.begin()).first - bytes.begin();
  INFO("the first byte that differs, of " << expected.size());
  REQUIRE(at == expected.size());
}

// Encodes, decodes and accumulates on both sides; the bytes and the values must be the same.
void CheckAgainstCpu(Session& session, const Codec& codec, const std::vector<float>& values) {
  const size_t n = values.size();
  const compress::Rounding rounding{.seed = n, .first = codec.block() << 30};
  Bytes expected(codec.PackedSize(n));
  codec.Encode(values, absl::MakeSpan(expected), rounding);
  std::vector<float> decoded(n), sums = values;
  REQUIRE(codec.Decode(expected, absl::MakeSpan(decoded)).ok());
  REQUIRE(codec.DecodeAccumulate(expected, kWeight, absl::MakeSpan(sums)).ok());

  DeviceMemory on_device = Upload(session, values);
  DeviceMemory packed = Upload(session, Bytes(expected.size(), 0xAA));
  REQUIRE(session.Encode(codec, on_device, n, packed, rounding).ok());
  CheckSame(Download(session, packed), expected);
  REQUIRE(session.DecodeAccumulate(codec, packed, n, kWeight, on_device).ok());
  CheckSame(Download(session, on_device), AsBytes(sums));
  REQUIRE(session.Decode(codec, packed, n, on_device).ok());
  CheckSame(Download(session, on_device), AsBytes(decoded));
}

TEST_CASE("kernels give the bytes and values of core/compress") {
  Session session = OpenFirstDevice().session;
  for (const char* name : kCodecs) {
    const auto codec = CodecOf(name);
    const size_t block = codec->block();
    for (const size_t n : {size_t{0}, size_t{1}, size_t{3}, size_t{65}, size_t{4095}, size_t{4101}, 9 * block, 9 * block + 131}) {
      for (const Case& test : FiniteCases(n, static_cast<uint32_t>(n + block))) {
        INFO(name << ", " << test.name << ", " << n << " values");
        CheckAgainstCpu(session, *codec, test.values);
      }
    }
  }
}

TEST_CASE("kernels loop over more items than a grid has teams") {
  Session session = OpenFirstDevice().session;
  std::mt19937 random(1);
  const std::vector<float> values = OneMagnitude((size_t{32} << 20) + 77, random);
  for (const char* name : kCodecs) {
    INFO(name);
    CheckAgainstCpu(session, *CodecOf(name), values);
  }
}

TEST_CASE("kernels refuse what core/compress refuses") {
  Session session = OpenFirstDevice().session;
  for (const char* name : kCodecs) {
    const auto codec = CodecOf(name);
    for (const size_t n : {size_t{333}, codec->block() + 77}) {
      INFO(name << ", " << n << " values");
      std::vector<float> values = FiniteCases(n, 6)[0].values, out(n);
      Bytes good(codec->PackedSize(n));
      codec->Encode(values, absl::MakeSpan(good));
      DeviceMemory on_device = Upload(session, values);
      DeviceMemory packed = Upload(session, good);
      for (const Bytes& form : DamagedForms(good, static_cast<uint32_t>(n))) {
        const bool fine = codec->Decode(form, absl::MakeSpan(out)).ok();
        REQUIRE(session.CopyToDevice(form, packed).ok());
        REQUIRE(session.Decode(*codec, packed, n, on_device).ok() == fine);
        REQUIRE(session.DecodeAccumulate(*codec, packed, n, kWeight, on_device).ok() == fine);
      }
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        values[200] = values[n - 1] = bad;
        DeviceMemory not_finite = Upload(session, values);
        const absl::Status status = session.Encode(*codec, not_finite, n, packed);
        CHECK(status.code() == absl::StatusCode::kInvalidArgument);
        const size_t begin = 200 / codec->block() * codec->block();
        CHECK_THAT(std::string(status.message()), Contains("from value " + std::to_string(begin) + " on there is NaN"));
      }
    }
  }
}

}  // namespace
}  // namespace gdf::cuda
