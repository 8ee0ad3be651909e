#include "cuda/plugin.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <new>

#include "cuda/session.h"

namespace gdf::cuda {

int32_t Fail(GdfCudaError* error, int32_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error->message, sizeof(error->message), format, arguments);
  va_end(arguments);
  return code;
}

int32_t Check(cudaError_t result, const char* what, int32_t device, GdfCudaError* error) {
  if (result == cudaSuccess) return GDF_CUDA_OK;
  cudaGetLastError();  // else the next call would report it once more
  int32_t code = GDF_CUDA_FAILED;
  if (result == cudaErrorMemoryAllocation) code = GDF_CUDA_OUT_OF_MEMORY;
  if (result == cudaErrorInvalidDevice) code = GDF_CUDA_NO_DEVICE;
  return Fail(error, code, "%s on device %d: %s (%s)", what, static_cast<int>(device),
              cudaGetErrorString(result), cudaGetErrorName(result));
}

int32_t CountDevices(int32_t* count, GdfCudaError* error) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result == cudaErrorInsufficientDriver || result == cudaErrorSystemDriverMismatch) {
    cudaGetLastError();
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) return Fail(error, GDF_CUDA_NO_DRIVER, "no NVIDIA driver is loaded");
    return Fail(error, GDF_CUDA_NO_DRIVER,
                "the NVIDIA driver is for CUDA %d.%d, this library needs %d.%d or newer",
                driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                CUDART_VERSION % 1000 / 10);
  }
  if (result == cudaErrorNoDevice || (result == cudaSuccess && devices == 0)) {
    cudaGetLastError();
    return Fail(error, GDF_CUDA_NO_DEVICE, "the NVIDIA driver shows no device");
  }
  *count = devices;
  return Check(result, "counting devices", 0, error);
}

namespace {

// Runs `call` of the session's device and waits for its stream.
template <typename Call>
int32_t OnStream(GdfCudaSession* session, const char* what, GdfCudaError* error, Call call) {
  cudaError_t result = cudaSetDevice(session->device);
  if (result == cudaSuccess) result = call();
  if (result == cudaSuccess) result = cudaStreamSynchronize(session->stream);
  return Check(result, what, session->device, error);
}

// 0 where the driver does not say.
uint64_t AttributeOf(int32_t device, cudaDeviceAttr attribute) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) cudaGetLastError();
  return static_cast<uint64_t>(std::max(value, 0));
}

// Two transfers a clock, as every memory of compute capability 8.0 and newer makes them.
uint64_t MemoryBytesPerSec(int32_t device) {
  const uint64_t clock_khz = AttributeOf(device, cudaDevAttrMemoryClockRate);
  return 2 * 1000 * clock_khz * (AttributeOf(device, cudaDevAttrGlobalMemoryBusWidth) / 8);
}

int32_t DescribeDevice(int32_t device, GdfCudaDevice* description, GdfCudaError* error) {
  cudaDeviceProp properties;
  const cudaError_t result = cudaGetDeviceProperties(&properties, device);
  if (result != cudaSuccess) return Check(result, "reading properties", device, error);
  *description = GdfCudaDevice{};
  std::snprintf(description->name, sizeof(description->name), "%s", properties.name);
  description->major = properties.major;
  description->minor = properties.minor;
  description->total_bytes = properties.totalGlobalMem;
  description->memory_bytes_per_sec = MemoryBytesPerSec(device);
  return GDF_CUDA_OK;
}

