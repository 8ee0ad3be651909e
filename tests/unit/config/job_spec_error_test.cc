// Every kind of malformed job.yaml, with the exact message and place.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/config/job_spec.h"

namespace gdf::config {
namespace {

// Line 1 to 18; a case replaces one piece of it.
constexpr char kValid[] =
    R"(name: job
kind: train
model:
  gpt2: {layers: 2, heads: 2, width: 8, context: 16}
data:
  text: [a.txt]
train:
  steps: 100
  batch_size: 4
  optimizer:
    lr: 1e-3
  schedule:
    kind: cosine
rounds:
  inner_steps: 10
  codec: int8
nodes:
  count: 2
)";

struct Case {
  std::string what, with, message;
};

std::string Replace(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

std::string Error(const std::string& text) {
  const auto spec = ParseJobSpec(text, "job.yaml");
  if (spec.ok()) return "accepted";
  CHECK(spec.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

void CheckAll(const std::vector<Case>& cases) {
  REQUIRE(ParseJobSpec(kValid, "job.yaml").ok());
  for (const Case& c : cases) {
    INFO(c.what << " -> " << c.with);
    CHECK(Error(Replace(kValid, c.what, c.with)) == c.message);
  }
}

// 256 · 8 + 16 · 8 of embeddings, 872 of each layer and 16 of the last norm are 3936 parameters.
TEST_CASE("job.yaml: more fragments than a model with a stated vocabulary has room for") {
  const std::string fragments = Replace(kValid, "inner_steps: 10", "inner_steps: 10\n  fragments: 2");
  CHECK(Error(fragments) == "accepted");  // the vocabulary is the tokenizer's
  CHECK(Error(Replace(fragments, "context: 16", "context: 16, vocab: 256")) ==
        "job.yaml:16:14: 'rounds.fragments' must be at most 1 with a model of 3936 parameters, got 2: "
        "a fragment has 4096 or more");
  CHECK(Error(Replace(fragments, "context: 16", "context: 16, vocab: 300")) == "accepted");
  // What follows from a shape that is wrong itself is no news.
  CHECK(Error(Replace(fragments, "width: 8, context: 16", "width: 9, context: 16, vocab: 1")).find("fragments") ==
        std::string::npos);
}

TEST_CASE("job.yaml: unknown, duplicate and missing keys") {
  CheckAll({
      {"  batch_size: 4", "  batchsize: 4",
       "job.yaml:8:3: missing key 'batch_size' in 'train'\n"
       "job.yaml:9:3: unknown key 'batchsize' in 'train'; did you mean 'batch_size'?"},
      {"name: job", "nmae: job",
       "job.yaml:1:1: missing key 'name'\n"
       "job.yaml:1:1: unknown key 'nmae'; did you mean 'name'?"},
      {"  count: 2", "  quantity: 2",
       "job.yaml:18:3: unknown key 'quantity' in 'nodes'; known keys: count, min, max, memory, "
       "device, gpus, gpu_memory, where, sites"},
      {"  steps: 100", "  steps: 100\n  steps: 200",
       "job.yaml:9:3: duplicate key 'steps'; it is already set in line 8"},
      {"    lr: 1e-3", "    kind: adamw", "job.yaml:11:5: missing key 'lr' in 'train.optimizer'"},
      {"rounds:\n  inner_steps: 10\n  codec: int8\n", "", "job.yaml:1:1: missing key 'rounds'"},
      {"kind: train\n", "", "job.yaml:1:1: missing key 'kind'"},
  });
}

TEST_CASE("job.yaml: wrong types") {
  CheckAll({
      {"steps: 100", "steps: many",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got 'many'"},
      {"steps: 100", "steps: 10.5",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got '10.5'"},
      {"steps: 100", "steps: '100'",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got the text "
       "'100' (remove the quotes)"},
      {"steps: 100", "steps: [100]",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got a list"},
      {"steps: 100", "steps: {a: 1}",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got a mapping"},
      {"steps: 100", "steps: ~",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got nothing"},
      {"steps: 100", "steps: 99999999999999999999",
       "job.yaml:8:10: 'train.steps' must be a whole number from 1 to 1000000000, got "
       "'99999999999999999999'"},
      {"  batch_size: 4", "  batch_size: 4\n  recompute: yes",
       "job.yaml:10:14: 'train.recompute' must be true or false, got 'yes'"},
      {"lr: 1e-3", "lr: fast",
       "job.yaml:11:9: 'train.optimizer.lr' must be a number above 0 and at most 1000, got 'fast'"},
      {"lr: 1e-3", "lr: .nan",
       "job.yaml:11:9: 'train.optimizer.lr' must be a number above 0 and at most 1000, got '.nan'"},
      {"lr: 1e-3", "lr: 1e-3\n    betas: 0.9",
       "job.yaml:12:12: 'train.optimizer.betas' must be a list of two numbers, got '0.9'"},
      {"lr: 1e-3", "lr: 1e-3\n    betas: [0.9, 0.99, 0.999]",
       "job.yaml:12:12: 'train.optimizer.betas' must be a list of two numbers, got a list of 3"},
      {"lr: 1e-3", "lr: 1e-3\n    betas: [0.9, 1.0]",
       "job.yaml:12:18: 'train.optimizer.betas' must be a number at least 0 and below 1, got "
       "'1.0'"},
      {"kind: cosine", "kind: cosin",
       "job.yaml:13:11: 'train.schedule.kind' must be one of constant, cosine, linear, wsd, got "
       "'cosin'; did you mean 'cosine'?"},
      {"text: [a.txt]", "text: []",
       "job.yaml:6:9: 'data.text' must be text or a list of texts, got an empty list"},
      {"text: [a.txt]", "text: [a.txt, [b]]",
       "job.yaml:6:17: 'data.text' must be text or a list of texts, none of them empty, got a "
       "list"},
      {"nodes:\n  count: 2", "nodes: 2",
       "job.yaml:17:8: 'nodes' must be a mapping of keys to values, got '2'"},
      {"name: job", "name: ''", "job.yaml:1:7: 'name' must be text that is not empty"},
      {"name: job", "name: My Job",
       "job.yaml:1:7: 'name' must be 1 to 63 of the characters a-z 0-9 . _ - and begin with a "
       "letter or digit"},
  });
}

TEST_CASE("job.yaml: wrong units and values out of range") {
  CheckAll({
      {"count: 2", "count: 2\n  memory: 8",
       "job.yaml:19:11: 'nodes.memory' must be a size with a unit from 0 to 1PiB, got '8'"},
      {"count: 2", "count: 2\n  memory: 30s",
       "job.yaml:19:11: 'nodes.memory' must be a size with a unit from 0 to 1PiB, got '30s'"},
      {"codec: int8", "codec: int8\n  round_deadline: 8GiB",
       "job.yaml:17:19: 'rounds.round_deadline' must be a duration with units from 1s to 168h, got "
       "'8GiB'"},
      {"codec: int8", "codec: int8\n  round_deadline: 8d",
       "job.yaml:17:19: 'rounds.round_deadline' must be a duration with units from 1s to 168h, got "
       "'8d'"},
      {"text: [a.txt]", "text: [a.txt]\n  validation_fraction: 60%",
       "job.yaml:7:24: 'data.validation_fraction' must be a share at least 0 and at most 0.5 (0.1 "
       "or "
       "10%), got '60%'"},
      {"batch_size: 4", "batch_size: 0",
       "job.yaml:9:15: 'train.batch_size' must be a whole number from 1 to 65536, got '0'"},
      {"lr: 1e-3", "lr: 0",
       "job.yaml:11:9: 'train.optimizer.lr' must be a number above 0 and at most 1000, got '0'"},
      {"codec: int8", "codec: int5",
       "job.yaml:16:10: 'rounds.codec' must be one of fp32, bf16, fp16, int8[:BLOCK][:stochastic], "
       "int4[:BLOCK][:stochastic], fp4[:BLOCK], sign[:BLOCK], topk2[:K], topk8[:K], dct[:K] with BLOCK a power of two from 64 to 4096, K from 1 to 1024, for dct to 32, got 'int5'; or auto or powersgd[:RANK], alone"},
      {"codec: int8", "codec: bf16:64",
       "job.yaml:16:10: 'rounds.codec' must be bf16 alone, got 'bf16:64'"},
      {"codec: int8", "codec: int8:100",
       "job.yaml:16:10: 'rounds.codec' must be int8[:BLOCK][:stochastic] with BLOCK a power of two from 64 to 4096, got 'int8:100'"},
      {"codec: int8", "codec: dct:33", "job.yaml:16:10: 'rounds.codec' must be dct[:K] with K from 1 to 32, got 'dct:33'"},
      {"codec: int8", "codec: sign:stochastic",
       "job.yaml:16:10: 'rounds.codec' must be sign[:BLOCK] with BLOCK a power of two from 64 to 4096, got 'sign:stochastic'"},
      {"codec: int8", "codec: powersgd:0",
       "job.yaml:16:10: 'rounds.codec' must be powersgd or powersgd:RANK with RANK from 1 to 64, got 'powersgd:0'"},
      {"codec: int8", "codec: powersgd:65",
       "job.yaml:16:10: 'rounds.codec' must be powersgd or powersgd:RANK with RANK from 1 to 64, got 'powersgd:65'"},
      {"codec: int8", "codec: 'powersgd:'",
       "job.yaml:16:10: 'rounds.codec' must be powersgd or powersgd:RANK with RANK from 1 to 64, got 'powersgd:'"},
      {"codec: int8", "codec: powersgd:04",
       "job.yaml:16:10: 'rounds.codec' must be powersgd or powersgd:RANK with RANK from 1 to 64, got 'powersgd:04'"},
      {"codec: int8", "codec: [int8, powersgd]",
       "job.yaml:16:17: 'rounds.codec' must name powersgd alone: its rounds have two passes, others one"},
      {"codec: int8", "codec: powersgd\n  fragments: 2",
       "job.yaml:17:14: 'rounds.fragments' must be 1 with codec powersgd, which takes matrices whole"},
      {"codec: int8", "codec: powersgd\n  delay_steps: 2",
       "job.yaml:17:16: 'rounds.delay_steps' must be 0 with codec powersgd, whose second pass needs the worker during the exchange"},
      {"width: 8,", "width: 70000,",
       "job.yaml:4:38: 'model.gpt2.width' must be a whole number from 1 to 65536, got '70000'"},
  });
}

TEST_CASE("job.yaml: rules between keys") {
  const std::string llama = "llama: {layers: 2, heads: 4, width: 32, ffn_width: 8, context: 16";
  const std::string gpt2 = "gpt2: {layers: 2, heads: 2, width: 8, context: 16}";
  CheckAll({
      {"heads: 2", "heads: 3", "job.yaml:4:28: 'model.gpt2.heads' must divide width (8), got 3"},
      {"layers: 2", "layers: 1025", "job.yaml:4:18: 'model.gpt2.layers' must be a whole number from 1 to 1024, got '1025'"},
      {"heads: 2", "heads: 0", "job.yaml:4:28: 'model.gpt2.heads' must be a whole number from 1 to 1024, got '0'"},
      {gpt2, llama + ", kv_heads: 1025}",
       "job.yaml:4:80: 'model.llama.kv_heads' must be a whole number from 1 to 1024, got '1025'"},
      {gpt2, llama + ", kv_heads: 3}",
       "job.yaml:4:80: 'model.llama.kv_heads' must divide heads (4), got 3"},
      {gpt2, "llama: {layers: 2, heads: 4, width: 12, ffn_width: 8, context: 16}",
       "job.yaml:4:10: 'model.llama.head_width' must be even, got 3"},
      {gpt2, "llama: {layers: 2, heads: 5, width: 12, ffn_width: 8, context: 16}",
       "job.yaml:4:29: 'model.llama.heads' must divide width (12) when 'head_width' is not given, "
       "got 5"},
      {gpt2,
       llama + ", rope_scaling: {factor: 8, low_freq_factor: 4, high_freq_factor: 1, "
               "original_context: 8}}",
       "job.yaml:4:10: 'model.llama.rope_scaling.high_freq_factor' must be above low_freq_factor "
       "(4), got 1"},
      {gpt2, gpt2 + "\n  " + llama + "}",
       "job.yaml:4:3: 'model' must have exactly one of 'from', 'gpt2' and 'llama'"},
      {gpt2, "from: folder",
       "job.yaml:4:9: 'model.from' is for kind: finetune; kind: train starts from random "
       "parameters, so describe the model with 'gpt2' or 'llama'\n"
       "job.yaml:6:3: missing key 'sequence_length' in 'data'"},
      {"kind: train", "kind: finetune",
       "job.yaml:4:9: kind: finetune starts from existing weights: give their folder as "
       "'model.from'"},
      {"text: [a.txt]", "text: [a.txt]\n  sequence_length: 17",
       "job.yaml:7:20: 'data.sequence_length' must be at most the model's context (16), got 17"},
      {"text: [a.txt]", "text: [a.txt]\n  jsonl: [b]",
       "job.yaml:6:3: 'data' must have exactly one of 'text' and 'jsonl'"},
      {"text: [a.txt]", "text: [a.txt]\n  field: body",
       "job.yaml:7:3: 'data.field' is for 'jsonl' only; remove it"},
      {"text: [a.txt]", "text: [a.txt]\n  tokenizer: chars",
       "job.yaml:7:14: 'data.tokenizer' must be char, byte, model or the path of a tokenizer.json, "
       "got 'chars'"},
      {"text: [a.txt]", "text: [a.txt]\n  tokenizer: model",
       "job.yaml:7:14: 'data.tokenizer' cannot be 'model': this model does not come from a folder"},
      {"text: [a.txt]", "text: [a.txt]\n  validation_files: b\n  validation_fraction: 0.1",
       "job.yaml:8:3: 'data.validation_fraction' is not used when 'validation_files' is given; "
       "remove one"},
      {"lr: 1e-3", "lr: 1e-3\n    momentum: 0.9",
       "job.yaml:12:5: 'train.optimizer.momentum' is for sgd only; remove it"},
      {"lr: 1e-3", "kind: sgd\n    lr: 1e-3\n    betas: [0, 0]\n    eps: 1e-8",
       "job.yaml:13:5: 'train.optimizer.betas' is for adamw only; remove it\n"
       "job.yaml:14:5: 'train.optimizer.eps' is for adamw only; remove it"},
      {"kind: cosine", "kind: cosine\n    warmup_steps: 101",
       "job.yaml:14:19: 'train.schedule.warmup_steps' must be at most train.steps (100), got 101: set it "
       "to 100 or less, too"},
      {"kind: cosine", "kind: wsd\n    warmup_steps: 50\n    decay_steps: 51",
       "job.yaml:15:18: 'train.schedule.decay_steps' and warmup_steps together must be at most "
       "train.steps (100), got 101"},
      {"kind: cosine", "kind: cosine\n    min_lr: 0.01",
       "job.yaml:14:13: 'train.schedule.min_lr' must be at most train.optimizer.lr (0.001), got "
       "0.01"},
      {"kind: cosine", "kind: cosine\n    decay_steps: 5",
       "job.yaml:14:5: 'train.schedule.decay_steps' is for wsd only; remove it"},
      {"kind: cosine", "kind: constant\n    min_lr: 0",
       "job.yaml:14:5: 'train.schedule.min_lr' is not used by a constant schedule; remove it"},
      {"inner_steps: 10", "inner_steps: 101",
       "job.yaml:15:16: 'rounds.inner_steps' must be at most train.steps (100), got 101"},
      {"inner_steps: 10", "inner_steps: 10\n  fragments: 3",
       "job.yaml:16:14: 'rounds.fragments' must divide rounds.inner_steps (10), got 3"},
      {"inner_steps: 10", "inner_steps: 10\n  fragments: 2\n  delay_steps: 5",
       "job.yaml:17:16: 'rounds.delay_steps' must be below the steps of a round (5), got 5"},
      {"codec: int8", "codec: int8\n  error_feedback_beta: 0.95",
       "job.yaml:17:24: 'rounds.error_feedback_beta' must be 1 with outer nesterov, got 0.95: the "
       "residual and the momentum would damp the same deltas; use outer sgd with lr 1"},
      {"codec: int8", "codec: fp32\n  error_feedback: true",
       "job.yaml:17:19: 'rounds.error_feedback' has nothing to feed back with codec fp32; remove "
       "it"},
      {"codec: int8", "error_feedback: false\n  error_feedback_beta: 1",
       "job.yaml:17:3: 'rounds.error_feedback_beta' is not used without error_feedback; remove it"},
      {"codec: int8", "outer: {optimizer: sgd, momentum: 0.9}",
       "job.yaml:16:27: 'rounds.outer.momentum' is for nesterov only; remove it"},
      {"count: 2", "count: 2\n  max: 3",
       "job.yaml:19:3: 'nodes.max' cannot be given together with 'count'"},
      {"count: 2", "min: 3\n  max: 2",
       "job.yaml:19:8: 'nodes.max' must be at least nodes.min (3), got 2"},
      {"count: 2", "count: 2\n  gpus: 1",
       "job.yaml:19:3: 'nodes.gpus' is for 'device: gpu' only; remove it"},
      {"count: 2", "count: 2\n  device: gpu\n  gpus: 17",
       "job.yaml:20:9: 'nodes.gpus' must be a whole number from 0 to 16, got '17'"},
      {"count: 2", "count: 2\n  device: gpu\n  gpus: 5",
       "job.yaml:9:15: 'train.batch_size' must be at least nodes.gpus (5), over which it is dealt out, got 4"},
      {"count: 2", "count: 2\n  where: [a]",
       "job.yaml:19:10: 'nodes.where' must name at least as many nodes as the job needs (2), got "
       "1"},
      {"count: 2", "count: 2\n  sites: near",
       "job.yaml:19:10: 'nodes.sites' must be 'auto', 'none' or lists of nodes, got 'near'"},
      {"count: 2", "count: 2\n  sites: [[a, b], [c, a]]", "job.yaml:19:10: 'nodes.sites' names 'a' twice"},
      {"count: 2", "count: 2\n  sites: [a, b]",
       "job.yaml:19:11: 'nodes.sites' must be a word or a list of lists of names, none of them empty, got 'a'"},
      {"count: 2", "count: 2\n  sites: []",
       "job.yaml:19:10: 'nodes.sites' must be a word or a list of lists of names, none of them empty, got an empty list"},
      {"count: 2", "count: 2\n  sites: [[a], []]",
       "job.yaml:19:16: 'nodes.sites' must be a word or a list of lists of names, none of them empty, got an empty list"},
      {"count: 2", "count: 2\n  sites: [[a, [b]]]",
       "job.yaml:19:15: 'nodes.sites' must be a word or a list of lists of names, none of them empty, got a list"},
  });
}

TEST_CASE("job.yaml: what is no plain YAML document") {
  CheckAll({
      {"name: job", "name: &a job",
       "job.yaml:1:7: anchors (&a) are not allowed; write the value out where it is needed"},
      {"name: job", "name: *a",
       "job.yaml:1:7: not valid YAML: the referenced anchor is not defined"},
      {"name: job", "name: !!binary job",
       "job.yaml:1:7: tags (tag:yaml.org,2002:binary) are not allowed"},
      {"name: job", "? [a]\n: job", "job.yaml:1:3: a key must be plain text"},
      {"name: job", "name: [job", "job.yaml:2:5: not valid YAML: end of sequence flow not found"},
      {"nodes:", "---\nnodes:",
       "job.yaml:17:1: a second document starts here; a file holds exactly one"},
      {"name: job", "name: j\x80", "job.yaml:1:8: byte 0x80 is not UTF-8 text"},
      {"name: job", std::string("name: j\0", 8), "job.yaml:1:8: byte 0x00 is not UTF-8 text"},
  });
  CHECK(Error("") ==
        "job.yaml:1:1: must be a mapping with the keys name, kind, model, data, train and rounds");
  CHECK(Error("- a") ==
        "job.yaml:1:1: must be a mapping with the keys name, kind, model, data, train and rounds");
  CHECK(Error(std::string((1 << 20) + 1, ' ')) ==
        "job.yaml: the file has 1048577 bytes; at most 1048576 are allowed");
  CHECK(Error("a: " + std::string(33, '[') + std::string(33, ']')) ==
        "job.yaml:1:35: nested deeper than 32 levels");
}

TEST_CASE("job.yaml: hostile documents end quickly") {
  std::string keys, items = "a: [";
  for (int i = 0; i < 300; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  for (int i = 0; i < 150'000; ++i) items += "1,";
  CHECK(Error(keys) == "job.yaml:257:1: more than 256 keys in one mapping");
  CHECK(Error(items + "1]").find("more than 100000 values in one file") != std::string::npos);
  CHECK(Error("a:\n" + std::string(500'000, '-')) != "accepted");
  CHECK(Error("a: " + std::string(500'000, '[')) != "accepted");
}

TEST_CASE("job.yaml: all problems are told at once, in the order of the file") {
  const std::string text =
      Replace(Replace(Replace(kValid, "count: 2", "count: 0"), "steps: 100", "steps: x"),
              "name: job", "name: A");
  const std::string error = Error(text);
  const size_t name = error.find("job.yaml:1:"), steps = error.find("job.yaml:8:10"),
               count = error.find("job.yaml:18:10");
  CHECK(name < steps);
  CHECK(steps < count);
  CHECK(count != std::string::npos);

  std::string many = kValid;
  for (int i = 0; i < 60; ++i) many += "zzzzzzzz" + std::to_string(i) + ": 1\n";
  const std::string last = Error(many).substr(Error(many).rfind('\n') + 1);
  CHECK(last == "job.yaml: and 10 more");
}

TEST_CASE("job.yaml: anomalies and late nodes") {
  CheckAll({
      {"  codec: int8", "  codec: int8\n  late: {after: 0.5}", "job.yaml:17:17: 'rounds.late.after' must be 0 or at least 1, got 0.5"},
      {"  codec: int8", "  codec: int8\n  error_feedback: false\n  late: {after: 2, weight: 0.5}",
       "job.yaml:18:28: 'rounds.late.weight' must be 0 where rounds.error_feedback is false: nothing is carried to a later round"},
      {"  codec: int8", "  codec: int8\n  anomalies: {delta_norm: 1.5}",
       "job.yaml:17:27: 'rounds.anomalies.delta_norm' must be 0 or at least 2, got 1.5"},
      {"  codec: int8", "  codec: int8\n  anomalies: {node_rounds: 21}",
       "job.yaml:17:28: 'rounds.anomalies.node_rounds' must be a whole number from 0 to 20, got '21'"},
  });
}

}  // namespace
}  // namespace gdf::config
