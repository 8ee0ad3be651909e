#include "core/config/job_spec.h"

#include "core/config/job_advice.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gdf::config {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

JobSpec Parse(const std::string& text, const std::string& name) {
  const auto spec = ParseJobSpec(text, name);
  INFO(spec.status());
  REQUIRE(spec.ok());
  return *spec;
}

std::vector<JobSpec> Examples() {
  std::vector<JobSpec> specs;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GDF_SOURCE_DIR) + "/configs/examples")) {
    if (entry.path().extension() == ".yaml") {
      specs.push_back(Parse(ReadFile(entry.path()), entry.path().filename()));
    }
  }
  return specs;
}

JobSpec Example(const std::string& name) {
  return Parse(ReadFile(std::string(GDF_SOURCE_DIR) + "/configs/examples/" + name), name);
}

TEST_CASE("every example parses, and its canonical form is the same job") {
  const std::vector<JobSpec> specs = Examples();
  REQUIRE(specs.size() >= 5);
  for (const JobSpec& spec : specs) {
    const std::string yaml = ToYaml(spec);
    INFO(yaml);
    CHECK(Parse(yaml, "canonical.yaml") == spec);
    CHECK(ToYaml(Parse(yaml, "canonical.yaml")) == yaml);
  }
}

TEST_CASE("every yaml block of docs/job-spec.md parses") {
  const std::string doc = ReadFile(std::string(GDF_SOURCE_DIR) + "/docs/job-spec.md");
  int blocks = 0;
  const std::string open = "```yaml\n";
  for (size_t at = doc.find(open); at != std::string::npos; at = doc.find(open, at + 1)) {
    const size_t begin = at + open.size();
    Parse(doc.substr(begin, doc.find("```", begin) - begin), "docs/job-spec.md");
    ++blocks;
  }
  CHECK(blocks >= 1);
}

TEST_CASE("nodes.sites: measured, none, or named") {
  const auto sites = [](const std::string& value) {
    std::string text = ToYaml(Example("char-gpt.yaml"));
    const std::string usual = "sites: auto";
    const size_t at = text.find(usual);
    REQUIRE(at != std::string::npos);
    const JobSpec spec = Parse(text.replace(at, usual.size(), "sites: " + value), "job.yaml");
    CHECK(Parse(ToYaml(spec), "again.yaml") == spec);
    return spec.nodes;
  };
  CHECK(sites("auto").site_source == SiteSource::kMeasured);
  CHECK(sites("none").site_source == SiteSource::kNone);
  const NodesSpec named = sites("[[berlin-1, 'berlin 2'], [oslo]]");
  CHECK(named.site_source == SiteSource::kNamed);
  CHECK(named.sites == std::vector<std::vector<std::string>>{{"berlin-1", "berlin 2"}, {"oslo"}});
}

TEST_CASE("priority: a whole number from -100 to 100") {
  JobSpec spec = Example("char-gpt.yaml");
  CHECK(spec.priority == 0);
  spec.priority = -100;
  CHECK(ParseJobSpec(ToYaml(spec), "job.yaml")->priority == -100);
  spec.priority = 101;
  const absl::Status refused = ParseJobSpec(ToYaml(spec), "job.yaml").status();
  CHECK(std::string(refused.message()).find("'priority' must be a whole number from -100 to 100, got '101'") != std::string::npos);
}

TEST_CASE("docs/job-spec.md names every key that a job can have") {
  const std::string doc = ReadFile(std::string(GDF_SOURCE_DIR) + "/docs/job-spec.md");
  std::vector<JobSpec> specs = Examples();
  JobSpec scaled = Example("llama-from-scratch.yaml");
  std::get<LlamaShape>(*scaled.model.shape).rope_scaling = Llama3RopeScaling{};
  scaled.nodes.where = {"a", "b"};
  specs.push_back(scaled);
  std::set<std::string> keys;
  for (const JobSpec& spec : specs) {
    std::istringstream lines(ToYaml(spec));
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find_first_not_of(' ');
      keys.insert(line.substr(begin, line.find(':') - begin));
    }
  }
  CHECK(keys.size() > 70);
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(doc.find("`" + key + "`") != std::string::npos);
  }
}

