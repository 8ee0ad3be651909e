// Files are put together here byte by byte from the format's description
// (docs/formats/safetensors.md).
#include "core/tensor/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/encoding.h"

namespace gdf::tensor {
namespace {

using Catch::Matchers::Contains;

// Length prefix, header, data.
std::string File(const std::string& header, const std::string& data = "") {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return file + header + data;
}

absl::StatusOr<SafetensorsView> Parse(const std::string& file) {
  return SafetensorsView::Parse(gdf::AsBytes(file));
}

std::string Error(const std::string& file) {
  const absl::Status status = Parse(file).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// 1.0f, -2.0f and 0.5f in F32, then 1.0 and -2.0 in BF16, F16 and F64.
const char kData[] =
    "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f"
    "\x80\x3f\x00\xc0"
    "\x00\x3c\x00\xc0"
    "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\xc0";
const std::string kGoodData(kData, 36);
const std::string kGoodHeader = R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},)"
                                R"("__metadata__":{"format":"pt","note":"x"},)"
                                R"("f":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]},)"
                                R"("d":{"dtype":"F64","shape":[2],"data_offsets":[20,36]},)"
                                R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}}  )";

TEST_CASE("a safetensors file is read without copies, in the order of its data") {
  const std::string file = File(kGoodHeader, kGoodData);
  const absl::StatusOr<SafetensorsView> view = Parse(file);
  REQUIRE(view.ok());
  REQUIRE(view->tensors().size() == 4);
  CHECK(view->tensors()[0].name == "f");
  CHECK(view->tensors()[0].shape == std::vector<int64_t>{1, 3});
  CHECK(view->tensors()[3].name == "d");
  CHECK(view->metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"note", "x"}});
  CHECK(static_cast<const void*>(view->Find("f")->data.data()) ==
        file.data() + 8 + kGoodHeader.size());
  CHECK(view->Find("__metadata__") == nullptr);

  std::vector<float> three(3), two(2);
  REQUIRE(view->ReadF32("f", absl::MakeSpan(three)).ok());
  CHECK(three == std::vector<float>{1.0f, -2.0f, 0.5f});
  for (const char* name : {"h", "b", "d"}) {
    REQUIRE(view->ReadF32(name, absl::MakeSpan(two)).ok());
    CHECK(two == std::vector<float>{1.0f, -2.0f});
  }
  CHECK(view->ReadF32("missing", absl::MakeSpan(two)).code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(view->ReadF32("f", absl::MakeSpan(two)).message()),
             Contains("\"f\" has 3 elements, expected 2"));
}

TEST_CASE("scalars, empty tensors, integers and files without tensors are valid") {
  const std::string file = File(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
                                R"("i":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}})",
                                std::string(12, '\0'));
  const absl::StatusOr<SafetensorsView> view = Parse(file);
  REQUIRE(view.ok());
  CHECK(view->Find("s")->num_elems == 1);
  CHECK(view->Find("e")->num_elems == 0);
  CHECK(view->ReadF32("e", {}).ok());
  std::vector<float> one(1);
  CHECK_THAT(std::string(view->ReadF32("i", absl::MakeSpan(one)).message()), Contains("I64"));
  CHECK(Parse(File("{}")).ok());
  CHECK(Parse(File("{}      ")).ok());
}

TEST_CASE("a truncated safetensors file is refused at every length") {
  const std::string file = File(kGoodHeader, kGoodData);
  for (size_t length = 0; length < file.size(); ++length) {
    INFO(length);
    CHECK_THAT(Error(file.substr(0, length)), Contains("safetensors"));
  }
  CHECK_THAT(Error(file + "x"), Contains("fill 36 of 37"));
}

TEST_CASE("a safetensors header of an impossible length is refused before it is read") {
  std::string file = File(kGoodHeader, kGoodData);
  file[7] = '\x80';  // 2^63 and more
  CHECK_THAT(Error(file), Contains("header claims 9223372036854776") && Contains("at most"));
  CHECK_THAT(Error(std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9)), Contains("claims 100000001"));
  CHECK_THAT(Error(std::string("\x00\xe1\xf5\x05\0\0\0\0{", 9)), Contains("the file has 1 after"));
  CHECK_THAT(Error(std::string(8, '\xff')), Contains("18446744073709551615"));
  CHECK_THAT(Error(std::string(8, '\0')), Contains("does not begin with {"));
}

