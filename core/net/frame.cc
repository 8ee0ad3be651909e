#include "core/net/frame.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/buffer_pool.h"
#include "core/base/check.h"
#include "core/base/text.h"

namespace gdf::net {
namespace {

constexpr uint8_t kMagic[4] = {'G', 'D', 'F', 'N'};
constexpr size_t kHelloBytes = 17;
constexpr size_t kCircuitHelloBytes = 26;
constexpr uint8_t kClearFlag = 1;
constexpr size_t kMaxHelloBytes = 256;  // later versions may append
constexpr size_t kPingBytes = 8;

uint32_t Load32(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}
uint64_t Load64(const uint8_t* p) { return Load32(p) | uint64_t{Load32(p + 4)} << 32; }
void Store32(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
}
void Store64(uint8_t* p, uint64_t v) {
  Store32(p, static_cast<uint32_t>(v));
  Store32(p + 4, static_cast<uint32_t>(v >> 32));
}

// What a type allows; a header outside of it ends the connection.
struct Shape {
  size_t min_length;
  size_t max_length;
  bool on_stream;
  uint32_t min_arg;
  uint32_t max_arg;
};

std::optional<Shape> ShapeOf(uint8_t type) {
  constexpr uint32_t kLastCode = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  switch (static_cast<FrameType>(type)) {
    case FrameType::kHello:
      return Shape{8, kMaxHelloBytes, false, 0, 0};
    case FrameType::kOpen:
      return Shape{1, kMaxMethodBytes, true, 0, 1};
    case FrameType::kData:
      return Shape{0, kMaxMessageBytes, true, 0, 0};
    case FrameType::kWindow:
      return Shape{0, 0, true, 1, uint32_t{1} << 30};
    case FrameType::kFinish:
      return Shape{0, 0, true, 0, 0};
    case FrameType::kReset:
      return Shape{0, kMaxReasonBytes, true, 1, kLastCode};
    case FrameType::kPing:
    case FrameType::kPong:
      return Shape{kPingBytes, kPingBytes, false, 0, 0};
    case FrameType::kDrain:
    case FrameType::kWantStripe:
      return Shape{0, 0, false, 0, 0};
    case FrameType::kClose:
      return Shape{0, kMaxReasonBytes, false, 1, kLastCode};
  }
  return std::nullopt;
}

}  // namespace

std::array<uint8_t, kFrameHeaderBytes> EncodeHeader(const Frame& frame) {
  std::array<uint8_t, kFrameHeaderBytes> out{};
  Store32(&out[0], static_cast<uint32_t>(frame.payload.size()));
  out[4] = static_cast<uint8_t>(frame.type);
  Store32(&out[8], frame.stream);
  Store32(&out[12], frame.arg);
  return out;
}

Frame HelloFrame(const Hello& hello, uint32_t version) {
  const bool circuit = hello.purpose == Purpose::kCircuit;
  std::vector<uint8_t> payload(circuit ? kCircuitHelloBytes : kHelloBytes + 1);
  std::copy(std::begin(kMagic), std::end(kMagic), payload.begin());
  Store32(&payload[4], version);
  Store64(&payload[8], hello.incarnation);
  payload[16] = static_cast<uint8_t>(hello.purpose);
  payload[kHelloBytes] = hello.clear ? kClearFlag : 0;
  if (circuit) Store64(&payload[kHelloBytes + 1], hello.circuit);
  return {.type = FrameType::kHello, .stream = 0, .arg = 0, .payload = Buffer(std::move(payload))};
}

absl::StatusOr<Hello> DecodeHello(const Frame& frame) {
  if (frame.type != FrameType::kHello) {
    return absl::InvalidArgumentError(absl::StrCat("expected a hello as the first frame, got type ",
                                                   static_cast<int>(frame.type)));
  }
  const absl::Span<const uint8_t> p = frame.payload.span();
  if (p.size() < 8 || !std::equal(std::begin(kMagic), std::end(kMagic), p.begin())) {
    return absl::InvalidArgumentError("the hello does not start with GDFN: not a GDF node");
  }
  const uint32_t version = Load32(&p[4]);
  if (version != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("transport version ", version, " meets version ", kProtocolVersion,
                     ": both nodes must run compatible releases of GDF; update the older one"));
  }
  if (p.size() < kHelloBytes || p[16] > static_cast<uint8_t>(Purpose::kCircuit)) {
    return absl::InvalidArgumentError("the hello is truncated or has an unknown purpose");
  }
  const bool clear = p.size() > kHelloBytes && (p[kHelloBytes] & kClearFlag) != 0;
  Hello hello{Load64(&p[8]), static_cast<Purpose>(p[16]), clear};
  if (hello.purpose == Purpose::kCircuit) {
    if (p.size() < kCircuitHelloBytes || !clear) {
      return absl::InvalidArgumentError("the hello of a circuit lacks its number, or stays within TLS");
    }
    hello.circuit = Load64(&p[kHelloBytes + 1]);
  }
  return hello;
}

