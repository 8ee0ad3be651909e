#include "core/data/dataset.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"

namespace gdf::data {
namespace {

using Catch::Matchers::Contains;
using Tokens = std::vector<int32_t>;

Tokens ToVector(absl::Span<const int32_t> span) { return {span.begin(), span.end()}; }

std::vector<std::string> Documents(std::vector<SourceFile> files, const SourceOptions& options) {
  std::vector<std::string> out;
  const absl::Status status = ForEachDocument(files, options, [&](std::string_view document) {
    out.emplace_back(document);
    return absl::OkStatus();
  });
  if (!status.ok()) out.push_back(status.ToString());
  return out;
}

const SourceOptions kJsonl = {SourceFormat::kJsonl, "text"};

TEST_CASE("data: text files are documents in the order given") {
  CHECK(Documents({{"b.txt", "second\r\n"}, {"empty", ""}, {"a.txt", "first"}}, {}) ==
        std::vector<std::string>{"second\r\n", "first"});
  const auto broken = Documents({{"a.txt", "ok"}, {"b.txt", "ab\xff"}}, {});
  CHECK_THAT(broken.back(), Contains("b.txt: byte 0xff at offset 2"));
}

TEST_CASE("data: JSON lines give their text field") {
  CHECK(Documents({{"a.jsonl",
                    "{\"text\": \"one\\n\"}\n\n{\"id\": 1, \"text\": \"zwei\"}\r\n  \n"
                    "{\"text\": \"\"}"}},
                  kJsonl) == std::vector<std::string>{"one\n", "zwei"});
  CHECK(Documents({{"a", "{\"body\": \"x\"}"}}, {SourceFormat::kJsonl, "body"}) ==
        std::vector<std::string>{"x"});
  const std::string good = "{\"text\": \"x\"}\n\n";
  const auto error = [&](const std::string& line) {
    return Documents({{"a.jsonl", good + line}}, kJsonl).back();
  };
  CHECK_THAT(error("{\"text\": "), Contains("a.jsonl line 3: not JSON"));
  CHECK_THAT(error("[1]"), Contains("a.jsonl line 3") && Contains("object was expected"));
  CHECK_THAT(error("{\"txt\": \"y\"}"), Contains("line 3: the line.text is missing"));
  CHECK_THAT(error("{\"text\": 5}"), Contains("line 3: the line.text is number"));
  CHECK_THAT(error("{\"text\": \"\xff\"}"), Contains("line 3"));
}

TEST_CASE("data: the last tenth is held out, as in the char-gpt recipe") {
  // int(0.9 * 1115394) of tinyshakespeare's length; here 0.9 * 25 = 22.5.
  const std::string text = "abcdefghijklmnopqrstuvwxy";
  const std::vector<SourceFile> files = {{"t", text}};
  const auto tokenizer = MakeCharTokenizerFor(files, {});
  REQUIRE(tokenizer.ok());
  CorpusOptions options;
  options.seq_len = 2;
  const auto corpus = TokenizedCorpus::Build(files, **tokenizer, options);
  REQUIRE(corpus.ok());
  CHECK(corpus->train().size() == 22);
  CHECK(ToVector(corpus->valid()) == Tokens{22, 23, 24});
  CHECK(corpus->tokens().size() == 25);
  options.valid_fraction = 0;
  CHECK(TokenizedCorpus::Build(files, **tokenizer, options)->valid().empty());
}

TEST_CASE("data: eos stands behind every document") {
  const auto tokenizer = ParseTokenizer(
      R"({"model": {"vocab": {"a":0,"b":1,"</s>":2}, "merges": []}, "added_tokens": [{"id":2,
          "content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,
          "special":true}]})");
  REQUIRE(tokenizer.ok());
  const std::vector<SourceFile> files = {{"x", "ab"}, {"y", "b"}, {"z", "aab"}};
  CorpusOptions options;
  options.valid_fraction = 0;
  const auto corpus = TokenizedCorpus::Build(files, **tokenizer, options);
  REQUIRE(corpus.ok());
  CHECK(ToVector(corpus->tokens()) == Tokens{0, 1, 2, 1, 2, 0, 0, 1, 2});
  CHECK(std::vector<int64_t>(corpus->document_starts().begin(), corpus->document_starts().end()) ==
        std::vector<int64_t>{0, 3, 5});
}

TEST_CASE("data: datasets too small say what to change") {
  const auto tokenizer = MakeByteTokenizer();
  const auto error = [&](std::vector<SourceFile> files, int64_t seq_len, double valid_fraction) {
    CorpusOptions options;
    options.seq_len = seq_len;
    options.valid_fraction = valid_fraction;
    return TokenizedCorpus::Build(files, *tokenizer, options).status().ToString();
  };
  CHECK_THAT(error({}, 4, 0.1), Contains("no text in its 0 files"));
  CHECK_THAT(error({{"a", ""}}, 4, 0.1), Contains("no text in its 1 files"));
  CHECK_THAT(error({{"a", "abcd"}}, 4, 0), Contains("training part has 4") && Contains("takes 5"));
  CHECK_THAT(error({{"a", "abcdefghijklmnop"}}, 4, 0.1), Contains("held-out part has 2"));
  CHECK(error({{"a", "abcde"}}, 4, 0) == "OK");
  CHECK_THAT(error({{"a", "abcde"}}, 4, 1), Contains("fraction 1"));
  CHECK_THAT(error({{"a", "abcde"}}, 0, 0), Contains("sequence length 0"));
}

}  // namespace
}  // namespace gdf::data
