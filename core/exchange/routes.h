// By whom the slices of an owner's pieces go to it, and their means come back: a tree of two levels where members are at
// known sites. At each other site one member, the gate, takes its neighbours' slices and sends on one mean of them.
#ifndef GDF_CORE_EXCHANGE_ROUTES_H_
#define GDF_CORE_EXCHANGE_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace gdf::exchange {

class Routes {
 public:
  // Streams of one attempt that one member may open to another.
  static constexpr size_t kMaxStreams = 64;

  // None.
  Routes() = default;
  // `sites`: by member, equal numbers at the same one; empty: all are at one, where everybody sends to the owners.
  // `gone`, by member: lost, and sends nothing.
  Routes(absl::Span<const uint32_t> sites, const std::vector<bool>& gone);

  // Whom `member`, not the owner, sends its slices of the owner's pieces to.
  uint32_t next(uint32_t member, uint32_t owner) const;
  // Who sends `member` theirs, in order.
  std::vector<uint32_t> senders(uint32_t member, uint32_t owner) const;
  // Those of `members` whose slices `member` sends on, its own among them, in order: itself alone but at a gate.
  std::vector<uint32_t> behind(uint32_t member, uint32_t owner) const;
  // While nobody is gone no member opens more than kMaxStreams to another.
  bool fit() const;

 private:
  uint32_t gate(uint32_t site, uint32_t owner) const;

  std::vector<uint32_t> site_of_;               // by member
  std::vector<std::vector<uint32_t>> at_site_;  // members, in order
  std::vector<bool> gone_;
};

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_ROUTES_H_
