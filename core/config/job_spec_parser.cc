// ParseJobSpec: one function a section of job.yaml, then the rules between sections.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/config/job_spec.h"
#include "core/config/job_spec_names.h"
#include "core/config/model_limits.h"
#include "core/config/units.h"
#include "core/config/yaml_reader.h"
#include "core/config/yaml_setting.h"

namespace gdf::config {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxBatch = 65'536;
constexpr int64_t kMaxSequence = 1 << 20;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxSeed = (int64_t{1} << 53) - 1;  // exact in JSON too
constexpr int64_t kMaxNodes = 10'000;
constexpr int64_t kMaxGpus = 16;
constexpr int64_t kMaxPriority = 100;
constexpr int64_t kMaxFragments = 1024;
constexpr uint64_t kMaxMemory = uint64_t{1} << 50;
constexpr absl::Duration kMinRoundDeadline = absl::Seconds(1);
constexpr absl::Duration kMaxRoundDeadline = absl::Hours(7 * 24);
constexpr NumberRange kLearningRates = {0, 1000, /*min_open=*/true};
constexpr double kLeastNormFactor = 2;  // deltas of one round differ by less
constexpr double kUsualMixing = 0.5;  // Streaming DiLoCo's, where a result comes late
constexpr NumberRange kBetas = {0, 1, /*min_open=*/false, /*max_open=*/true};
constexpr NumberRange kEps = {0, 0.1, /*min_open=*/true};

class JobParser {
 public:
  JobParser(const YamlNode* root, Problems* problems)
      : problems_(problems),
        root_(root, "", problems),
        model_(nullptr, "", problems),
        data_(nullptr, "", problems),
        train_(nullptr, "", problems),
        rounds_(nullptr, "", problems) {}

  JobSpec Parse() {
    ReadName();
    root_.Enum<JobKind>("kind", Need::kRequired, kJobKinds, &spec_.kind);
    root_.Int("priority", Need::kOptional, {-kMaxPriority, kMaxPriority}, &spec_.priority);
    model_ = root_.Map("model", Need::kRequired);
    data_ = root_.Map("data", Need::kRequired);
    train_ = root_.Map("train", Need::kRequired);
    rounds_ = root_.Map("rounds", Need::kRequired);
    ReadModel();
    ReadData();
    ReadTrain();
    ReadRounds();
    ReadNodes(root_.Map("nodes", Need::kOptional));
    ReadOutput(root_.Map("output", Need::kOptional));
    ReadCheckpoints(root_.Map("checkpoints", Need::kOptional));
    YamlMap limits = root_.Map("limits", Need::kOptional);
    limits.Duration("max_wall_time", Need::kOptional, {absl::ZeroDuration(), kMaxDuration},
                    &spec_.limits.max_wall_time);
    limits.Finish();
    root_.Finish();
    CheckBetweenSections();
    return std::move(spec_);
  }

 private:
  void ReadName() {
    constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz0123456789";
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    constexpr size_t kMaxName = 63;
    std::string name;
    root_.String("name", Need::kRequired, &name);
    if (name.empty()) return;
    if (name.size() > kMaxName || kLower.find(name[0]) == std::string_view::npos ||
        name.find_first_not_of(kAllowed) != std::string::npos) {
      root_.Reject(
          "name",
          "must be 1 to 63 of the characters a-z 0-9 . _ - and begin with a letter or digit");
      return;
    }
    spec_.name = name;
  }

  PathEntry ReadPath(YamlMap* map, std::string_view key, Need need) {
    PathEntry entry;
    map->String(key, need, &entry.path);
    entry.at = map->At(key);
    CheckPath(map, key, entry.path);
    return entry;
  }

  void CheckPath(YamlMap* map, std::string_view key, const std::string& path) {
    constexpr size_t kMaxPath = 4096;
    if (path.size() > kMaxPath) map->Reject(key, "is longer than 4096 bytes");
  }

  std::vector<PathEntry> ReadPaths(YamlMap* map, std::string_view key) {
    std::vector<std::string> paths;
    std::vector<SourceLocation> places;
    map->Strings(key, Need::kOptional, &paths, &places);
    std::vector<PathEntry> entries;
    for (size_t i = 0; i < paths.size(); ++i) {
      CheckPath(map, key, paths[i]);
      entries.push_back({std::move(paths[i]), places[i]});
    }
    return entries;
  }

