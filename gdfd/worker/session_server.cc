#include "gdfd/worker/session_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/train/messages.h"
#include "gdfd/worker/params/parameters.h"
#include "gdfd/worker/text_stream.h"

namespace gdf::worker {
namespace {

using nlohmann::json;
using train::FieldReader;
using train::Message;
using train::SharedSegment;

constexpr size_t kMaxInputNameBytes = 4096;
// Steps of small models are over in a millisecond: people need fewer lines than that.
constexpr double kSecondsBetweenProgress = 0.1;

Message MakeReply(json body = json::object()) {
  Message message;
  message.body = std::move(body);
  return message;
}

// The session's word for an error of the trainer: to diverge is not to be called wrongly.
absl::Status AsDataLoss(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  return absl::DataLossError(status.message());
}

absl::Status CheckFds(const Message& request, size_t expected) {
  if (request.fds.size() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(request.fds.size(), " descriptors came, expected ", expected));
}

}  // namespace

absl::Status SessionServer::Serve() {
  while (true) {
    absl::StatusOr<Message> request = socket_.Receive();
    if (absl::IsUnavailable(request.status())) return absl::OkStatus();
    GDF_RETURN_IF_ERROR(request.status());
    FieldReader fields(request->body);
    request_id_ = fields.Word("id");
    GDF_RETURN_IF_ERROR(fields.status());
    Reply reply = Answer(*request);
    Message message = reply.ok() ? *std::move(reply)
                                 : MakeReply({{"error", train::StatusToJson(reply.status())}});
    message.body["id"] = request_id_;
    GDF_RETURN_IF_ERROR(socket_.Send(std::move(message)));
  }
}

SessionServer::Handler SessionServer::FindHandler(std::string_view op) {
  static constexpr std::pair<std::string_view, Handler> kHandlers[] = {
      {"input", &SessionServer::Input},       {"load", &SessionServer::Load},
      {"segment", &SessionServer::Segment},   {"read", &SessionServer::Read},
      {"apply", &SessionServer::Apply},       {"run", &SessionServer::Run},
      {"emit", &SessionServer::Emit},         {"settle", &SessionServer::Settle},
      {"evaluate", &SessionServer::Evaluate}, {"save", &SessionServer::Save},
      {"restore", &SessionServer::Restore},   {"generate", &SessionServer::Generate},
      {"export", &SessionServer::Export}};
  for (const auto& [name, handler] : kHandlers) {
    if (name == op) return handler;
  }
  return nullptr;
}

SessionServer::Reply SessionServer::Answer(Message& request) {
  FieldReader fields(request.body);
  const std::string op = fields.String("op", 64);
  GDF_RETURN_IF_ERROR(fields.status());
  const Handler handler = FindHandler(op);
  if (handler == nullptr) {
    return absl::UnimplementedError(absl::StrCat("a worker has no operation '", op, "'"));
  }
  if (op != "input" && op != "load" && !job_) {
    return absl::FailedPreconditionError(absl::StrCat(op, ": no job is loaded"));
  }
  if (op != "input" && op != "load" && op != "segment" && !window_) {
    return absl::FailedPreconditionError(absl::StrCat(op, ": there is no segment to share"));
  }
  if (op != "restore" && restored_ > 0) GDF_RETURN_IF_ERROR(ForgetInnerState());
  return (this->*handler)(request);
}

absl::Status SessionServer::SendEvent(std::string_view event, json body) {
  Message message = MakeReply(std::move(body));
  message.body["id"] = request_id_;
  message.body["event"] = event;
  return socket_.Send(std::move(message));
}

absl::Status SessionServer::RequireTrainer(std::string_view what) const {
  if (trainer_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ToAbsl(what), ": the job was loaded without its data"));
}

