#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "core/store/sqlite.h"
#include "fixture.h"

namespace gdf::state {
namespace {

using trust::Role;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/gdf-state-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Folder() {
    for (const char* suffix : {"", "-wal", "-shm"}) unlink((db() + suffix).c_str());
    rmdir(folder_.c_str());
  }
  std::string db() const { return folder_ + "/state.db"; }

 private:
  std::string folder_;
};

void Replay(State& from, State& to) {
  while (to.last_applied() < from.last_applied()) {
    const auto entries = *from.LogEntries(to.last_applied() + 1, 1 << 16);
    for (const LogEntry& entry : entries) {
      REQUIRE(to.Apply(entry.index, entry.command).ok());
    }
  }
}

wire::Command OneSubmission() {
  wire::Command command;
  command.request[0] = 7;
  command.actor = IdOf("c");
  command.body = World::Submission("t");
  return command;
}

TEST_CASE("a repeated request gets the first result and no second entry") {
  World w;
  w.Found();
  wire::Command command = OneSubmission();
  const auto first = *w.log.Propose(command);
  const uint64_t entries = w.state->last_applied();
  CHECK(*w.log.Propose(command) == first);
  CHECK(w.state->last_applied() == entries);
  // Another log may hold it twice all the same; it is applied once.
  const std::string bytes = w.state->LogEntries(entries, 1)->at(0).command;
  CHECK(*w.state->Apply(entries + 1, bytes) == first);
  CHECK(w.state->jobs()->size() == 1);
  // Requests of others are not shown.
  command.actor = IdOf("x");
  CHECK(absl::IsPermissionDenied(w.log.Propose(command)->status));
}

TEST_CASE("a refused command is no entry, leaves no row and takes no remembered request's place") {
  World w;
  w.Found();
  wire::Command command = OneSubmission();
  const auto first = *w.log.Propose(command);
  const uint64_t entries = w.state->last_applied();
  const Digest before = *w.state->StateDigest();
  for (size_t i = 0; i < State::kMaxRequests + 1; ++i) {
    REQUIRE(absl::IsPermissionDenied(w.Do("stranger", w.JoinWith("guess", "stranger"))));
  }
  CHECK(w.state->last_applied() == entries);
  CHECK(*w.state->StateDigest() == before);
  CHECK(*w.log.Propose(command) == first);
  CHECK(w.state->last_applied() == entries);
}

TEST_CASE("a log that holds refused commands is applied all the same") {
  World w;
  w.Found();
  wire::Command refused;
  refused.request[0] = 9;
  refused.actor = IdOf("x");
  refused.at_unix_ms = w.now_ms();
  refused.body = World::Submission("t");
  const auto result = w.state->Apply(2, wire::EncodeCommand(refused));
  REQUIRE(result.ok());
  CHECK(absl::IsPermissionDenied(result->status));
  CHECK(w.state->last_applied() == 2);
  CHECK(w.state->jobs()->empty());
  CHECK(*w.log.Propose(refused) == *result);  // remembered, as it is an entry
  auto replica = *State::OpenInMemory();
  Replay(*w.state, *replica);
  CHECK(*replica->StateDigest() == *w.state->StateDigest());
}

TEST_CASE("entries are applied in order, once; bytes that are no command change nothing") {
  World w;
  w.Found();
  const std::string bytes = w.state->LogEntries(1, 1)->at(0).command;
  CHECK(absl::IsAlreadyExists(w.state->Apply(1, bytes).status()));
  CHECK(absl::IsOutOfRange(w.state->Apply(3, bytes).status()));
  CHECK(absl::IsInvalidArgument(w.state->Apply(2, "rubbish").status()));
  CHECK(w.state->last_applied() == 1);
  wire::Command bad;
  bad.actor = IdOf("c");
  bad.body = wire::CancelJob{};  // no job
  CHECK(absl::IsInvalidArgument(w.log.Propose(bad).status()));
  CHECK(w.state->last_applied() == 1);
}

TEST_CASE("time in the log does not go back") {
  Folder folder;
  {
    World w(*State::Open(folder.db()));
    w.clock.PostAfter(absl::Hours(1), [] {});
    w.clock.RunUntilIdle();
    w.Found();
  }
  World w(*State::Open(folder.db()));  // its clock starts an hour earlier
  REQUIRE(w.Do("c", World::Submission("t")).ok());
  CHECK(w.state->job({1})->submitted_unix_ms == w.now_ms() + 3'600'000);
}

TEST_CASE("watchers hear of every entry, and may go") {
  World w;
  std::vector<uint64_t> heard;
  State::WatcherId id = 0;
  id = w.state->AddWatcher([&](uint64_t index) {
    heard.push_back(index);
    CHECK(w.state->last_applied() == index);
    if (index == 2) w.state->RemoveWatcher(id);
  });
  w.Found();
  REQUIRE(w.Do("c", World::Submission("t")).ok());
  REQUIRE(w.Do("c", World::Submission("u")).ok());
  CHECK(heard == std::vector<uint64_t>{1, 2});
}

TEST_CASE("the log is handed out in pieces with a chain over it") {
  World w;
  w.Found();
  for (int i = 0; i < 10; ++i) REQUIRE(w.Do("c", World::Submission("t" + std::to_string(i))).ok());
  CHECK(w.state->LogEntries(1, 1)->size() == 1);
  CHECK(w.state->LogEntries(4, 1 << 20)->size() == 8);
  CHECK(w.state->LogEntries(12, 1 << 20)->empty());
  CHECK(w.state->LogDigest(0)->zero());
  Digest chain;
  const auto entries = *w.state->LogEntries(1, 1 << 20);
  for (const LogEntry& entry : entries) {
    chain = Sha256().Update(chain.span()).Update(entry.command).Finish();
    CHECK(*w.state->LogDigest(entry.index) == chain);
  }
  CHECK(absl::IsNotFound(w.state->LogDigest(12).status()));
}

// What version 5 did not have.
constexpr std::string_view kNotInVersion5 =
    "DROP TABLE rollbacks; DROP TABLE local_ballot; DROP TABLE local_tail; ALTER TABLE recruits DROP COLUMN reason; "
    "ALTER TABLE network DROP COLUMN coordinators_since; ";

TEST_CASE("a state of version 5 goes on as a network with one coordinator") {
  Folder folder;
  Digest digest;
  {
    World w(*State::Open(folder.db()));
    w.Found();
    w.Admit("a", {Role::kContributor});
    digest = *w.state->StateDigest();
  }
  {
    auto db = *store::Database::Open(folder.db());
    REQUIRE(db->Execute(std::string(kNotInVersion5) + "PRAGMA user_version=5").ok());
  }
  World w(*State::Open(folder.db()));
  CHECK(*w.state->StateDigest() == digest);
  CHECK(w.state->network()->coordinators == std::vector<NodeId>{IdOf("c")});
  CHECK(w.state->network()->coordinators_since == 1);
  CHECK(w.Do("c", World::Submission("t")).ok());
}

TEST_CASE("a state written by a newer version is left alone") {
  Folder folder;
  {
    auto db = *store::Database::Open(folder.db());
    REQUIRE(db->Execute("PRAGMA user_version=1000").ok());
  }
  CHECK(absl::IsFailedPrecondition(State::Open(folder.db()).status()));
}

TEST_CASE("a state of version 1 keeps the members of its jobs' newest epochs") {
  Folder folder;
  {
    World w(*State::Open(folder.db()));
    w.Found();
    w.Admit("a", {Role::kContributor});
    REQUIRE(w.Do("c", World::Submission("t")).ok());
    REQUIRE(w.Do("c", World::EpochOf(1, 1, {"c"})).ok());
    REQUIRE(w.Do("c", World::EpochOf(1, 2, {"c", "a"})).ok());
  }
  {
    auto db = *store::Database::Open(folder.db());
    REQUIRE(db->Execute(std::string(kNotInVersion5) +
                        "DROP TABLE job_members; CREATE TABLE job_members(job INTEGER NOT NULL, position INTEGER NOT NULL, "
                        "node BLOB NOT NULL, PRIMARY KEY(job, position)) WITHOUT ROWID; "
                        "INSERT INTO job_members SELECT 1, seq, id FROM members; DROP TABLE local; DROP TABLE recruits; PRAGMA user_version=1")
                .ok());
  }
  World w(*State::Open(folder.db()));
  CHECK(*w.state->epoch_members({1}, {2}) == std::vector<NodeId>{IdOf("c"), IdOf("a")});
  CHECK(w.state->job({1})->members == std::vector<NodeId>{IdOf("c"), IdOf("a")});
  REQUIRE(w.Do("c", World::EpochOf(1, 3, {"a"})).ok());
  CHECK(w.state->epoch_members({1}, {2})->size() == 2);
}

TEST_CASE("a state of version 2 names nodes by the ids that they have now") {
  Folder folder;
  {
    World w(*State::Open(folder.db()));
    w.Found();
    w.Admit("a", {Role::kContributor});
    REQUIRE(w.Do("c", World::Submission("t")).ok());
    REQUIRE(w.Do("c", World::EpochOf(1, 1, {"a", "c"})).ok());
    REQUIRE(w.Do("c", World::Finish(1, 1, wire::Verdict::kFailed)).ok());
    const NetworkId network = w.state->network()->id;
    const std::string keys[] = {"a", "a2", "a3"};
    for (int i = 0; i < 2; ++i) {
      const std::string record = trust::KeyRotation::Make(network, KeyOf(keys[i]), KeyOf(keys[i + 1]), w.now_ms());
      REQUIRE(w.Do(keys[i], wire::RotateKey{record}).ok());
    }
  }
  {
    auto db = *store::Database::Open(folder.db());
    const auto hex = [](std::string_view name) { return absl::StrCat("x'", IdOf(name).digest().ToHex(), "'"); };
    REQUIRE(db->Execute(absl::StrCat(std::string(kNotInVersion5), "UPDATE rotated SET new_id = ", hex("a2"), " WHERE old_id = ", hex("a"),
                                     "; UPDATE jobs SET lead = ", hex("a"), "; UPDATE events SET node = ", hex("a"),
                                     " WHERE node = ", hex("a3"), "; DROP TABLE local; DROP TABLE recruits; PRAGMA user_version=2"))
                .ok());
  }
  World w(*State::Open(folder.db()));
  CHECK(w.state->job({1})->lead == IdOf("a3"));
  CHECK(w.state->job({1})->members == std::vector<NodeId>{IdOf("a3"), IdOf("c")});
  EventFilter of_node;
  of_node.node = IdOf("a");
  CHECK(w.state->events(0, of_node)->empty());
  of_node.node = IdOf("a3");
  CHECK(w.state->events(0, of_node)->size() > 2);
  CHECK_FALSE(w.state->CheckMember(IdOf("a2"), trust::Operation::kTrain).ok());
}

// The file of a network with a few jobs, closed.
void MakeFile(const Folder& folder) {
  World w(*State::Open(folder.db()));
  w.Found();
  for (int i = 0; i < 5; ++i) REQUIRE(w.Do("c", World::Submission(std::to_string(i))).ok());
}

TEST_CASE("a log whose entries and digests do not agree is not opened") {
  const std::string change = GENERATE("UPDATE log SET command = x'00' WHERE log_index = 1",
                                      "UPDATE log SET command = x'00' WHERE log_index = 3",
                                      "UPDATE log SET chain = zeroblob(32) WHERE log_index = 6",
                                      "UPDATE log SET chain = x'00' WHERE log_index = 2",
                                      "DELETE FROM log WHERE log_index = 1", "DELETE FROM log WHERE log_index = 4");
  CAPTURE(change);
  Folder folder;
  MakeFile(folder);
  REQUIRE(State::Open(folder.db()).ok());
  {
    auto db = *store::Database::Open(folder.db());
    REQUIRE(db->Execute(change).ok());
  }
  const absl::Status opened = State::Open(folder.db()).status();
  INFO(opened);
  CHECK(absl::IsDataLoss(opened));
  CHECK(opened.message().find(folder.db()) != absl::string_view::npos);
}

TEST_CASE("a change of any table is found when the file is opened") {
  const std::string change = GENERATE(
      "UPDATE network SET record = record || x'00'", "INSERT INTO coordinators VALUES(zeroblob(32))",
      "UPDATE members SET roles = 1", "UPDATE members SET name = 'x'", "INSERT INTO rotated VALUES(x'00', x'01', 0)",
      "UPDATE jobs SET rounds_done = 9 WHERE id = 2", "UPDATE jobs SET spec = spec || ' '", "DELETE FROM jobs WHERE id = 3",
      "INSERT INTO invites VALUES(1, x'00', x'00', 1, 0, 0, 1, 0, 0, x'00')",
      "INSERT INTO job_members VALUES(1, 1, 0, zeroblob(32))", "INSERT INTO rounds VALUES(1, 0, 1, 0, zeroblob(32), x'')",
      "UPDATE events SET text = 'x' WHERE id = 1", "DELETE FROM events", "UPDATE requests SET result = x'00' WHERE log_index = 2",
      "UPDATE log SET at = at + 1 WHERE log_index = 2", "DELETE FROM local");
  CAPTURE(change);
  Folder folder;
  MakeFile(folder);
  {
    auto db = *store::Database::Open(folder.db());
    REQUIRE(db->Execute(change).ok());
  }
  const absl::Status opened = State::Open(folder.db()).status();
  INFO(opened);
  CHECK(absl::IsDataLoss(opened));
  CHECK(opened.message().find(folder.db()) != absl::string_view::npos);
}

TEST_CASE("a file with a page that is none is not opened") {
  Folder folder;
  MakeFile(folder);
  {
    constexpr size_t kPage = 4096;  // SQLite's
    std::fstream file(folder.db(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2 * kPage);
    file << std::string(kPage, 'x');
    REQUIRE(file.good());
  }
  const absl::Status opened = State::Open(folder.db()).status();
  INFO(opened);
  CHECK(absl::IsDataLoss(opened));
  CHECK(opened.message().find(folder.db()) != absl::string_view::npos);
}

// One random command by a random node, sensible or not.
class RandomCommands {
 public:
  RandomCommands(World& world, uint64_t seed) : w_(world), rng_(seed) {}

  void Step() {
    const std::string actor = Node();
    const uint64_t job = 1 + rng_.Below(4), epoch = rng_.Below(4), round = rng_.Below(6);
    const std::string invite = "i" + std::to_string(rng_.Below(4));
    const trust::RoleSet roles = *trust::RoleSet::FromBits(static_cast<uint32_t>(1 + rng_.Below(7)));
    switch (rng_.Below(18)) {
      case 0: (void)w_.Do("c", w_.Invite(invite + std::to_string(rng_.Below(50)), roles, 3)); break;
      case 1: (void)w_.Do(actor, w_.Invite(invite, roles, static_cast<uint32_t>(1 + rng_.Below(3)))); break;
      case 2: (void)w_.Do(actor, wire::RevokeInvite{World::InviteIdOf(invite)}); break;
      case 3:
      case 4: (void)w_.Do(actor, w_.JoinWith(invite, actor)); break;
      case 5: (void)w_.Do(Admin(), wire::SetRole{IdOf(Node()), roles.bits()}); break;
      case 6: (void)w_.Do(Admin(), wire::RemoveNode{IdOf(Node()), "why"}); break;
      case 7: (void)w_.Do(Admin(), wire::BanNode{IdOf(Node()), ""}); break;
      case 8: (void)w_.Do(Admin(), wire::UnbanNode{IdOf(Node())}); break;
      case 9: (void)w_.Do(actor, wire::UpdateNode{ProfileOf(Node())}); break;
      case 10: (void)w_.Do(actor, World::Submission("t" + std::to_string(rng_.Below(3)))); break;
      case 11: (void)w_.Do("c", World::EpochOf(job, Next(job, epoch), {Node()})); break;
      case 12: (void)w_.Do(Lead(job, actor), World::Report(job, Current(job, epoch), round)); break;
      case 13:
        (void)w_.Do(Lead(job, actor), World::Finish(job, Current(job, epoch), static_cast<wire::Verdict>(1 + rng_.Below(3))));
        break;
      case 14: (void)w_.Do(actor, wire::CancelJob{{job}, ""}); break;
      case 15: (void)w_.Do(actor, wire::JobEvent{{rng_.Below(5)}, IdOf(actor), wire::Severity::kInfo, "text"}); break;
      case 16: (void)w_.Do(Admin(), wire::AddCoordinator{IdOf(Node())}); break;
      case 17: (void)w_.Do(Admin(), wire::RemoveCoordinator{IdOf(Node())}); break;
    }
    if (rng_.Below(10) == 0) {
      w_.clock.PostAfter(absl::Minutes(rng_.Below(30)), [] {});
      w_.clock.RunUntilIdle();
    }
  }

 private:
  std::string Node() { return std::string(1, "cabdefgh"[rng_.Below(8)]); }
  std::string Admin() { return rng_.Below(2) == 0 ? "c" : Node(); }
  uint64_t Current(uint64_t job, uint64_t other) {
    const auto found = w_.state->job({job});
    return found.ok() && rng_.Below(4) != 0 ? found->epoch.value : other;
  }
  uint64_t Next(uint64_t job, uint64_t other) { return 1 + Current(job, other); }
  std::string Lead(uint64_t job, const std::string& other) {
    const auto found = w_.state->job({job});
    if (!found.ok() || rng_.Below(4) == 0) return other;
    for (const char c : std::string("cabdefgh")) {
      if (IdOf(std::string(1, c)) == found->lead) return std::string(1, c);
    }
    return other;
  }
  World& w_;
  SeededRng rng_;
};

TEST_CASE("a file is opened again after whatever commands, applied, refused or dropped, and keeps its keeper") {
  Folder folder;
  World w(*State::Open(folder.db()));
  w.Found();
  REQUIRE(w.state->keeper()->has_value() == false);
  REQUIRE(w.state->SetKeeper(IdOf("a")).ok());
  RandomCommands commands(w, 7);
  for (int i = 0; i < 200; ++i) {
    commands.Step();
    if (i % 20 != 0) continue;
    const absl::StatusOr<std::unique_ptr<State>> again = State::Open(folder.db());
    INFO("after " << i << " commands: " << again.status());
    REQUIRE(again.ok());
    CHECK((*again)->keeper()->value() == IdOf("a"));
  }
}

TEST_CASE("equal logs give equal states, whatever the commands") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    World w;
    w.Found();
    RandomCommands commands(w, seed);
    auto replica = *State::OpenInMemory();
    for (int i = 1; i <= 300; ++i) {
      commands.Step();
      if (i % 100 != 0) continue;
      INFO("seed " << seed << ", after " << i << " commands");
      Replay(*w.state, *replica);
      REQUIRE(*replica->StateDigest() == *w.state->StateDigest());
      // What must hold in any reachable state.
      size_t admins = 0;
      std::set<std::string> names;
      const auto members = *w.state->members();
      for (const Member& member : members) {
        admins += member.status == MemberStatus::kActive && member.roles.Has(Role::kAdmin);
        if (member.status != MemberStatus::kRemoved) CHECK(names.insert(member.profile.name).second);
        if (member.coordinator) CHECK(member.status == MemberStatus::kActive);
      }
      CHECK(admins >= 1);
      const auto jobs = *w.state->jobs();
      for (const Job& job : jobs) {
        CHECK((job.phase == JobPhase::kFinished) == (job.verdict != wire::Verdict::kNone));
        CHECK((job.phase == JobPhase::kPending) <= job.members.empty());
        CHECK(job.members.empty() == (job.epoch.value == 0));
      }
      const auto invites = *w.state->invites();
      for (const InviteRecord& invite : invites) CHECK(invite.uses <= invite.uses_allowed);
    }
    const std::vector<Member> members = *w.state->members();
    const auto admin = std::find_if(members.begin(), members.end(), [](const Member& member) {
      return member.status == MemberStatus::kActive && member.roles.Has(Role::kAdmin);
    });
    REQUIRE(admin != members.end());
    const std::string nodes = "cabdefgh";
    const auto name = std::find_if(nodes.begin(), nodes.end(), [&](char n) { return IdOf(std::string(1, n)) == admin->id; });
    REQUIRE(name != nodes.end());
    REQUIRE(w.Do(std::string(1, *name), w.Invite("one-more", {Role::kContributor})).ok());
    CHECK(*replica->StateDigest() != *w.state->StateDigest());
  }
}

