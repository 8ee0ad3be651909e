#include "core/membership/membership.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/membership/succession.h"

namespace gdf::membership {
namespace {

constexpr absl::Duration kOpenTimeout = absl::Seconds(15);
constexpr absl::Duration kJoinTimeout = absl::Seconds(20);
// One coordinator among several may be lost without anybody being told: then another is asked. A
// command of any size may come slowly.
constexpr absl::Duration kTryTimeout = absl::Seconds(5);
constexpr double kSlowBytesPerSec = 16 << 10;
// Of those who want something recorded while coordinators choose who leads.
constexpr absl::Duration kLastAskAgain = absl::Milliseconds(500);
constexpr absl::Duration kFirstRetry = absl::Milliseconds(200);
constexpr absl::Duration kLastRetry =
    absl::Seconds(10);  // a coordinator that comes back is found this soon
// Of a log that comes from who may be a coordinator under a new key: what is held of it unproven.
constexpr size_t kMaxUnprovenBytes = size_t{64} << 20;
// A coordinator cuts a member that was put out this much later, so that it hears of it, and its
// last request is answered: a node that replaces its key must know that it was recorded. Until then
// the state refuses what it asks.
constexpr absl::Duration kCutGrace = absl::Milliseconds(250);

// Is `given` a name that the network gave to a node that wished for `wished` when that was taken
// ("wished-2")?
bool IsNumbered(std::string_view given, std::string_view wished) {
  const size_t dash = given.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == given.size()) return false;
  for (const char c : given.substr(dash + 1)) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  const std::string_view kept = given.substr(0, dash);
  return kept == wished || (given.size() == kMaxNameBytes && wished.substr(0, dash) == kept);
}

}  // namespace

Membership::Membership(Environment env)
    : env_(env),
      replica_({env.transport, env.state, env.rng}),
      tasks_(env.executor),
      following_log_(env.executor) {
  replica_.OnLeading([this] {
    if (coordinator_) coordinator_->LeaderChanged();
    if (on_role_) on_role_();
  });
  env_.transport.SetAdmission([this](NodeId peer) { return Admit(peer); });
  state_watcher_ = env_.state.AddWatcher([this](uint64_t index) { OnApplied(index); });
  peer_watcher_ = env_.transport.WatchPeers([this](NodeId peer, bool up, const absl::Status&) {
    if (up) OnPeerUp(peer);
  });
}

Membership::~Membership() { env_.state.RemoveWatcher(state_watcher_); }

net::Admission Membership::Admit(const NodeId& peer) {
  if (joining_) {
    for (const trust::InviteCoordinator& c : joining_->coordinators) {
      if (c.id == peer) return net::Admission::kMember;
    }
  }
  if (env_.state.IsActive(peer)) return net::Admission::kMember;
  // Whoever was put out may ask to join, and is told why not.
  return coordinator() || candidate_ == peer ? net::Admission::kStranger : net::Admission::kRefused;
}

std::vector<NodeId> Membership::Coordinators() {
  std::vector<NodeId> ids;
  if (joining_) {
    for (const trust::InviteCoordinator& c : joining_->coordinators) ids.push_back(c.id);
  } else if (absl::StatusOr<state::Network> network = env_.state.network(); network.ok()) {
    ids = network->coordinators;
  }
  std::stable_partition(ids.begin(), ids.end(), [&](const NodeId& id) { return id == leader(); });
  std::stable_partition(ids.begin(), ids.end(), [&](const NodeId& id) {
    return id == env_.transport.self() || env_.transport.Connected(id);
  });
  return ids;
}

void Membership::OnApplied(uint64_t) {
  if (joining_ && env_.state.CheckMember(env_.transport.self(), trust::Operation::kReadState).ok())
    joining_.reset();
  if (!joining_ && members_since_ != env_.state.members_since()) OnMembersChanged();
  if (role_since_ != 0 && env_.state.coordinators_since() != role_since_) {
    role_since_ = 0;
    tasks_.Spawn(TakeRoleSoon());
  }
  for (const OneShot<bool>& waiter : std::exchange(applied_waiters_, {})) waiter.Set(true);
}

