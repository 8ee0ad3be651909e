// What JobMember is made of: the member's side of every step. Internal to the module.
#ifndef GDF_CORE_ROUNDS_MEMBER_H_
#define GDF_CORE_ROUNDS_MEMBER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/aggregate/outer_optimizer.h"
#include "core/compress/codec.h"
#include "core/compress/low_rank.h"
#include "core/exchange/exchange.h"
#include "core/net/traffic_meter.h"
#include "core/rounds/async_lock.h"
#include "core/rounds/job_member.h"
#include "core/rounds/state_transfer.h"
#include "core/schedule/anomalies.h"
#include "core/schedule/exchange_tuner.h"
#include "core/schedule/sites.h"
#include "core/schedule/step_shares.h"
#include "core/train/fragments.h"

namespace gdf::rounds {

class RoundLead;

// What this node did for one round: steps 1 to 6. Kept until the round is committed, whatever epoch that takes.
struct Training {
  RoundId round;
  Digest start_theta;
  config::RoundSteps steps;   // this node's
  absl::Duration begun;
  bool slow = false;          // and the coordinators were told
  bool finished = false;
  absl::Status status;        // of this node's worker
  wire::RoundReport report;   // when OK
  uint32_t codec = 0;         // which of the job's packs it
  Buffer packed;              // empty when refused; where rounds have two passes: of the first
  Buffer second;              // and of the second, made of first_pass
  std::optional<Digest> first_pass;
  bool offered = false;       // to an exchange: a round may hold it
  bool left_out = false;      // as wrong, and given up
  bool goes_on = false;       // the worker is at the round's end: what it has beside the result stays
  std::vector<OneShot<bool>> waiters;

  // Is it for the round that this receipt names, from the same parameters?
  bool IsOf(const wire::Receipt& receipt) const {
    return round == receipt.tag.round && start_theta == receipt.start_theta;
  }
};

// Of the worker's steps that no round has reported.
struct StepTotals {
  int64_t steps = 0;
  int64_t tokens = 0;
  double loss = 0;
  absl::Duration compute;

  void Add(const train::RunResult& ran);
};

// What the first pass of a round came to, where deltas go as low-rank factors: the mean of the left ones.
struct FirstPass {
  wire::Prepared reply;  // its result.theta: the digest of `mean`
  std::shared_ptr<const tensor::FlatBuffer> mean;
};

// An inner state on its way to the disk.
struct SavedWorker {
  std::unique_ptr<checkpoint::RecordWriter> record;
  absl::Status disk;  // its first error
};

class JobMember::Impl {
 public:
  explicit Impl(RoundEnv env);
  ~Impl();

  Task<absl::Status> Start();
  void SetEpoch(wire::EpochRecord record);
  Task<absl::Status> WaitForEnd();
  checkpoint::OuterStatePtr state() const { return state_; }
  JobProgress progress() const;

  // --- For the lead on this node ---
  const RoundEnv& env() const { return env_; }
  const std::optional<wire::Commit>& commit() const { return commit_; }
  // What leads on this node have learned; it outlives their epochs.
  schedule::ExchangeTuner& tuner() { return tuner_; }
  schedule::Sites& sites() { return sites_; }
  schedule::Anomalies& anomalies() { return anomalies_; }
  schedule::StepShares& step_shares() { return step_shares_; }
  const compress::Codec& codec(uint32_t index) const { return *codecs_[index]; }
  // How long this node trained for a round last; infinite before the first.
  absl::Duration training_time() const { return training_time_; }
  // Is it of this job, by a majority of the members that the coordinators' record names for its epoch?
  absl::Status CheckCommit(const wire::Commit& commit) const;
  // As if the request had come from the lead over the network; goes on when the caller is destroyed.
  Task<absl::StatusOr<wire::RoundReply>> CallLocal(wire::RoundRequest request);
  // Loss at the parameters that the worker holds now: it is queued behind what the worker does, before what comes.
  OneShot<absl::StatusOr<train::EvalResult>> Evaluate();
  // The first of `count` attempts of `epoch`, above `after`, that this node, its lead, has never used.
  Task<absl::StatusOr<uint32_t>> ReserveAttempts(Epoch epoch, uint32_t after, uint32_t count);
  // The last round's result, where the disk did not take it when it was committed: until it does, for a while.
  Task<absl::Status> SaveResult();
  // Ends the job on this node.
  void End(absl::Status status);
  void Event(wire::Severity severity, std::string text);
  void set_activity(std::string activity) { activity_ = std::move(activity); }

