#include "core/checkpoint/export.h"

#include <catch2/catch.hpp>

#include "core/base/encoding.h"
#include "core/base/file_system.h"
#include "core/tensor/safetensors.h"
#include "core/train/export_files.h"

namespace gdf::checkpoint {
namespace {

train::ExportPlan Plan() {
  train::ExportPlan plan;
  const int64_t a[] = {2, 3};
  const int64_t b[] = {4};
  REQUIRE(plan.layout.Add("a.weight", a).ok());
  REQUIRE(plan.layout.Add("b.bias", b).ok());
  plan.files.push_back({"config.json", Buffer(std::string("{}"))});
  plan.files.push_back({"tokenizer.json", Buffer(std::string("[]"))});
  return plan;
}

// Exactly representable in bf16 and fp16.
const std::vector<float> kTheta = {0, 1, -2, 0.5f, 4, -8, 16, 1.5f, -0.25f, 3};

std::vector<float> Read(MemoryFileSystem& files, const char* name, size_t count) {
  const std::string bytes = *files.Read("/out/model.safetensors");
  const tensor::SafetensorsView view = *tensor::SafetensorsView::Parse(AsBytes(bytes));
  std::vector<float> values(count);
  REQUIRE(view.ReadF32(name, absl::MakeSpan(values)).ok());
  return values;
}

TEST_CASE("an export is a folder that safetensors readers take") {
  for (const tensor::DType dtype : {tensor::DType::kF32, tensor::DType::kBF16, tensor::DType::kF16}) {
    MemoryFileSystem files;
    FolderSink sink(files, "/out");
    REQUIRE(ExportHuggingFace(Plan(), kTheta, dtype, sink) == absl::OkStatus());
    CHECK(*files.List("/out") == std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"});
    CHECK(*files.Read("/out/config.json") == "{}");
    CHECK(Read(files, "a.weight", 6) == std::vector<float>(kTheta.begin(), kTheta.begin() + 6));
    CHECK(Read(files, "b.bias", 4) == std::vector<float>(kTheta.begin() + 6, kTheta.end()));
    const std::string bytes = *files.Read("/out/model.safetensors");
    const tensor::SafetensorsView view = *tensor::SafetensorsView::Parse(AsBytes(bytes));
    CHECK(view.Find("a.weight")->dtype == dtype);
    CHECK(view.Find("a.weight")->shape == std::vector<int64_t>{2, 3});
  }
}

TEST_CASE("tensors beyond theta are zeros; theta beyond the tensors is refused") {
  MemoryFileSystem files;
  FolderSink sink(files, "/out");
  REQUIRE(ExportHuggingFace(Plan(), absl::MakeConstSpan(kTheta).subspan(0, 7), tensor::DType::kF32, sink).ok());
  CHECK(Read(files, "b.bias", 4) == std::vector<float>{16, 0, 0, 0});
  std::vector<float> more = kTheta;
  more.push_back(1);
  const absl::Status status = ExportHuggingFace(Plan(), more, tensor::DType::kF32, sink);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() == "export: 11 parameters do not fit the layout of 10");
}

TEST_CASE("a worker cannot write outside the folder or over the weights") {
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "model.safetensors",
                           "modeling_evil.py"}) {
    INFO(name);
    train::ExportPlan plan = Plan();
    plan.files.push_back({name, Buffer(std::string("x"))});
    MemoryFileSystem files;
    FolderSink sink(files, "/out");
    CHECK(absl::IsInvalidArgument(ExportHuggingFace(plan, kTheta, tensor::DType::kF32, sink)));
    CHECK_FALSE(files.Exists("/out/model.safetensors"));
  }
}

TEST_CASE("an export brings no code") {
  const std::string code =
      R"({"model_type":"gpt2","auto_map":{"AutoModelForCausalLM":"modeling_evil.Evil"}})";
  for (const char* name :
       {"config.json", "tokenizer_config.json", "generation_config.json"}) {
    INFO(name);
    CHECK(absl::IsInvalidArgument(train::CheckExportFile(name, code)));
    CHECK(train::CheckExportFile(name, R"({"model_type":"gpt2"})").ok());
    CHECK(absl::IsInvalidArgument(train::CheckExportFile(name, "[]")));
    CHECK(absl::IsInvalidArgument(train::CheckExportFile(name, std::string(100'000, '['))));
    CHECK(absl::IsInvalidArgument(
        train::CheckExportFile(name, std::string(train::kMaxConfigurationBytes + 1, ' '))));
  }
  train::ExportPlan plan = Plan();
  plan.files[0].contents = Buffer(code);
  MemoryFileSystem files;
  FolderSink sink(files, "/out");
  CHECK(absl::IsInvalidArgument(ExportHuggingFace(plan, kTheta, tensor::DType::kF32, sink)));
  CHECK_FALSE(files.Exists("/out/config.json"));
}

TEST_CASE("a full disk: no file is half there") {
  MemoryFileSystem files;
  files.set_capacity_bytes(100);
  FolderSink sink(files, "/out");
  CHECK(absl::IsResourceExhausted(ExportHuggingFace(Plan(), kTheta, tensor::DType::kF32, sink)));
  CHECK_FALSE(files.Exists("/out/model.safetensors"));
}

}  // namespace
}  // namespace gdf::checkpoint
