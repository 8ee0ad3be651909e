#include "core/wire/artifact_messages.h"
#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;
using trust::Role;
using trust::RoleSet;

using Opened = absl::StatusOr<std::shared_ptr<const Artifacts>>;

Task<void> Serve(Executor& executor, std::shared_ptr<const Artifacts> artifacts,
                 std::unique_ptr<net::Stream> stream) {
  (co_await stream->Receive()).IgnoreError();
  (co_await SendArtifacts(executor, *stream, artifacts)).IgnoreError();
}

// The files of the newest round in `node`'s folder of job j1, of `kind`.
std::string NewestFile(JobNetwork::Node& node, const std::string& kind) {
  std::string newest;
  const std::vector<std::string> names = *node.files.List("/jobs/j1/state");
  for (const std::string& name : names) {
    if (name.rfind(kind + "-", 0) == 0) newest = std::max(newest, name);
  }
  REQUIRE_FALSE(newest.empty());
  return "/jobs/j1/state/" + newest;
}

TEST_CASE(
    "A job is placed, trained and ends; its data goes, its parameters stay and go to those who may "
    "have them") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  auto& owner = net.Add({Role::kSubmitter});
  auto& admin = net.Add({Role::kAdmin});
  const JobId id = net.Submit(owner, JobYaml("  count: 3\n"));
  const Digest data = net.Job(id).inputs[0].manifest;
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
  auto& stranger = net.Add({Role::kContributor});  // came too late to be placed
  CHECK(net.Job(id).members.size() == 3);
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
  CHECK(n2.chunks->PinnedBy("j1", data));
  CHECK(owner.chunks->PinnedBy("j1", data));
  REQUIRE(net.Finishes(id));
  const state::Job job = net.Job(id);
  INFO(job.reason);
  REQUIRE(job.verdict == wire::Verdict::kSucceeded);
  CHECK(job.rounds_done == 3);

  // The inputs are pinned until the end of the job, not longer.
  for (auto* node : {&n1, &n2, &n3, &owner}) {
    REQUIRE(net.Comes([&] { return !node->chunks->PinnedBy("j1", data); }));
  }
  CHECK_FALSE(n2.files.Exists("/jobs/j1/inputs/data/data.txt"));
  REQUIRE(net.Comes([&] { return n2.host->Find(id) == nullptr; }));
  REQUIRE(net.Comes([&] { return n2.files.List("/jobs/j1/state")->size() == 2; }));
  CHECK(NewestFile(n2, "committed") == "/jobs/j1/state/committed-0000000000000003");
  CHECK(n2.files.Stat(NewestFile(n2, "state"))->size < 144 + 8 * net.num_params);  // no momentum

  for (auto* node : {&n1, &n2, &n3, &owner, &admin}) {
    REQUIRE(net.Comes([&] { return node->state->job(id)->phase == state::JobPhase::kFinished; }));
    const Opened opened = net.Await(node->host->Open(id));
    INFO(node->number << ": " << opened.status());
    REQUIRE(opened.ok());
    CHECK((*opened)->state->id.theta == job.theta);
    CHECK((*opened)->state->id.round == RoundId{3});
  }
  REQUIRE(net.Comes([&] { return stranger.state->job(id)->phase == state::JobPhase::kFinished; }));
  CHECK(Says(net.Await(stranger.host->Open(id)).status(), StatusCode::kPermissionDenied,
             "only the job's owner"));
  CHECK(net.Await(n1.host->Open(JobId{99})).status().code() == StatusCode::kNotFound);
}

