// Tells ThreadSanitizer of absl::Mutex: Debian's abseil is built without it, so its locks order
// nothing in ThreadSanitizer's eyes. The program's own definitions come before those of the shared
// library, for gRPC too; each calls the library's, the next in the search order.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

// gRPC and what it is made of are not instrumented and order what they do by atomics that
// ThreadSanitizer cannot see: memory that they allocate, copy and free, and locks that lie in it,
// say nothing. Handlers that gRPC's threads run are not meant by this and stay checked.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libgrpc.so\n"
         "race:libgrpc\n"
         "race:libabsl_\n"
         "race:libupb.so\n"
         "race:libssl.so\n"
         "race:libcrypto.so\n"
         "race:tsan_mutex.cc\n"
         "thread:libgpr.so\n";  // gRPC leaves its own threads to the end of the process
}

namespace {

#define GDF_ABSL "_ZN4absl7debian3"
#define GDF_ABSL_CONST "_ZNK4absl7debian3"

// The library's function of that mangled name, which has this signature with the object first.
template <typename Function>
Function* Next(const char* symbol) {
  void* function = dlsym(RTLD_NEXT, symbol);
  if (function == nullptr) {
    std::fprintf(stderr, "tsan_mutex: this abseil has no %s\n", symbol);
    std::abort();
  }
  return reinterpret_cast<Function*>(function);
}

// Until the destructor, `mutex` is not held by the calling thread.
class Unheld {
 public:
  explicit Unheld(absl::Mutex* mutex) : mutex_(mutex) {
    __tsan_mutex_pre_unlock(mutex_, 0);
    __tsan_mutex_post_unlock(mutex_, 0);
    __tsan_mutex_pre_lock(mutex_, 0);
  }
  ~Unheld() { __tsan_mutex_post_lock(mutex_, 0, 0); }
  Unheld(const Unheld&) = delete;

 private:
  absl::Mutex* const mutex_;
};

// In the destructor the calling thread has come to hold `mutex`.
class Locking {
 public:
  Locking(absl::Mutex* mutex, unsigned flags) : mutex_(mutex), flags_(flags) {
    __tsan_mutex_pre_lock(mutex_, flags_);
  }
  ~Locking() { __tsan_mutex_post_lock(mutex_, flags_, 0); }
  Locking(const Locking&) = delete;
  void Failed() { flags_ |= __tsan_mutex_try_lock_failed; }

 private:
  absl::Mutex* const mutex_;
  unsigned flags_;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static auto* const next = Next<void(Mutex*)>(GDF_ABSL "5MutexD1Ev");
  next(this);
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
}

void Mutex::Lock() {
  static auto* const next = Next<void(Mutex*)>(GDF_ABSL "5Mutex4LockEv");
  Locking locking(this, 0);
  next(this);
}

void Mutex::Unlock() {
  static auto* const next = Next<void(Mutex*)>(GDF_ABSL "5Mutex6UnlockEv");
  __tsan_mutex_pre_unlock(this, 0);
  next(this);
  __tsan_mutex_post_unlock(this, 0);
}

bool Mutex::TryLock() {
  static auto* const next = Next<bool(Mutex*)>(GDF_ABSL "5Mutex7TryLockEv");
  Locking locking(this, __tsan_mutex_try_lock);
  const bool locked = next(this);
  if (!locked) locking.Failed();
  return locked;
}

void Mutex::ReaderLock() {
  static auto* const next = Next<void(Mutex*)>(GDF_ABSL "5Mutex10ReaderLockEv");
  Locking locking(this, __tsan_mutex_read_lock);
  next(this);
}

void Mutex::ReaderUnlock() {
  static auto* const next = Next<void(Mutex*)>(GDF_ABSL "5Mutex12ReaderUnlockEv");
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  next(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const next =
      Next<void(Mutex*, const Condition&)>(GDF_ABSL "5Mutex8LockWhenERKNS0_9ConditionE");
  Locking locking(this, 0);
  next(this, condition);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static auto* const next = Next<bool(Mutex*, const Condition&, Time)>(
      GDF_ABSL "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Locking locking(this, 0);
  return next(this, condition, deadline);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  return LockWhenWithDeadline(condition, Now() + timeout);
}

void Mutex::Await(const Condition& condition) {
  static auto* const next =
      Next<void(Mutex*, const Condition&)>(GDF_ABSL "5Mutex5AwaitERKNS0_9ConditionE");
  Unheld unheld(this);
  next(this, condition);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const next = Next<bool(Mutex*, const Condition&, Time)>(
      GDF_ABSL "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Unheld unheld(this);
  return next(this, condition, deadline);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  return AwaitWithDeadline(condition, Now() + timeout);
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const next = Next<void(CondVar*, Mutex*)>(GDF_ABSL "7CondVar4WaitEPNS0_5MutexE");
  Unheld unheld(mutex);
  next(this, mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Time)>(
      GDF_ABSL "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  Unheld unheld(mutex);
  return next(this, mutex, deadline);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  return WaitWithDeadline(mutex, Now() + timeout);
}

// Its flag is read without the lock once it is set.
void Notification::Notify() {
  static auto* const next = Next<void(Notification*)>(GDF_ABSL "12Notification6NotifyEv");
  __tsan_release(this);
  next(this);
}

void Notification::WaitForNotification() const {
  static auto* const next =
      Next<void(const Notification*)>(GDF_ABSL_CONST "12Notification19WaitForNotificationEv");
  next(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static auto* const next = Next<bool(const Notification*, Time)>(
      GDF_ABSL_CONST "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = next(this, deadline);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  return WaitForNotificationWithDeadline(Now() + timeout);
}

// The last of a status's owners frees it, after all the others: the library counts them with
// atomics. The lock, which ThreadSanitizer cannot see either, keeps the count in step with what it
// is told.
void Status::UnrefNonInlined(uintptr_t rep) {
  static auto* const next = Next<void(uintptr_t)>(GDF_ABSL "6Status15UnrefNonInlinedEm");
  static std::atomic_flag busy;
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  __tsan_release(reinterpret_cast<void*>(rep));
  __tsan_acquire(reinterpret_cast<void*>(rep));
  next(rep);
  busy.clear(std::memory_order_release);
}

ABSL_NAMESPACE_END
}  // namespace absl
