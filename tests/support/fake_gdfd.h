// A daemon for tests of the control API's client: serves scripted answers on a Unix socket in a folder of its own.
#ifndef GDF_TESTS_SUPPORT_FAKE_GDFD_H_
#define GDF_TESTS_SUPPORT_FAKE_GDFD_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "proto/control.grpc.pb.h"
#include "tests/support/temporary_folder.h"

namespace gdf::testing {

namespace v1 = control::v1;

// Answers are set before the calls that use them; requests are kept. Calls are served one at a time by these tests.
class FakeGdfd final : public v1::Control::Service {
 public:
  FakeGdfd() { Start(); }
  ~FakeGdfd() override { Stop(); }

  std::string socket() const { return folder_.path() + "/control.sock"; }
  const std::string& folder() const { return folder_.path(); }
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    GDF_CHECK(server_ != nullptr);
  }
  void Stop() {
    if (server_) server_->Shutdown();
    server_.reset();
  }

  grpc::Status error;  // of every call when not OK
  v1::StatusReply status_reply;
  v1::PlanReply plan_reply;
  v1::SubmitReply submit_reply;
  v1::ListNodesReply nodes_reply;
  v1::PingReply ping_reply;
  v1::PingRequest ping_request;
  int pings = 0;
  v1::ListJobsReply jobs_reply;
  v1::GetJobReply job_reply;
  // One list of updates for each WatchJob call in turn; the last one serves all later calls.
  std::vector<std::vector<v1::JobUpdate>> watches;
  // What Export sends from now on; a call in progress goes on with what it had.
  void SetExportPieces(std::vector<v1::FilePiece> pieces) {
    absl::MutexLock lock(&export_mutex_);
    export_pieces_ = std::move(pieces);
  }
  std::vector<v1::GeneratePiece> generate_pieces;