TEST_CASE("char-gpt.yaml is the published nanoGPT recipe") {
  const JobSpec spec = Example("char-gpt.yaml");
  Gpt2Shape shape = std::get<Gpt2Shape>(*spec.model.shape);
  CHECK(shape == Gpt2Shape{.layers = 4,
                           .heads = 4,
                           .width = 128,
                           .ffn_width = 512,
                           .context = 64,
                           .vocab = 0,
                           .bias = false,
                           .tied_embeddings = true,
                           .layer_norm_eps = 1e-5,
                           .activation = Activation::kGelu});
  CHECK(spec.train.batch_size == 12);
  CHECK(spec.train.optimizer.lr == 1e-3);
  CHECK(spec.train.optimizer.beta1 == 0.9);
  CHECK(spec.train.optimizer.beta2 == 0.99);
  CHECK(spec.train.optimizer.weight_decay == 0.1);
  CHECK(spec.data.tokenizer == TokenizerKind::kChar);
  CHECK(spec.data.validation_fraction == 0.1);
  CHECK(spec.rounds.codecs == std::vector{CodecSpec{CodecKind::kInt8, 256}});
  CHECK(spec.rounds.error_feedback);
  CHECK(spec.rounds.outer == OuterSpec{OuterOptimizer::kNesterov, 0.7, 0.9});
  CHECK(spec.nodes.min == 4);
  CHECK(spec.nodes.max == 4);
}

TEST_CASE("a job has one codec, several in the order of preference, or those of auto") {
  const std::string text = ReadFile(std::string(GDF_SOURCE_DIR) + "/configs/examples/char-gpt.yaml");
  const auto with = [&](const std::string& codec) {
    std::string changed = text;
    const size_t at = changed.find("codec: int8");
    REQUIRE(at != std::string::npos);
    return changed.replace(at, 11, "codec: " + codec);
  };
  const auto parsed = [](const std::string& yaml) { return Parse(yaml, "job.yaml"); };
  const JobSpec several = parsed(with("[bf16, int8]"));
  CHECK(several.rounds.codecs == std::vector{CodecSpec{CodecKind::kBf16}, CodecSpec{CodecKind::kInt8, 256}});
  CHECK(parsed(ToYaml(several)) == several);
  CHECK(parsed(with("auto")).rounds.codecs == AutoCodecs());
  CHECK(ToYaml(parsed(with("auto"))).find("codec: auto\n") != std::string::npos);
  CHECK(parsed(with("auto")).rounds.error_feedback);
  const auto wrong = [&](const std::string& codec) {
    return std::string(ParseJobSpec(with(codec), "job.yaml").status().message());
  };
  CHECK(wrong("[bf16, bf16]").find("'rounds.codec' names bf16 twice") != std::string::npos);
  CHECK(wrong("[bf16, auto]").find("'rounds.codec' must be one of fp32") != std::string::npos);
  CHECK(wrong("[]") != "");
}

TEST_CASE("powersgd is a rank, whose factors go as fp32") {
  std::string text = ReadFile(std::string(GDF_SOURCE_DIR) + "/configs/examples/char-gpt.yaml");
  text.replace(text.find("codec: int8"), 11, "codec: powersgd");
  JobSpec spec = Parse(text, "job.yaml");
  CHECK(spec.rounds.rank == 4);
  CHECK(spec.rounds.codecs == std::vector{CodecSpec{CodecKind::kFp32}});
  CHECK(spec.rounds.error_feedback);
  CHECK(Warnings(spec).empty());
  spec.rounds.rank = 64;
  CHECK(ToYaml(spec).find("codec: powersgd:64\n") != std::string::npos);
  CHECK(Parse(ToYaml(spec), "job.yaml") == spec);
  spec.rounds.error_feedback = false;
  REQUIRE(Warnings(spec).size() == 1);
  CHECK(Warnings(spec)[0].find("codec powersgd:64 leaves out") != std::string::npos);
}