void Membership::OnMembersChanged() {
  absl::StatusOr<std::vector<state::Member>> members = env_.state.members();
  if (!members.ok()) return;
  members_since_ = env_.state.members_since();
  std::vector<NodeId> relays;
  for (const state::Member& member : *members) {
    if (member.id == env_.transport.self()) continue;
    const bool active = member.status == state::MemberStatus::kActive;
    if (active && member.profile.relay) relays.push_back(member.id);
    env_.transport.SetAddresses(member.id, active ? member.profile.addresses : std::vector<std::string>{});
  }
  env_.transport.SetRelays(std::move(relays));
  if (!coordinator_) {
    env_.transport.RecheckAdmission();
  } else if (!std::exchange(recheck_pending_, true)) {
    tasks_.Spawn(RecheckSoon());
  }
}

void Membership::OnPeerUp(const NodeId& peer) {
  if (!coordinator_up_) return;
  const std::vector<NodeId> coordinators = Coordinators();
  if (std::find(coordinators.begin(), coordinators.end(), peer) != coordinators.end()) {
    coordinator_up_->Set(true);
  }
}

Task<void> Membership::RecheckSoon() {
  co_await Sleep(env_.executor, kCutGrace);
  recheck_pending_ = false;
  env_.transport.RecheckAdmission();
}

void Membership::Start(wire::NodeProfile profile) {
  profile_ = std::move(profile);
  if (!env_.state.has_network()) return;
  OnApplied(env_.state.last_applied());
  TakeRole();
}

// A coordinator is told what is decided by the one that leads; members follow one of them.
void Membership::TakeRole() {
  role_since_ = env_.state.coordinators_since();
  const std::vector<NodeId> coordinators = Coordinators();
  const bool chosen = std::find(coordinators.begin(), coordinators.end(), env_.transport.self()) !=
                      coordinators.end();
  if (!chosen) {
    outreach_.reset();
    coordinator_.reset();
    if (following_log_.size() == 0) following_log_.Spawn(Follow());
  } else if (!coordinator_) {
    following_log_.Clear();
    following_ = false;
    online_.clear();
    coordinator_ = std::make_unique<Coordinator>(env_.transport, env_.state, replica_);
    outreach_ = std::make_unique<Outreach>(env_.transport, env_.state, env_.rng);
    tasks_.Spawn(TellProfile());
  }
  if (on_role_) on_role_();
}

Task<void> Membership::TakeRoleSoon() {
  TakeRole();
  co_return;
}

absl::StatusOr<NetworkId> Membership::Found(const std::string& name) {
  if (env_.state.has_network() || joining_) {
    return absl::FailedPreconditionError(
        "this node is in a network already; leave it first: gdfctl leave");
  }
  trust::Genesis genesis;
  genesis.name = name;
  genesis.created_unix_ms = absl::ToUnixMillis(env_.executor.clock().Now());
  genesis.coordinator_key = env_.key.public_key();
  GDF_ASSIGN_OR_RETURN(std::string record, genesis.Sign(env_.key));
  wire::Command command;
  env_.rng.Fill(absl::MakeSpan(command.request));
  command.actor = env_.transport.self();
  command.body = wire::CreateNetwork{record, profile_};
  state::CommandLog log(env_.state, env_.executor.clock());
  GDF_ASSIGN_OR_RETURN(wire::CommandResult result, log.Propose(std::move(command)));
  GDF_RETURN_IF_ERROR(result.status);
  TakeRole();
  return trust::NetworkIdOf(record);
}

