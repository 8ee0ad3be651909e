#include <algorithm>

#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/checkpoint/export.h"
#include "core/schedule/cost.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/to_proto.h"

namespace gdf::services {

namespace v1 = control::v1;

namespace {

constexpr size_t kMaxUploadFiles = store::Manifest::kMaxFiles;
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr absl::Duration kWatchPause = absl::Seconds(1);  // how soon a watcher that went away is noticed

// Chunks that were uploaded and belong to no job yet.
std::string UploadOwner(const Digest& manifest) { return "upload-" + manifest.ToHex().substr(0, 32); }

// Takes an upload's messages in order and makes a manifest of them.
class UploadReader {
 public:
  UploadReader(store::ChunkStore& chunks, std::string owner)
      : chunks_(chunks), owner_(std::move(owner)), writer_(chunks_, owner_) {}

  absl::Status Take(const v1::UploadPiece& piece) {
    switch (piece.piece_case()) {
      case v1::UploadPiece::kManifestName:
        if (!manifest_.name.empty()) return absl::InvalidArgumentError("the upload was begun already");
        if (piece.manifest_name().empty()) return absl::InvalidArgumentError("an upload needs a name");
        manifest_.name = piece.manifest_name();
        return absl::OkStatus();
      case v1::UploadPiece::kFile:
        GDF_RETURN_IF_ERROR(EndFile());
        if (manifest_.files.size() == kMaxUploadFiles) return absl::InvalidArgumentError("too many files");
        GDF_RETURN_IF_ERROR(store::CheckRelativePath(piece.file().name()));
        path_ = piece.file().name();
        left_ = piece.file().size();
        return absl::OkStatus();
      case v1::UploadPiece::kData:
        if (path_.empty() || piece.data().size() > left_) {
          return absl::InvalidArgumentError(absl::StrCat("more data than file '", path_, "' was announced with"));
        }
        left_ -= piece.data().size();
        return writer_.Append(AsBytes(piece.data()));
      default: return absl::InvalidArgumentError("an upload message without content");
    }
  }
  // The manifest, stored like its chunks, and its digest.
  absl::StatusOr<Digest> Finish() {
    GDF_RETURN_IF_ERROR(EndFile());
    if (manifest_.files.empty()) return absl::InvalidArgumentError("an upload without files");
    std::sort(manifest_.files.begin(), manifest_.files.end(),
              [](const store::ManifestFile& a, const store::ManifestFile& b) { return a.path < b.path; });
    GDF_RETURN_IF_ERROR(manifest_.Check());
    GDF_ASSIGN_OR_RETURN(Digest digest, chunks_.Put(AsBytes(std::string_view(manifest_.Encode())), owner_));
    std::vector<store::ChunkId> all = manifest_.Chunks();
    all.push_back(digest);
    GDF_RETURN_IF_ERROR(chunks_.Pin(UploadOwner(digest), all));
    return digest;
  }
  uint64_t total_bytes() const { return manifest_.TotalBytes(); }

 private:
  absl::Status EndFile() {
    if (manifest_.name.empty()) return absl::InvalidArgumentError("an upload begins with its name");
    if (path_.empty()) return absl::OkStatus();
    if (left_ != 0) return absl::InvalidArgumentError(absl::StrCat("file '", path_, "' lacks ", left_, " bytes"));
    GDF_ASSIGN_OR_RETURN(store::ManifestFile file, writer_.Finish(path_));
    manifest_.files.push_back(std::move(file));
    path_.clear();
    return absl::OkStatus();
  }
  store::ChunkStore& chunks_;
  const std::string owner_;
  store::ChunkWriter writer_;
  store::Manifest manifest_;
  std::string path_;
  uint64_t left_ = 0;
};

// Hands an export to the caller as it is written.
class StreamSink final : public checkpoint::ExportSink {
 public:
  explicit StreamSink(grpc::ServerWriter<v1::FilePiece>& writer) : writer_(writer) {}
  absl::Status Begin(std::string_view name, uint64_t size_bytes) override {
    v1::FilePiece piece;
    piece.mutable_file()->set_name(std::string(name));
    piece.mutable_file()->set_size(size_bytes);
    return Write(piece);
  }
  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      v1::FilePiece piece;
      piece.set_data(std::string(AsString(bytes.subspan(at, kPieceBytes))));
      GDF_RETURN_IF_ERROR(Write(piece));
    }
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }

 private:
  absl::Status Write(const v1::FilePiece& piece) {
    return writer_.Write(piece) ? absl::OkStatus() : absl::CancelledError("the caller has gone");
  }
  grpc::ServerWriter<v1::FilePiece>& writer_;
};

// The spec with its shape, from the model's config.json where the spec has none.
absl::StatusOr<config::ModelShape> ShapeOf(const config::JobSpec& spec, const std::string& hf_config_json) {
  if (spec.model.shape) {
    config::ModelShape shape = *spec.model.shape;
    if (config::Vocab(shape) != 0) return shape;
    return config::WithVocab(shape, jobs::kAssumedVocab);
  }
  if (hf_config_json.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.from: ", spec.model.from->path, " comes without its config.json"));
  }
  GDF_ASSIGN_OR_RETURN(config::ModelShape shape, config::ModelShapeFromHfConfig(hf_config_json, "config.json"));
  GDF_RETURN_IF_ERROR(config::ValidateWithShape(spec, shape));
  return shape;
}

schedule::Cost CostOf(const config::JobSpec& spec, const config::ModelShape& shape, uint64_t bytes, int64_t nodes,
                      bool gpu) {
  schedule::CostInput input;
  input.spec = &spec;
  input.shape = shape;
  input.dataset_bytes = bytes;
  input.num_nodes = std::max<int64_t>(1, nodes);
  input.gpu = gpu;
  return schedule::EstimateCost(input);
}

// A job whose shape only its submitter can see states its memory itself.
void StateMemory(config::JobSpec& spec, const config::ModelShape& shape, uint64_t bytes) {
  if (spec.model.shape) return;
  if (spec.nodes.memory_bytes == 0) {
    spec.nodes.memory_bytes = CostOf(spec, shape, bytes, spec.nodes.max, false).host_memory.total_bytes();
  }
  if (spec.nodes.device == config::Device::kGpu && spec.nodes.gpu_memory_bytes == 0) {
    spec.nodes.gpu_memory_bytes = CostOf(spec, shape, bytes, spec.nodes.max, true).gpu_memory.total_bytes();
  }
}

}  // namespace

v1::Job ControlService::Describe(const state::Job& job) const {
  v1::Job out = ToProto(job);
  if (job.phase == state::JobPhase::kPending) {
    jobs::Scheduler* scheduler = node_.scheduler();
    out.set_reason(scheduler ? scheduler->WaitingFor(job.id) : "waits for a coordinator to place it");
  }
  if (job.phase == state::JobPhase::kRunning) {
    if (const jobs::JobTask* task = node_.jobs.Find(job.id)) out.set_reason(task->progress().activity);
  }
  return out;
}

grpc::Status ControlService::Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadPiece>* reader,
                                    v1::UploadReply* reply) {
  if (absl::Status allowed = CheckOperator("upload files"); !allowed.ok()) return ToGrpc(allowed);
  uint8_t random[8];
  node_.rng.Fill(absl::MakeSpan(random, 8));
  const std::string owner = "uploading-" + HexEncode(absl::MakeConstSpan(random, 8));
  UploadReader upload(*node_.chunks, owner);
  v1::UploadPiece piece;
  absl::Status status;
  while (status.ok() && reader->Read(&piece)) status = upload.Take(piece);
  if (status.ok()) {
    absl::StatusOr<Digest> digest = upload.Finish();
    status = digest.status();
    if (digest.ok()) {
      reply->set_manifest(digest->ToHex());
      reply->set_bytes(upload.total_bytes());
    }
  }
  const absl::Status dropped = node_.chunks->Drop(owner);
  return ToGrpc(status.ok() ? dropped : status);
}