TEST_CASE("A job that names another's data gets none of it") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId secret = net.Submit(n1, JobYaml("  count: 2\n", "  keep_data: true\n"));
  REQUIRE(net.Finishes(secret));
  const wire::JobInput data = net.Job(secret).inputs[0];
  REQUIRE(n2.chunks->PinnedBy("j1", data.manifest));

  auto& thief = net.Add({Role::kSubmitter, Role::kContributor});
  wire::SubmitJob submit;
  submit.name = "thief";
  submit.submit_token = "t";
  submit.spec_yaml = JobYaml("  count: 3\n");
  submit.inputs = {data};  // as the log tells it to every member; its holder is n1
  submit.planned_rounds = 3;
  const absl::StatusOr<wire::CommandResult> result = net.Propose(thief, std::move(submit));
  REQUIRE(result.ok());
  const std::string pins = swarm::OwnerOf(result->job);
  CHECK(n1.host->Hold(net.Job(result->job)).ok());
  CHECK_FALSE(n1.chunks->PinnedBy(pins, data.manifest));
  REQUIRE(net.Finishes(result->job));
  CHECK(net.Job(result->job).verdict == wire::Verdict::kFailed);
  CHECK_FALSE(thief.chunks->Has(data.manifest));
  CHECK(thief.chunks->usage().chunks == 0);

  // The submitter of the first takes what is here, without asking anybody.
  const int workers = n2.workers;
  const JobId next = net.Submit(n1, JobYaml("  count: 3\n"));
  REQUIRE(net.Finishes(next));
  CHECK(net.Job(next).verdict == wire::Verdict::kSucceeded);
  CHECK(n2.workers == workers + 1);
}

TEST_CASE("A job that is not kept leaves nothing on its nodes") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n", "  keep_model: false\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 1; }));
  CHECK(n2.files.Exists("/jobs/j1/artifacts"));
  SECTION("when it succeeds") {
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  }
  SECTION("when it is cancelled") { REQUIRE(net.Do(n1, wire::CancelJob{id, "enough"}).ok()); }
  for (auto* node : {&n1, &n2}) {
    CHECK(net.Comes([&] {
      return !node->files.Exists("/jobs/j1/artifacts") && node->host->Find(id) == nullptr;
    }));
    CHECK(node->chunks->Owners().empty());
  }
}

void Damage(JobNetwork::Node& node, const std::string& path) {
  std::string bytes = *node.files.Read(path);
  bytes[bytes.size() / 2] ^= 1;
  REQUIRE(node.files.WriteAtomic(path, bytes).ok());
}

