// What a coordinator does and takes with so many members and running jobs: the real state, membership and scheduler, on
// simulated time, with members that are a crowd (crowd.h). Prints one JSON line.
//
//   scale_bench [--nodes N] [--jobs J] [--seconds S] [--round-seconds R] [--losses L] [--folder F]
//
// join: of one member, when all others are there. steady: a second in which every job reports a round each R seconds and
// nobody comes or goes. loss: of one member of a job, by a reset, which the others are told, and its return. Bytes are those of messages,
// without TLS; CPU seconds are this process's.
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/executor.h"
#include "core/base/rng.h"
#include "core/membership/membership.h"
#include "core/state/command_log.h"
#include "core/state/state.h"
#include "core/trust/genesis.h"
#include "core/trust/invite.h"
#include "core/trust/node_key.h"
#include "core/wire/membership_messages.h"
#include "gdfd/jobs/scheduler.h"
#include "tests/bench/scale/crowd.h"
#include "tests/support/temporary_folder.h"

namespace gdf::scale {
namespace {

using Json = nlohmann::json;

constexpr int kMembersPerJob = 5;
constexpr char kJobYaml[] = R"(name: job
kind: train
model:
  gpt2: {layers: 4, heads: 4, width: 128, context: 64}
data:
  text: [data.txt]
  tokenizer: char
train:
  steps: 1000000
  batch_size: 4
  optimizer: {lr: 1e-3}
rounds:
  inner_steps: 50
nodes: {min: 3, max: 5}
)";

struct Options {
  int nodes = 1000;
  int jobs = 200;
  int seconds = 120;
  double round_seconds = 60;
  int losses = 5;
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentMib() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

class Trial {
 public:
  explicit Trial(const Options& options) : options_(options) {
    state_ = *state::State::Open(absl::StrCat(folder_.path(), "/state.db"));
    crowd_ = std::make_unique<Crowd>(executor_, key_.id());
    wire::NodeProfile profile;
    profile.name = "coordinator";
    Found(profile);
    JoinMost();
    membership_ = std::make_unique<membership::Membership>(membership::Environment{executor_, *crowd_, *state_, key_, rng_});
    membership_->Start(profile);
    scheduler_ = std::make_unique<jobs::Scheduler>(*crowd_, *state_, *membership_);
    Settle();
  }

  Json Run() {
    Json result = {{"nodes", options_.nodes}, {"jobs", options_.jobs}, {"round_seconds", options_.round_seconds}};
    const double resident = ResidentMib();
    result["join"] = Per(1, [&] { Join(options_.nodes); });
    const uint64_t joined_bytes = StateBytes();
    const double before = CpuSeconds();
    for (int i = 0; i < options_.jobs; ++i) Submit(i);
    Settle();
    result["place_cpu_ms"] = 1000 * (CpuSeconds() - before) / options_.jobs;
    const std::vector<state::Job> placed = *state_->jobs();
    for (const state::Job& job : placed) GDF_CHECK(job.phase == state::JobPhase::kRunning);
    for (const NodeId& member : members_) Watch(member);
    Pass(absl::Seconds(1));
    const uint64_t entries = state_->last_applied(), bytes = StateBytes();
    for (const state::Job& job : placed) Report(job.id, job.lead, 0);
    result["steady"] = Per(options_.seconds, [&] { Pass(absl::Seconds(options_.seconds)); });
    result["steady"]["commands"] = static_cast<double>(state_->last_applied() - entries) / options_.seconds;
    result["state_mib"] = static_cast<double>(StateBytes()) / (1 << 20);
    result["state_bytes_per_member"] = joined_bytes / static_cast<uint64_t>(options_.nodes);
    result["state_bytes_per_round"] = (StateBytes() - bytes) / std::max<uint64_t>(1, state_->last_applied() - entries);
    result["resident_mib"] = ResidentMib() - resident;
    reporting_ = false;
    Pass(absl::Seconds(2 * options_.round_seconds));
    result["loss"] = Losses();
    return result;
  }