 private:
  using Reply = absl::StatusOr<wire::RoundReply>;

  // member_start.cc: life
  Task<absl::Status> Restore();
  Task<absl::StatusOr<checkpoint::Loaded>> LoadOwn();
  absl::Status CheckOwn(const checkpoint::Loaded& loaded) const;
  Task<absl::Status> TakeInitialState();
  void Serve();
  Task<void> ServeState(NodeId peer, std::unique_ptr<net::Stream> stream);
  Task<void> ActivateEpoch(Epoch epoch);
  Task<void> WatchLead();
  Task<void> ReportSlowTraining();
  absl::Duration SilenceAllowed();
  void NodeFailed(const absl::Status& why);

  // member_requests.cc: answers
  Task<absl::StatusOr<Buffer>> HandleCall(NodeId peer, Buffer request);
  Task<Reply> Handle(NodeId from, wire::RoundRequest request);
  absl::Status Admit(const NodeId& from, const wire::RoundRequest& request) const;
  Task<Reply> OnEnter(wire::Enter enter);
  Task<Reply> OnSync(wire::SyncState sync);
  Task<Reply> VerifyState(wire::SyncState sync);  // holding state_lock_
  Task<Reply> OnPlan(wire::RoundPlan plan);
  Task<void> Establish();
  Task<Reply> OnExchange(wire::ExchangeStart start);
  Task<void> DropUnsignedShadow();
  Task<Reply> OnPropose(wire::Receipt receipt);
  Task<Reply> OnCommit(wire::CommitRound commit);
  Reply OnAbort(const wire::Abort& abort);
  Reply OnEnd(const wire::EndJob& end);
  absl::Status CheckPlan(const wire::RoundPlan& plan) const;
  absl::Status CheckReceipt(const wire::Receipt& receipt) const;

  // round.cc: the member's steps
  Task<void> Train(std::shared_ptr<Training> training, wire::RoundPlan plan);
  Task<absl::Status> TrainSteps(Training& training, wire::RoundPlan plan);
  absl::Status CheckCodec(uint32_t index) const;  // does the job have one at this place?
  Task<absl::Status> TakeDelayedSteps(Training& training);
  Task<absl::StatusOr<train::RunResult>> RunWorker(train::RunRequest run);
  train::EmitRequest EmitOf(const Training& training) const;
  float FeedbackOf(const Training& training) const;  // β of its fragment's residual
  Task<absl::Status> SettleDelta(train::Settlement settlement);  // of unsettled_
  // The mean of [num_values], of which this node's part is `packed` if it has tokens.
  Task<absl::StatusOr<tensor::FlatBuffer>> Exchange(wire::ExchangeStart start, Buffer packed, uint64_t num_values,
                                                    wire::Prepared* prepared);
  Task<absl::StatusOr<OuterStateDraft>> ExchangeAndStep(wire::ExchangeStart start, wire::Prepared* prepared);
  Task<absl::Status> FirstExchange(wire::ExchangeStart start, wire::Prepared* prepared);
  absl::Status CheckFirstPass(const wire::ExchangeStart& start) const;
  Task<absl::Status> Project();
  Task<absl::Status> PersistPrepared(wire::Receipt receipt);
  Task<absl::Status> PersistCommitted(checkpoint::OuterStatePtr state, std::optional<wire::Commit> commit);
  train::Settlement SettlementOf(const Training& training) const;
  void SettleTraining();
  Task<void> SettleWorker(std::shared_ptr<const Training> training, train::Settlement settlement);
  Task<absl::Status> SaveWorker(RoundId round);
  Task<absl::Status> WriteSaved(std::shared_ptr<SavedWorker> saving, Buffer piece);
  Task<absl::StatusOr<Buffer>> ReadSaved(std::shared_ptr<const checkpoint::RecordFile> record, uint64_t offset,
                                         uint64_t bytes);
  Task<absl::Status> ApplyToWorker();
  Task<absl::Status> ApplyFragments(uint64_t first, uint64_t count, double mixing);
  uint64_t num_momentum() const;  // of a state's
  uint64_t FragmentOf(RoundId round) const { return round.value % fragments_->count(); }
  Task<void> IdentifyFragment(OuterStateDraft state);  // of a state that was not made here
  // One call to the store at a time, on the pool.
  Task<absl::Status> OnStore(std::function<absl::Status(checkpoint::CheckpointStore&)> work);
  // A disk that takes `what` no more fails in every round: told once, and when it works again.
  void TellSaved(std::string_view what, const absl::Status& saved, std::string failure);
  bool CheckpointDue(RoundId round) const;
  // Done, with the traffic since the last such reply.
  wire::RoundReply TrafficReply();
  void ReadTraffic();

