// How fast nodes of this network were in rounds of the past, so that a plan can say how long a job would take.
#ifndef GDF_CORE_SCHEDULE_SPEED_H_
#define GDF_CORE_SCHEDULE_SPEED_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "core/schedule/cost.h"
#include "core/wire/state_commands.h"

namespace gdf::schedule {

struct Speed {
  double flops_per_sec = 0;         // of the slowest node in compute, counted by FlopsPerToken
  double exchange_bytes_per_sec = 0;  // payload that a node sent in exchanges; 0: there was nothing to send
};

// Forward and backward pass: 6 for each parameter (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). Attention's
// products, small beside that at usual sequence lengths, are left out here and there.
double FlopsPerToken(int64_t num_parameters);

// What `rounds` of a job of this cost show. Absent when none of them has computed.
std::optional<Speed> MeasuredSpeed(const Cost& cost, absl::Span<const wire::RoundMetrics> rounds);

// Puts the speed into `input`, so that EstimateCost tells times.
void SetSpeed(const Speed& speed, int64_t num_parameters, CostInput* input);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_SPEED_H_