  std::map<std::string, std::map<std::string, std::string>> uploads;  // manifest name, file name, content
  std::vector<v1::WatchJobRequest> watch_requests;
  v1::SubmitRequest submit_request;
  v1::CreateInviteRequest invite_request;
  v1::ChangeNodeRequest change_request;
  v1::GenerateRequest generate_request;
  std::string cancelled;
  v1::ListCheckpointsReply checkpoints_reply;
  std::string checkpoints_of;
  v1::VerifyCheckpointReply verify_reply;
  v1::VerifyCheckpointRequest verify_request;
  v1::ExportRequest export_request;
  v1::RollBackJobRequest rollback_request;
  v1::RemoveCheckpointRequest removed_checkpoint;
  v1::LeaveReply leave_reply;
  int leaves = 0;
  grpc::Status leave_error;

  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*, v1::StatusReply* reply) override {
    *reply = status_reply;
    return error;
  }
  grpc::Status Ping(grpc::ServerContext*, const v1::PingRequest* request, v1::PingReply* reply) override {
    ping_request = *request;
    ++pings;
    *reply = ping_reply;
    return error;
  }
  grpc::Status CreateNetwork(grpc::ServerContext*, const v1::CreateNetworkRequest*, v1::CreateNetworkReply* reply) override {
    reply->set_network_id("net123");
    return error;
  }
  grpc::Status CreateInvite(grpc::ServerContext*, const v1::CreateInviteRequest* request, v1::CreateInviteReply* reply) override {
    invite_request = *request;
    reply->set_text("gdf1:abc");
    reply->mutable_invite()->set_id("i1");
    reply->mutable_invite()->set_roles(request->roles());
    reply->mutable_invite()->set_uses_left(request->uses());
    reply->mutable_invite()->set_expires_unix_ms(1'700'000'000'000);
    return error;
  }
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesReply* reply) override {
    *reply = nodes_reply;
    return error;
  }
  grpc::Status ChangeNode(grpc::ServerContext*, const v1::ChangeNodeRequest* request, v1::ChangeNodeReply*) override {
    change_request = *request;
    return error;
  }
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadPiece>* reader, v1::UploadReply* reply) override {
    v1::UploadPiece piece;
    std::string manifest, file;
    uint64_t bytes = 0;
    while (reader->Read(&piece)) {
      if (piece.has_file()) uploads[manifest][file = piece.file().name()];
      if (piece.piece_case() == v1::UploadPiece::kManifestName) manifest = piece.manifest_name();
      if (piece.piece_case() != v1::UploadPiece::kData) continue;
      uploads[manifest][file] += piece.data();
      bytes += piece.data().size();
    }
    reply->set_manifest("digest-of-" + manifest);
    reply->set_bytes(bytes);
    return error;
  }
  grpc::Status Plan(grpc::ServerContext*, const v1::PlanRequest*, v1::PlanReply* reply) override {
    *reply = plan_reply;
    return error;
  }
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request, v1::SubmitReply* reply) override {
    submit_request = *request;
    *reply = submit_reply;
    return error;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsReply* reply) override {
    *reply = jobs_reply;
    return error;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobReply* reply) override {
    *reply = job_reply;
    return error;
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request, grpc::ServerWriter<v1::JobUpdate>* writer) override {
    const size_t call = std::min(watch_requests.size(), watches.size() - 1);
    watch_requests.push_back(*request);
    for (const v1::JobUpdate& update : watches[call]) writer->Write(update);
    return error;
  }
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*, v1::LeaveReply* reply) override {
    ++leaves;
    *reply = leave_reply;
    status_reply.clear_network_id();
    return leave_error;
  }
  grpc::Status Backup(grpc::ServerContext*, const v1::BackupRequest*, grpc::ServerWriter<v1::BackupPiece>* writer) override {
    v1::BackupPiece piece;
    piece.set_data("sealed");
    writer->Write(piece);
    return error;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request, v1::CancelJobReply*) override {
    cancelled = request->job();
    return error;
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsReply* reply) override {
    checkpoints_of = request->job();
    *reply = checkpoints_reply;
    return error;
  }
  grpc::Status RemoveCheckpoint(grpc::ServerContext*, const v1::RemoveCheckpointRequest* request,
                                v1::RemoveCheckpointReply*) override {
    removed_checkpoint = *request;
    return error;
  }
  grpc::Status RollBackJob(grpc::ServerContext*, const v1::RollBackJobRequest* request, v1::RollBackJobReply*) override {
    rollback_request = *request;
    return error;
  }
  grpc::Status VerifyCheckpoint(grpc::ServerContext*, const v1::VerifyCheckpointRequest* request,
                                grpc::ServerWriter<v1::VerifyCheckpointReply>* writer) override {
    verify_request = *request;
    if (error.ok()) writer->Write(verify_reply);
    return error;
  }
  grpc::Status Export(grpc::ServerContext*, const v1::ExportRequest* request, grpc::ServerWriter<v1::FilePiece>* writer) override {
    export_request = *request;
    std::vector<v1::FilePiece> pieces;
    {
      absl::MutexLock lock(&export_mutex_);
      pieces = export_pieces_;
    }
    for (const v1::FilePiece& piece : pieces) writer->Write(piece);
    return error;
  }
  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request, grpc::ServerWriter<v1::GeneratePiece>* writer) override {
    generate_request = *request;
    for (const v1::GeneratePiece& piece : generate_pieces) writer->Write(piece);
    return error;
  }

 private:
  absl::Mutex export_mutex_;
  std::vector<v1::FilePiece> export_pieces_ ABSL_GUARDED_BY(export_mutex_);
  TemporaryFolder folder_;
  std::unique_ptr<grpc::Server> server_;
};

// Updates as daemons send them.
inline v1::JobUpdate RoundUpdate(uint64_t round, double loss, int64_t at_unix_ms) {
  v1::JobUpdate update;
  update.mutable_round()->set_round(round);
  update.mutable_round()->set_loss(loss);
  update.mutable_round()->set_bytes_sent(1024);
  update.mutable_round()->set_at_unix_ms(at_unix_ms);
  return update;
}
inline v1::JobUpdate EventUpdate(uint64_t id, const std::string& text) {
  v1::JobUpdate update;
  update.mutable_event()->set_id(id);
  update.mutable_event()->set_severity("warning");
  update.mutable_event()->set_text(text);
  return update;
}
inline v1::JobUpdate FinishedUpdate(v1::JobPhase phase, const std::string& reason = "") {
  v1::JobUpdate update;
  update.mutable_finished()->set_id("j1");
  update.mutable_finished()->set_name("test");
  update.mutable_finished()->set_phase(phase);
  update.mutable_finished()->set_reason(reason);
  update.mutable_finished()->set_rounds_total(2);
  return update;
}

}  // namespace gdf::testing

#endif  // GDF_TESTS_SUPPORT_FAKE_GDFD_H_
