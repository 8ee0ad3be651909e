#include "core/exchange/run.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/aggregate/weighted_mean.h"
#include "core/base/buffer_pool.h"
#include "core/base/status_macros.h"
#include "core/exchange/shard_plan.h"

namespace gdf::exchange {
namespace {

// What the pool gives back of one piece of this node's shard.
struct Reduced {
  absl::Status status;
  std::optional<uint32_t> culprit;  // index among the contributions
  Buffer packed;
  absl::Duration took;
};

// Values that are worked on together, so that they stay in the processor's cache between the steps. A multiple of every
// codec's block.
constexpr uint64_t kCacheValues = uint64_t{1} << 14;

// The mean of `frames` in order; with a dense codec encoded once, and those bytes decoded into `mean`, whose first
// value's place `rounding` has.
Reduced Reduce(const compress::Codec& codec, absl::Span<const float> weights, absl::Span<const Buffer> frames,
               const compress::Rounding& rounding, absl::Span<float> mean) {
  Reduced out;
  const uint64_t bytes = codec.is_dense() ? codec.PackedSize(mean.size()) : 0;
  std::shared_ptr<uint8_t[]> block = AllocateBlock(bytes);
  const absl::Span<uint8_t> packed(block.get(), bytes);
  for (uint64_t begin = 0; begin < mean.size(); begin += kCacheValues) {
    const absl::Span<float> part = mean.subspan(begin, kCacheValues);
    const Range at = PackedRange(codec, {begin, begin + part.size()});
    // A verbatim codec's sum is made where it is sent from: it is its own packed form, and what that decodes to.
    const absl::Span<float> sums =
        codec.is_verbatim() ? absl::MakeSpan(reinterpret_cast<float*>(block.get()) + begin, part.size()) : part;
    auto sum = aggregate::WeightedMean::Create(&codec, weights, sums);
    if (!sum.ok()) {
      out.status = sum.status();
      return out;
    }
    for (uint32_t i = 0; i < frames.size(); ++i) {
      out.status = sum->Add(i, frames[i].span().subspan(at.begin, at.size()));
      if (!out.status.ok()) {
        out.culprit = i;
        return out;
      }
    }
    out.status = sum->Finish();
    if (out.status.ok() && codec.is_verbatim()) {
      std::copy(sums.begin(), sums.end(), part.begin());
    } else if (out.status.ok() && codec.is_dense()) {
      codec.Encode(part, packed.subspan(at.begin, at.size()), {rounding.seed, rounding.first + begin});
      out.status = codec.Decode(packed.subspan(at.begin, at.size()), part);
    }
    if (!out.status.ok()) return out;
  }
  out.packed = Buffer::Wrap(packed, std::move(block));
  return out;
}

// That can be cut by. Prepare() refuses others.
bool HasShares(const AllReduceRequest& request) {
  return !request.shares.empty() && request.shares.size() == request.members.size() &&
         std::accumulate(request.shares.begin(), request.shares.end(), uint64_t{0}) == wire::kSharesWhole;
}

ShardPlan PlanFor(const AllReduceRequest& request) {
  if (!request.codec->is_dense()) return ShardPlan::Whole(request.num_params);
  const auto members = static_cast<uint32_t>(request.members.size());
  if (HasShares(request)) return ShardPlan(request.num_params, request.codec->block(), request.shares);
  return ShardPlan(request.num_params, request.codec->block(), std::max(members, 1u));
}

// The peer is gone, or does not keep to the protocol: another attempt with it may do no better.
bool MeansLost(const absl::Status& why) {
  return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why) || absl::IsUnimplemented(why) ||
         absl::IsPermissionDenied(why);
}

}  // namespace

Exchange::Run::Run(const Context& context_in, AllReduceRequest request_in, Held held)
    : context(context_in),
      into(std::move(request_in.into)),
      request(std::move(request_in)),
      plan(PlanFor(request)),
      done(context.executor),
      gone_(request.members.size()),
      held_(std::move(held)),
      peer_held_(request.members.size()),
      pool_idle_(context.executor),
      owing_(request.members.size()),
      using_(request.members.size()),
      lost_(request.members.size()),
      scope_(context.executor) {}

Exchange::Run::~Run() {
  for (const StreamPtr& stream : streams_) {
    stream->Cancel(absl::AbortedError(absl::StrCat("exchange of ", tag().ToString(), " is over here")));
  }
}

