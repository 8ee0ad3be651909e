// The straight line of a round. First the lead's, one stage a line; then what a member does in each.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/rounds/factors.h"
#include "core/rounds/member.h"
#include "core/rounds/receipts.h"
#include "core/rounds/result.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::rounds {
namespace {

// Can a message carry it? What cannot be told must not count.
bool IsUsable(double figure) { return std::fabs(figure) <= wire::kMaxFigure; }

// What a codec rounds by that does so stochastically: of each member's delta anew, so that the errors of many average
// out, and of the mean (no member) alike at everyone.
uint64_t RoundingSeed(const config::JobSpec& spec, RoundId round, std::optional<uint32_t> member) {
  return MixSeed(spec.train.seed, round.value, member ? uint64_t{*member} + 1 : 0);
}

absl::StatusOr<tensor::FlatBuffer> CopyOf(absl::Span<const float> values) {
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer copy, tensor::FlatBuffer::Zeros(values.size()));
  std::copy(values.begin(), values.end(), copy.data());
  return copy;
}

// θ and momentum after the outer step of one fragment; the others stay as they are. Where it is all of θ, that takes
// the mean's memory. `right`: where deltas go as factors, those of the next round.
absl::StatusOr<OuterStateDraft> StepFragment(const aggregate::OuterSgd& outer, const checkpoint::OuterState& state,
                                             const train::Fragments& fragments, uint64_t fragment,
                                             tensor::FlatBuffer mean, absl::Span<const float> right) {
  auto next = std::make_shared<checkpoint::OuterState>();
  const bool whole = fragments.count() == 1;
  absl::Span<const float> delta = mean.span();
  if (whole) {
    next->theta = std::move(mean);
    GDF_ASSIGN_OR_RETURN(next->momentum, tensor::FlatBuffer::Zeros(state.momentum.size()));
  } else {
    GDF_ASSIGN_OR_RETURN(next->theta, CopyOf(state.theta.span()));
    GDF_ASSIGN_OR_RETURN(next->momentum, CopyOf(state.momentum.span()));
  }
  const auto part = [&](auto values) { return values.empty() ? values : fragments.Slice(values, fragment); };
  const auto of_outer = [&](auto momentum) { return part(momentum.subspan(0, momentum.size() - right.size())); };
  GDF_RETURN_IF_ERROR(aggregate::OuterStep(outer, {part(state.theta.span()), delta, of_outer(state.momentum.span()),
                                                   part(next->theta.span()), of_outer(next->momentum.span())}));
  std::copy(right.begin(), right.end(), next->momentum.span().end() - static_cast<ptrdiff_t>(right.size()));
  next->id.round = state.id.round.next();
  if (whole) {
    checkpoint::Identify(*next);
  } else {
    checkpoint::IdentifyChange(*next, state, fragments.begin(fragment), fragments.size(fragment));
  }
  next->fragment = FragmentDigest(*next, fragments);
  return next;
}

absl::Status CheckPacked(const compress::Codec& codec, const train::EmitRequest& emit, const train::EmitResult& emitted) {
  const uint64_t expected = codec.PackedSize(emit.num_values);
  if (emitted.packed.size() == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the worker packed ", emitted.packed.size(), " bytes, expected ", expected));
}

}  // namespace

// Steps as DESIGN numbers them.
Task<absl::Status> RoundLead::RunRound() {
  const absl::Duration begin = Now();
  absl::StatusOr<Trained> trained = co_await Train();  // 1 to 6: θ_t → Δ → packed
  GDF_CO_RETURN_IF_ERROR(trained.status());
  absl::StatusOr<Combined> combined = co_await Exchange(*trained);  // 7, 9: exchange, mean, outer step in the shadow
  GDF_CO_RETURN_IF_ERROR(combined.status());
  Learn(*trained, *combined);
  const uint64_t fragment = Fragment();
  combined->receipt.next_codec = ChooseCodec();
  absl::StatusOr<wire::Commit> commit = co_await Sign(combined->receipt);  // a majority persists and signs
  GDF_CO_RETURN_IF_ERROR(commit.status());
  const absl::Status committed = co_await Commit(*commit);  // 10, 8: the shadow becomes θ_t+1, residuals are settled
  GDF_CO_RETURN_IF_ERROR(committed);
  member_.anomalies().Learn(fragment, trained->deltas, trained->left_out);
  Summarise(*trained, *combined, Now() - begin);
  co_return absl::OkStatus();
}

