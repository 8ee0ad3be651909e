#include "gdfd/listen_ports.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace gdf {
namespace {

constexpr uint64_t kMaxFileBytes = 4096;

std::string PathIn(const std::string& state_dir) { return state_dir + "/listen"; }

// A line each, as they were bound; what cannot be read is as if it were not there.
std::vector<config::Endpoint> LastBound(FileSystem& files, const std::string& state_dir) {
  std::vector<config::Endpoint> last;
  const absl::StatusOr<std::string> text = files.Read(PathIn(state_dir), kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return last;
  if (!text.ok()) {
    Log(LogLevel::kWarning, "last_ports_unreadable", {{"why", text.status()}});
    return last;
  }
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    if (absl::StatusOr<config::Endpoint> endpoint = config::ParseEndpoint(line); endpoint.ok()) {
      last.push_back(*std::move(endpoint));
    }
  }
  return last;
}

}  // namespace

std::vector<std::string> WithLastPorts(FileSystem& files, const std::string& state_dir,
                                       const std::vector<config::Endpoint>& listen) {
  std::vector<config::Endpoint> last = LastBound(files, state_dir);
  std::vector<std::string> out;
  for (config::Endpoint endpoint : listen) {
    const auto same = std::find_if(last.begin(), last.end(), [&](const config::Endpoint& l) { return l.host == endpoint.host; });
    if (endpoint.port == 0 && same != last.end()) {
      endpoint.port = same->port;
      last.erase(same);  // two of one host had two
    }
    out.push_back(config::ToString(endpoint));
  }
  return out;
}

absl::Status KeepPorts(FileSystem& files, const std::string& state_dir, const std::vector<std::string>& bound) {
  return files.WriteAtomic(PathIn(state_dir), absl::StrJoin(bound, "\n") + "\n");
}

}  // namespace gdf
