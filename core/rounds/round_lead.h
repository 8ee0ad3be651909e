// Drives a job's rounds for one epoch, on the lead. Internal to the module.
#ifndef GDF_CORE_ROUNDS_ROUND_LEAD_H_
#define GDF_CORE_ROUNDS_ROUND_LEAD_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/rounds/member.h"

namespace gdf::rounds {

// Executor only. Lives as long as this node leads this epoch; may be destroyed at any await.
class RoundLead {
 public:
  RoundLead(JobMember::Impl& member, wire::EpochRecord epoch);

  // Brings the members to one state, finishes what was prepared, runs the rounds left, ends the job.
  Task<void> Run();

 private:
  using Reply = absl::StatusOr<wire::RoundReply>;
  using Replies = std::vector<std::pair<NodeId, Reply>>;
  using RequestFor = std::function<wire::RoundRequest(const NodeId&)>;

  // What stages hand on.
  struct Trained {
    std::map<NodeId, wire::RoundReport> reports;  // of members that are there; refused ones too
    std::vector<schedule::Anomalies::Report> deltas;  // of those that have one
    std::map<NodeId, std::string> left_out;  // of them, as wrong: why
  };
  struct Combined {
    wire::Receipt receipt;
    std::map<NodeId, wire::Prepared> prepared;  // of members that have the result
  };
  struct Summary {
    wire::ReportJob report;
    std::optional<OneShot<absl::StatusOr<train::EvalResult>>> validation;
  };
  // What a member was last asked to train for.
  struct Plan {
    RoundId round;
    bool fetches = false;  // the parameters first
    std::optional<Reply> reply = {};
  };
  struct Loss {
    absl::Status why;
    absl::Duration until;  // it keeps its place in the epoch, as it may come back
    bool answers = false;  // again
  };
  struct Answers {  // to Enter
    std::map<NodeId, wire::EnterReply> by_node;
    std::map<NodeId, absl::Status> silent;
  };

  // round_lead.cc
  Task<absl::Status> Drive();
  Task<absl::Status> RunRound();  // round.cc
  Task<absl::Status> Recover(absl::Status why);
  // Asks a lost member, while its place is kept, until it answers.
  Task<void> Knock(NodeId node);
  // Members that have come back while their place was kept take part again.
  void TakeBack();
  // Until every lost member has come back or has lost its place.
  Task<void> AwaitLost();
  bool AnyGivenUp() const;
  // Has the coordinators take nodes that are at fault again and again out of the job.
  Task<void> TakeOut();
  // After `why`: never OK. Where the job goes back, that epoch ends this lead.
  Task<absl::Status> GoBack(absl::Status why);
  // The coordinators take no report of an epoch that is over.
  Task<void> AwaitReports();
  Task<absl::Status> Finish(absl::Status verdict);

  // lead_training.cc
  Task<absl::StatusOr<Trained>> Train();
  void Take(const NodeId& node, const Reply& reply, Trained* trained);
  void SettlePlans();
  // Keeps what `node` answers to its plan.
  Task<void> Follow(NodeId node, int64_t num_steps);
  Task<void> AwaitTraining(absl::Span<const NodeId> nodes, absl::Duration begun);
  void TellLate(const NodeId& node);
  // `num_steps`: of this round's, the first that the node takes.
  Task<Reply> TrainOn(NodeId node, int64_t num_steps);
  // By member: all of the round's, or fewer for slower ones. Who is as fast as the others is late no more.
  std::vector<int64_t> DealSteps(absl::Span<const NodeId> nodes);
  // Notes which deltas are wrong: the mean is to be without them.
  void LeaveOut(Trained& trained);
  // `node` is at fault in this round.
  void Strike(const NodeId& node, const std::string& why);
  void TellWithout(const NodeId& node, const std::string& why);

  // lead_stages.cc
  // Where the data of the round after begins.
  wire::DataCursor CursorOf(const Trained& trained) const;
  // Both passes, where rounds have two.
  Task<absl::StatusOr<Combined>> Exchange(const Trained& trained);
  // One pass; `first`: what the first one came to, if this is the second.
  Task<absl::StatusOr<Combined>> Combine(const Trained& trained, const Combined* first);
  // Makes attempt_ one that no receipt of this epoch has, whatever restarted.
  Task<absl::Status> NextAttempt();
  absl::StatusOr<std::optional<Combined>> Judge(const std::vector<wire::Contribution>& members,
                                                const Replies& replies, std::set<NodeId>* without_delta);
  Task<Reply> AskExchange(NodeId node, wire::ExchangeStart start);
  Task<absl::StatusOr<wire::Commit>> Sign(wire::Receipt receipt);
  Task<absl::Status> Commit(wire::Commit commit);

