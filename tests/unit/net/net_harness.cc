#include "tests/unit/net/net_harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>

#include "core/net/endpoint.h"

namespace gdf::net {

std::array<uint8_t, 32> SeedOf(int number) {
  std::array<uint8_t, 32> seed{};
  seed[0] = static_cast<uint8_t>(number);
  return seed;
}

NodeId IdOf(int number) { return TlsContext::Create(SeedOf(number))->self(); }

TlsTransportOptions Loopback() {
  TlsTransportOptions options;
  options.listen = {"127.0.0.1:0"};
  return options;
}

TestNode::TestNode(int number, TlsTransportOptions options,
                   std::function<Admission(NodeId)> admission)
    : number_(number) {
  auto started = TlsTransport::Start(loop_, SeedOf(number), std::move(options));
  REQUIRE(started.ok());
  transport_ = *std::move(started);
  if (!admission) admission = [](NodeId) { return Admission::kMember; };
  transport_->SetAdmission(std::move(admission));
  thread_.Submit([this] { loop_.Run(); });
}

TestNode::~TestNode() {
  On([&] {
    scope_.reset();
    registrations_.clear();
    transport_.reset();
  });
  loop_.Stop();
}

Task<bool> TestNode::Poll(TestNode* node, std::function<bool()> condition) {
  const absl::Duration end = node->clock_.Monotonic() + kSoon;
  while (!condition()) {
    if (node->clock_.Monotonic() > end) co_return false;
    co_await Sleep(node->loop_, absl::Milliseconds(2));
  }
  co_return true;
}

void TestNode::Eventually(std::function<bool()> condition) {
  REQUIRE(Await<bool>([&] { return Poll(this, condition); }));
}

absl::StatusOr<Buffer> TestNode::Call(NodeId peer, std::string method, Buffer request,
                                      absl::Duration timeout) {
  return Await<absl::StatusOr<Buffer>>(
      [&] { return transport_->Call(peer, method, request, timeout); });
}

void TestNode::Serve(std::string method, Transport::CallHandler handler, MethodOptions options) {
  On([&] { registrations_.push_back(transport_->HandleCall(method, handler, options)); });
}
void TestNode::ServeStream(std::string method, Transport::StreamHandler handler,
                           MethodOptions options) {
  On([&] { registrations_.push_back(transport_->HandleStream(method, handler, options)); });
}

Task<absl::StatusOr<Buffer>> Echo(NodeId, Buffer request) { co_return request; }

Task<absl::Status> SendBulk(Transport* transport, NodeId peer, size_t messages) {
  absl::StatusOr<std::unique_ptr<Stream>> stream = co_await transport->Open(peer, "sink", Priority::kBulk, kSoon);
  if (!stream.ok()) co_return stream.status();
  const Buffer message = Filled(1 << 20, 'x');
  for (size_t i = 0; i < messages; ++i) {
    const absl::Status sent = co_await (*stream)->Send(message);
    if (!sent.ok()) co_return sent;
  }
  (*stream)->Finish();
  auto answer = co_await (*stream)->Receive(absl::Seconds(60));
  if (!answer.ok()) co_return answer.status();
  if (!answer->has_value() || (**answer).view() != std::to_string(messages << 20)) {
    co_return absl::DataLossError("not everything arrived");
  }
  co_return absl::OkStatus();
}

Task<void> Sink(NodeId, std::unique_ptr<Stream> stream) {
  size_t total = 0;
  while (true) {
    auto message = co_await stream->Receive();
    if (!message.ok()) co_return;
    if (!message->has_value()) break;
    total += (**message).size();
  }
  const absl::Status sent = co_await stream->Send(Buffer(std::to_string(total)));
  if (sent.ok()) stream->Finish();
}

Task<absl::Status> WaitForEnd(Transport* transport, NodeId peer, std::string method,
                              std::shared_ptr<std::promise<void>> up) {
  absl::StatusOr<std::unique_ptr<Stream>> stream = co_await transport->Open(peer, method, Priority::kControl, kSoon);
  if (!stream.ok()) co_return stream.status();
  const absl::Status sent = co_await (*stream)->Send(Buffer("here"));
  if (!sent.ok()) co_return sent;
  auto first = co_await (*stream)->Receive(kSoon);
  if (!first.ok()) co_return first.status();
  up->set_value();
  auto next = co_await (*stream)->Receive(kSoon);
  co_return next.status();
}

Task<void> EchoStream(NodeId, std::unique_ptr<Stream> stream) {
  while (true) {
    auto message = co_await stream->Receive();
    if (!message.ok() || !message->has_value()) break;
    const absl::Status sent = co_await stream->Send(**std::move(message));
    if (!sent.ok()) co_return;
  }
  stream->Finish();
}

Task<absl::Status> Reflect(Transport* transport, NodeId peer, std::vector<Buffer> messages) {
  auto stream = co_await transport->Open(peer, "mirror", Priority::kBulk, kSoon);
  if (!stream.ok()) co_return stream.status();
  for (const Buffer& message : messages) {
    const absl::Status sent = co_await (*stream)->Send(message);
    if (!sent.ok()) co_return sent;
    auto back = co_await (*stream)->Receive(kSoon);
    if (!back.ok()) co_return back.status();
    if (!back->has_value() || (**back).view() != message.view()) co_return absl::DataLossError("changed on its way");
  }
  (*stream)->Finish();
  auto end = co_await (*stream)->Receive(kSoon);
  co_return end.status();
}

int ListenUnheard(uint16_t* port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listener, 8) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  *port = ntohs(address.sin_port);
  return listener;
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

Buffer Filled(size_t size, char c) { return Buffer(std::string(size, c)); }

int ConnectTo(const std::string& address, const std::string& from) {
  const HostPort parsed = *ParseHostPort(address);
  sockaddr_in to{}, own{};
  to.sin_family = own.sin_family = AF_INET;
  to.sin_port = htons(parsed.port);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const bool bound = from.empty() || (inet_pton(AF_INET, from.c_str(), &own.sin_addr) == 1 &&
                                      bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0);
  if (bound && inet_pton(AF_INET, parsed.host.c_str(), &to.sin_addr) == 1 &&
      connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

RawClient::RawClient(const std::string& address, const std::string& from) : socket_(ConnectTo(address, from)) {
  REQUIRE(socket_ >= 0);
  const timeval limit{20, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

RawClient::~RawClient() {
  ssl_.reset();
  close(socket_);
}

bool RawClient::HungUp() const {
  pollfd watched{socket_, POLLRDHUP, 0};
  return poll(&watched, 1, 0) == 1;
}

bool RawClient::Secure(int number) {
  context_ = std::make_unique<TlsContext>(*TlsContext::Create(SeedOf(number)));
  ssl_ = context_->NewSession(socket_, true);
  return SSL_do_handshake(ssl_.get()) == 1;
}

void RawClient::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const int n = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (n <= 0) return;  // cut off already, which is what such tests are about
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void RawClient::WritePlain(std::string_view bytes) {
  REQUIRE(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

std::string RawClient::ReadUntilClosed() {
  std::string reason;
  FrameReader reader;
  while (true) {
    const absl::Span<uint8_t> target = reader.Target();
    const ssize_t n = ssl_ ? SSL_read(ssl_.get(), target.data(), static_cast<int>(target.size()))
                           : recv(socket_, target.data(), target.size(), 0);
    if (n <= 0) {
      closed_ = errno != EAGAIN || n == 0;
      alert_ = std::max(0, ERR_GET_REASON(ERR_peek_last_error()) - SSL_AD_REASON_OFFSET);
      return reason;
    }
    if (!ssl_) continue;
    auto frame = reader.Advance(static_cast<size_t>(n));
    REQUIRE(frame.ok());
    if (frame->has_value() && (*frame)->type == FrameType::kClose) {
      reason = std::string((*frame)->payload.view());
    }
  }
}

std::string Bytes(const Frame& frame) {
  const auto header = EncodeHeader(frame);
  return std::string(header.begin(), header.end()) + std::string(frame.payload.view());
}

}  // namespace gdf::net
