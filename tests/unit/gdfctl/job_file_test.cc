// Reading a job with its files, over a file system in memory.
#include "gdfctl/job_file.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "gdfctl/path_expansion.h"

namespace gdf::ctl {
namespace {

constexpr char kJob[] = R"(name: test
kind: train
model:
  gpt2: {layers: 1, heads: 1, width: 8, context: 8}
data:
  text: ["b.txt", "texts", "more/*.txt"]
  tokenizer: byte
train:
  steps: 100
  batch_size: 2
  optimizer: {lr: 1e-3}
rounds:
  inner_steps: 10
)";

void Put(FileSystem& files, const std::string& path, const std::string& text) {
  REQUIRE(files.WriteAtomic(path, text).ok());
}

MemoryFileSystem Tree() {
  MemoryFileSystem files;
  Put(files, "/j/job.yaml", kJob);
  Put(files, "/j/b.txt", "hello hello hello");
  Put(files, "/j/texts/z.txt", "zz");
  Put(files, "/j/texts/deep/a b.txt", "aaa");
  Put(files, "/j/texts/.hidden", "no");
  Put(files, "/j/more/1.txt", "one");
  Put(files, "/j/more/2.md", "no");
  Put(files, "/j/more/.3.txt", "no");
  return files;
}

std::vector<std::string> NamesOf(const JobFile& job, const std::string& input) {
  std::vector<std::string> names;
  for (const JobInput& file : job.inputs.at(input)) names.push_back(file.name);
  return names;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("Files, folders and globs keep the order of the list") {
  MemoryFileSystem files = Tree();
  const auto job = LoadJobFile(files, {.path = "/j/job.yaml"});
  INFO(Message(job.status()));
  REQUIRE(job.ok());
  CHECK(NamesOf(*job, "data") == std::vector<std::string>{"00000-b.txt", "00001-a_b.txt", "00002-z.txt", "00003-1.txt"});
  CHECK(job->inputs.at("data")[1].path == "/j/texts/deep/a b.txt");
  CHECK(job->TotalBytes() == 17 + 3 + 2 + 3);
  CHECK(job->yaml == kJob);
  CHECK(CheckData(files, *job).ok());
}

TEST_CASE("A path that leads nowhere is named with its place") {
  MemoryFileSystem files = Tree();
  REQUIRE(files.Remove("/j/b.txt").ok());
  REQUIRE(files.Remove("/j/more/1.txt").ok());
  const absl::Status status = LoadJobFile(files, {.path = "/j/job.yaml"}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(Message(status).find("/j/job.yaml:6:10: ") != std::string::npos);
  CHECK(Message(status).find("/j/job.yaml:6:28: nothing matches /j/more/*.txt") != std::string::npos);
}

TEST_CASE("Other texts replace the job's, and the record shows only their names") {
  MemoryFileSystem files = Tree();
  Put(files, "/home/me/secret/book.txt", "a book a book");
  const auto job = LoadJobFile(files, {.path = "/j/job.yaml", .text = {"/home/me/secret/book.txt"}});
  REQUIRE(job.ok());
  CHECK(NamesOf(*job, "data") == std::vector<std::string>{"00000-book.txt"});
  CHECK(job->yaml.find("secret") == std::string::npos);
  CHECK(job->yaml.find("book.txt") != std::string::npos);
}

TEST_CASE("Values can be replaced by their dotted keys, and the whole is checked again") {
  MemoryFileSystem files = Tree();
  const auto load = [&](const std::vector<std::string>& overrides) {
    return LoadJobFile(files, {.path = "/j/job.yaml", .text = {}, .overrides = overrides});
  };
  const auto job = load({"train.steps=40", "rounds.outer.lr=0.5", "train.optimizer.lr=0.25"});
  INFO(Message(job.status()));
  REQUIRE(job.ok());
  CHECK(job->spec.train.steps == 40);
  CHECK(job->spec.rounds.outer.lr == 0.5);
  CHECK(job->spec.train.optimizer.lr == 0.25);
  CHECK(job->spec.rounds.inner_steps == 10);
  CHECK(Message(load({"train.stepz=40"}).status()).rfind("--set train.stepz=40: unknown key 'stepz' in 'train'", 0) == 0);
  CHECK(load({"train=1"}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(load({"lr=1"}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(load({"train.steps"}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(load({"train.steps=many"}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("A set value is as if the file had it, and errors keep their places") {
  MemoryFileSystem files = Tree();
  const auto load = [&](const std::vector<std::string>& overrides) {
    return LoadJobFile(files, {.path = "/j/job.yaml", .text = {}, .overrides = overrides});
  };
  // Absent from the file: a section, an optional key without a default, a list, a whole mapping.
  const auto job = load({"nodes.count=3", "nodes.where=[a, b, c]", "limits.max_wall_time=1h", "train.optimizer={lr: 0.5}",
                         "model.gpt2.width=16", "data.text=b.txt"});
  INFO(Message(job.status()));
  REQUIRE(job.ok());
  CHECK(job->spec.nodes.min == 3);
  CHECK(job->spec.nodes.max == 3);
  CHECK(job->spec.nodes.where == std::vector<std::string>{"a", "b", "c"});
  CHECK(job->spec.limits.max_wall_time == absl::Hours(1));
  CHECK(job->spec.train.optimizer.lr == 0.5);
  CHECK(job->TotalBytes() == 17);
  // What the file derives from the width follows it: 4 x 16 (docs/job-spec.md).
  CHECK(std::get<config::Gpt2Shape>(*job->spec.model.shape).ffn_width == 64);
  // What the network records says the same.
  CHECK(*config::ParseJobSpec(job->yaml, "recorded") == job->spec);
  CHECK(load({"train.steps=20", "train.steps=30"})->spec.train.steps == 30);

  CHECK(Message(load({"train.steps=many"}).status()).rfind("--set train.steps=many: 'train.steps' must be a whole number", 0) == 0);
  CHECK(Message(load({"name.x=1"}).status()).rfind("--set name.x=1: 'name' holds a value, not keys", 0) == 0);
  CHECK(Message(load({"data.text=\"a"}).status()).rfind("--set data.text=\"a: not valid YAML", 0) == 0);
  CHECK(Message(load({"data.text=none.txt"}).status()).rfind("--set data.text=none.txt: ", 0) == 0);
  for (const char* bad : {"train.steps", "=1", "train..steps=1", "train.steps=", ".=1"}) {
    CHECK(Message(load({bad}).status()).rfind(absl::StrCat("--set ", bad, ": expected KEY=VALUE"), 0) == 0);
  }
  // Elsewhere in the file: line and column as the user wrote them.
  CHECK(Message(load({"train.steps=5"}).status()).rfind("/j/job.yaml:13:16: 'rounds.inner_steps' must be at most train.steps (5)", 0) == 0);
}

TEST_CASE("A text of the command line that leads nowhere is blamed on its flag") {
  MemoryFileSystem files = Tree();
  const absl::Status status = LoadJobFile(files, {.path = "/j/job.yaml", .text = {"/nope"}}).status();
  CHECK(Message(status).rfind("--text /nope: ", 0) == 0);
}

TEST_CASE("Texts of the command line are given by one flag, not by two") {
  MemoryFileSystem files = Tree();
  Put(files, "/x.txt", "long enough");
  for (const std::string setting : {"data.text=b.txt", "data={text: b.txt}"}) {
    const absl::Status status =
        LoadJobFile(files, {.path = "/j/job.yaml", .text = {"/x.txt"}, .overrides = {setting}}).status();
    CHECK(Message(status) == "--set " + setting + ": --text gives the texts already; remove one of the two");
  }
  CHECK(LoadJobFile(files, {.path = "/j/job.yaml", .text = {"/x.txt"}, .overrides = {"data.tokenizer=char"}}).ok());
}

TEST_CASE("Data that cannot be trained on is found out offline") {
  MemoryFileSystem files = Tree();
  const auto check = [&](const std::string& content) {
    Put(files, "/x.txt", content);
    const auto job = LoadJobFile(files, {.path = "/j/job.yaml", .text = {"/x.txt"}});
    REQUIRE(job.ok());
    return CheckData(files, *job);
  };
  CHECK(check("long enough").ok());
  CHECK(check("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80").ok());
  CHECK(Message(check("")).find("empty") != std::string::npos);
  CHECK(Message(check("12345678")).find("too short") != std::string::npos);  // context 8 needs 9
  // Overlong, surrogate, beyond U+10FFFF, lone continuation (RFC 3629).
  for (const char* bad : {"0123456789\xC0\x80", "0123456789\xED\xA0\x80", "0123456789\xF4\x90\x80\x80", "0123456789\x80"}) {
    CHECK(Message(check(bad)).find("not UTF-8") != std::string::npos);
  }
  CHECK(Message(check("0123456789\n\xE2\x82")).find("cut short") != std::string::npos);
  CHECK(Message(check("0123456789\nab\xFF")).find("byte 13 (line 2)") != std::string::npos);
}

TEST_CASE("JSON lines are checked with their line numbers") {
  MemoryFileSystem files = Tree();
  std::string yaml = kJob;
  yaml.replace(yaml.find("text: [\"b.txt\", \"texts\", \"more/*.txt\"]"), 38, "jsonl: [x.jsonl]");
  Put(files, "/j/job.yaml", yaml);
  const auto check = [&](const std::string& content) {
    Put(files, "/j/x.jsonl", content);
    const auto job = LoadJobFile(files, {.path = "/j/job.yaml"});
    INFO(Message(job.status()));
    REQUIRE(job.ok());
    return Message(CheckData(files, *job));
  };
  CHECK(check("{\"text\": \"one\"}\n\n{\"text\": \"two\"}").empty());
  CHECK(check("{\"text\": \"one\"}\n{\"txt\": \"two\"}\n") ==
        "/j/x.jsonl:2: the object has no text in 'text' (data.field)");
  CHECK(check("{\"text\": \"one\"}\n[1]\n") == "/j/x.jsonl:2: expected a JSON object on each line");
}

constexpr char kFinetune[] = R"(name: test
kind: finetune
model:
  from: model
data:
  text: [b.txt]
  sequence_length: 8
train:
  steps: 10
  batch_size: 2
  optimizer: {lr: 1e-3}
rounds:
  inner_steps: 10
)";
constexpr char kConfig[] = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 1,
  "n_embd": 8, "n_positions": 8, "vocab_size": 300, "activation_function": "gelu_new"})";

TEST_CASE("A model folder brings its weights and side files, and an index may not lead out of it") {
  MemoryFileSystem files = Tree();
  Put(files, "/j/job.yaml", kFinetune);
  Put(files, "/j/model/config.json", kConfig);
  Put(files, "/j/model/tokenizer.json", "{}");
  Put(files, "/j/model/model-00001-of-00001.safetensors", "weights");
  Put(files, "/j/model/notes.txt", "no");
  const auto load = [&] { return LoadJobFile(files, {.path = "/j/job.yaml"}); };
  const auto index = [&](const std::string& file) {
    Put(files, "/j/model/model.safetensors.index.json", "{\"weight_map\": {\"wte.weight\": \"" + file + "\"}}");
    return Message(load().status());
  };
  CHECK(index("model-00001-of-00001.safetensors").empty());
  CHECK(NamesOf(*load(), "model") == std::vector<std::string>{"config.json", "tokenizer.json", "model-00001-of-00001.safetensors",
                                                              "model.safetensors.index.json"});
  CHECK(load()->hf_config_json == kConfig);
  CHECK(index("../../etc/passwd").find("no file of the folder") != std::string::npos);
  CHECK(index("missing.safetensors").find("no file of the folder") != std::string::npos);
  REQUIRE(files.Remove("/j/model/tokenizer.json").ok());
  CHECK(index("model-00001-of-00001.safetensors").find("no tokenizer.json") != std::string::npos);
}

}  // namespace
}  // namespace gdf::ctl
