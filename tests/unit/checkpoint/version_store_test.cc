#include "core/checkpoint/version_store.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "core/checkpoint/version_writer.h"
#include "tests/support/faulty_files.h"

namespace gdf::checkpoint {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kParams = 3 * kMiB / 4 + 1000;  // four chunks, the last of them short
constexpr char kInnerFile[] = "/jobs/j1/state/worker";
constexpr char kSide[] = "config and tokenizer";

NodeId TestNode(int i) { return NodeId(HashBytes("node " + std::to_string(i))); }

trust::NodeKey TestKey() { return trust::NodeKey::FromSeed({7}); }

void Fill(uint64_t seed, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(MixSeed(seed, i) >> 40);
}

// Values of round r of history h.
OuterStateDraft MakeState(uint64_t round, uint64_t history = 0, uint64_t params = kParams) {
  auto state = std::make_shared<OuterState>();
  state->theta = *tensor::FlatBuffer::Zeros(params);
  state->momentum = *tensor::FlatBuffer::Zeros(params);
  Fill(MixSeed(history, round, 1), state->theta.span());
  Fill(MixSeed(history, round, 2), state->momentum.span());
  state->id.round = RoundId{round};
  state->id.cursor = {1, static_cast<int64_t>(round * 10)};
  Identify(*state);
  return state;
}

wire::Commit CommitOf(const OuterState& state) {
  wire::Commit commit;
  commit.receipt.tag = {JobId{1}, Epoch{1}, RoundId{state.id.round.value - 1}, 1};
  commit.receipt.voters = {TestNode(1), TestNode(2)};
  commit.receipt.contributions = {{TestNode(1), 5}};
  commit.receipt.start_theta = HashBytes("start");
  commit.receipt.result = state.id;
  commit.signatures.resize(2);
  commit.signatures[1].public_key[0] = 1;
  return commit;
}

// A node's disk with the versions of job j1, as after a start.
struct Node {
  explicit Node(MemoryFileSystem& on, uint64_t cap_bytes = ~uint64_t{0}) : disk(on), cap(cap_bytes) { Restart(); }
  void Restart() {
    versions.reset();
    chunks = *store::ChunkStore::Open(files, {.folder = "/chunks", .cap_bytes = cap});
    versions = std::make_shared<VersionStore>(
        files, chunks, VersionStore::Options{.folder = "/jobs/j1/checkpoints", .owner = "j1"});
  }
  absl::StatusOr<Version> TryWrite(OuterStatePtr state, std::shared_ptr<const RecordFile> inner = nullptr) {
    VersionWriter writer(versions, {state, CommitOf(*state), Buffer(std::string(kSide)), std::move(inner)});
    for (bool more = true; more;) {
      GDF_ASSIGN_OR_RETURN(more, writer.Step());
    }
    return writer.Finish(TestKey(), 1000);
  }
  Version Write(OuterStatePtr state, std::shared_ptr<const RecordFile> inner = nullptr) {
    absl::StatusOr<Version> version = TryWrite(std::move(state), std::move(inner));
    INFO(version.status());
    REQUIRE(version.ok());
    return *version;
  }
  std::shared_ptr<const RecordFile> Inner(uint64_t seed, uint64_t values = kParams) {
    tensor::FlatBuffer state = *tensor::FlatBuffer::Zeros(values);
    Fill(seed, state.span());
    REQUIRE(WriteRecord(disk, kInnerFile, tensor::AsBytes(state.span())).ok());
    return *RecordFile::Open(disk, kInnerFile);
  }
  std::vector<uint64_t> Rounds() {
    std::vector<uint64_t> rounds;
    const std::vector<RoundId> kept = *versions->List();
    for (const RoundId round : kept) rounds.push_back(round.value);
    return rounds;
  }
  // Whether all that it keeps of the round is there and what was committed.
  bool Whole(uint64_t round) {
    const absl::StatusOr<Version> version = versions->Load(RoundId{round});
    if (!version.ok()) return false;
    const absl::StatusOr<Inspection> found = versions->Inspect(*version);
    return found.ok() && found->missing.empty() && found->digests.ok() && found->chunks > 0;
  }

