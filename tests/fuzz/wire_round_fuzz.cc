// links: gdf_wire
// Messages of a round from peers, and records from a disk. What decodes must encode to something that decodes to the same.
#include <cstdint>

#include "core/base/check.h"
#include "core/base/encoding.h"
#include "core/wire/round_messages.h"

namespace {

template <typename Decode, typename Encode>
void RoundTrip(absl::Span<const uint8_t> bytes, Decode decode, Encode encode) {
  const auto value = decode(bytes);
  if (!value.ok()) return;
  const auto encoded = encode(*value);
  absl::Span<const uint8_t> again_bytes;
  if constexpr (std::is_same_v<decltype(encoded), const std::string>) {
    again_bytes = gdf::AsBytes(encoded);
  } else {
    again_bytes = encoded.span();
  }
  const auto again = decode(again_bytes);
  GDF_CHECK(again.ok() && *again == *value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::wire;
  const absl::Span<const uint8_t> bytes(data, size);
  RoundTrip(bytes, DecodeRoundRequest, EncodeRoundRequest);
  RoundTrip(bytes, DecodeRoundReply, EncodeRoundReply);
  RoundTrip(bytes, DecodeExchangeHello, EncodeExchangeHello);
  RoundTrip(bytes, DecodeExchangeHeld, EncodeExchangeHeld);
  RoundTrip(bytes, DecodeFetchState, EncodeFetchState);
  RoundTrip(bytes, DecodeFetchLeaves, EncodeFetchLeaves);
  RoundTrip(bytes, DecodeCommit, EncodeCommit);
  RoundTrip(bytes, DecodeReceipt, EncodeReceipt);
  RoundTrip(bytes, DecodeEpochRecord, EncodeEpochRecord);
  if (const auto receipt = DecodeReceipt(bytes); receipt.ok()) (void)receipt->SigningDigest();
  return 0;
}
