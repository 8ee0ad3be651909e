#include "core/config/units.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gdf::config {
namespace {

TEST_CASE("sizes are exact, with decimal and binary units") {
  const std::vector<std::pair<std::string, uint64_t>> cases = {
      {"0", 0},
      {"1B", 1},
      {"500MB", 500'000'000},
      {"8GiB", 8'589'934'592},
      {"1.5GiB", 1'610'612'736},
      {"1.5 kB", 1500},
      {"7PiB", 7'881'299'347'898'368},
      {"9223372036854775807B", 9'223'372'036'854'775'807}};
  for (const auto& [text, bytes] : cases) {
    INFO(text);
    const auto parsed = ParseSize(text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == bytes);
    CHECK(ParseSize(FormatSize(bytes)).value() == bytes);
  }
  CHECK(FormatSize(500'000'000) == "500MB");
  CHECK(FormatSize(8'589'934'592) == "8GiB");
  CHECK(FormatSize(1'610'612'736) == "1536MiB");
}

TEST_CASE("what is no size is refused") {
  for (const std::string text :
       {"", "8", "8G", "8gib", "GiB", "-1B", "+1B", ".5GiB", "1.GiB", "1.5B", "0.1kBB", "1e3B",
        "nanB", "9223372036854775808B", "8192PiB", "99999999999999999999B", "1GiB "}) {
    INFO(text);
    CHECK(ParseSize(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("rates are bytes per second, from bits or bytes") {
  CHECK(ParseRate("100Mbit/s").value() == 12'500'000);
  CHECK(ParseRate("12MB/s").value() == 12'000'000);
  CHECK(ParseRate("1GiB/s").value() == 1'073'741'824);
  CHECK(FormatRate(12'500'000) == "12500kB/s");
  CHECK(FormatRate(125'000'000) == "125MB/s");
  for (const std::string text : {"", "100", "100Mbit", "12MB", "1bit/s", "100mbit/s", "/s"}) {
    INFO(text);
    CHECK(ParseRate(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
  for (const uint64_t rate : {1ull, 125ull, 12'500'000ull, 9'223'372'036'854'775'807ull}) {
    CHECK(ParseRate(FormatRate(rate)).value() == rate);
  }
}

TEST_CASE("durations are whole numbers with units, largest first") {
  CHECK(ParseDuration("30s").value() == absl::Seconds(30));
  CHECK(ParseDuration("1h30m").value() == absl::Minutes(90));
  CHECK(ParseDuration("2d").value() == absl::Hours(48));
  CHECK(ParseDuration("1m500ms").value() == absl::Milliseconds(60'500));
  CHECK(ParseDuration("0").value() == absl::ZeroDuration());
  CHECK(ParseDuration("3650d").value() == kMaxDuration);
  CHECK(PrintDuration(absl::Minutes(90)) == "1h30m");
  CHECK(PrintDuration(absl::Hours(48)) == "48h");
  CHECK(PrintDuration(absl::Milliseconds(60'500)) == "1m500ms");
  for (const std::string text : {"", "30", "s", "30m1h", "1s1s", "-1s", "1.5h", "1 h", "3651d",
                                 "9223372036854775807d", "99999999999999999999s", "1w", "1h30"}) {
    INFO(text);
    CHECK(ParseDuration(text).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("shares and numbers") {
  CHECK(ParseFraction("10%").value() == 0.1);
  CHECK(ParseFraction("0.1").value() == 0.1);
  CHECK_FALSE(ParseFraction("%").ok());
  CHECK_FALSE(ParseFraction("ten").ok());
  CHECK(ParseNumber("1e-3").value() == 0.001);
  CHECK(ParseNumber("-2").value() == -2.0);
  for (const std::string text :
       {"", "-", ".", "nan", "inf", "-inf", "0x10", "1e999", "1,5", "1 "}) {
    INFO(text);
    CHECK_FALSE(ParseNumber(text).ok());
  }
  for (const double value : {0.1, 1e-8, 9.999999747378752e-06, 1e300, 0.0}) {
    CHECK(ParseNumber(FormatNumber(value)).value() == value);
  }
}

}  // namespace
}  // namespace gdf::config