// --- Steps 1 to 6 on a member ---

void StepTotals::Add(const train::RunResult& ran) {
  steps += ran.steps;
  tokens += ran.tokens;
  loss += ran.mean_loss * static_cast<double>(ran.steps);
  compute += ran.compute;
}

Task<void> JobMember::Impl::Train(std::shared_ptr<Training> training, wire::RoundPlan plan) {
  AsyncLock::Hold hold = co_await worker_lock_.Acquire();
  activity_ = "training";
  const absl::Duration begun = env_.executor.clock().Monotonic();
  absl::Status status = co_await TrainSteps(*training, plan);
  training_time_ = env_.executor.clock().Monotonic() - begun;
  training->status = status;
  training->finished = true;
  activity_ = "waiting for the lead";
  for (const OneShot<bool>& waiter : training->waiters) waiter.Set(true);
  training->waiters.clear();
  if (status.ok() && training->report.refused.empty()) status = co_await TakeDelayedSteps(*training);
  if (!status.ok()) NodeFailed(status);
}

// The round's last steps, during its exchange. A worker that diverges in them gives up what it has beside θ.
Task<absl::Status> JobMember::Impl::TakeDelayedSteps(Training& training) {
  const config::RoundSteps& steps = training.steps;
  training.goes_on = steps.emit == steps.until;
  if (training.goes_on) co_return absl::OkStatus();
  train::RunRequest run;
  run.until_step = steps.until;
  absl::StatusOr<train::RunResult> ran = co_await RunWorker(std::move(run));
  if (absl::IsDataLoss(ran.status())) {
    Event(wire::Severity::kWarning,
          absl::StrCat("in the last steps of ", RoundName(training.round), ": ", ran.status().message()));
    co_return absl::OkStatus();
  }
  GDF_CO_RETURN_IF_ERROR(ran.status());
  training.goes_on = true;
  co_return absl::OkStatus();
}

Task<absl::StatusOr<train::RunResult>> JobMember::Impl::RunWorker(train::RunRequest run) {
  run.on_step = [this](const train::StepProgress& step) {
    step_ = step.step;
    loss_ = step.loss;
  };
  absl::StatusOr<train::RunResult> ran = co_await env_.worker.Run(std::move(run));
  worker_state_.reset();  // its parameters are no longer those of a state
  if (ran.ok()) unreported_.Add(*ran);
  co_return ran;
}

