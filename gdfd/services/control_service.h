// Serves proto/control.proto: checks the caller's rights, runs each call on the protocol thread and
// answers. One instance for callers who may change things and one for those who may only look.
#ifndef GDF_GDFD_SERVICES_CONTROL_SERVICE_H_
#define GDF_GDFD_SERVICES_CONTROL_SERVICE_H_

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gdfd/node.h"
#include "gdfd/services/bridge.h"
#include "gdfd/services/explain.h"
#include "gdfd/services/node_names.h"
#include "proto/control.grpc.pb.h"

namespace gdf::services {

// Calls that wait at the same time; onlookers have their own, so that they cannot keep operators
// out.
inline constexpr int kOperatorThreads = 48;
inline constexpr int kOnlookerThreads = 16;
// Of these, followers of logs and samples.
inline constexpr int kMostLastingOfOperators = 32;
inline constexpr int kMostLastingOfOnlookers = 8;

enum class Rights { kReadOnly, kOperator };

// The chunk store's owner of what was uploaded as `manifest` and belongs to no job yet.
std::string UploadOwner(const Digest& manifest);

// Methods run on gRPC's threads and block there.
class ControlService final : public control::v1::Control::Service {
 public:
  // Both outlive the service.
  ControlService(Node& node, Bridge& bridge, Rights rights)
      : node_(node), bridge_(bridge), rights_(rights) {}

  // control_network.cc
  grpc::Status Status(grpc::ServerContext*, const control::v1::StatusRequest*,
                      control::v1::StatusReply*) override;
  grpc::Status CreateNetwork(grpc::ServerContext*, const control::v1::CreateNetworkRequest*,
                             control::v1::CreateNetworkReply*) override;
  grpc::Status Join(grpc::ServerContext*, const control::v1::JoinRequest*,
                    control::v1::JoinReply*) override;
  grpc::Status Leave(grpc::ServerContext*, const control::v1::LeaveRequest*,
                     control::v1::LeaveReply*) override;
  grpc::Status CreateInvite(grpc::ServerContext*, const control::v1::CreateInviteRequest*,
                            control::v1::CreateInviteReply*) override;
  grpc::Status ListInvites(grpc::ServerContext*, const control::v1::ListInvitesRequest*,
                           control::v1::ListInvitesReply*) override;
  grpc::Status RevokeInvite(grpc::ServerContext*, const control::v1::RevokeInviteRequest*,
                            control::v1::RevokeInviteReply*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const control::v1::ListNodesRequest*,
                         control::v1::ListNodesReply*) override;
  grpc::Status ChangeNode(grpc::ServerContext*, const control::v1::ChangeNodeRequest*,
                          control::v1::ChangeNodeReply*) override;
  grpc::Status Ping(grpc::ServerContext*, const control::v1::PingRequest*,
                    control::v1::PingReply*) override;
  grpc::Status RotateKey(grpc::ServerContext*, const control::v1::RotateKeyRequest*,
                         control::v1::RotateKeyReply*) override;
  grpc::Status Backup(grpc::ServerContext*, const control::v1::BackupRequest*,
                      grpc::ServerWriter<control::v1::BackupPiece>*) override;

  grpc::Status Pause(grpc::ServerContext*, const control::v1::PauseRequest*,
                     control::v1::PauseReply*) override;
  grpc::Status Resume(grpc::ServerContext*, const control::v1::ResumeRequest*,
                      control::v1::ResumeReply*) override;

  // control_jobs.cc
  grpc::Status Plan(grpc::ServerContext*, const control::v1::PlanRequest*,
                    control::v1::PlanReply*) override;
  grpc::Status Submit(grpc::ServerContext*, const control::v1::SubmitRequest*,
                      control::v1::SubmitReply*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const control::v1::ListJobsRequest*,
                        control::v1::ListJobsReply*) override;
  grpc::Status GetJob(grpc::ServerContext*, const control::v1::GetJobRequest*,
                      control::v1::GetJobReply*) override;
  grpc::Status WatchJob(grpc::ServerContext*, const control::v1::WatchJobRequest*,
                        grpc::ServerWriter<control::v1::JobUpdate>*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const control::v1::CancelJobRequest*,
                         control::v1::CancelJobReply*) override;

