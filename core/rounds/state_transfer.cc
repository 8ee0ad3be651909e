#include "core/rounds/state_transfer.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/log.h"
#include "core/base/rendezvous.h"
#include "core/base/status_macros.h"
#include "core/rounds/job_member.h"

namespace gdf::rounds {
namespace {

constexpr int kDonors = 4;                   // that a node fetches from at a time
constexpr size_t kAhead = 2;                 // ranges asked of one: the next is on its way while one is checked
constexpr uint64_t kMostLeaves = 8;          // of a range
constexpr absl::Duration kPatience = absl::Seconds(60);  // while all donors give to others
constexpr absl::Duration kLook = absl::Milliseconds(100);  // a busy donor at whether it still is
constexpr size_t kDigestsInMessage = kMerkleLeafBytes / Digest::kSize;

uint64_t NumLeaves(absl::Span<const float> values) {
  return (values.size() * sizeof(float) + kMerkleLeafBytes - 1) / kMerkleLeafBytes;
}

uint64_t NumLeaves(const checkpoint::OuterState& state) {
  return NumLeaves(state.theta.span()) + NumLeaves(state.momentum.span());
}

// Of θ, then of the momentum.
absl::Span<const uint8_t> LeafOf(const checkpoint::OuterState& state, uint64_t index) {
  const uint64_t of_theta = NumLeaves(state.theta.span());
  const absl::Span<const uint8_t> bytes =
      tensor::AsBytes(index < of_theta ? state.theta.span() : state.momentum.span());
  return bytes.subspan((index < of_theta ? index : index - of_theta) * kMerkleLeafBytes, kMerkleLeafBytes);
}

void PutLeaf(checkpoint::OuterState& state, uint64_t index, absl::Span<const uint8_t> leaf) {
  const uint64_t of_theta = NumLeaves(state.theta.span());
  const absl::Span<uint8_t> bytes =
      tensor::AsMutableBytes(index < of_theta ? state.theta.span() : state.momentum.span());
  std::memcpy(bytes.data() + (index < of_theta ? index : index - of_theta) * kMerkleLeafBytes, leaf.data(), leaf.size());
}

std::vector<Digest> DigestsOf(const checkpoint::OuterState& state) {
  std::vector<Digest> digests;
  if (state.theta_leaves.size() == NumLeaves(state.theta.span()) &&
      state.momentum_leaves.size() == NumLeaves(state.momentum.span())) {
    digests = state.theta_leaves;
    digests.insert(digests.end(), state.momentum_leaves.begin(), state.momentum_leaves.end());
    return digests;
  }
  for (uint64_t i = 0; i < NumLeaves(state); ++i) digests.push_back(MerkleLeaf(LeafOf(state, i)));
  return digests;
}

// A stream waits for its peer's window without a limit.
Task<absl::Status> GiveMessage(const GivingState& giving, net::Stream& stream, Buffer message) {
  const Executor::TimerId timer = giving.executor.PostAfter(giving.patience, [&stream] {
    stream.Cancel(absl::DeadlineExceededError("no part of the state was taken for too long"));
  });
  const auto done = absl::MakeCleanup([&giving, timer] { giving.executor.Cancel(timer); });
  co_return co_await stream.Send(std::move(message));
}

Task<absl::Status> GiveDigests(const GivingState& giving, net::Stream& stream, checkpoint::OuterStatePtr state) {
  auto compute = [state] { return DigestsOf(*state); };
  const auto digests = std::make_shared<const std::vector<Digest>>(
      co_await RunOn(giving.pool, giving.executor, std::move(compute)));
  const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(digests->data()), digests->size() * Digest::kSize);
  for (size_t at = 0; at < bytes.size(); at += kMerkleLeafBytes) {
    Buffer message = Buffer::Wrap(bytes.subspan(at, kMerkleLeafBytes), digests);
    GDF_CO_RETURN_IF_ERROR(co_await GiveMessage(giving, stream, std::move(message)));
  }
  co_return absl::OkStatus();
}

// One state on its way here. Tasks of one fetch share it.
struct Fetching {
  const RoundEnv& env;
  const wire::StateId target;
  const OuterStateDraft state;
  std::deque<NodeId> donors;            // to be asked
  std::vector<NodeId> again = {};       // to be asked later: they were busy, or had no more to give
  std::deque<wire::FetchLeaves> wanted = {};  // that nobody was asked for
  uint64_t missing = 0;                 // leaves
  std::vector<Digest> digests = {};     // of all leaves, once somebody has told them
  absl::Status last = absl::UnavailableError("nobody else is known to have it");
};

absl::Status CheckDigests(const Fetching& fetch, const std::vector<Digest>& digests) {
  const auto theta_end = digests.begin() + static_cast<ptrdiff_t>(NumLeaves(fetch.state->theta.span()));
  const auto root = [](absl::Span<const float> values, std::vector<Digest> leaves) {
    return values.empty() ? Digest{} : MerkleRootOfLeaves(std::move(leaves), values.size() * sizeof(float));
  };
  const bool match = root(fetch.state->theta.span(), {digests.begin(), theta_end}) == fetch.target.theta &&
                     root(fetch.state->momentum.span(), {theta_end, digests.end()}) == fetch.target.momentum;
  return match ? absl::OkStatus() : absl::DataLossError("its digests are not those of that state");
}

Task<absl::StatusOr<Buffer>> ReceiveExactly(net::Stream& stream, size_t size, absl::Duration timeout) {
  absl::StatusOr<std::optional<Buffer>> message = co_await stream.Receive(timeout);
  GDF_CO_RETURN_IF_ERROR(message.status());
  if (!message->has_value() || (*message)->size() != size) {
    co_return absl::DataLossError(absl::StrCat("a message with a part of the state is not ", size, " bytes"));
  }
  co_return **std::move(message);
}

Task<absl::Status> TakeDigests(std::shared_ptr<Fetching> fetch, net::Stream& stream) {
  Buffer request = wire::EncodeFetchLeaves({});
  GDF_CO_RETURN_IF_ERROR(co_await stream.Send(std::move(request)));
  std::vector<Digest> digests(NumLeaves(*fetch->state));
  for (size_t at = 0; at < digests.size(); at += kDigestsInMessage) {
    const size_t bytes = std::min(kDigestsInMessage, digests.size() - at) * Digest::kSize;
    GDF_CO_ASSIGN_OR_RETURN(const Buffer message, co_await ReceiveExactly(stream, bytes, fetch->env.timings.call));
    std::memcpy(digests.data() + at, message.span().data(), bytes);
  }
  GDF_CO_RETURN_IF_ERROR(CheckDigests(*fetch, digests));
  fetch->digests = std::move(digests);
  co_return absl::OkStatus();
}

// Of `range` remains what did not come.
Task<absl::Status> TakeLeaves(std::shared_ptr<Fetching> fetch, net::Stream& stream, wire::FetchLeaves* range) {
  for (; range->count > 0; ++range->first, --range->count) {
    const size_t size = LeafOf(*fetch->state, range->first).size();
    GDF_CO_ASSIGN_OR_RETURN(Buffer leaf, co_await ReceiveExactly(stream, size, fetch->env.timings.call));
    auto hash = [leaf] { return MerkleLeaf(leaf.span()); };
    const Digest digest = co_await RunOn(fetch->env.pool, fetch->env.executor, std::move(hash));
    if (digest != fetch->digests[range->first]) {
      co_return absl::DataLossError(absl::StrCat("it gives something else than part ", range->first, " of the state"));
    }
    PutLeaf(*fetch->state, range->first, leaf.span());
    --fetch->missing;
  }
  co_return absl::OkStatus();
}

// What it was asked for and did not give is wanted again.
Task<absl::Status> TakeFrom(std::shared_ptr<Fetching> fetch, NodeId donor) {
  GDF_CO_ASSIGN_OR_RETURN(std::unique_ptr<net::Stream> stream,
                          co_await fetch->env.transport.Open(donor, JobMember::StateMethod(fetch->env.job),
                                                             net::Priority::kBulk, fetch->env.timings.call));
  const wire::FetchState what{fetch->env.job, fetch->target};
  Buffer request = wire::EncodeFetchState(what);
  GDF_CO_RETURN_IF_ERROR(co_await stream->Send(std::move(request)));
  if (fetch->digests.empty()) {
    GDF_CO_RETURN_IF_ERROR(co_await TakeDigests(fetch, *stream));
  }
  std::deque<wire::FetchLeaves> asked;
  absl::Status given;
  while (given.ok()) {
    while (given.ok() && asked.size() < kAhead && !fetch->wanted.empty()) {
      asked.push_back(fetch->wanted.front());
      fetch->wanted.pop_front();
      Buffer next = wire::EncodeFetchLeaves(asked.back());
      given = co_await stream->Send(std::move(next));
    }
    if (asked.empty() || !given.ok()) break;
    given = co_await TakeLeaves(fetch, *stream, &asked.front());
    if (given.ok()) asked.pop_front();
  }
  for (const wire::FetchLeaves& range : asked) fetch->wanted.push_front(range);
  if (given.ok()) stream->Finish();
  co_return given;
}

// One donor after the other, until there is nothing to ask for or nobody to ask.
Task<absl::Status> TakeInTurn(std::shared_ptr<Fetching> fetch) {
  while (!fetch->wanted.empty() && !fetch->donors.empty()) {
    const NodeId donor = fetch->donors.front();
    fetch->donors.pop_front();
    const absl::Status given = co_await TakeFrom(fetch, donor);
    if (given.ok() || absl::IsResourceExhausted(given)) fetch->again.push_back(donor);
    if (given.ok()) co_return absl::OkStatus();
    fetch->last = absl::IsResourceExhausted(given) ? net::NamingPeer(absl::UnavailableError(given.message()), donor)
                                                   : net::NamingPeer(given, donor);
    Log(LogLevel::kWarning, "state_not_given",
        {{"job", ToString(fetch->env.job)}, {"round", fetch->target.round.value}, {"node", donor.Short()}, {"why", given}});
  }
  co_return absl::OkStatus();
}

Task<absl::Status> TakeAll(std::shared_ptr<Fetching> fetch) {
  Executor& executor = fetch->env.executor;
  absl::Duration progress_at = executor.clock().Monotonic();
  while (fetch->missing > 0) {
    const uint64_t before = fetch->missing;
    std::vector<Task<absl::Status>> takers;
    for (int i = 0; i < kDonors; ++i) takers.push_back(TakeInTurn(fetch));
    (void)co_await WhenAll(executor, std::move(takers));
    for (const NodeId& donor : std::exchange(fetch->again, {})) fetch->donors.push_back(donor);
    const absl::Duration now = executor.clock().Monotonic();
    if (fetch->missing < before) {
      progress_at = now;
      continue;
    }
    if (fetch->donors.empty() || now - progress_at > kPatience) co_return fetch->last;
    co_await Sleep(executor, fetch->env.timings.retry);
  }
  co_return absl::OkStatus();
}

}  // namespace

