// Teams of cuda/team.h on the CPU: between two barriers threads run one after the other, in an order that
// is not that of their numbers, so that what depends on the order shows.
#ifndef GDF_TESTS_UNIT_CUDA_HOST_TEAM_H_
#define GDF_TESTS_UNIT_CUDA_HOST_TEAM_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "cuda/team.h"

namespace gdf::cuda {

class HostTeam {
 public:
  template <typename T>
  class Local {
   public:
    T& operator[](uint32_t thread) { return values_[thread]; }

   private:
    T values_[kBlockThreads];
  };

  HostTeam(uint32_t size, uint32_t seed) : size_(size), seed_(seed) {
    std::iota(order_, order_ + size, 0u);
    std::mt19937 random(seed);
    for (uint32_t i = size; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }
  uint32_t size() const { return size_; }

  template <typename Body>
  void Each(Body body) {
    for (uint32_t i = 0; i < size_; ++i) body(order_[i]);
  }

  template <typename Of>
  int32_t Max(Of of) {
    int32_t most = INT32_MIN;
    Each([&](uint32_t thread) { most = std::max(most, static_cast<int32_t>(of(thread))); });
    return most;
  }

  template <typename Of>
  uint32_t Sum(Of of) {
    uint32_t sum = 0;
    Each([&](uint32_t thread) { sum += static_cast<uint32_t>(of(thread)); });
    return sum;
  }

  template <typename Of>
  uint32_t Scan(Of of, Local<uint32_t>& before) {
    Each([&](uint32_t thread) { before[thread] = of(thread); });
    uint32_t sum = 0;
    for (uint32_t thread = 0; thread < size_; ++thread) sum += std::exchange(before[thread], sum);
    return sum;
  }

  void Or(uint32_t* word, uint32_t bits) { *word |= bits; }

  template <typename Body>
  void Warps(Body body) {
    const uint32_t count = size_ / kWarpThreads;
    for (uint32_t warp = count; warp-- > 0;) {
      HostTeam team(kWarpThreads, seed_ + warp);
      body(team, warp, count);
    }
  }

 private:
  const uint32_t size_;
  const uint32_t seed_;
  uint32_t order_[kBlockThreads];
};

// Runs a kernel over its items and, as on the device, over what a thread block's other teams take for items beyond the
// last. Shared memory begins with anything.
template <typename Kernel>
void RunOnHost(const Kernel& kernel, uint32_t seed) {
  const uint64_t teams = kBlockThreads / kernel.team_size();
  const auto shared = std::make_unique<typename Kernel::Shared>();
  std::memset(static_cast<void*>(shared.get()), 0xA5, sizeof(*shared));
  for (uint64_t item = 0; item < (kernel.num_items() + teams - 1) / teams * teams; ++item) {
    HostTeam team(kernel.team_size(), seed + static_cast<uint32_t>(item));
    kernel(team, *shared, item);
  }
}

}  // namespace gdf::cuda

#endif  // GDF_TESTS_UNIT_CUDA_HOST_TEAM_H_