Task<absl::Status> Membership::Join(trust::Invite invite, std::string node_name) {
  if (env_.state.has_network() || joining_) {
    co_return absl::FailedPreconditionError(
        "this node is in a network already; leave it first: gdfctl leave");
  }
  if (!node_name.empty()) profile_.name = node_name;
  joining_ = invite;
  wire::Command command;
  env_.rng.Fill(absl::MakeSpan(command.request));
  command.actor = env_.transport.self();
  wire::Join join;
  join.network = invite.network;
  join.invite = invite.id;
  join.secret_hash = trust::InviteSecretHash(invite.id, invite.secret);
  join.public_key = env_.key.public_key();
  join.node = profile_;
  command.body = join;
  const Buffer request(wire::Encode(wire::JoinCall{invite.network, wire::EncodeCommand(command)}));

  absl::Status outcome = absl::UnavailableError("the invite names no coordinator");
  for (const trust::InviteCoordinator& c : invite.coordinators) {
    env_.transport.SetAddresses(c.id, c.addresses);
    absl::StatusOr<Buffer> reply =
        co_await env_.transport.Call(c.id, "membership.join", request, kJoinTimeout);
    if (!reply.ok()) {
      outcome = Annotate(reply.status(), absl::StrCat("coordinator ", c.id.Short()));
      continue;
    }
    absl::StatusOr<wire::JoinAnswer> answer = wire::DecodeJoinAnswer(reply->view());
    if (!answer.ok() || trust::NetworkIdOf(answer->genesis) != invite.network) {
      outcome =
          absl::PermissionDeniedError("the coordinator serves another network than the invite's");
      break;
    }
    absl::StatusOr<wire::CommandResult> result = wire::DecodeCommandResult(answer->result);
    outcome = result.ok() ? result->status : result.status();
    break;
  }
  // A repeated join of a known key: the first answer was lost on its way.
  if (!outcome.ok() && outcome.code() != absl::StatusCode::kAlreadyExists) {
    joining_.reset();
    co_return outcome;
  }
  role_since_ = 1;  // follows, whoever they are
  following_log_.Spawn(Follow());
  while (joining_) {
    const bool progress = co_await WaitApplied(env_.state.last_applied() + 1, kJoinTimeout);
    if (!progress) co_return GiveUpJoining();
  }
  co_return absl::OkStatus();
}

// A log of which a part is here goes on as after a restart. Without any, this node is in no network,
// whatever its coordinator says, and may join or found one.
absl::Status Membership::GiveUpJoining() {
  joining_.reset();
  const std::string why = last_error_.ok() ? "" : absl::StrCat(" (", last_error_.message(), ")");
  if (env_.state.has_network()) {
    return absl::DeadlineExceededError(
        absl::StrCat("joined, but the network's log does not go on; it is still being tried", why));
  }
  following_log_.Clear();
  following_ = false;
  online_.clear();
  last_error_ = absl::OkStatus();
  env_.transport.RecheckAdmission();
  return absl::DeadlineExceededError(absl::StrCat(
      "the coordinator took this node in, but the network's log does not arrive: this node is in no "
      "network; join again when the coordinator is well",
      why));
}

Task<void> Membership::Follow() {
  absl::Duration pause = kFirstRetry;
  while (true) {
    for (const NodeId& coordinator : Coordinators()) {
      const uint64_t before = env_.state.last_applied();
      absl::Status lost = co_await FollowOnce(coordinator);
      if (following_) pause = kFirstRetry;
      following_ = false;
      online_.clear();
      coordinator_up_.emplace(env_.executor);
      NoteLoss(coordinator, std::move(lost));
      if (!joining_) co_await LookForSuccessor(coordinator);
      if (env_.state.last_applied() > before) pause = kFirstRetry;
    }
    if (absl::Status expelled = CheckExpelled(); !expelled.ok()) {
      last_error_ = expelled;
      Log(LogLevel::kWarning, "expelled", {{"why", expelled}});
      co_return;
    }
    // One that dials this node first is followed at once.
    OneShot<bool> next = coordinator_up_.value_or(OneShot<bool>(env_.executor));
    next.SetAfter(pause * (0.5 + env_.rng.Unit()), false);
    co_await next.Wait();
    coordinator_up_.reset();
    pause = std::min(pause * 2, kLastRetry);
  }
}

void Membership::NoteLoss(const NodeId& coordinator, absl::Status why) {
  if (why != last_error_) {  // one that stays away is news once
    Log(LogLevel::kWarning, "coordinator_lost",
        {{"coordinator", coordinator.Short()}, {"why", why}});
  }
  last_error_ = std::move(why);
  if (on_refused_ && last_error_.code() == absl::StatusCode::kPermissionDenied)
    on_refused_(last_error_);
}