std::optional<uint32_t> Exchange::Run::IndexOf(const NodeId& node) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (request.members[i].node == node) return i;
  }
  return std::nullopt;
}

absl::Status Exchange::Run::Prepare() {
  const std::optional<uint32_t> index = IndexOf(context.transport.self());
  if (!index || request.tag.job != context.job) {
    return absl::InvalidArgumentError(
        absl::StrCat("exchange of ", tag().ToString(), " does not name this node and job"));
  }
  if (!request.shares.empty() && !HasShares(request)) {
    return absl::InvalidArgumentError(absl::StrCat("the shares in the exchange of ", tag().ToString(), " are not ",
                                                   request.members.size(), " that add up to ", wire::kSharesWhole));
  }
  self = *index;
  for (const wire::Contribution& member : request.members) {
    if (member.tokens > 0) weights_.push_back(static_cast<float>(member.tokens));
    inbound_.emplace_back(context.executor);
  }
  GDF_RETURN_IF_ERROR(aggregate::CheckWeights(weights_));
  const uint64_t want = contributes(self) ? request.codec->PackedSize(request.num_params) : 0;
  if (request.packed.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat("the packed delta has ", request.packed.size(), " bytes, expected ", want));
  }
  std::vector<uint32_t> lost;
  for (const NodeId& node : request.lost) {
    const std::optional<uint32_t> at = IndexOf(node);
    if (!at || *at == self || contributes(*at) || gone_[*at] || !resumed()) {
      return absl::InvalidArgumentError(
          absl::StrCat("exchange of ", tag().ToString(), " cannot be without node ", node.Short()));
    }
    gone_[*at] = true;
    lost.push_back(*at);
  }
  pieces_ = Pieces(plan, size(), lost);
  return PrepareHeld();
}

// Keeps of what is held what this attempt can use.
absl::Status Exchange::Run::PrepareHeld() {
  wire::RoundTag begun = tag();
  if (resumed()) begun.attempt = request.resumes;
  std::vector<NodeId> members;
  std::vector<wire::Contribution> contributions = wire::Contributing(request.members);
  for (const wire::Contribution& member : request.members) members.push_back(member.node);
  if (!resumed() || held_.begun != begun || held_.members != members ||
      held_.shares != request.shares || held_.slices.size() != pieces_.size()) {
    held_ = {};
    held_.slices.assign(pieces_.size(), std::vector<Buffer>(size()));
  }
  held_.begun = begun;
  held_.members = std::move(members);
  held_.shares = request.shares;
  const bool usable = held_.mean && held_.mean->size() == request.num_params &&
                      held_.contributions == contributions;
  if (!usable) held_.means.assign(pieces_.size(), false);
  held_.contributions = std::move(contributions);
  if (held_.mean && held_.mean->size() == request.num_params) return absl::OkStatus();
  if (into.size() != request.num_params) {
    GDF_ASSIGN_OR_RETURN(into, tensor::FlatBuffer::Zeros(request.num_params));
  }
  held_.mean = std::make_shared<tensor::FlatBuffer>(std::move(into));
  return absl::OkStatus();
}

void Exchange::Run::Start() {
  watch_ = context.transport.WatchPeers([this](NodeId peer, bool up, const absl::Status& why) {
    const std::optional<uint32_t> index = IndexOf(peer);
    if (!up && index && owing_[*index]) Lose(*index, why);
  });
  done.SetAfter(request.deadline, absl::DeadlineExceededError(absl::StrCat(
                                      "exchange of ", tag().ToString(), " was not complete by its deadline")));
  std::vector<NodeId> peers;
  for (uint32_t i = 0; i < size(); ++i) {
    if (is_peer(i)) peers.push_back(request.members[i].node);
  }
  const auto counters = [this](const NodeId& peer) { return context.transport.counters(peer); };
  link_.emplace(counters, std::move(peers), context.executor.clock().Monotonic());
  std::vector<Task<absl::Status>> tasks;
  if (!pieces_.of(self).empty()) tasks.push_back(Own());
  for (uint32_t i = 0; i < size(); ++i) {
    using_[i] = is_peer(i) && !pieces_.of(i).empty();
    if (using_[i]) tasks.push_back(Use(i));
  }
  scope_.Spawn(MeasureLink());
  tasks_left_ = tasks.size();
  if (tasks.empty()) done.Set(absl::OkStatus());
  for (Task<absl::Status>& task : tasks) scope_.Spawn(Track(std::move(task)));
}

