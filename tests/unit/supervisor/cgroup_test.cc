// Control groups in a folder that stands for the kernel's file system. The files and what is
// written to them: Linux, Documentation/admin-guide/cgroup-v2.rst.
#include "gdfd/supervisor/cgroup.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file_system.h"
#include "tests/support/temporary_folder.h"

namespace gdf::supervisor {
namespace {

constexpr char kSelf[] = "4:memory:/old/style\n0::/system.slice/gdfd.service\n";

class FakeMount {
 public:
  FakeMount() { REQUIRE(files_.MakeFolders(group() + "/gdfd", 0755).ok()); }

  const std::string& path() const { return folder_.path(); }
  std::string group() const { return path() + "/system.slice/gdfd.service"; }
  void Put(const std::string& name, const std::string& text) {
    REQUIRE(files_.WriteAtomic(absl::StrCat(group(), "/", name), text).ok());
  }
  std::string Get(const std::string& name) {
    const absl::StatusOr<std::string> text = files_.Read(absl::StrCat(group(), "/", name));
    INFO(name << ": " << text.status());
    REQUIRE(text.ok());
    return *text;
  }
  // As systemd leaves a unit with Delegate=memory pids.
  void Delegate() {
    Put("cgroup.controllers", "cpu memory pids\n");
    Put("cgroup.subtree_control", "");
    Put("cgroup.procs", absl::StrCat(getpid(), "\n"));
    Put("gdfd/cgroup.procs", "");
  }

 private:
  testing::TemporaryFolder folder_;
  PosixFileSystem files_;
};

bool Says(const absl::Status& status, const std::string& text) {
  return absl::IsUnavailable(status) && absl::StrContains(status.message(), text);
}

TEST_CASE("a delegated group: the daemon moves into a leaf and hands the controllers down") {
  FakeMount mount;
  mount.Delegate();
  const absl::StatusOr<std::string> parent = DelegatedCgroup(mount.path(), kSelf);
  INFO(parent.status());
  REQUIRE(parent.ok());
  CHECK(*parent == mount.group());
  CHECK(mount.Get("gdfd/cgroup.procs") == absl::StrCat(getpid()));
  CHECK(mount.Get("cgroup.subtree_control") == "+memory +pids");
}

TEST_CASE("a daemon that starts anew in its leaf finds the group that it has made") {
  FakeMount mount;
  mount.Put("cgroup.subtree_control", "memory pids\n");
  const absl::StatusOr<std::string> parent =
      DelegatedCgroup(mount.path(), "0::/system.slice/gdfd.service/gdfd\n");
  INFO(parent.status());
  REQUIRE(parent.ok());
  CHECK(*parent == mount.group());
}

TEST_CASE("where memory cannot be limited by a group, the reason says so") {
  FakeMount mount;
  mount.Delegate();
  SECTION("a kernel with the first version only") {
    CHECK(Says(DelegatedCgroup(mount.path(), "4:memory:/x\n").status(),
               "in no version 2 control group"));
  }
  SECTION("no memory controller") {
    mount.Put("cgroup.controllers", "cpu pids memory_recursiveprot\n");
    const absl::Status status = DelegatedCgroup(mount.path(), kSelf).status();
    CHECK(Says(status, mount.group() + " has no memory controller"));
    CHECK(Says(status, "Delegate=yes"));
  }
  SECTION("no such group") {
    CHECK(Says(DelegatedCgroup(mount.path() + "/elsewhere", kSelf).status(),
               "no memory controller"));
  }
  SECTION("shared with other processes") {
    mount.Put("cgroup.procs", absl::StrCat(getpid(), "\n", getppid(), "\n"));
    CHECK(Says(DelegatedCgroup(mount.path(), kSelf).status(), "not this process's alone"));
  }
  SECTION("the root of all groups") {
    CHECK(Says(DelegatedCgroup(mount.group(), "0::/\n").status(), "not this process's alone"));
  }
  SECTION("a group that may only be read") {
    PosixFileSystem files;
    REQUIRE(files.RemoveTree(mount.group() + "/cgroup.subtree_control").ok());
    CHECK(Says(DelegatedCgroup(mount.path(), kSelf).status(), "cgroup.subtree_control"));
  }
  // Nothing was handed down.
  if (PosixFileSystem().Exists(mount.group() + "/cgroup.subtree_control")) {
    CHECK(mount.Get("cgroup.subtree_control").empty());
  }
}

TEST_CASE("a worker's limits are what is written to its group") {
  FakeMount mount;
  for (const char* name : {"memory.max", "memory.swap.max", "pids.max"}) mount.Put(name, "max");
  const Cgroup group(mount.group());
  SECTION("with a memory limit: no swap either") {
    REQUIRE(group.Limit(uint64_t{3} << 30, 1024).ok());
    CHECK(mount.Get("memory.max") == "3221225472");
    CHECK(absl::StartsWith(mount.Get("memory.swap.max"), "0"));
    CHECK(mount.Get("pids.max") == "1024");
  }
  SECTION("without one") {
    REQUIRE(group.Limit(0, 1024).ok());
    CHECK(mount.Get("memory.max") == "max");
    CHECK(mount.Get("memory.swap.max") == "max");
  }
  SECTION("a kernel that does not account swap") {
    REQUIRE(PosixFileSystem().RemoveTree(mount.group() + "/memory.swap.max").ok());
    CHECK(group.Limit(1 << 30, 1024).ok());
  }
  SECTION("a file that is not there is named") {
    REQUIRE(PosixFileSystem().RemoveTree(mount.group() + "/memory.max").ok());
    CHECK(Says(group.Limit(1 << 30, 1024), "/memory.max: No such file"));
  }
}

TEST_CASE("a process killed for lack of memory is told from others") {
  FakeMount mount;
  const Cgroup group(mount.group());
  CHECK_FALSE(group.RanOutOfMemory());  // no memory controller: no such file
  // "oom": the limit was reached and an allocation failed. "oom_kill": killed by any OOM killer.
  mount.Put("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 0\noom_group_kill 0\n");
  CHECK_FALSE(group.RanOutOfMemory());
  mount.Put("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 1\noom_group_kill 0\n");
  CHECK(group.RanOutOfMemory());
  // The whole machine had no memory left, and this was the process to go.
  mount.Put("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n");
  CHECK_FALSE(group.RanOutOfMemory());
  mount.Put("memory.events", "oom many\noom_kill many\n");
  CHECK_FALSE(group.RanOutOfMemory());
}

TEST_CASE("a group that cannot be limited is not left behind") {
  FakeMount mount;  // an ordinary folder: no files appear in a new one
  const absl::StatusOr<Cgroup> group = Cgroup::Create(mount.group(), 1 << 30, 16);
  CHECK(Says(group.status(), "memory.max"));
  CHECK(PosixFileSystem().List(mount.group())->size() == 1);  // the leaf "gdfd"
  CHECK(Says(Cgroup::Create(mount.path() + "/none", 0, 16).status(), mount.path() + "/none"));
}

TEST_CASE("a group's folder goes with its last owner") {
  testing::TemporaryFolder folder;
  PosixFileSystem files;
  const std::string path = folder.path() + "/worker";
  REQUIRE(files.MakeFolders(path, 0755).ok());
  {
    Cgroup first(path);
    const Cgroup second(std::move(first));
    CHECK(files.Exists(path));
  }
  CHECK_FALSE(files.Exists(path));
}

}  // namespace
}  // namespace gdf::supervisor
