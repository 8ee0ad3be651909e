// One job on four nodes, from the submission to the exported weights.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kSteps = 5, kSequences = 4, kTokens = 16;  // of a round, a step, a sequence

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The job is over on this node: its worker has ended, what they shared is given back.
void CheckReleased(const Node& node) {
  node.AwaitStatus([](const Json& status) { return status["jobs_running"] == 0; });
  for (const pid_t worker : node.Workers()) CHECK(AwaitEnd(worker));
  CHECK(node.AwaitNoMemfds());
}

// Submits the job and waits until it has succeeded; what is known of it then.
Json Train(Cluster& cluster, JobOptions options) {
  options.arguments.push_back("--wait");
  std::vector<std::string> submit = cluster.JobArguments(options);
  submit.insert(submit.begin(), {"--json", "submit"});
  const CtlResult done = cluster.node(0).Ctl(submit);
  INFO(done.out << done.err);
  REQUIRE(done.code == 0);
  const Json job = done.json()["job"];
  CHECK(job["phase"] == "succeeded");
  return job;
}

Json RoundsOf(const Node& node, const std::string& job) { return node.Ask({"job", "show", job})["rounds"]; }

// Every node exports the same weights.
void CheckOneModel(Cluster& cluster, const std::string& job) {
  std::string weights;
  for (int i = 0; i < static_cast<int>(cluster.size()); ++i) {
    const Node& node = cluster.node(i);
    const std::string folder = cluster.folder() + "/export-" + node.name();
    const Json exported = node.Ask({"job", "export", job, folder});
    CHECK(exported["files"].size() >= 2);
    const std::string here = ReadFile(folder + "/model.safetensors");
    REQUIRE_FALSE(here.empty());
    if (i == 0) weights = here;
    CHECK((here == weights));
  }
}

void CheckRound(const Json& round, size_t number, uint64_t nodes) {
  INFO(round.dump());
  CHECK(round["round"] == number);
  CHECK(round["members"] == nodes);
  CHECK(round["tokens"] == nodes * kSteps * kSequences * kTokens);
  CHECK(round["loss"] > 0.0);
  CHECK(round["loss"] < std::log(256.0) + 1);  // one of 256 bytes, guessed
  CHECK(round["tokens_per_sec"] > 0.0);
  CHECK(round["utilisation"] > 0.0);
  CHECK(round["utilisation"] <= 1.0);
  CHECK(round["bytes_sent"] > 0);
  CHECK(round["bytes_received"] > 0);
  CHECK(round["compute_seconds"] > 0.0);
  CHECK(round["compress_seconds"] > 0.0);
  CHECK(round["exchange_seconds"] > 0.0);
  CHECK(round["aggregate_seconds"] > 0.0);
  CHECK(round["digest"].get<std::string>().size() == 64);
}

}  // namespace

TEST_CASE("a job with codec auto goes by what the links allow, and says so") {
  Cluster cluster(2);
  const std::string id = cluster.Submit(cluster.node(0), {.rounds = 5, .nodes_min = 2, .set = {"rounds.codec=auto"}});
  JobLog log(cluster.node(0), id);
  const Json job = log.AwaitEnd();
  REQUIRE(job["phase"] == "succeeded");
  CHECK(log.HasEvent("on deltas go by codec fp32 instead of int4:128"));
}

TEST_CASE("four nodes train one model from the submission to the export") {
  Cluster cluster(4);
  const Json job = Train(cluster, {.rounds = 4, .inner_steps = kSteps, .nodes_min = 4});
  CHECK(job["members"].size() == 4);
  CHECK(job["rounds_done"] == 4);
  CHECK(job["rounds_total"] == 4);
  CHECK(job["steps_total"] == 4 * kSteps);
  const std::string id = job["id"];

  const Json listed = cluster.node(3).Ask({"job", "list"})["jobs"];
  REQUIRE(listed.size() == 1);
  CHECK(listed[0]["id"] == id);
  CHECK(listed[0]["phase"] == "succeeded");

  // The record of every round is the same on all nodes, and so are the parameters that each of them
  // holds.
  const Json rounds = RoundsOf(cluster.node(0), id);
  REQUIRE(rounds.size() == 4);
  for (size_t i = 0; i < 4; ++i) CheckRound(rounds[i], i, 4);
  CHECK(rounds[3]["validation_loss"] < rounds[0]["validation_loss"]);
  for (int i = 0; i < 4; ++i) {
    CheckReleased(cluster.node(i));
    CHECK(RoundsOf(cluster.node(i), id) == rounds);
  }
  CheckOneModel(cluster, id);

  const Json text = cluster.node(2).Ask({"generate", id, "--prompt", "the ", "--max-tokens", "8"});
  CHECK(text["tokens"] == 8);
  CheckReleased(cluster.node(2));
}

