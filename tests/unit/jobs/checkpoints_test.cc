#include "gdfd/jobs/checkpoints.h"

#include <deque>

#include "absl/algorithm/container.h"
#include "core/checkpoint/holders.h"

#include "gdfd/jobs/checkpoint_writer.h"
#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;
using trust::Role;
using trust::RoleSet;

using Opened = absl::StatusOr<std::shared_ptr<const Artifacts>>;

std::string Yaml(int nodes, const std::string& checkpoints, const std::string& output = "  keep_model: true\n", int rounds = 4) {
  return JobYaml(absl::StrCat("  count: ", nodes, "\n"), absl::StrCat(output, "checkpoints:\n", checkpoints), rounds);
}

// "2 on 3, 4 on 1" of what `node` lists: on how many its parameters are.
std::string Listed(JobNetwork& net, JobNetwork::Node& node, JobId id) {
  const absl::StatusOr<CheckpointList> list = net.Await(node.host->checkpoints().List(id));
  if (!list.ok()) return std::string(list.status().message());
  std::string text;
  for (const KeptCheckpoint& kept : list->checkpoints) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", kept.version().round().value, " on ", kept.holders().size());
  }
  if (!list->silent.empty()) absl::StrAppend(&text, "; silent: ", list->silent.size());
  for (const std::string& damage : list->passed_over) absl::StrAppend(&text, "; ", damage);
  return text;
}

bool IsOver(JobNetwork& net, std::vector<JobNetwork::Node*> nodes, JobId id) {
  return net.Comes([&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](auto* node) {
      return node->state->job(id)->phase == state::JobPhase::kFinished && node->host->Find(id) == nullptr;
    });
  });
}

// The files of all chunks, and of those that `part` of the checkpoint lists.
std::vector<std::string> ChunkFiles(JobNetwork::Node& node, const Digest& part) {
  store::Manifest manifest = *store::Manifest::Decode((*node.chunks->Get(part)).view());
  std::vector<std::string> files;
  for (const store::ChunkId& id : manifest.Chunks()) {
    const std::string hex = id.ToHex();
    files.push_back(absl::StrCat("/chunks/", hex.substr(0, 2), "/", hex.substr(2)));
  }
  return files;
}

