// The one place where libtorch's exceptions become statuses.
#ifndef GDF_GDFD_WORKER_TORCH_GUARD_H_
#define GDF_GDFD_WORKER_TORCH_GUARD_H_

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gdf::worker {

// Runs `body` in libtorch's inference mode (gradients here are computed by hand).
// kResourceExhausted when host or GPU memory runs out, kInternal for any other exception; `doing`
// begins the message.
template <typename Body>
absl::Status GuardTorch(absl::string_view doing, Body&& body) {
  try {
    const c10::InferenceMode inference;
    body();
    return absl::OkStatus();
  } catch (const c10::OutOfMemoryError& e) {
    return absl::ResourceExhaustedError(
        absl::StrCat(doing, ": out of GPU memory: ", e.what_without_backtrace()));
  } catch (const c10::Error& e) {
    const absl::string_view what = e.what_without_backtrace();
    if (absl::StrContains(what, "can't allocate memory") ||
        absl::StrContains(what, "not enough memory")) {
      return absl::ResourceExhaustedError(absl::StrCat(doing, ": out of memory: ", what));
    }
    return absl::InternalError(absl::StrCat(doing, ": ", what));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(doing, ": out of memory"));
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat(doing, ": ", e.what()));
  }
}

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_TORCH_GUARD_H_
