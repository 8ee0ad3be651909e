#include "core/train/messages.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::train {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrorBytes = 16384;  // a job.yaml with many mistakes lists them all
constexpr size_t kMaxDeviceNameBytes = 256;
constexpr size_t kMaxCodecBytes = 64;
constexpr int64_t kMaxMembers = 1'000'000;

// JSON has no NaN and no infinity: they travel as null and arrive as NaN.
json Real(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

// A duration that the other end measured; one that cannot be is none.
absl::Duration ReadSeconds(FieldReader& fields, const char* name) {
  const double seconds = fields.Number(name);
  if (!(seconds >= 0 && seconds <= 1e9)) {
    fields.Fail(name, "is not a number of seconds");
    return absl::ZeroDuration();
  }
  return absl::Seconds(seconds);
}

template <typename T>
absl::StatusOr<T> Finish(const FieldReader& fields, T value) {
  if (!fields.status().ok()) return fields.status();
  return value;
}

void PutCursor(const data::Cursor& cursor, json* out) {
  (*out)["epoch"] = cursor.epoch;
  (*out)["position"] = cursor.position;
}

data::Cursor ReadCursor(FieldReader& fields) {
  data::Cursor cursor;
  cursor.epoch = fields.Int("epoch");
  cursor.position = fields.Int("position");
  return cursor;
}

void ReadMember(FieldReader& fields, int64_t* index, int64_t* members) {
  *members = fields.Int("num_members", 1, kMaxMembers);
  *index = fields.Int("member_index", 0, *members - 1);
}

// An enum by its place; `count` values.
template <typename Enum>
Enum ReadEnum(FieldReader& fields, const char* name, int64_t count) {
  return static_cast<Enum>(fields.Int(name, 0, count - 1));
}

}  // namespace

json StatusToJson(const absl::Status& status) {
  const absl::string_view message = status.message().substr(0, kMaxErrorBytes);
  return {{"code", static_cast<int>(status.code())},
          {"message", std::string(message.data(), message.size())}};
}

absl::Status StatusFromJson(const json& error) {
  if (!error.is_object()) return absl::InvalidArgumentError("worker message: error is no object");
  FieldReader fields(error);
  const int64_t code = fields.Int("code", 1, 16);
  // Repaired text may have grown to three times its length.
  const std::string message = fields.String("message", 3 * kMaxErrorBytes);
  if (!fields.status().ok()) return fields.status();
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

json ToJson(const LoadRequest& request) {
  return {{"job", request.job_yaml},
          {"member_index", request.member_index},
          {"num_members", request.num_members},
          {"device", static_cast<int>(request.device)},
          {"threads", request.threads}};
}

absl::StatusOr<LoadRequest> LoadRequestFromJson(const json& body) {
  FieldReader fields(body);
  LoadRequest request;
  request.job_yaml = fields.String("job");
  ReadMember(fields, &request.member_index, &request.num_members);
  request.device = ReadEnum<config::Device>(fields, "device", 3);
  request.threads = fields.Int("threads", 0, 1024);
  return Finish(fields, std::move(request));
}

absl::StatusOr<json> ToJson(const LoadResult& result) {
  std::string layout = result.layout.ToJson();
  if (layout.size() > kMaxMessageBytes / 2) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the model has ", result.layout.tensors().size(), " tensors, too many to describe"));
  }
  return json{{"layout", std::move(layout)},
              {"vocab", result.vocab},
              {"train_tokens", result.train_tokens},
              {"valid_tokens", result.valid_tokens},
              {"tokens_per_step", result.tokens_per_step},
              {"threads", result.threads},
              {"device_name", result.device_name},
              {"precision", static_cast<int>(result.precision)}};
}

absl::StatusOr<LoadResult> LoadResultFromJson(const json& body) {
  FieldReader fields(body);
  LoadResult result;
  const std::string layout = fields.String("layout");
  result.vocab = fields.Int("vocab", 1);
  result.train_tokens = fields.Int("train_tokens");
  result.valid_tokens = fields.Int("valid_tokens");
  result.tokens_per_step = fields.Int("tokens_per_step", 1);
  result.threads = fields.Int("threads", 1, 1024);
  result.device_name = fields.String("device_name", kMaxDeviceNameBytes);
  result.precision = ReadEnum<config::Precision>(fields, "precision", 3);
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_ASSIGN_OR_RETURN(result.layout, tensor::Layout::FromJson(layout));
  if (result.layout.num_params() == 0 || result.precision == config::Precision::kAuto) {
    return absl::InvalidArgumentError("worker message: a model without parameters or precision");
  }
  return result;
}

json ToJson(const StepProgress& progress) {
  return {{"step", progress.step}, {"loss", Real(progress.loss)}, {"lr", Real(progress.lr)}};
}

absl::StatusOr<StepProgress> StepProgressFromJson(const json& body) {
  FieldReader fields(body);
  StepProgress progress;
  progress.step = fields.Int("step");
  progress.loss = fields.Number("loss");
  progress.lr = fields.Number("lr");
  return Finish(fields, progress);
}

