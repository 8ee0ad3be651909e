#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/exchange/run.h"

namespace gdf::exchange {

Task<absl::Status> Exchange::Run::Use(uint32_t owner) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  std::string means_held(BitmapBytes(theirs.size()), 0);
  for (size_t k = 0; k < theirs.size(); ++k) {
    if (held_.means[theirs[k]]) SetBit(means_held, k);
  }
  absl::StatusOr<Outbound> to = co_await Greet(owner, means_held);
  GDF_CO_RETURN_IF_ERROR(to.status());
  std::vector<Task<absl::Status>> both;
  both.push_back(SendSlices(owner, *to));
  both.push_back(request.codec->is_dense() ? TakeMeans(owner, to->stream, std::move(means_held))
                                           : AwaitEnd(owner, to->stream));
  std::vector<absl::Status> results = co_await WhenAll(context.executor, std::move(both));
  for (const absl::Status& status : results) GDF_CO_RETURN_IF_ERROR(status);
  using_[owner] = false;
  co_return absl::OkStatus();
}

// Opens the stream by which slices of the owner's pieces go.
Task<absl::StatusOr<Exchange::Run::Outbound>> Exchange::Run::Greet(uint32_t owner, std::string means_held) {
  const uint32_t to = next(owner);
  absl::StatusOr<std::unique_ptr<net::Stream>> opened = co_await context.transport.Open(
      request.members[to].node, Method(context.job), net::Priority::kBulk, request.deadline);
  if (!opened.ok()) co_return Blame(to, opened.status());
  Outbound out{*std::move(opened), std::string(BitmapBytes(pieces_.of(owner).size()), 0)};
  streams_.push_back(out.stream);
  wire::ExchangeHello hello{request.tag, owner, request.num_params, sends(self, owner)};
  if (resumed()) hello.held = std::move(means_held);
  const absl::Status greeted = co_await out.stream->Send(wire::EncodeExchangeHello(hello));
  if (!greeted.ok()) co_return Blame(to, greeted);
  if (!resumed()) co_return out;
  absl::StatusOr<std::string> heard = co_await HearHeld(owner, out.stream);
  GDF_CO_RETURN_IF_ERROR(heard.status());
  out.slices_held = *std::move(heard);
  co_return out;
}

Task<absl::StatusOr<std::string>> Exchange::Run::HearHeld(uint32_t owner, StreamPtr stream) {
  absl::StatusOr<std::optional<Buffer>> first = co_await stream->Receive();
  if (!first.ok()) co_return Blame(next(owner), first.status());
  absl::StatusOr<wire::ExchangeHeld> held =
      absl::InvalidArgumentError("ended without saying what it holds");
  if (first->has_value()) held = wire::DecodeExchangeHeld((*first)->span());
  if (held.ok() && held->held.size() != BitmapBytes(pieces_.of(owner).size())) {
    held =
        absl::InvalidArgumentError(absl::StrCat("says what it holds of ", pieces_.of(owner).size(),
                                                " pieces in ", held->held.size(), " bytes"));
  }
  if (!held.ok()) co_return Blame(next(owner), held.status());
  co_return std::move(held->held);
}

Task<absl::Status> Exchange::Run::SendSlices(uint32_t owner, Outbound to) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  for (size_t k = 0; contributes(self) && k < theirs.size(); ++k) {
    if (HasBit(to.slices_held, k)) continue;
    const Range bytes = PackedRange(*request.codec, pieces_.range(theirs[k]));
    const absl::Status sent = co_await SendTo(next(owner), to.stream, request.packed.Slice(bytes.begin, bytes.size()));
    if (!sent.ok()) {
      Fail(sent);
      co_return sent;
    }
  }
  to.stream->Finish();
  co_return absl::OkStatus();
}

Task<absl::Status> Exchange::Run::TakeMeans(uint32_t owner, StreamPtr stream, std::string held) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  for (size_t k = 0; k < theirs.size(); ++k) {
    if (HasBit(held, k)) continue;
    absl::StatusOr<Buffer> taken = co_await TakeMean(next(owner), stream, theirs[k]);
    if (!taken.ok()) {
      Fail(taken.status());
      co_return taken.status();
    }
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> Exchange::Run::TakeMean(uint32_t from, StreamPtr stream, uint32_t piece) {
  const Range range = pieces_.range(piece);
  absl::StatusOr<Buffer> frame = co_await ReceiveFrom(from, std::move(stream), PackedRange(*request.codec, range).size());
  GDF_CO_RETURN_IF_ERROR(frame.status());
  if (done.done()) co_return absl::AbortedError("the exchange is over");
  auto work = [codec = request.codec, mean = held_.mean, frame = *frame, range] {
    return codec->Decode(frame.span(), mean->span().subspan(range.begin, range.size()));
  };
  const absl::Status decoded = co_await OnPool(std::move(work));
  if (!decoded.ok()) co_return Blame(from, decoded);
  held_.means[piece] = true;
  co_return frame;
}

// Until the owner has all slices: it ends its direction then.
Task<absl::Status> Exchange::Run::AwaitEnd(uint32_t owner, StreamPtr stream) {
  absl::StatusOr<std::optional<Buffer>> end = co_await stream->Receive();
  absl::Status status = end.status();
  if (status.ok() && end->has_value()) {
    status = absl::InvalidArgumentError(absl::StrCat("sent a frame of ", (*end)->size(), " bytes, expected its end"));
  }
  if (status.ok()) co_return status;
  const absl::Status blamed = Blame(owner, status);
  Fail(blamed);
  co_return blamed;
}

Task<absl::Status> Exchange::Run::SendTo(uint32_t member, StreamPtr stream, Buffer frame) {
  const size_t bytes = frame.size();
  const absl::Status sent = co_await stream->Send(std::move(frame));
  if (!sent.ok()) co_return Blame(member, sent);
  sent_ += bytes;
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> Exchange::Run::ReceiveFrom(uint32_t member, StreamPtr stream, uint64_t bytes) {
  absl::StatusOr<std::optional<Buffer>> frame = co_await stream->Receive();
  if (!frame.ok()) co_return Blame(member, frame.status());
  if (!frame->has_value() || (*frame)->size() != bytes) {
    const std::string got = frame->has_value() ? absl::StrCat((*frame)->size(), " bytes") : "its end";
    co_return Blame(member, absl::InvalidArgumentError(absl::StrCat("sent a frame of ", got, ", expected ", bytes)));
  }
  received_ += bytes;
  co_return **std::move(frame);
}

}  // namespace gdf::exchange