  void ReadModel() {
    const bool from = model_.Has("from"), gpt2 = model_.Has("gpt2"), llama = model_.Has("llama");
    if (model_.present() && (from ? 1 : 0) + (gpt2 ? 1 : 0) + (llama ? 1 : 0) != 1) {
      problems_->Add(model_.At(""), "'model' must have exactly one of 'from', 'gpt2' and 'llama'");
    }
    PathEntry folder = ReadPath(&model_, "from", Need::kOptional);
    if (from) spec_.model.from = std::move(folder);
    if (gpt2) ReadGpt2(model_.Map("gpt2", Need::kOptional));
    if (llama) ReadLlama(model_.Map("llama", Need::kOptional));
    if (!gpt2) model_.Know("gpt2");
    if (!llama) model_.Know("llama");
    model_.Finish();
    if (from && spec_.kind == JobKind::kTrain && root_.Has("kind")) {
      model_.Reject("from",
                    "is for kind: finetune; kind: train starts from random parameters, so "
                    "describe the model with 'gpt2' or 'llama'");
    }
    if ((gpt2 || llama) && spec_.kind == JobKind::kFinetune) {
      problems_->Add(
          model_.At(gpt2 ? "gpt2" : "llama"),
          "kind: finetune starts from existing weights: give their folder as 'model.from'");
    }
  }

  // A vocabulary of 0 is written "auto".
  void ReadVocab(YamlMap* map, int64_t* vocab) {
    std::string word;
    if (map->Has("vocab")) map->String("vocab", Need::kOptional, &word);
    if (word == "auto") {
      *vocab = 0;
    } else {
      map->Int("vocab", Need::kOptional, {1, kMaxVocab}, vocab);
    }
  }

  void ReadGpt2(YamlMap map) {
    const size_t problems_before = problems_->size();
    Gpt2Shape s;
    map.Int("layers", Need::kRequired, {1, kMaxLayers}, &s.layers);
    map.Int("heads", Need::kRequired, {1, kMaxHeads}, &s.heads);
    map.Int("width", Need::kRequired, {1, kMaxWidth}, &s.width);
    map.Int("context", Need::kRequired, {1, kMaxContext}, &s.context);
    s.ffn_width = 4 * s.width;
    map.Int("ffn_width", Need::kOptional, {1, kMaxFfnWidth}, &s.ffn_width);
    ReadVocab(&map, &s.vocab);
    map.Bool("bias", Need::kOptional, &s.bias);
    map.Bool("tied_embeddings", Need::kOptional, &s.tied_embeddings);
    map.Number("layer_norm_eps", Need::kOptional, kEps, &s.layer_norm_eps);
    map.Enum<Activation>("activation", Need::kOptional, kGpt2Activations, &s.activation);
    map.Finish();
    TakeShape(&map, problems_before, s);
  }

  void ReadLlama(YamlMap map) {
    const size_t problems_before = problems_->size();
    LlamaShape s;
    map.Int("layers", Need::kRequired, {1, kMaxLayers}, &s.layers);
    map.Int("heads", Need::kRequired, {1, kMaxHeads}, &s.heads);
    s.kv_heads = s.heads;
    map.Int("kv_heads", Need::kOptional, {1, kMaxHeads}, &s.kv_heads);
    map.Int("width", Need::kRequired, {1, kMaxWidth}, &s.width);
    if (map.Has("head_width")) {
      map.Int("head_width", Need::kOptional, {kMinHeadWidth, kMaxHeads}, &s.head_width);
    } else {
      map.Know("head_width");
      if (s.width % s.heads != 0 && problems_->size() == problems_before) {
        map.Reject("heads",
                   absl::StrFormat("must divide width (%d) when 'head_width' is not given, "
                                   "got %d",
                                   s.width, s.heads));
      }
      s.head_width = s.width / s.heads;
    }
    map.Int("ffn_width", Need::kRequired, {1, kMaxFfnWidth}, &s.ffn_width);
    map.Int("context", Need::kRequired, {1, kMaxContext}, &s.context);
    ReadVocab(&map, &s.vocab);
    map.Number("rope_theta", Need::kOptional, {0, 1e12, true}, &s.rope_theta);
    if (map.Has("rope_scaling")) ReadRopeScaling(map.Map("rope_scaling", Need::kOptional), &s);
    map.Number("rms_eps", Need::kOptional, kEps, &s.rms_eps);
    map.Bool("tied_embeddings", Need::kOptional, &s.tied_embeddings);
    map.Bool("attention_bias", Need::kOptional, &s.attention_bias);
    map.Bool("mlp_bias", Need::kOptional, &s.mlp_bias);
    if (!map.Has("rope_scaling")) map.Know("rope_scaling");
    map.Finish();
    TakeShape(&map, problems_before, s);
  }

