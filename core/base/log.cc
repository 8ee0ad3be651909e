#include "core/base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"

namespace gdf {
namespace {

constexpr size_t kLogFileBytes = size_t{10} << 20;
constexpr size_t kLogFiles = 5;
constexpr char kPattern[] = "time=%Y-%m-%dT%H:%M:%S.%e%z %v";

std::shared_ptr<spdlog::logger>& Logger() {
  static auto* logger = new std::shared_ptr<spdlog::logger>([] {
    auto l = std::make_shared<spdlog::logger>("gdf", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern(kPattern);
    return l;
  }());
  return *logger;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "error";
}

bool NeedsQuotes(std::string_view value) {
  if (value.empty()) return true;
  for (char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return true;
  }
  return false;
}

}  // namespace

std::string FormatLogLine(LogLevel level, std::string_view event,
                          std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat("level=", Name(level), " event=", ToAbsl(event));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    if (NeedsQuotes(field.value)) {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(field.value), "\"");
    } else {
      line += field.value;
    }
  }
  return SafeText(line, line.size());  // C1 controls and the like are left
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  const spdlog::level::level_enum spd = ToSpdlog(level);
  if (!Logger()->should_log(spd)) return;
  Logger()->log(spd, "{}", FormatLogLine(level, event, fields));
}

void SetLogLevel(LogLevel level) { Logger()->set_level(ToSpdlog(level)); }

absl::Status LogToFile(const std::string& path) {
  if (const absl::StatusOr<int> there = OpenRegularFile(path, O_WRONLY | O_APPEND); there.ok()) {
    close(*there);
  } else if (!absl::IsNotFound(there.status())) {
    return absl::UnavailableError(absl::StrCat("cannot open the log file: ", there.status().message()));
  }
  try {
    auto logger = std::make_shared<spdlog::logger>(
        "gdf", std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kLogFileBytes, kLogFiles));
    logger->set_pattern(kPattern);
    logger->set_level(Logger()->level());
    logger->flush_on(spdlog::level::info);
    Logger() = std::move(logger);
    return absl::OkStatus();
  } catch (const spdlog::spdlog_ex& e) {
    return absl::UnavailableError(absl::StrCat("cannot open the log file ", path, ": ", e.what()));
  }
}

}  // namespace gdf
