#include "core/schedule/speed.h"

namespace gdf::schedule {

double FlopsPerToken(int64_t num_parameters) { return 6.0 * static_cast<double>(num_parameters); }

std::optional<Speed> MeasuredSpeed(const Cost& cost, absl::Span<const wire::RoundMetrics> rounds) {
  double tokens = 0, compute = 0, bytes = 0, exchange = 0;
  for (const wire::RoundMetrics& round : rounds) {
    if (round.contributors == 0 || round.compute_sec <= 0) continue;
    tokens += static_cast<double>(round.tokens) / round.contributors;
    compute += round.compute_sec;
    if (round.contributors == 1) continue;
    bytes += static_cast<double>(cost.upload_bytes_per_round);
    exchange += round.exchange_sec;
  }
  if (tokens == 0) return std::nullopt;
  Speed speed;
  speed.flops_per_sec = tokens * FlopsPerToken(cost.num_parameters) / compute;
  if (exchange > 0) speed.exchange_bytes_per_sec = bytes / exchange;
  return speed;
}

void SetSpeed(const Speed& speed, int64_t num_parameters, CostInput* input) {
  if (num_parameters > 0) input->tokens_per_sec = speed.flops_per_sec / FlopsPerToken(num_parameters);
  if (speed.exchange_bytes_per_sec >= 1) {
    input->upload_bytes_per_sec = static_cast<uint64_t>(speed.exchange_bytes_per_sec);
  }
}

}  // namespace gdf::schedule
