// A plugin whose device is the host's memory and whose threads run one after the other. GDF_FAKE says
// in what it differs from a good one.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/codecs.h"
#include "cuda/plugin.h"
#include "tests/unit/cuda/host_team.h"

#define GDF_FAKE_GOOD 0
#define GDF_FAKE_OTHER_VERSION 1
#define GDF_FAKE_OTHER_SIZE 2
#define GDF_FAKE_INCOMPLETE 3
#define GDF_FAKE_EMPTY 4
#define GDF_FAKE_STRANGER 5
#define GDF_FAKE_DRIVERLESS 6
#define GDF_FAKE_DEVICELESS 7
#define GDF_FAKE_ENDLESS_MESSAGE 8
#define GDF_FAKE_HALF_OLD 9  // the second device
#define GDF_FAKE_FULL 10     // no room to encode
#define GDF_FAKE_CROWDED 11  // no room at all

struct GdfCudaSession {
  double seconds = 0;  // of the last copy or codec
};

struct GdfCudaGroup {
  int32_t num_devices;
};

namespace {

using namespace gdf;
using namespace gdf::cuda;

constexpr uint64_t kDeviceBytes = 1 << 20;
constexpr uint64_t kMemoryBytesPerSec = 2'000'000'000;
// By the device's clock. So a copy, which reads and writes each byte, moves 1 GB/s; so does codec fp32.
constexpr double kSecondsPerByte = 2e-9, kSecondsPerValue = 8e-9;

int32_t Fail(GdfCudaError* error, int32_t code, const char* message) {
  std::snprintf(error->message, sizeof(error->message), "%s", message);
  return code;
}

int32_t CountDevices(int32_t* count, GdfCudaError* error) {
  if (GDF_FAKE == GDF_FAKE_DRIVERLESS) {
    return Fail(error, GDF_CUDA_NO_DRIVER, "no NVIDIA driver is loaded");
  }
  if (GDF_FAKE == GDF_FAKE_DEVICELESS) {
    return Fail(error, GDF_CUDA_NO_DEVICE, "the NVIDIA driver shows no device");
  }
  if (GDF_FAKE == GDF_FAKE_ENDLESS_MESSAGE) {
    std::memset(error->message, 'x', sizeof(error->message));
    return 99;
  }
  *count = 2;
  return GDF_CUDA_OK;
}

int32_t DescribeDevice(int32_t device, GdfCudaDevice* description, GdfCudaError*) {
  std::snprintf(description->name, sizeof(description->name), "fake %d", static_cast<int>(device));
  description->major = GDF_FAKE == GDF_FAKE_HALF_OLD && device == 1 ? 7 : 9;
  description->total_bytes = kDeviceBytes;
  description->memory_bytes_per_sec = kMemoryBytesPerSec;
  return GDF_CUDA_OK;
}

int32_t OpenSession(int32_t device, GdfCudaSession** session, GdfCudaError* error) {
  if (device < 0 || device > 1) return Fail(error, GDF_CUDA_NO_DEVICE, "device 2, expected 0 to 1");
  *session = new GdfCudaSession;
  return GDF_CUDA_OK;
}

void CloseSession(GdfCudaSession* session) { delete session; }

int32_t Allocate(GdfCudaSession*, uint64_t bytes, void** memory, GdfCudaError* error) {
  if (bytes > kDeviceBytes || GDF_FAKE == GDF_FAKE_CROWDED) return Fail(error, GDF_CUDA_OUT_OF_MEMORY, "out of memory");
  *memory = std::aligned_alloc(256, (bytes / 256 + 1) * 256);
  return GDF_CUDA_OK;
}

void Release(GdfCudaSession*, void* memory) { std::free(memory); }

int32_t Copy(GdfCudaSession*, void* to, const void* from, uint64_t bytes, GdfCudaError*) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return GDF_CUDA_OK;
}

int32_t CopyOnDevice(GdfCudaSession* session, void* to, const void* from, uint64_t bytes, GdfCudaError* error) {
  session->seconds = static_cast<double>(bytes) * kSecondsPerByte;
  return Copy(session, to, from, bytes, error);
}

int32_t DeviceTime(GdfCudaSession* session, double* seconds, GdfCudaError*) {
  *seconds = session->seconds;
  return GDF_CUDA_OK;
}

