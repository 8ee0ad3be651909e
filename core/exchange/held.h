// What a member holds of an exchange that was not completed, for the attempt that goes on with it.
#ifndef GDF_CORE_EXCHANGE_HELD_H_
#define GDF_CORE_EXCHANGE_HELD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/buffer.h"
#include "core/tensor/flat_buffer.h"
#include "core/wire/round_messages.h"

namespace gdf::exchange {

struct Held {
  wire::RoundTag begun;                           // of the attempt that began it
  std::vector<NodeId> members;                    // in order, the lost ones too
  std::vector<uint32_t> shares;                   // by which pieces were cut
  std::vector<uint32_t> sites;                    // of the members
  std::vector<std::vector<Buffer>> slices;        // received, by piece and sender; empty: not held
  std::vector<wire::Contribution> contributions;  // to the means
  std::vector<NodeId> lost;                       // when they were made
  std::vector<bool> means;                        // by piece: `mean` has it
  std::shared_ptr<tensor::FlatBuffer> mean;       // [num_params]; null when it was given away
};

// One bit an item, from the lowest bit of the first byte.
inline size_t BitmapBytes(size_t items) { return (items + 7) / 8; }
inline bool HasBit(const std::string& bits, size_t item) {
  return (static_cast<uint8_t>(bits[item / 8]) >> (item % 8) & 1) != 0;
}
inline void SetBit(std::string& bits, size_t item) {
  bits[item / 8] = static_cast<char>(static_cast<uint8_t>(bits[item / 8]) | 1u << (item % 8));
}

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_HELD_H_
