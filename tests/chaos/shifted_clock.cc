// Preloaded into a program: its calendar clock is the machine's plus the seconds that the file $GDF_SHIFTED_CLOCK holds (a
// double, as in memory), and changes when the file does. So one node's clock is set without the machine's. What waits for
// a calendar time sees the change as it would see the machine's, since such a wait is done in short pieces. A program that is linked
// with it, before the C library, may say by SetShiftedClock() where the seconds are instead.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <ctime>

namespace {

constexpr double kPieceSeconds = 0.05;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

const volatile double* MapShift() {
  const char* path = std::getenv("GDF_SHIFTED_CLOCK");
  const int file = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return nullptr;
  void* page = mmap(nullptr, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return page == MAP_FAILED ? nullptr : static_cast<const volatile double*>(page);
}

std::atomic<const volatile double*>& ShiftAt() {
  static std::atomic<const volatile double*> at = MapShift();
  return at;
}

double Shift() {
  const volatile double* const shift = ShiftAt().load();
  return shift != nullptr ? *shift : 0;
}

double Seconds(const timespec& at) { return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9; }

void Add(timespec& at, double seconds) {
  const double whole = std::floor(seconds);
  at.tv_sec += static_cast<time_t>(whole);
  at.tv_nsec += static_cast<long>((seconds - whole) * 1e9);
  if (at.tv_nsec < 1'000'000'000) return;
  at.tv_nsec -= 1'000'000'000;
  ++at.tv_sec;
}

int MachineTime(clockid_t clock, timespec* at) {
  static const auto next = Next<int(clockid_t, timespec*)>("clock_gettime");
  return next(clock, at);
}

timespec Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

}  // namespace

void SetShiftedClock(const volatile double* seconds) { ShiftAt() = seconds; }

extern "C" {

int clock_gettime(clockid_t clock, timespec* at) noexcept {
  const int result = MachineTime(clock, at);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) Add(*at, Shift());
  return result;
}

int gettimeofday(timeval* at, void* /*zone*/) noexcept {
  const timespec now = Now();
  *at = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) noexcept {
  const time_t now = Now().tv_sec;
  if (out != nullptr) *out = now;
  return now;
}

// abseil's locks wait for calendar times by this call.
long syscall(long number, ...) noexcept {
  static const auto next = Next<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number != SYS_futex || (a[1] & FUTEX_CLOCK_REALTIME) == 0 || a[3] == 0) {
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  const timespec& until = *reinterpret_cast<const timespec*>(a[3]);
  while (true) {
    const double left = Seconds(until) - Seconds(Now());
    timespec piece;
    MachineTime(CLOCK_REALTIME, &piece);
    Add(piece, std::clamp(left, 0.0, kPieceSeconds));
    const long result = next(number, a[0], a[1], a[2], reinterpret_cast<long>(&piece), a[4], a[5]);
    if (result == 0 || errno != ETIMEDOUT || left <= kPieceSeconds) return result;
  }
}

}  // extern "C"