// A coordinator that replaced its key while this node was away answers at its address under another
// id. Its log shows whether it is the same: the old key has signed the new one.
Task<void> Membership::LookForSuccessor(NodeId coordinator) {
  const absl::StatusOr<state::Member> known = env_.state.member(coordinator);
  if (!known.ok()) co_return;
  const std::vector<NodeId> others = env_.transport.AnsweredInstead(coordinator);
  for (const NodeId& found : others) {
    if (env_.state.member(found).ok()) continue;
    candidate_ = found;
    env_.transport.SetAddresses(found, known->profile.addresses);
    const absl::Status followed = co_await FollowSuccessor(coordinator, found);
    candidate_.reset();
    Log(LogLevel::kInfo, "coordinator_successor",
        {{"coordinator", coordinator.Short()}, {"found", found.Short()}, {"result", followed}});
    if (followed.ok()) co_return;
    env_.transport.SetAddresses(found, {});
    env_.transport.RecheckAdmission();
  }
}

// What comes is kept aside until it is proven.
Task<absl::Status> Membership::FollowSuccessor(NodeId coordinator, NodeId found) {
  GDF_CO_ASSIGN_OR_RETURN(state::Network network, env_.state.network());
  absl::StatusOr<std::unique_ptr<net::Stream>> stream = co_await env_.transport.Open(
      found, "membership.watch", net::Priority::kControl, kOpenTimeout);
  GDF_CO_RETURN_IF_ERROR(stream.status());
  const wire::WatchCall call{env_.state.last_applied() + 1};
  GDF_CO_RETURN_IF_ERROR(co_await (*stream)->Send(Buffer(wire::Encode(call))));
  SuccessionProof proof(network.id, coordinator);
  std::vector<Buffer> updates;
  size_t bytes = 0;
  while (proof.current() != found) {
    absl::StatusOr<std::optional<Buffer>> message = co_await (*stream)->Receive(kOpenTimeout);
    GDF_CO_RETURN_IF_ERROR(message.status());
    if (!message->has_value()) co_return absl::UnavailableError("it ended the stream");
    bytes += (*message)->size();
    if (bytes > kMaxUnprovenBytes) {
      co_return absl::ResourceExhaustedError("its log goes on without a proof of the new key");
    }
    GDF_CO_ASSIGN_OR_RETURN(wire::WatchUpdate update, wire::DecodeWatchUpdate((*message)->view()));
    for (const wire::LogEntryBytes& entry : update.entries) proof.Take(entry.command);
    updates.push_back(**std::move(message));
  }
  for (const Buffer& update : updates) GDF_CO_RETURN_IF_ERROR(Apply(update.view()));
  co_return absl::OkStatus();
}

absl::Status Membership::CheckExpelled() const {
  absl::StatusOr<state::Member> self = env_.state.member(env_.transport.self());
  if (!self.ok() || self->status == state::MemberStatus::kActive) return absl::OkStatus();
  const std::string lift =
      self->status == state::MemberStatus::kBanned
          ? absl::StrCat("an admin lifts the ban with gdfctl node unban ", self->profile.name, "; then ")
          : "to come back: ";
  return absl::PermissionDeniedError(absl::StrCat(
      "this node was ", ToAbsl(state::ToString(self->status)), " by the network",
      self->reason.empty() ? "" : ": ", self->reason, "; ", lift,
      "gdfctl leave here, and join with a new invite"));
}

Task<absl::Status> Membership::FollowOnce(NodeId coordinator) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream = co_await env_.transport.Open(
      coordinator, "membership.watch", net::Priority::kControl, kOpenTimeout);
  GDF_CO_RETURN_IF_ERROR(stream.status());
  const wire::WatchCall call{env_.state.last_applied() + 1};
  GDF_CO_RETURN_IF_ERROR(co_await (*stream)->Send(Buffer(wire::Encode(call))));
  while (true) {
    absl::StatusOr<std::optional<Buffer>> message = co_await (*stream)->Receive();
    GDF_CO_RETURN_IF_ERROR(message.status());
    if (!message->has_value()) co_return absl::UnavailableError("the coordinator ended the stream");
    GDF_CO_RETURN_IF_ERROR(Apply((*message)->view()));
    if (!following_) {
      following_ = true;
      last_error_ = absl::OkStatus();
      tasks_.Spawn(TellProfile());
    }
  }
}