  RoundEnv env_;
  std::vector<std::shared_ptr<const compress::Codec>> codecs_;  // of the job
  std::optional<train::Fragments> fragments_;  // from Start on
  const std::shared_ptr<const compress::LowRank> low_rank_;  // deltas go as its factors; null: as they are
  aggregate::OuterSgd outer_;
  exchange::Exchange exchange_;
  schedule::ExchangeTuner tuner_;
  schedule::Sites sites_;
  schedule::Anomalies anomalies_;
  schedule::StepShares step_shares_;

  checkpoint::OuterStatePtr state_;        // θ_t, committed
  std::optional<wire::Commit> commit_;     // of state_; none for θ_0
  bool committed_unsaved_ = false;         // the disk did not take them
  OuterStateDraft shadow_;                 // what an exchange or a sync made of state_
  wire::RoundTag shadow_tag_;              // of the exchange that made it
  std::vector<wire::Contribution> shadow_contributions_;  // to that exchange's mean
  uint32_t shadow_codec_ = 0;              // that packed them: which of the job's
  wire::Prepared shadow_reply_;
  std::optional<wire::Receipt> prepared_;  // signed here, for shadow_
  std::shared_ptr<Training> training_;
  absl::Duration training_time_ = absl::InfiniteDuration();
  std::optional<FirstPass> first_pass_;    // the last one, of any round
  uint32_t last_attempt_ = 0;              // in the entered epoch

  std::optional<wire::EpochRecord> known_;     // as the coordinators say
  net::TrafficMeter traffic_;
  std::optional<wire::EpochRecord> entered_;   // promised to the lead
  std::optional<wire::EpochRecord> previous_;  // whose members the lead of entered_ must hear from before it trains

  std::optional<wire::StateId> worker_state_;  // what the worker's parameters began from
  std::optional<RoundId> unsettled_;           // round of an Emit that is not settled
  std::map<uint64_t, RoundId> carried_;        // by fragment: of the newest delta that waits whole in its residual
  StepTotals unreported_;

  std::map<std::string, int, std::less<>> unsaved_;  // what, and how often in a row

  std::string activity_ = "starting";
  int giving_ = 0;      // how many fetch this node's state
  int exchanging_ = 0;  // whether its link is needed for rounds
  int64_t step_ = 0;
  double loss_ = 0;
  absl::Duration last_heard_;              // from the lead
  bool heard_in_epoch_ = false;
  bool ended_ = false;
  OneShot<absl::Status> end_;
  AsyncLock state_lock_;                   // over the committed state and what is prepared
  AsyncLock exchange_lock_;
  AsyncLock store_lock_;
  AsyncLock worker_lock_;                  // keeps a round's calls to the worker together
  net::Registration calls_;
  net::Registration states_;
  std::unique_ptr<RoundLead> lead_;
  std::unique_ptr<TaskScope> lead_scope_;
  TaskScope scope_;                        // last: its tasks use the rest
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_MEMBER_H_
