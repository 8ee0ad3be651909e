#include "core/config/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace gdf::config {
namespace {

struct Unit {
  std::string_view name;
  uint64_t value;
};

constexpr uint64_t kKi = 1024, kK = 1000;
constexpr std::array<Unit, 11> kSizeUnits = {{{"B", 1},
                                              {"KiB", kKi},
                                              {"MiB", kKi* kKi},
                                              {"GiB", kKi* kKi* kKi},
                                              {"TiB", kKi* kKi* kKi* kKi},
                                              {"PiB", kKi* kKi* kKi* kKi* kKi},
                                              {"kB", kK},
                                              {"MB", kK* kK},
                                              {"GB", kK* kK* kK},
                                              {"TB", kK* kK* kK* kK},
                                              {"PB", kK* kK* kK* kK* kK}}};
constexpr std::array<Unit, 5> kBitUnits = {{{"bit/s", 1},
                                            {"kbit/s", kK},
                                            {"Mbit/s", kK* kK},
                                            {"Gbit/s", kK* kK* kK},
                                            {"Tbit/s", kK* kK* kK* kK}}};
constexpr std::array<Unit, 5> kTimeUnitsMs = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status Invalid(std::string_view text, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrFormat("'%s' is not %s", text, expected));
}

// A decimal number as digits without the point and how many of them follow it: 1.50 is 150, 2.
struct Decimal {
  uint64_t digits = 0;
  int decimals = 0;
  std::string_view rest;
};

std::optional<Decimal> ReadDecimal(std::string_view text) {
  constexpr size_t kMaxDigits = 19;  // fit in 64 bits
  Decimal d;
  size_t i = 0, count = 0;
  for (bool point = false; i < text.size() && (IsDigit(text[i]) || (text[i] == '.' && !point));
       ++i) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    if (++count > kMaxDigits) return std::nullopt;
    d.digits = d.digits * 10 + static_cast<uint64_t>(text[i] - '0');
    d.decimals += point ? 1 : 0;
  }
  if (count == 0 || text[0] == '.' || text[i - 1] == '.') return std::nullopt;
  d.rest = text.substr(i);
  while (!d.rest.empty() && d.rest.front() == ' ') d.rest.remove_prefix(1);
  return d;
}

// digits / 10^decimals * unit / divisor when that is a whole number up to kMaxBytes.
std::optional<uint64_t> Scale(const Decimal& d, uint64_t unit, uint64_t divisor) {
  unsigned __int128 value = static_cast<unsigned __int128>(d.digits) * unit;
  unsigned __int128 by = divisor;
  for (int i = 0; i < d.decimals; ++i) by *= 10;
  if (value % by != 0 || value / by > kMaxBytes) return std::nullopt;
  return static_cast<uint64_t>(value / by);
}

template <size_t N>
const Unit* FindUnit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

std::string Shortest(std::string a, std::string b) { return b.size() < a.size() ? b : a; }

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  constexpr std::string_view kExpected = "a size: write a number and a unit such as 500MB or 8GiB";
  if (text == "0") return 0;
  const std::optional<Decimal> d = ReadDecimal(text);
  if (!d) return Invalid(text, kExpected);
  const Unit* unit = FindUnit(kSizeUnits, d->rest);
  if (unit == nullptr) return Invalid(text, kExpected);
  const std::optional<uint64_t> bytes = Scale(*d, unit->value, 1);
  if (!bytes) return Invalid(text, "a whole number of bytes below 8 EiB");
  return *bytes;
}

std::string FormatSize(uint64_t bytes) {
  if (bytes == 0) return "0";
  std::string best = absl::StrFormat("%uB", bytes);
  for (const Unit& unit : kSizeUnits) {
    if (bytes % unit.value == 0) {
      best = Shortest(best, absl::StrFormat("%u%s", bytes / unit.value, unit.name));
    }
  }
  return best;
}