// An error is this node's: its worker is no more. A delta that must not be used is reported as refused.
Task<absl::Status> JobMember::Impl::TrainSteps(Training& training, wire::RoundPlan plan) {
  wire::RoundReport& report = training.report;
  if (training.round != state_->id.round || training.start_theta != state_->id.theta) {
    report.refused = "the round was committed before this node came to train";
    co_return absl::OkStatus();
  }
  const absl::Status applied = co_await ApplyToWorker();
  GDF_CO_RETURN_IF_ERROR(applied);
  train::RunRequest run;
  run.from_step = training.steps.from;
  run.until_step = training.steps.emit;
  // As far as everybody's data of this round goes: what a slower node does not come to is nobody else's either.
  run.claim_until_step = config::StepsOfRound(env_.spec, static_cast<int64_t>(plan.tag.round.value)).until;
  run.stream = train::DataStream{plan.member_index, plan.num_members, {plan.cursor.epoch, plan.cursor.position}};
  absl::StatusOr<train::RunResult> ran = co_await RunWorker(std::move(run));
  if (absl::IsDataLoss(ran.status())) {
    report.refused = std::string(ran.status().message().substr(0, wire::kMaxReasonBytes));
    report.at_fault = true;
    report.cursor = plan.cursor;
    co_return absl::OkStatus();
  }
  GDF_CO_RETURN_IF_ERROR(ran.status());
  const StepTotals totals = std::exchange(unreported_, {});
  const double mean_loss = totals.steps > 0 ? totals.loss / static_cast<double>(totals.steps) : 0;
  if (!IsUsable(mean_loss)) {
    report.refused = absl::StrCat("the mean loss ", mean_loss, " is not a usable number");
    report.at_fault = true;
    report.cursor = plan.cursor;
    co_return absl::OkStatus();
  }
  report.tokens = static_cast<uint64_t>(std::max<int64_t>(totals.tokens, 0));
  report.steps = static_cast<uint64_t>(std::max<int64_t>(totals.steps, 0));
  report.mean_loss = mean_loss;
  report.train_seconds = absl::ToDoubleSeconds(totals.compute);
  report.cursor = {ran->cursor.epoch, ran->cursor.position};

  const checkpoint::OuterStatePtr state = state_;
  train::EmitRequest emit = EmitOf(training);
  emit.rounding_seed = RoundingSeed(env_.spec, training.round, plan.member_index);
  if (low_rank_) {
    emit.num_values = low_rank_->num_left();
    emit.factors = {env_.spec.rounds.rank, false, RightFactors(*low_rank_, state->momentum.span())};
  }
  absl::StatusOr<train::EmitResult> emitted = co_await env_.worker.Emit(emit);
  if (absl::IsFailedPrecondition(emitted.status())) {
    report.refused = std::string(emitted.status().message().substr(0, wire::kMaxReasonBytes));
    report.at_fault = true;
    co_return absl::OkStatus();
  }
  GDF_CO_RETURN_IF_ERROR(emitted.status());
  unsettled_ = training.round;
  GDF_CO_RETURN_IF_ERROR(CheckPacked(*codecs_[training.codec], emit, *emitted));
  if (!IsUsable(emitted->norm)) {
    report.refused = absl::StrCat("the delta's norm ", emitted->norm, " is not a usable number");
    report.at_fault = true;
    co_return absl::OkStatus();
  }
  report.delta_norm = emitted->norm;
  report.compress_seconds = absl::ToDoubleSeconds(emitted->compute);
  Buffer packed = std::move(emitted->packed);
  auto hash = [packed] { return MerkleRoot(packed.span()); };
  report.packed = co_await RunOn(env_.pool, env_.executor, std::move(hash));
  training.packed = std::move(packed);
  co_return absl::OkStatus();
}

train::EmitRequest JobMember::Impl::EmitOf(const Training& training) const {
  train::EmitRequest emit;
  emit.round = training.round;
  emit.fragment = FragmentOf(training.round);
  emit.num_values = fragments_->size(emit.fragment);
  emit.codec = codecs_[training.codec]->spec();
  emit.beta = FeedbackOf(training);
  emit.max_norm = env_.spec.rounds.clip_delta_norm;
  return emit;
}

// Where late deltas are used, one that waits counts less with every round that has passed: λ^s (as FedAsync weighs staleness,
// Xie et al., arXiv:1903.03934).
float JobMember::Impl::FeedbackOf(const Training& training) const {
  const config::RoundsSpec& rounds = env_.spec.rounds;
  double beta = rounds.error_feedback ? rounds.error_feedback_beta : 0;
  const auto carried = carried_.find(FragmentOf(training.round));
  if (rounds.late.after > 0 && carried != carried_.end() && carried->second < training.round) {
    beta *= std::pow(rounds.late.weight, static_cast<double>(training.round.value - carried->second.value));
  }
  return static_cast<float>(beta);
}

Task<absl::Status> JobMember::Impl::SettleDelta(train::Settlement settlement) {
  const RoundId round = *std::exchange(unsettled_, std::nullopt);
  if (settlement == train::Settlement::kKept) {
    carried_[FragmentOf(round)] = round;
  } else {
    carried_.erase(FragmentOf(round));
  }
  co_return co_await env_.worker.Settle(round, settlement);
}

// Step 1: the worker starts from θ_t; what it emitted before was not applied.
Task<absl::Status> JobMember::Impl::ApplyToWorker() {
  if (unsettled_) {
    const absl::Status settled = co_await SettleDelta(train::Settlement::kKept);
    GDF_CO_RETURN_IF_ERROR(settled);
  }
  if (worker_state_ == state_->id) co_return absl::OkStatus();
  unreported_ = {};  // steps that are given up
  co_return co_await ApplyFragments(0, fragments_->count(), /*mixing=*/0);
}

