// How a kernel is written once for a device and for the CPU, where tests run it: a body is called with a
// team of threads that work on one item, and says what each of them does between two barriers.
//
//   team.size()                    threads, numbered from 0
//   Team::Local<T> x;              a T of each thread: x[thread]
//   team.Each([&](uint32_t thread) { ... });
//   team.Max(of), team.Sum(of)     of what of(thread) returns, int32_t and uint32_t; every thread has it
//   team.Scan(of, before)          Sum; before[thread] is that of the threads before it
//   team.Or(word, bits)            in memory that threads share
//   team.Warps(body)               body(warp, number, count) for each warp, itself a team
//
// Each of these but Or is a barrier: what threads wrote before it, all of them see after it. What is outside is done
// by every thread alike. DeviceTeam is one on the device, HostTeam of the tests one on the CPU.
#ifndef GDF_CUDA_TEAM_H_
#define GDF_CUDA_TEAM_H_

#include <cstdint>

#ifdef __CUDACC__
#define GDF_DEVICE __device__
#else
#define GDF_DEVICE
#endif

namespace gdf::cuda {

constexpr uint32_t kWarpThreads = 32;
constexpr uint32_t kBlockThreads = 256;  // of a thread block, also as one team

// For kernels whose threads share no memory.
struct NothingShared {};

// Where the first of the items that are refused begins: the place of its first value, so that it is
// the same whatever order they ran in.
class Refused {
 public:
  static constexpr unsigned long long kNone = ~0ull;
  explicit Refused(unsigned long long* first) : first_(first) {}
  GDF_DEVICE void Note(uint64_t begin) const {
#ifdef __CUDACC__
    atomicMin(first_, static_cast<unsigned long long>(begin));
#else
    *first_ = begin < *first_ ? begin : *first_;
#endif
  }

 private:
  unsigned long long* first_;
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_TEAM_H_
