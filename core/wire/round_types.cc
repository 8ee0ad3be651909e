#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"
#include "core/wire/round_messages.h"

namespace gdf::wire {

std::string RoundTag::ToString() const {
  return absl::StrCat(gdf::ToString(job), " epoch ", epoch.value, " round ", round.value + 1, " attempt ",
                      attempt);
}

bool EpochRecord::Has(const NodeId& node) const {
  return std::find(members.begin(), members.end(), node) != members.end();
}

std::vector<Contribution> Contributing(const std::vector<Contribution>& members) {
  std::vector<Contribution> contributing;
  std::copy_if(members.begin(), members.end(), std::back_inserter(contributing),
               [](const Contribution& c) { return c.tokens > 0; });
  return contributing;
}

bool Receipt::Contributed(const NodeId& node) const {
  return std::any_of(contributions.begin(), contributions.end(),
                     [&](const Contribution& c) { return c.node == node && c.tokens > 0; });
}

Digest Receipt::SigningDigest() const {
  Sha256 hash;
  hash.Update("gdf receipt v2");
  hash.UpdateU64(tag.job.value).UpdateU64(tag.epoch.value).UpdateU64(tag.round.value);
  hash.UpdateU64(tag.attempt).UpdateU64(voters.size());
  for (const NodeId& node : voters) hash.Update(node.digest().span());
  hash.UpdateU64(contributions.size());
  for (const Contribution& c : contributions) hash.Update(c.node.digest().span()).UpdateU64(c.tokens);
  hash.Update(start_theta.span()).UpdateU64(result.round.value);
  hash.Update(result.theta.span()).Update(result.momentum.span());
  hash.UpdateU64(static_cast<uint64_t>(result.cursor.epoch));
  hash.UpdateU64(static_cast<uint64_t>(result.cursor.position));
  hash.UpdateU64(codec).UpdateU64(next_codec);
  if (!fragment.zero()) hash.Update(fragment.span());
  return hash.Finish();
}

RoundTag TagOf(const RoundRequest& request) {
  struct Visitor {
    RoundTag operator()(const Enter& in) { return {in.job, in.epoch.epoch, RoundId{}, 0}; }
    RoundTag operator()(const Propose& in) { return in.receipt.tag; }
    RoundTag operator()(const SyncState& in) { return in.tag; }
    RoundTag operator()(const RoundPlan& in) { return in.tag; }
    RoundTag operator()(const ExchangeStart& in) { return in.tag; }
    RoundTag operator()(const CommitRound& in) { return in.tag; }
    RoundTag operator()(const Abort& in) { return in.tag; }
    RoundTag operator()(const EndJob& in) { return in.tag; }
  };
  return std::visit(Visitor{}, request);
}

}  // namespace gdf::wire