Task<absl::Status> JobMember::Impl::ApplyFragments(uint64_t first, uint64_t count, double mixing) {
  checkpoint::OuterStatePtr state = state_;
  for (uint64_t fragment = first; fragment < first + count; ++fragment) {
    train::ApplyRequest apply{state->id.round, fragment, fragments_->Slice(state->theta.span(), fragment), mixing};
    const absl::Status applied = co_await env_.worker.Apply(std::move(apply));
    GDF_CO_RETURN_IF_ERROR(applied);
  }
  worker_state_ = state->id;
  co_return absl::OkStatus();
}

// --- Steps 7 and 9 ---

Task<absl::StatusOr<tensor::FlatBuffer>> JobMember::Impl::Exchange(wire::ExchangeStart start, Buffer packed,
                                                                   uint64_t num_values, wire::Prepared* prepared) {
  const Clock& clock = env_.executor.clock();
  const NodeId self = env_.transport.self();
  exchange::AllReduceRequest request;
  request.tag = start.tag;
  request.members = start.members;
  request.resumes = start.resumes;
  request.lost = start.lost;
  request.shares = start.shares;
  request.sites = start.sites;
  request.codec = codecs_[start.codec];
  request.num_params = num_values;
  request.rounding_seed = RoundingSeed(env_.spec, start.tag.round, std::nullopt);
  request.deadline = start.deadline;
  for (const wire::Contribution& c : start.members) {
    if (c.node == self && c.tokens > 0) request.packed = packed;
  }
  const absl::Duration begin = clock.Monotonic();
  ++exchanging_;
  const auto done = absl::MakeCleanup([this] { --exchanging_; });
  exchange::Outcome outcome = co_await exchange_.AllReduce(std::move(request));
  prepared->exchange_seconds = absl::ToDoubleSeconds(clock.Monotonic() - begin);
  prepared->payload_sent = outcome.payload_sent;
  prepared->payload_received = outcome.payload_received;
  prepared->lost = outcome.lost;
  prepared->link = outcome.link;
  prepared->aggregate_seconds += absl::ToDoubleSeconds(outcome.reduce);
  GDF_CO_RETURN_IF_ERROR(outcome.status);
  co_return std::move(outcome.mean);
}

Task<absl::StatusOr<OuterStateDraft>> JobMember::Impl::ExchangeAndStep(wire::ExchangeStart start,
                                                                       wire::Prepared* prepared) {
  const uint64_t fragment = FragmentOf(start.tag.round);
  const uint64_t seed = RoundingSeed(env_.spec, start.tag.round, std::nullopt);
  const uint64_t num_values = low_rank_ ? low_rank_->num_second() : fragments_->size(fragment);
  Buffer packed = training_ ? low_rank_ ? training_->second : training_->packed : Buffer();
  const std::shared_ptr<const tensor::FlatBuffer> left = low_rank_ ? first_pass_->mean : nullptr;
  absl::StatusOr<tensor::FlatBuffer> exchanged =
      co_await Exchange(std::move(start), std::move(packed), num_values, prepared);
  GDF_CO_RETURN_IF_ERROR(exchanged.status());
  auto mean = std::make_shared<tensor::FlatBuffer>(*std::move(exchanged));
  auto step = [state = state_, mean, outer = outer_, fragments = *fragments_, fragment, low_rank = low_rank_, left,
               seed]() -> absl::StatusOr<OuterStateDraft> {
    Expanded expanded;
    if (low_rank) {
      GDF_ASSIGN_OR_RETURN(expanded, Expand(*low_rank, left->span(), mean->span(), seed));
      *mean = std::move(expanded.mean);
    }
    return StepFragment(outer, *state, fragments, fragment, std::move(*mean), expanded.right.span());
  };
  const Clock& clock = env_.executor.clock();
  const absl::Duration stepping = clock.Monotonic();
  absl::StatusOr<OuterStateDraft> stepped = co_await RunOn(env_.pool, env_.executor, std::move(step));
  prepared->aggregate_seconds += absl::ToDoubleSeconds(clock.Monotonic() - stepping);
  co_return stepped;
}

