// The control API's calls that move data: uploads, exports, samples.
#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/encoding.h"
#include "core/base/monotonic_cond_var.h"
#include "core/base/status_macros.h"
#include "core/checkpoint/export.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/to_proto.h"

namespace gdf::services {

namespace v1 = control::v1;

namespace {

constexpr size_t kMaxUploadFiles = store::Manifest::kMaxFiles;
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr absl::Duration kWatchPause =
    absl::Seconds(1);  // how soon a caller that went away is noticed

// Takes an upload's messages in order and makes a manifest of them.
class UploadReader {
 public:
  UploadReader(store::ChunkStore& chunks, std::string owner)
      : chunks_(chunks), owner_(std::move(owner)), writer_(chunks_, owner_) {}

  absl::Status Take(const v1::UploadPiece& piece) {
    switch (piece.piece_case()) {
      case v1::UploadPiece::kManifestName:
        if (!manifest_.name.empty())
          return absl::InvalidArgumentError("the upload was begun already");
        if (piece.manifest_name().empty())
          return absl::InvalidArgumentError("an upload needs a name");
        manifest_.name = piece.manifest_name();
        return absl::OkStatus();
      case v1::UploadPiece::kFile:
        GDF_RETURN_IF_ERROR(EndFile());
        if (manifest_.files.size() == kMaxUploadFiles)
          return absl::InvalidArgumentError("too many files");
        GDF_RETURN_IF_ERROR(store::CheckRelativePath(piece.file().name()));
        path_ = piece.file().name();
        left_ = piece.file().size();
        return absl::OkStatus();
      case v1::UploadPiece::kData:
        if (path_.empty() || piece.data().size() > left_) {
          return absl::InvalidArgumentError(
              absl::StrCat("more data than file '", path_, "' was announced with"));
        }
        left_ -= piece.data().size();
        return writer_.Append(AsBytes(piece.data()));
      default:
        return absl::InvalidArgumentError("an upload message without content");
    }
  }
  // The manifest, stored like its chunks, and its digest.
  absl::StatusOr<Digest> Finish() {
    GDF_RETURN_IF_ERROR(EndFile());
    if (manifest_.files.empty()) return absl::InvalidArgumentError("an upload without files");
    std::sort(
        manifest_.files.begin(), manifest_.files.end(),
        [](const store::ManifestFile& a, const store::ManifestFile& b) { return a.path < b.path; });
    GDF_RETURN_IF_ERROR(manifest_.Check());
    GDF_ASSIGN_OR_RETURN(Digest digest,
                         chunks_.Put(AsBytes(std::string_view(manifest_.Encode())), owner_));
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
    if (left_ != 0)
      return absl::InvalidArgumentError(absl::StrCat("file '", path_, "' lacks ", left_, " bytes"));
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
  StreamSink(grpc::ServerWriter<v1::FilePiece>& writer, uint64_t rounds)
      : writer_(writer), rounds_(rounds) {}
  absl::Status Begin(std::string_view name, uint64_t size_bytes) override {
    v1::FilePiece piece;
    piece.mutable_file()->set_name(std::string(name));
    piece.mutable_file()->set_size(size_bytes);
    piece.set_rounds(rounds_);
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
  const uint64_t rounds_;
};

// A sample on its way: the executor's thread writes it, the caller's reads.
class Sampling {
 public:
  static Task<void> Run(jobs::JobHost& jobs, JobId id, train::GenerateRequest generate,
                        std::shared_ptr<Sampling> sampling) {
    absl::StatusOr<train::GenerateResult> result = co_await Sample(jobs, id, std::move(generate));
    absl::MutexLock lock(&sampling->mutex_);
    sampling->result_ = std::move(result);
    sampling->done_ = true;
    sampling->changed_.Signal();
  }
  void Append(std::string_view text) {
    absl::MutexLock lock(&mutex_);
    text_.append(text);
    changed_.Signal();
  }
  // What is new, after waiting for it for a while; why there is no more.
  absl::Status Take(v1::GeneratePiece* piece) {
    absl::MutexLock lock(&mutex_);
    changed_.Await(&mutex_, kWatchPause, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return done_ || !text_.empty(); });
    piece->set_text(std::exchange(text_, {}));
    piece->set_finished(done_);
    if (!done_) return absl::OkStatus();
    GDF_RETURN_IF_ERROR(result_.status());
    piece->set_tokens(static_cast<uint32_t>(result_->tokens));
    piece->set_seconds(absl::ToDoubleSeconds(result_->compute));
    return absl::OkStatus();
  }

 private:
  static Task<absl::StatusOr<train::GenerateResult>> Sample(jobs::JobHost& jobs, JobId id,
                                                            train::GenerateRequest generate) {
    absl::StatusOr<jobs::Sampler> sampler = co_await jobs.OpenSampler(id);
    GDF_CO_RETURN_IF_ERROR(sampler.status());
    absl::StatusOr<train::GenerateResult> result =
        co_await sampler->worker->Generate(std::move(generate));
    co_return result;
  }

  absl::Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicCondVar changed_;
  absl::StatusOr<train::GenerateResult> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

// Chunks that were uploaded and belong to no job yet.
std::string UploadOwner(const Digest& manifest) {
  return "upload-" + manifest.ToHex().substr(0, 32);
}

absl::Status ControlService::CheckSubmitter() {
  return bridge_.OnExecutor([this]() -> absl::Status {
    GDF_RETURN_IF_ERROR(node_.state.network().status());
    return node_.state.CheckMember(node_.transport.self(), trust::Operation::kSubmitJob);
  });
}

grpc::Status ControlService::Upload(grpc::ServerContext* context,
                                    grpc::ServerReader<v1::UploadPiece>* reader,
                                    v1::UploadReply* reply) {
  if (absl::Status allowed = CheckOperator("upload files"); !allowed.ok()) return ToGrpc(allowed);
  // Said before the files travel, not after.
  if (absl::Status allowed = CheckSubmitter(); !allowed.ok()) return ToGrpc(allowed);
  uint8_t random[8];
  node_.rng.Fill(absl::MakeSpan(random, 8));
  const std::string owner = "uploading-" + HexEncode(absl::MakeConstSpan(random, 8));
  UploadReader upload(*node_.chunks, owner);
  v1::UploadPiece piece;
  absl::Status status;
  while (status.ok() && reader->Read(&piece)) status = upload.Take(piece);
  // Between two files a broken stream looks like a complete upload.
  if (context->IsCancelled()) status = absl::CancelledError("the upload was broken off");
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

grpc::Status ControlService::Export(grpc::ServerContext*, const v1::ExportRequest* request,
                                    grpc::ServerWriter<v1::FilePiece>* writer) {
  if (absl::Status allowed = CheckOperator("export parameters"); !allowed.ok())
    return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  using Opened = absl::StatusOr<std::shared_ptr<const jobs::Artifacts>>;
  const RoundId checkpoint{request->checkpoint()};
  Opened artifacts = bridge_.Await<Opened>([&] {
    return checkpoint.value > 0 ? node_.jobs.checkpoints().Open(*id, checkpoint) : node_.jobs.Open(*id);
  });
  if (!artifacts.ok()) return ToGrpc(artifacts.status());
  tensor::DType dtype = tensor::DType::kF32;
  const absl::Status known = bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Job job, node_.state.job(*id));
    GDF_ASSIGN_OR_RETURN(config::JobSpec spec, config::ParseJobSpec(job.spec_yaml, ToString(*id)));
    if (spec.output.dtype == config::WeightDtype::kBf16) dtype = tensor::DType::kBF16;
    return absl::OkStatus();
  });
  if (!known.ok()) return ToGrpc(known);
  StreamSink sink(*writer, (*artifacts)->state->id.round.value);
  return ToGrpc(checkpoint::ExportHuggingFace((*artifacts)->plan, (*artifacts)->state->theta.span(),
                                              dtype, sink));
}

grpc::Status ControlService::Generate(grpc::ServerContext* context,
                                      const v1::GenerateRequest* request,
                                      grpc::ServerWriter<v1::GeneratePiece>* writer) {
  if (absl::Status allowed = CheckOperator("run models"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  if (request->max_tokens() == 0 || !(request->temperature() >= 0)) {
    return ToGrpc(
        absl::InvalidArgumentError("max_tokens must be positive and the temperature not negative"));
  }
  train::GenerateRequest generate;
  generate.prompt = request->prompt();
  generate.max_tokens = request->max_tokens();
  generate.temperature = request->temperature();
  generate.top_k = request->top_k();
  generate.seed = request->seed();
  const LastingCall lasting(*this);
  if (absl::Status room = lasting.status(); !room.ok()) return ToGrpc(room);
  auto sampling = std::make_shared<Sampling>();
  generate.on_text = [sampling](std::string_view text) { sampling->Append(text); };
  // Its worker ends with it, also when the caller goes away before.
  const std::shared_ptr<TaskScope> running =
      bridge_.Start([&] { return Sampling::Run(node_.jobs, *id, std::move(generate), sampling); });
  while (!context->IsCancelled()) {
    v1::GeneratePiece piece;
    const absl::Status status = sampling->Take(&piece);
    if (!status.ok()) return ToGrpc(status);
    if (!piece.text().empty() || piece.finished()) writer->Write(piece);
    if (piece.finished()) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

}  // namespace gdf::services
