#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/state/apply_internal.h"

namespace gdf::state {
namespace {

// Of one submitter: each is weighed again whenever a node comes or goes.
constexpr int64_t kMaxPendingJobs = 100;

bool SameContent(const std::vector<wire::JobInput>& a, const std::vector<wire::JobInput>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const wire::JobInput& x, const wire::JobInput& y) {
    return x.name == y.name && x.manifest == y.manifest;
  });
}

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : absl::StrCat(text, ": ", reason);
}

}  // namespace

absl::StatusOr<Job> Applier::OpenJob(JobId id, std::string_view action) {
  GDF_ASSIGN_OR_RETURN(Job job, ReadJob(db_, id));
  if (job.phase != JobPhase::kFinished) return job;
  return absl::FailedPreconditionError(absl::StrCat("job ", ToString(id), " has ended (",
                                                    ToAbsl(wire::ToString(job.verdict)), "): it cannot ",
                                                    ToAbsl(action)));
}

absl::Status Applier::CheckEpoch(const Job& job, Epoch epoch) {
  if (epoch == job.epoch) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("job ", ToString(job.id), " is in epoch ", job.epoch.value,
                                         ", the command is for epoch ", epoch.value));
}

absl::Status Applier::CheckCoordinator(std::string_view action) {
  GDF_ASSIGN_OR_RETURN(const bool coordinator, IsCoordinator(db_, actor()));
  if (coordinator) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("only a coordinator may ", ToAbsl(action), "; node ", actor().Short(), " is none"));
}

absl::Status Applier::CheckOwner(const Job& job, std::string_view action) {
  GDF_ASSIGN_OR_RETURN(const Member member, ReadMember(db_, actor()));
  if (job.owner == actor() || member.roles.Has(trust::Role::kAdmin)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("job ", ToString(job.id), " was submitted by another node; only it or "
                                                  "an admin may ", ToAbsl(action)));
}

absl::Status Applier::On(const wire::SubmitJob& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kSubmitJob));
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db_.Query("SELECT id, inputs, spec FROM jobs WHERE owner = ? AND token = ?",
                                                     ToBlob(actor()), c.submit_token));
    if (rows.Next()) {
      const JobId first{rows.Unsigned(0)};
      GDF_ASSIGN_OR_RETURN(const std::vector<wire::JobInput> inputs, wire::DecodeJobInputs(rows.Bytes(1)));
      if (rows.Text(2) != c.spec_yaml || !SameContent(inputs, c.inputs)) {
        return absl::AlreadyExistsError(
            absl::StrCat("submit token '", c.submit_token, "' was used for job ", ToString(first),
                         ", which is a different one: choose another token"));
      }
      result_.job = first;
      return absl::OkStatus();
    }
    GDF_RETURN_IF_ERROR(rows.status());
  }
  GDF_ASSIGN_OR_RETURN(const int64_t pending, Count("jobs WHERE owner = ? AND phase = 0", ToBlob(actor())));
  if (pending >= kMaxPendingJobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(pending, " jobs of this node wait for nodes, more may not: cancel some, or submit this one later"));
  }
  for (const wire::JobInput& input : c.inputs) {
    GDF_RETURN_IF_ERROR(
        Annotate(ActiveMember(input.holder).status(), absl::StrCat("the holder of input ", input.name)));
  }
  GDF_RETURN_IF_ERROR(db_.Run(
      "INSERT INTO jobs(name, owner, token, planned, phase, verdict, reason, epoch, epoch_reason, lead, rounds_done, "
      "reported_epoch, theta, metrics, message, submitted, started, finished, inputs, spec) "
      "VALUES(?, ?, ?, ?, 0, 0, '', 0, '', ?, 0, 0, ?, ?, '', ?, 0, 0, ?, ?)",
      c.name, ToBlob(actor()), c.submit_token, c.planned_rounds, Digest{}, Digest{},
      ToBlob(wire::EncodeRoundMetrics({})), now(), ToBlob(wire::EncodeJobInputs(c.inputs)), c.spec_yaml));
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_.Query("SELECT MAX(id) FROM jobs"));
  if (rows.Next()) result_.job.value = rows.Unsigned(0);
  GDF_RETURN_IF_ERROR(rows.status());
  return AddEvent(result_.job, actor(), wire::Severity::kInfo,
                  absl::StrCat("job ", ToString(result_.job), " (", c.name, ") submitted"));
}

