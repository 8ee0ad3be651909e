// The codecs on the device: kernels are launched, waited for, and what they refuse becomes an error.
#include <algorithm>
#include <cstdint>

#include "cuda/codecs.h"
#include "cuda/device_team.h"
#include "cuda/session.h"

namespace gdf::cuda {
namespace {

// Enough thread blocks for a processor's 2048 threads four times over; more work is looped over.
constexpr uint64_t kGridPerProcessor = 32;
constexpr uint64_t kAlignment = 16;

__device__ const compress::DctTables kDctTablesOnDevice = compress::kDctTables;

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads) Run(const Kernel kernel) {
  if constexpr (Kernel::kThreads == kBlockThreads) {
    __shared__ typename Kernel::Shared shared;
    __shared__ BlockTeam::Partial partial;
    BlockTeam team(partial);
    for (uint64_t item = blockIdx.x; item < kernel.num_items(); item += gridDim.x) kernel(team, shared, item);
  } else {
    __shared__ typename Kernel::Shared shared[kBlockThreads / Kernel::kThreads];
    const uint32_t teams = kBlockThreads / kernel.team_size();
    const uint32_t number = threadIdx.x / kernel.team_size();
    WarpTeam team(kernel.team_size());
    // All teams of a warp go round alike; beyond the last item there are no values.
    for (uint64_t first = uint64_t{blockIdx.x} * teams; first < kernel.num_items(); first += uint64_t{gridDim.x} * teams) {
      kernel(team, shared[number], first + number);
    }
  }
}

template <typename Kernel>
void Launch(const GdfCudaSession& session, const Kernel& kernel) {
  const uint64_t teams = kBlockThreads / kernel.team_size();
  const uint64_t wanted = (kernel.num_items() + teams - 1) / teams;
  const uint64_t most = kGridPerProcessor * static_cast<uint64_t>(session.num_processors);
  Run<<<static_cast<uint32_t>(std::min(wanted, most)), kBlockThreads, 0, session.stream>>>(kernel);
}

bool IsAligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % kAlignment == 0; }

// Runs start(arrays, run), which says which kernel, and waits. `problem` is what a kernel refuses.
template <typename Start>
int32_t RunCodec(GdfCudaSession* session, const char* what, const GdfCudaCodec& codec, const void* values,
                 uint64_t num_values, const void* packed, const char* problem, GdfCudaError* error, Start start) {
  if (!IsAligned(values) || !IsAligned(packed)) {
    return Fail(error, GDF_CUDA_INVALID_ARGUMENT, "%s: values at %p and packed bytes at %p, expected multiples of 16",
                what, values, packed);
  }
  if (num_values == 0) return GDF_CUDA_OK;
  static_assert(Refused::kNone == ~0ull);  // all of whose bytes are 0xFF
  cudaError_t result = cudaSetDevice(session->device);
  if (result == cudaSuccess) {
    result = cudaMemsetAsync(session->refused, 0xFF, sizeof(*session->refused), session->stream);
  }
  void* tables = nullptr;
  if (result == cudaSuccess) result = cudaGetSymbolAddress(&tables, kDctTablesOnDevice);
  bool known = true;
  if (result == cudaSuccess) {
    result = Timed(*session, [&] {
      known = start(Arrays{codec, num_values, static_cast<const compress::DctTables*>(tables), Refused(session->refused)},
                    [&](const auto& kernel) { Launch(*session, kernel); });
      return cudaGetLastError();
    });
  }
  if (!known) return Fail(error, GDF_CUDA_INVALID_ARGUMENT, "%s: codec %u is not known", what, codec.kind);
  if (result == cudaSuccess) {
    result = cudaMemcpyAsync(session->refused_on_host, session->refused, sizeof(*session->refused),
                             cudaMemcpyDeviceToHost, session->stream);
  }
  if (result == cudaSuccess) result = cudaStreamSynchronize(session->stream);
  const int32_t ran = Check(result, what, session->device, error);
  if (ran != GDF_CUDA_OK || *session->refused_on_host == Refused::kNone) return ran;
  return Fail(error, GDF_CUDA_BAD_DATA, "%s: from value %llu on there %s", what, *session->refused_on_host, problem);
}

constexpr const char* kNotFinite = "is NaN or infinity, expected finite values";
constexpr const char* kBadPacked = "are bytes that nothing is encoded to; the sender is faulty or speaks another version";

}  // namespace

int32_t Encode(GdfCudaSession* session, const GdfCudaCodec* codec, const float* values, uint64_t num_values,
               uint64_t seed, uint64_t first, uint8_t* packed, GdfCudaError* error) {
  return RunCodec(session, "encode", *codec, values, num_values, packed, kNotFinite, error,
                  [&](const Arrays& arrays, auto run) { return EncodeWith(arrays, values, {seed, first}, packed, run); });
}

int32_t Decode(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed, uint64_t num_values,
               float* values, GdfCudaError* error) {
  return RunCodec(session, "decode", *codec, values, num_values, packed, kBadPacked, error,
                  [&](const Arrays& arrays, auto run) { return DecodeWith(arrays, packed, Put{values}, run); });
}

int32_t Accumulate(GdfCudaSession* session, const GdfCudaCodec* codec, const uint8_t* packed, uint64_t num_values,
                   float weight, float* acc, GdfCudaError* error) {
  return RunCodec(session, "accumulate", *codec, acc, num_values, packed, kBadPacked, error,
                  [&](const Arrays& arrays, auto run) { return DecodeWith(arrays, packed, Add{acc, weight}, run); });
}

}  // namespace gdf::cuda