Task<void> Exchange::Run::Track(Task<absl::Status> task) {
  const absl::Status status = co_await std::move(task);
  if (!status.ok()) {
    Fail(status);
  } else if (--tasks_left_ == 0) {
    done.Set(absl::OkStatus());
  }
}

Task<void> Exchange::Run::MeasureLink() {
  while (true) {
    co_await Sleep(context.executor, LinkMeter::kWindow);
    link_->EndWindow(context.executor.clock().Monotonic());
  }
}

void Exchange::Run::Fail(absl::Status why) { done.Set(std::move(why)); }

void Exchange::Run::Lose(uint32_t member, const absl::Status& why) { Fail(Blame(member, why)); }

void Exchange::Run::PeerLost(const NodeId& peer, const absl::Status& why) {
  const std::optional<uint32_t> index = IndexOf(peer);
  if (index && (owing_[*index] || using_[*index])) Lose(*index, why);
}

absl::Status Exchange::Run::Blame(uint32_t member, const absl::Status& why) {
  const std::string name = request.members[member].node.Short();
  lost_[member] = MeansLost(why) || absl::IsInvalidArgument(why);
  if (MeansLost(why)) {
    return absl::UnavailableError(absl::StrCat("lost node ", name, " in the exchange of ", tag().ToString(),
                                               ": ", why.message()));
  }
  return Annotate(why.ok() ? absl::UnavailableError("it went away") : why,
                  absl::StrCat("node ", name, " in the exchange of ", tag().ToString()));
}

template <typename Work>
Task<std::invoke_result_t<Work>> Exchange::Run::OnPool(Work work) {
  ++on_pool_;
  auto result = co_await RunOn(context.pool, context.executor, std::move(work));
  if (--on_pool_ == 0 && done.done()) pool_idle_.Set(true);
  co_return result;
}

Task<void> Exchange::Run::AwaitPool() {
  if (on_pool_ > 0) co_await pool_idle_.Wait();
}

Outcome Exchange::Run::Finish(const absl::Status& status) {
  Outcome outcome;
  outcome.status = status;
  outcome.payload_sent = sent_;
  outcome.payload_received = received_;
  outcome.reduce = reduce_;
  for (uint32_t i = 0; i < size() && !status.ok(); ++i) {
    if (lost_[i] || (absl::IsDeadlineExceeded(status) && owing_[i])) {
      outcome.lost.push_back(request.members[i].node);
    }
  }
  if (absl::IsDeadlineExceeded(status) && !outcome.lost.empty()) {
    outcome.status = Annotate(status, absl::StrCat("node ", outcome.lost[0].Short(), " did not deliver"));
  }
  if (!status.ok()) return outcome;
  outcome.mean = std::move(*std::exchange(held_.mean, nullptr));
  outcome.link = link_->Finish(context.executor.clock().Monotonic());
  if (reduce_ > absl::ZeroDuration()) outcome.link.values_per_sec = LinkMeter::Rate(coded_, reduce_);
  return outcome;
}

absl::Status Exchange::Run::Accept(NodeId peer, const wire::ExchangeHello& hello, StreamPtr stream) {
  const std::optional<uint32_t> index = IndexOf(peer);
  const size_t bitmap = resumed() ? BitmapBytes(pieces_.of(self).size()) : 0;
  if (!index || !is_peer(*index) || hello.held.size() != bitmap || hello.shard != self ||
      hello.num_params != request.num_params || hello.contributes != contributes(*index)) {
    return absl::InvalidArgumentError(absl::StrCat("the hello of node ", peer.Short(), " does not fit the exchange of ",
                                                   tag().ToString()));
  }
  if (!inbound_[*index].Set(stream)) {
    return absl::InvalidArgumentError(absl::StrCat("node ", peer.Short(), " opened its slice twice"));
  }
  owing_[*index] = false;
  peer_held_[*index] = hello.held;
  streams_.push_back(stream);
  return absl::OkStatus();
}

// --- The owner's side ---

