// Timers and waits while the machine's calendar clock is set, which the library of shifted_clock.cc, linked first, plays.
#include <poll.h>

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/executor.h"

void SetShiftedClock(const volatile double* seconds);

namespace gdf {
namespace {

volatile double shift_seconds = 0;

// Beside a wait that is under way: poll's time is monotonic.
void SetBackDuring(absl::Duration from_now) {
  poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(from_now)));
  shift_seconds = -3600;
}

}  // namespace

TEST_CASE("a timer is not late when the calendar clock is set back by an hour while the executor waits for it") {
  SetShiftedClock(&shift_seconds);
  const absl::Time before = absl::Now();
  const SystemClock clock;
  LoopExecutor executor(clock);
  executor.PostAfter(absl::Milliseconds(300), [&] { executor.Stop(); });
  std::future<void> ended = std::async(std::launch::async, [&] { executor.Run(); });
  SetBackDuring(absl::Milliseconds(100));
  CHECK(before - absl::Now() > absl::Minutes(59));
  CHECK(ended.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  executor.Stop();
  shift_seconds = 0;
}

}  // namespace gdf