std::vector<NodeId> DonorsFor(const NodeId& node, std::vector<NodeId> sources) {
  std::erase(sources, node);
  return RendezvousOrder(ByteWriter().Bytes("gdf donors 1").Bytes(node.digest().bytes).str(), sources);
}

Task<absl::Status> GiveState(GivingState giving, net::Stream& stream, checkpoint::OuterStatePtr state) {
  const uint64_t num_leaves = NumLeaves(*state);
  absl::Duration given_at = -absl::InfiniteDuration();
  while (true) {
    absl::StatusOr<std::optional<Buffer>> request = co_await stream.Receive(giving.patience);
    GDF_CO_RETURN_IF_ERROR(request.status());
    if (!request->has_value()) co_return absl::OkStatus();
    GDF_CO_ASSIGN_OR_RETURN(const wire::FetchLeaves range, wire::DecodeFetchLeaves((*request)->span()));
    if (range.count == 0) {
      GDF_CO_RETURN_IF_ERROR(co_await GiveDigests(giving, stream, state));
    }
    if (range.first > num_leaves || range.count > num_leaves - range.first) {
      co_return absl::InvalidArgumentError(absl::StrCat("the state has ", num_leaves, " parts"));
    }
    for (uint64_t i = range.first; i < range.first + range.count; ++i) {
      const auto now = [&] { return giving.executor.clock().Monotonic(); };
      while (giving.busy() && now() - given_at < GivingState::kTrickle) co_await Sleep(giving.executor, kLook);
      Buffer leaf = Buffer::Wrap(LeafOf(*state, i), state);
      GDF_CO_RETURN_IF_ERROR(co_await GiveMessage(giving, stream, std::move(leaf)));
      given_at = now();
    }
  }
}