void Damage(JobNetwork::Node& node, const std::string& path) {
  std::string bytes = *node.files.Read(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(node.files.WriteAtomic(path, bytes).ok());
}

checkpoint::Version VersionOf(JobNetwork& net, JobNetwork::Node& node, JobId id, uint64_t round) {
  const absl::StatusOr<CheckedCheckpoint> checked = net.Await(node.host->checkpoints().Verify(id, RoundId{round}));
  INFO(checked.status());
  REQUIRE(checked.ok());
  return checked->version;
}

TEST_CASE("A job's checkpoints are kept on its nodes, listed and given to those who may have them, also after its end") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  auto& owner = net.Add({Role::kSubmitter});
  const JobId id = net.Submit(owner, Yaml(3, "  every: 2\n  keep: 2\n", "  keep_model: true\n", 7));
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
  auto& stranger = net.Add({Role::kContributor});
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 5; }));
  REQUIRE(net.Comes([&] { return Listed(net, owner, id) == "2 on 3, 4 on 3"; }));
  const CheckedCheckpoint running = *net.Await(n2.host->checkpoints().Verify(id, RoundId{4}));
  CHECK(running.outer);
  CHECK(running.inner);
  CHECK(running.found.missing.empty());
  CHECK(running.found.digests.ok());
  CHECK(running.version.node == n2.id());
  CHECK(running.version.num_params == net.num_params);

  REQUIRE(net.Finishes(id));
  REQUIRE(net.Job(id).verdict == wire::Verdict::kSucceeded);
  REQUIRE(IsOver(net, {&n1, &n2, &n3, &owner, &stranger}, id));
  REQUIRE(net.Comes([&] { return Listed(net, owner, id) == "6 on 3, 7 on 3"; }));
  CHECK(Listed(net, n1, id) == "6 on 3, 7 on 3");
  CHECK(Listed(net, stranger, id) == "; silent: 3");  // who say nothing to it

  for (auto* node : {&n1, &n3, &owner}) {
    for (const uint64_t round : {6, 7}) {
      const Opened opened = net.Await(node->host->checkpoints().Open(id, RoundId{round}));
      INFO(node->number << ": " << opened.status());
      REQUIRE(opened.ok());
      CHECK((*opened)->state->id.round == RoundId{round});
      CHECK((*opened)->state->theta.size() == net.num_params);
      CHECK((*opened)->plan.layout.num_params() == net.num_params);
    }
  }
  CHECK((*net.Await(owner.host->checkpoints().Open(id, RoundId{7})))->state->id.theta == net.Job(id).theta);
  CHECK(Says(net.Await(stranger.host->checkpoints().Open(id, RoundId{6})).status(), StatusCode::kNotFound,
             "only the job's owner"));
  CHECK(Says(net.Await(n1.host->checkpoints().Open(id, RoundId{5})).status(), StatusCode::kNotFound, "keeps a checkpoint of round 5"));
  CHECK(Says(net.Await(owner.host->checkpoints().Verify(id, RoundId{6})).status(), StatusCode::kNotFound,
             "this node keeps no checkpoint of round 6"));

  // θ and the export's files are what stays.
  const CheckedCheckpoint ended = *net.Await(n2.host->checkpoints().Verify(id, RoundId{6}));
  CHECK_FALSE(ended.outer);
  CHECK_FALSE(ended.inner);
  CHECK(ended.found.missing.empty());
  CHECK(n2.chunks->Owners() == std::vector<std::string>{"j1-checkpoint-6", "j1-checkpoint-7"});

  // And after a restart.
  net.Crash(n2);
  CHECK(net.Comes([&] { return Listed(net, n1, id) == "6 on 2, 7 on 2; silent: 1"; }));
  net.Start(n2);
  CHECK(net.Comes([&] { return Listed(net, n2, id) == "6 on 3, 7 on 3"; }));
}

TEST_CASE("Without the section no checkpoint is kept, and a job that is not kept leaves none") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  const bool none = GENERATE(true, false);
  const JobId id = net.Submit(n1, none ? JobYaml("  count: 1\n") : Yaml(1, "  every: 1\n", "  keep_model: false\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 2; }));
  if (none) {
    CHECK(Listed(net, n1, id).empty());
  } else {
    REQUIRE(net.Comes([&] { return Listed(net, n1, id).find("2 on 1") != std::string::npos; }));
  }
  REQUIRE(net.Finishes(id));
  REQUIRE(IsOver(net, {&n1}, id));
  REQUIRE(net.Comes([&] { return n1.chunks->Owners().empty(); }));
  CHECK(Listed(net, n1, id).empty());
  CHECK(n1.chunks->usage().chunks == 0);
}

TEST_CASE("A damaged chunk comes back from another member, and is named when nobody has it") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(2, "  every: 2\n"));
  REQUIRE(net.Finishes(id));
  REQUIRE(IsOver(net, {&n1, &n2}, id));
  const checkpoint::Version version = VersionOf(net, n1, id, 2);
  const std::vector<std::string> model = ChunkFiles(n1, version.model);
  REQUIRE(model.size() == 2);

  SECTION("one that is found by a check") {
    for (const std::string& file : model) Damage(n1, file);
    const CheckedCheckpoint checked = *net.Await(n1.host->checkpoints().Verify(id, RoundId{2}));
    CHECK(checked.found.missing.empty());
    CHECK(checked.found.digests.ok());
    CHECK(checked.repaired.size() == 2);
    CHECK(checked.repaired[0].part == "model");
    CHECK(net.Await(n1.host->checkpoints().Verify(id, RoundId{2}))->repaired.empty());
  }
  SECTION("with the manifest that lists it") {
    const std::string hex = version.model.ToHex();
    Damage(n1, absl::StrCat("/chunks/", hex.substr(0, 2), "/", hex.substr(2)));
    Damage(n1, model[0]);
    const CheckedCheckpoint checked = *net.Await(n1.host->checkpoints().Verify(id, RoundId{2}));
    CHECK(checked.found.missing.empty());
    CHECK(checked.repaired.size() == 2);
  }
  SECTION("by an export") {
    Damage(n1, model[1]);
    CHECK(net.Await(n1.host->checkpoints().Open(id, RoundId{2})).ok());
    CHECK(net.Await(n1.host->checkpoints().Verify(id, RoundId{2}))->repaired.empty());
  }
  SECTION("not when the other one's is damaged too") {
    Damage(n1, model[0]);
    Damage(n2, model[0]);
    const CheckedCheckpoint checked = *net.Await(n1.host->checkpoints().Verify(id, RoundId{2}));
    REQUIRE(checked.found.missing.size() == 1);
    CHECK(checked.repaired.empty());
    CHECK(checked.why_not.find(n2.id().Short()) != std::string::npos);
    const absl::Status opened = net.Await(n1.host->checkpoints().Open(id, RoundId{2})).status();
    CHECK(Says(opened, StatusCode::kDataLoss, checked.found.missing[0].id.Short()));
  }
  SECTION("not when nobody is there") {
    Damage(n1, model[0]);
    net.Crash(n2);
    const CheckedCheckpoint checked = *net.Await(n1.host->checkpoints().Verify(id, RoundId{2}));
    CHECK(checked.found.missing.size() == 1);
    CHECK(checked.found.chunks == 2);
  }
}