TEST_CASE("nodes at two sites exchange by them, and end with one model") {
  Cluster cluster(4);
  cluster.SetModel("{gpt2: {layers: 1, heads: 2, width: 32, context: 16}}");
  const auto name = [&](int i) { return cluster.node(i).name(); };
  const std::string sites = "[[" + name(0) + ", " + name(2) + "], [" + name(3) + ", " + name(1) + "]]";
  JobOptions options{.rounds = 3, .nodes_min = 4};
  options.set = {"nodes.sites=" + sites, "rounds.codec=int8"};
  const std::string id = cluster.Submit(cluster.node(0), options);
  JobLog log(cluster.node(0), id);
  REQUIRE(log.AwaitEnd()["phase"] == "succeeded");
  int told = 0;
  for (const Json& event : log.events()) {
    const std::string text = event["text"];
    if (text.find("nodes exchange by sites") == std::string::npos) continue;
    ++told;
    CHECK(text.find(name(0)) != std::string::npos);
    CHECK(text.find("; ") != std::string::npos);
  }
  CHECK(told == 1);
  const Json rounds = RoundsOf(cluster.node(0), id);
  CHECK(rounds.back()["validation_loss"] < rounds[0]["validation_loss"]);
  CheckOneModel(cluster, id);
}

TEST_CASE("nodes exchange fragments while they train on, and end with one model") {
  Cluster cluster(3);
  cluster.SetModel("{gpt2: {layers: 1, heads: 2, width: 32, context: 16}}");
  JobOptions options{.rounds = 8, .inner_steps = 6, .nodes_min = 3};
  options.set = {"rounds.fragments=3", "rounds.delay_steps=1", "rounds.codec=int8", "output.checkpoint_every=2"};
  const Json job = Train(cluster, options);
  CHECK(job["rounds_done"] == 24);
  const std::string id = job["id"];
  const Json rounds = RoundsOf(cluster.node(0), id);
  // A round is two steps, of which the second is taken during the exchange and counts with the next round; rounds within
  // a second are recorded with the next that is due to be validated, which after the first is every third.
  REQUIRE(rounds.size() >= 8);
  int64_t steps = 0;
  for (const Json& round : rounds) {
    INFO(round.dump());
    const int64_t number = round["round"];
    steps += round["tokens"].get<int64_t>() / (3 * kSequences * kTokens);
    CHECK(steps == 2 * (number + 1) - (number == 23 ? 0 : 1));
  }
  REQUIRE(rounds.back()["round"] == 23);
  CHECK(rounds.back()["validation_loss"] < rounds[1]["validation_loss"]);
  for (int i = 0; i < 3; ++i) CHECK(RoundsOf(cluster.node(i), id) == rounds);
  CheckOneModel(cluster, id);
  CHECK(cluster.node(1).Ask({"generate", id, "--prompt", "the ", "--max-tokens", "8"})["tokens"] == 8);
}

TEST_CASE("nodes exchange low-rank factors, and end with one model") {
  Cluster cluster(3);
  cluster.SetModel("{gpt2: {layers: 1, heads: 2, width: 32, context: 16}}");
  JobOptions options{.rounds = 8, .inner_steps = 6, .nodes_min = 3};
  options.set = {"rounds.codec=powersgd:8", "rounds.outer={optimizer: sgd, lr: 1}"};
  const std::string id = Train(cluster, options)["id"];
  const Json rounds = RoundsOf(cluster.node(0), id);
  REQUIRE(rounds.size() >= 2);
  REQUIRE(rounds.back()["round"] == 7);
  for (const Json& round : rounds) CHECK(round["members"] == 3);
  CHECK(rounds.back()["validation_loss"] < rounds[0]["validation_loss"]);
  CheckOneModel(cluster, id);
}

