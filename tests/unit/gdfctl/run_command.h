// Whole commands of gdfctl, in the test's own process.
#ifndef GDF_TESTS_UNIT_GDFCTL_RUN_COMMAND_H_
#define GDF_TESTS_UNIT_GDFCTL_RUN_COMMAND_H_

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gdfctl/run.h"
#include "tests/support/fake_gdfd.h"

namespace gdf::ctl {

struct Outcome {
  int code = 0;
  std::string out, err;
};

// A machine without a terminal; `wait` is what every waiting answers.
inline Environment EnvironmentOn(std::ostream& out, std::ostream& err, FileSystem& files, const Clock& clock, bool wait) {
  return {.out = out,
          .err = err,
          .columns = [] { return 80; },
          .variable = [](const std::string&) { return std::nullopt; },
          .files = files,
          .clock = clock,
          .zone = absl::UTCTimeZone(),
          .ask = nullptr,
          .wait = [wait](absl::Duration) { return wait; },
          .set_interrupt_notice = [](const std::string&) {}};
}

// `answer`: what is typed when asked; null: there is no terminal to ask on.
inline Outcome RunWith(std::vector<std::string> arguments, const std::map<std::string, std::string>& variables = {},
                const char* answer = nullptr) {
  std::ostringstream out, err;
  PosixFileSystem files;
  const SystemClock clock;
  Environment environment = EnvironmentOn(out, err, files, clock, /*wait=*/false);
  environment.variable = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  if (answer != nullptr) environment.ask = [answer](const std::string&, bool) { return std::string(answer); };
  const int code = Run(arguments, environment);
  return {code, out.str(), err.str()};
}

inline Outcome RunOn(const testing::FakeGdfd& gdfd, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--socket", gdfd.socket()});
  return RunWith(std::move(arguments));
}

}  // namespace gdf::ctl

#endif  // GDF_TESTS_UNIT_GDFCTL_RUN_COMMAND_H_
