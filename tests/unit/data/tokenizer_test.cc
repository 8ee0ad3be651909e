#include "core/data/tokenizer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace gdf::data {
namespace {

using Ids = std::vector<int32_t>;
using Catch::Matchers::Contains;

// A model of four letters in which "ab" and "abc" merge.
std::string Model(const std::string& merges = R"(["a b", "ab c"])", const std::string& more = "") {
  return R"("model": {"type": "BPE", "vocab": {"a":0,"b":1,"c":2,"d":3,"ab":4,"abc":5}, "merges": )" +
         merges + more + "}";
}

std::string File(const std::string& fields) { return "{" + fields + "}"; }

std::string ErrorOf(const std::string& bytes) {
  const auto tokenizer = ParseTokenizer(bytes);
  return tokenizer.ok() ? "OK" : tokenizer.status().ToString();
}

TEST_CASE("data: byte tokenizer is the bytes") {
  const auto tokenizer = MakeByteTokenizer();
  CHECK(tokenizer->vocab_size() == 256);
  CHECK_FALSE(tokenizer->special_ids().eos);
  CHECK(*tokenizer->Encode("aé") == Ids{0x61, 0xc3, 0xa9});
  CHECK(tokenizer->Decode({0x61, 0xc3, 0xa9}) == "aé");
  CHECK(tokenizer->Decode({0x61, 0xc3}) == "a\xef\xbf\xbd");
  CHECK(tokenizer->Decode({0x61, 256, -1}) == "a");
  CHECK((*ParseTokenizer(tokenizer->Serialize()))->name() == "byte");
}

TEST_CASE("data: char tokenizer numbers the sorted characters") {
  const std::vector<std::string_view> texts = {"hello", "élan", "😀"};
  const auto tokenizer = MakeCharTokenizer(texts);
  REQUIRE(tokenizer.ok());
  // a e h l n o é 😀
  CHECK((*tokenizer)->vocab_size() == 8);
  CHECK(*(*tokenizer)->Encode("hé😀a") == Ids{2, 6, 7, 0});
  CHECK((*tokenizer)->Decode({2, 6, 7, 0, 8, -1}) == "hé😀a");
  const auto again = ParseTokenizer((*tokenizer)->Serialize());
  REQUIRE(again.ok());
  CHECK((*again)->Serialize() == (*tokenizer)->Serialize());
  CHECK(*(*again)->Encode("hé😀a") == Ids{2, 6, 7, 0});

  CHECK_THAT((*tokenizer)->Encode("elé€").status().ToString(),
             Contains("U+20AC") && Contains("offset 4"));
  CHECK_FALSE(MakeCharTokenizer({}).ok());
  const std::vector<std::string_view> broken = {"ok", "\xff"};
  CHECK_THAT(MakeCharTokenizer(broken).status().ToString(), Contains("0xff at offset 0"));
}

TEST_CASE("data: the files of a char tokenizer") {
  const std::vector<std::string_view> texts = {"b\"\na"};
  const auto tokenizer = MakeCharTokenizer(texts);
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->Serialize() ==
        R"({"added_tokens":[],"decoder":{"type":"Fuse"},"model":{"byte_fallback":false,)"
        R"("continuing_subword_prefix":null,"dropout":null,"end_of_word_suffix":null,)"
        R"("fuse_unk":false,"ignore_merges":false,"merges":[],"type":"BPE",)"
        R"("unk_token":"a character outside the alphabet",)"
        R"("vocab":{"\n":0,"\"":1,"a":2,"b":3}},"normalizer":null,"padding":null,)"
        R"("post_processor":null,"pre_tokenizer":null,"truncation":null,"version":"1.0"})");
  CHECK((*tokenizer)->Config() ==
        "{\n  \"clean_up_tokenization_spaces\": false,\n"
        "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
  CHECK(MakeByteTokenizer()->Config() == (*tokenizer)->Config());
}

