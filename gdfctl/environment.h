// The world of one gdfctl call, passed in whole so that tests can run commands in a process of their own.
#ifndef GDF_GDFCTL_ENVIRONMENT_H_
#define GDF_GDFCTL_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/base/file_system.h"

namespace gdf::ctl {

struct Environment {
  std::ostream& out;  // data
  std::ostream& err;  // texts for people
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  std::function<int()> columns;  // of the terminal
  std::function<std::optional<std::string>(const std::string&)> variable;
  FileSystem& files;
  const Clock& clock;
  absl::TimeZone zone;
  // Asks on the terminal, without showing a secret answer; absent when there is no terminal to ask on.
  std::function<absl::StatusOr<std::string>(const std::string& question, bool secret)> ask;
  // Waits that long, or until nobody reads standard output any more: false.
  std::function<bool(absl::Duration)> wait;
  // What is told when a signal ends the program from now on.
  std::function<void(const std::string& notice)> set_interrupt_notice;
};

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_ENVIRONMENT_H_