  void ReadRopeScaling(YamlMap map, LlamaShape* s) {
    Llama3RopeScaling r;
    map.Number("factor", Need::kRequired, {0, 1e6, true}, &r.factor);
    map.Number("low_freq_factor", Need::kRequired, {0, 1e6, true}, &r.low_freq_factor);
    map.Number("high_freq_factor", Need::kRequired, {0, 1e6, true}, &r.high_freq_factor);
    map.Int("original_context", Need::kRequired, {1, kMaxContext}, &r.original_context);
    map.Finish();
    s->rope_scaling = r;
  }

  void TakeShape(YamlMap* map, size_t problems_before, const ModelShape& shape) {
    spec_.model.shape = shape;
    // Where a field could not be read its default stands in; what follows from that is no news.
    if (problems_->size() > problems_before) return;
    for (const ShapeProblem& problem : ShapeProblems(shape)) {
      map->Reject(problem.field, problem.message);
    }
    whole_shape_ = problems_->size() == problems_before;
  }

  void ReadData() {
    DataSpec& d = spec_.data;
    const bool text = data_.Has("text"), jsonl = data_.Has("jsonl");
    if (data_.present() && text == jsonl) {
      problems_->Add(data_.At(""), "'data' must have exactly one of 'text' and 'jsonl'");
    }
    d.format = jsonl ? DataFormat::kJsonl : DataFormat::kText;
    std::vector<PathEntry> text_files = ReadPaths(&data_, "text");
    std::vector<PathEntry> jsonl_files = ReadPaths(&data_, "jsonl");
    d.files = jsonl ? std::move(jsonl_files) : std::move(text_files);
    if (jsonl) {
      data_.String("field", Need::kOptional, &d.field);
    } else {
      data_.Forbid("field", "is for 'jsonl' only; remove it");
    }
    ReadTokenizer();
    // A model that is given here says what fits; of a folder's model only its config.json would.
    if (spec_.model.shape) d.sequence_length = std::min(kMaxSequence, Context(*spec_.model.shape));
    data_.Int("sequence_length", spec_.model.from ? Need::kRequired : Need::kOptional,
              {2, kMaxSequence}, &d.sequence_length);
    d.validation_files = ReadPaths(&data_, "validation_files");
    if (d.validation_files.empty()) {
      data_.Fraction("validation_fraction", Need::kOptional, {0, 0.5}, &d.validation_fraction);
    } else {
      d.validation_fraction = 0;
      data_.Forbid("validation_fraction",
                   "is not used when 'validation_files' is given; remove one");
    }
    data_.Finish();
  }

  void ReadTokenizer() {
    DataSpec& d = spec_.data;
    d.tokenizer = spec_.kind == JobKind::kFinetune ? TokenizerKind::kModel : TokenizerKind::kByte;
    PathEntry entry = ReadPath(&data_, "tokenizer", Need::kOptional);
    if (entry.path.empty()) return;
    for (const auto& [name, kind] : kTokenizers) {
      if (kind == TokenizerKind::kFile || name != entry.path) continue;
      d.tokenizer = kind;
      if (kind == TokenizerKind::kModel && !spec_.model.from) {
        data_.Reject("tokenizer", "cannot be 'model': this model does not come from a folder");
      }
      return;
    }
    if (!entry.path.ends_with(".json")) {
      data_.Reject("tokenizer",
                   absl::StrFormat("must be char, byte, model or the path of a tokenizer.json, got "
                                   "'%s'",
                                   entry.path.substr(0, 60)));
      return;
    }
    d.tokenizer = TokenizerKind::kFile;
    d.tokenizer_file = std::move(entry);
  }