grpc::Status ControlService::Plan(grpc::ServerContext*, const v1::PlanRequest* request, v1::PlanReply* reply) {
  absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(request->spec_yaml(), "job.yaml");
  if (!spec.ok()) return ToGrpc(spec.status());
  absl::StatusOr<config::ModelShape> shape = ShapeOf(*spec, request->hf_config_json());
  if (!shape.ok()) return ToGrpc(shape.status());
  StateMemory(*spec, *shape, request->data_bytes());
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(schedule::Placement placement,
                         jobs::Preview(node_.state, node_.membership,
                                       jobs::MakeJobRequest(JobId{}, *spec, request->data_bytes())));
    const bool gpu = !placement.nodes.empty() && placement.nodes[0].gpu;
    const int64_t nodes = placement.nodes.empty() ? spec->nodes.max : static_cast<int64_t>(placement.nodes.size());
    const schedule::Cost cost = CostOf(*spec, *shape, request->data_bytes(), nodes, gpu);
    reply->set_placeable(placement.verdict == schedule::Verdict::kPlaced);
    reply->set_reason(placement.reason);
    for (const schedule::ChosenNode& node : placement.nodes) {
      GDF_ASSIGN_OR_RETURN(state::Member member, node_.state.member(node.id));
      reply->add_nodes(member.profile.name);
      if (node.id == placement.lead) reply->set_lead(member.profile.name);
    }
    reply->set_parameters(static_cast<uint64_t>(cost.num_parameters));
    reply->set_rounds(static_cast<uint64_t>(cost.num_rounds));
    reply->set_bytes_per_round_per_node(cost.upload_bytes_per_round);
    for (const schedule::CostItem& item : cost.host_memory.items) {
      v1::CostItem* added = reply->add_host_memory();
      added->set_name(item.name);
      added->set_bytes(item.bytes);
    }
    for (const schedule::CostItem& item : cost.gpu_memory.items) {
      v1::CostItem* added = reply->add_gpu_memory();
      added->set_name(item.name);
      added->set_bytes(item.bytes);
    }
    if (cost.compute_time) reply->set_seconds(absl::ToDoubleSeconds(*cost.compute_time));
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::Submit(grpc::ServerContext*, const v1::SubmitRequest* request, v1::SubmitReply* reply) {
  if (absl::Status allowed = CheckOperator("submit jobs"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(request->spec_yaml(), "job.yaml");
  if (!spec.ok()) return ToGrpc(spec.status());
  absl::StatusOr<config::ModelShape> shape = ShapeOf(*spec, request->hf_config_json());
  if (!shape.ok()) return ToGrpc(shape.status());

  wire::SubmitJob command;
  uint64_t total_bytes = 0;
  for (const auto& [name, hex] : request->inputs()) {
    absl::StatusOr<Digest> digest = Digest::FromHex(hex);
    absl::StatusOr<Buffer> bytes = digest.ok() ? node_.chunks->Get(*digest) : absl::StatusOr<Buffer>(digest.status());
    absl::StatusOr<store::Manifest> manifest =
        bytes.ok() ? store::Manifest::Decode(bytes->view()) : absl::StatusOr<store::Manifest>(bytes.status());
    if (!manifest.ok()) return ToGrpc(Annotate(manifest.status(), absl::StrCat("input ", name, ": not uploaded here")));
    command.inputs.push_back({name, *digest, manifest->TotalBytes(), node_.transport.self()});
    total_bytes += manifest->TotalBytes();
  }
  std::sort(command.inputs.begin(), command.inputs.end(),
            [](const wire::JobInput& a, const wire::JobInput& b) { return a.name < b.name; });
  StateMemory(*spec, *shape, total_bytes);
  command.name = spec->name;
  command.spec_yaml = config::ToYaml(*spec);
  command.planned_rounds = static_cast<uint64_t>(config::NumRounds(*spec));
  command.submit_token = request->submit_token();
  if (command.submit_token.empty()) {
    uint8_t random[16];
    node_.rng.Fill(absl::MakeSpan(random, 16));
    command.submit_token = HexEncode(absl::MakeConstSpan(random, 16));
  }
  // What no node will ever do is said at once.
  const std::string refused = bridge_.OnExecutor([&]() -> std::string {
    absl::StatusOr<schedule::Placement> preview =
        jobs::Preview(node_.state, node_.membership, jobs::MakeJobRequest(JobId{}, *spec, total_bytes));
    return preview.ok() && preview->verdict == schedule::Verdict::kRefused ? preview->reason : "";
  });
  if (!refused.empty()) {
    reply->set_refused(refused);
    return grpc::Status::OK;
  }
  const std::vector<wire::JobInput> inputs = command.inputs;
  const std::string token = command.submit_token;
  const bool existed = bridge_.OnExecutor([&] {
    absl::StatusOr<std::vector<state::Job>> jobs = node_.state.jobs();
    return jobs.ok() && std::any_of(jobs->begin(), jobs->end(), [&](const state::Job& job) {
             return job.owner == node_.transport.self() && job.submit_token == token;
           });
  });
  absl::StatusOr<wire::CommandResult> result = Propose(std::move(command));
  if (!result.ok()) return ToGrpc(result.status());
  reply->set_job(ToString(result->job));
  reply->set_existed(existed);
  // Pinned for the job before the upload's pin goes. A crash between leaves the upload's, which the start hands over.
  absl::Status held = bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(result->job));
    if (job.phase == state::JobPhase::kFinished) return absl::OkStatus();
    return node_.jobs.Hold(job);
  });
  for (const wire::JobInput& input : inputs) {
    if (held.ok()) held = node_.chunks->Drop(UploadOwner(input.manifest));
  }
  return ToGrpc(held);
}

