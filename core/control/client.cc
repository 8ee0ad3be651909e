#include "core/control/client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/base/encoding.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/control/convert.h"
#include "proto/control.grpc.pb.h"

namespace gdf::control {
namespace {

constexpr size_t kUploadPieceBytes = size_t{1} << 20;
// The node's certificate carries this name; the pin is the certificate itself, not the name.
constexpr char kTlsName[] = "gdf-node";

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// gRPC writes what is wrong with certificates to its log, and has it in no status. What is nobody's affair is dropped
// there.
class TlsProblem {
 public:
  // From now on nothing is written to standard error by gRPC.
  static void Watch() {
    gpr_set_log_function([](gpr_log_func_args* line) { Get().Note(line->message); });
    absl::MutexLock lock(&Get().mutex_);
    Get().seen_ = absl::OkStatus();
  }
  static absl::Status Seen() {
    absl::MutexLock lock(&Get().mutex_);
    return Get().seen_;
  }

 private:
  static TlsProblem& Get() {
    static auto& problem = *new TlsProblem;
    return problem;
  }
  void Note(absl::string_view line) {
    absl::Status problem;
    if (absl::StrContains(line, "Invalid private key")) {
      problem = absl::InvalidArgumentError("the key is none in PEM form, or not that of the certificate");
    } else if (absl::StrContains(line, "Invalid cert chain")) {
      problem = absl::InvalidArgumentError("the certificate is none in PEM form");
    } else if (absl::StrContains(line, "Could not load any root certificate")) {
      problem = absl::InvalidArgumentError("the daemon's certificate is none in PEM form");
    } else if (absl::StrContains(line, "certificate verify failed")) {
      problem = absl::UnavailableError("what answers has another certificate than the daemon's that was given");
    }
    if (problem.ok()) return;
    absl::MutexLock lock(&mutex_);
    seen_ = std::move(problem);
  }

