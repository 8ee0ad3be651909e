#include "gdfd/supervisor/worker_process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file_system.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/tensor/flat_buffer.h"
#include "core/train/export_files.h"
#include "core/train/messages.h"
#include "core/train/protocol.h"
#include "gdfd/program_folder.h"

namespace gdf::supervisor {
namespace {

using train::FieldReader;
using train::Message;
using train::SharedSegment;
using train::UniqueFd;

// Copied between two turns of the executor: half a millisecond.
constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
// Without a memory limit, what a worker may claim its model to have: 256 GiB of float32.
constexpr uint64_t kMaxParams = uint64_t{1} << 36;
constexpr uint64_t kWindowSlack = 4096;  // a codec's scales, where they outweigh its savings
// Optimiser moments and residual are 12 bytes a parameter.
constexpr uint64_t kMaxStateBytesPerParam = 64;
constexpr uint64_t kMaxStateBytes = uint64_t{64} << 20;
constexpr size_t kMaxGeneratedBytes = size_t{16} << 20;
constexpr size_t kMaxExportFiles = 32;
constexpr int64_t kMaxExportBytes = int64_t{256} << 20;

struct OpenInput {
  UniqueFd fd;
  uint64_t size = 0;
};

absl::StatusOr<OpenInput> Open(const train::InputFile& input) {
  OpenInput opened;
  if (input.path.empty()) {
    GDF_ASSIGN_OR_RETURN(opened.fd, train::MakeBlob(input.bytes.span()));
    opened.size = input.bytes.size();
    return opened;
  }
  opened.fd.Reset(open(input.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!opened.fd.valid() || fstat(opened.fd.get(), &info) != 0) {
    return ErrnoToStatus(errno, "open", input.path);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(input.path, " is not a regular file"));
  }
  opened.size = static_cast<uint64_t>(info.st_size);
  return opened;
}

Message Request(nlohmann::json body = nlohmann::json::object()) {
  Message message;
  message.body = std::move(body);
  return message;
}

std::vector<std::string> Arguments(const WorkerOptions& options) {
  std::vector<std::string> arguments = {absl::StrCat("--parent=", getpid())};
  if (!options.gpus.empty()) arguments.push_back(absl::StrCat("--gpus=", options.gpus.size()));
  return arguments;
}

}  // namespace

std::vector<std::string> WorkerEnvironment() {
  return {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/",
          // OpenMP's threads do not burn a core while they wait.
          "GOMP_SPINCOUNT=10000"};
}

std::string FindWorkerProgram() {
  const std::string folder = ProgramFolder();
  for (const char* place : {"/gdf-worker", "/../lib/gdf/gdf-worker"}) {
    if (access((folder + place).c_str(), X_OK) == 0) return folder + place;
  }
  return folder + "/gdf-worker";
}

WorkerProcess::WorkerProcess(Executor& executor, WorkerOptions options)
    : executor_(executor),
      options_(std::move(options)),
      calls_(WorkerCalls::Create(executor)),
      turns_(std::make_shared<TurnQueue>(executor)) {}

WorkerProcess::~WorkerProcess() = default;

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(Executor& executor,
                                                                    WorkerOptions options) {
  ChildOptions child_options;
  child_options.program = options.program;
  child_options.arguments = Arguments(options);
  child_options.environment = WorkerEnvironment();
  if (!options.gpus.empty()) {
    child_options.environment.push_back(absl::StrCat("CUDA_VISIBLE_DEVICES=", absl::StrJoin(options.gpus, ",")));
  }
  child_options.memory_bytes = options.memory_bytes;
  child_options.cgroup_parent = options.cgroup_parent;
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child, ChildProcess::Start(child_options));
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(executor, std::move(options)));
  worker->link_ = std::make_unique<WorkerLink>(executor, std::move(child), worker->options_.label,
                                               std::weak_ptr<WorkerEvents>(worker->calls_));
  worker->calls_->Attach(worker->link_.get(), worker->options_.start_timeout);
  return worker;
}

Task<absl::StatusOr<SandboxReport>> WorkerProcess::Ready() { return calls_->Ready(); }

Task<train::ExitInfo> WorkerProcess::WaitForExit() { return calls_->WaitForExit(); }

void WorkerProcess::Kill() {
  link_->End(train::ExitInfo::Reason::kStopped, "the worker was stopped");
}

absl::Status WorkerProcess::RequireLoaded(std::string_view what) const {
  if (num_params_ > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ToAbsl(what), ": no job is loaded"));
}

Task<void> WorkerProcess::Copy(const void* from, void* to, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCopyBytes) {
    if (at > 0) co_await Sleep(executor_, absl::ZeroDuration());
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                std::min(kCopyBytes, bytes - at));
  }
}