TEST_CASE("The newest parameters are given, or none: never those of a round before") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& owner = net.Add({Role::kSubmitter});
  const JobId id = net.Submit(owner, JobYaml("  count: 2\n"));
  // As if the older state could not be removed at the end.
  const std::string of_round_2[] = {"/jobs/j1/state/state-0000000000000002",
                                    "/jobs/j1/state/committed-0000000000000002"};
  for (const std::string& path : of_round_2) {
    for (auto* node : {&n1, &n2}) REQUIRE(net.Comes([&] { return node->files.Exists(path); }));
  }
  const std::string older_files[] = {*n2.files.Read(of_round_2[0]), *n2.files.Read(of_round_2[1])};
  REQUIRE(net.Finishes(id));
  const state::Job job = net.Job(id);
  REQUIRE(job.verdict == wire::Verdict::kSucceeded);
  REQUIRE(net.Comes([&] { return owner.state->job(id)->phase == state::JobPhase::kFinished; }));
  for (auto* node : {&n1, &n2}) {
    REQUIRE(net.Comes([&] {
      return node->host->Find(id) == nullptr && node->files.List("/jobs/j1/state")->size() == 2;
    }));
    for (int i = 0; i < 2; ++i) REQUIRE(node->files.WriteAtomic(of_round_2[i], older_files[i]).ok());
  }
  const auto gives = [&](JobNetwork::Node& node) {
    const Opened opened = net.Await(node.host->Open(id));
    INFO(node.number << ": " << opened.status());
    return opened.ok() && (*opened)->state->id.theta == job.theta;
  };
  const std::string damaged = NewestFile(n2, "state");
  Damage(n2, damaged);
  const checkpoint::OuterStatePtr older = LoadArtifacts(n2.files, "/jobs/j1")->state;
  REQUIRE(older->id.round == RoundId{2});
  for (auto* node : {&n1, &n2, &owner}) CHECK(gives(*node));  // n2 has it from n1

  // Nobody else has it: all say what is wrong, and where.
  Damage(n1, NewestFile(n1, "committed"));
  for (auto* node : {&n1, &n2}) {
    const absl::Status why = net.Await(node->host->Open(id)).status();
    CHECK(Says(why, StatusCode::kDataLoss, "after 2 rounds, not those after 3"));
    CHECK(Says(why, StatusCode::kDataLoss, "this node: "));
  }
  CHECK(Says(net.Await(n2.host->Open(id)).status(), StatusCode::kDataLoss, damaged));
  CHECK(Says(net.Await(owner.host->Open(id)).status(), StatusCode::kDataLoss,
             "after 2 rounds, not those after 3"));

  // What others keep nowhere is not told by their paths, nor as something wrong with the question.
  std::vector<std::string> kept;
  for (auto* node : {&n1, &n2}) {
    kept.push_back(*node->files.Read("/jobs/j1/artifacts"));
    REQUIRE(node->files.Remove("/jobs/j1/artifacts").ok());
  }
  const absl::Status nowhere = net.Await(owner.host->Open(id)).status();
  CHECK(Says(nowhere, StatusCode::kUnavailable, "it keeps no result of job j1"));
  CHECK_FALSE(Says(nowhere, StatusCode::kUnavailable, "/jobs"));
  REQUIRE(n1.files.WriteAtomic("/jobs/j1/artifacts", kept[0]).ok());
  REQUIRE(n2.files.WriteAtomic("/jobs/j1/artifacts", kept[1]).ok());

  // Nor does a member get an older round accepted by serving it, or a newer one that nobody knows.
  auto old = std::make_shared<Artifacts>(*LoadArtifacts(n2.files, "/jobs/j1"));
  REQUIRE(old->commit);
  auto made_up = std::make_shared<checkpoint::OuterState>(
      checkpoint::OuterState{older->id, *tensor::FlatBuffer::Zeros(100), {}});
  made_up->id.round = RoundId{4};
  checkpoint::Identify(*made_up);
  StatusCode code = StatusCode::kUnavailable;
  SECTION("older") {}
  SECTION("made up") {
    old->state = made_up;
    SECTION("without a commit") { old->commit.reset(); }
    SECTION("with that of an earlier round") {}
    SECTION("with a commit of something else") {
      old->commit->receipt.tag.round = RoundId{3};
      old->commit->receipt.result.round = RoundId{4};
      code = StatusCode::kDataLoss;
    }
    SECTION("with a commit that nobody signed") {
      old->commit->receipt.tag.round = RoundId{3};
      old->commit->receipt.result = made_up->id;
      code = StatusCode::kPermissionDenied;
    }
  }
  for (auto* node : {&n1, &n2}) node->host.reset();
  const auto serve = [&](JobNetwork::Node& node) {
    return node.transport->HandleStream("jobs.artifacts",
                                        [old, &net](NodeId, std::unique_ptr<net::Stream> stream) {
                                          return Serve(net.executor(), old, std::move(stream));
                                        },
                                        {});
  };
  const net::Registration first = serve(n1), second = serve(n2);
  CHECK(Says(net.Await(owner.host->Open(id)).status(), code, code == StatusCode::kPermissionDenied ? "receipt" : "rounds"));
}

TEST_CASE("What a cancelled job has committed but not reported is given all the same") {
  JobNetwork net;
  auto& n1 = net.Add({Role::kAdmin, Role::kSubmitter});
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
  for (auto* node : {&n2, &n3}) net.network().Cut(n1.id(), node->id());
  for (auto* node : {&n2, &n3}) {
    REQUIRE(net.Comes(
        [&] { return node->files.Exists("/jobs/j1/state/committed-0000000000000003"); }));
  }
  REQUIRE(net.Do(n1, wire::CancelJob{id, ""}).ok());
  REQUIRE(net.Job(id).rounds_done == 1);
  for (auto* node : {&n2, &n3}) net.network().Heal(n1.id(), node->id());
  for (auto* node : {&n2, &n3}) REQUIRE(net.Comes([&] { return n1.membership->IsOnline(node->id()); }));
  for (auto* node : {&n1, &n2, &n3}) {
    const Opened opened = net.Await(node->host->Open(id));
    INFO(node->number << ": " << opened.status());
    REQUIRE(opened.ok());
    CHECK((*opened)->state->id.round == RoundId{3});
  }
  CHECK(net.Job(id).verdict == wire::Verdict::kCancelled);
}

