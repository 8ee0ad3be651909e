#include "gdfd/jobs/checkpoints.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/checkpoint/holders.h"
#include "core/wire/artifact_messages.h"
#include "gdfd/jobs/result_rights.h"

namespace gdf::jobs {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);  // for one message
constexpr absl::Duration kAskTimeout = absl::Seconds(10);  // for all that one member says
constexpr size_t kMaxRecords = 1000;  // of one member: as many as job.yaml lets it keep
constexpr int kMaxServedPerPeer = 2;
// A part's manifest comes back before what it lists is known to be missing.
constexpr int kRepairs = 2;

absl::Status NoCopy(JobId job, RoundId round) {
  return absl::NotFoundError(
      absl::StrCat("this node keeps no checkpoint of round ", round.value, " of job ", ToString(job)));
}

// Adds what `node` keeps, each to the others of its state; not what its owner removed.
void AddTo(std::vector<KeptCheckpoint>* list, const NodeId& node, const std::vector<checkpoint::Version>& kept) {
  for (const checkpoint::Version& version : kept) {
    if (version.given_up()) continue;
    const auto same = absl::c_find_if(*list, [&](const KeptCheckpoint& other) { return other.version().state() == version.state(); });
    if (same == list->end()) {
      list->push_back({{{node, version}}});
    } else {
      same->copies.push_back({node, version});
    }
  }
}

}  // namespace

std::vector<NodeId> KeptCheckpoint::holders() const {
  std::vector<NodeId> nodes;
  for (const Copy& copy : copies) {
    if (copy.version.holds()) nodes.push_back(copy.node);
  }
  return nodes;
}

const checkpoint::Version* NewestOf(const CheckpointList& list, RoundId from, RoundId until) {
  const auto age = [](const checkpoint::Version& version) { return std::pair(version.round(), version.commit.receipt.tag.epoch); };
  const checkpoint::Version* newest = nullptr;
  for (const KeptCheckpoint& kept : list.checkpoints) {
    const checkpoint::Version& version = kept.version();
    if (version.round() < from || until < version.round() || kept.holders().empty()) continue;
    if (newest == nullptr || age(*newest) < age(version)) newest = &version;
  }
  return newest;
}

// What a disk has of one job.
struct Checkpoints::Records {
  std::vector<std::string> whole;  // as they are
  std::vector<std::string> damaged;
};

Checkpoints::Checkpoints(JobWorld& world) : world_(world) {
  net::MethodOptions options;
  options.max_concurrent_per_peer = kMaxServedPerPeer;
  registration_ = world_.transport.HandleStream(
      "jobs.checkpoints",
      [this](NodeId peer, std::unique_ptr<net::Stream> stream) { return Serve(peer, std::move(stream)); }, options);
}

// Owners that name a job of which nothing else is left count too.
Task<void> Checkpoints::Tidy() {
  std::set<JobId> jobs;
  for (const std::string& owner : world_.chunks->Owners()) {
    const size_t at = owner.find('-');
    const absl::StatusOr<JobId> job = at == owner.npos ? absl::NotFoundError("") : ParseJobId(owner.substr(0, at));
    if (job.ok()) jobs.insert(*job);
  }
  std::vector<std::shared_ptr<checkpoint::VersionStore>> all;
  for (const JobId job : jobs) all.push_back(VersionsOf(world_, job));
  auto tidy = [all] {
    absl::Status result;
    for (const auto& versions : all) {
      result.Update(versions->DropArriving());
      result.Update(versions->Tidy());
    }
    return result;
  };
  const absl::Status tidied = co_await RunOn(world_.pool, world_.executor, std::move(tidy));
  if (!tidied.ok()) Log(LogLevel::kWarning, "unfinished_checkpoints", {{"why", tidied}});
}

Task<absl::StatusOr<Checkpoints::Records>> Checkpoints::Own(JobId job) {
  auto read = [versions = VersionsOf(world_, job)]() -> absl::StatusOr<Records> {
    GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> rounds, versions->List());
    Records records;
    for (const RoundId round : rounds) {
      const absl::StatusOr<checkpoint::Version> version = versions->Load(round);
      absl::StatusOr<std::string> record = version.ok() ? versions->Record(round) : version.status();
      if (record.ok()) {
        records.whole.push_back(*std::move(record));
      } else if (!absl::IsNotFound(record.status())) {  // it went meanwhile
        records.damaged.push_back(std::string(record.status().message()));
      }
    }
    return records;
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(read));
}

