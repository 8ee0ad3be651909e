// A node's part in keeping the command log, together with the other coordinators when there are several: one of them leads,
// has commands recorded by most of them, and is replaced when it is lost. Protocol, safety and formats:
// docs/formats/consensus.md. A node that is no coordinator has one too, which tells coordinators that missed the choice of
// others about it. Methods: consensus.vote, consensus.lead.
//
//   Replica replica({transport, state, rng});
//   absl::StatusOr<wire::CommandResult> result = co_await replica.Propose(std::move(command));
#ifndef GDF_CORE_CONSENSUS_REPLICA_H_
#define GDF_CORE_CONSENSUS_REPLICA_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/rng.h"
#include "core/base/task.h"
#include "core/net/transport.h"
#include "core/state/command_log.h"
#include "core/state/state.h"
#include "core/wire/consensus_messages.h"

namespace gdf::consensus {

struct Environment {
  net::Transport& transport;
  state::State& state;
  Rng& rng;
};

// On the executor.
class Replica {
 public:
  // A coordinator that hears no leader for this long, and up to twice that, wants to lead.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Takes part at once, as the state says. Whatever is in `env` outlives it.
  explicit Replica(Environment env);
  ~Replica();

  // Has `command` recorded, by this node if it leads, and returns when it is applied here; as CommandLog::Propose
  // otherwise. kUnavailable when it does not lead, or loses the lead meanwhile: then it is not known whether the command
  // is recorded, and it may be proposed again, here or elsewhere. `command.actor` must have been authenticated.
  Task<absl::StatusOr<wire::CommandResult>> Propose(wire::Command command);

  // What is proposed here is recorded, as far as can be known: this node is the only coordinator, or leads and has heard
  // most of the others lately. No other leads then, and the state here is the network's.
  bool leading() const;
  // Who leads, as far as this coordinator knows.
  std::optional<NodeId> leader() const;
  // Since a leader was heard; zero while one is.
  absl::Duration Leaderless() const;
  // Why the network's record does not go on here; OK when it does.
  const absl::Status& problem() const { return sole() ? log_.disk_status() : problem_; }

  // `handler` is called when leading() may have become another. It must not destroy the replica.
  void OnLeading(std::function<void()> handler) { on_leading_ = std::move(handler); }

 private:
  enum class Role { kPassive, kSole, kFollower, kCandidate, kLeader };
  // What the leader knows of another coordinator.
  struct Peer {
    explicit Peer(Executor& executor) : wake(executor) {}
    std::optional<uint64_t> applied;  // unknown: not heard in this term
    uint64_t holds = 0;
    absl::Duration confirmed = -absl::InfiniteDuration();  // when the last call began that it answered
    Channel<bool> wake;                                    // there may be something to send
  };
  struct Proposal {
    wire::Command command;
    wire::CommandResult result;  // once it is tried
    OneShot<absl::StatusOr<wire::CommandResult>> done;
  };

  // replica.cc
  template <typename Call, typename Answer>
  Task<absl::StatusOr<Buffer>> Serve(NodeId peer, Buffer request, absl::StatusOr<Call> (*decode)(std::string_view),
                                     absl::StatusOr<Answer> (Replica::*handle)(const NodeId&, const Call&));
  void Regroup();
  Task<void> RegroupSoon();
  bool sole() const { return role_ == Role::kSole; }
  bool IsPeer(const NodeId& id) const { return peers_.contains(id); }
  size_t majority() const { return (peers_.size() + 1) / 2 + 1; }
  uint64_t last() const { return env_.state.last_applied() + ballot_.tail.size(); }
  absl::Duration now() const { return env_.transport.executor().clock().Monotonic(); }
  void Become(Role role, std::optional<NodeId> leader);
  void Follow(std::optional<NodeId> leader);
  void FailProposals();
  absl::StatusOr<wire::LogPart> Decided(uint64_t after, size_t max_bytes);
  std::optional<wire::LogPart> NewsFor(uint64_t since, uint64_t applied);
  absl::Status Learn(const wire::LogPart& part);
  absl::Status ApplyNext(const std::string& entry);
  absl::Status SaveVote(uint64_t term, const std::optional<NodeId>& vote);
  absl::Status SaveTail(uint64_t term, std::vector<std::string> tail);
  Task<void> KeepTime(uint64_t since);

  // replica_vote.cc
  void Stand(bool trial);
  Task<void> AskForVote(NodeId peer, wire::VoteCall call, uint64_t round);
  absl::StatusOr<wire::VoteAnswer> OnVoteCall(const NodeId& peer, const wire::VoteCall& call);
  absl::StatusOr<bool> Grant(const NodeId& peer, const wire::VoteCall& call);
  absl::Status Adopt(uint64_t term);

  // replica_lead.cc
  void Lead();
  // Whether most coordinators, with this one, have answered calls that began after `time`.
  bool ConfirmedSince(absl::Duration time) const;
  Task<void> Beat(NodeId id, std::shared_ptr<Peer> peer, uint64_t round);
  Task<void> Feed(NodeId id, std::shared_ptr<Peer> peer, uint64_t round);
  Task<absl::Status> Send(NodeId id, std::shared_ptr<Peer> peer, wire::LeadCall call, absl::Duration timeout,
                          uint64_t round);
  void Heard(Peer& peer, const wire::LeadAnswer& answer, absl::Duration began);
  bool Behind(const Peer& peer) const;
  absl::StatusOr<wire::LeadCall> NextFor(const Peer& peer);
  void Pump();
  // The next proposals to be recorded together, stamped.
  std::vector<Proposal> TakeBatch();
  void Decide();

  // replica_follow.cc
  absl::StatusOr<wire::LeadAnswer> OnLeadCall(const NodeId& peer, const wire::LeadCall& call);
  absl::Status ApplyTail(const wire::LogPart& decided);
  absl::Status Accept(const wire::LeadCall& call);

  const Environment env_;
  state::CommandLog log_;  // of a sole coordinator
  Role role_ = Role::kPassive;
  uint64_t since_ = 0;    // the entry that chose the coordinators
  state::Ballot ballot_;  // as on the disk
  std::map<NodeId, std::shared_ptr<Peer>> peers_;  // the other coordinators
  uint64_t round_ = 0;    // of role, term and group: what was begun in an earlier one is over
  std::optional<NodeId> leader_;
  absl::Duration heard_;     // when the leader was, or this node began to listen
  absl::Duration stand_at_;  // when it wants to lead, unless it hears a leader
  absl::Duration stood_at_;  // when it wanted to last
  size_t votes_ = 0;
  absl::Duration lead_began_;
  bool settled_ = false;  // the leader has decided what it found
  std::deque<Proposal> queue_;
  std::vector<Proposal> flight_;  // tried; those that are entries are the tail
  absl::Status problem_;
  std::function<void()> on_leading_;
  bool regroup_pending_ = false;
  state::State::WatcherId state_watcher_;
  TaskScope tasks_;
  std::vector<net::Registration> registrations_;  // last: its handlers go first
};

}  // namespace gdf::consensus

#endif  // GDF_CORE_CONSENSUS_REPLICA_H_