SessionServer::Reply SessionServer::Input(Message& request) {
  FieldReader fields(request.body);
  const json& files = fields.Array("files", train::kMaxMessageFds);
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_RETURN_IF_ERROR(CheckFds(request, files.size()));
  for (size_t i = 0; i < files.size(); ++i) {
    FieldReader file(files[i]);
    const std::string name = file.String("name", kMaxInputNameBytes);
    const int64_t bytes = file.Int("bytes");
    GDF_RETURN_IF_ERROR(file.status());
    absl::StatusOr<Buffer> contents =
        train::MapFile(std::move(request.fds[i]), static_cast<uint64_t>(bytes));
    GDF_RETURN_IF_ERROR(Annotate(contents.status(), name));
    GDF_RETURN_IF_ERROR(inputs_.Add(name, *std::move(contents)));
  }
  return MakeReply();
}

SessionServer::Reply SessionServer::Load(Message& request) {
  if (job_) return absl::FailedPreconditionError("load: a job is already loaded");
  GDF_ASSIGN_OR_RETURN(const train::LoadRequest load, train::LoadRequestFromJson(request.body));
  GDF_ASSIGN_OR_RETURN(LoadedJob job, LoadedJob::Load(load.job_yaml, std::move(inputs_)));
  job_ = std::move(job);
  const absl::Status created = CreateModel(load);
  if (!created.ok()) job_.reset();
  GDF_RETURN_IF_ERROR(created);

  const config::TrainSpec& train = job_->spec().train;
  train::LoadResult result;
  result.layout = model().layout();
  result.vocab = config::Vocab(job_->shape());
  result.train_tokens = static_cast<int64_t>(job_->train_tokens().size());
  result.valid_tokens = static_cast<int64_t>(job_->valid_tokens().size());
  result.tokens_per_step =
      train.batch_size * train.gradient_accumulation * job_->spec().data.sequence_length;
  result.threads = model().options().threads;
  result.device_name = DeviceName(model().options());
  result.precision = model().options().bf16 ? config::Precision::kBf16 : config::Precision::kFp32;
  GDF_ASSIGN_OR_RETURN(json body, train::ToJson(result));
  return MakeReply(std::move(body));
}

// "cpu", "NVIDIA H200", "2 x NVIDIA H200 (NCCL)".
std::string SessionServer::DeviceName(const ModelOptions& model) const {
  if (!model.on_gpu) return "cpu";
  const std::string& name = options_.gpus[0].name;
  if (model.devices == 1) return name;
  return absl::StrCat(model.devices, " x ", name, options_.group != nullptr ? " (NCCL)" : "");
}

absl::Status SessionServer::CreateModel(const train::LoadRequest& request) {
  const config::TrainSpec& train = job_->spec().train;
  const int64_t threads = request.threads > 0 ? request.threads : train.threads;
  const bool on_gpu = request.device == config::Device::kGpu;
  if (on_gpu && options_.gpus.empty()) {
    return absl::FailedPreconditionError("load: the job is to run on a GPU, and none is open here");
  }
  TrainerOptions options;
  options.model.shape = job_->shape();
  options.model.on_gpu = on_gpu;
  if (on_gpu && job_->has_data()) {
    options.model.devices = static_cast<int>(options_.gpus.size());
    options.group = options_.group;
  }
  options.model.bf16 = train.precision == config::Precision::kBf16 ||
                       (train.precision == config::Precision::kAuto && on_gpu);
  options.model.recompute = train.recompute;
  options.model.threads = threads > 0 ? static_cast<int>(threads) : options_.default_threads;
  options.train = train;
  options.sequence_length = job_->spec().data.sequence_length;
  options.train_tokens = job_->train_tokens();
  options.valid_tokens = job_->valid_tokens();
  options.member_index = request.member_index;
  options.num_members = request.num_members;
  options.now_seconds = options_.now_seconds;
  if (!job_->has_data()) {
    GDF_ASSIGN_OR_RETURN(sampled_, LanguageModel::Create(options.model));
    return absl::OkStatus();  // its parameters come with Apply
  }
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer, Trainer::Create(options));
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer theta,
                       tensor::FlatBuffer::Zeros(trainer->model().num_params()));
  GDF_RETURN_IF_ERROR(job_->InitialParameters(theta.span()));
  GDF_RETURN_IF_ERROR(trainer->model().SetParameters(theta.span()));
  const absl::StatusOr<train::Fragments> fragments = train::Fragments::Create(
      trainer->model().num_params(), static_cast<uint64_t>(job_->spec().rounds.fragments));
  GDF_RETURN_IF_ERROR(Annotate(fragments.status(), "rounds.fragments"));
  job_->ReleaseInputs();
  trainer_ = std::move(trainer);
  deltas_.emplace(trainer_->model(), *fragments, on_gpu ? options_.packer : nullptr);
  return absl::OkStatus();
}