Task<absl::StatusOr<std::vector<checkpoint::Version>>> Checkpoints::Ask(NodeId member, JobId job) {
  const absl::Duration end = world_.executor.clock().Monotonic() + kAskTimeout;
  GDF_CO_ASSIGN_OR_RETURN(
      std::unique_ptr<net::Stream> stream,
      co_await world_.transport.Open(member, "jobs.checkpoints", net::Priority::kBulk, kCallTimeout));
  const wire::ArtifactCall call{job};
  Buffer request(wire::Encode(call));
  GDF_CO_RETURN_IF_ERROR(co_await stream->Send(std::move(request)));
  stream->Finish();
  std::vector<checkpoint::Version> versions;
  while (true) {
    const absl::Duration left = std::min(kCallTimeout, end - world_.executor.clock().Monotonic());
    absl::StatusOr<std::optional<Buffer>> record = co_await stream->Receive(left);
    GDF_CO_RETURN_IF_ERROR(record.status());
    if (!record->has_value()) break;
    if (versions.size() == kMaxRecords) co_return absl::InvalidArgumentError("it names more checkpoints than a job can have");
    GDF_CO_ASSIGN_OR_RETURN(checkpoint::Version version, checkpoint::DecodeVersion((*record)->view()));
    versions.push_back(std::move(version));
  }
  co_return versions;
}

Task<Checkpoints::Answers> Checkpoints::AskOthers(state::Job job) {
  std::vector<NodeId> others;
  std::vector<Task<absl::StatusOr<std::vector<checkpoint::Version>>>> calls;
  for (const NodeId& member : job.members) {
    if (member == world_.transport.self()) continue;
    others.push_back(member);
    calls.push_back(Ask(member, job.id));
  }
  std::vector<absl::StatusOr<std::vector<checkpoint::Version>>> said = co_await WhenAll(world_.executor, std::move(calls));
  Answers answers;
  for (size_t i = 0; i < others.size(); ++i) {
    if (said[i].ok()) {
      std::erase_if(*said[i], [&](const auto& version) { return !CheckCommitted(world_.state, job, version.commit).ok(); });
    } else {
      Log(LogLevel::kWarning, "no_checkpoints_told",
          {{"job", ToString(job.id)}, {"node", others[i].Short()}, {"why", said[i].status()}});
    }
    answers.emplace(others[i], std::move(said[i]));
  }
  co_return answers;
}

Task<std::vector<KeptCheckpoint>> Checkpoints::AtOthers(state::Job job) {
  const Answers answers = co_await AskOthers(std::move(job));
  std::vector<KeptCheckpoint> kept;
  for (const auto& [node, versions] : answers) {
    if (versions.ok()) AddTo(&kept, node, *versions);
  }
  std::erase_if(kept, [](const KeptCheckpoint& one) { return one.holders().empty(); });
  co_return kept;
}

Task<absl::StatusOr<CheckpointList>> Checkpoints::List(JobId id) {
  GDF_CO_ASSIGN_OR_RETURN(const state::Job job, world_.state.job(id));
  GDF_CO_ASSIGN_OR_RETURN(const Records own, co_await Own(id));
  GDF_CO_ASSIGN_OR_RETURN(const config::JobSpec spec, config::ParseJobSpec(job.spec_yaml, ToString(id)));
  CheckpointList list;
  list.wanted = std::min(job.members.size(), static_cast<size_t>(spec.checkpoints.replicas));
  list.passed_over = own.damaged;
  std::vector<checkpoint::Version> here;
  for (const std::string& record : own.whole) {
    GDF_CO_ASSIGN_OR_RETURN(checkpoint::Version version, checkpoint::DecodeVersion(record));
    const absl::Status committed = CheckCommitted(world_.state, job, version.commit);
    if (committed.ok()) {
      here.push_back(std::move(version));
    } else {
      list.passed_over.push_back(absl::StrCat("round ", version.round().value, ": ", committed.message()));
    }
  }
  const NodeId self = world_.transport.self();
  AddTo(&list.checkpoints, self, here);
  const Answers answers = co_await AskOthers(job);
  for (const NodeId& member : job.members) {
    const auto answer = answers.find(member);
    if (answer == answers.end()) continue;
    if (answer->second.ok()) {
      AddTo(&list.checkpoints, member, *answer->second);
    } else {
      list.silent.push_back(member);
    }
  }
  absl::c_stable_sort(list.checkpoints, [](const KeptCheckpoint& a, const KeptCheckpoint& b) {
    return a.version().round() < b.version().round();
  });
  co_return list;
}