TEST_CASE("overlapping, out-of-file, reversed and gapped data offsets are refused") {
  const auto two = [](const std::string& a, const std::string& b) {
    return File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
                    R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}",
                std::string(16, '\0'));
  };
  CHECK(Parse(two("[0,8]", "[8,16]")).ok());
  CHECK(Parse(two("[8,16]", "[0,8]")).ok());
  CHECK_THAT(Error(two("[0,8]", "[4,12]")), Contains("\"b\"") && Contains("overlap"));
  CHECK_THAT(Error(two("[0,8]", "[0,8]")), Contains("overlap"));
  CHECK_THAT(Error(two("[4,12]", "[8,16]")), Contains("hole"));
  CHECK_THAT(Error(two("[0,8]", "[16,24]")), Contains("\"b\"") && Contains("leave the file"));
  CHECK_THAT(Error(two("[0,8]", "[16,8]")), Contains("leave the file"));
  CHECK_THAT(Error(two("[0,8]", "[18446744073709551608,18446744073709551615]")),
             Contains("leave the file"));
  CHECK_THAT(Error(two("[0,8]", "[8,12]")), Contains("need 8 bytes, data_offsets give 4"));
  CHECK_THAT(Error(two("[0,8]", "[8]")), Contains("pair"));
  CHECK_THAT(Error(two("[0,8]", "[8,16,16]")), Contains("\"b\""));
  CHECK_THAT(Error(two("[0,8]", "[-8,16]")), Contains("negative"));
  CHECK_THAT(Error(two("[0,8]", "[8,18446744073709551616]")), Contains("\"b\""));
  CHECK_THAT(Error(two("[0,8]", "[8.0,16.0]")), Contains("8.0"));
}

TEST_CASE("a wrong dtype or shape is refused") {
  const auto one = [](const std::string& dtype, const std::string& shape) {
    return File(R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":[0,8]}})",
                std::string(8, '\0'));
  };
  CHECK(Parse(one(R"("F32")", "[2]")).ok());
  CHECK_THAT(Error(one(R"("F33")", "[2]")), Contains("\"a\"") && Contains("F33"));
  CHECK_THAT(Error(one("32", "[2]")), Contains("\"a\""));
  CHECK_THAT(Error(one("null", "[2]")), Contains("null"));
  CHECK_THAT(Error(one(R"("F32")", "[3]")), Contains("need 12 bytes"));
  CHECK_THAT(Error(one(R"("F64")", "[2]")), Contains("need 16 bytes"));
  CHECK_THAT(Error(one(R"("F32")", "[-2]")), Contains("negative"));
  CHECK_THAT(Error(one(R"("F32")", "2")), Contains("\"a\""));
  CHECK_THAT(Error(one(R"("F32")", R"(["2"])")), Contains("\"a\""));
  CHECK_THAT(Error(one(R"("F32")", "[[2]]")), Contains("an array"));
  // A product that wraps around to 2 in 64 bits.
  CHECK_THAT(Error(one(R"("F32")", "[4294967297,8589934594]")), Contains("\"a\""));
  CHECK_THAT(Error(one(R"("F32")", "[1099511627776,1099511627776]")), Contains("more than"));
  CHECK_THAT(Error(one(R"("F32")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]")),
             Contains("16 dimensions"));
}