  absl::Mutex mutex_;
  absl::Status seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct Client::Impl {
  std::unique_ptr<v1::Control::Stub> stub;
  absl::Duration timeout;
  std::string where;
  bool remote = false;

  // One unary call with the timeout; names the daemon when nothing answers.
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                             const Request& request) {
    GDF_RETURN_IF_ERROR(CheckTexts(request));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(SystemClock().Now() + timeout));
    Reply reply;
    GDF_RETURN_IF_ERROR(Finish((stub.get()->*method)(&context, request, &reply)));
    return reply;
  }
  absl::Status Finish(const grpc::Status& status) const {
    absl::Status result = ToStatus(status);
    if (remote && result.code() == absl::StatusCode::kUnavailable) {
      const absl::Status tls = TlsProblem::Seen();
      if (!tls.ok()) return Annotate(tls, where);
      if (absl::StrContains(result.message(), "DNS resolution failed")) {
        return absl::UnavailableError(absl::StrCat("no address is known for ", where, "; is the host's name right?"));
      }
    }
    if (result.code() == absl::StatusCode::kUnavailable &&
        result.message().find("failed to connect") != absl::string_view::npos) {
      if (remote) {
        return absl::UnavailableError(
            absl::StrCat("no gdfd answers at ", where, ", or it does not know this certificate: is it running there, with "
                         "remote_control in its gdfd.yaml, and is the certificate in its client_certificates?"));
      }
      if (result.message().find("Permission denied") != absl::string_view::npos) {
        return absl::PermissionDeniedError(absl::StrCat("you may not open ", where, ": be root or the user gdfd runs as"));
      }
      return absl::UnavailableError(absl::StrCat("no gdfd answers at ", where, "; is it running?"));
    }
    // gRPC's own words for what is longer than either end takes in one message.
    if (result.code() == absl::StatusCode::kResourceExhausted &&
        result.message().find("message larger than max") != absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat("too large for one call: ", result.message()));
    }
    return result;
  }
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const Endpoint& endpoint) {
  auto impl = std::make_unique<Impl>();
  impl->timeout = endpoint.timeout;
  std::shared_ptr<grpc::Channel> channel;
  grpc::ChannelArguments arguments;
  if (!endpoint.socket.empty()) {
    impl->where = endpoint.socket;
    channel = grpc::CreateCustomChannel("unix:" + endpoint.socket, grpc::InsecureChannelCredentials(), arguments);
  } else if (!endpoint.address.empty()) {
    impl->where = endpoint.address;
    impl->remote = true;
    TlsProblem::Watch();
    arguments.SetSslTargetNameOverride(kTlsName);
    channel = grpc::CreateCustomChannel(
        endpoint.address,
        grpc::SslCredentials({endpoint.ca_pem, endpoint.key_pem, endpoint.certificate_pem}), arguments);
  } else {
    return absl::InvalidArgumentError("neither a control socket nor a remote address is given");
  }
  impl->stub = v1::Control::NewStub(channel);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

absl::StatusOr<NodeStatus> Client::Status() {
  GDF_ASSIGN_OR_RETURN(v1::StatusReply reply, impl_->Call(&v1::Control::Stub::Status, v1::StatusRequest()));
  return FromProto(reply);
}

absl::StatusOr<std::string> Client::CreateNetwork(const std::string& name) {
  v1::CreateNetworkRequest request;
  request.set_name(name);
  GDF_ASSIGN_OR_RETURN(v1::CreateNetworkReply reply, impl_->Call(&v1::Control::Stub::CreateNetwork, request));
  return reply.network_id();
}

absl::StatusOr<NodeStatus> Client::Join(const std::string& invite, const std::string& node_name) {
  v1::JoinRequest request;
  request.set_invite(invite);
  request.set_node_name(node_name);
  GDF_RETURN_IF_ERROR(impl_->Call(&v1::Control::Stub::Join, request).status());
  return Status();
}

absl::StatusOr<std::string> Client::Leave() {
  GDF_ASSIGN_OR_RETURN(const v1::LeaveReply reply, impl_->Call(&v1::Control::Stub::Leave, v1::LeaveRequest()));
  return reply.not_told();
}

absl::StatusOr<Invite> Client::CreateInvite(const std::string& roles, absl::Duration ttl, uint32_t uses) {
  v1::CreateInviteRequest request;
  request.set_roles(roles);
  request.set_ttl_seconds(absl::ToInt64Seconds(ttl));
  request.set_uses(uses);
  GDF_ASSIGN_OR_RETURN(v1::CreateInviteReply reply, impl_->Call(&v1::Control::Stub::CreateInvite, request));
  Invite invite = FromProto(reply.invite());
  invite.text = reply.text();
  return invite;
}

absl::StatusOr<std::vector<Invite>> Client::ListInvites() {
  GDF_ASSIGN_OR_RETURN(v1::ListInvitesReply reply,
                       impl_->Call(&v1::Control::Stub::ListInvites, v1::ListInvitesRequest()));
  std::vector<Invite> invites;
  for (const v1::Invite& invite : reply.invites()) invites.push_back(FromProto(invite));
  return invites;
}

absl::StatusOr<uint32_t> Client::Pause(absl::Duration time, bool now) {
  v1::PauseRequest request;
  request.set_seconds(absl::ToInt64Seconds(time));
  request.set_now(now);
  GDF_ASSIGN_OR_RETURN(const v1::PauseReply reply, impl_->Call(&v1::Control::Stub::Pause, request));
  return reply.running();
}

absl::Status Client::Resume() { return impl_->Call(&v1::Control::Stub::Resume, v1::ResumeRequest()).status(); }

absl::Status Client::RevokeInvite(const std::string& id) {
  v1::RevokeInviteRequest request;
  request.set_id(id);
  return impl_->Call(&v1::Control::Stub::RevokeInvite, request).status();
}

absl::StatusOr<std::vector<Node>> Client::ListNodes() {
  GDF_ASSIGN_OR_RETURN(v1::ListNodesReply reply, impl_->Call(&v1::Control::Stub::ListNodes, v1::ListNodesRequest()));
  std::vector<Node> nodes;
  for (const v1::Node& node : reply.nodes()) nodes.push_back(FromProto(node));
  return nodes;
}

absl::StatusOr<PingResult> Client::Ping(const std::string& node) {
  v1::PingRequest request;
  request.set_node(node);
  GDF_ASSIGN_OR_RETURN(const v1::PingReply reply, impl_->Call(&v1::Control::Stub::Ping, request));
  return PingResult{reply.id(),
                    reply.name(),
                    reply.remote(),
                    reply.dialled(),
                    reply.connections(),
                    absl::Seconds(reply.round_trip_seconds()),
                    absl::Seconds(reply.tcp_rtt_seconds()),
                    reply.rate_bytes_per_sec(),
                    reply.bulk_in_clear(),
                    reply.relay()};
}

absl::Status Client::ChangeNode(const std::string& node, NodeChange change, const std::string& roles) {
  v1::ChangeNodeRequest request;
  request.set_node(node);
  request.set_roles(roles);
  switch (change) {
    case NodeChange::kRemove: request.set_change(v1::ChangeNodeRequest::CHANGE_REMOVE); break;
    case NodeChange::kBan: request.set_change(v1::ChangeNodeRequest::CHANGE_BAN); break;
    case NodeChange::kUnban: request.set_change(v1::ChangeNodeRequest::CHANGE_UNBAN); break;
    case NodeChange::kRole: request.set_change(v1::ChangeNodeRequest::CHANGE_ROLE); break;
    case NodeChange::kAddCoordinator: request.set_change(v1::ChangeNodeRequest::CHANGE_ADD_COORDINATOR); break;
    case NodeChange::kRemoveCoordinator: request.set_change(v1::ChangeNodeRequest::CHANGE_REMOVE_COORDINATOR); break;
  }
  return impl_->Call(&v1::Control::Stub::ChangeNode, request).status();
}

absl::StatusOr<UploadResult> Client::Upload(const std::string& manifest_name, std::vector<UploadFile> files,
                                            const std::function<void(uint64_t)>& progress) {
  v1::UploadPiece piece;
  piece.set_manifest_name(manifest_name);
  GDF_RETURN_IF_ERROR(CheckTexts(piece));
  for (const UploadFile& file : files) GDF_RETURN_IF_ERROR(CheckUtf8("a file's name", file.name));
  grpc::ClientContext context;
  v1::UploadReply reply;
  std::unique_ptr<grpc::ClientWriter<v1::UploadPiece>> writer = impl_->stub->Upload(&context, &reply);
  bool open = writer->Write(piece);
  uint64_t sent = 0;
  for (const UploadFile& file : files) {
    if (!open) break;
    piece.mutable_file()->set_name(file.name);
    piece.mutable_file()->set_size(file.size);
    open = writer->Write(piece);
    for (uint64_t left = file.size; open && left > 0;) {
      std::string data(std::min<uint64_t>(left, kUploadPieceBytes), '\0');
      const absl::Status read = file.read(absl::MakeSpan(reinterpret_cast<uint8_t*>(data.data()), data.size()));
      if (!read.ok()) {
        context.TryCancel();
        writer->Finish();
        return Annotate(read, file.name);
      }
      left -= data.size();
      sent += data.size();
      piece.set_data(std::move(data));
      open = writer->Write(piece);
      if (progress) progress(sent);
    }
  }
  if (open) writer->WritesDone();
  GDF_RETURN_IF_ERROR(impl_->Finish(writer->Finish()));
  return UploadResult{reply.manifest(), reply.bytes()};
}

absl::StatusOr<JobPlan> Client::Plan(const PlanRequest& request) {
  v1::PlanRequest out;
  out.set_spec_yaml(request.spec_yaml);
  out.set_data_bytes(request.data_bytes);
  out.set_hf_config_json(request.hf_config_json);
  GDF_ASSIGN_OR_RETURN(v1::PlanReply reply, impl_->Call(&v1::Control::Stub::Plan, out));
  return FromProto(reply);
}

absl::StatusOr<SubmitResult> Client::Submit(const SubmitRequest& request) {
  v1::SubmitRequest out;
  out.set_spec_yaml(request.spec_yaml);
  for (const auto& [name, manifest] : request.inputs) (*out.mutable_inputs())[name] = manifest;
  out.set_submit_token(request.submit_token);
  out.set_hf_config_json(request.hf_config_json);
  GDF_ASSIGN_OR_RETURN(v1::SubmitReply reply, impl_->Call(&v1::Control::Stub::Submit, out));
  return SubmitResult{reply.job(), reply.existed(), reply.refused()};
}

absl::StatusOr<std::vector<Job>> Client::ListJobs() {
  GDF_ASSIGN_OR_RETURN(v1::ListJobsReply reply, impl_->Call(&v1::Control::Stub::ListJobs, v1::ListJobsRequest()));
  std::vector<Job> jobs;
  for (const v1::Job& job : reply.jobs()) jobs.push_back(FromProto(job));
  return jobs;
}

absl::StatusOr<Job> Client::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  GDF_ASSIGN_OR_RETURN(v1::GetJobReply reply, impl_->Call(&v1::Control::Stub::GetJob, request));
  return FromProto(reply.job());
}

