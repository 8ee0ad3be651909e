// This node's part in a network: founds or joins one, keeps the local state equal to the
// coordinators' by following the command log of one of them, and hands commands to the one that
// leads. When it is chosen as a coordinator it keeps the log together with the others.
#ifndef GDF_CORE_MEMBERSHIP_MEMBERSHIP_H_
#define GDF_CORE_MEMBERSHIP_MEMBERSHIP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/rng.h"
#include "core/base/task.h"
#include "core/consensus/replica.h"
#include "core/membership/coordinator.h"
#include "core/membership/outreach.h"
#include "core/net/transport.h"
#include "core/state/state.h"
#include "core/trust/invite.h"
#include "core/trust/node_key.h"
#include "core/wire/membership_messages.h"

namespace gdf::membership {

struct Environment {
  Executor& executor;
  net::Transport& transport;
  state::State& state;
  const trust::NodeKey& key;
  Rng& rng;
};

// On the executor. Sets the transport's admission policy and keeps its address book.
class Membership {
 public:
  static constexpr absl::Duration kProposeTimeout = absl::Seconds(20);

  explicit Membership(Environment env);
  ~Membership();

  // `handler` is told why whenever a coordinator does not take this node for a member. It must not
  // destroy this object.
  void OnRefused(std::function<void(const absl::Status&)> handler) {
    on_refused_ = std::move(handler);
  }

  // `handler` is called when this node has become or ceased to be a coordinator, or may lead now. It
  // must not destroy this object.
  void OnRole(std::function<void()> handler) { on_role_ = std::move(handler); }

  // Takes up where the state left off: serves as coordinator, or follows one. `profile` is what
  // this node says about itself; the network is told when it differs from what it knows.
  void Start(wire::NodeProfile profile);

  // Where others reach this node from now on; the network is told.
  void SetAddresses(std::vector<std::string> addresses);
  // What this node offers from now on; the network is told.
  void SetResources(wire::NodeResources resources);

  // Makes a network with this node as its coordinator. kFailedPrecondition when in one already.
  absl::StatusOr<NetworkId> Found(const std::string& name);
  // Joins with an invite and returns when the local state knows this node as a member.
  // kFailedPrecondition when in a network already; kPermissionDenied with the network's reason
  // (expired, used up, revoked, unknown); kUnavailable when no coordinator of the invite answers
  // with the right key; kDeadlineExceeded when the network's log does not arrive: then this node is
  // in no network, unless a part of the log came.
  Task<absl::Status> Join(trust::Invite invite, std::string node_name);

  // Has a command recorded, and returns once the local state has applied it. The outer status:
  // could not be recorded, as far as known (kUnavailable: no coordinator; kDeadlineExceeded).
  // `result.status`: the network's verdict.
  Task<absl::StatusOr<wire::CommandResult>> Propose(wire::CommandBody body,
                                                    absl::Duration timeout = kProposeTimeout);
  // Propose, with the verdict as the status.
  Task<absl::StatusOr<wire::CommandResult>> ProposeChecked(
      wire::CommandBody body, absl::Duration timeout = kProposeTimeout);

  // Resumes once entry `index` is applied here (true), or when `timeout` has passed (false).
  Task<bool> WaitApplied(uint64_t index, absl::Duration timeout);

  bool coordinator() const { return coordinator_ != nullptr; }
  // Decides for the network: consensus::Replica::leading.
  bool leading() const { return replica_.leading(); }
  // Who does, as far as is known.
  std::optional<NodeId> leader() const {
    if (coordinator_) return replica_.leader();
    return following_ ? leader_ : std::nullopt;
  }
  // On a coordinator: since it heard one; else zero.
  absl::Duration Leaderless() const {
    return coordinator() ? replica_.Leaderless() : absl::ZeroDuration();
  }
  // All, in the order in which they should be asked.
  std::vector<NodeId> Coordinators();
  // Follows a coordinator's log right now, or is one that is not cut off from the others.
  bool connected() const { return coordinator_ ? !coordinator_->stranded() : following_; }
  const absl::Status& last_error() const { return last_error_; }  // why not connected
  // On a coordinator: why the network's record does not go on; OK when it does.
  absl::Status RecordStatus() const { return coordinator_ ? replica_.problem() : absl::OkStatus(); }
  // On a coordinator: Coordinator::FurthestAhead.
  std::optional<Coordinator::Ahead> FurthestAhead() const {
    return coordinator_ ? coordinator_->FurthestAhead() : std::nullopt;
  }
  // kPermissionDenied, with why and how it comes back, when this node was removed or banned.
  absl::Status CheckExpelled() const;
  // In order of their ids.
  const std::vector<NodeId>& Online() const { return coordinator_ ? coordinator_->Online() : online_; }
  bool IsOnline(const NodeId& id) const;
  const wire::NodeProfile& profile() const { return profile_; }

 private:
  net::Admission Admit(const NodeId& peer);
  void OnApplied(uint64_t index);
  void OnMembersChanged();
  void OnPeerUp(const NodeId& peer);
  absl::Status GiveUpJoining();
  Task<void> RecheckSoon();
  void TakeRole();
  Task<void> TakeRoleSoon();
  Task<void> Follow();
  Task<absl::Status> FollowOnce(NodeId coordinator);
  void NoteLoss(const NodeId& coordinator, absl::Status why);
  Task<void> LookForSuccessor(NodeId coordinator);
  Task<absl::Status> FollowSuccessor(NodeId coordinator, NodeId found);
  absl::Status CheckSameLog(const wire::WatchUpdate& update);
  absl::Status Apply(std::string_view update_bytes);
  void TellProfileSoon();
  Task<void> TellProfile();
  Task<absl::StatusOr<wire::CommandResult>> ProposeTo(NodeId coordinator, const wire::Command& command,
                                                      absl::Duration timeout);

  Environment env_;
  consensus::Replica replica_;
  uint64_t role_since_ = 0;           // the choice of coordinators that TakeRole knows
  std::optional<NodeId> leader_;      // as the coordinator that is followed says
  wire::NodeProfile profile_;
  std::optional<trust::Invite> joining_;  // from Join until the first log entry is here
  std::optional<NodeId> candidate_;       // may be a coordinator under a new key
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Outreach> outreach_;           // of a coordinator
  std::optional<OneShot<bool>> coordinator_up_;  // one has connected since it was lost
  bool following_ = false;
  bool recheck_pending_ = false;
  absl::Status last_error_;
  std::vector<NodeId> online_;
  uint64_t members_since_ = 0;  // of the state, when the transport was told of members
  std::function<void(const absl::Status&)> on_refused_;
  std::function<void()> on_role_;
  std::vector<OneShot<bool>> applied_waiters_;  // set at each applied entry
  state::State::WatcherId state_watcher_;
  net::Registration peer_watcher_;
  TaskScope tasks_;
  TaskScope following_log_;
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_MEMBERSHIP_H_