// --- The first of two passes, where deltas go as factors, and what the worker makes of it for the second ---

Task<absl::Status> JobMember::Impl::FirstExchange(wire::ExchangeStart start, wire::Prepared* prepared) {
  Buffer packed = training_ ? training_->packed : Buffer();
  absl::StatusOr<tensor::FlatBuffer> exchanged =
      co_await Exchange(std::move(start), std::move(packed), low_rank_->num_left(), prepared);
  GDF_CO_RETURN_IF_ERROR(exchanged.status());
  auto mean = std::make_shared<const tensor::FlatBuffer>(*std::move(exchanged));
  auto hash = [mean] { return MerkleRoot(tensor::AsBytes(mean->span())); };
  prepared->result.theta = co_await RunOn(env_.pool, env_.executor, std::move(hash));
  prepared->result.round = prepared->tag.round;
  first_pass_ = FirstPass{*prepared, mean};
  co_return absl::OkStatus();
}

absl::Status JobMember::Impl::CheckFirstPass(const wire::ExchangeStart& start) const {
  if (!start.first_pass) return absl::OkStatus();
  if (!low_rank_) return absl::InvalidArgumentError("the job's rounds have one pass, and a second one was asked for");
  if (first_pass_ && first_pass_->reply.tag.round == start.tag.round &&
      first_pass_->reply.result.theta == *start.first_pass) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this node has no first pass of ", RoundName(start.tag.round), " with digest ", start.first_pass->Short()));
}

// An error of the worker is this node's; factors that must not be used are refused.
Task<absl::Status> JobMember::Impl::Project() {
  const std::shared_ptr<Training> training = training_;
  const FirstPass first = *first_pass_;
  if (training->first_pass == first.reply.result.theta) co_return absl::OkStatus();
  AsyncLock::Hold hold = co_await worker_lock_.Acquire();
  if (unsettled_ != training->round) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("the worker no longer holds the delta of ", RoundName(training->round)));
  }
  train::EmitRequest emit = EmitOf(*training);
  emit.num_values = low_rank_->num_second();
  emit.factors = {env_.spec.rounds.rank, true, first.mean->span(), RoundingSeed(env_.spec, training->round, std::nullopt)};
  absl::StatusOr<train::EmitResult> emitted = co_await env_.worker.Emit(emit);
  absl::Status status = emitted.status();
  if (status.ok()) status = CheckPacked(*codecs_[training->codec], emit, *emitted);
  if (!status.ok()) {
    if (!absl::IsFailedPrecondition(status)) NodeFailed(status);
    co_return status;
  }
  training->second = std::move(emitted->packed);
  training->first_pass = first.reply.result.theta;
  co_return absl::OkStatus();
}

Task<void> JobMember::Impl::IdentifyFragment(OuterStateDraft state) {
  auto hash = [state, fragments = *fragments_] { return FragmentDigest(*state, fragments); };
  state->fragment = co_await RunOn(env_.pool, env_.executor, std::move(hash));
}

// --- Persisting, step 10 and step 8 ---

void JobMember::Impl::TellSaved(std::string_view what, const absl::Status& saved, std::string failure) {
  const auto failing = unsaved_.find(what);
  if (!saved.ok()) {
    if (failing != unsaved_.end()) {
      ++failing->second;
      return;
    }
    unsaved_.emplace(what, 1);
    Event(wire::Severity::kError, absl::StrCat(failure, ": ", saved.message()));
  } else if (failing != unsaved_.end()) {
    Event(wire::Severity::kInfo, absl::StrCat("saves ", ToAbsl(what), " again, after ",
                                              Counted(failing->second, "failure")));
    unsaved_.erase(failing);
  }
}

bool JobMember::Impl::CheckpointDue(RoundId round) const {
  const uint64_t every = static_cast<uint64_t>(std::max<int64_t>(env_.spec.output.checkpoint_every, 1));
  return round.value % every == 0 || round.value == static_cast<uint64_t>(config::NumRounds(env_.spec)) ||
         config::KeepsCheckpoint(env_.spec, round.value);
}