  MemoryFileSystem& disk;
  const uint64_t cap;
  FaultyFiles files{disk};
  std::shared_ptr<store::ChunkStore> chunks;
  std::shared_ptr<VersionStore> versions;
};

std::string ChunkFile(const store::ChunkId& id) {
  const std::string hex = id.ToHex();
  return absl::StrCat("/chunks/", hex.substr(0, 2), "/", hex.substr(2));
}

void Damage(MemoryFileSystem& disk, const std::string& path) {
  std::string bytes = *disk.Read(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  REQUIRE(disk.WriteAtomic(path, bytes).ok());
}

store::Manifest ManifestOf(Node& node, const Digest& id) {
  return *store::Manifest::Decode((*node.chunks->Get(id)).view());
}

TEST_CASE("a version has what was committed, the export's files and the inner state, also after a restart") {
  MemoryFileSystem disk;
  Node node(disk);
  const OuterStateDraft state = MakeState(4);
  const Version written = node.Write(state, node.Inner(5));
  node.Restart();
  CHECK(node.Rounds() == std::vector<uint64_t>{4});
  const Version version = *node.versions->Load(RoundId{4});
  CHECK(version == written);
  CHECK(version.commit == CommitOf(*state));
  CHECK(version.job() == JobId{1});
  CHECK(version.node == TestKey().id());
  CHECK(version.written_unix_ms == 1000);

  Buffer side;
  const OuterStatePtr read = *node.versions->ReadModel(version, &side);
  CHECK(read->id == state->id);
  CHECK(std::memcmp(read->theta.data(), state->theta.data(), kParams * sizeof(float)) == 0);
  CHECK(side.view() == kSide);
  CHECK(node.Whole(4));
  const OuterStatePtr whole = *node.versions->ReadState(version);
  CHECK(whole->id == state->id);
  CHECK(std::memcmp(whole->momentum.data(), state->momentum.data(), kParams * sizeof(float)) == 0);
  std::string inner;
  const auto take = [&inner](absl::Span<const uint8_t> piece) {
    inner.append(AsString(piece));
    return absl::OkStatus();
  };
  REQUIRE(node.versions->ReadInner(version, take).ok());
  CHECK(HashBytes(std::string_view(inner)) == HashBytes(ReadRecord(disk, kInnerFile, inner.size())->view()));
  // θ, momentum and inner state of four chunks each, the export's files, three manifests.
  const Inspection found = *node.versions->Inspect(version);
  CHECK(found.chunks == 3 * 4 + 1 + 3);
  CHECK(found.bytes == node.chunks->usage().bytes);
  CHECK(version.new_bytes == found.bytes);
}

TEST_CASE("without momentum and inner state there are θ and the export's files") {
  MemoryFileSystem disk;
  Node node(disk);
  OuterStateDraft state = MakeState(1);
  state->momentum = {};
  Identify(*state);
  const Version version = node.Write(state);
  CHECK(version.outer.zero());
  CHECK(version.inner.zero());
  CHECK(node.Whole(1));
  CHECK(node.versions->Inspect(version)->chunks == 4 + 1 + 1);
}

TEST_CASE("a node that others keep parameters for has its inner state alone, until it takes theirs; at the job's end that goes") {
  MemoryFileSystem disk, others;
  Node holder(others), node(disk);
  const OuterStateDraft state = MakeState(4);
  const Version whole = holder.Write(state, holder.Inner(6));
  VersionWriter writer(node.versions, {state, CommitOf(*state), {}, node.Inner(5), /*holds=*/false});
  while (*writer.Step()) {
  }
  REQUIRE(writer.Finish(TestKey(), 1000).ok());
  node.Restart();
  Version version = *node.versions->Load(RoundId{4});
  CHECK_FALSE(version.holds());
  CHECK_FALSE(version.given_up());
  CHECK(version.state() == state->id);
  CHECK(node.Whole(4));
  CHECK(node.chunks->usage().bytes < holder.chunks->usage().bytes / 2);
  CHECK(node.versions->ReadState(version).status().code() == absl::StatusCode::kNotFound);

  SECTION("it goes") {
    REQUIRE(node.versions->KeepModels().ok());
    CHECK(node.Rounds().empty());
    CHECK(node.chunks->usage().chunks == 0);
  }
  SECTION("what is arriving stays beside what is written and tidied, and is adopted when all is there") {
    version.model = whole.model;
    version.outer = whole.outer;
    const std::string owner = node.versions->ArrivingOwnerOf(RoundId{4});
    std::vector<store::ChunkId> all = ManifestOf(holder, whole.model).Chunks();
    for (const store::ChunkId& id : ManifestOf(holder, whole.outer).Chunks()) all.push_back(id);
    all.insert(all.end(), {whole.model, whole.outer});
    for (const store::ChunkId& id : all) REQUIRE(node.chunks->Put((*holder.chunks->Get(id)).span(), owner).ok());
    REQUIRE(node.versions->Tidy().ok());
    const bool crash = GENERATE(false, true);
    if (crash) {
      node.Restart();
      REQUIRE(node.versions->DropArriving().ok());
      CHECK_FALSE(node.versions->Load(RoundId{4})->holds());
      CHECK(node.Whole(4));
      return;
    }
    REQUIRE(node.versions->Adopt(version, TestKey()).ok());
    node.Restart();
    CHECK(node.chunks->Owners() == std::vector<std::string>{"j1-checkpoint-4"});
    CHECK(node.versions->Load(RoundId{4})->inner == version.inner);
    CHECK(node.Whole(4));
    CHECK_FALSE(node.versions->HasGaps(version));
    CHECK((*node.versions->ReadState(version))->id == state->id);
    REQUIRE(disk.Remove(ChunkFile(all[2])).ok());
    node.Restart();
    CHECK(node.versions->HasGaps(version));
  }
  SECTION("its owner's word stays") {
    REQUIRE(node.versions->GiveUp(version, TestKey()).ok());
    node.Restart();
    REQUIRE(node.versions->Tidy().ok());
    CHECK(node.versions->Load(RoundId{4})->given_up());
    CHECK(node.chunks->usage().pinned_bytes == 0);
  }
}

TEST_CASE("what has not changed takes no room: with half of the tensors frozen at most 52 % is written") {
  constexpr uint64_t kLarge = 16 * kMiB + 123;  // 64 MiB each of θ, momentum and one moment
  MemoryFileSystem disk;
  Node node(disk);
  const OuterStateDraft before = MakeState(1, 0, kLarge);
  const Version full = node.Write(before, node.Inner(5, kLarge));
  CHECK(full.new_bytes > 3 * kLarge * sizeof(float));

  auto after = std::make_shared<OuterState>();
  after->theta = *tensor::FlatBuffer::Zeros(kLarge);
  after->momentum = *tensor::FlatBuffer::Zeros(kLarge);
  tensor::FlatBuffer inner = *tensor::FlatBuffer::Zeros(kLarge);
  Fill(5, inner.span());
  const auto train = [&](tensor::FlatBuffer& values, const tensor::FlatBuffer& old, uint64_t seed) {
    std::memcpy(values.data(), old.data(), kLarge * sizeof(float));
    Fill(seed, values.span().subspan(0, kLarge / 2));
  };
  train(after->theta, before->theta, 11);
  train(after->momentum, before->momentum, 12);
  Fill(13, inner.span().subspan(0, kLarge / 2));
  REQUIRE(WriteRecord(disk, kInnerFile, tensor::AsBytes(inner.span())).ok());
  after->id.round = RoundId{2};
  Identify(*after);
  const Version second = node.Write(after, *RecordFile::Open(disk, kInnerFile));
  WARN("bytes written: " << full.new_bytes << " in full, " << second.new_bytes << " with half of the tensors frozen: "
                         << 100.0 * static_cast<double>(second.new_bytes) / static_cast<double>(full.new_bytes) << " %");
  CHECK(static_cast<double>(second.new_bytes) <= 0.52 * static_cast<double>(full.new_bytes));
  CHECK(node.Whole(1));
  CHECK(node.Whole(2));

  // Nothing at all has changed but the round.
  after->id.round = RoundId{3};
  CHECK(node.Write(after, *RecordFile::Open(disk, kInnerFile)).new_bytes == 0);
}

TEST_CASE("retention removes the oldest with what only they have, never a chunk that a later one uses") {
  MemoryFileSystem disk;
  Node node(disk);
  const OuterStateDraft first = MakeState(1);
  node.Write(first);
  auto second = MakeState(2);
  std::memcpy(second->theta.data(), first->theta.data(), kParams * sizeof(float));  // its θ is the first one's
  Identify(*second);
  node.Write(second);
  node.Write(MakeState(3));
  REQUIRE(node.versions->Retain(2).ok());
  CHECK(node.Rounds() == std::vector<uint64_t>{2, 3});
  CHECK(node.Whole(2));
  CHECK(node.Whole(3));
  uint64_t kept = 0;
  for (const uint64_t round : node.Rounds()) kept += node.versions->Inspect(*node.versions->Load(RoundId{round}))->bytes;
  CHECK(node.chunks->usage().bytes <= kept);

  REQUIRE(node.versions->RemoveAll().ok());
  CHECK(node.Rounds().empty());
  CHECK(node.chunks->usage().bytes == 0);
  CHECK(node.chunks->Owners().empty());
}

TEST_CASE("a version of another job's number stays when this job's go") {
  MemoryFileSystem disk;
  Node node(disk);
  VersionStore other(node.files, node.chunks, {.folder = "/jobs/j12/checkpoints", .owner = "j12"});
  REQUIRE(node.chunks->Put(AsBytes(std::string_view("data")), "j12-checkpoint-1").ok());
  REQUIRE(node.chunks->Pin("j12-checkpoint-1", {HashBytes("data")}).ok());
  node.Write(MakeState(1));
  REQUIRE(node.versions->RemoveAll().ok());
  CHECK(node.chunks->Has(HashBytes("data")));
  REQUIRE(other.Tidy().ok());
  CHECK_FALSE(node.chunks->Has(HashBytes("data")));
}

TEST_CASE("at the job's end what an export needs stays of each version") {
  MemoryFileSystem disk;
  Node node(disk);
  node.Write(MakeState(1), node.Inner(1));
  node.Write(MakeState(2), node.Inner(2));
  for (int again = 0; again < 2; ++again) {
    REQUIRE(node.versions->KeepModels().ok());
    for (const uint64_t round : {1, 2}) {
      const Version version = *node.versions->Load(RoundId{round});
      CHECK(node.versions->Keeps(version, version.model));
      CHECK_FALSE(node.versions->Keeps(version, version.outer));
      CHECK_FALSE(node.versions->Keeps(version, version.inner));
      CHECK(node.versions->Inspect(version)->chunks == 4 + 1 + 1);
      CHECK(node.Whole(round));
    }
    CHECK(node.chunks->usage().chunks == 2 * 5 + 1);  // the export's files are the same
    node.Restart();
  }
}

TEST_CASE("damaged and missing chunks are named, by part, and can be put back") {
  MemoryFileSystem disk;
  Node node(disk);
  const OuterStateDraft state = MakeState(1);
  const Version version = node.Write(state, node.Inner(1));
  const store::ManifestFile theta = *ManifestOf(node, version.model).Find(kTheta);
  const store::ManifestFile momentum = *ManifestOf(node, version.outer).Find(kMomentum);
  Damage(disk, ChunkFile(theta.chunks[2]));
  REQUIRE(disk.Remove(ChunkFile(momentum.chunks[0])).ok());
  Damage(disk, ChunkFile(version.inner));
  node.Restart();

  Buffer side;
  const absl::Status read = node.versions->ReadModel(version, &side).status();
  CHECK(read.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(read.message()).find(theta.chunks[2].Short()) != std::string::npos);
  const Inspection found = *node.versions->Inspect(version);
  REQUIRE(found.missing.size() == 3);
  CHECK(found.missing[0].id == theta.chunks[2]);
  CHECK(found.missing[0].part == "model");
  CHECK(found.missing[1].id == momentum.chunks[0]);
  CHECK(found.missing[1].part == "outer");
  CHECK(found.missing[2].id == version.inner);
  CHECK(found.missing[2].part == "inner");

  const absl::Span<const uint8_t> bytes = tensor::AsBytes(state->theta.span());
  const absl::Span<const uint8_t> right = bytes.subspan(2 * kMiB, kMiB);
  CHECK(node.versions->Repair(version, theta.chunks[2], bytes.subspan(kMiB, kMiB)).code() ==
        absl::StatusCode::kDataLoss);
  REQUIRE(node.versions->Repair(version, theta.chunks[2], right).ok());
  CHECK(node.versions->Inspect(version)->missing.size() == 2);
  CHECK(node.versions->ReadModel(version, &side).ok());
}

TEST_CASE("a record is refused with any of its bytes changed, cut short or continued") {
  const Version version = [] {
    MemoryFileSystem disk;
    return Node(disk).Write(MakeState(3));
  }();
  const std::string record = EncodeVersion(version, TestKey());
  CHECK(*DecodeVersion(record) == version);
  for (size_t at = 0; at < record.size(); ++at) {
    std::string changed = record;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    INFO("byte " << at);
    // The key may be changed for another one, with which the signature does not hold.
    CHECK_FALSE(DecodeVersion(changed).ok());
    CHECK_FALSE(DecodeVersion(record.substr(0, at)).ok());
  }
  CHECK_FALSE(DecodeVersion(record + "x").ok());
}

TEST_CASE("a record that says what cannot be is refused though it is signed") {
  MemoryFileSystem disk;
  const Version good = Node(disk).Write(MakeState(3));
  const auto refused = [&](auto change) {
    Version bad = good;
    change(bad);
    return DecodeVersion(EncodeVersion(bad, TestKey())).status().code() == absl::StatusCode::kInvalidArgument;
  };
  CHECK(refused([](Version& v) { v.num_params = 0; }));
  CHECK(refused([](Version& v) { v.num_params = ~uint64_t{0}; }));
  CHECK(refused([](Version& v) { v.num_momentum = uint64_t{1} << 60; }));
  CHECK(refused([](Version& v) { v.num_momentum = 0; }));
  CHECK(refused([](Version& v) { v.outer = {}; }));
  CHECK(refused([](Version& v) { v.model = {}; }));
  CHECK(refused([](Version& v) { v.written_unix_ms = -1; }));
  CHECK_FALSE(refused([](Version& v) { v.inner = HashBytes("x"); }));
}

TEST_CASE("θ of other length than the record says is refused before memory is taken for it") {
  MemoryFileSystem disk;
  Node node(disk);
  Version version = node.Write(MakeState(1));
  version.num_params = uint64_t{1} << 47;
  Buffer side;
  CHECK(node.versions->ReadModel(version, &side).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("chunks that are whole and not what was committed are found") {
  MemoryFileSystem disk;
  Node node(disk);
  Version version = node.Write(MakeState(1));
  version.commit = CommitOf(*MakeState(1, 9));
  const Inspection found = *node.versions->Inspect(version);
  CHECK(found.missing.empty());
  CHECK(found.digests.code() == absl::StatusCode::kDataLoss);
  Buffer side;
  CHECK(node.versions->ReadModel(version, &side).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("what a rolled-back history has kept goes when its round is kept again") {
  MemoryFileSystem disk;
  Node node(disk);
  for (const uint64_t round : {2, 4, 6}) node.Write(MakeState(round));
  node.Write(MakeState(4, 1));
  CHECK(node.Rounds() == std::vector<uint64_t>{2, 4});
  CHECK(node.versions->Load(RoundId{4})->state() == MakeState(4, 1)->id);
  CHECK(node.Whole(2));
  CHECK(node.Whole(4));
}

// A crash just before change k of the disk: what came before it is there, and nothing after it happens.
TEST_CASE("a crash at any write or removal leaves every earlier version whole, and nothing beside") {
  constexpr uint64_t kFew = kMiB / 4 + 100;  // two chunks
  bool finished = false;
  int changes = 0;
  for (int k = 1; !finished; ++k) {
    MemoryFileSystem disk;
    Node node(disk);
    node.Write(MakeState(1, 0, kFew));
    node.Write(MakeState(2, 0, kFew), node.Inner(2, kFew));
    const std::shared_ptr<const RecordFile> inner = node.Inner(3, kFew);
    changes = 0;
    node.files.set_before([&](std::string_view, const std::string&) {
      return ++changes >= k ? absl::InternalError("crashed") : absl::OkStatus();
    });
    const bool written = node.TryWrite(MakeState(3, 0, kFew), inner).ok();
    finished = written && node.versions->Retain(2).ok();
    node.files.set_before(nullptr);
    node.Restart();
    INFO("before change " << k);
    REQUIRE(node.versions->Tidy().ok());
    const std::vector<uint64_t> rounds = node.Rounds();
    const std::set<uint64_t> there(rounds.begin(), rounds.end());
    CHECK(there.contains(2));
    CHECK(there.contains(written ? 3 : 1));
    for (const uint64_t round : rounds) CHECK(node.Whole(round));
    // Only chunks of versions are pinned.
    CHECK(node.chunks->Owners().size() == rounds.size());
    // And the next one can be written.
    node.Write(MakeState(4, 0, kFew));
    CHECK(node.Whole(4));
  }
  CHECK(changes > 20);
}

TEST_CASE("a disk or a cap without room costs the new version alone") {
  MemoryFileSystem disk;
  uint64_t room = 0;
  {
    Node node(disk);
    room = node.Write(MakeState(1)).new_bytes;
  }
  const bool full_disk = GENERATE(true, false);
  Node node(disk, full_disk ? ~uint64_t{0} : room + 2 * kMiB);
  if (full_disk) disk.set_capacity_bytes(disk.used_bytes() + 2 * kMiB);
  const OuterStateDraft state = MakeState(2);
  VersionWriter writer(node.versions, {state, CommitOf(*state), Buffer(std::string(kSide)), nullptr});
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = writer.Step();
  CHECK(more.status().code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(writer.GiveUp().ok());
  CHECK(node.Rounds() == std::vector<uint64_t>{1});
  CHECK(node.Whole(1));
  CHECK(node.chunks->usage().bytes == room);
}

}  // namespace
}  // namespace gdf::checkpoint
