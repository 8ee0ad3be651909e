#include "core/data/regex.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gdf::data {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

Spans Matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  INFO(pattern << ": " << regex.status());
  REQUIRE(regex.ok());
  Spans spans;
  REQUIRE(
      regex->ForEachMatch(text, [&](size_t begin, size_t end) { spans.emplace_back(begin, end); })
          .ok());
  return spans;
}

// Expected spans are those of Oniguruma 6.9.10 through its Rust binding.
TEST_CASE("data: regular expressions match as Oniguruma does") {
  CHECK(Matches(R"(\s+)", "a\xe1\xa0\x8e b\xc2\x85") == Spans{{4, 5}, {6, 8}});  // not U+180E
  CHECK(Matches(R"(\p{N}{1,3}+)", "1234567") == Spans{{0, 7}});
  CHECK(Matches(R"(\p{N}{1,3})", "1234567") == Spans{{0, 3}, {3, 6}, {6, 7}});
  CHECK(Matches("a{,2}", "aaa") == Spans{{0, 2}, {2, 3}});
  CHECK(Matches(R"(\v)", "\v\xe2\x80\xa8") == Spans{{0, 1}});
  CHECK(Matches("^", "a\nb\n") == Spans{{0, 0}, {2, 2}});
  CHECK(Matches(R"(\w)", "\xc2\xb2 \xe2\x82\x82_") == Spans{{0, 2}, {6, 7}});  // ² but not ₂
  CHECK(Matches("(?i:'s)", "'\xc5\xbf'S") == Spans{{0, 3}, {3, 5}});
  CHECK(Matches(R"([^\S\r\n]+)", "a \n b") == Spans{{1, 2}, {3, 4}});
  CHECK(Matches(R"(\x41\u0042\x{43})", "ABC") == Spans{{0, 3}});
  CHECK(Matches("x*", "axxb") == Spans{{0, 0}, {1, 3}, {4, 4}});
  CHECK(Matches(".", "\na") == Spans{{1, 2}});
  CHECK(Matches(R"(\p{^L}+)", "a12") == Spans{{1, 3}});
}

TEST_CASE("data: regular expressions that would not match alike are refused") {
  for (const char* pattern : {R"(\h)",
                              R"(\R)",
                              R"(\b)",
                              R"(\1)",
                              "(?<n>a)",
                              "(?#c)",
                              "[[:alpha:]]",
                              "[a&&b]",
                              "[]a]",
                              R"([\W])",
                              "a{2}?",
                              "a**",
                              "(?=a)*",
                              "(?i:ss)",
                              "(?i:\u00e9)",
                              R"((?i:\p{L}))",
                              "x(?i)a",
                              R"(\p{Mn})",
                              R"(\p{Greek_Extended})",
                              R"(\pL)",
                              R"(\xff)",
                              "a{1001}",
                              "{"}) {
    INFO(pattern);
    CHECK(Regex::Compile(pattern).status().code() == absl::StatusCode::kUnimplemented);
  }
  for (const char* pattern :
       {"(", ")", "[", "[]", "*", "\\", R"(\p{L)", R"(\x{d800})", "[b-a]", "(?<=a*)b", "\xff"}) {
    INFO(pattern);
    CHECK_FALSE(Regex::Compile(pattern).ok());
  }
  CHECK_FALSE(Regex::Compile(std::string(1000, '(')).ok());
  CHECK_FALSE(Regex::Compile(std::string(100'000, 'a')).ok());
}

TEST_CASE("data: a regular expression that explodes ends with an error") {
  const auto regex = Regex::Compile("(?:a|aa)+b");
  REQUIRE(regex.ok());
  const absl::Status status =
      regex->ForEachMatch(std::string(60, 'a') + "cb", [](size_t, size_t) {});
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gdf::data