Task<absl::Status> JobMember::Impl::OnStore(std::function<absl::Status(checkpoint::CheckpointStore&)> work) {
  AsyncLock::Hold hold = co_await store_lock_.Acquire();
  auto on_store = [store = env_.store, work = std::move(work)] { return work(*store); };
  co_return co_await RunOn(env_.pool, env_.executor, std::move(on_store));
}

Task<absl::StatusOr<uint32_t>> JobMember::Impl::ReserveAttempts(Epoch epoch, uint32_t after, uint32_t count) {
  auto first = std::make_shared<uint32_t>(0);
  auto reserve = [epoch, after, count, first](checkpoint::CheckpointStore& store) -> absl::Status {
    GDF_ASSIGN_OR_RETURN(*first, store.ReserveAttempts(epoch, after, count));
    return absl::OkStatus();
  };
  const absl::Status reserved = co_await OnStore(std::move(reserve));
  GDF_CO_RETURN_IF_ERROR(Annotate(reserved, "reserving attempts"));
  co_return *first;
}

Task<absl::Status> JobMember::Impl::PersistPrepared(wire::Receipt receipt) {
  shadow_->id.cursor = receipt.result.cursor;
  if (!CheckpointDue(receipt.result.round)) co_return absl::OkStatus();
  // After a restart only who has the round before as committed finds what was prepared.
  auto prepare = [shadow = shadow_, receipt, before = committed_unsaved_ ? state_ : nullptr,
                  commit = commit_](checkpoint::CheckpointStore& store) -> absl::Status {
    if (before) GDF_RETURN_IF_ERROR(store.Commit(*before, commit));
    return store.Prepare(*shadow, receipt);
  };
  const absl::Status saved = co_await OnStore(std::move(prepare));
  if (saved.ok()) committed_unsaved_ = false;
  TellSaved("results of rounds", saved,
            absl::StrCat("cannot save the result of ", RoundName(receipt.tag.round), " and so not sign it"));
  co_return saved;
}

Task<absl::Status> JobMember::Impl::PersistCommitted(checkpoint::OuterStatePtr state, std::optional<wire::Commit> commit) {
  auto save = [state, commit](checkpoint::CheckpointStore& store) { return store.Commit(*state, commit); };
  const absl::Status saved = co_await OnStore(std::move(save));
  committed_unsaved_ = !saved.ok();
  TellSaved("committed rounds", saved, absl::StrCat("cannot save round ", state->id.round.value, " as committed"));
  co_return saved;
}

Task<absl::Status> JobMember::Impl::SaveResult() {
  const absl::Duration begin = env_.executor.clock().Monotonic();
  while (committed_unsaved_) {
    const absl::Status saved = co_await PersistCommitted(state_, commit_);
    const bool gives_up = env_.executor.clock().Monotonic() - begin >= env_.timings.majority;
    if (!saved.ok() && gives_up) co_return Annotate(saved, "saving the result");
    if (!saved.ok()) co_await Sleep(env_.executor, env_.timings.retry);
  }
  co_return absl::OkStatus();
}

// What became of its delta, as far as the commit of state_ says. Where that is of a later round, nothing here says whether
// one before used what it was offered: to count it once too few is borne, and twice would be wrong.
train::Settlement JobMember::Impl::SettlementOf(const Training& training) const {
  const wire::Receipt* receipt = commit_ ? &commit_->receipt : nullptr;
  if (receipt && training.IsOf(*receipt) && receipt->Contributed(env_.transport.self())) return train::Settlement::kApplied;
  if (training.left_out) return train::Settlement::kGivenUp;
  const bool passed = receipt && training.round < receipt->tag.round;
  return passed && training.offered ? train::Settlement::kApplied : train::Settlement::kKept;
}

// After every change of state_, however it came here: this node's delta is in it, or stays in the worker's residual.
void JobMember::Impl::SettleTraining() {
  std::shared_ptr<const Training> training = std::exchange(training_, nullptr);
  const train::Settlement settlement = training ? SettlementOf(*training) : train::Settlement::kKept;
  scope_.Spawn(SettleWorker(std::move(training), settlement));
}

