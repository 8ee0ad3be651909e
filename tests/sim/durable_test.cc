// What is shown after a process has ended is still there after the power was cut, wherever the process ended: others are told
// of it, and a client that asks again is told that it was done.
#include <catch2/catch.hpp>

#include <memory>

#include "core/checkpoint/checkpoint_store.h"
#include "core/store/sqlite.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sqlite_disk.h"
#include "tests/support/temporary_folder.h"

namespace gdf::sim {
namespace {

class Machine {
 public:
  explicit Machine(uint64_t seed) : disk_(folder_.path(), seed) { Start(); }
  SqliteDisk& disk() { return disk_; }
  void Start() {
    disk_.set_before(nullptr);
    disk_.Revive();
    db_ = *store::Database::Open(folder_.path() + "/a.db");
  }
  void Kill() {
    disk_.Die();
    db_.reset();
  }
  void CutPower() {
    Kill();
    disk_.CutPower();
  }
  absl::Status Insert(int64_t n) { return db_->Run("INSERT INTO t(n) VALUES(?)", n); }
  void Make() { REQUIRE(db_->Execute("CREATE TABLE t(n INTEGER)").ok()); }
  int64_t Count() {
    store::Rows rows = *db_->Query("SELECT count(*) FROM t");
    REQUIRE(rows.Next());
    return rows.Int(0);
  }

 private:
  testing::TemporaryFolder folder_;
  SqliteDisk disk_;
  std::unique_ptr<store::Database> db_;
};

TEST_CASE("what a database shows after a crash at any step outlives a power cut") {
  int unsynced = 0;  // crashes after which a transaction showed that had not been acknowledged
  for (uint64_t step = 0; step < 12; ++step) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(step, seed);
      Machine machine(seed);
      machine.Make();
      int64_t acknowledged = 0;
      machine.disk().set_before([&machine, left = step](std::string_view) mutable {
        if (left-- > 0) return SqliteDisk::Outcome::kDone;
        machine.disk().Die();
        return SqliteDisk::Outcome::kLost;
      });
      while (machine.Insert(acknowledged).ok()) ++acknowledged;
      machine.Kill();
      machine.Start();
      const int64_t shown = machine.Count();
      CHECK(shown >= acknowledged);
      unsynced += shown > acknowledged;
      machine.CutPower();
      machine.Start();
      CHECK(machine.Count() == shown);
    }
  }
  CHECK(unsynced > 0);
}

checkpoint::OuterStateDraft StateOf(uint64_t round) {
  auto state = std::make_shared<checkpoint::OuterState>();
  state->theta = *tensor::FlatBuffer::Zeros(10);
  state->theta.span()[0] = static_cast<float>(round);
  state->momentum = *tensor::FlatBuffer::Zeros(0);
  state->id.round = RoundId{round};
  checkpoint::Identify(*state);
  return state;
}

NodeId TestNode(const char* name) { return NodeId(HashBytes(std::string_view(name))); }

// Of the round that makes `state`.
wire::Commit CommitOf(const checkpoint::OuterState& state) {
  wire::Commit commit;
  commit.receipt.tag = {JobId{1}, Epoch{1}, RoundId{state.id.round.value - 1}, 1};
  commit.receipt.voters = {TestNode("a")};
  commit.receipt.contributions = {{TestNode("a"), 5}};
  commit.receipt.start_theta = HashBytes("start");
  commit.receipt.result = state.id;
  commit.signatures.resize(1);
  return commit;
}

struct Shown {
  wire::StateId committed;
  std::optional<wire::Receipt> prepared;
  std::optional<wire::EpochRecord> epoch;
  bool operator==(const Shown&) const = default;
};

TEST_CASE("what a job's folder shows after a crash at any step outlives a power cut") {
  const checkpoint::CheckpointStore::Options options{.folder = "/state", .keep = 2, .num_params = 10};
  const auto work = [&](SimDisk& disk) -> absl::Status {
    checkpoint::CheckpointStore store(disk, options);
    absl::Status done = store.Commit(*StateOf(0), std::nullopt);
    for (uint64_t round = 1; done.ok() && round <= 2; ++round) {
      const wire::EpochRecord epoch{Epoch{round}, TestNode("a"), {TestNode("a")}};
      const wire::Commit commit = CommitOf(*StateOf(round));
      done = store.SaveEpoch(epoch, std::nullopt);
      if (done.ok()) done = store.Prepare(*StateOf(round), commit.receipt);
      if (done.ok()) done = store.Commit(*StateOf(round), commit);
    }
    return done;
  };
  const auto show = [&](SimDisk& disk) {
    const checkpoint::Loaded loaded = *checkpoint::CheckpointStore(disk, options).Load();
    return Shown{loaded.committed ? loaded.committed->id : wire::StateId{}, loaded.prepared, loaded.epoch};
  };
  bool ended = false;
  for (uint64_t step = 0; !ended; ++step) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(step, seed);
      SimDisk disk(seed);
      disk.set_before([left = step](std::string_view, const std::string&) mutable {
        return left-- > 0 ? absl::OkStatus() : absl::UnavailableError("the process is no more");
      });
      ended = work(disk).ok();
      disk.set_before(nullptr);
      const Shown shown = show(disk);
      disk.CutPower();
      CHECK(show(disk) == shown);
    }
    REQUIRE(step < 1000);
  }
}

}  // namespace
}  // namespace gdf::sim
