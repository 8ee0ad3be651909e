#include "cuda/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace gdf::cuda {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The plugin writes the message; how long it is, is for us to say.
std::string TextOf(const char* text, size_t room) { return std::string(text, strnlen(text, room)); }

absl::StatusCode CodeOf(int32_t result) {
  switch (result) {
    case GDF_CUDA_NO_DRIVER:
    case GDF_CUDA_NO_NCCL:
      return absl::StatusCode::kFailedPrecondition;
    case GDF_CUDA_NO_DEVICE:
      return absl::StatusCode::kNotFound;
    case GDF_CUDA_INVALID_ARGUMENT:
    case GDF_CUDA_BAD_DATA:
      return absl::StatusCode::kInvalidArgument;
    case GDF_CUDA_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Calls one of the plugin's functions that take an error last.
template <typename Function, typename... Arguments>
absl::Status Call(Function function, Arguments... arguments) {
  GdfCudaError error = {};
  const int32_t result = function(arguments..., &error);
  if (result == GDF_CUDA_OK) return absl::OkStatus();
  return absl::Status(CodeOf(result),
                      absl::StrCat("CUDA: ", TextOf(error.message, sizeof(error.message))));
}

absl::Status CheckTable(const std::string& path, const GdfCudaPlugin* plugin) {
  if (plugin == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA plugin ", path, ": ", GDF_CUDA_ENTRY_POINT, " gave no functions"));
  }
  if (plugin->abi_version != GDF_CUDA_ABI_VERSION ||
      plugin->struct_bytes != sizeof(GdfCudaPlugin)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CUDA plugin ", path, ": its interface has version ", plugin->abi_version, " of ",
        plugin->struct_bytes, " bytes, expected version ", GDF_CUDA_ABI_VERSION, " of ",
        sizeof(GdfCudaPlugin), " bytes; install gdf-worker and the plugin of one release"));
  }
  if (plugin->count_devices == nullptr || plugin->describe_device == nullptr ||
      plugin->open_session == nullptr || plugin->close_session == nullptr ||
      plugin->allocate == nullptr || plugin->release == nullptr ||
      plugin->copy_to_device == nullptr || plugin->copy_to_host == nullptr ||
      plugin->copy_on_device == nullptr || plugin->encode == nullptr || plugin->decode == nullptr ||
      plugin->accumulate == nullptr || plugin->device_time == nullptr || plugin->open_group == nullptr ||
      plugin->close_group == nullptr || plugin->reduce == nullptr || plugin->broadcast == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA plugin ", path, ": a function of its interface is missing"));
  }
  return absl::OkStatus();
}

absl::Status CheckRoom(const char* what, uint64_t num_bytes, uint64_t needed) {
  if (num_bytes >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("CUDA: ", what, " has ", num_bytes, " bytes, expected ", needed));
}

absl::Status CheckMemory(const compress::Codec& codec, uint64_t num_values, const DeviceMemory& values,
                         const DeviceMemory& packed) {
  constexpr uint64_t kMaxValues = uint64_t{1} << 48;  // no product below can overflow
  if (num_values > kMaxValues) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA: ", num_values, " values, expected at most ", kMaxValues));
  }
  GDF_RETURN_IF_ERROR(CheckRoom("memory of values", values.size(), num_values * sizeof(float)));
  return CheckRoom("memory of packed bytes", packed.size(), codec.PackedSize(num_values));
}

GdfCudaCodec CodecOf(const compress::Codec& codec) {
  const compress::CodecSpec& spec = codec.spec();
  return {static_cast<uint32_t>(spec.kind), spec.block, spec.k, spec.stochastic ? 1u : 0u};
}

// Calls one of the plugin's functions for a codec.
template <typename Function, typename... Arguments>
absl::Status CallCodec(const compress::Codec& codec, Function function, GdfCudaSession* session,
                       Arguments... arguments) {
  const GdfCudaCodec which = CodecOf(codec);
  const absl::Status status = Call(function, session, &which, arguments...);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(codec.name(), ": ", status.message()));
}

}  // namespace

absl::StatusOr<Plugin> Plugin::Load(const std::string& path) {
  // dlopen searches the system's folders for a bare name; this is to be a file.
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("CUDA plugin ", path, ": ", std::strerror(errno),
                                            "; it is built where nvcc is found"));
  }
  const std::string file = path.find('/') == std::string::npos ? absl::StrCat("./", path) : path;
  Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("CUDA plugin cannot be loaded: ", dlerror()));
  }
  auto* entry = reinterpret_cast<GdfCudaEntryPoint*>(dlsym(library.get(), GDF_CUDA_ENTRY_POINT));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("CUDA plugin ", path, ": has no function ",
                                                      GDF_CUDA_ENTRY_POINT,
                                                      ", so it is none of GDF"));
  }
  const GdfCudaPlugin* plugin = entry();
  GDF_RETURN_IF_ERROR(CheckTable(path, plugin));
  library.release();
  return Plugin(plugin);
}