 private:
  static trust::NodeKey KeyOf(int number) {
    trust::NodeKey::Seed seed{};
    for (size_t i = 0; i < 4; ++i) seed[i] = static_cast<uint8_t>(number >> (8 * i));
    return trust::NodeKey::FromSeed(seed);
  }

  // As Membership::Found, with a policy that lets so many in.
  void Found(const wire::NodeProfile& profile) {
    trust::Genesis genesis;
    genesis.name = "crowd";
    genesis.created_unix_ms = absl::ToUnixMillis(executor_.Now());
    genesis.coordinator_key = key_.public_key();
    genesis.policy.max_members = static_cast<uint32_t>(options_.nodes) + 1;
    Append(key_.id(), wire::CreateNetwork{*genesis.Sign(key_), profile});
  }

  // What `work` sends, takes and costs, in `parts`.
  Json Per(double parts, const std::function<void()>& work) {
    const Traffic before = crowd_->traffic();
    const double cpu = CpuSeconds();
    work();
    const Traffic& now = crowd_->traffic();
    return {{"messages_sent", static_cast<double>(now.messages_sent - before.messages_sent) / parts},
            {"bytes_sent", static_cast<double>(now.bytes_sent - before.bytes_sent) / parts},
            {"messages_received", static_cast<double>(now.messages_received - before.messages_received) / parts},
            {"bytes_received", static_cast<double>(now.bytes_received - before.bytes_received) / parts},
            {"cpu_ms", 1000 * (CpuSeconds() - cpu) / parts}};
  }

  void Pass(absl::Duration time) {
    executor_.RunUntil([] { return false; }, time);
  }
  void Settle() { Pass(absl::Milliseconds(500)); }

  // All but the last, by the log alone: each costs the coordinator as much as the last, which is measured.
  void JoinMost() {
    invite_.Randomize(rng_);
    Append(key_.id(), wire::CreateInvite{invite_.id, trust::InviteSecretHash(invite_.id, invite_.secret), trust::RoleSet::All().bits(),
                                         absl::ToUnixMillis(executor_.Now() + absl::Hours(100)), static_cast<uint32_t>(options_.nodes)});
    for (int i = 1; i < options_.nodes; ++i) {
      const trust::NodeKey key = KeyOf(i);
      Append(key.id(), MakeJoin(i, key));
      crowd_->Connect(key.id());
      members_.push_back(key.id());
    }
  }

  wire::Join MakeJoin(int number, const trust::NodeKey& key) {
    wire::Join join;
    join.network = state_->network()->id;
    join.invite = invite_.id;
    join.secret_hash = trust::InviteSecretHash(invite_.id, invite_.secret);
    join.public_key = key.public_key();
    join.node.name = absl::StrCat("node", number);
    join.node.addresses = {"192.0.2.1:7420"};
    join.node.version = "0.1.0";
    join.node.resources.cpu_threads = 8;
    join.node.resources.memory_bytes = uint64_t{16} << 30;
    return join;
  }

  wire::Command MakeCommand(const NodeId& actor, wire::CommandBody body) {
    wire::Command command;
    rng_.Fill(absl::MakeSpan(command.request));
    command.actor = actor;
    command.body = std::move(body);
    return command;
  }

  void Append(const NodeId& actor, wire::CommandBody body) {
    const absl::StatusOr<wire::CommandResult> made =
        state::CommandLog(*state_, executor_).Propose(MakeCommand(actor, std::move(body)));
    GDF_CHECK(made.ok() && made->status.ok());
  }

  // By the coordinator's service.
  void Join(int number) {
    const trust::NodeKey key = KeyOf(number);
    const wire::Command command = MakeCommand(key.id(), MakeJoin(number, key));
    crowd_->Connect(key.id());
    crowd_->Send(key.id(), "membership.join",
                 Buffer(wire::Encode(wire::JoinCall{state_->network()->id, wire::EncodeCommand(command)})), nullptr);
    Settle();
    GDF_CHECK(state_->IsActive(key.id()));
    members_.push_back(key.id());
  }

  void Submit(int number) {
    wire::SubmitJob submit;
    submit.name = "job";
    submit.submit_token = absl::StrCat("token-", number);
    submit.spec_yaml = kJobYaml;
    submit.inputs = {{"data", Digest{}, 1 << 20, key_.id()}};
    submit.planned_rounds = 20'000;
    Propose(std::move(submit));
  }

