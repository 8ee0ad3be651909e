#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/encoding.h"
#include "core/base/rng.h"
#include "core/checkpoint/checkpoint_store.h"
#include "tests/support/faulty_files.h"

namespace gdf::checkpoint {
namespace {

constexpr char kFolder[] = "/jobs/j1/state";
constexpr uint64_t kParams = 1000;
constexpr JobId kJob{1};

NodeId TestNode(int i) { return NodeId(HashBytes("node " + std::to_string(i))); }

// Values of round r of history h.
OuterStateDraft MakeState(uint64_t round, uint64_t history = 0, uint64_t params = kParams, bool momentum = true) {
  auto state = std::make_shared<OuterState>();
  state->theta = *tensor::FlatBuffer::Zeros(params);
  state->momentum = *tensor::FlatBuffer::Zeros(momentum ? params : 0);
  for (uint64_t i = 0; i < params; ++i) {
    state->theta.data()[i] = static_cast<float>(MixSeed(history, round, i) >> 40);
    if (momentum) state->momentum.data()[i] = static_cast<float>(MixSeed(history + 100, round, i) >> 40);
  }
  state->id.round = RoundId{round};
  state->id.cursor = {1, static_cast<int64_t>(round * 10)};
  Identify(*state);
  return state;
}

wire::Receipt ReceiptOf(const OuterState& state, uint32_t attempt = 1) {
  wire::Receipt receipt;
  receipt.tag = {kJob, Epoch{1}, RoundId{state.id.round.value - 1}, attempt};
  receipt.voters = {TestNode(1), TestNode(2)};
  receipt.contributions = {{TestNode(1), 5}};
  receipt.start_theta = HashBytes("start");
  receipt.result = state.id;
  return receipt;
}

wire::Commit CommitOf(const OuterState& state) {
  wire::Commit commit;
  commit.receipt = ReceiptOf(state);
  commit.signatures.resize(2);
  commit.signatures[1].public_key[0] = 1;
  return commit;
}

bool SameState(const OuterState& a, const OuterState& b) {
  const auto same = [](absl::Span<const float> x, absl::Span<const float> y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  };
  return a.id == b.id && same(a.theta.span(), b.theta.span()) && same(a.momentum.span(), b.momentum.span());
}

std::string StateFile(uint64_t round) { return absl::StrFormat("%s/state-%016d", kFolder, round); }
std::string CommittedFile(uint64_t round) { return absl::StrFormat("%s/committed-%016d", kFolder, round); }
std::string PreparedFile(uint64_t round) { return absl::StrFormat("%s/prepared-%016d", kFolder, round); }

struct Fixture {
  MemoryFileSystem disk;
  FaultyFiles files{disk};
  CheckpointStore store{files, {.folder = kFolder, .keep = 2, .num_params = kParams}};