Task<absl::Status> WorkerProcess::SendInputs(std::vector<train::InputFile> inputs) {
  if (inputs.size() > train::LoadRequest::kMaxInputs) {
    co_return absl::InvalidArgumentError(absl::StrCat("the job has ", inputs.size(),
                                                      " input files, at most ",
                                                      train::LoadRequest::kMaxInputs, " fit"));
  }
  for (size_t first = 0; first < inputs.size(); first += train::kMaxMessageFds) {
    Message message;
    nlohmann::json files = nlohmann::json::array();
    const size_t end = std::min(inputs.size(), first + train::kMaxMessageFds);
    for (size_t i = first; i < end; ++i) {
      GDF_CO_ASSIGN_OR_RETURN(OpenInput opened, Open(inputs[i]));
      files.push_back({{"name", inputs[i].name}, {"bytes", opened.size}});
      message.fds.push_back(std::move(opened.fd));
    }
    message.body["files"] = std::move(files);
    absl::StatusOr<Message> reply =
        co_await calls_->Call("input", std::move(message), options_.call_timeout);
    if (!reply.ok()) co_return reply.status();
  }
  co_return absl::OkStatus();
}

absl::Status WorkerProcess::CheckLoaded(const train::LoadResult& result) const {
  uint64_t most = kMaxParams;
  if (options_.memory_bytes > 0) most = std::min(most, options_.memory_bytes / sizeof(float));
  if (result.layout.num_params() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a model of ", result.layout.num_params(),
                                                 " parameters does not fit the worker's memory of ",
                                                 HumanBytes(most * sizeof(float))));
}

Task<absl::Status> WorkerProcess::ShareWindow() {
  const uint64_t bytes = num_params_ * sizeof(float) + kWindowSlack;
  GDF_CO_ASSIGN_OR_RETURN(SharedSegment window,
                          SharedSegment::Create(bytes, SharedSegment::Peer::kReadsAndWrites));
  Message message = Request({{"bytes", bytes}});
  GDF_CO_ASSIGN_OR_RETURN(UniqueFd fd, window.DuplicateFd());
  message.fds.push_back(std::move(fd));
  window_.emplace(std::move(window));
  absl::StatusOr<Message> reply =
      co_await calls_->Call("segment", std::move(message), options_.call_timeout);
  co_return reply.status();
}

Task<absl::StatusOr<train::LoadResult>> WorkerProcess::Load(train::LoadRequest request) {
  Turn turn(turns_);
  co_await turn.Wait();
  if (num_params_ > 0) co_return absl::FailedPreconditionError("load: a job is already loaded");
  absl::StatusOr<SandboxReport> ready = co_await calls_->Ready();
  if (!ready.ok()) co_return ready.status();
  nlohmann::json body = train::ToJson(request);
  GDF_CO_RETURN_IF_ERROR(co_await SendInputs(std::move(request.inputs)));
  absl::StatusOr<Message> reply =
      co_await calls_->Call("load", Request(std::move(body)), options_.load_timeout);
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::LoadResult> result = train::LoadResultFromJson(reply->body);
  if (!result.ok()) co_return calls_->Distrust(result.status());
  if (absl::Status fits = CheckLoaded(*result); !fits.ok()) co_return calls_->Distrust(fits);
  num_params_ = result->layout.num_params();
  const absl::Status shared = co_await ShareWindow();
  if (!shared.ok()) num_params_ = 0;
  GDF_CO_RETURN_IF_ERROR(shared);
  co_return result;
}

Task<absl::Status> WorkerProcess::ReadParameters(absl::Span<float> out) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("read parameters"));
  if (out.size() != num_params_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("room for ", out.size(), " parameters, the model has ", num_params_));
  }
  absl::StatusOr<Message> reply = co_await calls_->Call("read", Request(), options_.call_timeout);
  if (!reply.ok()) co_return reply.status();
  co_await Copy(window_->bytes().data(), out.data(), num_params_ * sizeof(float));
  window_->Discard();
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerProcess::Apply(train::ApplyRequest request) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("apply"));
  if (request.theta.size() > num_params_) {
    co_return absl::InvalidArgumentError(
        absl::StrCat(request.theta.size(), " parameters to apply, the model has ", num_params_));
  }
  const uint64_t bytes = request.theta.size() * sizeof(float);
  GDF_CO_ASSIGN_OR_RETURN(SharedSegment segment,
                          SharedSegment::Create(bytes, SharedSegment::Peer::kReads));
  co_await Copy(request.theta.data(), segment.bytes().data(), bytes);
  Message message = Request({{"fragment", request.fragment}, {"mixing", request.mixing}});
  GDF_CO_ASSIGN_OR_RETURN(UniqueFd fd, segment.DuplicateFd());
  message.fds.push_back(std::move(fd));
  absl::StatusOr<Message> reply =
      co_await calls_->Call("apply", std::move(message), options_.call_timeout);
  co_return reply.status();
}

