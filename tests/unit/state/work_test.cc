// What a command costs does not grow with what the network has recorded, counted in steps of SQLite's virtual machine.
#include <sqlite3.h>

#include <utility>

#include "fixture.h"

namespace gdf::state {
namespace {

// Counts the steps of all statements of databases that are opened while it lives. One at a time.
class StepCounter {
 public:
  StepCounter() { REQUIRE(sqlite3_auto_extension(reinterpret_cast<void (*)()>(Watch)) == SQLITE_OK); }
  ~StepCounter() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(Watch)); }
  // Since the last call.
  int64_t Take() { return std::exchange(steps, 0); }

 private:
  static int Watch(sqlite3* db, const char**, const struct sqlite3_api_routines*) {
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, Add, nullptr);
  }
  static int Add(unsigned, void*, void* statement, void*) {
    steps += sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1);
    return 0;
  }
  static inline int64_t steps = 0;
};

TEST_CASE("a report, an epoch and an event cost the same after many of them") {
  StepCounter steps;
  World w;
  w.Found();
  w.Admit("a", {trust::Role::kContributor});
  const uint64_t j = w.Propose("c", World::Submission("t"))->job.value;
  uint64_t epoch = 0, round = 0;
  const auto open = [&] { REQUIRE(w.Do("c", World::EpochOf(j, ++epoch, {"a"})).ok()); };
  const auto report = [&] { REQUIRE(w.Do("a", World::Report(j, epoch, round++)).ok()); };
  const auto tell = [&] {
    REQUIRE(w.Do("a", wire::JobEvent{{j}, IdOf("a"), wire::Severity::kInfo, "trains"}).ok());
  };
  const auto cost_of = [&steps](const auto& command) {
    steps.Take();
    command();
    return steps.Take();
  };
  for (int i = 0; i < 3; ++i) open(), report(), tell();
  const int64_t opening = cost_of(open), reporting = cost_of(report), telling = cost_of(tell);
  CHECK(reporting > 100);  // they are counted
  for (int i = 0; i < 300; ++i) open(), report(), tell();
  CHECK(cost_of(open) == opening);
  CHECK(cost_of(report) == reporting);
  CHECK(cost_of(tell) == telling);
}

}  // namespace
}  // namespace gdf::state
