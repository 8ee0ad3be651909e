// links: gdf_net
// Frames of a peer, read in pieces whose sizes the input chooses; what comes out must keep the
// bounds of the format and, written again, be the bytes that went in.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/check.h"
#include "core/net/endpoint.h"
#include "core/net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gdf::net;
  if (size == 0) return 0;
  const size_t step = data[0] + size_t{1};
  FrameReader reader;
  std::string written;
  for (size_t at = 1; at < size;) {
    const absl::Span<uint8_t> target = reader.Target();
    GDF_CHECK(!target.empty() && target.size() <= kMaxMessageBytes);
    const size_t n = std::min({target.size(), step, size - at});
    std::memcpy(target.data(), data + at, n);
    at += n;
    absl::StatusOr<std::optional<Frame>> frame = reader.Advance(n);
    if (!frame.ok()) break;
    if (!frame->has_value()) continue;
    const auto header = EncodeHeader(**frame);
    written.append(header.begin(), header.end());
    written.append((*frame)->payload.view());
    GDF_CHECK(written.size() == at - 1 &&
              std::memcmp(written.data(), data + 1, written.size()) == 0);
    if ((*frame)->type == FrameType::kHello) (void)DecodeHello(**frame).ok();
    if ((*frame)->type == FrameType::kReset || (*frame)->type == FrameType::kClose) {
      GDF_CHECK(!DecodeStatus(**frame).ok());
    }
  }
  (void)ParseHostPort({reinterpret_cast<const char*>(data), size}).ok();
  return 0;
}