Task<std::unique_ptr<net::Stream>> Ask(net::Transport& transport, NodeId node, JobId job) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream =
      co_await transport.Open(node, "jobs.artifacts", net::Priority::kBulk, absl::Seconds(10));
  REQUIRE(stream.ok());
  Buffer call(wire::Encode(wire::ArtifactCall{job}));
  (co_await (*stream)->Send(std::move(call))).IgnoreError();
  co_return *std::move(stream);
}

Task<absl::Status> FirstOf(net::Stream& stream) { co_return (co_await stream.Receive()).status(); }

TEST_CASE("Few results are on their way at a time, and all share what is loaded") {
  JobNetwork net;
  net.num_params = 700'000;  // 2.8 MB: more than a stream takes unread
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  std::vector<JobNetwork::Node*> admins;
  for (int i = 0; i < 3; ++i) admins.push_back(&net.Add({Role::kAdmin}));
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(id));
  REQUIRE(net.Comes([&] { return n2.host->Find(id) == nullptr; }));

  std::vector<std::unique_ptr<net::Stream>> streams;
  for (auto* admin : admins) {
    for (int i = 0; i < 2; ++i) {
      streams.push_back(net.Await(Ask(*admin->transport, n2.id(), id)));
      net.Pass(absl::Seconds(1));
    }
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    const absl::Status first = net.Await(FirstOf(*streams[i]));
    INFO(i);
    CHECK((i < 4 ? first.ok() : Says(first, StatusCode::kUnavailable, "ask again later")));
  }
  const auto third = net.Await(Ask(*admins[0]->transport, n2.id(), id));
  CHECK(net.Await(FirstOf(*third)).code() == StatusCode::kResourceExhausted);
  const Opened one = net.Await(n2.host->Open(id));
  const Opened two = net.Await(n2.host->Open(id));
  REQUIRE(one.ok());
  CHECK(one->get() == two->get());

  // Half of those who ask take no more, and say nothing.
  streams.erase(streams.begin() + 2, streams.end());
  net.Pass(absl::Minutes(2));
  const auto ended = [&](net::Stream& stream) -> absl::Status {
    for (int pieces = 0; pieces < 10; ++pieces) {
      const absl::Status next = net.Await(FirstOf(stream));
      if (!next.ok()) return next;
    }
    return absl::OkStatus();
  };
  for (const auto& stream : streams) {
    CHECK(Says(ended(*stream), StatusCode::kDeadlineExceeded, "no piece of the result was taken"));
  }
  const auto again = net.Await(Ask(*admins[2]->transport, n2.id(), id));
  CHECK(net.Await(FirstOf(*again)).ok());
}

