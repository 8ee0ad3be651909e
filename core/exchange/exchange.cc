#include "core/exchange/exchange.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/exchange/routes.h"
#include "core/exchange/run.h"

namespace gdf::exchange {
namespace {

constexpr absl::Duration kHelloTimeout = absl::Seconds(30);
// How long a stream may be ahead of this node's own ExchangeStart.
constexpr absl::Duration kAheadTimeout = absl::Seconds(60);
constexpr size_t kMaxAheadPerPeer = 2 * Routes::kMaxStreams;

}  // namespace

std::string Exchange::Method(JobId job) { return absl::StrCat("gdf.exchange/", ToString(job)); }

Exchange::Exchange(Context context)
    : context_(context),
      registration_(context_.transport.HandleStream(
          Method(context_.job),
          [this](NodeId peer, std::unique_ptr<net::Stream> stream) { return Serve(peer, std::move(stream)); }, {})) {}

Exchange::~Exchange() = default;

Task<Outcome> Exchange::AllReduce(AllReduceRequest request) {
  GDF_CHECK(run_ == nullptr);
  auto run = std::make_shared<Run>(context_, std::move(request), std::exchange(held_, {}));
  forget_ = false;
  Outcome outcome;
  outcome.status = run->Prepare();
  if (!outcome.status.ok()) co_return outcome;
  run_ = run;
  last_ = run->tag();
  const auto forget = absl::MakeCleanup([this] { run_ = nullptr; });
  run->Start();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (last_ < it->second.hello.tag) {
      ++it;
      continue;
    }
    Waiting waiting = std::move(it->second);
    const NodeId peer = it->first;
    it = waiting_.erase(it);
    Adopt(*run, peer, std::move(waiting));
  }
  const absl::Status status = co_await run->done.Wait();
  co_await run->AwaitPool();
  outcome = run->Finish(status);
  if (!forget_) held_ = run->TakeHeld();
  co_return outcome;
}

void Exchange::Cancel(const std::string& why) {
  if (run_) run_->Fail(absl::CancelledError(why));
}

void Exchange::Lose(const wire::RoundTag& tag, const NodeId& node, const std::string& why) {
  if (run_ && run_->tag() == tag) run_->PeerLost(node, absl::UnavailableError(why));
}

void Exchange::Forget() {
  held_ = {};
  forget_ = true;
}

void Exchange::Adopt(Run& run, NodeId peer, Waiting waiting) {
  if (waiting.hello.tag != run.tag()) {
    waiting.stream->Cancel(absl::AbortedError(
        absl::StrCat("the exchange of ", waiting.hello.tag.ToString(), " is over; here is ", run.tag().ToString())));
    return;
  }
  std::shared_ptr<net::Stream> stream = std::move(waiting.stream);
  const absl::Status accepted = run.Accept(peer, waiting.hello, stream);
  if (!accepted.ok()) stream->Cancel(accepted);
}

Task<void> Exchange::Serve(NodeId peer, std::unique_ptr<net::Stream> stream) {
  absl::StatusOr<std::optional<Buffer>> first = co_await stream->Receive(kHelloTimeout);
  absl::StatusOr<wire::ExchangeHello> hello = absl::InvalidArgumentError("the exchange ended without a hello");
  if (!first.ok()) {
    hello = first.status();
  } else if (first->has_value()) {
    hello = wire::DecodeExchangeHello((*first)->span());
  }
  if (hello.ok() && hello->tag.job != context_.job) hello = absl::InvalidArgumentError("the hello is of another job");
  if (!hello.ok()) {
    stream->Cancel(hello.status());
    co_return;
  }
  const absl::Duration now = context_.executor.clock().Monotonic();
  Waiting waiting{*hello, std::move(stream), now + kAheadTimeout};
  if (run_ && hello->tag <= run_->tag()) {
    Adopt(*run_, peer, std::move(waiting));
    co_return;
  }
  if (hello->tag <= last_) {
    waiting.stream->Cancel(absl::AbortedError(absl::StrCat("the exchange of ", hello->tag.ToString(), " is over")));
    co_return;
  }
  std::erase_if(waiting_, [&](const auto& item) { return item.second.until <= now; });
  if (waiting_.count(peer) >= kMaxAheadPerPeer) waiting_.erase(waiting_.find(peer));
  waiting_.emplace(peer, std::move(waiting));
}

}  // namespace gdf::exchange
