// Which deltas a round does without, which nodes a job does without, and whether the model itself has gone wrong: a pure
// function of what members told of this round and of those before. It is for faults, not for enemies: who lies about its
// figures is not found out.
//
//   std::map<NodeId, std::string> left_out = anomalies.Judge(fragment, reports);
//   anomalies.Learn(fragment, reports, left_out);                        // once the round is committed
//   if (auto why = anomalies.JudgeModel(round, mean_loss)) ...
#ifndef GDF_CORE_SCHEDULE_ANOMALIES_H_
#define GDF_CORE_SCHEDULE_ANOMALIES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/config/job_spec.h"

namespace gdf::schedule {

// Of one job, as one lead has seen it. Not thread-safe.
class Anomalies {
 public:
  static constexpr size_t kHistory = 16;  // the newest figures that one is compared with
  static constexpr size_t kFew = 4;       // with fewer there is no comparison

  explicit Anomalies(const config::AnomaliesSpec& limits) : limits_(limits) {}

  // Of a member that has a delta.
  struct Report {
    NodeId node;
    uint64_t steps = 0;
    double norm = 0;  // L2, of its delta with the residual
    double loss = 0;  // mean over the steps, nats a token
  };

  // Whose delta is to be left out, and why, as the end of a sentence. Far is, by median m and σ = 1.4826 times the median
  // deviation from it (Rousseeuw and Croux 1993), what is above m by the larger of the limit and 6 σ.
  // - Norms, as ln(norm / steps^¾), far from those of three or more members and, where it is known, from its own of this
  //   fragment before; of two members, from its own. (s steps are between √s, noise, and s, drift, long.)
  // - Losses: the rise above its own before, less that of the members together.
  // Never all of them: what all have is the model's, not a node's.
  std::map<NodeId, std::string> Judge(uint64_t fragment, const std::vector<Report>& reports) const;
  // A round is committed with the deltas of those of `reports` that are not in `left_out`.
  void Learn(uint64_t fragment, const std::vector<Report>& reports, const std::map<NodeId, std::string>& left_out);

  // `node` was at fault in `round`, however that was seen. Whether it is to be taken out of the job: the reason.
  std::optional<std::string> Strike(const NodeId& node, RoundId round, const std::string& why);

  // The mean loss of the round that began from θ_round; of each once, in order. The reason, once it was far above the
  // job's own before in limits.model_rounds rounds in a row.
  std::optional<std::string> JudgeModel(RoundId round, double loss);
  // Has any round been judged?
  bool knows_model() const { return last_round_.has_value(); }
  // The newest θ from which a round's loss was as it should be; none: no round's was.
  const std::optional<RoundId>& last_good() const { return last_good_; }

 private:
  using Figures = std::deque<double>;  // at most kHistory, newest last

  config::AnomaliesSpec limits_;
  std::map<std::pair<NodeId, uint64_t>, Figures> norms_;  // by fragment
  std::map<NodeId, Figures> losses_;
  std::map<NodeId, std::vector<RoundId>> strikes_;  // ascending, within the window
  Figures model_losses_;  // those that were as they should be
  std::optional<RoundId> last_round_, last_good_;
  int64_t bad_rounds_ = 0;  // in a row
};

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_ANOMALIES_H_
