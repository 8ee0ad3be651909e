// The pieces of a delta, which travel as one frame each, and who owns them: at first as the shards
// say; those of a member that is lost go to the others, and nobody else's change hands.
#ifndef GDF_CORE_EXCHANGE_PIECES_H_
#define GDF_CORE_EXCHANGE_PIECES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/exchange/shard_plan.h"

namespace gdf::exchange {

class Pieces {
 public:
  // None.
  Pieces() = default;
  // `lost`: indices of members, each once, in the order of their loss; fewer than `members`. The
  // pieces that a member has when it is lost are dealt in order, as evenly as they are whole, over
  // those that are not lost by then.
  Pieces(const ShardPlan& plan, uint32_t members, absl::Span<const uint32_t> lost);

  size_t size() const { return ranges_.size(); }
  const Range& range(uint32_t piece) const { return ranges_[piece]; }
  // Pieces that `member` owns, in order. Without shards everybody who is not lost owns all.
  const std::vector<uint32_t>& of(uint32_t member) const { return owned_[member]; }

 private:
  std::vector<Range> ranges_;
  std::vector<std::vector<uint32_t>> owned_;  // by member
};

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_PIECES_H_
