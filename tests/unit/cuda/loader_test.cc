// The loader against plugins that are missing, foreign, outdated or without a device, and its typed
// functions against a plugin whose device is the host. No GPU is needed.
#include "cuda/loader.h"

#include <catch2/catch.hpp>

#include "core/compress/codec.h"
#include "tests/unit/cuda/cases.h"

namespace gdf::cuda {
namespace {

using Catch::Matchers::Contains;

std::string Fake(const std::string& name) { return GDF_FAKE_FOLDER "/fake_" + name + ".so"; }

void Refused(const absl::Status& status, absl::StatusCode code, const std::string& says) {
  INFO(status.ToString());
  CHECK(status.code() == code);
  CHECK_THAT(std::string(status.message()), Contains(says));
}

void LoadRefused(const std::string& path, absl::StatusCode code, const std::string& says) {
  const absl::Status status = Plugin::Load(path).status();
  Refused(status, code, says);
  CHECK_THAT(std::string(status.message()), Contains(path));
}

absl::Span<const uint8_t> AsBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

TEST_CASE("what is no plugin of this version is refused, and the error says why") {
  using absl::StatusCode;
  LoadRefused("/nowhere/libgdf_cuda.so", StatusCode::kNotFound, "No such file");
  LoadRefused("libgdf_cuda_of_no_folder.so", StatusCode::kNotFound, "No such file");
  LoadRefused(GDF_SOURCE_DIR "/CMakeLists.txt", StatusCode::kFailedPrecondition,
              "invalid ELF header");
  LoadRefused(Fake("stranger"), StatusCode::kFailedPrecondition, "has no function gdf_cuda_plugin");
  LoadRefused(Fake("other_version"), StatusCode::kFailedPrecondition,
              "version 5 of 144 bytes, expected version 4 of 144 bytes");
  LoadRefused(Fake("other_size"), StatusCode::kFailedPrecondition,
              "version 4 of 152 bytes, expected version 4 of 144 bytes");
  LoadRefused(Fake("incomplete"), StatusCode::kFailedPrecondition, "is missing");
  LoadRefused(Fake("empty"), StatusCode::kFailedPrecondition, "gave no functions");
}

TEST_CASE("a machine without driver or device gets a plugin, and an error that says so") {
  using absl::StatusCode;
  const absl::StatusOr<Plugin> driverless = Plugin::Load(Fake("driverless"));
  REQUIRE(driverless.ok());
  Refused(driverless->Devices().status(), StatusCode::kFailedPrecondition, "no NVIDIA driver");
  const absl::StatusOr<Plugin> deviceless = Plugin::Load(Fake("deviceless"));
  REQUIRE(deviceless.ok());
  Refused(deviceless->Devices().status(), StatusCode::kNotFound, "shows no device");
}

TEST_CASE(
    "a plugin's message is cut where its room ends, and an unknown code is an internal error") {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("endless_message"));
  REQUIRE(plugin.ok());
  const absl::Status status = plugin->Devices().status();
  Refused(status, absl::StatusCode::kInternal, "xxx");
  CHECK(status.message().size() == std::string("CUDA: ").size() + sizeof(GdfCudaError::message));
}

TEST_CASE("devices are described and opened by number") {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("good"));
  REQUIRE(plugin.ok());
  const auto devices = plugin->Devices();
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 2);
  CHECK(devices->at(1).name == "fake 1");
  CHECK(devices->at(1).major == 9);
  CHECK(devices->at(1).total_bytes == 1 << 20);
  CHECK(devices->at(1).memory_bytes_per_sec == 2'000'000'000);
  CHECK(plugin->Open(1).ok());
  Refused(plugin->Open(2).status(), absl::StatusCode::kNotFound, "device 2, expected 0 to 1");
}

