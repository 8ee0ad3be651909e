// Structured log lines: an event name and fields, as one line of logfmt ("level=info event=peer_up node=abc").
// The programs' main() chooses the sink; until then lines go to standard error.
#ifndef GDF_CORE_BASE_LOG_H_
#define GDF_CORE_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gdf {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One field. Values are quoted when they need it; control characters are escaped.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const absl::Status& v) : key(k), value(v.ToString()) {}
  template <typename Number>
  LogField(std::string_view k, Number v) : key(k), value(absl::StrCat(v)) {}
  std::string key;
  std::string value;
};

// Any thread.
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// Lines below `level` are dropped.
void SetLogLevel(LogLevel level);
// Appends to `path`, kept to 5 files of 10 MiB. kUnavailable when it cannot be opened.
absl::Status LogToFile(const std::string& path);
// The text of a line without its time, for sinks and tests.
std::string FormatLogLine(LogLevel level, std::string_view event,
                          std::initializer_list<LogField> fields);

}  // namespace gdf

#endif  // GDF_CORE_BASE_LOG_H_