absl::Status Applier::On(const wire::OpenEpoch& c) {
  GDF_RETURN_IF_ERROR(CheckCoordinator("open an epoch"));
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "get a new epoch"));
  if (c.epoch != job.epoch.next()) {
    return absl::AbortedError(absl::StrCat("job ", ToString(c.job), " is in epoch ", job.epoch.value,
                                           ": the next is ", job.epoch.value + 1, ", not ", c.epoch.value));
  }
  for (const NodeId& member : c.members) {
    GDF_RETURN_IF_ERROR(CheckMember(db_, member, trust::Operation::kTrain));
  }
  return BeginEpoch(job, c.members, c.lead, c.reason);
}

absl::Status Applier::BeginEpoch(const Job& job, const std::vector<NodeId>& members, const NodeId& lead,
                                 const std::string& reason) {
  const uint64_t id = job.id.value;
  const uint64_t epoch = job.epoch.value + 1;
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM job_members WHERE job = ? AND epoch > 1 AND epoch <= ?", id,
                              static_cast<int64_t>(epoch) - static_cast<int64_t>(State::kMaxEpochsPerJob)));
  for (size_t i = 0; i < members.size(); ++i) {
    GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO job_members(job, epoch, position, node) VALUES(?, ?, ?, ?)", id, epoch, i,
                                ToBlob(members[i])));
    GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM recruits WHERE job = ? AND node = ?", id, ToBlob(members[i])));
  }
  GDF_RETURN_IF_ERROR(db_.Run(
      "UPDATE jobs SET phase = ?, epoch = ?, epoch_reason = ?, lead = ?, started = ? WHERE id = ?",
      static_cast<int64_t>(JobPhase::kRunning), epoch, reason, ToBlob(lead),
      job.started_unix_ms == 0 ? now() : job.started_unix_ms, id));
  return AddEvent(job.id, lead, wire::Severity::kInfo,
                  WithReason(absl::StrCat("job ", ToString(job.id), ": epoch ", epoch, " with ",
                                          Counted(members.size(), "node")),
                             reason));
}

absl::Status Applier::On(const wire::ReportJob& c) {
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "make progress"));
  GDF_RETURN_IF_ERROR(CheckEpoch(job, c.epoch));
  if (job.phase != JobPhase::kRunning || actor() != job.lead) {
    return absl::PermissionDeniedError(absl::StrCat("only the lead of job ", ToString(c.job),
                                                    " may report its rounds; node ", actor().Short(), " is not it"));
  }
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kTrain));
  GDF_ASSIGN_OR_RETURN(const int64_t reported,
                       Count("jobs WHERE id = ? AND reported_epoch = ?", c.job.value, c.epoch.value));
  const uint64_t done = c.round.value + 1;
  if (reported != 0 && done <= job.rounds_done) {
    return absl::AbortedError(absl::StrCat("job ", ToString(c.job), " has ", job.rounds_done,
                                           " rounds; round ", c.round.value, " was reported already"));
  }
  // A new lead may finish the round that its predecessor reported last, or go back to a checkpoint.
  if (done < job.rounds_done || (done == job.rounds_done && c.theta != job.theta)) {
    GDF_RETURN_IF_ERROR(AddEvent(c.job, actor(), wire::Severity::kWarning,
                                 absl::StrCat("job ", ToString(c.job), " went back from ", job.rounds_done,
                                              " rounds to ", c.round.value)));
  }
  // Two ranges: with OR, SQLite looks at every round of the job.
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM rounds WHERE job = ? AND round >= ?", c.job.value, c.round.value));
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM rounds WHERE job = ? AND round < ?", c.job.value,
                              static_cast<int64_t>(done) - static_cast<int64_t>(State::kMaxRoundsPerJob)));
  const std::string metrics = wire::EncodeRoundMetrics(c.metrics);
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO rounds(job, round, epoch, at, theta, metrics) VALUES(?, ?, ?, ?, ?, ?)",
                              c.job.value, c.round.value, c.epoch.value, now(), c.theta, ToBlob(metrics)));
  return db_.Run("UPDATE jobs SET rounds_done = ?, reported_epoch = ?, theta = ?, metrics = ?, message = ? WHERE id = ?",
                 done, c.epoch.value, c.theta, ToBlob(metrics), c.message, c.job.value);
}