TEST_CASE("values go through a session and come back as core/compress would give them") {
  constexpr size_t kNum = 1000;
  const compress::Rounding rounding{.seed = 5, .first = 8192};
  const std::vector<float> values = FiniteCases(kNum, 3)[0].values;
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("good"));
  absl::StatusOr<Session> session = plugin->Open(0);
  REQUIRE(session.ok());
  absl::StatusOr<DeviceMemory> in = session->Allocate(kNum * sizeof(float));
  const auto check = [&](const std::vector<float>& expected) {
    std::vector<uint8_t> out(kNum * sizeof(float));
    REQUIRE(session->CopyToHost(*in, absl::MakeSpan(out)).ok());
    CHECK(AsBytes(expected) == absl::Span<const uint8_t>(out));
  };
  for (const char* name : kCodecs) {
    INFO(name);
    const auto codec = CodecOf(name);
    std::vector<uint8_t> expected(codec->PackedSize(kNum));
    codec->Encode(values, absl::MakeSpan(expected), rounding);
    absl::StatusOr<DeviceMemory> packed = session->Allocate(expected.size());
    REQUIRE((in.ok() && packed.ok()));
    REQUIRE(session->CopyToDevice(AsBytes(values), *in).ok());
    REQUIRE(session->Encode(*codec, *in, kNum, *packed, rounding).ok());
    std::vector<uint8_t> bytes(expected.size());
    REQUIRE(session->CopyToHost(*packed, absl::MakeSpan(bytes)).ok());
    CHECK(bytes == expected);

    std::vector<float> sums = values;
    REQUIRE(codec->DecodeAccumulate(expected, 0.7f, absl::MakeSpan(sums)).ok());
    REQUIRE(session->DecodeAccumulate(*codec, *packed, kNum, 0.7f, *in).ok());
    check(sums);
    REQUIRE(codec->Decode(expected, absl::MakeSpan(sums)).ok());
    REQUIRE(session->Decode(*codec, *packed, kNum, *in).ok());
    check(sums);
  }
}

TEST_CASE("a session copies on the device, and gives the device's time of the copy or codec that was last") {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("good"));
  absl::StatusOr<Session> session = plugin->Open(0);
  absl::StatusOr<DeviceMemory> from = session->Allocate(4000), to = session->Allocate(4000);
  REQUIRE((from.ok() && to.ok()));
  const std::vector<float> values = FiniteCases(1000, 4)[0].values, zeros(1000);
  REQUIRE(session->CopyToDevice(AsBytes(values), *from).ok());
  REQUIRE(session->CopyToDevice(AsBytes(zeros), *to).ok());
  REQUIRE(session->CopyOnDevice(*from, *to, 2000).ok());
  CHECK(*session->DeviceTime() == absl::Nanoseconds(2000 * 2));
  std::vector<float> expected = zeros;
  std::copy_n(values.begin(), 500, expected.begin());
  std::vector<uint8_t> out(4000);
  REQUIRE(session->CopyToHost(*to, absl::MakeSpan(out)).ok());
  CHECK(AsBytes(expected) == absl::Span<const uint8_t>(out));

  REQUIRE(session->Encode(*CodecOf("fp32"), *from, 1000, *to).ok());
  CHECK(*session->DeviceTime() == absl::Nanoseconds(1000 * 8));
}