  void ReadTrain() {
    TrainSpec& t = spec_.train;
    train_.Int("steps", Need::kRequired, {1, kMaxSteps}, &t.steps);
    train_.Int("batch_size", Need::kRequired, {1, kMaxBatch}, &t.batch_size);
    train_.Int("gradient_accumulation", Need::kOptional, {1, kMaxBatch}, &t.gradient_accumulation);
    ReadOptimizer(train_.Map("optimizer", Need::kRequired));
    ReadSchedule(train_.Map("schedule", Need::kOptional));
    train_.Number("clip_norm", Need::kOptional, {0, 1e6}, &t.clip_norm);
    train_.Enum<Precision>("precision", Need::kOptional, kPrecisions, &t.precision);
    train_.Bool("recompute", Need::kOptional, &t.recompute);
    train_.Int("threads", Need::kOptional, {0, kMaxThreads}, &t.threads);
    int64_t seed = 0;
    train_.Int("seed", Need::kOptional, {0, kMaxSeed}, &seed);
    t.seed = static_cast<uint64_t>(seed);
    train_.Finish();
  }

  void ReadOptimizer(YamlMap map) {
    OptimizerSpec& o = spec_.train.optimizer;
    map.Enum<InnerOptimizer>("kind", Need::kOptional, kInnerOptimizers, &o.kind);
    map.Number("lr", Need::kRequired, kLearningRates, &o.lr);
    map.Number("weight_decay", Need::kOptional, {0, 10}, &o.weight_decay);
    if (o.kind == InnerOptimizer::kAdamW) {
      map.Pair("betas", Need::kOptional, kBetas, &o.beta1, &o.beta2);
      map.Number("eps", Need::kOptional, kEps, &o.eps);
      map.Forbid("momentum", "is for sgd only; remove it");
    } else {
      map.Number("momentum", Need::kOptional, kBetas, &o.momentum);
      map.Forbid("betas", "is for adamw only; remove it");
      map.Forbid("eps", "is for adamw only; remove it");
    }
    map.Finish();
  }

  void ReadSchedule(YamlMap map) {
    const TrainSpec& t = spec_.train;
    ScheduleSpec& s = spec_.train.schedule;
    map.Enum<LrSchedule>("kind", Need::kRequired, kLrSchedules, &s.kind);
    map.Int("warmup_steps", Need::kOptional, {0, kMaxSteps}, &s.warmup_steps);
    if (s.kind == LrSchedule::kConstant) {
      map.Forbid("min_lr", "is not used by a constant schedule; remove it");
    } else {
      map.Number("min_lr", Need::kOptional, {0, kLearningRates.max}, &s.min_lr);
    }
    if (s.kind == LrSchedule::kWsd) {
      map.Int("decay_steps", Need::kRequired, {1, kMaxSteps}, &s.decay_steps);
    } else {
      map.Forbid("decay_steps", "is for wsd only; remove it");
    }
    map.Finish();
    if (t.steps > 0 && s.warmup_steps > t.steps) {
      map.Reject("warmup_steps", absl::StrFormat("must be at most train.steps (%d), got %d: set it to "
                                                 "%d or less, too",
                                                 t.steps, s.warmup_steps, t.steps));
    } else if (t.steps > 0 && s.warmup_steps + s.decay_steps > t.steps) {
      map.Reject(
          "decay_steps",
          absl::StrFormat("and warmup_steps together must be at most train.steps (%d), got %d",
                          t.steps, s.warmup_steps + s.decay_steps));
    }
    if (t.optimizer.lr > 0 && s.min_lr > t.optimizer.lr) {
      map.Reject("min_lr", absl::StrFormat("must be at most train.optimizer.lr (%s), got %s",
                                           FormatNumber(t.optimizer.lr), FormatNumber(s.min_lr)));
    }
  }

  void ReadRounds() {
    RoundsSpec& r = spec_.rounds;
    rounds_.Int("inner_steps", Need::kRequired, {1, kMaxSteps}, &r.inner_steps);
    ReadFragments();
    ReadOuter(rounds_.Map("outer", Need::kOptional));
    ReadCodec();
    ReadErrorFeedback();
    rounds_.Number("clip_delta_norm", Need::kOptional, {0, 1e6}, &r.clip_delta_norm);
    ReadAnomalies(rounds_.Map("anomalies", Need::kOptional));
    rounds_.Bool("steps_by_speed", Need::kOptional, &r.steps_by_speed);
    ReadLate(rounds_.Map("late", Need::kOptional));
    r.validate_every = r.fragments;
    rounds_.Int("validate_every", Need::kOptional, {1, kMaxSteps}, &r.validate_every);
    rounds_.Int("validate_batches", Need::kOptional, {0, kMaxSteps}, &r.validate_batches);
    rounds_.Duration("round_deadline", Need::kOptional, {kMinRoundDeadline, kMaxRoundDeadline},
                     &r.round_deadline);
    rounds_.Finish();
  }