absl::StatusOr<std::vector<Device>> Plugin::Devices() const {
  int32_t count = 0;
  GDF_RETURN_IF_ERROR(Call(plugin_->count_devices, &count));
  std::vector<Device> devices;
  for (int32_t i = 0; i < count; ++i) {
    GdfCudaDevice device = {};
    GDF_RETURN_IF_ERROR(Call(plugin_->describe_device, i, &device));
    devices.push_back({TextOf(device.name, sizeof(device.name)), device.major, device.minor,
                       device.total_bytes, device.memory_bytes_per_sec});
  }
  return devices;
}

absl::StatusOr<Session> Plugin::Open(int device) const {
  GdfCudaSession* session = nullptr;
  GDF_RETURN_IF_ERROR(Call(plugin_->open_session, int32_t{device}, &session));
  return Session(plugin_, session);
}

absl::StatusOr<Group> Plugin::OpenGroup(size_t num_devices) const {
  GdfCudaGroup* group = nullptr;
  GDF_RETURN_IF_ERROR(Call(plugin_->open_group, static_cast<int32_t>(num_devices), &group));
  return Group(plugin_, group, num_devices);
}

absl::Status Group::Reduce(absl::Span<float* const> buffers, uint64_t num_values) {
  GDF_CHECK(buffers.size() == num_devices_);
  return Call(plugin_->reduce, group_.get(), buffers.data(), num_values);
}

absl::Status Group::Broadcast(absl::Span<float* const> buffers, uint64_t num_values) {
  GDF_CHECK(buffers.size() == num_devices_);
  return Call(plugin_->broadcast, group_.get(), buffers.data(), num_values);
}

absl::StatusOr<DeviceMemory> Session::Allocate(uint64_t num_bytes) {
  void* memory = nullptr;
  GDF_RETURN_IF_ERROR(Call(plugin_->allocate, session_.get(), num_bytes, &memory));
  return DeviceMemory(memory, num_bytes, {plugin_, session_.get()});
}

absl::Status Session::CopyToDevice(absl::Span<const uint8_t> from, DeviceMemory& to) {
  GDF_RETURN_IF_ERROR(CheckRoom("device memory", to.size(), from.size()));
  return Call(plugin_->copy_to_device, session_.get(), to.data(),
              static_cast<const void*>(from.data()), uint64_t{from.size()});
}

absl::Status Session::CopyToHost(const DeviceMemory& from, absl::Span<uint8_t> to) {
  GDF_RETURN_IF_ERROR(CheckRoom("device memory", from.size(), to.size()));
  return Call(plugin_->copy_to_host, session_.get(), static_cast<void*>(to.data()),
              static_cast<const void*>(from.data()), uint64_t{to.size()});
}

absl::Status Session::CopyOnDevice(const DeviceMemory& from, DeviceMemory& to, uint64_t num_bytes) {
  for (const DeviceMemory* memory : {&from, static_cast<const DeviceMemory*>(&to)}) {
    GDF_RETURN_IF_ERROR(CheckRoom("device memory", memory->size(), num_bytes));
  }
  return Call(plugin_->copy_on_device, session_.get(), to.data(),
              static_cast<const void*>(from.data()), num_bytes);
}

absl::Status Session::Encode(const compress::Codec& codec, const DeviceMemory& values,
                             uint64_t num_values, DeviceMemory& packed,
                             const compress::Rounding& rounding) {
  GDF_CHECK(rounding.first % codec.block() == 0);
  GDF_RETURN_IF_ERROR(CheckMemory(codec, num_values, values, packed));
  return CallCodec(codec, plugin_->encode, session_.get(), static_cast<const float*>(values.data()),
                   num_values, rounding.seed, rounding.first, static_cast<uint8_t*>(packed.data()));
}

absl::Status Session::Decode(const compress::Codec& codec, const DeviceMemory& packed,
                             uint64_t num_values, DeviceMemory& values) {
  GDF_RETURN_IF_ERROR(CheckMemory(codec, num_values, values, packed));
  return CallCodec(codec, plugin_->decode, session_.get(),
                   static_cast<const uint8_t*>(packed.data()), num_values,
                   static_cast<float*>(values.data()));
}

absl::Status Session::DecodeAccumulate(const compress::Codec& codec, const DeviceMemory& packed,
                                       uint64_t num_values, float weight, DeviceMemory& acc) {
  GDF_RETURN_IF_ERROR(CheckMemory(codec, num_values, acc, packed));
  return CallCodec(codec, plugin_->accumulate, session_.get(),
                   static_cast<const uint8_t*>(packed.data()), num_values, weight,
                   static_cast<float*>(acc.data()));
}

absl::StatusOr<absl::Duration> Session::DeviceTime() const {
  double seconds = 0;
  GDF_RETURN_IF_ERROR(Call(plugin_->device_time, session_.get(), &seconds));
  return absl::Seconds(seconds);
}

}  // namespace gdf::cuda
