// links: gdf_inner_state
// A worker's saved state. A header that is read is written again as it was; moments that pass hold
// no value that could spoil training.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/check.h"
#include "gdfd/worker/inner_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gdf::worker::InnerState;
  const absl::Span<const uint8_t> bytes(data, size);
  for (const uint64_t num_moments : {0, 1, 2}) {
    InnerState expected;
    expected.optimizer =
        num_moments == 2 ? gdf::config::InnerOptimizer::kAdamW : gdf::config::InnerOptimizer::kSgd;
    expected.num_moments = num_moments;
    expected.num_params = 3;
    const absl::StatusOr<InnerState> state = InnerState::ReadHeader(bytes, expected);
    if (!state.ok()) continue;
    GDF_CHECK(size >= InnerState::kHeaderBytes && state->step >= 0);
    GDF_CHECK(InnerState::ReadHeader(state->Header(), expected)->step == state->step);
    const auto check = [](size_t moment, uint64_t first, absl::Span<const uint8_t> part) {
      GDF_CHECK(first == 0 && part.size() <= 3 * sizeof(float));
      if (!InnerState::CheckMoment(moment, part).ok()) return absl::OkStatus();
      for (size_t at = 0; at < part.size(); at += sizeof(float)) {
        float value;
        std::memcpy(&value, part.data() + at, sizeof(value));
        GDF_CHECK(std::isfinite(value) && (moment == 0 || value >= 0));
      }
      return absl::OkStatus();
    };
    const auto moments = bytes.subspan(0, size / sizeof(float) * sizeof(float));
    GDF_CHECK(state->VisitMoments(0, moments, check).ok());
  }
  return 0;
}