  void ReadAnomalies(YamlMap map) {
    AnomaliesSpec& a = spec_.rounds.anomalies;
    map.Number("delta_norm", Need::kOptional, {0, 1e6}, &a.delta_norm);
    if (a.delta_norm != 0 && a.delta_norm < kLeastNormFactor) {
      map.Reject("delta_norm", absl::StrFormat("must be 0 or at least %s, got %s", FormatNumber(kLeastNormFactor),
                                               FormatNumber(a.delta_norm)));
    }
    map.Number("loss_jump", Need::kOptional, {0, 1000}, &a.loss_jump);
    map.Int("node_rounds", Need::kOptional, {0, AnomaliesSpec::kWindow}, &a.node_rounds);
    map.Int("model_rounds", Need::kOptional, {0, 1000}, &a.model_rounds);
    map.Int("rollbacks", Need::kOptional, {0, AnomaliesSpec::kMostRollbacks}, &a.rollbacks);
    map.Finish();
  }

  void ReadLate(YamlMap map) {
    LateSpec& late = spec_.rounds.late;
    map.Number("after", Need::kOptional, {0, 1000}, &late.after);
    if (late.after != 0 && late.after < 1) {
      map.Reject("after", absl::StrFormat("must be 0 or at least 1, got %s", FormatNumber(late.after)));
    }
    if (!spec_.rounds.error_feedback) late.weight = 0;  // nothing is carried to a later delta
    map.Number("weight", Need::kOptional, {0, 1}, &late.weight);
    if (!spec_.rounds.error_feedback && late.weight > 0) {
      map.Reject("weight", "must be 0 where rounds.error_feedback is false: nothing is carried to a later round");
    }
    map.Finish();
  }

  // Streaming DiLoCo (arXiv:2501.18512).
  void ReadFragments() {
    RoundsSpec& r = spec_.rounds;
    rounds_.Int("fragments", Need::kOptional, {1, kMaxFragments}, &r.fragments);
    if (r.inner_steps % r.fragments != 0) {
      rounds_.Reject("fragments", absl::StrFormat("must divide rounds.inner_steps (%d), got %d",
                                                  r.inner_steps, r.fragments));
      r.fragments = 1;  // the rest is checked as without
    }
    const int64_t length = r.inner_steps / r.fragments;
    rounds_.Int("delay_steps", Need::kOptional, {0, kMaxSteps}, &r.delay_steps);
    if (r.delay_steps >= length) {
      rounds_.Reject("delay_steps",
                     absl::StrFormat("must be below the steps of a round (%d), got %d", length,
                                     r.delay_steps));
    }
    r.mixing = r.delay_steps > 0 ? kUsualMixing : 0;
    rounds_.Number("mixing", Need::kOptional, kBetas, &r.mixing);
  }

  void ReadOuter(YamlMap map) {
    OuterSpec& o = spec_.rounds.outer;
    map.Enum<OuterOptimizer>("optimizer", Need::kOptional, kOuterOptimizers, &o.optimizer);
    if (o.optimizer == OuterOptimizer::kSgd) {
      o = {.optimizer = OuterOptimizer::kSgd, .lr = 1.0, .momentum = 0};
      map.Forbid("momentum", "is for nesterov only; remove it");
    } else {
      map.Number("momentum", Need::kOptional, kBetas, &o.momentum);
    }
    map.Number("lr", Need::kOptional, {0, 10, /*min_open=*/true}, &o.lr);
    map.Finish();
  }

