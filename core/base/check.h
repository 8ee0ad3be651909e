// GDF_CHECK: ends the process when one of our own invariants is broken. Never for bytes from outside.
#ifndef GDF_CORE_BASE_CHECK_H_
#define GDF_CORE_BASE_CHECK_H_

namespace gdf {

// Prints "file:line: check failed: condition" to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace gdf

#define GDF_CHECK(condition) \
  (static_cast<bool>(condition) ? (void)0 : ::gdf::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // GDF_CORE_BASE_CHECK_H_
