// A worker's standard error as log lines, bounded in length and number, and safe to show.
#ifndef GDF_GDFD_SUPERVISOR_STDERR_LOG_H_
#define GDF_GDFD_SUPERVISOR_STDERR_LOG_H_

#include <string>
#include <string_view>
#include <utility>

namespace gdf::supervisor {

class StderrLog {
 public:
  static constexpr size_t kMaxLineBytes = 1024;  // longer ones are cut
  static constexpr int kMaxLines = 1000;         // of one worker; what follows is dropped

  explicit StderrLog(std::string label) : label_(std::move(label)) {}

  // Takes some of what the descriptor has, without waiting; false when there is nothing now.
  bool ReadAvailable(int fd);
  bool closed() const { return closed_; }  // the other end is
  void Append(std::string_view bytes);
  // Logs a last line that has no newline.
  void Finish();

  // The last line that was not empty: often why the worker ended.
  const std::string& last_line() const { return last_line_; }
  int lines() const { return lines_; }

 private:
  void EndLine();

  std::string label_;
  std::string line_;
  std::string last_line_;
  int lines_ = 0;
  bool closed_ = false;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_STDERR_LOG_H_
