#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/aggregate/weighted_mean.h"
#include "core/base/buffer_pool.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "core/exchange/run.h"

namespace gdf::exchange {
namespace {

// What the pool gives back of one piece.
struct Reduced {
  absl::Status status;
  std::optional<uint32_t> culprit;  // index among the frames
  Buffer packed;
  absl::Duration took;
};

// Values that are worked on together, so that they stay in the processor's cache between the steps. A multiple of every
// codec's block.
constexpr uint64_t kCacheValues = uint64_t{1} << 14;

// The mean of `frames`, of `count` values each, in order; packed once with a dense codec. `mean`, unless empty, becomes
// what those bytes decode to. The first value's place is rounding.first.
Reduced Reduce(const compress::Codec& codec, absl::Span<const float> weights, absl::Span<const Buffer> frames,
               const compress::Rounding& rounding, uint64_t count, absl::Span<float> mean) {
  Reduced out;
  const uint64_t bytes = codec.is_dense() ? codec.PackedSize(count) : 0;
  std::shared_ptr<uint8_t[]> block = AllocateBlock(bytes);
  const absl::Span<uint8_t> packed(block.get(), bytes);
  std::vector<float> scratch(mean.empty() ? std::min(count, kCacheValues) : 0);
  for (uint64_t begin = 0; begin < count; begin += kCacheValues) {
    const uint64_t size = std::min(count - begin, kCacheValues);
    const absl::Span<float> part = mean.empty() ? absl::MakeSpan(scratch).subspan(0, size) : mean.subspan(begin, size);
    const Range at = PackedRange(codec, {begin, begin + size});
    // A verbatim codec's sum is made where it is sent from: it is its own packed form, and what that decodes to.
    const absl::Span<float> sums =
        codec.is_verbatim() ? absl::MakeSpan(reinterpret_cast<float*>(block.get()) + begin, size) : part;
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
      if (!mean.empty()) std::copy(sums.begin(), sums.end(), part.begin());
    } else if (out.status.ok() && codec.is_dense()) {
      codec.Encode(part, packed.subspan(at.begin, at.size()), {rounding.seed, rounding.first + begin});
      if (!mean.empty()) out.status = codec.Decode(packed.subspan(at.begin, at.size()), part);
    }
    if (!out.status.ok()) return out;
  }
  out.packed = Buffer::Wrap(packed, std::move(block));
  return out;
}

}  // namespace

// What the owner of a piece takes into its mean: of its own site each slice, of another one a mean of theirs.
Exchange::Run::Sources Exchange::Run::SourcesOf(uint32_t owner, const Streams& senders) const {
  Sources sources;
  for (uint32_t member = 0; member < size(); ++member) {
    if (member != self && !senders[member]) continue;
    uint64_t tokens = request.members[member].tokens;
    if (member != self && self == owner) {
      tokens = 0;
      for (const uint32_t behind : routes_.behind(member, owner)) tokens += request.members[behind].tokens;
    }
    if (tokens > 0) sources.push_back({member, static_cast<float>(tokens)});
  }
  return sources;
}

std::vector<uint32_t> Exchange::Run::TakersOf(uint32_t owner, const Streams& senders, size_t index) const {
  std::vector<uint32_t> takers;
  for (uint32_t member = 0; member < size(); ++member) {
    if (!senders[member]) continue;
    if (!(resumed() && HasBit(inbound_.at({owner, member}).means_held, index))) takers.push_back(member);
  }
  return takers;
}

Task<absl::Status> Exchange::Run::SendToAll(const std::vector<uint32_t>& members, const Streams& streams, Buffer frame) {
  std::vector<Task<absl::Status>> sending;
  for (const uint32_t i : members) sending.push_back(SendTo(i, streams[i], frame));
  std::vector<absl::Status> results = co_await WhenAll(context.executor, std::move(sending));
  for (const absl::Status& status : results) GDF_CO_RETURN_IF_ERROR(status);
  co_return absl::OkStatus();
}

