// Frames, the write queue, rate limits and addresses, without sockets.
#include <asio/ip/address.hpp>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "core/net/crowd.h"
#include "core/net/endpoint.h"
#include "core/net/frame.h"
#include "core/net/port_mapping.h"
#include "core/net/token_bucket.h"
#include "core/net/write_queue.h"
#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

absl::StatusOr<std::vector<Frame>> Read(std::string_view bytes, size_t step) {
  FrameReader reader;
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const absl::Span<uint8_t> target = reader.Target();
    const size_t n = std::min({step, bytes.size(), target.size()});
    std::memcpy(target.data(), bytes.data(), n);
    bytes.remove_prefix(n);
    auto frame = reader.Advance(n);
    if (!frame.ok()) return frame.status();
    if (frame->has_value()) frames.push_back(**std::move(frame));
  }
  return frames;
}

TEST_CASE("net: frames survive any cut") {
  const std::string bytes = Bytes({FrameType::kOpen, 1, 1, Buffer("method")}) +
                            Bytes({FrameType::kData, 1, 0, Buffer(std::string(1000, 'd'))}) +
                            Bytes({FrameType::kData, 1, 0, Buffer()}) +
                            Bytes({FrameType::kWindow, 1, 77, Buffer()}) +
                            Bytes({FrameType::kFinish, 1, 0, Buffer()});
  for (size_t step : {size_t{1}, size_t{7}, size_t{16}, size_t{1} << 20}) {
    auto frames = Read(bytes, step);
    REQUIRE(frames.ok());
    REQUIRE(frames->size() == 5);
    CHECK((*frames)[0].payload.view() == "method");
    CHECK((*frames)[1].payload.view() == std::string(1000, 'd'));
    CHECK((*frames)[2].payload.empty());
    CHECK((*frames)[3].arg == 77);
    CHECK((*frames)[4].type == FrameType::kFinish);
  }
}

TEST_CASE("net: the bytes of a frame are those of the document") {
  // docs/formats/transport.md: u32 length, u8 type, 3 zeros, u32 stream, u32 argument.
  CHECK(Bytes({FrameType::kReset, 0x01020304, 10, Buffer("ab")}) ==
        std::string("\x02\0\0\0\x06\0\0\0\x04\x03\x02\x01\x0a\0\0\0ab", 18));
}

TEST_CASE("net: a status survives, and its text is bounded") {
  const absl::Status why = absl::AbortedError("superseded");
  CHECK(DecodeStatus(StatusFrame(FrameType::kReset, 1, why)) == why);
  const auto cut = StatusFrame(FrameType::kClose, 0, absl::InternalError(std::string(5000, 'x')));
  CHECK(cut.payload.size() == kMaxReasonBytes);
}

TEST_CASE("net: a wrong hello says what it is") {
  Frame hello = HelloFrame({.incarnation = 5, .purpose = Purpose::kStripe});
  CHECK(DecodeHello(hello)->incarnation == 5);
  CHECK(DecodeHello(hello)->purpose == Purpose::kStripe);
  CHECK(absl::IsFailedPrecondition(DecodeHello(HelloFrame({}, 2)).status()));
  const Frame circuit = HelloFrame({5, Purpose::kCircuit, true, 0x0123456789abcdef});
  CHECK(DecodeHello(circuit)->circuit == 0x0123456789abcdef);
  for (const Frame& bad : {HelloFrame({5, Purpose::kCircuit, false, 7}), HelloFrame({5, static_cast<Purpose>(3)})}) {
    CHECK(absl::IsInvalidArgument(DecodeHello(bad).status()));
  }
  hello.payload = circuit.payload.Slice(0, circuit.payload.size() - 1);
  CHECK(absl::IsInvalidArgument(DecodeHello(hello).status()));
  hello.payload = Buffer("HTTP/1.1 200 OK  ");
  CHECK(absl::IsInvalidArgument(DecodeHello(hello).status()));
  hello.payload = Buffer("GD");
  CHECK(absl::IsInvalidArgument(DecodeHello(hello).status()));
}

TEST_CASE("net: the write queue goes round the streams, urgent frames first") {
  WriteQueue queue;
  for (uint32_t stream : {1u, 1u, 1u, 3u, 3u}) queue.Push({FrameType::kData, stream, 0, Buffer()});
  queue.Push({FrameType::kPong, 0, 0, Buffer()});
  std::vector<uint32_t> order;
  while (auto frame = queue.Pop()) order.push_back(frame->stream);
  CHECK(order == std::vector<uint32_t>{0, 1, 3, 1, 3, 1});
}

