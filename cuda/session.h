// What a session of the plugin holds, and how CUDA's errors become the plugin's. Inside the plugin.
#ifndef GDF_CUDA_SESSION_H_
#define GDF_CUDA_SESSION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/plugin.h"

struct GdfCudaSession {
  int32_t device = 0;
  int32_t num_processors = 0;  // streaming multiprocessors
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;  // of what was timed last
  // What the kernel that ran last refused: in device memory, and where it is copied to (pinned).
  unsigned long long* refused = nullptr;
  unsigned long long* refused_on_host = nullptr;
};

namespace gdf::cuda {

// Writes the message, cut to its room, and gives `code` back. printf's format.
[[gnu::format(printf, 3, 4)]] int32_t Fail(GdfCudaError* error, int32_t code, const char* format,
                                           ...);

// GDF_CUDA_OK for cudaSuccess; else says what was tried, on which device, and CUDA's name for it.
int32_t Check(cudaError_t result, const char* what, int32_t device, GdfCudaError* error);

// Has the device note its time before and after what `enqueue` puts on the stream.
template <typename Enqueue>
cudaError_t Timed(const GdfCudaSession& session, Enqueue enqueue) {
  cudaError_t result = cudaEventRecord(session.begin, session.stream);
  if (result == cudaSuccess) result = enqueue();
  if (result == cudaSuccess) result = cudaEventRecord(session.end, session.stream);
  return result;
}

// Entries of the plugin's table, see plugin.h.
int32_t CountDevices(int32_t* count, GdfCudaError* error);
int32_t Encode(GdfCudaSession* session, const GdfCudaCodec* codec, const float* values,
               uint64_t num_values, uint64_t seed, uint64_t first, uint8_t* packed, GdfCudaError* error);
int32_t Decode(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed,
               uint64_t num_values, float* values, GdfCudaError* error);
int32_t Accumulate(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed,
                   uint64_t num_values, float weight, float* acc, GdfCudaError* error);
int32_t OpenGroup(int32_t num_devices, GdfCudaGroup** group, GdfCudaError* error);
void CloseGroup(GdfCudaGroup* group);
int32_t Reduce(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error);
int32_t Broadcast(GdfCudaGroup* group, float* const* buffers, uint64_t num_values, GdfCudaError* error);

}  // namespace gdf::cuda

#endif  // GDF_CUDA_SESSION_H_