TEST_CASE("defaults that follow from other keys") {
  const JobSpec jsonl = Example("jsonl.yaml");
  CHECK(jsonl.rounds.outer == OuterSpec{OuterOptimizer::kSgd, 1.0, 0.0});
  CHECK_FALSE(jsonl.rounds.error_feedback);
  CHECK(jsonl.nodes == NodesSpec{});
  CHECK(std::get<Gpt2Shape>(*jsonl.model.shape).ffn_width == 1536);

  const JobSpec finetune = Example("finetune-smollm2.yaml");
  CHECK(finetune.data.tokenizer == TokenizerKind::kModel);
  CHECK(finetune.model.from->path == "SmolLM2-135M");
  CHECK(finetune.model.from->at.line == 7);
  CHECK(finetune.model.from->at.column == 9);
  CHECK(FormatLocation("job.yaml", finetune.model.from->at) == "job.yaml:7:9");

  const JobSpec llama = Example("llama-from-scratch.yaml");
  CHECK(std::get<LlamaShape>(*llama.model.shape).head_width == 64);
  CHECK(llama.data.validation_fraction == 0);
  CHECK(llama.limits.max_wall_time == absl::Hours(48));
  CHECK(llama.nodes.gpu_memory_bytes == uint64_t{16} << 30);
}

TEST_CASE("a slower node takes the first steps of a round, and of its delay as large a share") {
  const RoundSteps whole{100, 140, 150};
  const auto check = [&](int64_t steps, RoundSteps expected) {
    const RoundSteps taken = FirstOf(whole, steps);
    CHECK(taken.from == expected.from);
    CHECK(taken.emit == expected.emit);
    CHECK(taken.until == expected.until);
  };
  check(50, whole);
  check(25, {100, 120, 125});
  check(16, {100, 113, 116});
  check(1, {100, 101, 101});
}

TEST_CASE("any text survives the canonical form") {
  JobSpec spec = Example("jsonl.yaml");
  for (const std::string& text :
       {std::string("a: b # c"), std::string("\"quoted\" 'too' \\"),
        std::string("line\nbreak\ttab"), std::string("true"), std::string("~"),
        std::string("ünï ☃ 𝄞"), std::string(" lead trail "), std::string("\x01"),
        std::string("\xc2\x85 \xe2\x80\xa8 x")}) {
    spec.data.files = {{text, {}}};
    spec.data.field = text;
    INFO(ToYaml(spec));
    CHECK(Parse(ToYaml(spec), "job.yaml") == spec);
  }
}

void CheckSteps(const JobSpec& spec, int64_t round, RoundSteps expected) {
  const RoundSteps steps = StepsOfRound(spec, round);
  CHECK(steps.from == expected.from);
  CHECK(steps.emit == expected.emit);
  CHECK(steps.until == expected.until);
}

TEST_CASE("the last round takes what is left") {
  JobSpec spec;
  spec.train.steps = 105;
  spec.rounds.inner_steps = 50;
  CHECK(NumRounds(spec) == 3);
  CheckSteps(spec, 0, {0, 50, 50});
  CheckSteps(spec, 2, {100, 105, 105});
  spec.train.steps = 100;
  CHECK(NumRounds(spec) == 2);
  CheckSteps(spec, 1, {50, 100, 100});
}

TEST_CASE("a round is the steps of one fragment, and its last ones are the delay, but at the job's end") {
  JobSpec spec;
  spec.train.steps = 20;
  spec.rounds.inner_steps = 12;
  spec.rounds.fragments = 2;
  spec.rounds.delay_steps = 4;
  CHECK(NumRounds(spec) == 4);
  CheckSteps(spec, 0, {0, 2, 6});
  CheckSteps(spec, 2, {12, 14, 18});
  CheckSteps(spec, 3, {18, 20, 20});
}

TEST_CASE("with a delay half of the local parameters stays, and figures are per H steps, if nothing else is said") {
  const std::string text = R"(name: x
kind: train
model: {gpt2: {layers: 1, heads: 1, width: 8, context: 8}}
data: {text: [t]}
train: {steps: 100, batch_size: 1, optimizer: {lr: 1}}
rounds: {inner_steps: 12, )";
  JobSpec spec = Parse(text + "fragments: 3, delay_steps: 2}\n", "job.yaml");
  CHECK(spec.rounds.mixing == 0.5);
  CHECK(spec.rounds.validate_every == 3);
  CHECK(spec.output.checkpoint_every == 3);
  spec = Parse(text + "delay_steps: 11, mixing: 0.25, validate_every: 2}\n", "job.yaml");
  CHECK(spec.rounds.fragments == 1);
  CHECK(spec.rounds.mixing == 0.25);
  CHECK(spec.rounds.validate_every == 2);
  CHECK(spec.output.checkpoint_every == 1);
  CHECK(Parse(text + "}\n", "job.yaml").rounds.mixing == 0);
}

