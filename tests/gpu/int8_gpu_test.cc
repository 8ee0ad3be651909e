// The kernels on a device against core/compress, bit for bit.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "core/compress/codec.h"
#include "cuda/loader.h"
#include "tests/unit/cuda/int8_cases.h"

namespace gdf::cuda {
namespace {

using Catch::Matchers::Contains;
using compress::Codec;

// A session on the first device; without one the test is skipped.
Session OpenDevice() {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(GDF_CUDA_PLUGIN);
  INFO(plugin.status().ToString());
  REQUIRE(plugin.ok());
  const auto devices = plugin->Devices();
  if (!devices.ok()) {
    std::cerr << "skipped: " << devices.status() << std::endl;
    std::exit(77);
  }
  absl::StatusOr<Session> session = plugin->Open(0);
  INFO(session.status().ToString());
  REQUIRE(session.ok());
  return *std::move(session);
}

template <typename T>
DeviceMemory Upload(Session& session, const std::vector<T>& from) {
  const uint64_t num_bytes = from.size() * sizeof(T);
  absl::StatusOr<DeviceMemory> memory = session.Allocate(num_bytes);
  REQUIRE(memory.ok());
  REQUIRE(session.CopyToDevice({reinterpret_cast<const uint8_t*>(from.data()), num_bytes}, *memory)
              .ok());
  return *std::move(memory);
}

std::vector<uint8_t> Download(Session& session, const DeviceMemory& from) {
  std::vector<uint8_t> bytes(from.size());
  REQUIRE(session.CopyToHost(from, absl::MakeSpan(bytes)).ok());
  return bytes;
}

std::unique_ptr<Codec> Int8(uint32_t block) {
  return *Codec::Create({compress::CodecKind::kInt8, block});
}

// Encodes and decodes on both sides; the bytes and the values must be the same.
void CheckAgainstCpu(Session& session, const std::vector<float>& values, uint32_t block) {
  const auto codec = Int8(block);
  std::vector<uint8_t> expected(codec->PackedSize(values.size()));
  codec->Encode(values, absl::MakeSpan(expected));
  std::vector<float> decoded(values.size());
  REQUIRE(codec->Decode(expected, absl::MakeSpan(decoded)).ok());

  DeviceMemory on_device = Upload(session, values);
  DeviceMemory packed = Upload(session, std::vector<uint8_t>(expected.size(), 0xAA));
  REQUIRE(session.EncodeInt8(on_device, values.size(), block, packed).ok());
  REQUIRE(Download(session, packed) == expected);
  DeviceMemory out = Upload(session, std::vector<float>(values.size(), 1.0f));
  REQUIRE(session.DecodeInt8(packed, values.size(), block, out).ok());
  const auto* bytes = reinterpret_cast<const uint8_t*>(decoded.data());
  REQUIRE(Download(session, out) ==
          std::vector<uint8_t>(bytes, bytes + decoded.size() * sizeof(float)));
}

TEST_CASE("int8 kernels give the bytes and values of core/compress") {
  Session session = OpenDevice();
  for (const uint32_t block : {64u, 128u, 256u, 1024u, 4096u}) {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{3}, size_t{65}, size_t{4095}, size_t{4101},
                           size_t{100} * block, size_t{100} * block + 131}) {
      for (const Int8Case& test : FiniteCases(n, static_cast<uint32_t>(n) + block)) {
        INFO(test.name << ", " << n << " values, block " << block);
        CheckAgainstCpu(session, test.values, block);
      }
    }
  }
}

TEST_CASE("int8 kernels loop over more blocks than a grid has warps") {
  Session session = OpenDevice();
  constexpr size_t kNum = (size_t{64} << 20) + 77;
  CheckAgainstCpu(session, FiniteCases(kNum, 1)[0].values, 64);
}

TEST_CASE("int8 kernels refuse what core/compress refuses") {
  Session session = OpenDevice();
  constexpr uint32_t kBlock = 64;
  constexpr size_t kNum = 300;
  const auto codec = Int8(kBlock);
  const std::vector<float> good = FiniteCases(kNum, 5)[0].values;
  DeviceMemory packed = Upload(session, std::vector<uint8_t>(codec->PackedSize(kNum)));
  const auto says = [](const absl::Status& status, const char* text) {
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains(text));
  };
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> values = good;
    values[130] = values[299] = bad;
    DeviceMemory on_device = Upload(session, values);
    says(session.EncodeInt8(on_device, kNum, kBlock, packed), "block at value 128 holds a value");
  }
  std::vector<uint8_t> bytes(codec->PackedSize(kNum));
  codec->Encode(good, absl::MakeSpan(bytes));
  DeviceMemory out = Upload(session, good);
  for (const float scale : {-0.0f, -1.0f, NAN, INFINITY, FLT_MIN / 2, 0x1.020408p+121f}) {
    std::vector<uint8_t> changed = bytes;
    std::memcpy(changed.data() + Int8PackedBegin(64, kBlock), &scale, sizeof(scale));
    DeviceMemory bad = Upload(session, changed);
    says(session.DecodeInt8(bad, kNum, kBlock, out), "block at value 64 holds a scale");
  }
  bytes[Int8PackedBegin(256, kBlock) + kInt8ScaleBytes + 43] = 0x80;
  DeviceMemory bad = Upload(session, bytes);
  says(session.DecodeInt8(bad, kNum, kBlock, out), "block at value 256 holds -128");
  says(session.DecodeInt8(bad, kNum, 100, out), "block is 100");
}

}  // namespace
}  // namespace gdf::cuda
