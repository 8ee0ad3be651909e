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

// Between sites passes what would between as many members: one slice of each shard to its owner's site, and its mean.
std::vector<uint32_t> ExchangeTuner::DealShares(absl::Span<const NodeId> members,
                                                absl::Span<const uint32_t> sites) const {
  if (!Known(members)) return {};
  const std::vector<Link> links = LoadOf(members).links;
  std::map<uint32_t, std::vector<size_t>> at_site;
  for (size_t i = 0; i < members.size(); ++i) at_site[sites.empty() ? static_cast<uint32_t>(i) : sites[i]].push_back(i);
  ExchangeLoad load;
  load.packed_bytes = 1e9;
  std::vector<double> most;
  for (const auto& [site, there] : at_site) {
    Link& link = load.links.emplace_back();
    for (const size_t i : there) {
      link.up_bytes_per_sec += links[i].up_bytes_per_sec;
      link.down_bytes_per_sec += links[i].down_bytes_per_sec;
    }
    const double equal = static_cast<double>(there.size()) / static_cast<double>(members.size());
    load.shares.push_back(equal);
    most.push_back(std::min(1.0, kMaxShare * equal));
  }
  const absl::Duration equal = ExchangeTime(Form::kDirect, load);
  load.shares = BestShares(load.links, most);
  if (ExchangeTime(Form::kDirect, load) > equal * kWorthDealing) return {};
  std::vector<double> of_member(members.size());
  size_t at = 0;
  for (const auto& [site, there] : at_site) {
    for (const size_t i : there) of_member[i] = load.shares[at] / static_cast<double>(there.size());
    ++at;
  }
  // Rounded so that the sum is whole: each cut between two shards is.
  std::vector<uint32_t> shares;
  double upto = 0;
  uint32_t cut = 0;
  for (const double share : of_member) {
    upto += share;
    const auto next = static_cast<uint32_t>(std::lround(upto * wire::kSharesWhole));
    shares.push_back(next - cut);
    cut = next;
  }
  return shares;
}

}  // namespace gdf::schedule