// `held`: of the owner's pieces, whose slices are not wanted of anybody.
Task<absl::StatusOr<Exchange::Run::Streams>> Exchange::Run::AwaitSenders(uint32_t owner, std::string held) {
  std::vector<Task<absl::StatusOr<StreamPtr>>> awaiting;
  const std::vector<uint32_t> members = routes_.senders(self, owner);
  for (const uint32_t i : members) awaiting.push_back(AwaitSender(i, owner, held));
  std::vector<absl::StatusOr<StreamPtr>> streams = co_await WhenAll(context.executor, std::move(awaiting));
  Streams by_member(size());
  for (size_t i = 0; i < members.size(); ++i) {
    GDF_CO_RETURN_IF_ERROR(streams[i].status());
    by_member[members[i]] = *std::move(streams[i]);
  }
  co_return by_member;
}

// When an exchange is resumed, it hears which slices need not be sent.
Task<absl::StatusOr<Exchange::Run::StreamPtr>> Exchange::Run::AwaitSender(uint32_t member, uint32_t owner, std::string held) {
  ++owing_[member];
  Inbound& inbound = inbound_.at({owner, member});
  StreamPtr stream = co_await inbound.stream.Wait();
  --owing_[member];
  if (!resumed()) co_return stream;
  const std::vector<uint32_t>& pieces = pieces_.of(owner);
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (!held_.slices[pieces[k]][member].empty()) SetBit(held, k);
  }
  const wire::ExchangeHeld message{std::move(held)};
  const absl::Status sent = co_await stream->Send(wire::EncodeExchangeHeld(message));
  if (!sent.ok()) co_return Blame(member, sent);
  co_return stream;
}

// --- The owner's side ---