TEST_CASE("A record that is damaged, or another job's, is passed over and named") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  const JobId id = net.Submit(n1, Yaml(1, "  every: 2\n"));
  REQUIRE(net.Finishes(id));
  REQUIRE(IsOver(net, {&n1}, id));
  const std::string path = "/jobs/j1/checkpoints/checkpoint-0000000000000002";
  SECTION("damaged") {
    Damage(n1, path);
    CHECK(Listed(net, n1, id).find("4 on 1; " + path) == 0);
    CHECK(net.Await(n1.host->checkpoints().Verify(id, RoundId{2})).status().code() == StatusCode::kDataLoss);
  }
  SECTION("of another submission, which the signatures of its commit name") {
    const JobId other = net.Submit(n1, Yaml(1, "  every: 2\n"));
    REQUIRE(net.Finishes(other));
    REQUIRE(IsOver(net, {&n1}, other));
    REQUIRE(n1.files.WriteAtomic(path, *n1.files.Read("/jobs/j2/checkpoints/checkpoint-0000000000000002")).ok());
    CHECK(Listed(net, n1, id).find("4 on 1; round 2: ") == 0);
    CHECK(net.Await(n1.host->checkpoints().Verify(id, RoundId{2})).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A disk without room for a checkpoint costs that checkpoint: the job goes on, and its events say so") {
  JobNetwork net;
  net.num_params = 300'000;  // chunks of more than the rest of the disk has room for
  auto& n1 = net.Add(RoleSet::All());
  n1.chunks_cap_bytes = 1'000'000;  // less than θ
  net.Crash(n1);
  net.Start(n1);
  const JobId id = net.Submit(n1, Yaml(1, "  every: 1\n"));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(net.HasEvent("the checkpoint of round 1 was not written: "));
  CHECK_FALSE(net.HasEvent("the checkpoint of round 2 was not written: "));  // told once
  REQUIRE(IsOver(net, {&n1}, id));
  CHECK(Listed(net, n1, id).empty());
  CHECK(n1.chunks->Owners().empty());
}

TEST_CASE("A node that restarts has its checkpoints, and goes on with them") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(2, "  every: 2\n  keep: 5\n", "  keep_model: true\n", 8));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 5; }));
  net.Crash(n2);
  net.Pass(absl::Seconds(1));
  net.Start(n2);
  REQUIRE(net.Finishes(id));
  REQUIRE(net.Job(id).verdict == wire::Verdict::kSucceeded);
  REQUIRE(IsOver(net, {&n1, &n2}, id));
  CHECK(net.Comes([&] { return Listed(net, n2, id) == "2 on 2, 4 on 2, 6 on 2, 8 on 2"; }));
  for (const uint64_t round : {2, 4, 6, 8}) {
    const CheckedCheckpoint checked = *net.Await(n2.host->checkpoints().Verify(id, RoundId{round}));
    CHECK(checked.found.missing.empty());
    CHECK(checked.repaired.empty());
  }
}