json ToJson(const RunRequest& request) {
  json body = {{"until_step", request.until_step}};
  if (request.claim_until_step) body["claim_until_step"] = *request.claim_until_step;
  if (request.from_step) body["from_step"] = *request.from_step;
  if (request.stream) {
    body["member_index"] = request.stream->member_index;
    body["num_members"] = request.stream->num_members;
    PutCursor(request.stream->cursor, &body);
  }
  return body;
}

absl::StatusOr<RunRequest> RunRequestFromJson(const json& body) {
  FieldReader fields(body);
  RunRequest request;
  request.until_step = fields.Int("until_step");
  if (fields.Has("claim_until_step")) request.claim_until_step = fields.Int("claim_until_step");
  if (fields.Has("from_step")) request.from_step = fields.Int("from_step");
  if (fields.Has("num_members")) {
    DataStream stream;
    ReadMember(fields, &stream.member_index, &stream.num_members);
    stream.cursor = ReadCursor(fields);
    request.stream = stream;
  }
  return Finish(fields, std::move(request));
}

json ToJson(const RunResult& result) {
  json body = {{"step", result.step},
               {"steps", result.steps},
               {"mean_loss", Real(result.mean_loss)},
               {"last_loss", Real(result.last_loss)},
               {"tokens", result.tokens},
               {"seconds", Seconds(result.compute)}};
  PutCursor(result.cursor, &body);
  return body;
}

absl::StatusOr<RunResult> RunResultFromJson(const json& body) {
  FieldReader fields(body);
  RunResult result;
  result.step = fields.Int("step");
  result.steps = fields.Int("steps", 0, result.step);
  result.mean_loss = fields.Number("mean_loss");
  result.last_loss = fields.Number("last_loss");
  result.tokens = fields.Int("tokens");
  result.compute = ReadSeconds(fields, "seconds");
  result.cursor = ReadCursor(fields);
  return Finish(fields, result);
}

json ToJson(const EmitRequest& request) {
  json body = {{"round", request.round.value},
               {"fragment", request.fragment},
               {"codec", request.codec.ToString()},
               {"beta", request.beta},
               {"max_norm", request.max_norm},
               {"rounding_seed", request.rounding_seed}};
  if (request.factors) {
    body["rank"] = request.factors->rank;
    body["second"] = request.factors->second;
    body["seed"] = request.factors->seed;
  }
  return body;
}

absl::StatusOr<EmitRequest> EmitRequestFromJson(const json& body) {
  FieldReader fields(body);
  EmitRequest request;
  request.round.value = fields.Word("round");
  request.fragment = fields.Word("fragment");
  const std::string codec = fields.String("codec", kMaxCodecBytes);
  request.beta = fields.Number("beta");
  request.max_norm = fields.Number("max_norm");
  request.rounding_seed = fields.Word("rounding_seed");
  if (fields.Has("rank")) {
    FactorPass& pass = request.factors.emplace();
    pass.rank = static_cast<uint32_t>(fields.Int("rank", 1, config::kMaxPowerSgdRank));
    pass.second = fields.Bool("second");
    pass.seed = fields.Word("seed");
  }
  GDF_RETURN_IF_ERROR(fields.status());
  const absl::StatusOr<compress::CodecSpec> spec = compress::CodecSpec::Parse(codec);
  if (!spec.ok()) return Annotate(spec.status(), "codec");
  request.codec = *spec;
  return request;
}

json ToJson(const EmitResult& result) {
  return {{"norm", Real(result.norm)}, {"seconds", Seconds(result.compute)}};
}

absl::StatusOr<EmitResult> EmitResultFromJson(const json& body) {
  FieldReader fields(body);
  EmitResult result;
  result.norm = fields.Number("norm");
  result.compute = ReadSeconds(fields, "seconds");
  return Finish(fields, std::move(result));
}

json ToJson(const EvalResult& result) {
  return {{"loss", Real(result.loss)}, {"tokens", result.tokens}};
}

absl::StatusOr<EvalResult> EvalResultFromJson(const json& body) {
  FieldReader fields(body);
  EvalResult result;
  result.loss = fields.Number("loss");
  result.tokens = fields.Int("tokens");
  return Finish(fields, result);
}

json ToJson(const GenerateRequest& request) {
  return {{"prompt", request.prompt},
          {"max_tokens", request.max_tokens},
          {"temperature", request.temperature},
          {"top_k", request.top_k},
          {"seed", request.seed}};
}

absl::StatusOr<GenerateRequest> GenerateRequestFromJson(const json& body) {
  FieldReader fields(body);
  GenerateRequest request;
  request.prompt = fields.String("prompt");
  request.max_tokens = fields.Int("max_tokens", 0, int64_t{1} << 20);
  request.temperature = fields.Number("temperature");
  request.top_k = fields.Int("top_k");
  request.seed = fields.Word("seed");
  return Finish(fields, std::move(request));
}

json ToJson(const GenerateResult& result) {
  return {{"tokens", result.tokens}, {"seconds", Seconds(result.compute)}};
}

absl::StatusOr<GenerateResult> GenerateResultFromJson(const json& body) {
  FieldReader fields(body);
  GenerateResult result;
  result.tokens = fields.Int("tokens");
  result.compute = ReadSeconds(fields, "seconds");
  return Finish(fields, std::move(result));
}

}  // namespace gdf::train