TEST_CASE("an export starts another job with the same tokenizer") {
  Cluster cluster(1);
  const auto finish = [&cluster](const std::vector<std::string>& set, const std::string& folder) {
    const std::string id = cluster.Submit(cluster.node(0), {.rounds = 1, .set = set});
    REQUIRE(JobLog(cluster.node(0), id).AwaitEnd()["phase"] == "succeeded");
    cluster.node(0).Ask({"job", "export", id, cluster.folder() + folder});
    return id;
  };
  finish({"data.tokenizer=char"}, "/first");
  cluster.SetModel("{from: first}");
  const std::string id =
      finish({"kind=finetune", "data.tokenizer=model", "data.sequence_length=16"}, "/second");
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json", "config.json"}) {
    const std::string first = ReadFile(cluster.folder() + "/first/" + name);
    REQUIRE_FALSE(first.empty());
    CHECK(Json::parse(first) == Json::parse(ReadFile(cluster.folder() + "/second/" + name)));
  }
  const Json text = cluster.node(0).Ask({"generate", id, "--prompt", "the ", "--max-tokens", "8"});
  CHECK(text["tokens"] == 8);
}

TEST_CASE("transformers computes the same loss and text from the export") {
  const char* named = std::getenv("GDF_TEST_PYTHON");
  const std::string python = named != nullptr ? named : "python3";
  if (std::system((python + " -c 'import torch, transformers' >/dev/null 2>&1").c_str()) != 0) {
    std::cerr << "skipped: " << python
              << " has no transformers; name one that has in GDF_TEST_PYTHON" << std::endl;
    std::exit(77);
  }
  Cluster cluster(2);
  const auto [model, tokenizer] = GENERATE(table<std::string, std::string>(
      {{"{gpt2: {layers: 2, heads: 2, width: 16, context: 16, bias: false, activation: gelu}}",
        "byte"},
       {"{llama: {layers: 2, heads: 4, kv_heads: 2, width: 32, ffn_width: 48, context: 16}}",
        "char"}}));
  cluster.SetModel(model);
  // All of the held-out part, so that the loss is that of many logits.
  const std::string id = cluster.Submit(
      cluster.node(0),
      {.rounds = 3,
       .nodes_min = 2,
       .set = {"rounds.validate_batches=0", absl::StrCat("data.tokenizer=", tokenizer)}});
  const Json job = JobLog(cluster.node(0), id).AwaitEnd();
  REQUIRE(job["phase"] == "succeeded");
  const std::string folder = cluster.folder() + "/export";
  cluster.node(0).Ask({"job", "export", id, folder});
  const Json text = cluster.node(1).Ask(
      {"generate", id, "--prompt", "the ", "--max-tokens", "12", "--temperature", "0"});

  const std::string result = cluster.folder() + "/result.json";
  Process::Options check;
  check.arguments = {"/usr/bin/env",
                     python,
                     std::string(GDF_SOURCE_DIR) + "/tests/integration/cluster/check_export.py",
                     folder,
                     cluster.text_file(),
                     "0.1",
                     std::to_string(kTokens),
                     "the ",
                     "12"};
  check.error_file = cluster.folder() + "/python.err";
  Process process(check);
  const std::string out = process.ReadAll();
  INFO(out << ReadFile(check.error_file));
  REQUIRE(process.Wait() == 0);
  const Json theirs = Json::parse(out);
  CHECK(theirs["loss"].get<double>() ==
        Approx(job["last_round"]["validation_loss"].get<double>()).epsilon(1e-5));
  CHECK(theirs["text"] == text["text"]);
  CHECK(theirs["tokens"] == 12);
  CHECK(theirs["special"].empty());
  CHECK(theirs["as_saved"] == true);
  const CtlResult unknown = cluster.node(1).Ctl({"generate", id, "--prompt", "the €"});
  if (tokenizer == "byte") {
    CHECK(theirs["ids"] == 256);
    CHECK(theirs["unknown"] == Json({'t', 'h', 'e', ' ', 0xe2, 0x82, 0xac}));
    CHECK(unknown.code == 0);
  } else {
    CHECK(theirs["unknown"].is_null());
    CHECK(absl::StrContains(unknown.err, "U+20AC at offset 4"));
  }
}

}  // namespace gdf::cluster