TEST_CASE("net: a reset drops what waits, unless the stream was finished") {
  WriteQueue queue;
  queue.Push({FrameType::kData, 1, 0, Buffer()});
  queue.Push({FrameType::kReset, 1, 1, Buffer()});
  CHECK(queue.Pop()->type == FrameType::kReset);
  CHECK_FALSE(queue.Pop().has_value());
  queue.Push({FrameType::kData, 3, 0, Buffer()});
  queue.Push({FrameType::kFinish, 3, 0, Buffer()});
  queue.Push({FrameType::kReset, 3, 1, Buffer()});
  CHECK(queue.Pop()->type == FrameType::kData);
  CHECK(queue.Pop()->type == FrameType::kFinish);
  CHECK(queue.Pop()->type == FrameType::kReset);
}

TEST_CASE("net: the token bucket lets through its rate") {
  TokenBucket bucket;
  CHECK(bucket.WaitTime(absl::ZeroDuration()) == absl::ZeroDuration());  // no limit
  bucket.SetRate(1000, absl::ZeroDuration());
  absl::Duration now = absl::Seconds(1);
  const absl::Duration start = now;
  for (int i = 0; i < 100; ++i) {
    now += bucket.WaitTime(now);
    bucket.Consume(100, now);
  }
  // 10,000 bytes at 1000 a second, of which the last 100 and the first 50 ms need no waiting.
  CHECK(absl::ToDoubleSeconds(now - start) == Approx(9.85).margin(0.11));
}

TEST_CASE("net: a crowd pushes out the oldest of its most crowded place") {
  Crowd<char, int> crowd(4, 3);
  CHECK_FALSE(crowd.Add('a', 1).pushed);
  CHECK_FALSE(crowd.Add('a', 2).pushed);
  CHECK_FALSE(crowd.Add('a', 3).pushed);
  CHECK(crowd.Add('a', 4).pushed == 1);  // its place has no more room
  const auto five = crowd.Add('b', 5);
  CHECK_FALSE(five.pushed);
  CHECK(crowd.size() == 4);
  CHECK(crowd.Add('c', 6).pushed == 2);  // nobody has room: "a" has most
  CHECK(crowd.Add('d', 7).pushed == 3);
  CHECK(crowd.Add('e', 8).pushed == 4);  // all places are alike: the oldest
  CHECK(crowd.Add('f', 9).pushed == 5);
  crowd.Remove('b', five.number);  // it is gone already
  CHECK(crowd.size() == 4);
  const auto ten = crowd.Add('g', 10);
  CHECK(ten.pushed == 6);
  crowd.Remove('g', ten.number);
  crowd.Remove('g', ten.number);
  CHECK(crowd.size() == 3);
  CHECK_FALSE(crowd.Add('h', 11).pushed);
}

TEST_CASE("net: IPv6 addresses of one network count as one") {
  const auto place = [](const char* address) {
    return PlaceOf({asio::ip::make_address(address), 7420}).to_string();
  };
  CHECK(place("192.0.2.7") == "192.0.2.7");
  CHECK(place("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::");
  CHECK(place("::1") == "::");
}

TEST_CASE("net: addresses") {
  CHECK(ParseHostPort("192.0.2.1:7450")->host == "192.0.2.1");
  CHECK(ParseHostPort("[2001:db8::1]:7450")->host == "2001:db8::1");
  CHECK(ParseHostPort("host.example:1")->port == 1);
  for (const char* bad :
       {"", ":1", "host", "host:", "host:65536", "2001:db8::1:80", "[host]:1", "[]:1"}) {
    CAPTURE(bad);
    CHECK(absl::IsInvalidArgument(ParseHostPort(bad).status()));
  }
}

TEST_CASE("net: addresses that a router cannot be reached at") {
  for (const char* no :
       {"10.1.2.3", "100.64.0.1", "192.168.1.1", "172.31.0.1", "127.0.0.1", "224.0.0.1", "x"}) {
    CAPTURE(no);
    CHECK_FALSE(IsPublicIpv4(no));
  }
  for (const char* yes : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "198.20.0.1"})
    CHECK(IsPublicIpv4(yes));
}

TEST_CASE("net: a node id is the SHA-256 of the public key of RFC 8032, test 1") {
  // Secret key 9d61…7f60 has public key d75a…511a (RFC 8032 7.1); its digest: sha256sum.
  const auto seed =
      *Digest::FromHex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  const auto key =
      *Digest::FromHex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  CHECK(TlsContext::Create(seed.span())->self() == NodeId(HashBytes(key.span())));
  CHECK(absl::IsInvalidArgument(TlsContext::Create(seed.span().subspan(1)).status()));
}

}  // namespace
}  // namespace gdf::net