// Runs start(arrays, run), which says which kernel.
template <typename Start>
int32_t RunCodec(GdfCudaSession* session, const GdfCudaCodec& codec, uint64_t num_values, GdfCudaError* error, Start start) {
  session->seconds = static_cast<double>(num_values) * kSecondsPerValue;
  unsigned long long refused = Refused::kNone;
  const bool known = start(Arrays{codec, num_values, &compress::kDctTables, Refused(&refused)}, [](const auto& kernel) { RunOnHost(kernel, 0); });
  if (!known) return Fail(error, GDF_CUDA_INVALID_ARGUMENT, "unknown codec");
  return refused == Refused::kNone ? GDF_CUDA_OK : Fail(error, GDF_CUDA_BAD_DATA, "refused");
}

int32_t Encode(GdfCudaSession* session, const GdfCudaCodec* codec, const float* values, uint64_t num_values, uint64_t seed,
               uint64_t first, uint8_t* packed, GdfCudaError* error) {
  if (GDF_FAKE == GDF_FAKE_FULL) return Fail(error, GDF_CUDA_OUT_OF_MEMORY, "out of memory");
  return RunCodec(session, *codec, num_values, error, [&](const auto& arrays, auto run) {
    return EncodeWith(arrays, values, {seed, first}, packed, run);
  });
}

int32_t Decode(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed, uint64_t num_values, float* values,
               GdfCudaError* error) {
  return RunCodec(session, *codec, num_values, error, [&](const auto& arrays, auto run) {
    return DecodeWith(arrays, packed, Put{values}, run);
  });
}

int32_t Accumulate(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed, uint64_t num_values, float weight,
                   float* acc, GdfCudaError* error) {
  return RunCodec(session, *codec, num_values, error, [&](const auto& arrays, auto run) {
    return DecodeWith(arrays, packed, Add{acc, weight}, run);
  });
}

int32_t OpenGroup(int32_t num_devices, GdfCudaGroup** group, GdfCudaError* error) {
  if (num_devices != 2) return Fail(error, GDF_CUDA_NO_DEVICE, "a group of 3 devices, expected 2 to 2");
  if (GDF_FAKE == GDF_FAKE_HALF_OLD) return Fail(error, GDF_CUDA_NO_NCCL, "NCCL cannot be loaded");
  *group = new GdfCudaGroup{num_devices};
  return GDF_CUDA_OK;
}

void CloseGroup(GdfCudaGroup* group) { delete group; }

int32_t Reduce(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError*) {
  for (int32_t device = 1; device < group->num_devices; ++device) {
    for (uint64_t i = 0; i < num_values; ++i) buffers[0][i] += buffers[device][i];
  }
  return GDF_CUDA_OK;
}

int32_t Broadcast(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError*) {
  for (int32_t device = 1; device < group->num_devices; ++device) {
    std::memcpy(buffers[device], buffers[0], num_values * sizeof(float));
  }
  return GDF_CUDA_OK;
}

}  // namespace

#if GDF_FAKE == GDF_FAKE_STRANGER
#define gdf_cuda_plugin some_other_plugin
#endif
extern "C" const GdfCudaPlugin* gdf_cuda_plugin() {
  static const GdfCudaPlugin plugin = {
      .abi_version = GDF_CUDA_ABI_VERSION + (GDF_FAKE == GDF_FAKE_OTHER_VERSION ? 1 : 0),
      .struct_bytes = sizeof(GdfCudaPlugin) + (GDF_FAKE == GDF_FAKE_OTHER_SIZE ? 8 : 0),
      .count_devices = CountDevices,
      .describe_device = DescribeDevice,
      .open_session = OpenSession,
      .close_session = CloseSession,
      .allocate = Allocate,
      .release = Release,
      .copy_to_device = Copy,
      .copy_to_host = Copy,
      .copy_on_device = CopyOnDevice,
      .encode = Encode,
      .decode = Decode,
      .accumulate = GDF_FAKE == GDF_FAKE_INCOMPLETE ? nullptr : &Accumulate,
      .device_time = DeviceTime,
      .open_group = OpenGroup,
      .close_group = CloseGroup,
      .reduce = Reduce,
      .broadcast = Broadcast,
  };
  return GDF_FAKE == GDF_FAKE_EMPTY ? nullptr : &plugin;
}