Task<absl::StatusOr<checkpoint::Version>> Checkpoints::Load(const state::Job& job, RoundId round) {
  auto load = [versions = VersionsOf(world_, job.id), round] { return versions->Load(round); };
  absl::StatusOr<checkpoint::Version> version = co_await RunOn(world_.pool, world_.executor, std::move(load));
  if (absl::IsNotFound(version.status())) co_return NoCopy(job.id, round);
  GDF_CO_RETURN_IF_ERROR(version.status());
  if (version->given_up()) co_return NoCopy(job.id, round);
  GDF_CO_RETURN_IF_ERROR(CheckCommitted(world_.state, job, version->commit));
  co_return version;
}

Task<absl::StatusOr<CheckedCheckpoint>> Checkpoints::Verify(JobId id, RoundId round) {
  GDF_CO_ASSIGN_OR_RETURN(const state::Job job, world_.state.job(id));
  GDF_CO_ASSIGN_OR_RETURN(checkpoint::Version version, co_await Load(job, round));
  co_return co_await Check(job, std::move(version));
}

Task<absl::StatusOr<CheckedCheckpoint>> Checkpoints::Check(state::Job job, checkpoint::Version version) {
  const std::shared_ptr<checkpoint::VersionStore> versions = VersionsOf(world_, job.id);
  CheckedCheckpoint checked;
  checked.version = version;
  checked.model = versions->Keeps(version, version.model);
  checked.outer = versions->Keeps(version, version.outer);
  checked.inner = versions->Keeps(version, version.inner);
  for (int repairs = 0;; ++repairs) {
    auto inspect = [versions, version] { return versions->Inspect(version); };
    GDF_CO_ASSIGN_OR_RETURN(checked.found, co_await RunOn(world_.pool, world_.executor, std::move(inspect)));
    if (checked.found.missing.empty() || repairs == kRepairs) co_return checked;
    bool any = false;
    for (const checkpoint::Inspection::Missing& missing : checked.found.missing) {
      absl::StatusOr<Buffer> bytes = co_await world_.swarm.FetchChunk(job.id, missing.id, job.members);
      absl::Status put = bytes.status();
      if (bytes.ok()) {
        auto repair = [versions, version, id = missing.id, chunk = *bytes] { return versions->Repair(version, id, chunk.span()); };
        put = co_await RunOn(world_.pool, world_.executor, std::move(repair));
      }
      if (put.ok()) {
        any = true;
        checked.repaired.push_back({missing.id, missing.part});
      } else {
        checked.why_not = std::string(put.message());
      }
    }
    if (!any) co_return checked;
  }
}

// One whose record is damaged goes as well.
Task<absl::Status> Checkpoints::Remove(JobId job, RoundId round) {
  GDF_CO_ASSIGN_OR_RETURN(const state::Job record, world_.state.job(job));
  const bool goes_on = record.phase == state::JobPhase::kRunning;
  auto remove = [versions = VersionsOf(world_, job), key = &world_.key, job, round, goes_on]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(const std::vector<RoundId> kept, versions->List());
    if (!absl::c_linear_search(kept, round)) return NoCopy(job, round);
    const absl::StatusOr<checkpoint::Version> version = versions->Load(round);
    if (version.ok() && version->given_up()) return NoCopy(job, round);
    return goes_on && version.ok() ? versions->GiveUp(*version, *key) : versions->Remove(round);
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(remove));
}

// Beside it stays what this node has of its own of that round.
Task<absl::StatusOr<checkpoint::Version>> Checkpoints::Fetch(state::Job job, KeptCheckpoint kept) {
  const std::shared_ptr<checkpoint::VersionStore> versions = VersionsOf(world_, job.id);
  const std::vector<NodeId> holders = kept.holders();
  const auto copy = absl::c_find_if(kept.copies, [](const KeptCheckpoint::Copy& one) { return one.version.holds(); });
  checkpoint::Version version = copy->version;
  version.inner = {};
  version.new_bytes = 0;
  const std::vector<Digest> parts = {version.model, version.outer};
  for (const Digest& part : parts) {
    if (part.zero()) continue;
    swarm::FetchRequest request{job.id, part, holders, {}, versions->ArrivingOwnerOf(version.round())};
    absl::StatusOr<store::Manifest> fetched = co_await world_.swarm.Fetch(std::move(request), nullptr);
    GDF_CO_RETURN_IF_ERROR(fetched.status());
  }
  auto adopt = [versions, version, key = &world_.key]() mutable -> absl::StatusOr<checkpoint::Version> {
    const absl::StatusOr<checkpoint::Version> own = versions->Load(version.round());
    if (own.ok() && own->state() == version.state()) version.inner = own->inner;
    GDF_RETURN_IF_ERROR(versions->Adopt(version, *key));
    return version;
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(adopt));
}