grpc::Status ControlService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsReply* reply) {
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, node_.state.jobs());
    for (const state::Job& job : jobs) *reply->add_jobs() = Describe(job);
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request, v1::GetJobReply* reply) {
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(*id));
    *reply->mutable_job() = Describe(job);
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::JobUpdate>* writer) {
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  struct Seen {
    uint64_t event;
    RoundId round;
    v1::JobPhase phase = v1::JOB_PHASE_UNSPECIFIED;
    uint64_t index = 0;
  } seen{request->after_event(), RoundId{request->from_round()}};
  while (!context->IsCancelled()) {
    // All that is new, gathered at once, so that what is told last is the end.
    absl::StatusOr<std::vector<v1::JobUpdate>> updates =
        bridge_.OnExecutor([&]() -> absl::StatusOr<std::vector<v1::JobUpdate>> {
          std::vector<v1::JobUpdate> out;
          seen.index = node_.state.last_applied();
          GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(*id));
          const v1::Job described = Describe(job);
          const bool finished = job.phase == state::JobPhase::kFinished;
          if (described.phase() != seen.phase) *out.emplace_back().mutable_job() = described;
          seen.phase = described.phase();
          state::EventFilter filter;
          filter.job = *id;
          GDF_ASSIGN_OR_RETURN(std::vector<state::Event> events, node_.state.events(seen.event, filter));
          for (const state::Event& event : events) {
            *out.emplace_back().mutable_event() = ToProto(event);
            seen.event = event.id;
          }
          GDF_ASSIGN_OR_RETURN(std::vector<state::RoundRecord> rounds, node_.state.rounds(*id, seen.round));
          for (const state::RoundRecord& round : rounds) {
            *out.emplace_back().mutable_round() = ToProto(round);
            seen.round = round.round.next();
          }
          if (finished && events.empty() && rounds.empty()) *out.emplace_back().mutable_finished() = described;
          return out;
        });
    if (!updates.ok()) return ToGrpc(updates.status());
    for (const v1::JobUpdate& update : *updates) {
      if (!writer->Write(update)) return grpc::Status::CANCELLED;
      if (update.has_finished()) return grpc::Status::OK;
    }
    if (!updates->empty()) continue;
    if (!request->follow()) return grpc::Status::OK;
    bridge_.Await<bool>([&] { return node_.membership.WaitApplied(seen.index + 1, kWatchPause); });
  }
  return grpc::Status::CANCELLED;
}

