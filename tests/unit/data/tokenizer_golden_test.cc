// Ids and texts that the `tokenizers` library 0.23 gave for fixtures/*.json
// (tests/bench/tokenizer_check/styles.py makes both).
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"

namespace gdf::data {
namespace {

std::string ReadFixture(const std::string& name) {
  std::ifstream in(std::string(GDF_SOURCE_DIR "/tests/unit/data/fixtures/") + name,
                   std::ios::binary);
  REQUIRE(in);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST_CASE("data: tokenizer.json files give the ids of the tokenizers library") {
  const nlohmann::json expected = nlohmann::json::parse(ReadFixture("expected.json"));
  REQUIRE(expected.size() == 7);
  for (const auto& [name, samples] : expected.items()) {
    const auto tokenizer = ParseTokenizer(ReadFixture(name + ".json"));
    INFO(name << ": " << tokenizer.status());
    REQUIRE(tokenizer.ok());
    for (const nlohmann::json& sample : samples) {
      const std::string text = sample["text"];
      INFO("text: " << sample["text"]);
      const auto ids = (*tokenizer)->Encode(text, AddSpecial::kYes);
      CHECK(ids.ok() == !sample["ids"].is_null());  // null: the library refuses it
      if (!ids.ok()) continue;
      CHECK(*ids == sample["ids"].get<std::vector<int32_t>>());
      CHECK(*(*tokenizer)->Encode(text) == sample["plain_ids"].get<std::vector<int32_t>>());
      CHECK((*tokenizer)->Decode(*ids, /*skip_special=*/true) ==
            sample["decoded"].get<std::string>());
    }
  }
}

// Byte for byte up to the order of the fields.
TEST_CASE("data: byte and char tokenizers are the files that the tokenizers library saves") {
  const nlohmann::json byte = nlohmann::json::parse(ReadFixture("byte.json"));
  CHECK(nlohmann::json::parse(MakeByteTokenizer()->Serialize()) == byte);
  CHECK((*ParseTokenizer(byte.dump()))->name() == "byte");

  const nlohmann::json file = nlohmann::json::parse(ReadFixture("char.json"));
  std::string alphabet;
  for (const auto& [character, id] : file["model"]["vocab"].items()) alphabet += character;
  const std::vector<std::string_view> texts = {alphabet};
  CHECK(nlohmann::json::parse((*MakeCharTokenizer(texts))->Serialize()) == file);
  CHECK((*ParseTokenizer(file.dump()))->name() == "char");
}

TEST_CASE("data: a tokenizer survives Serialize and names its special ids") {
  const std::string bytes = ReadFixture("llama3.json");
  const auto tokenizer = ParseTokenizer(
      bytes, R"({"bos_token": {"content": "<|begin_of_text|>"}, "eos_token": null})");
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->name() == "bpe");
  CHECK((*tokenizer)->Serialize() == bytes);
  const SpecialIds ids = (*tokenizer)->special_ids();
  CHECK((*tokenizer)->Decode({*ids.bos}) == "<|begin_of_text|>");
  CHECK((*tokenizer)->Decode({*ids.eos}) == "<|end_of_text|>");  // the usual name
  CHECK((*tokenizer)->Decode({*ids.eos}, /*skip_special=*/true).empty());
  CHECK(ids.eos < (*tokenizer)->vocab_size());
  const auto again = ParseTokenizer(bytes, (*tokenizer)->Config());
  REQUIRE(again.ok());
  CHECK((*again)->special_ids().bos == ids.bos);
  CHECK((*again)->special_ids().eos == ids.eos);

  const auto by_id = ParseTokenizer(bytes, R"({"bos_token_id": 3, "eos_token_id": [5, 7]})");
  REQUIRE(by_id.ok());
  CHECK((*by_id)->special_ids().bos == 3);
  CHECK((*by_id)->special_ids().eos == 5);
  CHECK_FALSE(ParseTokenizer(bytes, R"({"eos_token_id": 100000})").ok());
  CHECK_FALSE(ParseTokenizer(bytes, R"({"eos_token": "<nothing>"})").ok());
  CHECK_FALSE(ParseTokenizer(bytes, "[]").ok());
}

}  // namespace
}  // namespace gdf::data