Task<absl::Status> Exchange::Run::Own() {
  const std::string nothing(BitmapBytes(pieces_.of(self).size()), 0);
  absl::StatusOr<Streams> senders = co_await AwaitSenders(self, nothing);
  GDF_CO_RETURN_IF_ERROR(senders.status());
  const Sources sources = SourcesOf(self, *senders);
  for (size_t k = 0; k < pieces_.of(self).size(); ++k) {
    const absl::Status status = co_await OwnPiece(sources, *senders, k);
    GDF_CO_RETURN_IF_ERROR(status);
  }
  for (const StreamPtr& stream : *senders) {
    if (stream) stream->Finish();
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Exchange::Run::OwnPiece(const Sources& sources, const Streams& senders, size_t index) {
  const uint32_t piece = pieces_.of(self)[index];
  absl::StatusOr<std::vector<Buffer>> frames = co_await Collect(sources, senders, piece);
  GDF_CO_RETURN_IF_ERROR(frames.status());
  std::vector<uint32_t> takers;
  if (request.codec->is_dense()) takers = TakersOf(self, senders, index);
  if (held_.means[piece] && takers.empty()) co_return absl::OkStatus();
  absl::StatusOr<Buffer> packed = co_await Combine(self, sources, piece, *std::move(frames));
  GDF_CO_RETURN_IF_ERROR(packed.status());
  held_.means[piece] = true;
  co_return co_await SendToAll(takers, senders, *std::move(packed));
}

// The piece's frame of each source.
Task<absl::StatusOr<std::vector<Buffer>>> Exchange::Run::Collect(const Sources& sources, const Streams& senders,
                                                                 uint32_t piece) {
  std::vector<Task<absl::StatusOr<Buffer>>> receiving;
  for (const Source& source : sources) {
    receiving.push_back(Contribution(source.member, senders[source.member], piece));
  }
  std::vector<absl::StatusOr<Buffer>> received = co_await WhenAll(context.executor, std::move(receiving));
  std::vector<Buffer> frames;
  for (absl::StatusOr<Buffer>& frame : received) {
    GDF_CO_RETURN_IF_ERROR(frame.status());
    frames.push_back(*std::move(frame));
  }
  co_return frames;
}

// Their mean, packed. The owner has it unpacked in its place too.
Task<absl::StatusOr<Buffer>> Exchange::Run::Combine(uint32_t owner, const Sources& sources, uint32_t piece,
                                                    std::vector<Buffer> frames) {
  if (done.done()) co_return absl::AbortedError("the exchange is over");
  std::vector<float> weights;
  for (const Source& source : sources) weights.push_back(source.weight);
  const Range range = pieces_.range(piece);
  const bool mine = owner == self;
  const uint64_t seed = mine ? request.rounding_seed : MixSeed(request.rounding_seed, uint64_t{self} + 1);
  auto work = [codec = request.codec, mean = held_.mean, weights = std::move(weights), frames = std::move(frames), range,
               mine, rounding = compress::Rounding{seed, range.begin}, clock = &context.executor.clock()] {
    const absl::Duration begin = clock->Monotonic();
    const absl::Span<float> into = mine ? mean->span().subspan(range.begin, range.size()) : absl::Span<float>();
    Reduced out = Reduce(*codec, weights, frames, rounding, range.size(), into);
    out.took = clock->Monotonic() - begin;
    return out;
  };
  Reduced reduced = co_await OnPool(std::move(work));
  reduce_ += reduced.took;
  // Each slice; with a dense codec the mean is encoded, and decoded by its owner.
  coded_ += range.size() * (sources.size() + (request.codec->is_dense() ? (mine ? 2 : 1) : 0));
  if (!reduced.status.ok()) {
    if (!reduced.culprit) co_return reduced.status;
    co_return Blame(sources[*reduced.culprit].member, reduced.status);
  }
  co_return std::move(reduced.packed);
}

Task<absl::StatusOr<Buffer>> Exchange::Run::Contribution(uint32_t member, StreamPtr stream,
                                                         uint32_t piece) {
  const Range bytes = PackedRange(*request.codec, pieces_.range(piece));
  if (member == self) co_return request.packed.Slice(bytes.begin, bytes.size());
  Buffer& held = held_.slices[piece][member];
  if (!held.empty()) co_return held;
  ++owing_[member];
  absl::StatusOr<Buffer> frame = co_await ReceiveFrom(member, std::move(stream), bytes.size());
  // A failure ends the run at once: another member may be slower than the deadline.
  if (frame.ok()) {
    held = *frame;
  } else {
    Fail(frame.status());
  }
  --owing_[member];
  co_return frame;
}

// --- The gate's side ---

// The mean is taken again in an exchange that is resumed, for those behind who do not hold it.
Task<absl::Status> Exchange::Run::Gate(uint32_t owner) {
  const std::string nothing(BitmapBytes(pieces_.of(owner).size()), 0);
  absl::StatusOr<Outbound> to = co_await Greet(owner, nothing);
  GDF_CO_RETURN_IF_ERROR(to.status());
  absl::StatusOr<Streams> senders = co_await AwaitSenders(owner, to->slices_held);
  GDF_CO_RETURN_IF_ERROR(senders.status());
  std::vector<Task<absl::Status>> both;
  both.push_back(SendSums(owner, *to, *senders));
  both.push_back(PassMeans(owner, to->stream, *senders));
  std::vector<absl::Status> results = co_await WhenAll(context.executor, std::move(both));
  for (const absl::Status& status : results) GDF_CO_RETURN_IF_ERROR(status);
  using_[owner] = false;
  co_return absl::OkStatus();
}

Task<absl::Status> Exchange::Run::SendSums(uint32_t owner, Outbound to, const Streams& senders) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  const Sources sources = SourcesOf(owner, senders);
  for (size_t k = 0; sends(self, owner) && k < theirs.size(); ++k) {
    if (HasBit(to.slices_held, k)) continue;
    absl::StatusOr<std::vector<Buffer>> frames = co_await Collect(sources, senders, theirs[k]);
    absl::StatusOr<Buffer> packed = Buffer();
    if (!frames.ok()) {
      packed = frames.status();
    } else if (frames->size() == 1) {
      packed = frames->front();  // packing it again would only lose of it
    } else {
      packed = co_await Combine(owner, sources, theirs[k], *std::move(frames));
    }
    absl::Status sent = packed.status();
    if (sent.ok()) sent = co_await SendTo(owner, to.stream, *std::move(packed));
    if (!sent.ok()) {
      Fail(sent);
      co_return sent;
    }
  }
  to.stream->Finish();
  co_return absl::OkStatus();
}

Task<absl::Status> Exchange::Run::PassMeans(uint32_t owner, StreamPtr from, const Streams& senders) {
  const std::vector<uint32_t>& theirs = pieces_.of(owner);
  for (size_t k = 0; k < theirs.size(); ++k) {
    absl::StatusOr<Buffer> frame = co_await TakeMean(owner, from, theirs[k]);
    absl::Status passed = frame.status();
    if (passed.ok()) passed = co_await SendToAll(TakersOf(owner, senders, k), senders, *std::move(frame));
    if (!passed.ok()) {
      Fail(passed);
      co_return passed;
    }
  }
  for (const StreamPtr& stream : senders) {
    if (stream) stream->Finish();
  }
  co_return absl::OkStatus();
}

}  // namespace gdf::exchange