TEST_CASE("A node that comes back after its job has ended takes the next one at once") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const JobId first = net.Submit(n1, JobYaml("  min: 2\n  max: 3\n"));
  REQUIRE(net.Comes([&] { return net.Job(first).rounds_done >= 1; }));
  net.Crash(n3);
  REQUIRE(net.Finishes(first));
  REQUIRE(net.Job(first).verdict == wire::Verdict::kSucceeded);
  net.Start(n3);  // with a record in which the job runs
  REQUIRE(net.Comes([&] { return net.coordinator().membership->IsOnline(n3.id()); }));
  const JobId next = net.Submit(n1, JobYaml("  count: 3\n"));
  REQUIRE(net.Comes([&] { return net.Job(next).rounds_done >= 1; }, absl::Seconds(30)));
  REQUIRE(net.Finishes(next));
  CHECK(net.Job(next).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("Inputs that do not fit under the owner's limit are not written, and the event says so") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  net.Crash(n2);
  n2.inputs_cap_bytes = 1000;
  net.Start(n2);
  REQUIRE(net.Comes([&] { return net.coordinator().membership->IsOnline(n2.id()); }));
  const JobId kept = net.Submit(n1, JobYaml("  count: 1\n  where: [n2]\n", "  keep_data: true\n"),
                                std::string(600, 'k'));
  REQUIRE(net.Finishes(kept));
  REQUIRE(net.Job(kept).verdict == wire::Verdict::kSucceeded);
  SECTION("beside what another job has kept") {}
  SECTION("also after a start") {
    net.Crash(n2);
    net.Start(n2);
    REQUIRE(net.Comes([&] { return net.coordinator().membership->IsOnline(n2.id()); }));
  }
  const JobId more = net.Submit(n1, JobYaml("  count: 1\n  where: [n2]\n"), std::string(500, 'm'));
  REQUIRE(net.Finishes(more));
  CHECK(net.Job(more).verdict == wire::Verdict::kFailed);
  CHECK(net.HasEvent("limits.disk_cache"));
  CHECK_FALSE(n2.files.Exists("/jobs/j2/inputs/data/data.txt"));
  const JobId fits = net.Submit(n1, JobYaml("  count: 1\n  where: [n2]\n"), std::string(400, 'f'));
  REQUIRE(net.Finishes(fits));
  CHECK(net.Job(fits).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("An input that the disk has changed is put together anew when its node starts again") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const std::string path = "/jobs/j1/inputs/data/data.txt";
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
  const std::string text = *n2.files.Read(path);
  net.Crash(n2);
  Damage(n2, path);
  net.Start(n2);
  CHECK(net.Comes([&] {
    const absl::StatusOr<std::string> now = n2.files.Read(path);
    return now.ok() && *now == text;
  }));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("A job's inputs are as large as it was submitted with") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  net.submit_as_bytes = 1;
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kFailed);
  CHECK(net.HasEvent("it was submitted as one of 1"));
  CHECK_FALSE(n2.files.Exists("/jobs/j1/inputs/data/data.txt"));
}

TEST_CASE("A job without a committed round has no parameters yet") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  CHECK(Says(net.Await(n1.host->Open(id)).status(), StatusCode::kNotFound, "no round is done"));
}

TEST_CASE(
    "A lost member is left out and the job goes on; below its minimum it waits for who was lost") {
  JobNetwork net;
  net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  JobId id;
  uint64_t rounds = 3;
  SECTION("left out") {
    rounds = 60;  // of some half a second: more than pass while its place is kept
    id = net.Submit(net.coordinator(),
                    JobYaml("  min: 2\n  max: 3\n", "", static_cast<int>(rounds)));
    REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
    net.Crash(net.Job(id).lead == n3.id() ? n2 : n3);
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).members.size() == 2);
    CHECK(net.Job(id).epoch > Epoch{1});
  }
  SECTION("the lead") {
    id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 3\n"));
    REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
    const NodeId lead = net.Job(id).lead;
    if (lead == net.coordinator().id()) return;  // the coordinator cannot be lost here
    net.Crash(lead == n2.id() ? n2 : n3);
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).lead != lead);
  }
  SECTION("waited for") {
    id = net.Submit(net.coordinator(), JobYaml("  count: 3\n"));
    REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
    auto& lost = net.Job(id).lead == n3.id() ? n2 : n3;
    net.Crash(lost);
    net.Pass(absl::Minutes(2));
    CHECK(net.Job(id).phase == state::JobPhase::kRunning);
    CHECK(net.HasEvent("waiting: job j1 needs 3 nodes and has 2 left (lost node " + lost.id().Short()));
    CHECK(net.HasEvent("node " + lost.id().Short() + " has not been online for 30 s"));
    net.Start(lost);
    REQUIRE(net.Finishes(id));
    CHECK(net.HasEvent("node " + lost.id().Short() + " is online again after "));
    CHECK(net.Job(id).members.size() == 3);
  }
  INFO(net.Job(id).reason);
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(net.Job(id).rounds_done == rounds);
}

TEST_CASE("An epoch without several nodes names them all") {
  JobNetwork net;
  net.Add(RoleSet::All());
  for (int n = 2; n <= 4; ++n) net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 4\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
  std::vector<std::string> lost;
  for (int n = 2; n <= 4 && lost.size() < 2; ++n) {
    if (net.node(n).id() == net.Job(id).lead) continue;
    lost.push_back(net.node(n).id().Short());
    net.Crash(net.node(n));
  }
  REQUIRE(net.Finishes(id));
  const std::vector<state::Event> events = *net.coordinator().state->events(0);
  const auto epoch = std::find_if(events.begin(), events.end(), [](const state::Event& e) {
    return e.text.find("epoch 2 with 2 nodes: lost ") != std::string::npos;
  });
  REQUIRE(epoch != events.end());
  INFO(epoch->text);
  for (const std::string& node : lost) CHECK(epoch->text.find("node " + node) != std::string::npos);
}