Task<absl::Status> Exchange::Run::Own() {
  std::vector<StreamPtr> streams(size());
  for (uint32_t i = 0; i < size(); ++i) owing_[i] = is_peer(i) && !inbound_[i].done();
  for (uint32_t i = 0; i < size(); ++i) {
    if (!is_peer(i)) continue;
    StreamPtr stream = co_await inbound_[i].Wait();
    streams[i] = std::move(stream);
    const absl::Status told = co_await TellHeld(i, streams[i]);
    GDF_CO_RETURN_IF_ERROR(told);
  }
  for (size_t k = 0; k < pieces_.of(self).size(); ++k) {
    const absl::Status status = co_await OwnPiece(streams, k);
    GDF_CO_RETURN_IF_ERROR(status);
  }
  for (const StreamPtr& stream : streams) {
    if (stream) stream->Finish();
  }
  co_return absl::OkStatus();
}

// When an exchange is resumed: which slices need not be sent.
Task<absl::Status> Exchange::Run::TellHeld(uint32_t member, StreamPtr stream) {
  if (!resumed()) co_return absl::OkStatus();
  const std::vector<uint32_t>& mine = pieces_.of(self);
  wire::ExchangeHeld held{std::string(BitmapBytes(mine.size()), 0)};
  for (size_t k = 0; k < mine.size(); ++k) {
    if (!held_.slices[mine[k]][member].empty()) SetBit(held.held, k);
  }
  const absl::Status sent = co_await stream->Send(wire::EncodeExchangeHeld(held));
  co_return sent.ok() ? sent : Blame(member, sent);
}

