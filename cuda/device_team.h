// Teams of team.h on the device: a warp or an even part of one, and a thread block.
#ifndef GDF_CUDA_DEVICE_TEAM_H_
#define GDF_CUDA_DEVICE_TEAM_H_

#include "cuda/team.h"

namespace gdf::cuda {

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// A thread's own, whatever its number.
template <typename T>
class DeviceLocal {
 public:
  __device__ T& operator[](uint32_t) { return value_; }

 private:
  T value_;
};

// `size` lanes of a warp, a power of two. All teams of the warp take the same steps.
class WarpTeam {
 public:
  template <typename T>
  using Local = DeviceLocal<T>;

  __device__ explicit WarpTeam(uint32_t size) : size_(size), lane_(threadIdx.x % size) {}
  __device__ uint32_t size() const { return size_; }

  template <typename Body>
  __device__ void Each(Body body) {
    body(lane_);
    __syncwarp();
  }

  template <typename Of>
  __device__ int32_t Max(Of of) {
    return Reduce(of(lane_), [](int32_t a, int32_t b) { return a > b ? a : b; });
  }

  template <typename Of>
  __device__ uint32_t Sum(Of of) {
    return Reduce(static_cast<uint32_t>(of(lane_)), [](uint32_t a, uint32_t b) { return a + b; });
  }

  template <typename Of>
  __device__ uint32_t Scan(Of of, Local<uint32_t>& before) {
    const uint32_t own = of(lane_);
    uint32_t sum = own;  // of this lane and those before it
    for (uint32_t step = 1; step < size_; step *= 2) {
      const uint32_t other = __shfl_up_sync(kAllLanes, sum, step, size_);
      if (lane_ >= step) sum += other;
    }
    before[lane_] = sum - own;
    const uint32_t total = __shfl_sync(kAllLanes, sum, size_ - 1, size_);
    __syncwarp();
    return total;
  }

 private:
  template <typename T, typename Combine>
  __device__ T Reduce(T value, Combine combine) {
    for (uint32_t distance = size_ / 2; distance > 0; distance /= 2) {
      value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
    }
    __syncwarp();  // a shuffle orders no memory
    return value;
  }

  uint32_t size_;
  uint32_t lane_;
};

// A whole thread block.
class BlockTeam {
 public:
  static constexpr uint32_t kWarps = kBlockThreads / kWarpThreads;
  // In shared memory. Two rows by turns, so that one barrier a reduction is enough.
  struct Partial {
    uint32_t of_warp[2][kWarps];
  };
  template <typename T>
  using Local = DeviceLocal<T>;

  __device__ explicit BlockTeam(Partial& partial) : partial_(partial), warp_(kWarpThreads) {}
  __device__ uint32_t size() const { return kBlockThreads; }

  template <typename Body>
  __device__ void Each(Body body) {
    body(threadIdx.x);
    __syncthreads();
  }

  template <typename Of>
  __device__ int32_t Max(Of of) {
    const int32_t own = __reduce_max_sync(kAllLanes, static_cast<int32_t>(of(threadIdx.x)));
    const uint32_t* of_warp = Gather(static_cast<uint32_t>(own));
    int32_t most = static_cast<int32_t>(of_warp[0]);
    for (uint32_t warp = 1; warp < kWarps; ++warp) most = max(most, static_cast<int32_t>(of_warp[warp]));
    return most;
  }

  template <typename Of>
  __device__ uint32_t Sum(Of of) {
    return SumOf(Gather(__reduce_add_sync(kAllLanes, static_cast<uint32_t>(of(threadIdx.x)))), kWarps);
  }

  template <typename Of>
  __device__ uint32_t Scan(Of of, Local<uint32_t>& before) {
    const uint32_t own = warp_.Scan([&](uint32_t) { return of(threadIdx.x); }, before);
    const uint32_t* of_warp = Gather(own);
    before[threadIdx.x] += SumOf(of_warp, threadIdx.x / kWarpThreads);
    return SumOf(of_warp, kWarps);
  }

  __device__ void Or(uint32_t* word, uint32_t bits) { atomicOr(word, bits); }

  template <typename Body>
  __device__ void Warps(Body body) {
    body(warp_, threadIdx.x / kWarpThreads, kWarps);
    __syncthreads();
  }

 private:
  // What each warp has, `own` for this one.
  __device__ const uint32_t* Gather(uint32_t own) {
    uint32_t* row = partial_.of_warp[turn_];
    turn_ ^= 1u;
    if (threadIdx.x % kWarpThreads == 0) row[threadIdx.x / kWarpThreads] = own;
    __syncthreads();
    return row;
  }
  __device__ static uint32_t SumOf(const uint32_t* of_warp, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t warp = 0; warp < kWarps; ++warp) sum += warp < count ? of_warp[warp] : 0u;
    return sum;
  }

  Partial& partial_;
  WarpTeam warp_;
  uint32_t turn_ = 0;
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_DEVICE_TEAM_H_
