#include "gdfd/supervisor/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file_system.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::supervisor {
namespace {

constexpr char kDaemonLeaf[] = "gdfd";
constexpr char kControllers[] = "+memory +pids";

absl::Status Unavailable(std::string_view what, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", ToAbsl(what), " ", path, ": ", std::strerror(errno)));
}

// These files take one write(2) and are not replaced.
absl::Status Put(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Unavailable("open", path);
  const ssize_t wrote = write(fd, text.data(), text.size());
  const absl::Status status = wrote == static_cast<ssize_t>(text.size())
                                  ? absl::OkStatus()
                                  : Unavailable(absl::StrCat("write ", text, " to"), path);
  close(fd);
  return status;
}

// These files say they are empty, so they are read to the end.
std::string Get(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char bytes[4096];
  for (ssize_t got; (got = read(fd, bytes, sizeof(bytes))) > 0;) text.append(bytes, got);
  close(fd);
  return text;
}

bool HasWord(const std::string& text, std::string_view word) {
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(" \n"))) {
    if (part == ToAbsl(word)) return true;
  }
  return false;
}

absl::StatusOr<std::string> OwnGroup(std::string_view self) {
  for (absl::string_view line : absl::StrSplit(ToAbsl(self), '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) return std::string(line);
  }
  return absl::UnavailableError("this process is in no version 2 control group");
}

}  // namespace

absl::StatusOr<std::string> DelegatedCgroup(const std::string& mount, std::string_view self) {
  GDF_ASSIGN_OR_RETURN(const std::string group, OwnGroup(self));
  std::string folder = mount + group;
  const std::string leaf = absl::StrCat("/", kDaemonLeaf);
  if (absl::EndsWith(folder, leaf)) {
    std::string parent = folder.substr(0, folder.size() - leaf.size());
    if (HasWord(Get(parent + "/cgroup.subtree_control"), "memory")) return parent;
  }
  if (!HasWord(Get(folder + "/cgroup.controllers"), "memory")) {
    return absl::UnavailableError("the control group " + folder +
                                  " has no memory controller (for systemd: Delegate=yes)");
  }
  const std::string only_us = absl::StrCat(getpid(), "\n");
  if (group == "/" || Get(folder + "/cgroup.procs") != only_us) {
    return absl::UnavailableError("the control group " + folder +
                                  " is not this process's alone (for systemd: Delegate=yes)");
  }
  if (mkdir((folder + leaf).c_str(), 0755) != 0 && errno != EEXIST) {
    return Unavailable("make the control group", folder + leaf);
  }
  GDF_RETURN_IF_ERROR(Put(folder + leaf + "/cgroup.procs", absl::StrCat(getpid())));
  GDF_RETURN_IF_ERROR(Put(folder + "/cgroup.subtree_control", kControllers));
  return folder;
}

absl::StatusOr<std::string> DelegatedCgroup() {
  return DelegatedCgroup("/sys/fs/cgroup", Get("/proc/self/cgroup"));
}

absl::StatusOr<Cgroup> Cgroup::Create(const std::string& parent, uint64_t memory_bytes,
                                      int max_tasks) {
  std::string folder = parent + "/worker-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return Unavailable("make a control group in", parent);
  Cgroup group(folder);
  GDF_RETURN_IF_ERROR(group.Limit(memory_bytes, max_tasks));
  return group;
}

absl::Status Cgroup::Limit(uint64_t memory_bytes, int max_tasks) const {
  if (memory_bytes > 0) {
    GDF_RETURN_IF_ERROR(Put(folder_ + "/memory.max", absl::StrCat(memory_bytes)));
    // Absent where the kernel does not account swap.
    Put(folder_ + "/memory.swap.max", "0").IgnoreError();
  }
  return Put(folder_ + "/pids.max", absl::StrCat(max_tasks));
}

Cgroup::~Cgroup() {
  if (!folder_.empty()) rmdir(folder_.c_str());
}

absl::StatusOr<train::UniqueFd> Cgroup::OpenProcs() const {
  const std::string path = folder_ + "/cgroup.procs";
  train::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return Unavailable("open", path);
  return fd;
}

// "oom" counts allocations that failed at the limit, "oom_kill" kills for any lack of memory.
bool Cgroup::RanOutOfMemory() const {
  const std::string events = Get(folder_ + "/memory.events");
  uint64_t failed = 0;
  uint64_t killed = 0;
  for (absl::string_view line : absl::StrSplit(events, '\n')) {
    uint64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom ") && absl::SimpleAtoi(line, &count)) failed = count;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) killed = count;
  }
  return failed > 0 && killed > 0;
}

}  // namespace gdf::supervisor