SessionServer::Reply SessionServer::Segment(Message& request) {
  GDF_RETURN_IF_ERROR(CheckFds(request, 1));
  FieldReader fields(request.body);
  const int64_t bytes =
      fields.Int("bytes", static_cast<int64_t>(model().num_params() * sizeof(float)));
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_ASSIGN_OR_RETURN(SharedSegment window,
                       SharedSegment::Open(std::move(request.fds[0]), static_cast<uint64_t>(bytes),
                                           /*writable=*/true));
  window_.emplace(std::move(window));
  return MakeReply();
}

SessionServer::Reply SessionServer::Read(Message&) {
  GDF_RETURN_IF_ERROR(
      model().CopyParameters(0, window_->floats().subspan(0, model().num_params())));
  return MakeReply();
}

SessionServer::Reply SessionServer::Apply(Message& request) {
  GDF_RETURN_IF_ERROR(CheckFds(request, 1));
  FieldReader fields(request.body);
  const uint64_t fragment = fields.Word("fragment");
  const double mixing = fields.Number("mixing");
  if (!(mixing >= 0 && mixing <= 1)) fields.Fail("mixing", "must be 0 to 1");
  GDF_RETURN_IF_ERROR(fields.status());
  const uint64_t num_params = deltas_ && fragment < deltas_->fragments().count()
                                  ? deltas_->fragments().size(fragment)
                                  : model().num_params();
  GDF_ASSIGN_OR_RETURN(SharedSegment theta,
                       SharedSegment::Open(std::move(request.fds[0]), num_params * sizeof(float),
                                           /*writable=*/false));
  if (deltas_) {
    GDF_RETURN_IF_ERROR(deltas_->Apply(fragment, std::move(theta), mixing));
  } else {  // no delta will be taken
    GDF_RETURN_IF_ERROR(model().SetParameters(theta.floats()));
  }
  return MakeReply();
}

SessionServer::Reply SessionServer::Run(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("run"));
  if (!deltas_->complete()) {
    return absl::FailedPreconditionError("run: no parameters were applied yet");
  }
  GDF_ASSIGN_OR_RETURN(const train::RunRequest run, train::RunRequestFromJson(request.body));
  deltas_->StepsTaken();
  if (run.from_step) trainer_->set_step(*run.from_step);
  if (run.stream) {
    GDF_RETURN_IF_ERROR(
        trainer_->SetStream(run.stream->member_index, run.stream->num_members, run.stream->cursor));
  }
  absl::Status told;
  double last = -kSecondsBetweenProgress;
  const auto on_step = [&](const StepMetrics& metrics) {
    const double now = options_.now_seconds();
    if (now - last < kSecondsBetweenProgress) return true;
    last = now;
    const train::StepProgress progress{metrics.step, metrics.loss, metrics.lr};
    told = SendEvent("step", train::ToJson(progress));
    return told.ok();
  };
  const int64_t steps = std::max<int64_t>(0, run.until_step - trainer_->step());
  absl::StatusOr<RunResult> ran = trainer_->RunSteps(steps, on_step);
  GDF_RETURN_IF_ERROR(told);
  if (!ran.ok()) return AsDataLoss(ran.status());
  train::RunResult result;
  result.step = trainer_->step();
  result.steps = ran->steps;
  result.mean_loss = ran->mean_loss;
  result.last_loss = ran->last_loss;
  result.tokens = ran->tokens;
  result.compute = absl::Seconds(ran->seconds);
  result.cursor = trainer_->CursorAfter(run.claim_until_step.value_or(trainer_->step()));
  return MakeReply(train::ToJson(result));
}

