#include "core/exchange/shard_plan.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/wire/round_messages.h"

namespace gdf::exchange {

ShardPlan::ShardPlan(uint64_t num_values, uint64_t block, uint32_t shards) {
  GDF_CHECK(shards > 0 && block > 0);
  const uint64_t blocks = (num_values + block - 1) / block;
  const uint64_t shard_values = (blocks + shards - 1) / shards * block;
  for (uint64_t i = 0; i <= shards; ++i) cuts_.push_back(std::min(num_values, i * shard_values));
}

ShardPlan::ShardPlan(uint64_t num_values, uint64_t block, absl::Span<const uint32_t> shares) : cuts_{0} {
  GDF_CHECK(block > 0);
  // blocks * upto would not always fit.
  const uint64_t blocks = (num_values + block - 1) / block;
  const uint64_t unit = blocks / wire::kSharesWhole, rest = blocks % wire::kSharesWhole;
  uint64_t upto = 0;
  for (const uint32_t share : shares) {
    upto += share;
    const uint64_t cut = unit * upto + (rest * upto + wire::kSharesWhole / 2) / wire::kSharesWhole;
    cuts_.push_back(std::min(num_values, cut * block));
  }
  GDF_CHECK(upto == wire::kSharesWhole);
}

ShardPlan ShardPlan::Whole(uint64_t num_values) {
  ShardPlan plan;
  plan.cuts_ = {0, num_values};
  plan.whole_ = true;
  return plan;
}

Range ShardPlan::shard(uint32_t index) const {
  const uint32_t at = whole_ ? 0 : index;
  return {cuts_[at], cuts_[at + 1]};
}

uint64_t ShardPlan::num_pieces(uint32_t index) const {
  return (shard(index).size() + kPieceValues - 1) / kPieceValues;
}

Range ShardPlan::piece(uint32_t index, uint64_t piece) const {
  const Range all = shard(index);
  const uint64_t begin = all.begin + piece * kPieceValues;
  return {begin, std::min(all.end, begin + kPieceValues)};
}

}  // namespace gdf::exchange