std::string Replicated(int replicas, int rounds) {
  return JobYaml("  min: 3\n  max: 4\n",
                 absl::StrCat("  keep_model: true\ncheckpoints:\n  every: 2\n  keep: 3\n  replicas: ", replicas, "\n"), rounds);
}

// Of `net`, by whether they are to keep checkpoints of the job with its present members.
struct Sides {
  std::vector<JobNetwork::Node*> holders, others;
};
Sides SidesOf(JobNetwork& net, JobId id, size_t replicas) {
  const state::Job job = net.Job(id);
  const std::vector<NodeId> holders = checkpoint::HoldersOf(id, job.members, replicas);
  Sides sides;
  for (int number = 1; number <= static_cast<int>(job.members.size()); ++number) {
    JobNetwork::Node& node = net.node(number);
    (absl::c_linear_search(holders, node.id()) ? sides.holders : sides.others).push_back(&node);
  }
  return sides;
}

TEST_CASE("As many members keep a checkpoint as the job asks for; the others keep their own state, and have it from those") {
  JobNetwork net;
  net.num_params = 300'000;
  net.Add(RoleSet::All());
  for (int i = 0; i < 3; ++i) net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), Replicated(2, 7));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 5; }));
  REQUIRE(net.Comes([&] { return Listed(net, net.coordinator(), id) == "2 on 2, 4 on 2"; }));
  const Sides sides = SidesOf(net, id, 2);
  REQUIRE(sides.holders.size() == 2);
  REQUIRE(sides.others.size() == 2);
  for (auto* node : sides.holders) CHECK(net.Await(node->host->checkpoints().Verify(id, RoundId{4}))->model);
  for (auto* node : sides.others) {
    const CheckedCheckpoint own = *net.Await(node->host->checkpoints().Verify(id, RoundId{4}));
    CHECK_FALSE(own.model);
    CHECK_FALSE(own.outer);
    CHECK(own.inner);
    CHECK(own.found.missing.empty());
    // Two states of θ and momentum fewer.
    CHECK(node->chunks->usage().bytes + 4 * net.num_params * sizeof(float) <= sides.holders[0]->chunks->usage().bytes);
    const Opened opened = net.Await(node->host->checkpoints().Open(id, RoundId{4}));
    INFO(opened.status());
    REQUIRE(opened.ok());
    CHECK((*opened)->state->id.theta == own.version.state().theta);
  }
  REQUIRE(net.Finishes(id));
  REQUIRE(IsOver(net, {sides.holders[0], sides.holders[1], sides.others[0], sides.others[1]}, id));
  CHECK(net.Comes([&] { return Listed(net, net.coordinator(), id) == "4 on 2, 6 on 2, 7 on 2"; }));
  for (auto* node : sides.others) CHECK(node->chunks->usage().chunks == 0);
  CHECK_FALSE(net.HasEvent("took a copy"));  // nobody was lost
}