void CloseSession(GdfCudaSession* session) {
  cudaSetDevice(session->device);
  cudaFreeHost(session->refused_on_host);
  cudaFree(session->refused);
  for (cudaEvent_t event : {session->begin, session->end}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (session->stream != nullptr) cudaStreamDestroy(session->stream);
  delete session;
}

cudaError_t Prepare(GdfCudaSession* session) {
  const cudaError_t results[] = {
      cudaSetDevice(session->device),
      cudaDeviceGetAttribute(&session->num_processors, cudaDevAttrMultiProcessorCount,
                             session->device),
      cudaStreamCreate(&session->stream),
      cudaEventCreate(&session->begin),
      cudaEventCreate(&session->end),
      Timed(*session, [] { return cudaSuccess; }),
      cudaMalloc(reinterpret_cast<void**>(&session->refused), sizeof(*session->refused)),
      cudaMallocHost(reinterpret_cast<void**>(&session->refused_on_host),
                     sizeof(*session->refused_on_host))};
  const auto* failed = std::find_if(std::begin(results), std::end(results),
                                    [](cudaError_t result) { return result != cudaSuccess; });
  return failed == std::end(results) ? cudaSuccess : *failed;
}

int32_t OpenSession(int32_t device, GdfCudaSession** session, GdfCudaError* error) {
  int32_t count = 0;
  const int32_t counted = CountDevices(&count, error);
  if (counted != GDF_CUDA_OK) return counted;
  if (device < 0 || device >= count) {
    return Fail(error, GDF_CUDA_NO_DEVICE, "device %d, expected 0 to %d", static_cast<int>(device),
                static_cast<int>(count - 1));
  }
  auto* opened = new (std::nothrow) GdfCudaSession;
  if (opened == nullptr) return Fail(error, GDF_CUDA_OUT_OF_MEMORY, "no memory for a session");
  opened->device = device;
  const cudaError_t result = Prepare(opened);
  if (result != cudaSuccess) {
    CloseSession(opened);
    return Check(result, "opening a session", device, error);
  }
  *session = opened;
  return GDF_CUDA_OK;
}

int32_t Allocate(GdfCudaSession* session, uint64_t bytes, void** memory, GdfCudaError* error) {
  cudaError_t result = cudaSetDevice(session->device);
  if (result == cudaSuccess) result = cudaMalloc(memory, std::max<uint64_t>(bytes, 1));
  char what[64];
  std::snprintf(what, sizeof(what), "allocating %llu bytes",
                static_cast<unsigned long long>(bytes));
  return Check(result, what, session->device, error);
}

void Release(GdfCudaSession* session, void* memory) {
  cudaSetDevice(session->device);
  cudaFree(memory);
}

int32_t CopyToDevice(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                     GdfCudaError* error) {
  return OnStream(session, "copying to the device", error, [&] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, session->stream);
  });
}

int32_t CopyToHost(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                   GdfCudaError* error) {
  return OnStream(session, "copying to the host", error, [&] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, session->stream);
  });
}

int32_t CopyOnDevice(GdfCudaSession* session, void* to, const void* from, uint64_t bytes,
                     GdfCudaError* error) {
  if (bytes == 0) return GDF_CUDA_OK;
  return OnStream(session, "copying on the device", error, [&] {
    return Timed(*session, [&] {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, session->stream);
    });
  });
}

int32_t DeviceTime(GdfCudaSession* session, double* seconds, GdfCudaError* error) {
  float milliseconds = 0;
  const int32_t waited = OnStream(session, "reading the time", error, [&] {
    cudaError_t result = cudaEventSynchronize(session->end);
    if (result == cudaSuccess) result = cudaEventElapsedTime(&milliseconds, session->begin, session->end);
    return result;
  });
  *seconds = static_cast<double>(milliseconds) / 1000;
  return waited;
}

}  // namespace
}  // namespace gdf::cuda

extern "C" [[gnu::visibility("default")]] const GdfCudaPlugin* gdf_cuda_plugin(void) {
  static constexpr GdfCudaPlugin kPlugin = {
      .abi_version = GDF_CUDA_ABI_VERSION,
      .struct_bytes = sizeof(GdfCudaPlugin),
      .count_devices = gdf::cuda::CountDevices,
      .describe_device = gdf::cuda::DescribeDevice,
      .open_session = gdf::cuda::OpenSession,
      .close_session = gdf::cuda::CloseSession,
      .allocate = gdf::cuda::Allocate,
      .release = gdf::cuda::Release,
      .copy_to_device = gdf::cuda::CopyToDevice,
      .copy_to_host = gdf::cuda::CopyToHost,
      .copy_on_device = gdf::cuda::CopyOnDevice,
      .encode = gdf::cuda::Encode,
      .decode = gdf::cuda::Decode,
      .accumulate = gdf::cuda::Accumulate,
      .device_time = gdf::cuda::DeviceTime,
      .open_group = gdf::cuda::OpenGroup,
      .close_group = gdf::cuda::CloseGroup,
      .reduce = gdf::cuda::Reduce,
      .broadcast = gdf::cuda::Broadcast,
  };
  return &kPlugin;
}
