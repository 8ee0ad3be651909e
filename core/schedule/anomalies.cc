#include "core/schedule/anomalies.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace gdf::schedule {
namespace {

constexpr double kSigmas = 6;
constexpr double kOfNormal = 1.4826;   // a normal distribution's σ over its median deviation
constexpr size_t kEnoughMembers = 3;   // of which one cannot move the median far

template <typename Values>
double LowerMedian(const Values& values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

// By how much `value` is above what is far of `others`; not above 0: it is not far.
template <typename Values>
double Excess(double value, const Values& others, double limit) {
  const double median = LowerMedian(others);
  std::vector<double> off;
  for (const double other : others) off.push_back(std::abs(other - median));
  return value - median - std::max(limit, kSigmas * kOfNormal * LowerMedian(off));
}

void Add(double figure, std::deque<double>& figures) {
  figures.push_back(figure);
  if (figures.size() > Anomalies::kHistory) figures.pop_front();
}

// None where there is no length to compare.
std::optional<double> LengthOf(const Anomalies::Report& report) {
  if (report.norm <= 0 || report.steps == 0) return std::nullopt;
  return std::log(report.norm) - 0.75 * std::log(static_cast<double>(report.steps));
}

std::string Times(double log_ratio) { return absl::StrFormat("%.3g times", std::exp(log_ratio)); }

}  // namespace

std::map<NodeId, std::string> Anomalies::Judge(uint64_t fragment, const std::vector<Report>& reports) const {
  std::map<NodeId, std::string> left_out;
  std::vector<double> lengths, rises;
  for (const Report& report : reports) {
    if (const std::optional<double> length = LengthOf(report)) lengths.push_back(*length);
    const auto own = losses_.find(report.node);
    if (own != losses_.end() && own->second.size() >= kFew) rises.push_back(report.loss - LowerMedian(own->second));
  }
  const double limit = std::log(limits_.delta_norm);
  for (const Report& report : reports) {
    const std::optional<double> length = LengthOf(report);
    if (limits_.delta_norm == 0 || !length) continue;
    const auto own = norms_.find({report.node, fragment});
    const bool has_past = own != norms_.end() && own->second.size() >= kFew;
    const bool has_others = lengths.size() >= kEnoughMembers;
    if (!has_past && !has_others) continue;
    if (has_past && Excess(*length, own->second, limit) <= 0) continue;
    if (has_others && Excess(*length, lengths, limit) <= 0) continue;
    const double usual = has_others ? LowerMedian(lengths) : LowerMedian(own->second);
    left_out[report.node] = absl::StrFormat("the norm of its delta, %.4g, is %s %s", report.norm, Times(*length - usual),
                                            has_others ? "the members' median" : "its own of the rounds before");
  }
  // What the members have in common, the round's data or the model, is no one node's fault.
  const double common = rises.empty() ? 0 : std::max(0.0, LowerMedian(rises));
  for (const Report& report : reports) {
    const auto own = losses_.find(report.node);
    if (limits_.loss_jump == 0 || own == losses_.end() || own->second.size() < kFew) continue;
    if (Excess(report.loss - common, own->second, limits_.loss_jump) <= 0) continue;
    left_out.emplace(report.node, absl::StrFormat("its loss, %.4g, jumped from its own of the rounds before, %.4g",
                                                  report.loss, LowerMedian(own->second)));
  }
  if (left_out.size() == reports.size()) left_out.clear();
  return left_out;
}

void Anomalies::Learn(uint64_t fragment, const std::vector<Report>& reports,
                      const std::map<NodeId, std::string>& left_out) {
  for (const Report& report : reports) {
    if (left_out.count(report.node) > 0) continue;
    if (const std::optional<double> length = LengthOf(report)) Add(*length, norms_[{report.node, fragment}]);
    Add(report.loss, losses_[report.node]);
  }
}

std::optional<std::string> Anomalies::Strike(const NodeId& node, RoundId round, const std::string& why) {
  std::vector<RoundId>& strikes = strikes_[node];
  std::erase_if(strikes, [&](RoundId struck) {
    return struck >= round || struck.value + static_cast<uint64_t>(config::AnomaliesSpec::kWindow) <= round.value;
  });
  strikes.push_back(round);
  if (limits_.node_rounds == 0 || static_cast<int64_t>(strikes.size()) < limits_.node_rounds) return std::nullopt;
  return absl::StrCat("it was at fault in ", Counted(strikes.size(), "round"), " of the last ",
                      config::AnomaliesSpec::kWindow, "; last: ", why);
}

std::optional<std::string> Anomalies::JudgeModel(RoundId round, double loss) {
  if (last_round_ && round <= *last_round_) return std::nullopt;
  last_round_ = round;
  const bool judges = limits_.loss_jump > 0 && limits_.model_rounds > 0 && model_losses_.size() >= kFew;
  if (judges && Excess(loss, model_losses_, limits_.loss_jump) > 0) {
    if (++bad_rounds_ < limits_.model_rounds) return std::nullopt;
    return absl::StrFormat("the members' mean loss, %.4g, is far above that of the rounds before, %.4g, %s", loss,
                           LowerMedian(model_losses_),
                           bad_rounds_ == 1 ? "in this round" : absl::StrCat("for ", bad_rounds_, " rounds"));
  }
  bad_rounds_ = 0;
  last_good_ = round;
  Add(loss, model_losses_);
  return std::nullopt;
}

}  // namespace gdf::schedule
