// Opens libgdf_cuda.so at run time, checks that it is the plugin this program was built for, and
// gives its functions with C++ types. Needs no CUDA to build.
//
//   GDF_ASSIGN_OR_RETURN(const cuda::Plugin plugin, cuda::Plugin::Load(path));
//   GDF_ASSIGN_OR_RETURN(cuda::Session session, plugin.Open(0));
//   GDF_ASSIGN_OR_RETURN(cuda::DeviceMemory values, session.Allocate(num_bytes));
#ifndef GDF_CUDA_LOADER_H_
#define GDF_CUDA_LOADER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/compress/codec.h"
#include "cuda/plugin.h"

namespace gdf::cuda {

// The plugin lies beside gdf-worker.
inline constexpr char kPluginFileName[] = "libgdf_cuda.so";

struct Device {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  uint64_t total_bytes = 0;
  uint64_t memory_bytes_per_sec = 0;  // what clock and width of its memory allow; 0: not known
};

// Memory of a session's device; must end before its session does.
class DeviceMemory {
 public:
  // Memory of the device that another owns, libtorch for one, aligned to 16 bytes.
  static DeviceMemory Borrow(void* data, uint64_t num_bytes) { return DeviceMemory(data, num_bytes, {nullptr, nullptr}); }
  DeviceMemory(DeviceMemory&&) = default;
  DeviceMemory& operator=(DeviceMemory&&) = default;

  void* data() const { return data_.get(); }
  uint64_t size() const { return num_bytes_; }  // bytes

 private:
  friend class Session;
  struct Release {
    const GdfCudaPlugin* plugin;  // null: it is another's
    GdfCudaSession* session;
    void operator()(void* memory) const {
      if (plugin != nullptr) plugin->release(session, memory);
    }
  };
  DeviceMemory(void* data, uint64_t num_bytes, Release release)
      : data_(data, release), num_bytes_(num_bytes) {}

  std::unique_ptr<void, Release> data_;
  uint64_t num_bytes_;
};

// One device. Used by one thread at a time; every call returns when its work on the device is done.
// Errors beside those named: kInternal for CUDA's own, after which the session is of no use.
class Session {
 public:
  // `num_bytes` of device memory, aligned to 256, of any content. kResourceExhausted.
  absl::StatusOr<DeviceMemory> Allocate(uint64_t num_bytes);

  // Between host and the start of device memory. kInvalidArgument when the latter is shorter.
  absl::Status CopyToDevice(absl::Span<const uint8_t> from, DeviceMemory& to);
  absl::Status CopyToHost(const DeviceMemory& from, absl::Span<uint8_t> to);
  // The first `num_bytes` of one to another. kInvalidArgument when either is shorter.
  absl::Status CopyOnDevice(const DeviceMemory& from, DeviceMemory& to, uint64_t num_bytes);

  // As the functions of `codec`, with its bytes and values, on the start of device memories.
  // kInvalidArgument when a memory is too short for `num_values`, a value is not finite, or the packed
  // bytes are none that Encode writes; what was to be written then holds anything.
  absl::Status Encode(const compress::Codec& codec, const DeviceMemory& values, uint64_t num_values,
                      DeviceMemory& packed, const compress::Rounding& rounding = {});
  absl::Status Decode(const compress::Codec& codec, const DeviceMemory& packed, uint64_t num_values,
                      DeviceMemory& values);
  absl::Status DecodeAccumulate(const compress::Codec& codec, const DeviceMemory& packed,
                                uint64_t num_values, float weight, DeviceMemory& acc);

  // How long the device itself, by its clock, was at the last CopyOnDevice, Encode, Decode or DecodeAccumulate that had
  // any bytes or values: without the launch and what the caller waits beyond it.
  absl::StatusOr<absl::Duration> DeviceTime() const;

 private:
  friend class Plugin;
  struct Close {
    const GdfCudaPlugin* plugin;
    void operator()(GdfCudaSession* session) const { plugin->close_session(session); }
  };
  Session(const GdfCudaPlugin* plugin, GdfCudaSession* session)
      : plugin_(plugin), session_(session, Close{plugin}) {}

  const GdfCudaPlugin* plugin_;
  std::unique_ptr<GdfCudaSession, Close> session_;
};

// Devices of this process, the first of the plugin's, among which NCCL sums and copies. Used by one thread at a time.
// Errors: kInternal, after which the group is of no use.
class Group {
 public:
  size_t num_devices() const { return num_devices_; }

  // `buffers`, one a device in its order: [num_values] float32 each in its memory. The first becomes the sum of all; the
  // others stay. Runs after what is on the devices' default streams and before what comes there; not waited for.
  absl::Status Reduce(absl::Span<float* const> buffers, uint64_t num_values);
  // All become what the first is. As Reduce otherwise.
  absl::Status Broadcast(absl::Span<float* const> buffers, uint64_t num_values);

 private:
  friend class Plugin;
  struct Close {
    const GdfCudaPlugin* plugin;
    void operator()(GdfCudaGroup* group) const { plugin->close_group(group); }
  };
  Group(const GdfCudaPlugin* plugin, GdfCudaGroup* group, size_t num_devices)
      : plugin_(plugin), group_(group, Close{plugin}), num_devices_(num_devices) {}

  const GdfCudaPlugin* plugin_;
  std::unique_ptr<GdfCudaGroup, Close> group_;
  size_t num_devices_;
};

// A plugin that was opened. It stays open until the process ends, since CUDA cannot be unloaded.
// Copyable; safe from any thread.
class Plugin {
 public:
  // Opens the file. kNotFound when it is not there; kFailedPrecondition when it cannot be loaded,
  // is no plugin of GDF, or speaks another version of the interface.
  static absl::StatusOr<Plugin> Load(const std::string& path);

  // The devices of this machine, at least one. kNotFound when there is none; kFailedPrecondition
  // without a driver, or with one that is too old.
  absl::StatusOr<std::vector<Device>> Devices() const;

  // Errors of Devices; kNotFound for a number that is not one of them; kResourceExhausted.
  absl::StatusOr<Session> Open(int device) const;

  // The first `num_devices` devices, at least two. Errors of Devices; kNotFound when there are not so many;
  // kFailedPrecondition without NCCL; kInternal when NCCL does not start.
  absl::StatusOr<Group> OpenGroup(size_t num_devices) const;

 private:
  explicit Plugin(const GdfCudaPlugin* plugin) : plugin_(plugin) {}

  const GdfCudaPlugin* plugin_;
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_LOADER_H_