struct JobWatch::Impl {
  const Client::Impl& client;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::JobUpdate>> reader;
  bool finished = false;
  absl::Status refused = {};  // then there is no reader
};

JobWatch::JobWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

JobWatch::~JobWatch() {
  if (impl_->finished || !impl_->refused.ok()) return;
  impl_->context.TryCancel();
  impl_->reader->Finish();
}

void JobWatch::Cancel() { impl_->context.TryCancel(); }

std::optional<JobUpdate> JobWatch::Next() {
  if (!impl_->refused.ok()) return std::nullopt;
  v1::JobUpdate in;
  while (impl_->reader->Read(&in)) {
    JobUpdate update;
    switch (in.update_case()) {
      case v1::JobUpdate::kRound: update.round = FromProto(in.round()); return update;
      case v1::JobUpdate::kEvent: update.event = FromProto(in.event()); return update;
      case v1::JobUpdate::kJob: update.job = FromProto(in.job()); return update;
      case v1::JobUpdate::kFinished: update.finished = FromProto(in.finished()); return update;
      case v1::JobUpdate::UPDATE_NOT_SET: break;  // of a newer daemon
    }
  }
  return std::nullopt;
}

absl::Status JobWatch::Finish() {
  impl_->finished = true;
  GDF_RETURN_IF_ERROR(impl_->refused);
  return impl_->client.Finish(impl_->reader->Finish());
}