  Loaded Load() {
    absl::StatusOr<Loaded> loaded = store.Load();
    REQUIRE(loaded.ok());
    return *std::move(loaded);
  }
  void CommitRounds(uint64_t from, uint64_t to) {
    for (uint64_t round = from; round <= to; ++round) {
      const OuterStateDraft state = MakeState(round);
      if (round == 0) {
        REQUIRE(store.Commit(*state, std::nullopt).ok());
        continue;
      }
      REQUIRE(store.Prepare(*state, ReceiptOf(*state)).ok());
      REQUIRE(store.Commit(*state, CommitOf(*state)).ok());
    }
  }
  void SaveInner(RoundId round, const std::string& state) {
    const std::unique_ptr<RecordWriter> record = *store.SaveWorker(round);
    REQUIRE(record->Append(AsBytes(state)).ok());
    REQUIRE(record->Commit().ok());
  }
  std::string Inner(const Loaded& loaded) {
    REQUIRE(loaded.worker);
    std::vector<uint8_t> state(loaded.worker->size());
    REQUIRE(loaded.worker->ReadAt(0, absl::MakeSpan(state)).ok());
    return std::string(AsString(state));
  }
  void Corrupt(const std::string& path, size_t at) {
    std::string bytes = *disk.Read(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    REQUIRE(disk.WriteAtomic(path, bytes).ok());
  }
  void Truncate(const std::string& path, size_t size) {
    REQUIRE(disk.WriteAtomic(path, disk.Read(path)->substr(0, size)).ok());
  }
};

TEST_CASE_METHOD(Fixture, "an empty folder holds nothing") {
  const Loaded loaded = Load();
  CHECK(loaded.committed == nullptr);
  CHECK_FALSE(loaded.prepared);
  CHECK_FALSE(loaded.epoch);
  CHECK_FALSE(loaded.worker);
  CHECK(loaded.damage.empty());
}

TEST_CASE_METHOD(Fixture, "what is restored is what was saved") {
  CommitRounds(0, 3);
  const OuterStateDraft shadow = MakeState(4);
  REQUIRE(store.Prepare(*shadow, ReceiptOf(*shadow)).ok());
  const wire::EpochRecord epoch{Epoch{2}, TestNode(1), {TestNode(1), TestNode(2)}};
  const wire::EpochRecord previous{Epoch{1}, TestNode(2), {TestNode(1), TestNode(2), TestNode(3)}};
  REQUIRE(store.SaveEpoch(epoch, previous).ok());
  SaveInner(RoundId{3}, "inner state");

  const Loaded loaded = Load();
  REQUIRE(loaded.committed);
  CHECK(SameState(*loaded.committed, *MakeState(3)));
  CHECK(loaded.commit == CommitOf(*MakeState(3)));
  REQUIRE(loaded.shadow);
  CHECK(SameState(*loaded.shadow, *shadow));
  CHECK(loaded.prepared == ReceiptOf(*shadow));
  CHECK(loaded.epoch == epoch);
  CHECK(loaded.previous == previous);
  REQUIRE(loaded.worker);
  CHECK(Inner(loaded) == "inner state");
  CHECK(loaded.worker_round == RoundId{3});
  CHECK(loaded.damage.empty());
}

TEST_CASE_METHOD(Fixture, "states are discarded with all that belongs to them, promises about epochs are not") {
  CommitRounds(0, 3);
  const OuterStateDraft shadow = MakeState(4);
  REQUIRE(store.Prepare(*shadow, ReceiptOf(*shadow)).ok());
  const wire::EpochRecord epoch{Epoch{2}, TestNode(1), {TestNode(1), TestNode(2)}};
  REQUIRE(store.SaveEpoch(epoch, std::nullopt).ok());
  CHECK(*store.ReserveAttempts(Epoch{2}, 0, 10) == 1);
  SaveInner(RoundId{3}, "inner state");
  REQUIRE(store.Discard().ok());
  const Loaded loaded = Load();
  CHECK(loaded.committed == nullptr);
  CHECK_FALSE(loaded.prepared);
  CHECK(loaded.epoch == epoch);
  CHECK(loaded.damage.empty());
  CHECK(*store.ReserveAttempts(Epoch{2}, 0, 10) == 11);
  CHECK(disk.List(kFolder)->size() == 2);
}

TEST_CASE_METHOD(Fixture, "theta alone is that of the newest state that is whole") {
  CHECK(store.LoadTheta()->committed == nullptr);
  CommitRounds(0, 3);
  const Loaded theta = *store.LoadTheta();
  const OuterStatePtr& state = theta.committed;
  REQUIRE(state);
  const OuterStateDraft newest = MakeState(3);
  CHECK(state->id == newest->id);
  CHECK(state->theta.span() == absl::Span<const float>(newest->theta.span()));
  CHECK(state->momentum.size() == 0);
  REQUIRE(theta.commit);
  CHECK(theta.commit->receipt.result == state->id);
  CHECK(theta.damage.empty());
  Corrupt(StateFile(3), 1000);
  const Loaded older = *store.LoadTheta();
  CHECK(older.committed->id == MakeState(2)->id);
  CHECK(older.damage.size() == 1);
  Corrupt(StateFile(2), 1000);
  CHECK(absl::IsDataLoss(store.LoadTheta().status()));
}

TEST_CASE_METHOD(Fixture, "a record in pieces is one in a piece; without its end it is none") {
  const std::string path = std::string(kFolder) + "/worker-0000000000000003";
  CommitRounds(0, 3);
  SaveInner(RoundId{3}, "inner state");
  const std::string whole = *disk.Read(path);
  std::unique_ptr<RecordWriter> record = *store.SaveWorker(RoundId{3});
  for (const char* piece : {"in", "", "ner state"}) REQUIRE(record->Append(AsBytes(std::string_view(piece))).ok());
  REQUIRE(record->Commit().ok());
  CHECK(*disk.Read(path) == whole);
  record = *store.SaveWorker(RoundId{3});
  REQUIRE(record->Append(AsBytes(std::string_view("other"))).ok());
  record.reset();
  CHECK(*disk.Read(path) == whole);
  Truncate(path, whole.size() - 1);
  CHECK(Load().damage == std::vector<std::string>{path + ": checksum does not match"});
}

// SHA-256 of "abc": FIPS 180-2, appendix B.1.
TEST_CASE_METHOD(Fixture, "a record has the documented bytes") {
  REQUIRE(WriteRecord(files, "/r", AsBytes(std::string_view("abc"))).ok());
  CHECK(*disk.Read("/r") == "GDFREC2\nabc" + std::string(AsString(Digest::FromHex(
                                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")->span())));
  CHECK(ReadRecord(files, "/r", 3)->view() == "abc");
  CHECK(absl::IsDataLoss(ReadRecord(files, "/r", 2).status()));
}

TEST_CASE_METHOD(Fixture, "a state without momentum, and one of no parameters") {
  const OuterStateDraft plain = MakeState(0, 0, kParams, false);
  REQUIRE(store.Commit(*plain, std::nullopt).ok());
  CHECK(SameState(*Load().committed, *plain));
  CHECK(plain->id.momentum.zero());

  CheckpointStore empty(files, {.folder = "/jobs/j2/state", .num_params = 0});
  const OuterStateDraft nothing = MakeState(0, 0, 0);
  REQUIRE(empty.Commit(*nothing, std::nullopt).ok());
  CHECK(SameState(*empty.Load()->committed, *nothing));
}

TEST_CASE_METHOD(Fixture, "the newest two committed states stay, with what belongs to them") {
  for (uint64_t round = 0; round <= 5; ++round) {
    CommitRounds(round, round);
    SaveInner(RoundId{round}, absl::StrCat("inner ", round));
  }
  CHECK(*disk.List(kFolder) == std::vector<std::string>{
                                   "committed-0000000000000004", "committed-0000000000000005",
                                   "state-0000000000000004", "state-0000000000000005",
                                   "worker-0000000000000004", "worker-0000000000000005"});
  REQUIRE(disk.Remove(CommittedFile(5)).ok());
  const Loaded loaded = Load();
  CHECK(loaded.committed->id.round == RoundId{4});
  CHECK(Inner(loaded) == "inner 4");
}

TEST_CASE_METHOD(Fixture, "of a job that has ended only theta of the newest state stays") {
  CHECK(store.KeepThetaOnly().ok());  // nothing is there
  CommitRounds(0, 2);
  SaveInner(RoundId{2}, "inner");
  REQUIRE(store.SaveEpoch({Epoch{1}, TestNode(1), {TestNode(1)}}, std::nullopt).ok());
  REQUIRE(store.ReserveAttempts(Epoch{1}, 0, 5).ok());
  REQUIRE(store.Prepare(*MakeState(3), ReceiptOf(*MakeState(3))).ok());
  REQUIRE(disk.WriteAtomic(StateFile(2) + ".tmp-12", "cut short").ok());
  std::vector<std::string> damage;
  SECTION("the disk is full") {
    disk.set_capacity_bytes(disk.used_bytes());
    REQUIRE(store.KeepThetaOnly().ok());
  }
  SECTION("a damaged state is told, and the one before it is not removed") {
    Corrupt(StateFile(2), 500);
    CHECK(absl::IsDataLoss(store.KeepThetaOnly()));
    CHECK_FALSE(disk.Exists(absl::StrFormat("%s/worker-%016d", kFolder, 2)));
    const OuterStatePtr older = store.LoadTheta()->committed;
    REQUIRE(older != nullptr);
    CHECK(older->id == MakeState(1)->id);
    return;
  }
  for (int times = 0; times < 2; ++times) {
    REQUIRE(store.KeepThetaOnly().ok());
    CHECK(*disk.List(kFolder) == std::vector<std::string>{"committed-0000000000000002", "state-0000000000000002"});
    CHECK(disk.Stat(StateFile(2))->size == 144 + 4 * kParams);
    const Loaded theta = *store.LoadTheta();
    REQUIRE(theta.committed != nullptr);
    CHECK(theta.damage.empty());
    CHECK(theta.committed->id == MakeState(2)->id);
    CHECK(VerifyTheta(*theta.committed).ok());
  }
}

TEST_CASE_METHOD(Fixture, "inner state of an older round is given with its round, of a newer one never") {
  CommitRounds(0, 2);
  SaveInner(RoundId{1}, "older");
  SaveInner(RoundId{3}, "newer");
  const Loaded loaded = Load();
  CHECK(Inner(loaded) == "older");
  CHECK(loaded.worker_round == RoundId{1});
}

TEST_CASE_METHOD(Fixture, "an adopted older state ends the newer history") {
  CommitRounds(0, 3);
  const OuterStateDraft adopted = MakeState(2, /*history=*/7);
  REQUIRE(store.Commit(*adopted, CommitOf(*adopted)).ok());
  const Loaded loaded = Load();
  CHECK(SameState(*loaded.committed, *adopted));
  CHECK_FALSE(disk.Exists(CommittedFile(3)));
  CHECK_FALSE(disk.Exists(StateFile(3)));
}

TEST_CASE_METHOD(Fixture, "a newer attempt replaces the prepared state; the same state keeps its receipt throughout") {
  CommitRounds(0, 1);
  const OuterStateDraft first = MakeState(2, 1);
  const OuterStateDraft second = MakeState(2, 2);
  REQUIRE(store.Prepare(*first, ReceiptOf(*first, 1)).ok());
  REQUIRE(store.Prepare(*second, ReceiptOf(*second, 2)).ok());
  CHECK(SameState(*Load().shadow, *second));
  // The lead of another epoch proposes the same result: at no moment is there no receipt for it.
  files.set_before([&](std::string_view, const std::string&) {
    CHECK(disk.Exists(PreparedFile(2)));
    return absl::OkStatus();
  });
  REQUIRE(store.Prepare(*second, ReceiptOf(*second, 3)).ok());
  CHECK(Load().prepared->tag.attempt == 3);
}

TEST_CASE_METHOD(Fixture, "a crash between any two changes leaves the state before or after, complete") {
  CommitRounds(0, 2);
  const MemoryFileSystem before = disk;
  bool crashed = true;
  for (int change = 1; crashed; ++change) {
    INFO("before change " << change);
    disk = before;
    crashed = false;
    files.set_before([&, done = 0](std::string_view, const std::string&) mutable {
      if (++done < change) return absl::OkStatus();
      crashed = true;
      return absl::UnavailableError("this process has crashed");
    });
    const OuterStateDraft state = MakeState(3);
    const bool prepared = store.Prepare(*state, ReceiptOf(*state)).ok();
    const bool committed = prepared && store.Commit(*state, CommitOf(*state)).ok();
    files.set_before(nullptr);
    const Loaded loaded = Load();
    CHECK(loaded.damage.empty());
    const uint64_t round = loaded.committed->id.round.value;
    CHECK((round == 2 || round == 3));
    CHECK(SameState(*loaded.committed, *MakeState(round)));
    if (committed) CHECK(round == 3);
    if (prepared && round == 2) CHECK(loaded.prepared == ReceiptOf(*state));
    if (loaded.prepared) CHECK(SameState(*loaded.shadow, *state));
  }
}

TEST_CASE_METHOD(Fixture, "a full disk is said, names the file, and leaves what was there") {
  CommitRounds(0, 2);
  disk.set_capacity_bytes(disk.used_bytes() + 500);
  const OuterStateDraft state = MakeState(3);
  const absl::Status full = store.Prepare(*state, ReceiptOf(*state));
  CHECK(absl::IsResourceExhausted(full));
  CHECK(full.message().find("state-0000000000000003") != absl::string_view::npos);
  CHECK(absl::IsResourceExhausted(store.Commit(*state, CommitOf(*state))));
  const Loaded loaded = Load();
  CHECK(SameState(*loaded.committed, *MakeState(2)));
  CHECK(loaded.damage.empty());
}

TEST_CASE_METHOD(Fixture, "damage is named and the state before it is used") {
  CommitRounds(0, 3);
  std::string file;
  std::string what;
  SECTION("a flipped bit in theta") {
    file = StateFile(3);
    what = "theta of round 3 has digest";
    Corrupt(file, 1000);
  }
  SECTION("a flipped bit in the momentum") {
    file = StateFile(3);
    what = "momentum of round 3 has digest";
    Corrupt(file, disk.Read(file)->size() - 1);
  }
  SECTION("a flipped bit in the header") {
    file = StateFile(3);
    what = "header checksum does not match";
    Corrupt(file, 20);
  }
  SECTION("another magic") {
    file = StateFile(3);
    what = "not a state of this version";
    Corrupt(file, 6);
  }
  SECTION("a torn state") {
    file = StateFile(3);
    what = "truncated";
    Truncate(file, 5000);
  }
  SECTION("a state of a few bytes") {
    file = StateFile(3);
    what = "truncated";
    Truncate(file, 10);
  }
  SECTION("an empty state") {
    file = StateFile(3);
    what = "truncated";
    Truncate(file, 0);
  }
  SECTION("no state") {
    file = StateFile(3);
    what = "no such file";
    REQUIRE(disk.Remove(file).ok());
  }
  SECTION("another round's state") {
    file = StateFile(3);
    what = "is of another round";
    REQUIRE(disk.WriteAtomic(file, *disk.Read(StateFile(2))).ok());
  }
  SECTION("a state that is not the receipt's") {
    file = StateFile(3);
    what = "is not the state that its receipt names";
    CheckpointStore other(disk, {.folder = "/other", .num_params = kParams});
    const OuterStateDraft foreign = MakeState(3, 9);
    REQUIRE(other.Commit(*foreign, CommitOf(*foreign)).ok());
    REQUIRE(disk.WriteAtomic(file, *disk.Read("/other/state-0000000000000003")).ok());
  }
  SECTION("a flipped bit in the commit") {
    file = CommittedFile(3);
    what = "checksum does not match";
    Corrupt(file, 60);
  }
  SECTION("a torn commit") {
    file = CommittedFile(3);
    what = "checksum does not match";
    Truncate(file, 60);
  }
  SECTION("a commit of a few bytes") {
    file = CommittedFile(3);
    what = "truncated";
    Truncate(file, 3);
  }
  const Loaded loaded = Load();
  REQUIRE(loaded.committed);
  CHECK(SameState(*loaded.committed, *MakeState(2)));
  REQUIRE(loaded.damage.size() == 1);
  INFO(loaded.damage[0]);
  CHECK(loaded.damage[0].find(file) != std::string::npos);
  CHECK(loaded.damage[0].find(what) != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a damaged promise or inner state is named and does without") {
  CommitRounds(0, 3);
  const OuterStateDraft shadow = MakeState(4);
  REQUIRE(store.Prepare(*shadow, ReceiptOf(*shadow)).ok());
  SaveInner(RoundId{2}, "inner 2");
  SaveInner(RoundId{3}, "inner 3");
  REQUIRE(store.SaveEpoch({Epoch{2}, TestNode(1), {TestNode(1)}}, std::nullopt).ok());
  SECTION("the receipt") {
    Corrupt(PreparedFile(4), 70);
    const Loaded loaded = Load();
    CHECK_FALSE(loaded.prepared);
    CHECK(loaded.shadow == nullptr);
    CHECK(loaded.damage.at(0).find("prepared-0000000000000004") != std::string::npos);
  }
  SECTION("its state") {
    Corrupt(StateFile(4), 3000);
    const Loaded loaded = Load();
    CHECK_FALSE(loaded.prepared);
    CHECK(loaded.damage.at(0).find("state-0000000000000004") != std::string::npos);
  }
  SECTION("the inner state") {
    Corrupt(std::string(kFolder) + "/worker-0000000000000003", 10);
    const Loaded loaded = Load();
    CHECK(Inner(loaded) == "inner 2");
    CHECK(loaded.worker_round == RoundId{2});
    CHECK(loaded.damage.at(0).find("worker-0000000000000003") != std::string::npos);
  }
  SECTION("the epoch") {
    Corrupt(std::string(kFolder) + "/epoch", 50);
    const Loaded loaded = Load();
    CHECK_FALSE(loaded.epoch);
    CHECK(loaded.damage.at(0).find("/epoch: checksum") != std::string::npos);
  }
  CHECK(Load().committed->id.round == RoundId{3});
}

TEST_CASE_METHOD(Fixture, "a model of another size is named with both sizes") {
  CommitRounds(0, 1);
  CheckpointStore other(files, {.folder = kFolder, .num_params = 1001});
  const Loaded loaded = *other.Load();
  CHECK(loaded.committed == nullptr);
  CHECK(loaded.damage.at(0).find("has 1000 parameters, expected 1001") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "foreign files are named or passed over; what a crash left is removed") {
  CommitRounds(0, 1);
  REQUIRE(disk.WriteAtomic(std::string(kFolder) + "/committed-x", "?").ok());
  REQUIRE(disk.WriteAtomic(std::string(kFolder) + "/notes.txt", "?").ok());
  REQUIRE(disk.WriteAtomic(StateFile(2) + ".tmp-71-3", "half a state").ok());
  REQUIRE(disk.WriteAtomic(CommittedFile(2) + ".tmp-71-4", "half a commit").ok());
  const Loaded loaded = Load();
  CHECK(loaded.committed->id.round == RoundId{1});
  REQUIRE(loaded.damage.size() == 1);
  CHECK(loaded.damage[0].find("committed-x: not a round number") != std::string::npos);
  store.RemoveLeftovers();
  CHECK_FALSE(disk.Exists(StateFile(2) + ".tmp-71-3"));
  CHECK_FALSE(disk.Exists(CommittedFile(2) + ".tmp-71-4"));
  CHECK(disk.Exists(std::string(kFolder) + "/notes.txt"));
  CHECK(Load().committed->id.round == RoundId{1});
}

TEST_CASE_METHOD(Fixture, "the previous epoch is remembered until it is forgotten") {
  const wire::EpochRecord one{Epoch{1}, TestNode(1), {TestNode(1), TestNode(2)}};
  const wire::EpochRecord two{Epoch{2}, TestNode(1), {TestNode(1)}};
  REQUIRE(store.SaveEpoch(one, std::nullopt).ok());
  CHECK_FALSE(Load().previous);
  // A crash between the two writes of the next epoch: still in the first.
  files.set_before([](std::string_view change, const std::string& path) {
    const bool second = change == "commit" && path == std::string(kFolder) + "/epoch";
    return second ? absl::UnavailableError("this process has crashed") : absl::OkStatus();
  });
  CHECK_FALSE(store.SaveEpoch(two, one).ok());
  files.set_before(nullptr);
  CHECK(Load().epoch == one);
  CHECK_FALSE(Load().previous);
  REQUIRE(store.SaveEpoch(two, one).ok());
  CHECK(Load().epoch == two);
  CHECK(Load().previous == one);
  REQUIRE(store.ForgetPrevious().ok());
  REQUIRE(store.ForgetPrevious().ok());
  CHECK_FALSE(Load().previous);
}

TEST_CASE_METHOD(Fixture, "attempts of an epoch are never given out twice") {
  CHECK(*store.ReserveAttempts(Epoch{1}, 0, 10) == 1);
  CHECK(*store.ReserveAttempts(Epoch{1}, 0, 10) == 11);
  CheckpointStore restarted(files, {.folder = kFolder, .num_params = kParams});
  CHECK(*restarted.ReserveAttempts(Epoch{1}, 5, 10) == 21);
  CHECK(*restarted.ReserveAttempts(Epoch{1}, 100, 10) == 101);
  CHECK(*restarted.ReserveAttempts(Epoch{2}, 0, 10) == 1);
  CHECK(absl::IsOutOfRange(restarted.ReserveAttempts(Epoch{2}, 4'294'967'290u, 10).status()));
  Corrupt(std::string(kFolder) + "/attempts", 50);
  const absl::Status damaged = restarted.ReserveAttempts(Epoch{2}, 0, 10).status();
  CHECK(absl::IsDataLoss(damaged));
  CHECK(damaged.message().find("/attempts") != absl::string_view::npos);
}

TEST_CASE("the digests of a state name the part that differs") {
  const OuterStateDraft state = MakeState(3);
  CHECK(VerifyDigests(*state).ok());
  state->theta.data()[7] += 1;
  const absl::Status theta = VerifyDigests(*state);
  CHECK(absl::IsDataLoss(theta));
  CHECK(theta.message().find("theta of round 3") == 0);
  Identify(*state);
  state->momentum.data()[7] += 1;
  CHECK(VerifyDigests(*state).message().find("momentum of round 3") == 0);
}

constexpr uint64_t kLeaf = kMerkleLeafBytes / sizeof(float);

TEST_CASE("the digests of a change are those of the whole, and what is unchanged is not read again") {
  const auto make = [](float value) {
    auto state = std::make_shared<OuterState>();
    state->theta = *tensor::FlatBuffer::Zeros(3 * kLeaf + 5);
    state->momentum = *tensor::FlatBuffer::Zeros(3 * kLeaf + 5);
    for (size_t i = 0; i < state->theta.size(); ++i) state->theta.data()[i] = value + static_cast<float>(i % 7);
    return state;
  };
  const OuterStateDraft before = make(1);
  Identify(*before);
  const auto [first, count] = GENERATE(std::pair<uint64_t, uint64_t>{0, kLeaf}, std::pair<uint64_t, uint64_t>{kLeaf - 1, 2},
                                       std::pair<uint64_t, uint64_t>{2 * kLeaf, kLeaf + 5}, std::pair<uint64_t, uint64_t>{0, 3 * kLeaf + 5});
  const OuterStateDraft after = make(1);
  for (uint64_t i = first; i < first + count; ++i) after->theta.data()[i] = after->momentum.data()[i] = 9;
  IdentifyChange(*after, *before, first, count);
  CHECK(VerifyDigests(*after).ok());
  CHECK(after->id.theta != before->id.theta);
  // A state that was read has no leaves: everything is hashed.
  const OuterStateDraft read = make(1);
  read->id = before->id;
  const wire::StateId expected = after->id;
  IdentifyChange(*after, *read, first, count);
  CHECK(after->id == expected);
  // A change that is not said is not seen: leaf 1, which holds no part of the first change.
  if (first == 0 && count == kLeaf) {
    after->theta.data()[kLeaf + 1] += 1;
    IdentifyChange(*after, *before, first, count);
    CHECK(after->id == expected);
  }
}

}  // namespace
}  // namespace gdf::checkpoint