TEST_CASE("a session refuses memory that is too short, and hands on what the plugin refuses") {
  using absl::StatusCode;
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("good"));
  absl::StatusOr<Session> session = plugin->Open(0);
  absl::StatusOr<DeviceMemory> values = session->Allocate(400);
  absl::StatusOr<DeviceMemory> packed = session->Allocate(108);
  REQUIRE((values.ok() && packed.ok()));
  Refused(session->Allocate(uint64_t{1} << 40).status(), StatusCode::kResourceExhausted, "memory");
  std::vector<uint8_t> host(401);
  Refused(session->CopyToDevice(host, *values), StatusCode::kInvalidArgument,
          "has 400 bytes, expected 401");
  Refused(session->CopyToHost(*values, absl::MakeSpan(host)), StatusCode::kInvalidArgument,
          "has 400 bytes, expected 401");
  constexpr const char* kTooShortToCopy = "has 108 bytes, expected 109";
  Refused(session->CopyOnDevice(*values, *packed, 109), StatusCode::kInvalidArgument, kTooShortToCopy);
  Refused(session->CopyOnDevice(*packed, *values, 109), StatusCode::kInvalidArgument, kTooShortToCopy);
  host.assign(400, 0);
  REQUIRE(session->CopyToDevice(host, *values).ok());

  // 100 values in blocks of 64: two scales.
  const auto codec = CodecOf("int8:64");
  CHECK(session->Encode(*codec, *values, 100, *packed).ok());
  CHECK(session->Decode(*codec, *packed, 100, *values).ok());
  CHECK(session->DecodeAccumulate(*codec, *packed, 100, 1.0f, *values).ok());
  Refused(session->Encode(*codec, *values, 101, *packed), StatusCode::kInvalidArgument,
          "values has 400 bytes, expected 404");
  absl::StatusOr<DeviceMemory> small = session->Allocate(107);
  constexpr const char* kTooShort = "packed bytes has 107 bytes, expected 108";
  Refused(session->Encode(*codec, *values, 100, *small), StatusCode::kInvalidArgument, kTooShort);
  Refused(session->Decode(*codec, *small, 100, *values), StatusCode::kInvalidArgument, kTooShort);
  Refused(session->DecodeAccumulate(*codec, *small, 100, 1.0f, *values), StatusCode::kInvalidArgument, kTooShort);
  Refused(session->Encode(*codec, *values, ~uint64_t{0}, *packed), StatusCode::kInvalidArgument,
          "expected at most");

  std::vector<float> not_finite(100, NAN);
  REQUIRE(session->CopyToDevice(AsBytes(not_finite), *values).ok());
  constexpr const char* kRefused = "int8:64: CUDA: refused";
  Refused(session->Encode(*codec, *values, 100, *packed), StatusCode::kInvalidArgument, kRefused);
  Refused(session->Decode(*codec, *packed, 100, *values), StatusCode::kInvalidArgument, kRefused);
  Refused(session->DecodeAccumulate(*codec, *packed, 100, 1.0f, *values), StatusCode::kInvalidArgument, kRefused);
}

#ifdef GDF_CUDA_PLUGIN
TEST_CASE("devices of a group add up and copy among themselves") {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(Fake("good"));
  REQUIRE(plugin.ok());
  absl::StatusOr<Group> group = plugin->OpenGroup(2);
  REQUIRE(group.ok());
  CHECK(group->num_devices() == 2);
  std::vector<float> first = {1, 2, 3}, second = {10, 20, 30};
  float* const buffers[] = {first.data(), second.data()};
  REQUIRE(group->Reduce(buffers, 2).ok());
  CHECK(first == std::vector<float>{11, 22, 3});
  CHECK(second == std::vector<float>{10, 20, 30});
  REQUIRE(group->Broadcast(buffers, 3).ok());
  CHECK(second == first);

  Refused(plugin->OpenGroup(3).status(), absl::StatusCode::kNotFound, "expected 2 to 2");
  Refused(Plugin::Load(Fake("half_old"))->OpenGroup(2).status(), absl::StatusCode::kFailedPrecondition,
          "NCCL cannot be loaded");
}

TEST_CASE("the real plugin loads on a machine without driver or device, and says what is missing") {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(GDF_CUDA_PLUGIN);
  INFO(plugin.status().ToString());
  REQUIRE(plugin.ok());
  const auto devices = plugin->Devices();
  if (devices.ok()) {
    CHECK(!devices->empty());
    Refused(plugin->Open(static_cast<int>(devices->size())).status(), absl::StatusCode::kNotFound,
            "expected 0 to");
    return;
  }
  const auto code = devices.status().code();
  INFO(devices.status().ToString());
  CHECK((code == absl::StatusCode::kNotFound || code == absl::StatusCode::kFailedPrecondition));
  CHECK_THAT(std::string(devices.status().message()), Contains("NVIDIA driver"));
  CHECK(plugin->Open(0).status() == devices.status());
}
#endif

}  // namespace
}  // namespace gdf::cuda