// Submits and cancels jobs with the tokens first, first + 1, ... and writes each number to `out` once it is acknowledged.
[[noreturn]] void ProposeUntilKilled(const std::string& path, uint64_t first, int out) {
  auto state = State::Open(path);
  if (!state.ok()) _exit(1);
  World w(*std::move(state));
  for (uint64_t i = first;; ++i) {
    const auto submitted = w.Propose("c", World::Submission(std::to_string(i)));
    if (!submitted.ok() || !submitted->status.ok()) _exit(2);
    if (write(out, &i, sizeof(i)) != sizeof(i)) _exit(3);
    if (!w.Do("c", wire::CancelJob{submitted->job, ""}).ok()) _exit(4);
  }
}

TEST_CASE("what was acknowledged survives kill -9 at any moment, once") {
  Folder folder;
  {
    World w(*State::Open(folder.db()));
    w.Found();
  }
  SeededRng rng(2024);
  std::set<uint64_t> acknowledged;
  for (uint64_t run = 0; run < 20; ++run) {
    const uint64_t first = run * 1'000'000;
    int pipe_fds[2];
    REQUIRE(pipe(pipe_fds) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(pipe_fds[0]);
      ProposeUntilKilled(folder.db(), first, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    const uint64_t wanted = rng.Below(12);
    uint64_t token = 0;
    for (uint64_t i = 0; i < wanted; ++i) {
      REQUIRE(read(pipe_fds[0], &token, sizeof(token)) == sizeof(token));
      acknowledged.insert(token);
    }
    // Somewhere inside the next command, by an amount of work rather than of time.
    for (uint64_t spin = rng.Below(4000); spin > 0; --spin) (void)HashBytes("spin");
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &token, sizeof(token)) == sizeof(token)) acknowledged.insert(token);
    close(pipe_fds[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));

    auto state = *State::Open(folder.db());
    std::set<uint64_t> present;
    const auto jobs = *state->jobs();
    for (const Job& job : jobs) REQUIRE(present.insert(std::stoull(job.submit_token)).second);
    for (const uint64_t done : acknowledged) REQUIRE(present.contains(done));
    // At most the one command that was under way when the kill came.
    REQUIRE(present.size() <= acknowledged.size() + run + 1);
    // The tables are what the log says, no more and no less.
    auto replayed = *State::OpenInMemory();
    Replay(*state, *replayed);
    REQUIRE(*replayed->StateDigest() == *state->StateDigest());
  }
  CHECK(acknowledged.size() > 20);
}

TEST_CASE("a disk that takes no more is remembered until it does, and nothing is lost") {
  Folder folder;
  World w(*State::Open(folder.db()));
  w.Found();
  CHECK(w.log.disk_status().ok());
  // No file may grow: writing to one fails, as on a full disk.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit none{1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
  const absl::Status refused = w.Do("c", w.Invite("lost", trust::RoleSet::All()));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_DFL);
  CHECK_FALSE(refused.ok());
  CHECK(w.log.disk_status() == refused);
  CHECK(w.state->last_applied() == 1);
  REQUIRE(w.Do("c", w.Invite("kept", trust::RoleSet::All())).ok());
  CHECK(w.log.disk_status().ok());
  CHECK(w.state->last_applied() == 2);
}

}  // namespace
}  // namespace gdf::state