std::unique_ptr<JobWatch> Client::WatchJob(const WatchRequest& request) {
  v1::WatchJobRequest out;
  out.set_job(request.job);
  out.set_after_event(request.after_event);
  out.set_from_round(request.from_round);
  out.set_follow(request.follow);
  auto impl = std::unique_ptr<JobWatch::Impl>(new JobWatch::Impl{*impl_, {}, nullptr});
  impl->refused = CheckTexts(out);
  if (impl->refused.ok()) impl->reader = impl_->stub->WatchJob(&impl->context, out);
  return std::unique_ptr<JobWatch>(new JobWatch(std::move(impl)));
}

absl::StatusOr<Explanation> Client::Explain(const std::string& what) {
  v1::ExplainRequest request;
  request.set_what(what);
  GDF_ASSIGN_OR_RETURN(const v1::ExplainReply reply, impl_->Call(&v1::Control::Stub::Explain, request));
  return Explanation{reply.name(),
                     reply.answer(),
                     {reply.because().begin(), reply.because().end()},
                     {reply.advice().begin(), reply.advice().end()}};
}

absl::Status Client::CancelJob(const std::string& job) {
  v1::CancelJobRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Control::Stub::CancelJob, request).status();
}

absl::StatusOr<CheckpointList> Client::ListCheckpoints(const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  GDF_ASSIGN_OR_RETURN(v1::ListCheckpointsReply reply, impl_->Call(&v1::Control::Stub::ListCheckpoints, request));
  return FromProto(reply);
}