absl::Status Applier::EndJob(const Job& job, wire::Verdict verdict, const std::string& reason) {
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE jobs SET phase = ?, verdict = ?, reason = ?, finished = ? WHERE id = ?",
                              static_cast<int64_t>(JobPhase::kFinished), static_cast<int64_t>(verdict), reason, now(),
                              job.id.value));
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM recruits WHERE job = ?", job.id.value));
  const wire::Severity severity =
      verdict == wire::Verdict::kFailed ? wire::Severity::kError : wire::Severity::kInfo;
  return AddEvent(job.id, actor(), severity,
                  WithReason(absl::StrCat("job ", ToString(job.id), " ", ToAbsl(wire::ToString(verdict))), reason));
}

absl::Status Applier::On(const wire::FinishJob& c) {
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "end again"));
  GDF_RETURN_IF_ERROR(CheckEpoch(job, c.epoch));
  GDF_ASSIGN_OR_RETURN(const bool coordinator, IsCoordinator(db_, actor()));
  const bool lead = job.phase == JobPhase::kRunning && actor() == job.lead;
  if (lead) GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kTrain));
  // Only who drove the rounds can say that they are done; a coordinator can say that they will not be.
  const bool allowed = c.verdict == wire::Verdict::kSucceeded   ? lead
                       : c.verdict == wire::Verdict::kCancelled ? coordinator
                                                                : lead || coordinator;
  if (!allowed) {
    return absl::PermissionDeniedError(absl::StrCat("node ", actor().Short(), " may not end job ", ToString(c.job),
                                                    " as ", ToAbsl(wire::ToString(c.verdict)),
                                                    ": it is not its lead", coordinator ? "" : " or a coordinator"));
  }
  if (lead) {
    GDF_RETURN_IF_ERROR(
        db_.Run("UPDATE jobs SET rounds_done = ?, theta = ? WHERE id = ?", c.rounds_done, c.theta, c.job.value));
  }
  return EndJob(job, c.verdict, c.reason);
}

absl::Status Applier::On(const wire::CancelJob& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kCancelJob));
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "be cancelled"));
  GDF_RETURN_IF_ERROR(CheckOwner(job, "cancel it"));
  return EndJob(job, wire::Verdict::kCancelled, c.reason);
}

// A lead can do no more by it than end the job, which it may.
absl::Status Applier::CheckOwnRollback(const Job& job, const wire::RollBackJob& c) {
  GDF_RETURN_IF_ERROR(CheckEpoch(job, c.epoch));
  if (actor() != job.lead) {
    return absl::PermissionDeniedError(absl::StrCat("node ", actor().Short(), " is not the lead of job ", ToString(c.job)));
  }
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kTrain));
  if (c.round.value > job.rounds_done) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", ToString(c.job), " has ", Counted(job.rounds_done, "round"), ", none to go back from"));
  }
  if (job.rollback && job.rollback->by_lead >= wire::kMaxOwnRollbacks) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", ToString(c.job), " has gone back by itself ", job.rollback->by_lead, " times, as often as any may"));
  }
  return absl::OkStatus();
}