Task<absl::StatusOr<OuterStateDraft>> FetchState(const RoundEnv& env, wire::StateId target, uint64_t num_momentum,
                                                 std::vector<NodeId> sources) {
  auto state = std::make_shared<checkpoint::OuterState>();
  state->id = target;
  GDF_CO_ASSIGN_OR_RETURN(state->theta, tensor::FlatBuffer::Zeros(env.loaded.layout.num_params()));
  GDF_CO_ASSIGN_OR_RETURN(state->momentum, tensor::FlatBuffer::Zeros(num_momentum));
  const std::vector<NodeId> donors = DonorsFor(env.transport.self(), std::move(sources));
  auto fetch = std::make_shared<Fetching>(Fetching{env, target, state, {donors.begin(), donors.end()}});
  fetch->missing = NumLeaves(*state);
  // A small state is shared too.
  const uint64_t count = std::clamp<uint64_t>(fetch->missing / (kDonors * kAhead), 1, kMostLeaves);
  for (uint64_t at = 0; at < fetch->missing; at += count) {
    fetch->wanted.push_back({at, static_cast<uint32_t>(std::min(count, fetch->missing - at))});
  }
  const absl::Status taken = co_await TakeAll(fetch);
  if (!taken.ok()) co_return Annotate(taken, absl::StrCat("fetching round ", target.round.value));
  const auto theta_end = fetch->digests.begin() + static_cast<ptrdiff_t>(NumLeaves(state->theta.span()));
  state->theta_leaves.assign(fetch->digests.begin(), theta_end);
  state->momentum_leaves.assign(theta_end, fetch->digests.end());
  co_return state;
}

}  // namespace gdf::rounds