Task<absl::Status> Exchange::Run::OwnPiece(const std::vector<StreamPtr>& streams, size_t index) {
  const uint32_t piece = pieces_.of(self)[index];
  const Range range = pieces_.range(piece);
  std::vector<Task<absl::StatusOr<Buffer>>> receiving;
  std::vector<uint32_t> contributors;
  for (uint32_t i = 0; i < size(); ++i) {
    if (!contributes(i)) continue;
    contributors.push_back(i);
    receiving.push_back(Contribution(i, streams[i], piece));
  }
  std::vector<absl::StatusOr<Buffer>> received = co_await WhenAll(context.executor, std::move(receiving));
  std::vector<Buffer> frames;
  for (absl::StatusOr<Buffer>& frame : received) {
    if (!frame.ok()) co_return frame.status();
    frames.push_back(*std::move(frame));
  }
  std::vector<uint32_t> takers;  // of the mean
  for (uint32_t i = 0; i < size() && request.codec->is_dense(); ++i) {
    if (is_peer(i) && !(resumed() && HasBit(peer_held_[i], index))) takers.push_back(i);
  }
  if (held_.means[piece] && takers.empty()) co_return absl::OkStatus();
  if (done.done()) co_return absl::AbortedError("the exchange is over");
  auto work = [codec = request.codec, mean = held_.mean, weights = weights_,
               frames = std::move(frames), range,
               rounding = compress::Rounding{request.rounding_seed, range.begin},
               clock = &context.executor.clock()] {
    const absl::Duration begin = clock->Monotonic();
    Reduced out = Reduce(*codec, weights, frames, rounding, mean->span().subspan(range.begin, range.size()));
    out.took = clock->Monotonic() - begin;
    return out;
  };
  Reduced reduced = co_await OnPool(std::move(work));
  reduce_ += reduced.took;
  // Each slice; with a dense codec the mean is encoded and decoded.
  coded_ += range.size() * (contributors.size() + (request.codec->is_dense() ? 2 : 0));
  if (!reduced.status.ok()) {
    if (!reduced.culprit) co_return reduced.status;
    co_return Blame(contributors[*reduced.culprit], reduced.status);
  }
  held_.means[piece] = true;
  std::vector<Task<absl::Status>> sending;
  for (const uint32_t i : takers) sending.push_back(SendTo(i, streams[i], reduced.packed));
  std::vector<absl::Status> results = co_await WhenAll(context.executor, std::move(sending));
  for (const absl::Status& status : results) GDF_CO_RETURN_IF_ERROR(status);
  co_return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> Exchange::Run::Contribution(uint32_t member, StreamPtr stream,
                                                         uint32_t piece) {
  const Range bytes = PackedRange(*request.codec, pieces_.range(piece));
  if (member == self) co_return request.packed.Slice(bytes.begin, bytes.size());
  Buffer& held = held_.slices[piece][member];
  if (!held.empty()) co_return held;
  owing_[member] = true;
  absl::StatusOr<Buffer> frame = co_await ReceiveFrom(member, std::move(stream), bytes.size());
  // A failure ends the run at once: another member may be slower than the deadline.
  if (frame.ok()) {
    held = *frame;
  } else {
    Fail(frame.status());
  }
  owing_[member] = false;
  co_return frame;
}

// --- The side of everyone else ---

Task<absl::Status> Exchange::Run::Use(uint32_t owner) {
  absl::StatusOr<std::unique_ptr<net::Stream>> opened = co_await context.transport.Open(
      request.members[owner].node, Method(context.job), net::Priority::kBulk, request.deadline);
  if (!opened.ok()) co_return Blame(owner, opened.status());
  StreamPtr stream = *std::move(opened);
  streams_.push_back(stream);
  wire::ExchangeHello hello{request.tag, owner, request.num_params, contributes(self)};
  std::string slices_held(BitmapBytes(pieces_.of(owner).size()), 0);
  std::string means_held = slices_held;
  for (size_t k = 0; k < pieces_.of(owner).size(); ++k) {
    if (held_.means[pieces_.of(owner)[k]]) SetBit(means_held, k);
  }
  if (resumed()) hello.held = means_held;
  const absl::Status greeted = co_await stream->Send(wire::EncodeExchangeHello(hello));
  if (!greeted.ok()) co_return Blame(owner, greeted);
  if (resumed()) {
    absl::StatusOr<std::string> heard = co_await HearHeld(owner, stream);
    GDF_CO_RETURN_IF_ERROR(heard.status());
    slices_held = *std::move(heard);
  }
  std::vector<Task<absl::Status>> both;
  both.push_back(SendSlices(owner, stream, std::move(slices_held)));
  both.push_back(request.codec->is_dense() ? TakeMeans(owner, stream, std::move(means_held))
                                           : AwaitEnd(owner, stream));
  std::vector<absl::Status> results = co_await WhenAll(context.executor, std::move(both));
  for (const absl::Status& status : results) GDF_CO_RETURN_IF_ERROR(status);
  using_[owner] = false;
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::string>> Exchange::Run::HearHeld(uint32_t owner, StreamPtr stream) {
  absl::StatusOr<std::optional<Buffer>> first = co_await stream->Receive();
  if (!first.ok()) co_return Blame(owner, first.status());
  absl::StatusOr<wire::ExchangeHeld> held =
      absl::InvalidArgumentError("ended without saying what it holds");
  if (first->has_value()) held = wire::DecodeExchangeHeld((*first)->span());
  if (held.ok() && held->held.size() != BitmapBytes(pieces_.of(owner).size())) {
    held =
        absl::InvalidArgumentError(absl::StrCat("says what it holds of ", pieces_.of(owner).size(),
                                                " pieces in ", held->held.size(), " bytes"));
  }
  if (!held.ok()) co_return Blame(owner, held.status());
  co_return std::move(held->held);
}

Task<absl::Status> Exchange::Run::SendSlices(uint32_t owner, StreamPtr stream, std::string held) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  for (size_t k = 0; contributes(self) && k < theirs.size(); ++k) {
    if (HasBit(held, k)) continue;
    const Range bytes = PackedRange(*request.codec, pieces_.range(theirs[k]));
    const absl::Status sent = co_await SendTo(owner, stream, request.packed.Slice(bytes.begin, bytes.size()));
    if (!sent.ok()) {
      Fail(sent);
      co_return sent;
    }
  }
  stream->Finish();
  co_return absl::OkStatus();
}

Task<absl::Status> Exchange::Run::TakeMeans(uint32_t owner, StreamPtr stream, std::string held) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  for (size_t k = 0; k < theirs.size(); ++k) {
    if (HasBit(held, k)) continue;
    const Range range = pieces_.range(theirs[k]);
    absl::StatusOr<Buffer> frame =
        co_await ReceiveFrom(owner, stream, PackedRange(*request.codec, range).size());
    if (!frame.ok()) {
      Fail(frame.status());
      co_return frame.status();
    }
    if (done.done()) co_return absl::AbortedError("the exchange is over");
    auto work = [codec = request.codec, mean = held_.mean, frame = *std::move(frame), range] {
      return codec->Decode(frame.span(), mean->span().subspan(range.begin, range.size()));
    };
    const absl::Status decoded = co_await OnPool(std::move(work));
    if (!decoded.ok()) {
      const absl::Status blamed = Blame(owner, decoded);
      Fail(blamed);
      co_return blamed;
    }
    held_.means[theirs[k]] = true;
  }
  co_return absl::OkStatus();
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
