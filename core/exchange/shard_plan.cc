#include "core/exchange/shard_plan.h"

#include <algorithm>

#include "core/base/check.h"

namespace gdf::exchange {

ShardPlan::ShardPlan(uint64_t num_values, uint64_t block, uint32_t shards) : num_values_(num_values) {
  GDF_CHECK(shards > 0 && block > 0);
  const uint64_t blocks = (num_values + block - 1) / block;
  shard_values_ = (blocks + shards - 1) / shards * block;
  stride_ = shard_values_;
}

ShardPlan ShardPlan::Whole(uint64_t num_values) {
  ShardPlan plan(num_values, 1, 1);
  plan.stride_ = 0;
  return plan;
}

Range ShardPlan::shard(uint32_t index) const {
  const uint64_t begin = std::min(num_values_, index * stride_);
  return {begin, std::min(num_values_, begin + shard_values_)};
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