TEST_CASE("All nodes are killed and started again: the job goes on by itself") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kSubmitter, Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n2, JobYaml("  count: 3\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done == 1; }));
  for (auto* node : {&n1, &n2, &n3}) net.Crash(*node);
  net.Pass(absl::Minutes(1));
  for (auto* node : {&n3, &n1, &n2}) net.Start(*node);
  REQUIRE(net.Finishes(id));
  INFO(net.Job(id).reason);
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(net.Job(id).rounds_done == 3);
}

// Rounds take about two seconds here.
TEST_CASE("A member that dropped out is called back, has the parameters at once, and takes part again") {
  JobNetwork net;
  net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 3\n", "", 200));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 3; }));
  REQUIRE(net.Job(id).members.size() == 3);
  JobNetwork::Node& away = net.Job(id).lead == net.node(3).id() ? net.node(2) : net.node(3);
  const auto back = [&] { return net.Job(id).IsMember(away.id()); };
  net.Crash(away);
  REQUIRE(net.Comes([&] { return net.Job(id).members.size() == 2; }));
  const uint64_t without = net.Job(id).rounds_done;
  SECTION("when it is online again") {
    REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= without + 10; }));
    CHECK(net.Job(id).recruits.empty());
    net.Start(away);
    REQUIRE(net.Comes(back, absl::Seconds(20)));
    REQUIRE(net.Comes([&] { return net.Job(id).metrics.contributors == 3; }, absl::Seconds(20)));
  }
  SECTION("when it is lost again while it loads") {
    away.fault = [&](std::string_view call, RoundId) {
      return call == "load" ? absl::UnavailableError("no memory yet") : absl::OkStatus();
    };
    net.Start(away);
    REQUIRE(net.Comes([&] { return net.Job(id).IsRecruit(away.id()); }));
    net.Crash(away);
    REQUIRE(net.Comes([&] { return net.HasEvent(" is called no more: it is not online"); }));
    CHECK(net.Job(id).recruits.empty());
    away.fault = nullptr;
    net.Start(away);
    net.Pass(absl::Seconds(10));
    CHECK(net.Job(id).recruits.empty());  // not at once the second time
    REQUIRE(net.Comes(back, absl::Minutes(1)));
  }
  SECTION("when the coordinator restarted meanwhile, too") {
    net.Start(away);
    REQUIRE(net.Comes([&] { return net.Job(id).IsRecruit(away.id()); }));
    net.Crash(net.coordinator());
    net.Start(net.coordinator());
    REQUIRE(net.Comes(back, absl::Minutes(2)));
  }
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(net.Job(id).rounds_done == 200);
  const Digest theta = net.Job(id).theta;
  REQUIRE(net.Comes([&] { return away.host->Find(id) == nullptr; }));
  const auto artifacts = net.Await(away.host->Open(id));
  REQUIRE(artifacts.ok());
  CHECK((*artifacts)->state->id.theta == theta);  // of its own disk
}

