// The applier of one command: a method for each kind. For apply.cc (network, members) and apply_jobs.cc only.
#ifndef GDF_CORE_STATE_APPLY_INTERNAL_H_
#define GDF_CORE_STATE_APPLY_INTERNAL_H_

#include <string>

#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/state/state.h"
#include "core/state/tables.h"

namespace gdf::state {

class Applier {
 public:
  Applier(store::Database& db, const wire::Command& command, wire::CommandResult& result)
      : db_(db), command_(command), result_(result) {}

  absl::Status On(const wire::CreateNetwork& c);
  absl::Status On(const wire::CreateInvite& c);
  absl::Status On(const wire::RevokeInvite& c);
  absl::Status On(const wire::Join& c);
  absl::Status On(const wire::SetRole& c);
  absl::Status On(const wire::RemoveNode& c);
  absl::Status On(const wire::BanNode& c);
  absl::Status On(const wire::UnbanNode& c);
  absl::Status On(const wire::RotateKey& c);
  absl::Status On(const wire::UpdateNode& c);
  absl::Status On(const wire::SubmitJob& c);
  absl::Status On(const wire::OpenEpoch& c);
  absl::Status On(const wire::ReportJob& c);
  absl::Status On(const wire::FinishJob& c);
  absl::Status On(const wire::CancelJob& c);
  absl::Status On(const wire::JobEvent& c);
  absl::Status On(const wire::RollBackJob& c);
  absl::Status On(const wire::Recruit& c);
  absl::Status On(const wire::AddCoordinator& c);
  absl::Status On(const wire::RemoveCoordinator& c);
  absl::Status On(const wire::RecoverNetwork& c);

 private:
  const NodeId& actor() const { return command_.actor; }
  int64_t now() const { return command_.at_unix_ms; }

  // Rows of "FROM `what`".
  template <typename... Args>
  absl::StatusOr<int64_t> Count(std::string_view what, const Args&... args) {
    GDF_ASSIGN_OR_RETURN(store::Rows rows,
                         db_.Query(absl::StrCat("SELECT COUNT(*) FROM ", ToAbsl(what)), args...));
    const int64_t count = rows.Next() ? rows.Int(0) : 0;
    GDF_RETURN_IF_ERROR(rows.status());
    return count;
  }

  // Adds or re-admits a member under a free name; fills result_.name.
  absl::Status AddMember(const NodeId& id, const trust::PublicKey& key, trust::RoleSet roles,
                         wire::NodeProfile profile);
  absl::StatusOr<Member> ActiveMember(const NodeId& id);
  absl::Status CheckNotLastAdmin(const Member& member);
  // The coordinators are chosen anew by this entry: those of before decide nothing any more.
  absl::Status BeginCoordination();
  // Takes one use of the invite; the roles it gives.
  absl::StatusOr<trust::RoleSet> UseInvite(const wire::Join& c);
  absl::Status Expel(const NodeId& node, MemberStatus status, const std::string& reason);
  absl::StatusOr<std::string> ReadGenesisRecord();
  absl::StatusOr<trust::Genesis> ReadGenesis();
  absl::Status AddEvent(JobId job, const NodeId& node, wire::Severity severity, const std::string& text);

  absl::StatusOr<Job> OpenJob(JobId id, std::string_view action);  // refuses one that has ended
  absl::Status CheckEpoch(const Job& job, Epoch epoch);
  absl::Status CheckCoordinator(std::string_view action);
  // kPermissionDenied unless the actor submitted the job or is an admin.
  absl::Status CheckOwner(const Job& job, std::string_view action);
  absl::Status CheckOwnRollback(const Job& job, const wire::RollBackJob& c);
  absl::Status BeginEpoch(const Job& job, const std::vector<NodeId>& members, const NodeId& lead, const std::string& reason);
  absl::Status EndJob(const Job& job, wire::Verdict verdict, const std::string& reason);

  store::Database& db_;
  const wire::Command& command_;
  wire::CommandResult& result_;
};

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_APPLY_INTERNAL_H_
