// Quantities with units, as people write them in job.yaml and gdfd.yaml: "8GiB", "1h30m",
// "100Mbit/s", "10%". Parsing is exact and bounded; formatting gives the shortest text that parses
// to the same value.
#ifndef GDF_CORE_CONFIG_UNITS_H_
#define GDF_CORE_CONFIG_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gdf::config {

// Longest duration that is accepted, ten years: longer ones are slips, and sums of them never
// overflow.
inline constexpr absl::Duration kMaxDuration = absl::Hours(24 * 3650);

// Bytes: a decimal number and one of B, kB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB,
// PiB (powers of 1024); "0" needs no unit. kInvalidArgument when the unit is missing or unknown,
// the value is no whole number of bytes or above 2^63 - 1.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);
std::string FormatSize(uint64_t bytes);

// Bytes per second: a size per second ("12MB/s") or bits per second ("100Mbit/s": bit, kbit, Mbit,
// Gbit, Tbit). Errors as ParseSize.
absl::StatusOr<uint64_t> ParseRate(std::string_view text);
std::string FormatRate(uint64_t bytes_per_sec);

// One or more whole numbers with units d, h, m, s, ms, largest first: "1h30m"; "0" needs no unit.
// kInvalidArgument above kMaxDuration.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);
// Of a duration that is a whole number of milliseconds and not negative.
std::string PrintDuration(absl::Duration duration);

// A share of 1: "10%" or "0.1".
absl::StatusOr<double> ParseFraction(std::string_view text);

// A finite decimal number such as "1e-3"; no hexadecimal, infinity or NaN.
absl::StatusOr<double> ParseNumber(std::string_view text);
// The shortest decimal text that ParseNumber reads as the same number.
std::string FormatNumber(double value);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_UNITS_H_