  void ReadCodec() {
    std::vector<std::string> texts;
    std::vector<SourceLocation> places;
    rounds_.Strings("codec", Need::kOptional, &texts, &places);
    if (texts.empty()) return;
    std::vector<CodecSpec>& codecs = spec_.rounds.codecs;
    if (texts == std::vector<std::string>{"auto"}) {
      codecs = AutoCodecs();
      return;
    }
    if (texts.size() == 1 && IsPowerSgd(texts[0])) return ReadPowerSgd(texts[0], places[0]);
    codecs.clear();
    for (size_t i = 0; i < texts.size(); ++i) {
      const absl::StatusOr<CodecSpec> codec = CodecSpec::Parse(texts[i]);
      std::string wrong;
      if (!codec.ok()) wrong = std::string(codec.status().message());
      if (!CodecSpec::IsNamed(texts[i])) wrong += "; or auto or powersgd[:RANK], alone";
      if (IsPowerSgd(texts[i])) wrong = "must name powersgd alone: its rounds have two passes, others one";
      if (codec.ok() && std::find(codecs.begin(), codecs.end(), *codec) != codecs.end()) {
        wrong = absl::StrFormat("names %s twice", codec->ToString());
      }
      if (!wrong.empty()) problems_->Add(places[i], absl::StrFormat("'%s' %s", rounds_.Path("codec"), wrong));
      if (codec.ok()) codecs.push_back(*codec);
    }
    if (codecs.size() > kMaxCodecs) rounds_.Reject("codec", absl::StrFormat("must name at most %d codecs", kMaxCodecs));
  }

  // Its factors stand for whole matrices.
  void ReadPowerSgd(const std::string& text, SourceLocation place) {
    RoundsSpec& r = spec_.rounds;
    const absl::StatusOr<uint32_t> rank = ParsePowerSgd(text);
    if (!rank.ok()) {
      problems_->Add(place, absl::StrFormat("'%s' %s", rounds_.Path("codec"), rank.status().message()));
      return;
    }
    r.rank = *rank;
    r.codecs = {{CodecKind::kFp32}};
    if (r.fragments > 1) rounds_.Reject("fragments", "must be 1 with codec powersgd, which takes matrices whole");
    if (r.delay_steps > 0) {
      rounds_.Reject("delay_steps", "must be 0 with codec powersgd, whose second pass needs the worker during the exchange");
    }
  }

  // DESIGN: beta = 1 with outer Nesterov, or beta < 1 with plain outer SGD, never both.
  void ReadErrorFeedback() {
    RoundsSpec& r = spec_.rounds;
    const bool lossless =
        r.rank == 0 && std::all_of(r.codecs.begin(), r.codecs.end(),
                                   [](const CodecSpec& codec) { return codec.kind == CodecKind::kFp32; });
    r.error_feedback = !lossless;
    rounds_.Bool("error_feedback", Need::kOptional, &r.error_feedback);
    if (lossless && r.error_feedback) {
      rounds_.Reject("error_feedback", "has nothing to feed back with codec fp32; remove it");
    }
    if (!r.error_feedback) {
      rounds_.Forbid("error_feedback_beta", "is not used without error_feedback; remove it");
      return;
    }
    rounds_.Number("error_feedback_beta", Need::kOptional, {0, 1, /*min_open=*/true},
                   &r.error_feedback_beta);
    if (r.error_feedback_beta != 1 && r.outer.optimizer == OuterOptimizer::kNesterov) {
      rounds_.Reject("error_feedback_beta",
                     absl::StrFormat("must be 1 with outer nesterov, got %s: the residual and the "
                                     "momentum would damp the same deltas; use outer sgd with lr 1",
                                     FormatNumber(r.error_feedback_beta)));
    }
  }

  void ReadNodes(YamlMap map) {
    NodesSpec& n = spec_.nodes;
    if (map.Has("count")) {
      map.Int("count", Need::kOptional, {1, kMaxNodes}, &n.min);
      n.max = n.min;
      map.Forbid("min", "cannot be given together with 'count'");
      map.Forbid("max", "cannot be given together with 'count'");
    } else {
      map.Know("count");
      map.Int("min", Need::kOptional, {1, kMaxNodes}, &n.min);
      n.max = n.min;
      map.Int("max", Need::kOptional, {1, kMaxNodes}, &n.max);
      if (n.max < n.min) {
        map.Reject("max", absl::StrFormat("must be at least nodes.min (%d), got %d", n.min, n.max));
      }
    }
    map.Size("memory", Need::kOptional, {0, kMaxMemory}, &n.memory_bytes);
    map.Enum<Device>("device", Need::kOptional, kDevices, &n.device);
    if (n.device == Device::kGpu) {
      map.Int("gpus", Need::kOptional, {0, kMaxGpus}, &n.gpus);
      map.Size("gpu_memory", Need::kOptional, {0, kMaxMemory}, &n.gpu_memory_bytes);
    } else {
      map.Forbid("gpus", "is for 'device: gpu' only; remove it");
      map.Forbid("gpu_memory", "is for 'device: gpu' only; remove it");
    }
    map.Strings("where", Need::kOptional, &n.where);
    if (!n.where.empty() && n.where.size() < static_cast<size_t>(n.min)) {
      map.Reject("where", absl::StrFormat("must name at least as many nodes as the job needs (%d), "
                                          "got %u",
                                          n.min, n.where.size()));
    }
    ReadSites(&map);
    map.Finish();
  }

