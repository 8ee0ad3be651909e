#include "core/exchange/run.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/aggregate/weighted_mean.h"
#include "core/base/status_macros.h"
#include "core/exchange/shard_plan.h"

namespace gdf::exchange {
namespace {

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

uint64_t TokensOf(const std::vector<wire::Contribution>& contributions, const NodeId& node) {
  const auto it = std::find_if(contributions.begin(), contributions.end(),
                               [&](const wire::Contribution& c) { return c.node == node; });
  return it == contributions.end() ? 0 : it->tokens;
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
  if (!request.sites.empty() && (request.sites.size() != request.members.size() || !request.codec->is_dense())) {
    return absl::InvalidArgumentError(absl::StrCat("the sites in the exchange of ", tag().ToString(), " are not ",
                                                   request.members.size(), " of a dense codec"));
  }
  std::vector<float> weights;
  for (const wire::Contribution& member : request.members) {
    if (member.tokens > 0) weights.push_back(static_cast<float>(member.tokens));
  }
  GDF_RETURN_IF_ERROR(aggregate::CheckWeights(weights));
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
  routes_ = Routes(request.sites, gone_);
  if (!routes_.fit()) return absl::InvalidArgumentError(absl::StrCat("the exchange of ", tag().ToString(), " has too many sites"));
  for (uint32_t owner = 0; owner < size(); ++owner) {
    if (pieces_.of(owner).empty()) continue;
    for (const uint32_t member : routes_.senders(self, owner)) {
      inbound_.emplace(std::pair(owner, member), Inbound{OneShot<StreamPtr>(context.executor), {}});
    }
  }
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
      held_.shares != request.shares || held_.sites != request.sites || held_.slices.size() != pieces_.size()) {
    held_ = {};
    held_.slices.assign(pieces_.size(), std::vector<Buffer>(size()));
  }
  DropSumsOfOthers(contributions);
  held_.begun = begun;
  held_.members = std::move(members);
  held_.shares = request.shares;
  held_.sites = request.sites;
  // With sites it matters too who owns a piece, and by whom it is sent.
  const bool same_sums = held_.contributions == contributions && (request.sites.empty() || held_.lost == request.lost);
  const bool usable = held_.mean && held_.mean->size() == request.num_params && same_sums;
  if (!usable) held_.means.assign(pieces_.size(), false);
  held_.lost = request.lost;
  held_.contributions = std::move(contributions);
  if (held_.mean && held_.mean->size() == request.num_params) return absl::OkStatus();
  if (into.size() != request.num_params) {
    GDF_ASSIGN_OR_RETURN(into, tensor::FlatBuffer::Zeros(request.num_params));
  }
  held_.mean = std::make_shared<tensor::FlatBuffer>(std::move(into));
  return absl::OkStatus();
}

// From another site this node holds the mean of that site's members, which is of use while the same ones contribute.
void Exchange::Run::DropSumsOfOthers(const std::vector<wire::Contribution>& contributions) {
  std::set<uint32_t> changed;
  for (uint32_t i = 0; i < request.sites.size(); ++i) {
    const NodeId& node = request.members[i].node;
    if (TokensOf(held_.contributions, node) != TokensOf(contributions, node)) changed.insert(request.sites[i]);
  }
  for (uint32_t i = 0; i < request.sites.size(); ++i) {
    if (request.sites[i] == request.sites[self] || changed.count(request.sites[i]) == 0) continue;
    for (std::vector<Buffer>& by_sender : held_.slices) by_sender[i] = Buffer();
  }
}

void Exchange::Run::Start() {
  watch_ = context.transport.WatchPeers([this](NodeId peer, bool up, const absl::Status& why) {
    const std::optional<uint32_t> index = IndexOf(peer);
    if (!up && index && owing_[*index] > 0) Lose(*index, why);
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
    if (!using_[i]) continue;
    const bool gate = next(i) == i && !routes_.senders(self, i).empty();
    tasks.push_back(gate ? Gate(i) : Use(i));
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
  bool awaited = index && owing_[*index] > 0;
  for (uint32_t i = 0; index && i < size(); ++i) {
    awaited = awaited || (using_[i] && (i == *index || next(i) == *index));
  }
  if (awaited) Lose(*index, why);
}

bool Exchange::Run::sends(uint32_t member, uint32_t owner) const {
  const std::vector<uint32_t> behind = routes_.behind(member, owner);
  return std::any_of(behind.begin(), behind.end(), [this](uint32_t i) { return contributes(i); });
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
    if (lost_[i] || (absl::IsDeadlineExceeded(status) && owing_[i] > 0)) {
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
  const auto it = index ? inbound_.find({hello.shard, *index}) : inbound_.end();
  if (it == inbound_.end() || hello.held.size() != (resumed() ? BitmapBytes(pieces_.of(hello.shard).size()) : 0) ||
      hello.num_params != request.num_params || hello.contributes != sends(*index, hello.shard)) {
    return absl::InvalidArgumentError(absl::StrCat("the hello of node ", peer.Short(), " does not fit the exchange of ",
                                                   tag().ToString()));
  }
  if (it->second.stream.done()) {
    return absl::InvalidArgumentError(absl::StrCat("node ", peer.Short(), " opened its slice twice"));
  }
  it->second.means_held = hello.held;
  streams_.push_back(stream);
  it->second.stream.Set(std::move(stream));
  return absl::OkStatus();
}

}  // namespace gdf::exchange
