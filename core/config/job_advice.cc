#include "core/config/job_advice.h"

#include "absl/strings/str_cat.h"

namespace gdf::config {
namespace {

// Codecs that leave most of a delta out of each round: without feedback that part is never sent.
bool NeedsErrorFeedback(CodecKind kind) {
  return kind == CodecKind::kSign || kind == CodecKind::kTopK2 || kind == CodecKind::kTopK8 || kind == CodecKind::kDct;
}

}  // namespace

std::vector<std::string> Warnings(const JobSpec& spec) {
  std::vector<std::string> warnings;
  const RoundsSpec& rounds = spec.rounds;
  if (rounds.error_feedback) return warnings;
  const auto warn = [&](const std::string& codec) {
    warnings.push_back(absl::StrCat("rounds.error_feedback is false, and what codec ", codec,
                                    " leaves out of a round is lost without it: remove the key, or expect a worse model"));
  };
  for (const CodecSpec& codec : rounds.codecs) {
    if (NeedsErrorFeedback(codec.kind)) warn(codec.ToString());
  }
  if (rounds.rank > 0) warn(PowerSgdName(rounds.rank));
  return warnings;
}

}  // namespace gdf::config