Frame StatusFrame(FrameType type, uint32_t stream, const absl::Status& why) {
  GDF_CHECK(!why.ok());
  // Codes outside the canonical set read as kUnknown.
  return {.type = type,
          .stream = stream,
          .arg = static_cast<uint32_t>(why.code()),
          .payload = Buffer(std::string(why.message().substr(0, kMaxReasonBytes)))};
}

absl::Status DecodeStatus(const Frame& frame) {
  return absl::Status(static_cast<absl::StatusCode>(frame.arg), ToAbsl(frame.payload.view()));
}

absl::Span<uint8_t> FrameReader::Target() {
  if (in_payload_) return {payload_.get() + filled_, length_ - filled_};
  return absl::MakeSpan(header_).subspan(filled_);
}

absl::StatusOr<std::optional<Frame>> FrameReader::Advance(size_t n) {
  GDF_CHECK(n <= Target().size());
  filled_ += n;
  if (!in_payload_) {
    if (filled_ < kFrameHeaderBytes) return std::nullopt;
    if (absl::Status status = ParseHeader(); !status.ok()) return status;
    filled_ = 0;
    if (length_ == 0) return TakeFrame();
    in_payload_ = true;
    payload_ = AllocateBlock(length_);
    return std::nullopt;
  }
  if (filled_ < length_) return std::nullopt;
  return TakeFrame();
}

absl::Status FrameReader::ParseHeader() {
  const std::optional<Shape> shape = ShapeOf(header_[4]);
  if (!shape) return absl::InvalidArgumentError(absl::StrCat("unknown frame type ", header_[4]));
  length_ = Load32(&header_[0]);
  frame_ = {.type = static_cast<FrameType>(header_[4]),
            .stream = Load32(&header_[8]),
            .arg = Load32(&header_[12]),
            .payload = {}};
  if (length_ < shape->min_length || length_ > shape->max_length) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of type ", header_[4], " has ", length_,
                                                   " bytes, allowed are ", shape->min_length,
                                                   " to ", shape->max_length));
  }
  if (header_[5] != 0 || header_[6] != 0 || header_[7] != 0 ||
      (frame_.stream != 0) != shape->on_stream || frame_.arg < shape->min_arg ||
      frame_.arg > shape->max_arg) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of type ", header_[4], " has stream ",
                                                   frame_.stream, ", argument ", frame_.arg,
                                                   " or reserved bytes out of range"));
  }
  return absl::OkStatus();
}

Frame FrameReader::TakeFrame() {
  Frame frame = std::exchange(frame_, {});
  const absl::Span<const uint8_t> bytes(payload_.get(), length_);
  if (length_ > 0) frame.payload = Buffer::Wrap(bytes, std::move(payload_));
  payload_.reset();
  filled_ = 0;
  length_ = 0;
  in_payload_ = false;
  return frame;
}

}  // namespace gdf::net