  // lead_choices.cc
  // By member, for an exchange of two levels; empty: one of one level.
  std::vector<uint32_t> SitesOf(absl::Span<const NodeId> members) const;
  std::vector<uint32_t> NamedSites(absl::Span<const NodeId> members) const;
  void TellSites(absl::Span<const NodeId> members, const std::vector<uint32_t>& sites);
  uint32_t Codec() const;  // of the round that follows position_: which of the job's
  uint32_t ChooseCodec();  // of the one after
  // What members tell of links and codecs, for the rounds after this one.
  void Learn(const Trained& trained, const Combined& combined);

  // lead_figures.cc
  // What the receipt itself says of its round.
  Summary SummaryOf(const wire::Receipt& receipt) const;
  void Summarise(const Trained& trained, const Combined& combined, absl::Duration took);
  void LossJumped(const std::string& why);
  void GoneWrong(const std::string& why);
  // The newest round, when the record lacks it and whoever measured it is gone: what its commit says.
  void ReportUnrecorded();
  void Push(Summary summary);
  Task<void> ReportLoop();

  // recovery.cc
  Task<absl::Status> EnterEpoch();
  Task<absl::StatusOr<Answers>> AskMembers();
  std::string MissingQuorum(const Answers& answers) const;  // empty: there is one
  absl::Status ChooseState(const Answers& answers);
  Task<absl::Status> BringTogether(const Answers& answers);
  Task<absl::Status> FetchPosition(const std::vector<NodeId>& holders);
  Task<absl::Status> FinishPrepared(const Answers& answers);

  // round_lead.cc: asking
  Task<Reply> Ask(NodeId node, wire::RoundRequest request, absl::Duration timeout);
  Task<Replies> AskAll(std::vector<NodeId> nodes, const RequestFor& request, absl::Duration timeout);
  // Sent once, whatever comes of it.
  void Tell(NodeId node, wire::Abort abort);
  // Members that were never connected to `lost` hear of it by this only.
  void TellLost(const NodeId& lost, const wire::RoundTag& tag, const absl::Status& why);
  void Lose(const NodeId& node, const absl::Status& why);
  // Nothing runs there that could answer, as far as this node and the coordinators see: waiting for
  // the connection is no use, though a process may start again.
  bool KnownDown(const NodeId& node) const;
  std::vector<NodeId> Alive() const;  // in the epoch's order
  size_t Quorum() const;  // as many members a round needs
  absl::Status CheckMajority() const;
  wire::RoundTag Tag() const;
  uint64_t MaxTokens() const;  // that one member can train on in this round
  uint64_t TotalRounds() const;
  uint64_t Fragment() const;  // of this round
  absl::Duration Now() const;

  JobMember::Impl& member_;
  const RoundEnv& env_;
  const wire::EpochRecord epoch_;
  wire::StateId position_;                // the committed state all start from
  std::optional<wire::Commit> commit_;    // of position_
  uint32_t attempt_ = 0;                  // goes up through the epoch
  uint32_t attempts_end_ = 0;             // those before it are reserved on disk
  uint32_t attempt_heard_ = 0;            // the highest that a member has heard of
  absl::Duration progress_at_;            // when a round was committed last, nodes were missing, or this lead began
  int failures_ = 0;                      // of rounds, since then
  std::set<NodeId> alive_;
  std::map<NodeId, Loss> lost_;
  bool disagree_ = false;                 // the members do, on the result of this round, with no majority to go by
  std::map<NodeId, int> suspicion_;       // how often others missed it
  std::map<NodeId, Plan> plans_;          // of a round before: it still trains for that
  std::optional<OneShot<bool>> reported_;  // that one of them has an answer
  std::set<NodeId> late_;                 // as told, and slower than others since
  uint64_t bytes_sent_ = 0;               // of the round just committed
  uint64_t bytes_received_ = 0;
  std::string sites_;                     // by which exchanges go, as told
  std::string exchange_failure_;          // why the last exchange failed, naming the node; empty: none did
  bool told_jump_ = false;                // of the loss
  absl::Status gone_wrong_;               // the model has, or nobody has a delta of it
  std::map<NodeId, std::string> at_fault_;  // so often that they are to be taken out of the job: why
  Channel<Summary> summaries_;
  uint64_t summarised_ = 0;               // rounds until the last one that this lead has summarised
  int unreported_ = 0;                    // of them, and the one in the report's hands
  TaskScope scope_;
  TaskScope tells_;  // nobody waits for them
  TaskScope planned_;
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_ROUND_LEAD_H_