TEST_CASE("When a member is lost that kept checkpoints, another takes them from those that are left, and keeps them") {
  JobNetwork net;
  net.Add(RoleSet::All());
  for (int i = 0; i < 3; ++i) net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), Replicated(2, 40));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 9; }));
  REQUIRE(net.Comes([&] { return Listed(net, net.coordinator(), id) == "4 on 2, 6 on 2, 8 on 2"; }));
  const Sides before = SidesOf(net, id, 2);
  JobNetwork::Node& lost = *before.holders[before.holders[0]->number == 1 ? 1 : 0];
  net.Crash(lost);
  REQUIRE(net.Comes([&] { return net.HasEvent("took a copy of the checkpoint of round"); }));
  const std::vector<NodeId> members = net.Job(id).members;
  CHECK_FALSE(absl::c_linear_search(members, lost.id()));
  const uint64_t rounds = net.Job(id).rounds_done;
  // All that are kept by then, with those that were written since.
  REQUIRE(net.Comes([&] {
    const absl::StatusOr<CheckpointList> list = net.Await(net.coordinator().host->checkpoints().List(id));
    return list.ok() && list->checkpoints.size() == 3 && absl::c_all_of(list->checkpoints, [](const KeptCheckpoint& kept) {
      return kept.holders().size() == 2;
    });
  }));
  CHECK(net.Job(id).rounds_done < rounds + 6);
  for (const NodeId& holder : checkpoint::HoldersOf(id, members, 2)) {
    const auto has_id = [&](JobNetwork::Node* node) { return node->id() == holder; };
    std::vector<JobNetwork::Node*> all = before.holders;
    all.insert(all.end(), before.others.begin(), before.others.end());
    JobNetwork::Node& node = **absl::c_find_if(all, has_id);
    const uint64_t newest = net.Job(id).rounds_done / 2 * 2;
    for (uint64_t round = newest; round + 4 > newest; round -= 2) {
      const absl::StatusOr<CheckedCheckpoint> checked = net.Await(node.host->checkpoints().Verify(id, RoundId{round}));
      if (absl::IsNotFound(checked.status())) continue;  // is being written
      CHECK(checked->model);
      CHECK(checked->outer);
      CHECK(checked->repaired.empty());
      CHECK(checked->found.missing.empty());
      CHECK(checked->found.digests.ok());
    }
  }
}

TEST_CASE("A chunk that was found damaged comes back by itself; what an owner has removed does not") {
  JobNetwork net;
  net.Add(RoleSet::All());
  for (int i = 0; i < 2; ++i) net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), Replicated(3, 30));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 5; }));
  REQUIRE(net.Comes([&] { return Listed(net, net.coordinator(), id) == "2 on 3, 4 on 3"; }));
  auto& node = net.node(2);
  SECTION("damaged") {
    const checkpoint::Version version = VersionOf(net, node, id, 4);
    const std::vector<std::string> model = ChunkFiles(node, version.model);
    Damage(node, model[1]);
    const store::ChunkId damaged = store::Manifest::Decode((*node.chunks->Get(version.model)).view())->files[1].chunks[0];
    CHECK(node.chunks->Get(damaged).status().code() == StatusCode::kDataLoss);  // as who serves or exports it
    CHECK_FALSE(node.chunks->Has(damaged));
    CHECK(net.Comes([&] { return node.chunks->Has(damaged); }));
    CHECK(net.Job(id).rounds_done <= 7);
  }
  SECTION("removed") {
    REQUIRE(net.Await(node.host->checkpoints().Remove(id, RoundId{4})).ok());
    CHECK(net.Await(node.host->checkpoints().Verify(id, RoundId{4})).status().code() == StatusCode::kNotFound);
    CHECK(net.Await(node.host->checkpoints().Remove(id, RoundId{4})).code() == StatusCode::kNotFound);
    REQUIRE(net.Comes([&] { return Listed(net, net.coordinator(), id) == "4 on 2, 6 on 3, 8 on 3"; }));
    REQUIRE(net.Finishes(id));
    CHECK_FALSE(net.HasEvent("took a copy"));
  }
}

// Holds work back until it is told to do it.
class SlowPool final : public ComputePool {
 public:
  void Submit(absl::AnyInvocable<void()> work) override { waiting_.push_back(std::move(work)); }
  int parallelism() const override { return 1; }
  bool DoOne() {
    if (waiting_.empty()) return false;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    work();
    return true;
  }

 private:
  std::deque<absl::AnyInvocable<void()>> waiting_;
};

