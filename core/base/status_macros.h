// Early return on a failed absl::Status or StatusOr; the CO_ forms do the same inside a coroutine.
#ifndef GDF_CORE_BASE_STATUS_MACROS_H_
#define GDF_CORE_BASE_STATUS_MACROS_H_

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gdf {

// The same code with `context` put before the message: "context: message". OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(absl::string_view(context.data(), context.size()), ": ",
                                   status.message()));
}

}  // namespace gdf

#define GDF_CONCAT_INNER_(a, b) a##b
#define GDF_CONCAT_(a, b) GDF_CONCAT_INNER_(a, b)

#define GDF_RETURN_IF_ERROR(expr)                                  \
  do {                                                             \
    if (::absl::Status gdf_status_ = (expr); !gdf_status_.ok()) {  \
      return gdf_status_;                                          \
    }                                                              \
  } while (false)

#define GDF_CO_RETURN_IF_ERROR(expr)                               \
  do {                                                             \
    ::absl::Status gdf_status_ = (expr);                           \
    if (!gdf_status_.ok()) co_return gdf_status_;                  \
  } while (false)

#define GDF_ASSIGN_OR_RETURN_(tmp, return_word, lhs, expr) \
  auto tmp = (expr);                                       \
  if (!tmp.ok()) return_word std::move(tmp).status();      \
  lhs = *std::move(tmp)

#define GDF_ASSIGN_OR_RETURN(lhs, ...) \
  GDF_ASSIGN_OR_RETURN_(GDF_CONCAT_(gdf_status_or_, __LINE__), return, lhs, (__VA_ARGS__))

#define GDF_CO_ASSIGN_OR_RETURN(lhs, ...) \
  GDF_ASSIGN_OR_RETURN_(GDF_CONCAT_(gdf_status_or_, __LINE__), co_return, lhs, (__VA_ARGS__))

#endif  // GDF_CORE_BASE_STATUS_MACROS_H_
