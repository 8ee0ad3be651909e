// Collectives among the devices of one process by NCCL, whose library is opened when a group is: machines with one GPU
// need none. The types and numbers of its interface (nccl.h) that are used are written down here, since toolkits may
// lack the header; NCCL keeps them the same within a major version.
#include <dlfcn.h>

#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/session.h"

namespace {

constexpr char kLibrary[] = "libnccl.so.2";

using Communicator = struct NcclCommunicator*;  // ncclComm_t
using Result = int;                             // ncclResult_t
constexpr Result kSuccess = 0;
constexpr int kFloat32 = 7, kSum = 0;

struct Nccl {
  Result (*comm_init_all)(Communicator* communicators, int count, const int* devices) = nullptr;
  Result (*comm_destroy)(Communicator communicator) = nullptr;
  Result (*reduce)(const void* from, void* to, size_t count, int type, int operation, int root,
                   Communicator communicator, cudaStream_t stream) = nullptr;
  Result (*broadcast)(const void* from, void* to, size_t count, int type, int root, Communicator communicator,
                      cudaStream_t stream) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  const char* (*error_string)(Result result) = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Stays open until the process ends, as CUDA does.
int32_t OpenNccl(Nccl* nccl, GdfCudaError* error) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return gdf::cuda::Fail(error, GDF_CUDA_NO_NCCL, "NCCL cannot be loaded: %s", dlerror());
  if (Find(library, "ncclCommInitAll", &nccl->comm_init_all) && Find(library, "ncclCommDestroy", &nccl->comm_destroy) &&
      Find(library, "ncclReduce", &nccl->reduce) && Find(library, "ncclBroadcast", &nccl->broadcast) &&
      Find(library, "ncclGroupStart", &nccl->group_start) && Find(library, "ncclGroupEnd", &nccl->group_end) &&
      Find(library, "ncclGetErrorString", &nccl->error_string)) {
    return GDF_CUDA_OK;
  }
  return gdf::cuda::Fail(error, GDF_CUDA_NO_NCCL, "%s lacks a function: %s", kLibrary, dlerror());
}

}  // namespace

struct GdfCudaGroup {
  Nccl nccl;
  std::vector<Communicator> communicators;  // by device, as the next
  std::vector<cudaStream_t> streams;        // each follows its device's default stream, which waits for it
};

namespace gdf::cuda {
namespace {

// Whatever devices are made the thread's current one meanwhile, it has its own again at the end.
class KeepDevice {
 public:
  KeepDevice() { cudaGetDevice(&device_); }
  ~KeepDevice() { cudaSetDevice(device_); }
  KeepDevice(const KeepDevice&) = delete;
  KeepDevice& operator=(const KeepDevice&) = delete;

 private:
  int device_ = 0;
};

int32_t CheckNccl(const Nccl& nccl, Result result, const char* what, GdfCudaError* error) {
  if (result == kSuccess) return GDF_CUDA_OK;
  return Fail(error, GDF_CUDA_FAILED, "%s by NCCL: %s (%d)", what, nccl.error_string(result), result);
}

// `call` with each device's place, communicator and stream, as one collective.
template <typename Call>
int32_t OnAll(GdfCudaGroup* group, const char* what, GdfCudaError* error, Call call) {
  const KeepDevice keep;
  const Nccl& nccl = group->nccl;
  Result result = nccl.group_start();
  for (size_t i = 0; result == kSuccess && i < group->communicators.size(); ++i) {
    cudaSetDevice(static_cast<int>(i));
    result = call(i, group->communicators[i], group->streams[i]);
  }
  const Result ended = nccl.group_end();  // also after a failure, or no later one would begin
  return CheckNccl(nccl, result == kSuccess ? ended : result, what, error);
}

int32_t Prepare(GdfCudaGroup* group, int32_t num_devices, GdfCudaError* error) {
  const KeepDevice keep;
  std::vector<int> devices(static_cast<size_t>(num_devices));
  std::iota(devices.begin(), devices.end(), 0);
  for (const int device : devices) {
    cudaStream_t stream = nullptr;
    cudaError_t result = cudaSetDevice(device);
    if (result == cudaSuccess) result = cudaStreamCreate(&stream);
    if (result != cudaSuccess) return Check(result, "opening a group", device, error);
    group->streams.push_back(stream);
  }
  std::vector<Communicator> communicators(devices.size());
  const Result result = group->nccl.comm_init_all(communicators.data(), num_devices, devices.data());
  if (result == kSuccess) group->communicators = std::move(communicators);
  return CheckNccl(group->nccl, result, "opening a group", error);
}

}  // namespace

int32_t OpenGroup(int32_t num_devices, GdfCudaGroup** group, GdfCudaError* error) {
  int32_t count = 0;
  const int32_t counted = CountDevices(&count, error);
  if (counted != GDF_CUDA_OK) return counted;
  if (num_devices < 2 || num_devices > count) {
    return Fail(error, GDF_CUDA_NO_DEVICE, "a group of %d devices, expected 2 to %d", static_cast<int>(num_devices),
                static_cast<int>(count));
  }
  Nccl nccl;
  const int32_t opened = OpenNccl(&nccl, error);
  if (opened != GDF_CUDA_OK) return opened;
  auto* made = new (std::nothrow) GdfCudaGroup{nccl, {}, {}};
  if (made == nullptr) return Fail(error, GDF_CUDA_OUT_OF_MEMORY, "no memory for a group");
  const int32_t prepared = Prepare(made, num_devices, error);
  if (prepared == GDF_CUDA_OK) {
    *group = made;
  } else {
    CloseGroup(made);
  }
  return prepared;
}

void CloseGroup(GdfCudaGroup* group) {
  for (const Communicator communicator : group->communicators) group->nccl.comm_destroy(communicator);
  for (const cudaStream_t stream : group->streams) cudaStreamDestroy(stream);
  delete group;
}

int32_t Reduce(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error) {
  return OnAll(group, "summing", error, [&](size_t device, Communicator communicator, cudaStream_t stream) {
    return group->nccl.reduce(buffers[device], buffers[device], num_values, kFloat32, kSum, /*root=*/0, communicator,
                              stream);
  });
}

int32_t Broadcast(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error) {
  return OnAll(group, "copying", error, [&](size_t device, Communicator communicator, cudaStream_t stream) {
    return group->nccl.broadcast(buffers[device], buffers[device], num_values, kFloat32, /*root=*/0, communicator,
                                 stream);
  });
}

}  // namespace gdf::cuda