absl::StatusOr<CheckpointCheck> Client::VerifyCheckpoint(const std::string& job, uint64_t round) {
  v1::VerifyCheckpointRequest request;
  request.set_job(job);
  request.set_round(round);
  GDF_RETURN_IF_ERROR(CheckTexts(request));
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::VerifyCheckpointReply>> reader = impl_->stub->VerifyCheckpoint(&context, request);
  v1::VerifyCheckpointReply reply;
  const bool told = reader->Read(&reply);
  GDF_RETURN_IF_ERROR(impl_->Finish(reader->Finish()));
  if (!told) return absl::InternalError("the daemon ended the check without its result");
  return FromProto(reply);
}

absl::Status Client::RemoveCheckpoint(const std::string& job, uint64_t round) {
  v1::RemoveCheckpointRequest request;
  request.set_job(job);
  request.set_round(round);
  return impl_->Call(&v1::Control::Stub::RemoveCheckpoint, request).status();
}

absl::Status Client::RollBackJob(const std::string& job, uint64_t round, const std::string& reason) {
  v1::RollBackJobRequest request;
  request.set_job(job);
  request.set_round(round);
  request.set_reason(reason);
  return impl_->Call(&v1::Control::Stub::RollBackJob, request).status();
}

absl::StatusOr<uint64_t> Client::Export(const std::string& job, ExportSink& sink, uint64_t checkpoint) {
  v1::ExportRequest request;
  request.set_job(job);
  request.set_checkpoint(checkpoint);
  GDF_RETURN_IF_ERROR(CheckTexts(request));
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::FilePiece>> reader = impl_->stub->Export(&context, request);
  v1::FilePiece piece;
  uint64_t rounds = 0;
  while (reader->Read(&piece)) {
    rounds = std::max(rounds, piece.rounds());
    const absl::Status kept = piece.has_file() ? sink.Begin(piece.file().name(), piece.file().size())
                                               : sink.Data(AsBytes(piece.data()));
    if (!kept.ok()) {
      context.TryCancel();
      reader->Finish();
      return kept;
    }
  }
  GDF_RETURN_IF_ERROR(impl_->Finish(reader->Finish()));
  return rounds;
}

absl::StatusOr<GenerateResult> Client::Generate(const GenerateRequest& request,
                                                const std::function<absl::Status(const std::string&)>& on_text) {
  v1::GenerateRequest out;
  out.set_job(request.job);
  out.set_prompt(request.prompt);
  out.set_max_tokens(request.max_tokens);
  out.set_temperature(request.temperature);
  out.set_top_k(request.top_k);
  out.set_seed(request.seed);
  GDF_RETURN_IF_ERROR(CheckTexts(out));
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::GeneratePiece>> reader = impl_->stub->Generate(&context, out);
  GenerateResult result;
  v1::GeneratePiece piece;
  while (reader->Read(&piece)) {
    if (const absl::Status taken = piece.text().empty() ? absl::OkStatus() : on_text(piece.text()); !taken.ok()) {
      context.TryCancel();
      reader->Finish();
      return taken;
    }
    if (piece.finished()) {
      result.tokens = piece.tokens();
      result.duration = absl::Seconds(piece.seconds());
    }
  }
  GDF_RETURN_IF_ERROR(impl_->Finish(reader->Finish()));
  return result;
}

absl::StatusOr<std::string> Client::RotateKey() {
  GDF_ASSIGN_OR_RETURN(v1::RotateKeyReply reply, impl_->Call(&v1::Control::Stub::RotateKey, v1::RotateKeyRequest()));
  return reply.node_id();
}

absl::StatusOr<std::string> Client::Backup(const std::string& passphrase) {
  v1::BackupRequest request;
  request.set_passphrase(passphrase);
  GDF_RETURN_IF_ERROR(CheckTexts(request));
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::BackupPiece>> reader = impl_->stub->Backup(&context, request);
  std::string archive;
  v1::BackupPiece piece;
  while (reader->Read(&piece)) archive += piece.data();
  GDF_RETURN_IF_ERROR(impl_->Finish(reader->Finish()));
  return archive;
}

}  // namespace gdf::control