  // control_checkpoints.cc
  grpc::Status ListCheckpoints(grpc::ServerContext*, const control::v1::ListCheckpointsRequest*,
                               control::v1::ListCheckpointsReply*) override;
  grpc::Status VerifyCheckpoint(grpc::ServerContext*, const control::v1::VerifyCheckpointRequest*,
                                grpc::ServerWriter<control::v1::VerifyCheckpointReply>*) override;
  grpc::Status RemoveCheckpoint(grpc::ServerContext*, const control::v1::RemoveCheckpointRequest*,
                                control::v1::RemoveCheckpointReply*) override;
  grpc::Status RollBackJob(grpc::ServerContext*, const control::v1::RollBackJobRequest*,
                           control::v1::RollBackJobReply*) override;

  // control_explain.cc
  grpc::Status Explain(grpc::ServerContext*, const control::v1::ExplainRequest*, control::v1::ExplainReply*) override;

  // control_data.cc
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<control::v1::UploadPiece>*,
                      control::v1::UploadReply*) override;
  grpc::Status Export(grpc::ServerContext*, const control::v1::ExportRequest*,
                      grpc::ServerWriter<control::v1::FilePiece>*) override;
  grpc::Status Generate(grpc::ServerContext*, const control::v1::GenerateRequest*,
                        grpc::ServerWriter<control::v1::GeneratePiece>*) override;

 private:
  // What a watcher of a job has been told.
  struct WatchPosition {
    uint64_t event = 0;
    RoundId round;
    control::v1::JobPhase phase = control::v1::JOB_PHASE_UNSPECIFIED;
    uint64_t index = 0;  // of the log
  };

  // A call that goes on as long as its caller likes. Each takes a thread: some are left to others.
  class LastingCall {
   public:
    explicit LastingCall(ControlService& service)
        : most_(service.rights_ == Rights::kOperator ? kMostLastingOfOperators
                                                     : kMostLastingOfOnlookers),
          running_(service.lasting_),
          admitted_(running_.fetch_add(1) < most_) {}
    LastingCall(const LastingCall&) = delete;
    ~LastingCall() { running_.fetch_sub(1); }
    // RESOURCE_EXHAUSTED when there are too many.
    absl::Status status() const;

   private:
    const int most_;
    std::atomic<int>& running_;
    const bool admitted_;
  };

  // PERMISSION_DENIED for those who may only look.
  absl::Status CheckOperator(const char* what) const;
  // kFailedPrecondition unless most of the coordinators are online once `node` is one, or is none any more: else nothing
  // would be decided from then on. On the executor.
  absl::Status CheckQuorum(const state::Member& node, bool added);
  // Has a command recorded; its verdict as the status.
  absl::StatusOr<wire::CommandResult> Propose(wire::CommandBody body);
  // Whether this node's next key is recorded, or was taken since the network refused the old one: its
  // answer can get lost. On the executor.
  bool IsInForce(const NodeId& next) const;
  // Whether the network lets this node submit jobs.
  absl::Status CheckSubmitter();
  // The command that a request asks for; the spec as it will be recorded.
  absl::StatusOr<wire::SubmitJob> PrepareSubmission(const control::v1::SubmitRequest& request,
                                                    config::JobSpec* spec);
  // Makes what was uploaded the job's.
  absl::Status HandOver(JobId id, const std::vector<wire::JobInput>& inputs);
  absl::Status DropUploads(const std::vector<wire::JobInput>& inputs);
  // What was recorded of a job since; advances `seen`. On the executor.
  absl::StatusOr<std::vector<control::v1::JobUpdate>> NewsOf(JobId id, WatchPosition* seen);
  // On the executor.
  absl::StatusOr<JobView> ViewOf(JobId id) const;
  // Members of a running job that are not online; empty when all are, or it is not known here.
  std::string SilentMembers(const state::Job& job, const NodeNames& names) const;
  // The job with what it does or why it waits, as people see it. On the executor.
  control::v1::Job Describe(const state::Job& job, const NodeNames& names) const;
  // On the executor.
  NodeNames Names() const;

  Node& node_;
  Bridge& bridge_;
  const Rights rights_;
  std::atomic<int> lasting_ = 0;
  absl::Mutex leaving_;
  // Once this node has left: why the network could not be told; empty: it was.
  std::optional<std::string> not_told_ ABSL_GUARDED_BY(leaving_);
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_CONTROL_SERVICE_H_