Task<absl::StatusOr<checkpoint::Version>> Checkpoints::Obtain(state::Job job, state::Rollback target) {
  const auto meant = [target](const checkpoint::Version& version) {
    return version.round() == target.round && version.state().theta == target.theta;
  };
  absl::StatusOr<checkpoint::Version> own = co_await Load(job, target.round);
  bool inner_whole = own.ok() && meant(*own);
  if (inner_whole) {
    GDF_CO_ASSIGN_OR_RETURN(CheckedCheckpoint checked, co_await Check(job, *own));
    inner_whole = absl::c_none_of(checked.found.missing, [](const auto& chunk) { return chunk.part == "inner"; });
    const bool lacks_more = absl::c_any_of(checked.found.missing, [](const auto& chunk) { return chunk.part != "inner"; });
    if (!inner_whole) own->inner = {};
    if (own->holds() && !lacks_more && checked.found.digests.ok()) co_return own;
  }
  const std::vector<KeptCheckpoint> others = co_await AtOthers(job);
  const auto found = absl::c_find_if(others, [&](const KeptCheckpoint& kept) { return meant(kept.version()); });
  if (found == others.end()) {
    co_return absl::UnavailableError(absl::StrCat("no other member that answers has the checkpoint of round ", target.round.value));
  }
  KeptCheckpoint source = *found;
  absl::StatusOr<checkpoint::Version> fetched = co_await Fetch(job, std::move(source));
  if (!fetched.ok()) co_return absl::UnavailableError(fetched.status().message());
  if (!inner_whole) fetched->inner = {};
  co_return fetched;
}

// Of those that are due, what this node does not keep whole and was not told to remove.
Task<std::set<RoundId>> Checkpoints::Lacking(JobId job, std::vector<uint64_t> due) {
  auto look = [versions = VersionsOf(world_, job), due = std::move(due)] {
    std::set<RoundId> lacking;
    for (const uint64_t round : due) {
      const absl::StatusOr<checkpoint::Version> version = versions->Load(RoundId{round});
      const bool settled = version.ok() && (version->given_up() || (version->holds() && !versions->HasGaps(*version)));
      if (!settled) lacking.insert(RoundId{round});
    }
    return lacking;
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(look));
}

