// sim_replay SEED [COUNT]: runs the random job of that seed and prints its history; with COUNT, that many seeds from
// it on, printing those that fail.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/log.h"
#include "tests/sim/chaos.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: sim_replay SEED [COUNT]\n");
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const auto print = [](const std::string& text) { std::printf("%s\n", text.c_str()); };
  gdf::SetLogLevel(gdf::LogLevel::kError);
  int failed = 0;
  for (uint64_t s = seed; s < seed + count; ++s) {
    const std::string wrong = count == 1 ? gdf::sim::RunChaos(s, print) : gdf::sim::RunChaos(s);
    if (wrong.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(s), wrong.c_str());
  }
  std::printf("%llu runs, %d failed\n", static_cast<unsigned long long>(count), failed);
  return failed == 0 ? 0 : 1;
}
