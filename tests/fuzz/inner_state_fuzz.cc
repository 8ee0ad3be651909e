// links: gdf_inner_state
// A worker's saved state. What is read has the sizes that were expected, no value that could spoil
// training, and writes the header that it came with.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

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
    const absl::StatusOr<InnerState> state = InnerState::Read(bytes, expected);
    if (!state.ok()) continue;
    GDF_CHECK(size == InnerState::ByteSize(num_moments, 3) && state->step >= 0);
    for (size_t i = 0; i < num_moments; ++i) {
      float values[3];
      std::memcpy(values, state->MomentBytes(bytes, i).data(), sizeof(values));
      for (const float value : values) GDF_CHECK(std::isfinite(value) && (i == 0 || value >= 0));
    }
    std::vector<uint8_t> written(size);
    GDF_CHECK(state->WriteHeader(absl::MakeSpan(written)).ok());
    GDF_CHECK(InnerState::Read(written, expected)->step == state->step);
  }
  return 0;
}