SessionServer::Reply SessionServer::Emit(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("emit"));
  GDF_ASSIGN_OR_RETURN(const train::EmitRequest emit, train::EmitRequestFromJson(request.body));
  const double started = options_.now_seconds();
  train::EmitResult result;
  GDF_RETURN_IF_ERROR(deltas_->Stage(emit, window_->bytes(), &result.norm));
  result.compute = absl::Seconds(options_.now_seconds() - started);
  return MakeReply(train::ToJson(result));
}

SessionServer::Reply SessionServer::Settle(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("settle"));
  FieldReader fields(request.body);
  const RoundId round{fields.Word("round")};
  const bool applied = fields.Bool("applied"), given_up = fields.Bool("given_up");
  if (applied && given_up) fields.Fail("given_up", "must be false of what was applied");
  GDF_RETURN_IF_ERROR(fields.status());
  using train::Settlement;
  GDF_RETURN_IF_ERROR(deltas_->Settle(
      round, applied ? Settlement::kApplied : given_up ? Settlement::kGivenUp : Settlement::kKept));
  return MakeReply();
}

SessionServer::Reply SessionServer::Evaluate(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("evaluate"));
  FieldReader fields(request.body);
  const int64_t max_batches = fields.Int("max_batches");
  GDF_RETURN_IF_ERROR(fields.status());
  EvalResult result;
  const absl::Status evaluated = deltas_->AtTheta([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(result, trainer_->Evaluate(max_batches));
    return absl::OkStatus();
  });
  if (!evaluated.ok()) return AsDataLoss(evaluated);
  return MakeReply(train::ToJson(train::EvalResult{result.loss, result.tokens}));
}

// The trainer's inner state, then the residual (docs/formats/inner-state.md).
uint64_t SessionServer::state_bytes() const {
  return trainer_->state_bytes() + trainer_->model().num_params() * sizeof(float);
}

SessionServer::Reply SessionServer::Save(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("save"));
  FieldReader fields(request.body);
  const auto offset = static_cast<uint64_t>(fields.Int("offset", 0, static_cast<int64_t>(state_bytes())));
  const auto at_most = static_cast<uint64_t>(
      fields.Int("at_most", 0, static_cast<int64_t>(window_->bytes().size())));
  if (offset % sizeof(float) != 0 || at_most % sizeof(float) != 0) {
    fields.Fail("offset", "and at_most must be multiples of four");
  }
  GDF_RETURN_IF_ERROR(fields.status());
  const absl::Span<uint8_t> out =
      window_->bytes().subspan(0, std::min(at_most, state_bytes() - offset));
  GDF_RETURN_IF_ERROR(trainer_->SaveState(offset, out));
  const uint64_t inner_bytes = trainer_->state_bytes();
  const uint64_t from = std::max(offset, inner_bytes);
  const absl::Span<uint8_t> rest = out.subspan(std::min<uint64_t>(from - offset, out.size()));
  // The window begins at a page, and what is asked for at multiples of four.
  GDF_RETURN_IF_ERROR(deltas_->SaveResiduals((from - inner_bytes) / sizeof(float),
                                             {reinterpret_cast<float*>(rest.data()), rest.size() / sizeof(float)}));
  return MakeReply({{"bytes", state_bytes()}});
}

SessionServer::Reply SessionServer::Restore(Message& request) {
  GDF_RETURN_IF_ERROR(RequireTrainer("restore"));
  FieldReader fields(request.body);
  const auto bytes = static_cast<uint64_t>(fields.Int("bytes"));
  const auto offset = static_cast<uint64_t>(fields.Int("offset"));
  const auto piece = static_cast<uint64_t>(
      fields.Int("piece", 1, static_cast<int64_t>(window_->bytes().size())));
  absl::Status restored = fields.status();
  if (restored.ok() && bytes != state_bytes()) {
    restored = absl::InvalidArgumentError(absl::StrCat(
        "a saved state of ", bytes, " bytes, expected ", state_bytes(), ": it is another job's"));
  }
  if (restored.ok() && (offset != restored_ || piece > bytes - offset || piece % sizeof(float) != 0)) {
    restored = absl::InvalidArgumentError(
        absl::StrCat("a piece of ", piece, " bytes at ", offset, " after ", restored_, " of ", bytes));
  }
  if (restored.ok()) restored = RestorePiece(offset, window_->bytes().subspan(0, piece));
  if (!restored.ok()) {
    GDF_RETURN_IF_ERROR(ForgetInnerState());
    return restored;
  }
  restored_ = offset + piece == bytes ? 0 : offset + piece;
  return MakeReply();
}

