#include "core/membership/allowance.h"

#include "tests/support/test_network.h"

namespace gdf::membership {
namespace {

using absl::StatusCode;
using testing::LoopThread;
using testing::Says;
using testing::TestMember;
using trust::Role;

TEST_CASE("An allowance is 4 MiB at once and 8 KiB a second, and short commands count 1 KiB") {
  Allowance allowance;
  absl::Duration now = absl::Hours(5);
  CHECK(allowance.Take(size_t{4} << 20, now).ok());
  CHECK(Says(allowance.Take(1, now), StatusCode::kUnavailable, "more later"));
  now += absl::Milliseconds(250);  // 2 KiB
  CHECK(allowance.Take(10, now).ok());
  CHECK(allowance.Take(1024, now).ok());
  CHECK_FALSE(allowance.Take(10, now).ok());
  now += absl::Hours(1);  // no more than full
  CHECK(allowance.Take((size_t{4} << 20) - 1024, now).ok());
  CHECK(allowance.Take(1, now).ok());
  CHECK_FALSE(allowance.Take(1, now).ok());
}

TEST_CASE("A member that floods the log is held up, the others are not") {
  LoopThread loop;
  TestMember n1(loop, 1), flooding(loop, 2), other(loop, 3);
  n1.Found();
  flooding.JoinAs(n1, {Role::kSubmitter});
  other.JoinAs(n1, {Role::kSubmitter});
  const std::string spec(900 << 10, '#');
  const auto submit = [&](TestMember& member, const std::string& token) {
    return loop.Await<absl::StatusOr<wire::CommandResult>>([&] {
      return member.membership().Propose(wire::SubmitJob{"job", token, spec, {}, 1}, absl::Seconds(5));
    });
  };
  for (const char* token : {"a", "b", "c", "d"}) REQUIRE(submit(flooding, token).ok());
  const uint64_t entries = n1.applied();
  CHECK(Says(submit(flooding, "e").status(), StatusCode::kUnavailable, "more later"));
  CHECK(n1.applied() == entries);
  CHECK(submit(other, "a").ok());
}

}  // namespace
}  // namespace gdf::membership