// Step 8, then the worker takes the state: the round's fragment where it has come with the round to its end, and all of θ
// where it has not.
Task<void> JobMember::Impl::SettleWorker(std::shared_ptr<const Training> training, train::Settlement settlement) {
  AsyncLock::Hold hold = co_await worker_lock_.Acquire();
  absl::Status status = absl::OkStatus();
  if (training && unsettled_ == training->round) status = co_await SettleDelta(settlement);
  const bool goes_on = training && training->goes_on && commit_ && training->IsOf(commit_->receipt);
  if (status.ok() && goes_on) {
    status = co_await ApplyFragments(FragmentOf(training->round), 1, env_.spec.rounds.mixing);
  }
  if (status.ok()) status = co_await ApplyToWorker();
  const wire::StateId now = worker_state_.value_or(wire::StateId{});
  if (status.ok() && CheckpointDue(now.round)) status = co_await SaveWorker(now.round);
  if (!status.ok()) {
    NodeFailed(status);
  } else if (env_.on_settled) {
    env_.on_settled();
  }
}

// The inner state goes from the worker to the disk piece by piece. Without it a restart begins it anew, so that an
// error of the disk is told and no more.
Task<absl::Status> JobMember::Impl::SaveWorker(RoundId round) {
  auto saving = std::make_shared<SavedWorker>();
  auto begin = [saving, round](checkpoint::CheckpointStore& store) -> absl::Status {
    GDF_ASSIGN_OR_RETURN(saving->record, store.SaveWorker(round));
    return absl::OkStatus();
  };
  saving->disk = co_await OnStore(std::move(begin));
  absl::Status given;
  if (saving->disk.ok()) {
    train::StateSink sink = [this, saving](Buffer piece) { return WriteSaved(saving, std::move(piece)); };
    given = co_await env_.worker.Save(std::move(sink));
  }
  if (saving->disk.ok() && given.ok()) {
    auto commit = [saving](checkpoint::CheckpointStore&) { return saving->record->Commit(); };
    saving->disk = co_await OnStore(std::move(commit));
  }
  TellSaved("inner states", saving->disk, absl::StrCat("cannot save the inner state of round ", round.value));
  co_return saving->disk.ok() ? given : absl::OkStatus();
}

Task<absl::Status> JobMember::Impl::WriteSaved(std::shared_ptr<SavedWorker> saving, Buffer piece) {
  auto append = [saving, piece](checkpoint::CheckpointStore&) { return saving->record->Append(piece.span()); };
  saving->disk = co_await OnStore(std::move(append));
  co_return saving->disk;
}

Task<absl::StatusOr<Buffer>> JobMember::Impl::ReadSaved(std::shared_ptr<const checkpoint::RecordFile> record,
                                                        uint64_t offset, uint64_t bytes) {
  auto read = [record, offset, bytes]() -> absl::StatusOr<Buffer> {
    std::vector<uint8_t> piece(bytes);
    GDF_RETURN_IF_ERROR(record->ReadAt(offset, absl::MakeSpan(piece)));
    return Buffer(std::move(piece));
  };
  co_return co_await RunOn(env_.pool, env_.executor, std::move(read));
}

OneShot<absl::StatusOr<train::EvalResult>> JobMember::Impl::Evaluate() {
  OneShot<absl::StatusOr<train::EvalResult>> done(env_.executor);
  struct Body {
    static Task<void> Run(Impl* member, OneShot<absl::StatusOr<train::EvalResult>> done) {
      AsyncLock::Hold hold = co_await member->worker_lock_.Acquire();
      absl::StatusOr<train::EvalResult> result =
          co_await member->env_.worker.Evaluate(member->env_.spec.rounds.validate_batches);
      done.Set(std::move(result));
    }
  };
  scope_.Spawn(Body::Run(this, done));
  return done;
}

void JobMember::Impl::ReadTraffic() {
  for (const NodeId& node : known_->members) traffic_.Read(node, env_.transport.counters(node));
}

wire::RoundReply JobMember::Impl::TrafficReply() {
  ReadTraffic();
  const net::TrafficCounters passed = traffic_.Take();
  return wire::RoundReply(wire::Done{passed.bytes_sent, passed.bytes_received});
}

}  // namespace gdf::rounds
