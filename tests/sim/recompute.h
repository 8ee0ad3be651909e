// What a committed round must be, computed again from what its contributors packed: no shards, no exchange.
#ifndef GDF_TESTS_SIM_RECOMPUTE_H_
#define GDF_TESTS_SIM_RECOMPUTE_H_

#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/outer_state.h"
#include "tests/sim/job_options.h"
#include "tests/sim/sim_worker.h"

namespace gdf::sim {

// What a disk holds of one committed round.
struct CommittedRound {
  checkpoint::OuterStatePtr state;
  std::optional<wire::Commit> commit;
};

class Recompute {
 public:
  // All of them outlive it.
  Recompute(const JobOptions& options, const config::JobSpec& spec, const EmitJournal& journal,
            const ProjectionJournal& projections, const InnerJournal& inner, const std::vector<NodeId>& nodes)
      : options_(options), spec_(spec), journal_(journal), projections_(projections), inner_(inner), nodes_(nodes) {}

  // What is wrong with `round`, which follows on `before`; or nothing.
  std::string Check(const CommittedRound& before, const CommittedRound& round) const;

 private:
  std::string CheckFactors(const CommittedRound& before, const CommittedRound& round) const;
  bool Reproduces(const CommittedRound& before, const CommittedRound& round, const std::vector<Buffer>& packed) const;
  absl::Span<const float> OuterMomentum(const checkpoint::OuterState& state) const;
  // Is it what the outer step makes of this mean?
  bool Steps(const CommittedRound& before, const CommittedRound& round, absl::Span<const float> mean) const;
  bool IsFirstPass(RoundId round, const std::vector<float>& mean) const;

  const JobOptions& options_;
  const config::JobSpec& spec_;
  const EmitJournal& journal_;
  const ProjectionJournal& projections_;
  const InnerJournal& inner_;
  const std::vector<NodeId>& nodes_;  // in the order of sums
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_RECOMPUTE_H_
