#include "gdfd/supervisor/stderr_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/file_system.h"
#include "core/base/log.h"
#include "core/train/unique_fd.h"
#include "tests/support/temporary_folder.h"

namespace gdf::supervisor {
namespace {

// What is logged from now on.
class LogFile {
 public:
  LogFile() { REQUIRE(LogToFile(path_).ok()); }
  std::vector<std::string> Lines() {
    const absl::StatusOr<std::string> text = PosixFileSystem().Read(path_);
    REQUIRE(text.ok());
    return absl::StrSplit(*text, '\n', absl::SkipEmpty());
  }

 private:
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/log";
};

TEST_CASE("lines are cut at newlines, however they come") {
  LogFile file;
  StderrLog log("j17");
  log.Append("first\nsec");
  CHECK(log.last_line() == "first");
  log.Append("ond\n\n\nthird");
  CHECK(log.lines() == 2);
  log.Finish();
  CHECK(log.last_line() == "third");
  log.Finish();  // nothing more
  CHECK(log.lines() == 3);
  const std::vector<std::string> lines = file.Lines();
  REQUIRE(lines.size() == 3);
  CHECK(absl::EndsWith(lines[1], "level=info event=worker_stderr job=j17 line=second"));
}

TEST_CASE("a line without an end takes no more than its share") {
  LogFile file;
  StderrLog log("j17");
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 100; ++i) log.Append(piece);
  log.Append("\nafter\n");
  CHECK(log.lines() == 2);
  const std::vector<std::string> lines = file.Lines();
  REQUIRE(lines.size() == 2);
  CHECK(absl::EndsWith(lines[0], "=" + std::string(StderrLog::kMaxLineBytes, 'x')));
  CHECK(log.last_line() == "after");
}

TEST_CASE("bytes that are no text, and terminal escapes, become harmless") {
  LogFile file;
  StderrLog log("j17");
  log.Append(std::string("\x9b" "2J\x1b[31mred\0\xff\xfe\n", 15));
  CHECK(log.last_line() == "?2J?[31mred???");
  // A character that the limit cuts in two is left out whole.
  log.Append(std::string(StderrLog::kMaxLineBytes - 1, 'a') + "\xc3\xa9\n");
  CHECK(absl::StartsWith(log.last_line(), std::string(StderrLog::kMaxLineBytes - 1, 'a')));
  for (const std::string& line : file.Lines()) {
    for (const char c : line) CHECK((c >= ' ' && c <= '~'));
  }
}

TEST_CASE("a flood ends at a number of lines, and says so") {
  LogFile file;
  StderrLog log("j17");
  for (int i = 0; i < 20 * StderrLog::kMaxLines; ++i) log.Append("again\n");
  log.Append("why it ended\n");
  CHECK(log.last_line() == "why it ended");
  const std::vector<std::string> lines = file.Lines();
  REQUIRE(lines.size() == StderrLog::kMaxLines + 1);
  CHECK(absl::StrContains(lines.back(), "level=warning event=worker_stderr_dropped job=j17"));
}

TEST_CASE("what a pipe has is read without waiting, up to its end") {
  int fds[2];
  REQUIRE(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
  const train::UniqueFd output(fds[0]);
  train::UniqueFd input(fds[1]);
  StderrLog log("j17");
  CHECK_FALSE(log.ReadAvailable(output.get()));
  CHECK_FALSE(log.closed());
  REQUIRE(write(input.get(), "out of cheese\nredo", 18) == 18);
  CHECK(log.ReadAvailable(output.get()));
  CHECK_FALSE(log.ReadAvailable(output.get()));
  CHECK_FALSE(log.closed());
  input.Reset();
  CHECK_FALSE(log.ReadAvailable(output.get()));
  CHECK(log.closed());
  CHECK(log.last_line() == "out of cheese");
  log.Finish();
  CHECK(log.last_line() == "redo");
}

}  // namespace
}  // namespace gdf::supervisor