absl::Status Membership::CheckSameLog(const wire::WatchUpdate& update) {
  uint64_t index = env_.state.last_applied();
  GDF_ASSIGN_OR_RETURN(Digest digest, env_.state.LogDigest(index));
  for (const wire::LogEntryBytes& entry : update.entries) {
    if (entry.index != ++index) {
      return absl::InvalidArgumentError(
          absl::StrCat("log entry ", entry.index, " came, entry ", index, " is the next"));
    }
    digest = state::NextLogDigest(digest, entry.command);
  }
  if (digest == update.log_digest) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the coordinator's log and this node's are not the same up to entry ", index,
                   ": the coordinator was restored from an old copy, or one of them is damaged; "
                   "gdfctl leave, then join again"));
}

absl::Status Membership::Apply(std::string_view update_bytes) {
  GDF_ASSIGN_OR_RETURN(wire::WatchUpdate update, wire::DecodeWatchUpdate(update_bytes));
  GDF_RETURN_IF_ERROR(CheckSameLog(update));
  for (const wire::LogEntryBytes& entry : update.entries) {
    if (entry.index == 1 && joining_) {
      GDF_ASSIGN_OR_RETURN(wire::Command first, wire::DecodeCommand(entry.command));
      const auto* create = std::get_if<wire::CreateNetwork>(&first.body);
      if (create == nullptr || trust::NetworkIdOf(create->genesis) != joining_->network) {
        return absl::PermissionDeniedError(
            "the log does not begin with the genesis that the invite names");
      }
    }
    GDF_RETURN_IF_ERROR(env_.state.Apply(entry.index, entry.command).status());
  }
  GDF_RETURN_IF_ERROR(FollowPresence(update, online_));
  if (update.online || update.changes) leader_ = update.leader;
  return absl::OkStatus();
}

void Membership::SetAddresses(std::vector<std::string> addresses) {
  profile_.addresses = std::move(addresses);
  TellProfileSoon();
}

void Membership::SetResources(wire::NodeResources resources) {
  profile_.resources = std::move(resources);
  TellProfileSoon();
}

void Membership::TellProfileSoon() {
  if (connected()) tasks_.Spawn(TellProfile());  // else it is told with the next connection
}

// The name that the network gave stays, also where another was wished for and taken.
Task<void> Membership::TellProfile() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    absl::StatusOr<state::Member> self = env_.state.member(env_.transport.self());
    if (!self.ok()) co_return;
    wire::NodeProfile wanted = profile_;
    if (wanted.name.empty() || IsNumbered(self->profile.name, wanted.name))
      wanted.name = self->profile.name;
    if (wanted == self->profile) co_return;
    wire::CommandBody update = wire::UpdateNode{std::move(wanted)};  // GCC 12 destroys an unnamed one twice
    absl::StatusOr<wire::CommandResult> told = co_await ProposeChecked(std::move(update));
    if (told.ok()) co_return;
    Log(LogLevel::kWarning, "profile_not_told", {{"why", told.status()}});
    if (told.status().code() != absl::StatusCode::kAlreadyExists) co_return;
    profile_.name = self->profile.name;
  }
}

