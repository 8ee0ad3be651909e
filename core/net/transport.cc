#include "core/net/transport.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::net {
namespace {

// A caller that has sent its request but not its end, or nothing at all, holds a slot no longer
// than this.
constexpr absl::Duration kRequestTimeout = absl::Seconds(60);

Task<void> ServeCall(Transport::CallHandler handler, NodeId peer, std::unique_ptr<Stream> stream) {
  absl::StatusOr<std::optional<Buffer>> request = co_await stream->Receive(kRequestTimeout);
  if (!request.ok()) {
    stream->Cancel(request.status());
    co_return;
  }
  if (!request->has_value()) {
    stream->Cancel(absl::InvalidArgumentError("the call ended without a request"));
    co_return;
  }
  absl::StatusOr<Buffer> response = co_await handler(peer, **std::move(request));
  if (!response.ok()) {
    stream->Cancel(response.status());
    co_return;
  }
  const absl::Status sent = co_await stream->Send(*std::move(response));
  if (sent.ok()) {
    stream->Finish();
  } else {
    stream->Cancel(sent);
  }
}

}  // namespace

absl::Status NamingPeer(const absl::Status& status, const NodeId& peer) {
  if (absl::StrContains(status.message(), peer.Short())) return status;
  return Annotate(status, absl::StrCat("node ", peer.Short()));
}

Registration Transport::HandleCall(std::string method, CallHandler handler, MethodOptions options) {
  return HandleStream(
      std::move(method),
      [handler = std::move(handler)](NodeId peer, std::unique_ptr<Stream> stream) {
        return ServeCall(handler, peer, std::move(stream));
      },
      options);
}

Task<absl::StatusOr<Buffer>> Transport::Call(NodeId peer, std::string method, Buffer request,
                                             absl::Duration timeout, Priority priority) {
  const Clock& clock = executor().clock();
  const absl::Duration deadline = clock.Monotonic() + timeout;
  absl::StatusOr<std::unique_ptr<Stream>> stream = co_await Open(peer, method, priority, timeout);
  if (!stream.ok()) co_return stream.status();
  // A fresh stream has room for one message, so this does not wait.
  const absl::Status sent = co_await (*stream)->Send(std::move(request));
  if (sent.ok()) {
    (*stream)->Finish();
  } else if (absl::IsInvalidArgument(sent)) {
    co_return sent;
  }
  absl::StatusOr<std::optional<Buffer>> response =
      co_await (*stream)->Receive(deadline - clock.Monotonic());
  // The handler's own status may be of that code too, and comes sooner.
  if (absl::IsDeadlineExceeded(response.status()) && clock.Monotonic() >= deadline) {
    co_return absl::DeadlineExceededError(absl::StrCat("no answer to ", method, " from node ",
                                                       peer.Short(), " within ",
                                                       HumanDuration(timeout)));
  }
  if (!response.ok()) co_return response.status();
  if (!response->has_value()) {
    co_return absl::InternalError(
        absl::StrCat("node ", peer.Short(), " ended the call ", method, " without an answer"));
  }
  co_return **std::move(response);
}

}  // namespace gdf::net
