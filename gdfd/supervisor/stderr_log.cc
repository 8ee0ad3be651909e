#include "gdfd/supervisor/stderr_log.h"

#include <unistd.h>

#include <cerrno>

#include "core/base/log.h"
#include "core/base/name.h"

namespace gdf::supervisor {

bool StderrLog::ReadAvailable(int fd) {
  char bytes[4096];
  const ssize_t got = read(fd, bytes, sizeof(bytes));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  Append({bytes, static_cast<size_t>(got)});
  return true;
}

void StderrLog::Append(std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      EndLine();
    } else if (line_.size() < kMaxLineBytes) {
      line_.push_back(c);
    }
  }
}

void StderrLog::Finish() { EndLine(); }

void StderrLog::EndLine() {
  if (line_.empty()) return;
  last_line_ = SafeText(line_, kMaxLineBytes);
  line_.clear();
  ++lines_;
  if (lines_ <= kMaxLines) {
    Log(LogLevel::kInfo, "worker_stderr", {{"job", label_}, {"line", last_line_}});
  }
  if (lines_ == kMaxLines) {
    Log(LogLevel::kWarning, "worker_stderr_dropped", {{"job", label_}, {"after_lines", kMaxLines}});
  }
}

}  // namespace gdf::supervisor