// Anything else is what the library makes of it, or refused by name.
TEST_CASE("data: a file is a char or byte tokenizer's only as it stands") {
  const std::vector<std::string_view> texts = {"ab"};
  const std::string file = (*MakeCharTokenizer(texts))->Serialize();
  const auto with = [&file](const std::string& from, const std::string& to) {
    std::string changed = file;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  CHECK((*ParseTokenizer(file))->name() == "char");
  // As transformers 5.24 saves it.
  const std::string none_added = R"("post_processor":null)";
  const auto saved = ParseTokenizer(with(none_added, R"("post_processor":{"type":
      "TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":
      {"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{}})"));
  REQUIRE(saved.ok());
  CHECK((*saved)->name() == "char");
  CHECK((*saved)->Serialize() == file);
  CHECK_THAT(ErrorOf(with(none_added, R"("post_processor":{"type":"TemplateProcessing","single":[
      {"SpecialToken":{"id":"a","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],
      "special_tokens":{"a":{"id":"a","ids":[0],"tokens":["a"]}}})")),
             Contains("unk_token"));
  CHECK_THAT(ErrorOf(with("\"a\":0,\"b\":1", "\"a\":1,\"b\":0")), Contains("unk_token"));
  CHECK_THAT(ErrorOf(with("\"b\":1", "\"bc\":1")), Contains("unk_token"));
  CHECK_THAT(ErrorOf(with("\"b\":1", "\"\":1")), Contains("unk_token"));
  CHECK_THAT(ErrorOf(with("{\"a\":0,\"b\":1}", "{}")), Contains("vocab is empty"));
  CHECK_THAT(ErrorOf(with("\"truncation\":null", "\"truncation\":{}")), Contains("truncation"));
  CHECK_THAT(ErrorOf(with("\"a character outside the alphabet\"", "null")), Contains("Fuse"));
  const std::string bytes = MakeByteTokenizer()->Serialize();
  std::string prefixed = bytes;
  const std::string none = R"("pre_tokenizer":{"add_prefix_space":false)";
  prefixed.replace(prefixed.find(none), none.size(), R"("pre_tokenizer":{"add_prefix_space":true)");
  const auto general = ParseTokenizer(prefixed);
  REQUIRE(general.ok());
  CHECK((*general)->name() == "bpe");
  CHECK(*(*general)->Encode("aé") == Ids{0x20, 0x61, 0xc3, 0xa9});
}

TEST_CASE("data: byte-pair merges by rank, from the left") {
  const auto tokenizer = ParseTokenizer(File(Model()));
  REQUIRE(tokenizer.ok());
  CHECK(*(*tokenizer)->Encode("abcab") == Ids{5, 4});
  CHECK(*(*tokenizer)->Encode("aabbc") == Ids{0, 4, 1, 2});
  CHECK(*(*tokenizer)->Encode("abxc") == Ids{5});   // without an unknown token x is left out
  CHECK((*tokenizer)->Decode({5, 4}) == "abc ab");  // without a decoder: joined by spaces
  CHECK((*tokenizer)->vocab_size() == 6);
  // Both ways to write merges.
  const auto pairs = ParseTokenizer(File(Model(R"([["a","b"],["ab","c"]])")));
  REQUIRE(pairs.ok());
  CHECK(*(*pairs)->Encode("abcab") == Ids{5, 4});
  // Without merges words that are tokens still are with ignore_merges.
  const auto whole = ParseTokenizer(File(Model("[]", R"(, "ignore_merges": true)")));
  REQUIRE(whole.ok());
  CHECK(*(*whole)->Encode("abc") == Ids{5});
  CHECK(*(*whole)->Encode("abcd") == Ids{0, 1, 2, 3});
}

TEST_CASE("data: unknown characters as the model says") {
  const auto apart = ParseTokenizer(File(Model("[]", R"(, "unk_token": "d")")));
  REQUIRE(apart.ok());
  CHECK(*(*apart)->Encode("axyb") == Ids{0, 3, 3, 1});
  const auto fused = ParseTokenizer(File(Model("[]", R"(, "unk_token": "d", "fuse_unk": true)")));
  REQUIRE(fused.ok());
  CHECK(*(*fused)->Encode("axyb") == Ids{0, 3, 1});
}

TEST_CASE("data: what a tokenizer.json lacks or breaks is named") {
  CHECK_THAT(ErrorOf(""), Contains("not JSON"));
  CHECK_THAT(ErrorOf("{"), Contains("not JSON"));
  CHECK_THAT(ErrorOf("[]"), Contains("array"));
  CHECK_THAT(ErrorOf("{}"), Contains("model is missing"));
  CHECK_THAT(ErrorOf(std::string(1000, '[')), Contains("nested 1000 deep"));
  CHECK_THAT(ErrorOf(R"({"model": {"type": "BPE", "vocab": {"a": 0}}})"),
             Contains("model.merges is missing"));
  CHECK_THAT(ErrorOf(R"({"model": {"type": "BPE", "merges": []}})"),
             Contains("model.vocab is missing"));
  CHECK_THAT(ErrorOf(R"({"model": {"vocab": {}, "merges": []}})"),
             Contains("model.vocab is empty"));
  CHECK_THAT(ErrorOf(R"({"model": {"vocab": {"a": -1}, "merges": []}})"),
             Contains("model.vocab.a"));
  CHECK_THAT(ErrorOf(R"({"model": {"vocab": {"a": 99999999999}, "merges": []}})"),
             Contains("model.vocab.a"));
  CHECK_THAT(ErrorOf(R"({"model": {"vocab": {"a": 1, "b": 1}, "merges": []}})"), Contains("id 1"));
  CHECK_THAT(ErrorOf(File(Model(R"(["a x"])"))), Contains("merges[0]") && Contains("\"x\""));
  CHECK_THAT(ErrorOf(File(Model(R"(["a b", "b c"])"))),
             Contains("merges[1]") && Contains("\"bc\""));
  CHECK_THAT(ErrorOf(File(Model(R"(["ab"])"))), Contains("merges[0] is not two tokens"));
  CHECK_THAT(ErrorOf(File(Model(R"([["a"]])"))), Contains("merges[0] is not two tokens"));
  CHECK_THAT(ErrorOf(File(Model("[]", R"(, "unk_token": "zz")"))), Contains("\"zz\""));
}

TEST_CASE("data: what this build does not have is refused by name") {
  const auto with = [](const std::string& fields) { return ErrorOf(File(Model() + "," + fields)); };
  CHECK_THAT(ErrorOf(R"({"model": {"type": "WordPiece"}})"), Contains("\"WordPiece\""));
  CHECK_THAT(ErrorOf(File(Model("[]", R"(, "dropout": 0.1)"))), Contains("dropout"));
  CHECK_THAT(ErrorOf(File(Model("[]", R"(, "end_of_word_suffix": "</w>")"))), Contains("</w>"));
  CHECK_THAT(with(R"("truncation": {"max_length": 5})"), Contains("truncation"));
  CHECK_THAT(with(R"("padding": {})"), Contains("padding"));
  CHECK_THAT(with(R"("version": "2.0")"), Contains("2.0"));
  CHECK_THAT(with(R"("normalizer": {"type": "Precompiled"})"), Contains("Precompiled"));
  CHECK_THAT(with(R"("normalizer": {"type": "NFC", "x": 1})"), Contains("normalizer.x"));
  CHECK_THAT(with(R"("pre_tokenizer": {"type": "Metaspace"})"), Contains("Metaspace"));
  CHECK_THAT(
      with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]})"),
      Contains("pre_tokenizer.pretokenizers[0]") && Contains("Whitespace"));
  CHECK_THAT(
      with(
          R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\h"}, "behavior": "Isolated"})"),
      Contains("pre_tokenizer.pattern") && Contains("\\h"));
  CHECK_THAT(with(R"("post_processor": {"type": "BertProcessing"})"), Contains("BertProcessing"));
  CHECK_THAT(with(R"("decoder": {"type": "WordPiece"})"), Contains("decoder"));
}

std::string Added(const std::string& content, int id, const std::string& flags = "") {
  std::string token = R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content + "\"";
  for (const std::string& name :
       std::vector<std::string>{"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    token += ", \"" + name + "\": " + (flags.find(name) != std::string::npos ? "true" : "false");
  }
  return token + "}";
}

TEST_CASE("data: added tokens are cut out first, the longest at each place") {
  const auto tokenizer = ParseTokenizer(
      File(Model() + R"(, "added_tokens": [)" + Added("<x>", 6, "special") + "," +
           Added("<x>y", 7, "lstrip rstrip") + "," + Added("b", 1, "single_word") + "]"));
  REQUIRE(tokenizer.ok());
  CHECK((*tokenizer)->vocab_size() == 8);
  CHECK(*(*tokenizer)->Encode("ab<x>ab") == Ids{4, 6, 4});
  CHECK(*(*tokenizer)->Encode("a \n<x>y b") == Ids{0, 7, 1});
  CHECK(*(*tokenizer)->Encode("<x><x>y<x") == Ids{6, 7});
  CHECK((*tokenizer)->Decode({6, 0}, /*skip_special=*/true) == "a");
}

TEST_CASE("data: added tokens keep the id their place gives") {
  const auto with = [](const std::string& tokens) {
    return ErrorOf(File(Model() + R"(, "added_tokens": [)" + tokens + "]"));
  };
  CHECK(with(Added("x", 6)) == "OK");
  CHECK_THAT(with(Added("x", 8)), Contains("has id 8; its place gives it 6"));
  CHECK_THAT(with(Added("a", 6)), Contains("has id 6; its place gives it 0"));
  CHECK_THAT(with(Added("x", 6) + "," + Added("x", 7)), Contains("there twice"));
  CHECK_THAT(with(Added("", 6)), Contains("empty"));
  CHECK_THAT(with(R"({"id": 6, "content": "x"})"), Contains("added_tokens[0].single_word"));
}

TEST_CASE("data: texts that are not UTF-8 are refused with the offset") {
  const auto tokenizer = ParseTokenizer(File(Model()));
  REQUIRE(tokenizer.ok());
  CHECK_THAT((*tokenizer)->Encode("ab\xed\xa0\x80").status().ToString(), Contains("offset 2"));
  CHECK_THAT(MakeByteTokenizer()->Encode("\xc0\x80").status().ToString(), Contains("offset 0"));
}

TEST_CASE("data: a word of a million characters is encoded in time") {
  const auto tokenizer = ParseTokenizer(File(Model()));
  REQUIRE(tokenizer.ok());
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "abc"[i % 3];
  const auto ids = (*tokenizer)->Encode(text);
  REQUIRE(ids.ok());
  CHECK(ids->size() == 333'334);  // 333,333 times "abc", then "a"
}

}  // namespace
}  // namespace gdf::data
