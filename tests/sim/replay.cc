// sim_replay [coordinators] SEED [COUNT]: runs the random job, or coordinators, of that seed and prints the history; with
// COUNT, that many seeds from it on, printing those that fail.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/log.h"
#include "tests/sim/chaos.h"

int main(int argc, char** argv) {
  const bool coordinators = argc > 1 && std::string(argv[1]) == "coordinators";
  const int first = coordinators ? 2 : 1;
  if (argc <= first || argc > first + 2) {
    std::fprintf(stderr, "usage: sim_replay [coordinators] SEED [COUNT]\n");
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[first], nullptr, 10);
  const uint64_t count = argc > first + 1 ? std::strtoull(argv[first + 1], nullptr, 10) : 1;
  gdf::sim::History* const run = coordinators ? gdf::sim::RunCoordinatorChaos : gdf::sim::RunChaos;
  const auto print = [](const std::string& text) { std::printf("%s\n", text.c_str()); };
  gdf::SetLogLevel(gdf::LogLevel::kError);
  int failed = 0;
  for (uint64_t s = seed; s < seed + count; ++s) {
    const std::string wrong = count == 1 ? run(s, print) : run(s, nullptr);
    if (wrong.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\nreplay with: sim_replay %s%llu\n", static_cast<unsigned long long>(s), wrong.c_str(),
                coordinators ? "coordinators " : "", static_cast<unsigned long long>(s));
  }
  std::printf("%llu runs, %d failed\n", static_cast<unsigned long long>(count), failed);
  return failed == 0 ? 0 : 1;
}