TEST_CASE("a checkpoint is kept every so many rounds and after the last, and none where nothing is said") {
  JobSpec spec;
  spec.train.steps = 70;
  spec.rounds.inner_steps = 10;
  CHECK_FALSE(KeepsCheckpoint(spec, 3));
  CHECK_FALSE(KeepsCheckpoint(spec, 7));
  spec.checkpoints.every = 3;
  std::vector<uint64_t> kept;
  for (uint64_t rounds = 0; rounds <= 8; ++rounds) {
    if (KeepsCheckpoint(spec, rounds)) kept.push_back(rounds);
  }
  CHECK(kept == std::vector<uint64_t>{3, 6, 7});
  spec.checkpoints.keep = 2;
  using Rounds = std::vector<uint64_t>;
  const Rounds expected[] = {{}, {}, {}, {3}, {3}, {3}, {3, 6}, {6, 7}};
  for (uint64_t rounds = 0; rounds <= 7; ++rounds) CHECK(KeptCheckpoints(spec, rounds) == expected[rounds]);
  spec.checkpoints.every = 0;
  CHECK(KeptCheckpoints(spec, 7).empty());
}

// Values by hand from the formulas; the cosine is nanoGPT's.
TEST_CASE("learning-rate schedules") {
  TrainSpec t;
  t.steps = 2000;
  t.optimizer.lr = 1e-3;
  t.schedule = {LrSchedule::kCosine, 100, 1e-4, 0};
  CHECK(LearningRateAt(t, 0) == 0);
  CHECK(LearningRateAt(t, 50) == Approx(5e-4));
  CHECK(LearningRateAt(t, 100) == Approx(1e-3));
  CHECK(LearningRateAt(t, 1050) == Approx(5.5e-4));         // half way
  CHECK(LearningRateAt(t, 575) == Approx(8.681980515e-4));  // 1e-4 + 0.45e-3 (1 + cos 45°)
  CHECK(LearningRateAt(t, 2000) == Approx(1e-4));

  t.schedule = {LrSchedule::kLinear, 0, 0, 0};
  CHECK(LearningRateAt(t, 500) == Approx(7.5e-4));
  t.schedule = {LrSchedule::kWsd, 100, 0, 400};
  CHECK(LearningRateAt(t, 1599) == Approx(1e-3));
  CHECK(LearningRateAt(t, 1800) == Approx(5e-4));
  t.schedule = {LrSchedule::kConstant, 10, 0, 0};
  CHECK(LearningRateAt(t, 5) == Approx(5e-4));
  CHECK(LearningRateAt(t, 1999) == 1e-3);
  t.steps = 10;  // all warm-up
  t.schedule = {LrSchedule::kCosine, 10, 0, 0};
  CHECK(LearningRateAt(t, 10) == Approx(1e-3));
}

TEST_CASE("a folder's model must have room for the sequence") {
  const JobSpec spec = Example("finetune-smollm2.yaml");
  LlamaShape shape;
  shape.context = 256;
  CHECK(ValidateWithShape(spec, shape).ok());
  shape.context = 255;
  CHECK(ValidateWithShape(spec, shape).message() ==
        "'data.sequence_length' must be at most the model's context (255), got 256");
}

TEST_CASE("a model must have parameters for each fragment") {
  JobSpec spec;
  Gpt2Shape shape;
  shape.layers = shape.heads = 1;
  shape.width = 64;
  shape.ffn_width = 256;
  shape.context = 8;
  shape.vocab = 256;
  const int64_t most = (NumParameters(shape) + 4095) / 4096;
  spec.rounds.fragments = most;
  CHECK(ValidateWithShape(spec, shape).ok());
  spec.rounds.fragments = most + 1;
  shape.vocab = 0;  // the tokenizer's: how many parameters there are is not known
  CHECK(ValidateWithShape(spec, shape).ok());
  shape.vocab = 256;
  CHECK(std::string(ValidateWithShape(spec, shape).message()).find(
            "'rounds.fragments' must be at most " + std::to_string(most)) == 0);
}

}  // namespace
}  // namespace gdf::config