  void Propose(wire::CommandBody body) {
    std::optional<absl::Status> done;
    TaskScope scope(executor_);
    scope.Spawn(Record(std::move(body), &done));
    executor_.RunUntil([&] { return done.has_value(); });
    GDF_CHECK(done->ok());
  }
  Task<void> Record(wire::CommandBody body, std::optional<absl::Status>* done) {
    absl::StatusOr<wire::CommandResult> result = co_await membership_->ProposeChecked(std::move(body));
    *done = result.status();
  }

  void Watch(const NodeId& member) {
    crowd_->Send(member, "membership.watch", Buffer(wire::Encode(wire::WatchCall{state_->last_applied() + 1})), nullptr);
  }

  // By the job's lead, again and again, at a moment of its own in each interval.
  void Report(JobId job, NodeId lead, uint64_t round) {
    const double share = round == 0 ? rng_.Unit() : 1;
    executor_.PostAfter(absl::Seconds(share * options_.round_seconds), [this, job, lead, round] {
      if (!reporting_) return;
      wire::ReportJob report{job, Epoch{1}, RoundId{round}, Digest{}, {}, ""};
      report.metrics.train_loss = 1.5;
      report.metrics.tokens = 100'000;
      report.metrics.tokens_per_sec = 10'000;
      report.metrics.bytes_sent = report.metrics.bytes_received = 1'000'000;
      report.metrics.contributors = kMembersPerJob;
      const wire::Command command = MakeCommand(lead, std::move(report));
      crowd_->Send(lead, "membership.propose", Buffer(wire::EncodeCommand(command)), nullptr);
      Report(job, lead, round + 1);
    });
  }

  Json Losses() {
    const std::vector<state::Job> jobs = *state_->jobs();
    const int losses = std::min<int>(options_.losses, static_cast<int>(jobs.size()));
    absl::Duration told, recorded;
    Json result = Per(losses, [&] {
      for (int i = 0; i < losses; ++i) {
        const NodeId lost = jobs[static_cast<size_t>(i)].members.back();
        const absl::Duration at = executor_.Monotonic();
        const uint64_t sent = crowd_->traffic().messages_sent, index = state_->last_applied();
        crowd_->Leave(lost);
        executor_.RunUntil([&] { return crowd_->traffic().messages_sent >= sent + static_cast<uint64_t>(options_.nodes) - 1; }, absl::Minutes(5));
        told = std::max(told, executor_.Monotonic() - at);
        executor_.RunUntil([&] { return state_->last_applied() > index; }, absl::Minutes(5));
        recorded = std::max(recorded, executor_.Monotonic() - at);
        crowd_->Connect(lost);
        Watch(lost);
        Settle();
      }
    });
    result["told_seconds"] = absl::ToDoubleSeconds(told);
    result["event_seconds"] = absl::ToDoubleSeconds(recorded);
    return result;
  }

  uint64_t StateBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) bytes += entry.file_size();
    return bytes;
  }

  const Options options_;
  testing::TemporaryFolder folder_;
  SimExecutor executor_;
  SeededRng rng_{1};
  const trust::NodeKey key_ = KeyOf(0);
  std::unique_ptr<state::State> state_;
  std::unique_ptr<Crowd> crowd_;
  std::unique_ptr<membership::Membership> membership_;
  std::unique_ptr<jobs::Scheduler> scheduler_;
  trust::Invite invite_;
  std::vector<NodeId> members_;
  bool reporting_ = true;
};

}  // namespace
}  // namespace gdf::scale

int main(int argc, char** argv) {
  gdf::scale::Options options;
  CLI::App app("What a coordinator does with many members");
  app.add_option("--nodes", options.nodes);
  app.add_option("--jobs", options.jobs);
  app.add_option("--seconds", options.seconds, "of steady state");
  app.add_option("--round-seconds", options.round_seconds, "of each job");
  app.add_option("--losses", options.losses);
  CLI11_PARSE(app, argc, argv);
  std::puts(gdf::scale::Trial(options).Run().dump().c_str());
}