// The nodes of the job go on with it, but for those that may no more.
absl::Status Applier::On(const wire::RollBackJob& c) {
  const bool by_lead = c.epoch.value > 0;
  if (!by_lead) GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kRollBackJob));
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "be rolled back"));
  GDF_RETURN_IF_ERROR(by_lead ? CheckOwnRollback(job, c) : CheckOwner(job, "roll it back"));
  if (job.phase != JobPhase::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat("job ", ToString(c.job), " has not begun: there is nothing to go back to"));
  }
  std::vector<NodeId> members;
  for (const NodeId& member : job.members) {
    if (CheckMember(db_, member, trust::Operation::kTrain).ok()) members.push_back(member);
  }
  if (members.empty()) return absl::FailedPreconditionError(absl::StrCat("job ", ToString(c.job), " has no nodes at present"));
  const bool keeps_lead = std::find(members.begin(), members.end(), job.lead) != members.end();
  const uint64_t epoch = job.epoch.value + 1;
  const uint64_t by_leads = (job.rollback ? job.rollback->by_lead : 0) + (by_lead ? 1 : 0);
  GDF_RETURN_IF_ERROR(db_.Run("INSERT OR REPLACE INTO rollbacks(job, epoch, round, theta, reason, by_lead) VALUES(?, ?, ?, ?, ?, ?)",
                              c.job.value, epoch, c.round.value, c.theta, c.reason, by_leads));
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM rounds WHERE job = ? AND round >= ?", c.job.value, c.round.value));
  GDF_RETURN_IF_ERROR(
      db_.Run("UPDATE jobs SET rounds_done = ?, theta = ? WHERE id = ?", c.round.value, c.theta, c.job.value));
  GDF_RETURN_IF_ERROR(AddEvent(c.job, actor(), wire::Severity::kWarning,
                               WithReason(absl::StrCat("job ", ToString(c.job), by_lead ? " goes back by itself" : " is rolled back",
                                                       " from ", job.rounds_done, " rounds to ", c.round.value),
                                          c.reason)));
  return BeginEpoch(job, members, keeps_lead ? job.lead : members.front(),
                    WithReason(absl::StrCat("rolled back to round ", c.round.value), c.reason));
}

absl::Status Applier::On(const wire::JobEvent& c) {
  GDF_ASSIGN_OR_RETURN(const bool coordinator, IsCoordinator(db_, actor()));
  if (!coordinator) {
    GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kUpdateNode));
    if (c.node != actor()) {
      return absl::PermissionDeniedError(
          absl::StrCat("node ", actor().Short(), " may report events of its own, not of node ", c.node.Short()));
    }
  }
  if (c.job.value != 0) {
    GDF_ASSIGN_OR_RETURN(const Job job, ReadJob(db_, c.job));
    const bool member = std::find(job.members.begin(), job.members.end(), actor()) != job.members.end();
    if (!coordinator && !member && job.owner != actor()) {
      return absl::PermissionDeniedError(
          absl::StrCat("node ", actor().Short(), " does not take part in job ", ToString(c.job)));
    }
  }
  return AddEvent(c.job, c.node, c.severity, c.text);
}

absl::Status Applier::On(const wire::Recruit& c) {
  GDF_RETURN_IF_ERROR(CheckCoordinator("call nodes to a job"));
  GDF_ASSIGN_OR_RETURN(const Job job, OpenJob(c.job, "get more nodes"));
  if (job.phase != JobPhase::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat("job ", ToString(c.job), " is not running"));
  }
  if (std::find(job.members.begin(), job.members.end(), c.node) != job.members.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", c.node.Short(), " is a member of job ", ToString(c.job)));
  }
  const std::string about = absl::StrCat("job ", ToString(c.job), ": node ", c.node.Short());
  if (c.action == wire::RecruitAction::kDismiss) {
    GDF_RETURN_IF_ERROR(
        db_.Run("DELETE FROM recruits WHERE job = ? AND node = ? AND excluded = 0", c.job.value, ToBlob(c.node)));
    return AddEvent(c.job, c.node, wire::Severity::kInfo, WithReason(absl::StrCat(about, " is called no more"), c.reason));
  }
  const bool call = c.action == wire::RecruitAction::kCall;
  if (call) GDF_RETURN_IF_ERROR(CheckMember(db_, c.node, trust::Operation::kTrain));
  if (call && job.IsRecruit(c.node)) return absl::FailedPreconditionError(absl::StrCat(about, " is called already"));
  if (call && job.IsExcluded(c.node)) return absl::FailedPreconditionError(absl::StrCat(about, " is excluded"));
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM recruits WHERE job = ? AND node = ?", c.job.value, ToBlob(c.node)));
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO recruits(job, node, excluded, reason) VALUES(?, ?, ?, ?)", c.job.value,
                              ToBlob(c.node), call ? 0 : 1, c.reason));
  return AddEvent(c.job, c.node, call ? wire::Severity::kInfo : wire::Severity::kWarning,
                  WithReason(absl::StrCat(about, call ? " is called to join" : " is not called again"), c.reason));
}

}  // namespace gdf::state