absl::Status SessionServer::RestorePiece(uint64_t offset, absl::Span<const uint8_t> piece) {
  GDF_RETURN_IF_ERROR(trainer_->RestoreState(offset, piece));
  const uint64_t inner_bytes = trainer_->state_bytes();
  const uint64_t from = std::max(offset, inner_bytes);
  const absl::Span<const uint8_t> rest =
      piece.subspan(std::min<uint64_t>(from - offset, piece.size()));
  // The window begins at a page, and pieces at multiples of four.
  return deltas_->RestoreResiduals(
      (from - inner_bytes) / sizeof(float),
      {reinterpret_cast<const float*>(rest.data()), rest.size() / sizeof(float)},
      job_->spec().rounds);
}

absl::Status SessionServer::ForgetInnerState() {
  restored_ = 0;
  deltas_->ForgetResiduals();
  return trainer_->ResetState();
}

// A text needs a first token: the tokenizer's own, or the beginning of a line.
absl::StatusOr<std::vector<int32_t>> SessionServer::EncodePrompt(const std::string& prompt) const {
  const data::Tokenizer& tokenizer = job_->tokenizer();
  GDF_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(prompt, data::AddSpecial::kYes));
  if (!ids.empty()) return ids;
  const data::SpecialIds special = tokenizer.special_ids();
  if (special.bos) return std::vector<int32_t>{*special.bos};
  if (special.eos) return std::vector<int32_t>{*special.eos};
  absl::StatusOr<std::vector<int32_t>> newline = tokenizer.Encode("\n");
  if (newline.ok() && !newline->empty()) return newline;
  return std::vector<int32_t>{0};
}

SessionServer::Reply SessionServer::Generate(Message& request) {
  GDF_ASSIGN_OR_RETURN(const train::GenerateRequest generate,
                       train::GenerateRequestFromJson(request.body));
  GDF_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, EncodePrompt(generate.prompt));
  const double started = options_.now_seconds();
  TextStream text(job_->tokenizer());
  absl::Status told;
  const auto tell = [&](const std::string& piece) {
    if (!piece.empty()) told = SendEvent("text", {{"text", piece}});
    return told.ok();
  };
  GenerateOptions options;
  options.max_new_tokens = generate.max_tokens;
  options.temperature = generate.temperature;
  options.top_k = generate.top_k;
  options.seed = generate.seed;
  options.stop_id = job_->tokenizer().special_ids().eos;
  options.on_token = [&](int32_t id) { return tell(text.Add(id)); };
  GDF_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, model().Generate(prompt, options));
  if (told.ok()) tell(text.Finish());
  GDF_RETURN_IF_ERROR(told);
  train::GenerateResult result;
  result.tokens = static_cast<int64_t>(ids.size());
  result.compute = absl::Seconds(options_.now_seconds() - started);
  return MakeReply(train::ToJson(result));
}

SessionServer::Reply SessionServer::Export(Message& request) {
  FieldReader fields(request.body);
  const auto dtype = static_cast<config::WeightDtype>(fields.Int("dtype", 0, 1));
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_ASSIGN_OR_RETURN(const train::ExportPlan plan, job_->Export(dtype));
  json files = json::array();
  Message reply;
  for (const train::ExportPlan::File& file : plan.files) {
    files.push_back({{"name", file.name}, {"bytes", file.contents.size()}});
    GDF_ASSIGN_OR_RETURN(train::UniqueFd blob, train::MakeBlob(file.contents.span()));
    reply.fds.push_back(std::move(blob));
  }
  reply.body = {{"layout", plan.layout.ToJson()}, {"files", std::move(files)}};
  return reply;
}

}  // namespace gdf::worker