  void ReadSites(YamlMap* map) {
    NodesSpec& n = spec_.nodes;
    std::string word;
    map->Groups("sites", Need::kOptional, &word, &n.sites);
    if (!n.sites.empty()) n.site_source = SiteSource::kNamed;
    if (word == "none") n.site_source = SiteSource::kNone;
    if (!word.empty() && word != "auto" && word != "none") {
      map->Reject("sites", absl::StrFormat("must be 'auto', 'none' or lists of nodes, got '%s'", word));
    }
    std::set<std::string> named;
    for (const std::vector<std::string>& site : n.sites) {
      for (const std::string& node : site) {
        if (!named.insert(node).second) map->Reject("sites", absl::StrFormat("names '%s' twice", node));
      }
    }
  }

  void ReadOutput(YamlMap map) {
    OutputSpec& o = spec_.output;
    map.Enum<WeightDtype>("dtype", Need::kOptional, kWeightDtypes, &o.dtype);
    o.checkpoint_every = spec_.rounds.fragments;
    map.Int("checkpoint_every", Need::kOptional, {1, kMaxSteps}, &o.checkpoint_every);
    map.Int("keep_checkpoints", Need::kOptional, {1, 1000}, &o.keep_checkpoints);
    map.Bool("keep_model", Need::kOptional, &o.keep_model);
    map.Bool("keep_data", Need::kOptional, &o.keep_data);
    map.Finish();
  }

  void ReadCheckpoints(YamlMap map) {
    CheckpointsSpec& c = spec_.checkpoints;
    map.Int("every", Need::kOptional, {0, kMaxSteps}, &c.every);
    map.Int("keep", Need::kOptional, {1, 1000}, &c.keep);
    map.Int("replicas", Need::kOptional, {1, 1000}, &c.replicas);
    map.Finish();
  }

  void CheckBetweenSections() {
    const TrainSpec& t = spec_.train;
    if (t.steps > 0 && spec_.rounds.inner_steps > t.steps) {
      rounds_.Reject("inner_steps", absl::StrFormat("must be at most train.steps (%d), got %d",
                                                    t.steps, spec_.rounds.inner_steps));
    }
    if (spec_.nodes.gpus > t.batch_size) {
      train_.Reject("batch_size", absl::StrFormat("must be at least nodes.gpus (%d), over which it is dealt out, got %d",
                                                  spec_.nodes.gpus, t.batch_size));
    }
    if (!whole_shape_) return;
    for (const ShapeProblem& problem : ProblemsWithShape(spec_, *spec_.model.shape)) {
      const size_t dot = problem.field.find('.');
      YamlMap& section = problem.field.substr(0, dot) == "data" ? data_ : rounds_;
      section.Reject(problem.field.substr(dot + 1), problem.message);
    }
  }

  JobSpec spec_;
  bool whole_shape_ = false;  // spec_.model.shape is what job.yaml says, and can be built
  Problems* problems_;
  YamlMap root_, model_, data_, train_, rounds_;
};

}  // namespace

std::optional<JobSpec> ParseJobSpec(std::string_view text, absl::Span<const std::string> settings,
                                    Problems* problems) {
  std::optional<YamlNode> root = ParseYaml(text, problems);
  if (!root) return std::nullopt;
  if (root->kind != YamlNode::Kind::kMap) {
    problems->Add({1, 1},
                  "must be a mapping with the keys name, kind, model, data, train and rounds");
    return std::nullopt;
  }
  for (const std::string& setting : settings) ApplySetting(setting, &*root, problems);
  JobSpec spec = JobParser(&*root, problems).Parse();
  if (!problems->empty()) return std::nullopt;
  return spec;
}

absl::StatusOr<JobSpec> ParseJobSpec(std::string_view text, std::string_view filename) {
  Problems problems(filename);
  std::optional<JobSpec> spec = ParseJobSpec(text, {}, &problems);
  if (!spec) return problems.ToStatus();
  return *std::move(spec);
}

}  // namespace gdf::config
