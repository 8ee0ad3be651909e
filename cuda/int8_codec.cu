// Codec int8 on the device: a warp to a block of values, so that the largest magnitude is one warp
// reduction and the second reading of a block finds it in the cache.
#include <algorithm>
#include <cstdint>

#include "cuda/int8_block.h"
#include "cuda/session.h"

namespace gdf::cuda {
namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
// Enough thread blocks for a processor's 2048 threads four times over; more work is looped over.
constexpr uint64_t kGridPerProcessor = 32;

// Calls work(begin, count, lane) for the blocks of this warp.
template <typename Work>
__device__ void ForBlocks(uint64_t num_values, uint32_t block, Work work) {
  const uint64_t num_warps = uint64_t{gridDim.x} * (kThreads / kLanes);
  const uint64_t first = (uint64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  for (uint64_t begin = first * block; begin < num_values; begin += num_warps * block) {
    const uint64_t left = num_values - begin;
    work(begin, left < block ? static_cast<uint32_t>(left) : block, threadIdx.x % kLanes);
  }
}

__global__ void EncodeKernel(const float* values, uint64_t num_values, uint32_t block,
                             uint8_t* packed, unsigned long long* refused) {
  ForBlocks(num_values, block, [&](uint64_t begin, uint32_t count, uint32_t lane) {
    const float* in = values + begin;
    uint8_t* out = packed + Int8PackedBegin(begin, block);
    const int32_t max_bits = __reduce_max_sync(kAllLanes, LaneMaxBits(in, count, lane, kLanes));
    const float scale = Int8Scale(max_bits);
    if (lane == 0) {
      *reinterpret_cast<float*>(out) = scale;
      if (max_bits >= kInfinityBits) atomicMin(refused, Refusal(begin, true));
    }
    LaneEncode(in, count, Int8Inverse(scale), lane, kLanes,
               reinterpret_cast<int8_t*>(out + kInt8ScaleBytes));
  });
}

__global__ void DecodeKernel(const uint8_t* packed, uint64_t num_values, uint32_t block,
                             float* values, unsigned long long* refused) {
  ForBlocks(num_values, block, [&](uint64_t begin, uint32_t count, uint32_t lane) {
    const uint8_t* in = packed + Int8PackedBegin(begin, block);
    const float scale = *reinterpret_cast<const float*>(in);
    const bool good_levels = LaneDecode(reinterpret_cast<const int8_t*>(in + kInt8ScaleBytes),
                                        count, scale, lane, kLanes, values + begin);
    if (lane == 0 && !IsInt8Scale(scale)) atomicMin(refused, Refusal(begin, false));
    if (!good_levels) atomicMin(refused, Refusal(begin, true));
  });
}

int32_t CheckArguments(const char* what, const void* values, const void* packed, uint32_t block,
                       GdfCudaError* error) {
  if (!IsInt8Block(block)) {
    return Fail(error, GDF_CUDA_INVALID_ARGUMENT,
                "%s: block is %u, expected a power of two from %u to %u", what, block,
                kInt8MinBlock, kInt8MaxBlock);
  }
  if (reinterpret_cast<uintptr_t>(values) % alignof(Int8Values) != 0 ||
      reinterpret_cast<uintptr_t>(packed) % alignof(Int8Levels) != 0) {
    return Fail(error, GDF_CUDA_INVALID_ARGUMENT,
                "%s: values at %p and packed bytes at %p, expected multiples of 16 and 4", what,
                values, packed);
  }
  return GDF_CUDA_OK;
}

// Runs launch(grid) and waits; `refused_on_host` then says what the kernel refused.
template <typename Launch>
cudaError_t RunKernel(GdfCudaSession* session, uint64_t num_values, uint32_t block, Launch launch) {
  constexpr uint64_t kBlocksPerGrid = kThreads / kLanes;
  const uint64_t num_blocks = (num_values + block - 1) / block;
  const uint64_t wanted = (num_blocks + kBlocksPerGrid - 1) / kBlocksPerGrid;
  const uint64_t most = kGridPerProcessor * static_cast<uint64_t>(session->num_processors);
  static_assert(kNothingRefused == ~uint64_t{0});  // all of whose bytes are 0xFF
  cudaError_t result = cudaSetDevice(session->device);
  if (result == cudaSuccess) {
    result = cudaMemsetAsync(session->refused, 0xFF, sizeof(*session->refused), session->stream);
  }
  if (result == cudaSuccess) {
    launch(static_cast<uint32_t>(std::min(wanted, most)));
    result = cudaGetLastError();
  }
  if (result == cudaSuccess) {
    result = cudaMemcpyAsync(session->refused_on_host, session->refused, sizeof(*session->refused),
                             cudaMemcpyDeviceToHost, session->stream);
  }
  if (result == cudaSuccess) result = cudaStreamSynchronize(session->stream);
  return result;
}

// The plugin's word for what a kernel refused; `problems` are for a scale and for a level.
int32_t CheckRefused(const GdfCudaSession* session, const char* what, const char* const problems[2],
                     GdfCudaError* error) {
  const unsigned long long refused = *session->refused_on_host;
  if (refused == kNothingRefused) return GDF_CUDA_OK;
  return Fail(error, GDF_CUDA_BAD_DATA, "%s: the block at value %llu holds %s", what, refused / 2,
              problems[refused % 2]);
}

}  // namespace

int32_t Int8Encode(GdfCudaSession* session, const float* values, uint64_t num_values,
                   uint32_t block, uint8_t* packed, GdfCudaError* error) {
  constexpr const char* kWhat = "int8 encode";
  const int32_t checked = CheckArguments(kWhat, values, packed, block, error);
  if (checked != GDF_CUDA_OK || num_values == 0) return checked;
  const cudaError_t result = RunKernel(session, num_values, block, [&](uint32_t grid) {
    EncodeKernel<<<grid, kThreads, 0, session->stream>>>(values, num_values, block, packed,
                                                         session->refused);
  });
  const int32_t ran = Check(result, kWhat, session->device, error);
  if (ran != GDF_CUDA_OK) return ran;
  constexpr const char* kProblem = "a value that is NaN or infinite, expected finite ones";
  constexpr const char* kProblems[] = {kProblem, kProblem};
  return CheckRefused(session, kWhat, kProblems, error);
}

int32_t Int8Decode(GdfCudaSession* session, const uint8_t* packed, uint64_t num_values,
                   uint32_t block, float* values, GdfCudaError* error) {
  constexpr const char* kWhat = "int8 decode";
  const int32_t checked = CheckArguments(kWhat, values, packed, block, error);
  if (checked != GDF_CUDA_OK || num_values == 0) return checked;
  const cudaError_t result = RunKernel(session, num_values, block, [&](uint32_t grid) {
    DecodeKernel<<<grid, kThreads, 0, session->stream>>>(packed, num_values, block, values,
                                                         session->refused);
  });
  const int32_t ran = Check(result, kWhat, session->device, error);
  if (ran != GDF_CUDA_OK) return ran;
  constexpr const char* kProblems[] = {
      "a scale that is neither 0 nor 2^-126 to 0x1.020406p+121; the sender is faulty",
      "-128, expected -127 to 127; the sender is faulty"};
  return CheckRefused(session, kWhat, kProblems, error);
}

}  // namespace gdf::cuda
