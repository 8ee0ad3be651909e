// links: gdf_wire
// Messages between coordinators. What decodes must be within its bounds and encode to something that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/wire/consensus_messages.h"

namespace {

template <typename Message>
void Check(absl::StatusOr<Message> (*decode)(std::string_view), std::string_view bytes) {
  const absl::StatusOr<Message> message = decode(bytes);
  if (!message.ok()) return;
  GDF_CHECK(message->term <= gdf::wire::kMaxTerm && message->since <= gdf::wire::kMaxLogIndex);
  const absl::StatusOr<Message> again = decode(Encode(*message));
  GDF_CHECK(again.ok());
  GDF_CHECK(*again == *message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::wire;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Check(&DecodeVoteCall, bytes);
  Check(&DecodeVoteAnswer, bytes);
  Check(&DecodeLeadCall, bytes);
  Check(&DecodeLeadAnswer, bytes);
  return 0;
}