struct WriterWorld {
  WriterWorld() {
    spec.train.steps = 100;
    spec.checkpoints = {1, 10};
    train::ExportPlan plan;
    const int64_t shape[] = {5};
    REQUIRE(plan.layout.Add("theta", shape).ok());
    REQUIRE(SaveExportPlan(files, "/jobs/j1", plan, 5).ok());
    checkpoint::VersionStore::Options options;
    options.folder = "/jobs/j1/checkpoints";
    options.owner = "j1";
    versions = std::make_shared<checkpoint::VersionStore>(files, chunks, options);
    writer = std::make_unique<CheckpointWriter>(CheckpointWriter::Env{
        executor, pool, files, key, spec, "/jobs/j1", versions,
        [this](wire::Severity, std::string text) { return Note(this, std::move(text)); }, [] {}});
  }
  static Task<void> Note(WriterWorld* world, std::string text) {
    world->told.push_back(std::move(text));
    co_return;
  }
  void Offer(uint64_t round, float history = 0) {
    auto state = std::make_shared<checkpoint::OuterState>();
    state->theta = *tensor::FlatBuffer::Zeros(5);
    state->theta.data()[0] = static_cast<float>(round);
    state->theta.data()[1] = history;
    state->id.round = RoundId{round};
    checkpoint::Identify(*state);
    wire::Commit commit;
    commit.receipt.tag = {JobId{1}, Epoch{1}, RoundId{round - 1}, 1};
    commit.receipt.voters = {key.id()};
    commit.receipt.result = state->id;
    commit.signatures.resize(1);
    if (restored) {
      writer->OfferRestored(state, commit);
    } else {
      writer->Offer(state, commit);
    }
  }
  void Settle() {
    do {
      executor.RunUntil([] { return false; }, absl::ZeroDuration());
    } while (pool.DoOne());
  }
  std::vector<RoundId> Kept() { return *versions->List(); }

  SimExecutor executor;
  SlowPool pool;
  MemoryFileSystem files;
  std::shared_ptr<store::ChunkStore> chunks = *store::ChunkStore::Open(files, {.folder = "/chunks"});
  trust::NodeKey key = trust::NodeKey::FromSeed({1});
  config::JobSpec spec;
  std::shared_ptr<checkpoint::VersionStore> versions;
  std::vector<std::string> told;
  bool restored = false;
  std::unique_ptr<CheckpointWriter> writer;
};

TEST_CASE("Checkpoints are written beside the rounds: while one is, the newest of several waits") {
  WriterWorld world;
  world.Offer(1);
  world.executor.RunUntil([] { return false; }, absl::ZeroDuration());
  for (const uint64_t round : {2, 3, 4}) world.Offer(round);
  CHECK(world.Kept().empty());  // the disk has done nothing yet, and nobody has waited for it
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{1}, RoundId{4}});
  world.Offer(4);  // nothing new
  world.Settle();
  world.Offer(5);
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{1}, RoundId{4}, RoundId{5}});
  CHECK(world.told.empty());
}

TEST_CASE("What a start has put back is kept when it is newer than what was, and never costs a newer one") {
  WriterWorld world;
  world.restored = true;
  world.Offer(3);
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{3}});
  world.Offer(2);
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{3}});
  world.restored = false;
  world.Offer(2, 1);  // trained again: round 3 was rolled back
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{2}});
}

TEST_CASE("A full disk is told once, and when it takes checkpoints again; others stay whole") {
  WriterWorld world;
  world.Offer(1);
  world.Settle();
  world.files.set_capacity_bytes(world.files.used_bytes() + 10);
  for (const uint64_t round : {2, 3}) {
    world.Offer(round);
    world.Settle();
  }
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{1}});
  REQUIRE(world.told.size() == 1);
  CHECK(world.told[0].find("the checkpoint of round 2 was not written: ") == 0);
  CHECK(world.chunks->Owners() == std::vector<std::string>{"j1-checkpoint-1"});
  world.files.set_capacity_bytes(~uint64_t{0});
  world.Offer(4);
  world.Settle();
  CHECK(world.Kept() == std::vector<RoundId>{RoundId{1}, RoundId{4}});
  REQUIRE(world.told.size() == 2);
  CHECK(world.told[1] == "writes checkpoints again, from round 4 on, after 2 failures");
}

}  // namespace
}  // namespace gdf::jobs