Task<Checkpoints::Taken> Checkpoints::TakeCalled(state::Job job, config::JobSpec spec, RoundId reached) {
  Taken taken;
  const auto replicas = static_cast<size_t>(spec.checkpoints.replicas);
  const std::vector<NodeId> called = checkpoint::HoldersOf(job.id, job.members, replicas);
  if (!absl::c_linear_search(called, world_.transport.self())) co_return taken;
  const std::set<RoundId> lacking = co_await Lacking(job.id, config::KeptCheckpoints(spec, reached.value));
  if (lacking.empty()) co_return taken;
  std::map<RoundId, KeptCheckpoint> sources;
  const std::vector<KeptCheckpoint> others = co_await AtOthers(job);
  for (const KeptCheckpoint& kept : others) {
    const checkpoint::Version& version = kept.version();
    const Epoch epoch = version.commit.receipt.tag.epoch;
    const bool undone = job.rollback && epoch < job.rollback->epoch && version.round() > job.rollback->round;
    if (undone || !lacking.contains(version.round())) continue;
    const auto [at, first] = sources.emplace(version.round(), kept);
    if (!first && at->second.version().commit.receipt.tag.epoch < epoch) at->second = kept;
  }
  for (auto& [round, source] : sources) {
    const absl::StatusOr<checkpoint::Version> fetched = co_await Fetch(job, std::move(source));
    if (fetched.ok()) taken.rounds.push_back(round);
    taken.failed.Update(fetched.status());
  }
  co_return taken;
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Checkpoints::Read(JobId job, checkpoint::Version version) {
  using Result = absl::StatusOr<std::shared_ptr<const Artifacts>>;
  auto read = [versions = VersionsOf(world_, job), version]() -> Result {
    auto artifacts = std::make_shared<Artifacts>();
    Buffer side_files;
    GDF_ASSIGN_OR_RETURN(artifacts->state, versions->ReadModel(version, &side_files));
    GDF_ASSIGN_OR_RETURN(artifacts->plan, ParseSideFiles(side_files));
    artifacts->commit = version.commit;
    return std::shared_ptr<const Artifacts>(std::move(artifacts));
  };
  co_return co_await RunOn(world_.pool, world_.executor, std::move(read));
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Checkpoints::OpenLocal(state::Job job, RoundId round) {
  GDF_CO_ASSIGN_OR_RETURN(const checkpoint::Version version, co_await Load(job, round));
  if (!version.holds()) co_return NoCopy(job.id, round);
  absl::StatusOr<std::shared_ptr<const Artifacts>> read = co_await Read(job.id, version);
  if (!absl::IsDataLoss(read.status()) && !absl::IsNotFound(read.status())) co_return read;
  absl::StatusOr<CheckedCheckpoint> checked = co_await Check(job, version);
  GDF_CO_RETURN_IF_ERROR(checked.status());
  read = co_await Read(job.id, version);
  if (read.ok()) co_return read;
  co_return absl::DataLossError(absl::StrCat(read.status().message(), "; from others: ", checked->why_not));
}

Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Checkpoints::Open(JobId id, RoundId round) {
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, world_.state.job(id));
  absl::StatusOr<std::shared_ptr<const Artifacts>> here = co_await OpenLocal(job, round);
  if (here.ok()) co_return here;
  absl::Status last = here.status();
  const wire::ArtifactCall call{id, round};
  // Those that keep it come first.
  const std::vector<NodeId> members = checkpoint::HoldersOf(id, job.members, job.members.size());
  for (const NodeId& member : members) {
    if (member == world_.transport.self()) continue;
    absl::StatusOr<std::shared_ptr<const Artifacts>> fetched =
        co_await FetchArtifacts(world_.transport, world_.pool, member, call);
    absl::Status usable = fetched.status();
    if (fetched.ok()) {
      const Artifacts& given = **fetched;
      const bool asked = given.commit && given.commit->receipt.result.round == round &&
                         given.state->id.round == round && given.commit->receipt.result.theta == given.state->id.theta;
      usable = asked ? CheckCommitted(world_.state, job, *given.commit)
                     : absl::UnavailableError("gives something else than the checkpoint that was asked for");
    }
    if (usable.ok()) co_return fetched;
    last = net::NamingPeer(usable, member);
    Log(LogLevel::kWarning, "no_checkpoint", {{"job", ToString(id)}, {"round", round.value}, {"why", last}});
  }
  if (!absl::IsNotFound(here.status())) co_return here;  // damage on this disk is what to act on
  co_return absl::NotFoundError(absl::StrCat("no node that answers keeps a checkpoint of round ", round.value, " of job ",
                                             ToString(id), "; last: ", last.message()));
}

Task<void> Checkpoints::Serve(NodeId peer, std::unique_ptr<net::Stream> stream) {
  const absl::Status served = co_await Answer(peer, *stream);
  if (!served.ok()) stream->Cancel(served);
}

Task<absl::Status> Checkpoints::Answer(NodeId peer, net::Stream& stream) {
  absl::StatusOr<std::optional<Buffer>> request = co_await stream.Receive(kCallTimeout);
  GDF_CO_RETURN_IF_ERROR(request.status());
  if (!request->has_value()) co_return absl::InvalidArgumentError("no job was named");
  GDF_CO_ASSIGN_OR_RETURN(const wire::ArtifactCall call, wire::DecodeArtifactCall((*request)->view()));
  GDF_CO_ASSIGN_OR_RETURN(const state::Job job, world_.state.job(call.job));
  GDF_CO_RETURN_IF_ERROR(CheckMayHaveResult(world_.state, job, peer));
  GDF_CO_ASSIGN_OR_RETURN(Records records, co_await Own(call.job));
  for (std::string& record : records.whole) {
    Buffer message(std::move(record));
    GDF_CO_RETURN_IF_ERROR(co_await stream.Send(std::move(message)));
  }
  stream.Finish();
  co_return absl::OkStatus();
}

}  // namespace gdf::jobs