Task<absl::StatusOr<train::RunResult>> WorkerProcess::Run(train::RunRequest request) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("run"));
  Message message = Request(train::ToJson(request));
  WorkerCalls::OnEvent on_event =
      [on_step = std::move(request.on_step)](const nlohmann::json& body) -> absl::Status {
    GDF_ASSIGN_OR_RETURN(const train::StepProgress step, train::StepProgressFromJson(body));
    if (on_step) on_step(step);
    return absl::OkStatus();
  };
  absl::StatusOr<Message> reply =
      co_await calls_->Call("run", std::move(message), options_.work_timeout, std::move(on_event));
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::RunResult> result = train::RunResultFromJson(reply->body);
  if (!result.ok()) co_return calls_->Distrust(result.status());
  co_return result;
}

Task<absl::StatusOr<train::EmitResult>> WorkerProcess::Emit(train::EmitRequest request) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("emit"));
  GDF_CO_ASSIGN_OR_RETURN(const std::unique_ptr<compress::Codec> codec,
                          compress::Codec::Create(request.codec));
  const uint64_t bytes = codec->PackedSize(request.num_values);
  if (bytes > window_->bytes().size()) {
    co_return absl::InvalidArgumentError(absl::StrCat("a delta packed by ", codec->name(), " has ",
                                                      bytes, " bytes, at most ",
                                                      window_->bytes().size(), " fit"));
  }
  Message message = Request(train::ToJson(request));
  if (request.factors) {
    const absl::Span<const uint8_t> given = tensor::AsBytes(request.factors->given);
    if (given.size() > window_->bytes().size()) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("factors of ", given.size(), " bytes, at most ", window_->bytes().size(), " fit"));
    }
    co_await Copy(given.data(), window_->bytes().data(), given.size());
  }
  absl::StatusOr<Message> reply =
      co_await calls_->Call("emit", std::move(message), options_.work_timeout);
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::EmitResult> result = train::EmitResultFromJson(reply->body);
  if (!result.ok()) co_return calls_->Distrust(result.status());
  // The worker can still write to the window: what is used is this copy.
  std::vector<uint8_t> packed(bytes);
  co_await Copy(window_->bytes().data(), packed.data(), bytes);
  window_->Discard();
  result->packed = Buffer(std::move(packed));
  co_return result;
}

Task<absl::Status> WorkerProcess::Settle(RoundId round, train::Settlement settlement) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("settle"));
  Message message = Request({{"round", round.value},
                             {"applied", settlement == train::Settlement::kApplied},
                             {"given_up", settlement == train::Settlement::kGivenUp}});
  absl::StatusOr<Message> reply =
      co_await calls_->Call("settle", std::move(message), options_.call_timeout);
  co_return reply.status();
}

Task<absl::StatusOr<train::EvalResult>> WorkerProcess::Evaluate(int64_t max_batches) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("evaluate"));
  Message message = Request({{"max_batches", max_batches}});
  absl::StatusOr<Message> reply =
      co_await calls_->Call("evaluate", std::move(message), options_.load_timeout);
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::EvalResult> result = train::EvalResultFromJson(reply->body);
  if (!result.ok()) co_return calls_->Distrust(result.status());
  co_return result;
}

uint64_t WorkerProcess::PieceBytes() const {
  return std::min<uint64_t>(kCopyBytes, window_->bytes().size() & ~uint64_t{3});
}

// The worker puts a piece into the window; gives the length of the whole state.
Task<absl::StatusOr<uint64_t>> WorkerProcess::SavePiece(uint64_t offset) {
  Message message = Request({{"offset", offset}, {"at_most", PieceBytes()}});
  absl::StatusOr<Message> reply =
      co_await calls_->Call("save", std::move(message), options_.call_timeout);
  if (!reply.ok()) co_return reply.status();
  FieldReader fields(reply->body);
  const uint64_t most = kMaxStateBytes + kMaxStateBytesPerParam * num_params_;
  const auto bytes = static_cast<uint64_t>(fields.Int("bytes", 1, static_cast<int64_t>(most)));
  if (!fields.status().ok()) co_return calls_->Distrust(fields.status());
  co_return bytes;
}

Task<absl::Status> WorkerProcess::SavePieces(train::StateSink sink) {
  uint64_t total = 0;
  for (uint64_t offset = 0; offset == 0 || offset < total;) {
    GDF_CO_ASSIGN_OR_RETURN(const uint64_t bytes, co_await SavePiece(offset));
    if (offset > 0 && bytes != total) {
      co_return calls_->Distrust(
          absl::InvalidArgumentError("the length of a state changes while it is saved"));
    }
    total = bytes;
    const uint64_t length = std::min(PieceBytes(), total - offset);
    Buffer piece = Buffer::Copy(window_->bytes().subspan(0, length));
    const absl::Status taken = co_await sink(std::move(piece));
    GDF_CO_RETURN_IF_ERROR(taken);
    offset += length;
  }
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerProcess::Save(train::StateSink sink) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("save"));
  const absl::Status saved = co_await SavePieces(std::move(sink));
  window_->Discard();
  co_return saved;
}

