#include "gdfd/jobs/owner_pause.h"

#include <catch2/catch.hpp>

#include "core/base/executor.h"

namespace gdf::jobs {
namespace {

constexpr char kFile[] = "/state/paused";

TEST_CASE("a pause ends when it is ended or over, and goes on after a restart") {
  SimExecutor executor;
  MemoryFileSystem files;
  int changes = 0;
  OwnerPause pause(executor, files, kFile);
  pause.OnChange([&] { ++changes; });
  pause.Load();
  CHECK_FALSE(pause.until());
  const absl::Time until = executor.Now() + absl::Minutes(90);
  REQUIRE(pause.Begin(until).ok());
  CHECK(changes == 1);
  SECTION("over") {
    executor.RunUntil([] { return false; }, absl::Minutes(89));
    CHECK(pause.until().has_value());
    executor.RunUntil([] { return false; }, absl::Minutes(2));
    CHECK_FALSE(pause.until());
    CHECK(changes == 2);
    CHECK_FALSE(files.Exists(kFile));
  }
  SECTION("ended; a second one is another") {
    REQUIRE(pause.End().ok());
    CHECK_FALSE(pause.until());
    REQUIRE(pause.Begin(absl::InfiniteFuture()).ok());
    executor.RunUntil([] { return false; }, absl::Hours(3));
    CHECK(pause.until() == absl::InfiniteFuture());
  }
  SECTION("after a restart") {
    OwnerPause next(executor, files, kFile);
    next.Load();
    REQUIRE(next.until().has_value());
    CHECK(absl::ToUnixMillis(*next.until()) == absl::ToUnixMillis(until));
    executor.RunUntil([] { return false; }, absl::Minutes(91));
    CHECK_FALSE(next.until());
  }
}

TEST_CASE("a pause's file that cannot be read pauses until that is ended") {
  SimExecutor executor;
  for (const char* text : {"", "soon", "-5", "99999999999999999999", "1 2", "000000000000000000000000000000000000000000"}) {
    INFO(text);
    MemoryFileSystem files;
    REQUIRE(files.WriteAtomic(kFile, text).ok());
    OwnerPause pause(executor, files, kFile);
    pause.Load();
    CHECK(pause.until() == absl::InfiniteFuture());
    REQUIRE(pause.End().ok());
    CHECK_FALSE(files.Exists(kFile));
  }
}

}  // namespace
}  // namespace gdf::jobs
