#include "core/schedule/exchange_tuner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/compress/codec.h"

namespace gdf::schedule {
namespace {

// Moves `known` towards `seen`. A rate that was reached is possible; one that was not may have been held up by others.
constexpr double kUp = 0.5;
constexpr double kDown = 0.25;

void Follow(double seen, double up, double down, double* known) {
  if (seen <= 0) return;
  *known = *known <= 0 ? seen : *known + (seen - *known) * (seen > *known ? up : down);
}

}  // namespace

ExchangeTuner::ExchangeTuner(std::vector<config::CodecSpec> codecs, uint64_t num_values)
    : codecs_(std::move(codecs)), num_values_(num_values) {
  GDF_CHECK(!codecs_.empty());
}

void ExchangeTuner::Learn(const NodeId& member, const config::CodecSpec& codec, absl::Duration packing,
                          const wire::LinkFigures& figures) {
  Member& known = members_[member];
  Follow(static_cast<double>(figures.up_bytes_per_sec), kUp, kDown, &known.link.up_bytes_per_sec);
  Follow(static_cast<double>(figures.down_bytes_per_sec), kUp, kDown, &known.link.down_bytes_per_sec);
  known.rtt = figures.rtt;
  Coding& coding = known.by_codec[codec.ToString()];
  Follow(absl::ToDoubleSeconds(packing), kUp, kUp, &coding.packing_sec);
  Follow(static_cast<double>(figures.values_per_sec), kUp, kUp, &coding.values_per_sec);
}

bool ExchangeTuner::Known(absl::Span<const NodeId> members) const {
  return members.size() > 1 && std::any_of(members.begin(), members.end(), [this](const NodeId& node) {
           const auto it = members_.find(node);
           return it != members_.end() &&
                  it->second.link.up_bytes_per_sec + it->second.link.down_bytes_per_sec > 0;
         });
}

bool ExchangeTuner::Told(absl::Span<const NodeId> members) const {
  return Known(members) || (members.size() > 1 && LoadOf(members).rtt > absl::ZeroDuration());
}

ExchangeLoad ExchangeTuner::LoadOf(absl::Span<const NodeId> members) const {
  ExchangeLoad load;
  load.num_values = static_cast<double>(num_values_);
  for (const NodeId& node : members) {
    const auto it = members_.find(node);
    load.links.push_back(it == members_.end() ? Link{} : it->second.link);
    if (it != members_.end()) load.rtt = std::max(load.rtt, it->second.rtt);
  }
  return load;
}

ExchangeTuner::Coding ExchangeTuner::CodingOf(absl::Span<const NodeId> members, const std::string& codec) const {
  std::map<std::string, Coding> slowest;
  for (const NodeId& node : members) {
    const auto it = members_.find(node);
    if (it == members_.end()) continue;
    for (const auto& [name, coding] : it->second.by_codec) {
      Coding& all = slowest[name];
      all.packing_sec = std::max(all.packing_sec, coding.packing_sec);
      if (coding.values_per_sec <= 0) continue;
      all.values_per_sec =
          all.values_per_sec <= 0 ? coding.values_per_sec : std::min(all.values_per_sec, coding.values_per_sec);
    }
  }
  if (const auto it = slowest.find(codec); it != slowest.end()) return it->second;
  Coding best;
  for (const auto& [name, coding] : slowest) {
    best.packing_sec = best.packing_sec <= 0 ? coding.packing_sec : std::min(best.packing_sec, coding.packing_sec);
    best.values_per_sec = std::max(best.values_per_sec, coding.values_per_sec);
  }
  return best;
}

absl::Duration ExchangeTuner::Predict(absl::Span<const NodeId> members, const config::CodecSpec& codec) const {
  if (!Told(members)) return absl::ZeroDuration();
  const absl::StatusOr<std::unique_ptr<compress::Codec>> made = compress::Codec::Create(codec);
  GDF_CHECK(made.ok());
  const Coding coding = CodingOf(members, codec.ToString());
  ExchangeLoad load = LoadOf(members);
  load.packed_bytes = static_cast<double>((*made)->PackedSize(num_values_));
  load.values_per_sec = coding.values_per_sec;
  if ((*made)->is_dense()) {
    for (const uint32_t share : DealShares(members)) {
      load.shares.push_back(static_cast<double>(share) / static_cast<double>(wire::kSharesWhole));
    }
  }
  return absl::Seconds(coding.packing_sec) +
         ExchangeTime((*made)->is_dense() ? Form::kDirect : Form::kAllGather, load);
}

config::CodecSpec ExchangeTuner::ChooseCodec(absl::Span<const NodeId> members,
                                             const config::CodecSpec& current) const {
  if (codecs_.size() == 1) return codecs_[0];
  if (!Told(members)) return current;
  std::vector<absl::Duration> times;
  for (const config::CodecSpec& codec : codecs_) times.push_back(Predict(members, codec));
  const absl::Duration soonest = *std::min_element(times.begin(), times.end());
  for (size_t i = 0; i < codecs_.size(); ++i) {
    if (times[i] <= soonest * (codecs_[i] == current ? kStay : kNear)) return codecs_[i];
  }
  return current;
}

std::vector<uint32_t> ExchangeTuner::DealShares(absl::Span<const NodeId> members) const {
  if (!Known(members)) return {};
  ExchangeLoad load = LoadOf(members);
  load.rtt = absl::ZeroDuration();
  load.packed_bytes = 1e9;
  const absl::Duration equal = ExchangeTime(Form::kDirect, load);
  load.shares = BestShares(load.links, kMaxShare / static_cast<double>(members.size()));
  if (ExchangeTime(Form::kDirect, load) > equal * kWorthDealing) return {};
  // Rounded so that the sum is whole: each cut between two shards is.
  std::vector<uint32_t> shares;
  double upto = 0;
  uint32_t cut = 0;
  for (const double share : load.shares) {
    upto += share;
    const auto next = static_cast<uint32_t>(std::lround(upto * wire::kSharesWhole));
    shares.push_back(next - cut);
    cut = next;
  }
  return shares;
}

}  // namespace gdf::schedule