Task<absl::StatusOr<wire::CommandResult>> Membership::Propose(wire::CommandBody body,
                                                              absl::Duration timeout) {
  wire::Command command;
  env_.rng.Fill(absl::MakeSpan(command.request));
  command.actor = env_.transport.self();
  command.body = std::move(body);
  GDF_CO_RETURN_IF_ERROR(wire::CheckCommand(command));
  if (!env_.state.has_network()) {
    co_return absl::FailedPreconditionError(
        "this node is in no network; make one (gdfctl network create NAME) or join one (gdfctl "
        "join INVITE)");
  }
  const absl::Duration end = env_.executor.clock().Monotonic() + timeout;
  absl::StatusOr<wire::CommandResult> result = absl::UnavailableError("no coordinator is known");
  // The request id makes a repetition harmless, so what failed on its way is asked again until the
  // time is up.
  absl::Duration pause = kFirstRetry;
  bool asked_before = false;
  while (true) {
    for (const NodeId& coordinator : Coordinators()) {
      const absl::Duration left = end - env_.executor.clock().Monotonic();
      if (left <= absl::ZeroDuration()) break;
      const bool was_there = env_.transport.Connected(coordinator);
      absl::StatusOr<wire::CommandResult> asked = co_await ProposeTo(coordinator, command, left);
      // That the time ran out says less than why nobody was there before.
      const bool nobody = !was_there && !env_.transport.Connected(coordinator);
      if (asked_before && nobody && absl::IsDeadlineExceeded(asked.status())) break;
      result = std::move(asked);
      asked_before = true;
      if (!absl::IsUnavailable(result.status())) break;
    }
    if (!absl::IsUnavailable(result.status())) break;
    if (env_.executor.clock().Monotonic() + pause >= end) break;
    co_await Sleep(env_.executor, pause);
    pause = std::min(pause * 2, kLastAskAgain);
  }
  if (!result.ok() || !result->status.ok()) co_return result;  // a refusal is no entry
  // The caller may look at the state next: wait until it is there.
  while (true) {
    absl::StatusOr<std::optional<wire::CommandResult>> known =
        env_.state.ResultOf(command.actor, command.request);
    if (!known.ok() || known->has_value()) break;
    const absl::Duration left = end - env_.executor.clock().Monotonic();
    if (left <= absl::ZeroDuration()) break;
    co_await WaitApplied(env_.state.last_applied() + 1, left);
  }
  co_return result;
}

// kUnavailable: ask another.
Task<absl::StatusOr<wire::CommandResult>> Membership::ProposeTo(NodeId coordinator,
                                                                const wire::Command& command,
                                                                absl::Duration timeout) {
  if (coordinator == env_.transport.self()) co_return co_await replica_.Propose(command);
  const Buffer bytes(wire::EncodeCommand(command));
  const bool others = Coordinators().size() > 1;
  const absl::Duration patience =
      kTryTimeout + absl::Seconds(static_cast<double>(bytes.size()) / kSlowBytesPerSec);
  absl::StatusOr<Buffer> reply = co_await env_.transport.Call(
      coordinator, "membership.propose", bytes, others ? std::min(timeout, patience) : timeout);
  if (reply.ok()) co_return wire::DecodeCommandResult(reply->view());
  // It has not heard yet that it is a coordinator, ceases to be one, or is lost without a sign.
  const absl::Status& why = reply.status();
  const bool late = absl::IsDeadlineExceeded(why) && patience < timeout;
  if (others && (late || absl::IsUnimplemented(why) || absl::IsCancelled(why))) {
    co_return absl::UnavailableError(reply.status().message());
  }
  co_return reply.status();
}

Task<bool> Membership::WaitApplied(uint64_t index, absl::Duration timeout) {
  const absl::Duration end = env_.executor.clock().Monotonic() + timeout;
  while (env_.state.last_applied() < index) {
    const absl::Duration left = end - env_.executor.clock().Monotonic();
    if (left <= absl::ZeroDuration()) co_return false;
    OneShot<bool> applied(env_.executor);
    applied.SetAfter(left, false);
    applied_waiters_.push_back(applied);
    co_await applied.Wait();
  }
  co_return true;
}

Task<absl::StatusOr<wire::CommandResult>> Membership::ProposeChecked(
    wire::CommandBody body, absl::Duration timeout) {
  absl::StatusOr<wire::CommandResult> result = co_await Propose(std::move(body), timeout);
  if (result.ok() && !result->status.ok()) co_return result->status;
  co_return result;
}

bool Membership::IsOnline(const NodeId& id) const {
  return std::ranges::binary_search(Online(), id);
}

}  // namespace gdf::membership