Task<absl::Status> WorkerProcess::RestorePieces(uint64_t bytes, train::StateSource source) {
  for (uint64_t offset = 0; offset < bytes;) {
    const uint64_t length = std::min(PieceBytes(), bytes - offset);
    absl::StatusOr<Buffer> piece = co_await source(offset, length);
    GDF_CO_RETURN_IF_ERROR(piece.status());
    if (piece->size() != length) co_return absl::InternalError("a piece of a state is not as long as asked for");
    std::memcpy(window_->bytes().data(), piece->span().data(), length);
    Message message = Request({{"bytes", bytes}, {"offset", offset}, {"piece", length}});
    absl::StatusOr<Message> reply =
        co_await calls_->Call("restore", std::move(message), options_.call_timeout);
    if (!reply.ok()) co_return reply.status();
    offset += length;
  }
  co_return absl::OkStatus();
}

Task<absl::Status> WorkerProcess::Restore(uint64_t bytes, train::StateSource source) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("restore"));
  if (bytes == 0) co_return absl::InvalidArgumentError("restore: the state is empty");
  const absl::Status restored = co_await RestorePieces(bytes, std::move(source));
  window_->Discard();
  co_return restored;
}

Task<absl::StatusOr<train::GenerateResult>> WorkerProcess::Generate(
    train::GenerateRequest request) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("generate"));
  Message message = Request(train::ToJson(request));
  const auto text = std::make_shared<std::string>();
  WorkerCalls::OnEvent on_event =
      [text, on_text = std::move(request.on_text)](const nlohmann::json& body) -> absl::Status {
    FieldReader fields(body);
    const std::string piece = fields.String("text", kMaxGeneratedBytes - text->size());
    GDF_RETURN_IF_ERROR(fields.status());
    text->append(piece);
    if (on_text) on_text(piece);
    return absl::OkStatus();
  };
  absl::StatusOr<Message> reply = co_await calls_->Call("generate", std::move(message),
                                                        options_.work_timeout, std::move(on_event));
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::GenerateResult> result = train::GenerateResultFromJson(reply->body);
  if (!result.ok()) co_return calls_->Distrust(result.status());
  result->text = std::move(*text);
  co_return result;
}

absl::StatusOr<train::ExportPlan> WorkerProcess::ReadExport(Message reply) const {
  FieldReader fields(reply.body);
  const std::string layout = fields.String("layout");
  const nlohmann::json& files = fields.Array("files", kMaxExportFiles);
  if (files.size() != reply.fds.size()) fields.Fail("files", "are not as many as came");
  GDF_RETURN_IF_ERROR(fields.status());
  train::ExportPlan plan;
  GDF_ASSIGN_OR_RETURN(plan.layout, tensor::Layout::FromJson(layout));
  if (plan.layout.num_params() < num_params_ || plan.layout.num_params() > 2 * num_params_) {
    return absl::InvalidArgumentError("the layout to export is not one of the loaded model");
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (!files[i].is_object()) return absl::InvalidArgumentError("a file to export is no object");
    FieldReader file(files[i]);
    train::ExportPlan::File out;
    out.name = file.String("name");
    const int64_t bytes = file.Int("bytes", 0, kMaxExportBytes);
    GDF_RETURN_IF_ERROR(file.status());
    GDF_ASSIGN_OR_RETURN(out.contents, train::OpenBlob(std::move(reply.fds[i]), bytes));
    GDF_RETURN_IF_ERROR(train::CheckExportFile(out.name, out.contents.view()));
    plan.files.push_back(std::move(out));
  }
  return plan;
}

Task<absl::StatusOr<train::ExportPlan>> WorkerProcess::Export(config::WeightDtype dtype) {
  Turn turn(turns_);
  co_await turn.Wait();
  GDF_CO_RETURN_IF_ERROR(RequireLoaded("export"));
  Message message = Request({{"dtype", static_cast<int>(dtype)}});
  absl::StatusOr<Message> reply =
      co_await calls_->Call("export", std::move(message), options_.call_timeout);
  if (!reply.ok()) co_return reply.status();
  absl::StatusOr<train::ExportPlan> plan = ReadExport(*std::move(reply));
  if (!plan.ok()) co_return calls_->Distrust(plan.status());
  co_return plan;
}

}  // namespace gdf::supervisor