TEST_CASE("A node that comes to the network while a job runs joins it, up to as many as the job may have") {
  JobNetwork net;
  net.Add(RoleSet::All());
  const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 1\n  max: 2\n", "", 100));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 1; }));
  auto& n2 = net.Add({Role::kContributor});
  REQUIRE(net.Comes([&] { return net.Job(id).IsMember(n2.id()); }));
  CHECK(net.HasEvent(absl::StrCat("with 2 nodes: node ", n2.id().Short(), " joins")));
  auto& n3 = net.Add({Role::kContributor});
  net.Pass(absl::Seconds(20));
  CHECK_FALSE(net.Job(id).HasPart(n3.id()));
  SECTION("its place goes to another when it stays away") {
    net.Crash(n2);
    REQUIRE(net.Comes([&] { return net.Job(id).IsMember(n3.id()); }));
    net.Start(n2);
    net.Pass(absl::Seconds(20));
    CHECK_FALSE(net.Job(id).HasPart(n2.id()));
  }
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("A node that its owner pauses hands over when its round has ended, and is called back when it is resumed") {
  JobNetwork net;
  net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 3\n", "", 100));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 3; }));
  REQUIRE(net.Job(id).members.size() == 3);
  const bool lead = GENERATE(false, true);
  const bool now = GENERATE(false, true);
  INFO((lead ? "the lead" : "a member") << (now ? " at once" : ""));
  JobNetwork::Node* node = nullptr;
  for (int n = 1; n <= 3; ++n) {
    if ((net.node(n).id() == net.Job(id).lead) == lead) node = &net.node(n);
  }
  REQUIRE(node->host->running() == 1);
  const uint64_t before = net.Job(id).rounds_done;
  REQUIRE(node->host->Pause(absl::InfiniteFuture(), now).ok());
  if (now) {
    REQUIRE(net.Comes([&] { return node->host->running() == 0; }, absl::Seconds(1)));
  }
  REQUIRE(net.Comes([&] { return node->host->running() == 0; }, absl::Seconds(30)));
  REQUIRE(net.Comes([&] { return net.Job(id).members.size() == 2; }, absl::Seconds(20)));
  CHECK_FALSE(net.Job(id).IsMember(node->id()));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= before + 5; }, absl::Minutes(1)));
  CHECK_FALSE(net.Job(id).HasPart(node->id()));
  CHECK_FALSE(net.HasEvent("starts again"));
  if (!now) CHECK_FALSE(net.HasEvent("lost node"));

  if (!lead) {  // it is not the coordinator, or it may be: a restart does not resume
    net.Crash(*node);
    net.Start(*node);
    net.Pass(absl::Seconds(20));
    CHECK(node->host->paused_until() == absl::InfiniteFuture());
    CHECK_FALSE(net.Job(id).HasPart(node->id()));
  }
  REQUIRE(node->host->Resume().ok());
  REQUIRE(net.Comes([&] { return net.Job(id).IsMember(node->id()); }, absl::Minutes(2)));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("A job that cannot do without a paused node waits for it, or for another") {
  JobNetwork net;
  net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), JobYaml("  count: 2\n", "", 50));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 3; }));
  const bool now = GENERATE(false, true);
  REQUIRE(n2.host->Pause(net.executor().Now() + absl::Minutes(3), now).ok());
  REQUIRE(net.Comes([&] { return n2.host->running() == 0; }, absl::Minutes(1)));
  CHECK(net.Job(id).IsMember(n2.id()));
  const uint64_t reached = net.Job(id).rounds_done;
  net.Pass(absl::Seconds(30));
  CHECK(net.Job(id).rounds_done <= reached + 1);
  SECTION("whose pause ends by itself") {
    REQUIRE(net.Comes([&] { return !n2.host->paused_until(); }, absl::Minutes(4)));
  }
  SECTION("that joins the network") {
    auto& n3 = net.Add({Role::kContributor});
    REQUIRE(net.Comes([&] { return net.Job(id).IsMember(n3.id()); }, absl::Minutes(2)));
    CHECK_FALSE(net.Job(id).IsMember(n2.id()));
  }
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("A paused node is given no job") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  REQUIRE(n1.host->Pause(absl::InfiniteFuture(), false).ok());
  REQUIRE(net.Comes([&] { return net.coordinator().state->member(n1.id())->profile.resources.paused; }));
  const JobId id = net.Submit(n1, JobYaml("  count: 1\n"));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).members == std::vector<NodeId>{n2.id()});
}