absl::StatusOr<uint64_t> ParseRate(std::string_view text) {
  constexpr std::string_view kExpected =
      "a rate: write a number and a unit such as 100Mbit/s or 12MB/s";
  if (text == "0") return 0;
  const std::optional<Decimal> d = ReadDecimal(text);
  if (!d) return Invalid(text, kExpected);
  const Unit* unit = FindUnit(kBitUnits, d->rest);
  uint64_t divisor = 8;
  if (unit == nullptr && d->rest.size() > 2 && d->rest.substr(d->rest.size() - 2) == "/s") {
    unit = FindUnit(kSizeUnits, d->rest.substr(0, d->rest.size() - 2));
    divisor = 1;
  }
  if (unit == nullptr) return Invalid(text, kExpected);
  const std::optional<uint64_t> rate = Scale(*d, unit->value, divisor);
  if (!rate) return Invalid(text, "a whole number of bytes per second below 8 EiB/s");
  return *rate;
}

std::string FormatRate(uint64_t bytes_per_sec) {
  if (bytes_per_sec == 0) return "0";
  std::string best = FormatSize(bytes_per_sec) + "/s";
  for (const Unit& unit : kBitUnits) {
    const unsigned __int128 bits = static_cast<unsigned __int128>(bytes_per_sec) * 8;
    if (bits % unit.value != 0 || bits / unit.value > kMaxBytes) continue;
    best = Shortest(best,
                    absl::StrFormat("%u%s", static_cast<uint64_t>(bits / unit.value), unit.name));
  }
  return best;
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  constexpr std::string_view kExpected =
      "a duration: write whole numbers with units, largest first, such as 30s, 5m or 1h30m";
  if (text == "0") return absl::ZeroDuration();
  const int64_t max_ms = absl::ToInt64Milliseconds(kMaxDuration);
  int64_t total_ms = 0;
  size_t next_unit = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 0 || !IsDigit(rest.front()))
      return Invalid(text, kExpected);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    size_t length = 0;
    while (length < rest.size() && absl::ascii_isalpha(static_cast<unsigned char>(rest[length])))
      ++length;
    const Unit* unit = FindUnit(kTimeUnitsMs, rest.substr(0, length));
    if (unit == nullptr) return Invalid(text, kExpected);
    const size_t index = static_cast<size_t>(unit - kTimeUnitsMs.data());
    if (index < next_unit) return Invalid(text, kExpected);
    next_unit = index + 1;
    rest.remove_prefix(length);
    const auto unit_ms = static_cast<int64_t>(unit->value);
    if (number > (max_ms - total_ms) / unit_ms)
      return Invalid(text, "a duration of at most 10 years");
    total_ms += number * unit_ms;
  }
  if (text.empty()) return Invalid(text, kExpected);
  return absl::Milliseconds(total_ms);
}

std::string PrintDuration(absl::Duration duration) {
  auto rest_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
  if (rest_ms == 0) return "0";
  std::string text;
  for (const Unit& unit : kTimeUnitsMs) {
    if (unit.name == "d") continue;  // 24h reads better than 1d, and 36h than 1d12h
    if (rest_ms < unit.value) continue;
    absl::StrAppendFormat(&text, "%u%s", rest_ms / unit.value, unit.name);
    rest_ms %= unit.value;
  }
  return text;
}

absl::StatusOr<double> ParseNumber(std::string_view text) {
  constexpr std::string_view kExpected = "a number";
  const std::string_view digits = !text.empty() && text[0] == '-' ? text.substr(1) : text;
  // from_chars alone would take "inf" and "nan".
  if (digits.empty() || !(IsDigit(digits[0]) || (digits[0] == '.' && digits.size() > 1))) {
    return Invalid(text, kExpected);
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Invalid(text, kExpected);
  }
  return value;
}

absl::StatusOr<double> ParseFraction(std::string_view text) {
  const bool percent = !text.empty() && text.back() == '%';
  absl::StatusOr<double> value = ParseNumber(percent ? text.substr(0, text.size() - 1) : text);
  if (!value.ok()) return Invalid(text, "a share such as 10% or 0.1");
  return percent ? *value / 100 : *value;
}

std::string FormatNumber(double value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

}  // namespace gdf::config