grpc::Status ControlService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::CancelJobReply*) {
  if (absl::Status allowed = CheckOperator("cancel jobs"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(Propose(wire::CancelJob{*id, "cancelled by hand"}).status());
}

grpc::Status ControlService::Export(grpc::ServerContext*, const v1::ExportRequest* request,
                                    grpc::ServerWriter<v1::FilePiece>* writer) {
  if (absl::Status allowed = CheckOperator("export parameters"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  using Opened = absl::StatusOr<std::shared_ptr<const jobs::Artifacts>>;
  Opened artifacts = bridge_.Await<Opened>([&] { return node_.jobs.Open(*id); });
  if (!artifacts.ok()) return ToGrpc(artifacts.status());
  tensor::DType dtype = tensor::DType::kF32;
  const absl::Status known = bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(*id));
    GDF_ASSIGN_OR_RETURN(config::JobSpec spec, config::ParseJobSpec(job.spec_yaml, ToString(*id)));
    if (spec.output.dtype == config::WeightDtype::kBf16) dtype = tensor::DType::kBF16;
    return absl::OkStatus();
  });
  if (!known.ok()) return ToGrpc(known);
  StreamSink sink(*writer);
  return ToGrpc(
      checkpoint::ExportHuggingFace((*artifacts)->plan, (*artifacts)->state->theta.span(), dtype, sink));
}

grpc::Status ControlService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                                      grpc::ServerWriter<v1::GeneratePiece>* writer) {
  if (absl::Status allowed = CheckOperator("run models"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  if (request->max_tokens() == 0 || !(request->temperature() >= 0)) {
    return ToGrpc(absl::InvalidArgumentError("max_tokens must be positive and the temperature not negative"));
  }
  // The caller's thread writes; the executor's only fills the queue.
  struct Shared {
    absl::Mutex mutex;
    std::string text ABSL_GUARDED_BY(mutex);
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::StatusOr<train::GenerateResult> result ABSL_GUARDED_BY(mutex);
    bool Ready() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return done || !text.empty(); }
  };
  auto shared = std::make_shared<Shared>();
  struct Body {
    static Task<absl::StatusOr<train::GenerateResult>> Sample(jobs::JobHost& jobs, JobId id,
                                                              train::GenerateRequest generate) {
      absl::StatusOr<jobs::Sampler> sampler = co_await jobs.OpenSampler(id);
      GDF_CO_RETURN_IF_ERROR(sampler.status());
      co_return co_await sampler->worker->Generate(std::move(generate));
    }
    static Task<void> Run(jobs::JobHost& jobs, JobId id, train::GenerateRequest generate, std::shared_ptr<Shared> shared) {
      absl::StatusOr<train::GenerateResult> result = co_await Sample(jobs, id, std::move(generate));
      absl::MutexLock lock(&shared->mutex);
      shared->result = std::move(result);
      shared->done = true;
    }
  };
  train::GenerateRequest generate;
  generate.prompt = request->prompt();
  generate.max_tokens = request->max_tokens();
  generate.temperature = request->temperature();
  generate.top_k = request->top_k();
  generate.seed = request->seed();
  generate.on_text = [shared](std::string_view text) {
    absl::MutexLock lock(&shared->mutex);
    shared->text.append(text);
  };
  bridge_.Start([&] { return Body::Run(node_.jobs, *id, std::move(generate), shared); });
  while (!context->IsCancelled()) {
    v1::GeneratePiece piece;
    absl::Status status;
    {
      absl::MutexLock lock(&shared->mutex);
      shared->mutex.AwaitWithTimeout(absl::Condition(shared.get(), &Shared::Ready), kWatchPause);
      piece.set_text(std::exchange(shared->text, {}));
      piece.set_finished(shared->done);
      if (shared->done) status = shared->result.status();
      if (shared->done && status.ok()) {
        piece.set_tokens(static_cast<uint32_t>(shared->result->tokens));
        piece.set_seconds(absl::ToDoubleSeconds(shared->result->compute));
      }
    }
    if (!status.ok()) return ToGrpc(status);
    if (!piece.text().empty() || piece.finished()) writer->Write(piece);
    if (piece.finished()) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

}  // namespace gdf::services
