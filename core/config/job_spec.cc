#include "core/config/job_spec.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/config/job_spec_names.h"
#include "core/config/units.h"
#include "core/config/yaml_node.h"

namespace gdf::config {
namespace {

template <typename E, size_t N>
std::string_view NameOf(const std::pair<std::string_view, E> (&names)[N], E value) {
  const auto* found = std::find_if(std::begin(names), std::end(names),
                                   [&](const auto& entry) { return entry.second == value; });
  GDF_CHECK(found != std::end(names));
  return found->first;
}

std::string FlowOf(const std::string& item) { return QuoteYaml(item); }
// Of texts, or of lists of them.
template <typename Item>
std::string FlowOf(const std::vector<Item>& items) {
  return "[" + absl::StrJoin(items, ", ", [](std::string* out, const Item& item) { *out += FlowOf(item); }) + "]";
}

// Writes "key: value" lines under nested section headings.
class YamlWriter {
 public:
  void Open(std::string_view key) {
    absl::StrAppendFormat(&text_, "%s%s:\n", std::string(indent_, ' '), key);
    indent_ += 2;
  }
  void Close() { indent_ -= 2; }
  void Plain(std::string_view key, std::string_view value) {
    absl::StrAppendFormat(&text_, "%s%s: %s\n", std::string(indent_, ' '), key, value);
  }
  void Text(std::string_view key, std::string_view value) { Plain(key, QuoteYaml(value)); }
  void Int(std::string_view key, int64_t value) { Plain(key, absl::StrFormat("%d", value)); }
  void Bool(std::string_view key, bool value) { Plain(key, value ? "true" : "false"); }
  void Number(std::string_view key, double value) { Plain(key, FormatNumber(value)); }
  template <typename Item>
  void List(std::string_view key, const std::vector<Item>& items) {
    Plain(key, FlowOf(items));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  size_t indent_ = 0;
};

std::vector<std::string> PathsOf(const std::vector<PathEntry>& entries) {
  std::vector<std::string> paths;
  for (const PathEntry& entry : entries) paths.push_back(entry.path);
  return paths;
}

void WriteVocab(YamlWriter* w, int64_t vocab) {
  if (vocab == 0) {
    w->Plain("vocab", "auto");
  } else {
    w->Int("vocab", vocab);
  }
}

void Write(YamlWriter* w, const Gpt2Shape& s) {
  w->Open("gpt2");
  w->Int("layers", s.layers);
  w->Int("heads", s.heads);
  w->Int("width", s.width);
  w->Int("ffn_width", s.ffn_width);
  w->Int("context", s.context);
  WriteVocab(w, s.vocab);
  w->Bool("bias", s.bias);
  w->Bool("tied_embeddings", s.tied_embeddings);
  w->Number("layer_norm_eps", s.layer_norm_eps);
  w->Plain("activation", ToString(s.activation));
  w->Close();
}

void Write(YamlWriter* w, const LlamaShape& s) {
  w->Open("llama");
  w->Int("layers", s.layers);
  w->Int("heads", s.heads);
  w->Int("kv_heads", s.kv_heads);
  w->Int("head_width", s.head_width);
  w->Int("width", s.width);
  w->Int("ffn_width", s.ffn_width);
  w->Int("context", s.context);
  WriteVocab(w, s.vocab);
  w->Number("rope_theta", s.rope_theta);
  if (s.rope_scaling) {
    w->Open("rope_scaling");
    w->Number("factor", s.rope_scaling->factor);
    w->Number("low_freq_factor", s.rope_scaling->low_freq_factor);
    w->Number("high_freq_factor", s.rope_scaling->high_freq_factor);
    w->Int("original_context", s.rope_scaling->original_context);
    w->Close();
  }
  w->Number("rms_eps", s.rms_eps);
  w->Bool("tied_embeddings", s.tied_embeddings);
  w->Bool("attention_bias", s.attention_bias);
  w->Bool("mlp_bias", s.mlp_bias);
  w->Close();
}

void Write(YamlWriter* w, const DataSpec& d) {
  w->Open("data");
  w->List(ToString(d.format), PathsOf(d.files));
  if (d.format == DataFormat::kJsonl) w->Text("field", d.field);
  if (d.tokenizer == TokenizerKind::kFile) {
    w->Text("tokenizer", d.tokenizer_file.path);
  } else {
    w->Plain("tokenizer", ToString(d.tokenizer));
  }
  w->Int("sequence_length", d.sequence_length);
  if (d.validation_files.empty()) {
    w->Number("validation_fraction", d.validation_fraction);
  } else {
    w->List("validation_files", PathsOf(d.validation_files));
  }
  w->Close();
}

void Write(YamlWriter* w, const TrainSpec& t) {
  w->Open("train");
  w->Int("steps", t.steps);
  w->Int("batch_size", t.batch_size);
  w->Int("gradient_accumulation", t.gradient_accumulation);
  w->Open("optimizer");
  w->Plain("kind", ToString(t.optimizer.kind));
  w->Number("lr", t.optimizer.lr);
  if (t.optimizer.kind == InnerOptimizer::kAdamW) {
    w->Plain("betas", absl::StrFormat("[%s, %s]", FormatNumber(t.optimizer.beta1),
                                      FormatNumber(t.optimizer.beta2)));
    w->Number("eps", t.optimizer.eps);
  } else {
    w->Number("momentum", t.optimizer.momentum);
  }
  w->Number("weight_decay", t.optimizer.weight_decay);
  w->Close();
  w->Open("schedule");
  w->Plain("kind", ToString(t.schedule.kind));
  w->Int("warmup_steps", t.schedule.warmup_steps);
  if (t.schedule.kind != LrSchedule::kConstant) w->Number("min_lr", t.schedule.min_lr);
  if (t.schedule.kind == LrSchedule::kWsd) w->Int("decay_steps", t.schedule.decay_steps);
  w->Close();
  w->Number("clip_norm", t.clip_norm);
  w->Plain("precision", ToString(t.precision));
  w->Bool("recompute", t.recompute);
  w->Int("threads", t.threads);
  w->Int("seed", static_cast<int64_t>(t.seed));
  w->Close();
}

void Write(YamlWriter* w, const RoundsSpec& r) {
  w->Open("rounds");
  w->Int("inner_steps", r.inner_steps);
  w->Int("fragments", r.fragments);
  w->Int("delay_steps", r.delay_steps);
  w->Number("mixing", r.mixing);
  w->Open("outer");
  w->Plain("optimizer", ToString(r.outer.optimizer));
  w->Number("lr", r.outer.lr);
  if (r.outer.optimizer == OuterOptimizer::kNesterov) w->Number("momentum", r.outer.momentum);
  w->Close();
  std::vector<std::string> codecs;
  for (const CodecSpec& codec : r.codecs) codecs.push_back(codec.ToString());
  if (codecs.size() == 1) {
    w->Plain("codec", r.rank > 0 ? PowerSgdName(r.rank) : codecs[0]);
  } else if (r.codecs == AutoCodecs()) {
    w->Plain("codec", "auto");
  } else {
    w->List("codec", codecs);
  }
  w->Bool("error_feedback", r.error_feedback);
  if (r.error_feedback) w->Number("error_feedback_beta", r.error_feedback_beta);
  w->Number("clip_delta_norm", r.clip_delta_norm);
  w->Open("anomalies");
  w->Number("delta_norm", r.anomalies.delta_norm);
  w->Number("loss_jump", r.anomalies.loss_jump);
  w->Int("node_rounds", r.anomalies.node_rounds);
  w->Int("model_rounds", r.anomalies.model_rounds);
  w->Int("rollbacks", r.anomalies.rollbacks);
  w->Close();
  w->Bool("steps_by_speed", r.steps_by_speed);
  w->Open("late");
  w->Number("after", r.late.after);
  w->Number("weight", r.late.weight);
  w->Close();
  w->Int("validate_every", r.validate_every);
  w->Int("validate_batches", r.validate_batches);
  w->Plain("round_deadline", PrintDuration(r.round_deadline));
  w->Close();
}

void Write(YamlWriter* w, const NodesSpec& n) {
  w->Open("nodes");
  w->Int("min", n.min);
  w->Int("max", n.max);
  w->Plain("memory", FormatSize(n.memory_bytes));
  w->Plain("device", ToString(n.device));
  if (n.device == Device::kGpu) {
    w->Int("gpus", n.gpus);
    w->Plain("gpu_memory", FormatSize(n.gpu_memory_bytes));
  }
  if (!n.where.empty()) w->List("where", n.where);
  if (n.site_source == SiteSource::kNamed) {
    w->List("sites", n.sites);
  } else {
    w->Plain("sites", n.site_source == SiteSource::kMeasured ? "auto" : "none");
  }
  w->Close();
}

void Write(YamlWriter* w, const OutputSpec& o) {
  w->Open("output");
  w->Plain("dtype", ToString(o.dtype));
  w->Int("checkpoint_every", o.checkpoint_every);
  w->Int("keep_checkpoints", o.keep_checkpoints);
  w->Bool("keep_model", o.keep_model);
  w->Bool("keep_data", o.keep_data);
  w->Close();
}

}  // namespace

std::string ToYaml(const JobSpec& spec) {
  YamlWriter w;
  w.Text("name", spec.name);
  w.Plain("kind", ToString(spec.kind));
  w.Int("priority", spec.priority);
  w.Open("model");
  if (spec.model.from) w.Text("from", spec.model.from->path);
  if (spec.model.shape) std::visit([&](const auto& shape) { Write(&w, shape); }, *spec.model.shape);
  w.Close();
  Write(&w, spec.data);
  Write(&w, spec.train);
  Write(&w, spec.rounds);
  Write(&w, spec.nodes);
  Write(&w, spec.output);
  w.Open("checkpoints");
  w.Int("every", spec.checkpoints.every);
  w.Int("keep", spec.checkpoints.keep);
  w.Int("replicas", spec.checkpoints.replicas);
  w.Close();
  w.Open("limits");
  w.Plain("max_wall_time", PrintDuration(spec.limits.max_wall_time));
  w.Close();
  return w.Take();
}

std::vector<ShapeProblem> ProblemsWithShape(const JobSpec& spec, const ModelShape& shape) {
  std::vector<ShapeProblem> problems;
  const int64_t context = Context(shape);
  if (spec.data.sequence_length > context) {
    problems.push_back({"data.sequence_length", absl::StrFormat("must be at most the model's context (%d), got %d",
                                                                context, spec.data.sequence_length)});
  }
  if (Vocab(shape) == 0) return problems;
  constexpr int64_t kUnit = CodecSpec::kMaxBlock;  // a fragment's least
  const int64_t most = (NumParameters(shape) + kUnit - 1) / kUnit;
  if (spec.rounds.fragments > 1 && spec.rounds.fragments > most) {
    problems.push_back({"rounds.fragments",
                        absl::StrFormat("must be at most %d with a model of %d parameters, got %d: a fragment has %d or more",
                                        most, NumParameters(shape), spec.rounds.fragments, kUnit)});
  }
  return problems;
}

absl::Status ValidateWithShape(const JobSpec& spec, const ModelShape& shape) {
  const std::vector<ShapeProblem> problems = ProblemsWithShape(spec, shape);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("'%s' %s", problems[0].field, problems[0].message));
}

int64_t NumRounds(const JobSpec& spec) {
  const int64_t length = spec.rounds.inner_steps / spec.rounds.fragments;
  return (spec.train.steps + length - 1) / length;
}

RoundSteps StepsOfRound(const JobSpec& spec, int64_t round) {
  const int64_t length = spec.rounds.inner_steps / spec.rounds.fragments;
  RoundSteps steps;
  steps.from = round * length;
  steps.until = std::min(steps.from + length, spec.train.steps);
  const bool last = steps.until == spec.train.steps;
  steps.emit = last ? steps.until : steps.until - spec.rounds.delay_steps;
  return steps;
}

RoundSteps FirstOf(const RoundSteps& whole, int64_t steps) {
  const int64_t delay = (whole.until - whole.emit) * steps / (whole.until - whole.from);
  return {whole.from, whole.from + steps - delay, whole.from + steps};
}

bool KeepsCheckpoint(const JobSpec& spec, uint64_t rounds) {
  const uint64_t every = static_cast<uint64_t>(spec.checkpoints.every);
  return every > 0 && rounds > 0 && (rounds % every == 0 || rounds == static_cast<uint64_t>(NumRounds(spec)));
}

std::vector<uint64_t> KeptCheckpoints(const JobSpec& spec, uint64_t rounds) {
  std::vector<uint64_t> kept;
  const uint64_t every = static_cast<uint64_t>(spec.checkpoints.every);
  if (every == 0) return kept;
  if (rounds % every != 0 && KeepsCheckpoint(spec, rounds)) kept.push_back(rounds);
  for (uint64_t at = rounds - rounds % every; at > 0 && kept.size() < static_cast<size_t>(spec.checkpoints.keep); at -= every) {
    kept.push_back(at);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

double LearningRateAt(const TrainSpec& train, int64_t step) {
  const ScheduleSpec& s = train.schedule;
  const double lr = train.optimizer.lr;
  if (step < s.warmup_steps) {
    return lr * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  }
  const int64_t decay_start =
      s.kind == LrSchedule::kWsd ? train.steps - s.decay_steps : s.warmup_steps;
  if (s.kind == LrSchedule::kConstant || step < decay_start) return lr;
  const double p =
      std::min(1.0, static_cast<double>(step - decay_start) /
                        static_cast<double>(std::max<int64_t>(1, train.steps - decay_start)));
  if (s.kind == LrSchedule::kCosine) {
    return s.min_lr + (lr - s.min_lr) * (1 + std::cos(std::numbers::pi * p)) / 2;
  }
  return lr + (s.min_lr - lr) * p;
}

std::string_view ToString(JobKind kind) { return NameOf(kJobKinds, kind); }
std::string_view ToString(DataFormat format) { return NameOf(kDataFormats, format); }
std::string_view ToString(TokenizerKind kind) { return NameOf(kTokenizers, kind); }
std::string_view ToString(InnerOptimizer kind) { return NameOf(kInnerOptimizers, kind); }
std::string_view ToString(LrSchedule kind) { return NameOf(kLrSchedules, kind); }
std::string_view ToString(Precision precision) { return NameOf(kPrecisions, precision); }
std::string_view ToString(OuterOptimizer kind) { return NameOf(kOuterOptimizers, kind); }
std::string_view ToString(Device device) { return NameOf(kDevices, device); }
std::string_view ToString(WeightDtype dtype) { return NameOf(kWeightDtypes, dtype); }
std::string_view ToString(Activation activation) { return NameOf(kActivations, activation); }

}  // namespace gdf::config