TEST_CASE("a safetensors header that is not the format's JSON is refused") {
  const std::string tensor = R"({"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  const std::string data(4, '\0');
  const std::vector<std::pair<std::string, std::string>> table = {
      {"[]", "begin with {"},
      {" {}", "begin with {"},
      {"{", "JSON"},
      {"{}x", "JSON"},
      {R"({"a":)" + tensor + ",}", "JSON"},
      {"{\"a\xff\":" + tensor + "}", "JSON"},
      {R"({"a":)" + tensor + R"(,"a":)" + tensor + "}", "twice"},
      {R"({"a":1})", "\"a\""},
      {R"({"a":[]})", "an array"},
      {R"({"a":{}})", "missing"},
      {R"({"a":{"dtype":"F32","shape":[]}})", "missing"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "missing"},
      {R"({"a":{"shape":[],"data_offsets":[0,4]}})", "missing"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", "twice"},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", "unknown key"},
      {R"({"a":{"dtype":{},"shape":[],"data_offsets":[0,4]}})", "an object"},
      {R"({"__metadata__":1})", "header"},
      {R"({"__metadata__":{"k":1}})", "header"},
      {R"({"__metadata__":{"k":{}}})", "an object"},
      {R"({"__metadata__":{"k":"a","k":"b"}})", "twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "twice"},
      {R"({"a":true})", "boolean"},
      {std::string(100000, '[').insert(0, "{\"a\":"), "an array"},
  };
  for (const auto& [header, message] : table) {
    INFO(header.substr(0, 100));
    CHECK_THAT(Error(File(header, data)), Contains(message));
  }
}

TEST_CASE("error messages stay short and printable whatever the name") {
  const std::string error = Error(File("{\"" + std::string(5000, 'n') + "\\u001b\":1}"));
  CHECK(error.size() < 300);
  CHECK(Error(File(R"({"a\u001b[2J":1})")).find('\x1b') == std::string::npos);
}

Layout TwoTensors() {
  Layout layout;
  REQUIRE(layout.Add("w", {2, 2}).ok());
  REQUIRE(layout.Add("b", {3}).ok());
  return layout;
}

TEST_CASE("the writer gives the bytes of the format") {
  std::string file;
  const auto sink = [&file](absl::Span<const uint8_t> bytes) {
    file += AsString(bytes);
    return absl::OkStatus();
  };
  absl::StatusOr<SafetensorsWriter> writer =
      SafetensorsWriter::Start(TwoTensors(), DType::kBF16, sink);
  REQUIRE(writer.ok());
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7};
  REQUIRE(writer->Append(absl::MakeSpan(values).first(3)).ok());
  CHECK(writer->Finish().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(writer->Append(absl::MakeSpan(values).subspan(3)).ok());
  CHECK(writer->Finish().ok());
  CHECK(writer->Append(absl::MakeSpan(values).first(1)).code() ==
        absl::StatusCode::kInvalidArgument);
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(file == File(padded, std::string("\x80\x3f\x00\x40\x40\x40\x80\x40"
                                         "\xa0\x40\xc0\x40\xe0\x40",
                                         14)));
  CHECK(file.size() == writer->file_bytes());
}

TEST_CASE("what the writer writes the parser reads, in pieces of any size") {
  Layout layout;
  REQUIRE(layout.Add("big", {100'003}).ok());
  std::vector<float> values(layout.num_params());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 256) / 4;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const size_t piece : {size_t{1'000}, values.size()}) {
      std::string file;
      absl::StatusOr<SafetensorsWriter> writer =
          SafetensorsWriter::Start(layout, dtype, [&file](absl::Span<const uint8_t> bytes) {
            file += AsString(bytes);
            return absl::OkStatus();
          });
      REQUIRE(writer.ok());
      for (size_t i = 0; i < values.size(); i += piece) {
        REQUIRE(writer->Append(absl::MakeSpan(values).subspan(i, piece)).ok());
      }
      REQUIRE(writer->Finish().ok());
      const absl::StatusOr<SafetensorsView> view = Parse(file);
      REQUIRE(view.ok());
      std::vector<float> back(values.size());
      REQUIRE(view->ReadF32("big", absl::MakeSpan(back)).ok());
      CHECK(back == values);
    }
  }
}

TEST_CASE("the writer passes on the sink's error and refuses other dtypes") {
  const auto full = [](absl::Span<const uint8_t>) {
    return absl::ResourceExhaustedError("disk full");
  };
  CHECK(SafetensorsWriter::Start(TwoTensors(), DType::kF32, full).status().code() ==
        absl::StatusCode::kResourceExhausted);
  const auto ignore = [](absl::Span<const uint8_t>) { return absl::OkStatus(); };
  CHECK(SafetensorsWriter::Start(TwoTensors(), DType::kI64, ignore).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("an index lists files of its own folder") {
  const absl::StatusOr<SafetensorsIndex> index = SafetensorsIndex::Parse(
      R"({"metadata":{"total_size":12},"weight_map":{"b":"model-00002-of-00002.safetensors",)"
      R"("a":"model-00001-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}})");
  REQUIRE(index.ok());
  CHECK(index->weight_map.at("c") == "model-00001-of-00002.safetensors");
  CHECK(index->Files() == std::vector<std::string>{"model-00001-of-00002.safetensors",
                                                   "model-00002-of-00002.safetensors"});
}

TEST_CASE("an index with a path outside its folder or of another form is refused") {
  for (const char* name :
       {"../model.safetensors", "/etc/model.safetensors", "sub/model.safetensors", "..", ".", "",
        ".hidden.safetensors", "C:model.safetensors", "a\\\\b.safetensors", "a\\u0000.safetensors",
        "model.bin", "\\u00e9.safetensors"}) {
    INFO(name);
    const absl::Status status =
        SafetensorsIndex::Parse(std::string(R"({"weight_map":{"t":")") + name + "\"}}").status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("\"t\"") && Contains("same folder"));
  }
  for (const char* json : {"", "[]", "{}", "{", R"({"weight_map":[]})", R"({"weight_map":{}})",
                           R"({"weight_map":{"t":1}})", R"({"weight_map":{"t":{}}})"}) {
    INFO(json);
    CHECK(SafetensorsIndex::Parse(json).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace gdf::tensor