TEST_CASE("A job below its minimum goes on with another node in the place of one that stays away") {
  const bool lead = GENERATE(false, true);
  JobNetwork net;
  constexpr uint64_t kMemory = uint64_t{8} << 30;
  net.Add(RoleSet::All(), lead ? kMemory : 2 * kMemory);
  auto& n2 = net.Add({Role::kContributor}, lead ? 2 * kMemory : kMemory);
  const JobId id = net.Submit(net.coordinator(), JobYaml("  count: 2\n", "", 20));
  REQUIRE(net.Comes([&] { return net.Job(id).rounds_done >= 2; }));
  REQUIRE((net.Job(id).lead == n2.id()) == lead);
  net.Crash(n2);
  net.Pass(absl::Minutes(2));
  CHECK(net.Job(id).IsMember(n2.id()));  // it waits
  CHECK(net.Job(id).rounds_done < 20);
  auto& n3 = net.Add({Role::kContributor});
  REQUIRE(net.Comes([&] { return net.Job(id).IsMember(n3.id()); }));
  CHECK_FALSE(net.Job(id).IsMember(n2.id()));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("A worker that dies is started again, and given up after three times") {
  JobNetwork net;
  net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  int failures = 0;
  int limit = 1;
  JobNetwork::Node* failing = nullptr;
  const auto fail = [&](std::string_view call, RoundId) {
    if (call != "run" || failures >= limit) return absl::OkStatus();
    ++failures;
    return absl::UnavailableError("killed by SIGSEGV");
  };
  SECTION("once") {
    const JobId id = net.Submit(net.coordinator(), JobYaml("  count: 3\n"));
    REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
    failing = net.Job(id).lead == n3.id() ? &n2 : &n3;
    failing->fault = fail;
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
    CHECK(failing->workers == 2);
    CHECK(net.HasEvent("starts again after: "));
    CHECK(net.HasEvent("killed by SIGSEGV"));
  }
  SECTION("always, on a member: it is called again, and then no more") {
    limit = 1000;
    const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 3\n", "", 300));
    REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
    failing = net.Job(id).lead == n3.id() ? &n2 : &n3;
    failing->fault = fail;
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
    CHECK(net.Job(id).members.size() == 2);
    CHECK(net.HasEvent(absl::StrCat("job j1: node ", failing->id().Short(), " is not called again: killed by SIGSEGV")));
    CHECK(failing->workers == Recruiter::kMaxFailures);
  }
  SECTION("always, everywhere: the job fails and says why") {
    limit = 1000;
    for (int n = 1; n <= 3; ++n) net.node(n).fault = fail;
    const JobId id = net.Submit(net.coordinator(), JobYaml("  count: 3\n"));
    REQUIRE(net.Finishes(id));
    CHECK(net.Job(id).verdict == wire::Verdict::kFailed);
    CHECK_FALSE(net.Job(id).reason.empty());
  }
}

TEST_CASE("A node whose deltas are wrong again and again is taken out of the job, which keeps the reason") {
  JobNetwork net;
  net.Add(RoleSet::All());
  for (int n = 2; n <= 4; ++n) net.Add({Role::kContributor});
  const JobId id = net.Submit(net.coordinator(), JobYaml("  min: 2\n  max: 4\n", "", 30));
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning && net.Job(id).rounds_done >= 1; }));
  JobNetwork::Node* wrong = nullptr;
  SECTION("a member") { wrong = net.Job(id).lead == net.node(3).id() ? &net.node(4) : &net.node(3); }
  SECTION("the lead") {
    for (int n = 1; n <= 4; ++n) {
      if (net.node(n).id() == net.Job(id).lead) wrong = &net.node(n);
    }
  }
  wrong->fault = [](std::string_view call, RoundId) {
    return call == "run" ? absl::DataLossError("the loss is not finite") : absl::OkStatus();
  };
  REQUIRE(net.Comes([&] { return !net.Job(id).excluded.empty(); }));
  CHECK(net.Job(id).excluded ==
        std::vector<state::Exclusion>{{wrong->id(), "it was at fault in 3 rounds of the last 20; last: the loss is not finite"}});
  CHECK_FALSE(net.Job(id).IsMember(wrong->id()));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(net.Job(id).members.size() == 3);
  CHECK(wrong->workers == 1);  // it is not called again
}

TEST_CASE("An input that nobody has ends in an event that names it") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(n1.chunks->Drop("j1").ok());
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kFailed);
  CHECK(net.HasEvent("data: chunk"));
  CHECK(n2.workers == 0);
}

}  // namespace
}  // namespace gdf::jobs
