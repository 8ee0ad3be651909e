#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/rounds/member.h"
#include "core/rounds/receipts.h"
#include "core/rounds/result.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

// Of an exchange, for its Prepared: never empty.
std::string FailureOf(const absl::Status& status) {
  return status.message().empty() ? "the exchange failed" : std::string(status.message());
}

}  // namespace

Task<absl::StatusOr<Buffer>> JobMember::Impl::HandleCall(NodeId peer, Buffer request) {
  absl::StatusOr<wire::RoundRequest> decoded = wire::DecodeRoundRequest(request.span());
  GDF_CO_RETURN_IF_ERROR(Annotate(decoded.status(), absl::StrCat("from node ", peer.Short())));
  Reply reply = co_await Handle(peer, *std::move(decoded));
  GDF_CO_RETURN_IF_ERROR(reply.status());
  co_return wire::EncodeRoundReply(*reply);
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::CallLocal(wire::RoundRequest request) {
  OneShot<Reply> done(env_.executor);
  struct Body {
    static Task<void> Run(Impl* member, wire::RoundRequest request, OneShot<Reply> done) {
      Reply reply = co_await member->Handle(member->env_.transport.self(), std::move(request));
      done.Set(std::move(reply));
    }
  };
  scope_.Spawn(Body::Run(this, std::move(request), done));
  Reply reply = co_await done.Wait();
  co_return reply;
}

absl::Status JobMember::Impl::Admit(const NodeId& from, const wire::RoundRequest& request) const {
  const wire::RoundTag tag = wire::TagOf(request);
  if (tag.job != env_.job) {
    return absl::InvalidArgumentError(absl::StrCat("a request of ", ToString(tag.job), " came to ", ToString(env_.job)));
  }
  if (ended_) return absl::FailedPreconditionError(absl::StrCat(ToString(env_.job), " has ended on this node"));
  if (!known_ || known_->epoch < tag.epoch) {
    return absl::UnavailableError(absl::StrCat("epoch ", tag.epoch.value, " is not known here yet"));
  }
  if (tag.epoch < known_->epoch) {
    return absl::AbortedError(absl::StrCat("epoch ", tag.epoch.value, " is over; now is epoch ", known_->epoch.value));
  }
  if (from != known_->lead) {
    return absl::PermissionDeniedError(absl::StrCat("node ", from.Short(), " is not the lead of epoch ",
                                                    known_->epoch.value));
  }
  if (const auto* enter = std::get_if<wire::Enter>(&request)) {
    if (enter->epoch != *known_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the lead's epoch ", tag.epoch.value, " is not the one that the coordinators opened"));
    }
  } else if (!entered_ || *entered_ != *known_) {
    return absl::FailedPreconditionError(absl::StrCat("epoch ", tag.epoch.value, " was not entered here"));
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::Handle(NodeId from, wire::RoundRequest request) {
  GDF_CO_RETURN_IF_ERROR(Admit(from, request));
  last_heard_ = env_.executor.clock().Monotonic();
  heard_in_epoch_ = true;
  Reply reply = absl::InternalError("unhandled request");
  if (auto* enter = std::get_if<wire::Enter>(&request)) {
    reply = co_await OnEnter(std::move(*enter));
  } else if (auto* sync = std::get_if<wire::SyncState>(&request)) {
    reply = co_await OnSync(std::move(*sync));
  } else if (auto* plan = std::get_if<wire::RoundPlan>(&request)) {
    reply = co_await OnPlan(std::move(*plan));
  } else if (auto* start = std::get_if<wire::ExchangeStart>(&request)) {
    reply = co_await OnExchange(std::move(*start));
  } else if (auto* propose = std::get_if<wire::Propose>(&request)) {
    reply = co_await OnPropose(std::move(propose->receipt));
  } else if (auto* commit = std::get_if<wire::CommitRound>(&request)) {
    reply = co_await OnCommit(std::move(*commit));
  } else if (auto* abort = std::get_if<wire::Abort>(&request)) {
    reply = OnAbort(*abort);
  } else if (auto* end = std::get_if<wire::EndJob>(&request)) {
    reply = OnEnd(*end);
  }
  co_return reply;
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnEnter(wire::Enter enter) {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  if (!entered_ || *entered_ != enter.epoch) {
    // An epoch whose lead never began to train has not taken over from the one before it.
    const std::optional<wire::EpochRecord> previous = previous_ ? previous_ : entered_;
    auto save = [record = enter.epoch, previous](checkpoint::CheckpointStore& store) {
      return store.SaveEpoch(record, previous);
    };
    const absl::Status saved = co_await OnStore(std::move(save));
    TellSaved("epochs", saved, absl::StrCat("cannot record epoch ", enter.epoch.epoch.value));
    GDF_CO_RETURN_IF_ERROR(saved);
    previous_ = previous;
    entered_ = enter.epoch;
    last_attempt_ = 0;
  }
  activity_ = "entered the epoch";
  wire::EnterReply reply;
  reply.committed = state_->id;
  reply.commit = commit_;
  if (prepared_) reply.prepared = prepared_;
  reply.previous = previous_;
  reply.num_params = env_.loaded.layout.num_params();
  reply.last_attempt = last_attempt_;
  co_return wire::RoundReply(std::move(reply));
}

absl::Status JobMember::Impl::CheckCommit(const wire::Commit& commit) const {
  absl::StatusOr<std::vector<NodeId>> members = env_.coordinator.MembersOf(env_.job, commit.receipt.tag.epoch);
  GDF_RETURN_IF_ERROR(Annotate(members.status(), "a commit"));
  GDF_RETURN_IF_ERROR(CheckCodec(commit.receipt.next_codec));
  return VerifyCommit(commit, env_.job, env_.submission, *members);
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnSync(wire::SyncState sync) {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  if (sync.install && state_->id == sync.target) {
    if (!sync.verify) co_return wire::RoundReply(wire::Done{});
    co_return co_await VerifyState(std::move(sync));
  }
  if (!sync.install && sync.target.round != state_->id.round.next()) {
    co_return absl::FailedPreconditionError(absl::StrCat("round ", sync.target.round.value, " does not follow round ",
                                                         state_->id.round.value));
  }
  if (sync.commit) {
    GDF_CO_RETURN_IF_ERROR(CheckCommit(*sync.commit));
    if (!(sync.commit->receipt.result == sync.target)) {
      co_return absl::InvalidArgumentError("the commit is not of the state to be fetched");
    }
  } else if (sync.install && sync.target.round.value != 0) {
    co_return absl::InvalidArgumentError(
        absl::StrCat("round ", sync.target.round.value, " comes without its commit"));
  }
  // A lead that does not know of this node's state asks again once it does.
  if (sync.install && Rank(sync.commit) < Rank(commit_)) {
    co_return absl::FailedPreconditionError(absl::StrCat("round ", sync.target.round.value, " comes before round ",
                                                         state_->id.round.value, ", which is committed here"));
  }
  activity_ = absl::StrCat("fetching round ", sync.target.round.value);
  OuterStateDraft fetched = shadow_;
  const bool held = shadow_ && shadow_->id.round == sync.target.round && shadow_->id.theta == sync.target.theta &&
                    shadow_->id.momentum == sync.target.momentum;
  if (!held) {
    absl::StatusOr<OuterStateDraft> state = co_await FetchState(env_, sync.target, num_momentum(), sync.sources);
    GDF_CO_RETURN_IF_ERROR(state.status());
    fetched = *std::move(state);
    shadow_tag_ = {};
    prepared_.reset();
  }
  fetched->id = sync.target;
  if (!sync.install) {
    if (!held) co_await IdentifyFragment(fetched);
    shadow_ = std::move(fetched);
    co_return wire::RoundReply(wire::Done{});
  }
  if (sync.target.round < state_->id.round) {
    Event(wire::Severity::kWarning, absl::StrCat("rolled back from round ", state_->id.round.value, " to round ",
                                                 sync.target.round.value));
  }
  // On the disk first: what this node shows as committed it still has after a crash.
  const absl::Status persisted = co_await PersistCommitted(fetched, sync.commit);
  GDF_CO_RETURN_IF_ERROR(persisted);
  state_ = std::move(fetched);
  commit_ = std::move(sync.commit);
  shadow_.reset();
  prepared_.reset();
  first_pass_.reset();
  if (training_) SettleTraining();
  co_return wire::RoundReply(wire::Done{});
}

// Memory may have changed what its digests were computed of. What follows from it is given up; what was signed has digests of
// its own.
Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::VerifyState(wire::SyncState sync) {
  activity_ = "checking its parameters";
  auto verify = [state = state_] { return checkpoint::VerifyDigests(*state); };
  const absl::Status intact = co_await RunOn(env_.pool, env_.executor, std::move(verify));
  if (intact.ok()) co_return wire::RoundReply(wire::Done{});
  Event(wire::Severity::kError, absl::StrCat("the state of round ", state_->id.round.value, " is damaged in this node's memory (",
                                             intact.message(), "): it is fetched again"));
  absl::StatusOr<OuterStateDraft> fetched = co_await FetchState(env_, sync.target, num_momentum(), std::move(sync.sources));
  GDF_CO_RETURN_IF_ERROR(fetched.status());
  state_ = *std::move(fetched);
  worker_state_.reset();
  first_pass_.reset();
  if (training_) training_->left_out = true;
  SettleTraining();
  co_return wire::RoundReply(wire::Done{});
}

absl::Status JobMember::Impl::CheckPlan(const wire::RoundPlan& plan) const {
  if (plan.tag.round != state_->id.round || plan.start_theta != state_->id.theta) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the plan starts from round ", plan.tag.round.value, " digest ", plan.start_theta.Short(), ", here is round ",
        state_->id.round.value, " digest ", state_->id.theta.Short()));
  }
  const int64_t round = static_cast<int64_t>(plan.tag.round.value);
  const config::RoundSteps steps = config::StepsOfRound(env_.spec, round);
  const bool by_speed = env_.spec.rounds.steps_by_speed || env_.spec.rounds.late.after > 0;
  const bool fewer = by_speed && plan.from_step < plan.until_step && plan.until_step < static_cast<uint64_t>(steps.until);
  if (round >= config::NumRounds(env_.spec) || plan.from_step != static_cast<uint64_t>(steps.from) ||
      (plan.until_step != static_cast<uint64_t>(steps.until) && !fewer)) {
    return absl::InvalidArgumentError(absl::StrCat("the plan's steps ", plan.from_step, " to ", plan.until_step,
                                                   " are not those of round ", round, " of the job"));
  }
  return CheckCodec(plan.codec);
}

absl::Status JobMember::Impl::CheckCodec(uint32_t index) const {
  if (index < codecs_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the job has ", codecs_.size(), " codecs, no codec ", index));
}

// A plan says that the lead has brought a majority to one state.
Task<void> JobMember::Impl::Establish() {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  if (!previous_) co_return;
  previous_.reset();
  auto forget = [](checkpoint::CheckpointStore& store) { return store.ForgetPrevious(); };
  const absl::Status forgotten = co_await OnStore(std::move(forget));
  forgotten.IgnoreError();  // kept too long it only makes a later lead wait
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnPlan(wire::RoundPlan plan) {
  GDF_CO_RETURN_IF_ERROR(CheckPlan(plan));
  co_await Establish();
  const bool known = training_ && training_->round == plan.tag.round && training_->start_theta == plan.start_theta &&
                     training_->codec == plan.codec &&
                     (!training_->finished || training_->status.ok());
  if (!known) {
    training_ = std::make_shared<Training>();
    training_->round = plan.tag.round;
    training_->start_theta = plan.start_theta;
    training_->steps = config::FirstOf(config::StepsOfRound(env_.spec, static_cast<int64_t>(plan.tag.round.value)),
                                       static_cast<int64_t>(plan.until_step - plan.from_step));
    training_->codec = plan.codec;
    training_->begun = env_.executor.clock().Monotonic();
    scope_.Spawn(Train(training_, plan));
  }
  std::shared_ptr<Training> training = training_;
  if (!training->finished) {
    OneShot<bool> finished(env_.executor);
    training->waiters.push_back(finished);
    co_await finished.Wait();
  }
  GDF_CO_RETURN_IF_ERROR(training->status);
  wire::RoundReport report = training->report;
  report.tag = plan.tag;
  co_return wire::RoundReply(std::move(report));
}

// What an earlier attempt came to binds nobody before this node has signed it: its memory is this attempt's.
Task<void> JobMember::Impl::DropUnsignedShadow() {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  if (!prepared_) shadow_.reset();
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnExchange(wire::ExchangeStart start) {
  if (start.tag.attempt > last_attempt_) exchange_.Cancel(absl::StrCat("superseded by ", start.tag.ToString()));
  AsyncLock::Hold hold = co_await exchange_lock_.Acquire();
  if (shadow_ && shadow_tag_ == start.tag) co_return wire::RoundReply(shadow_reply_);
  if (first_pass_ && first_pass_->reply.tag == start.tag) co_return wire::RoundReply(first_pass_->reply);
  if (start.tag.attempt > last_attempt_) co_await DropUnsignedShadow();
  if (start.tag.round != state_->id.round || start.tag.epoch != known_->epoch || start.tag.attempt < last_attempt_) {
    co_return absl::AbortedError(absl::StrCat("the exchange of ", start.tag.ToString(), " is superseded"));
  }
  const NodeId self = env_.transport.self();
  const auto me = std::find_if(start.members.begin(), start.members.end(),
                               [&](const wire::Contribution& c) { return c.node == self; });
  if (me == start.members.end()) co_return absl::InvalidArgumentError("the exchange does not name this node");
  GDF_CO_RETURN_IF_ERROR(CheckCodec(start.codec));
  GDF_CO_RETURN_IF_ERROR(CheckFirstPass(start));
  const bool trained = training_ && training_->finished && training_->status.ok() &&
                       training_->round == start.tag.round && training_->start_theta == state_->id.theta &&
                       training_->codec == start.codec && training_->report.refused.empty();
  if (me->tokens > 0 && (!trained || training_->report.tokens != me->tokens)) {
    co_return absl::FailedPreconditionError(absl::StrCat("this node holds no delta of ", me->tokens, " tokens for round ",
                                                         start.tag.round.value));
  }
  if (training_) training_->left_out = std::find(start.left_out.begin(), start.left_out.end(), self) != start.left_out.end();
  last_attempt_ = start.tag.attempt;
  activity_ = "exchange";
  wire::Prepared prepared;
  prepared.tag = start.tag;
  if (low_rank_ && !start.first_pass) {
    const absl::Status exchanged = co_await FirstExchange(std::move(start), &prepared);
    if (!exchanged.ok()) prepared.failure = FailureOf(exchanged);
    co_return wire::RoundReply(std::move(prepared));
  }
  if (low_rank_ && me->tokens > 0) {
    const absl::Duration begin = env_.executor.clock().Monotonic();
    const absl::Status projected = co_await Project();
    GDF_CO_RETURN_IF_ERROR(projected);
    const absl::Duration took = env_.executor.clock().Monotonic() - begin;
    start.deadline -= took;
    prepared.aggregate_seconds = absl::ToDoubleSeconds(took);
  }
  if (trained) training_->offered |= me->tokens > 0;
  std::vector<wire::Contribution> contributions = wire::Contributing(start.members);
  const uint32_t codec = start.codec;
  absl::StatusOr<OuterStateDraft> shadow = co_await ExchangeAndStep(std::move(start), &prepared);
  if (!shadow.ok()) {
    prepared.failure = FailureOf(shadow.status());
    co_return wire::RoundReply(std::move(prepared));
  }
  AsyncLock::Hold state_hold = co_await state_lock_.Acquire();
  if (prepared.tag.round != state_->id.round || prepared.tag.epoch != known_->epoch ||
      prepared.tag.attempt != last_attempt_) {
    co_return absl::AbortedError(absl::StrCat("the exchange of ", prepared.tag.ToString(), " is superseded"));
  }
  shadow_ = *std::move(shadow);
  shadow_tag_ = prepared.tag;
  shadow_contributions_ = std::move(contributions);
  shadow_codec_ = codec;
  prepared_.reset();
  prepared.result = shadow_->id;
  prepared.fragment = shadow_->fragment;
  shadow_reply_ = prepared;
  co_return wire::RoundReply(std::move(prepared));
}

absl::Status JobMember::Impl::CheckReceipt(const wire::Receipt& receipt) const {
  if (receipt.voters != entered_->members) {
    return absl::InvalidArgumentError("the receipt's voters are not the epoch's members");
  }
  if (receipt.tag.round != state_->id.round || receipt.start_theta != state_->id.theta) {
    return absl::FailedPreconditionError(absl::StrCat("the receipt is of round ", receipt.tag.round.value,
                                                      ", here is round ", state_->id.round.value));
  }
  if (!shadow_ || shadow_->id.round != receipt.result.round) {
    return absl::FailedPreconditionError(absl::StrCat("this node has no result of ", RoundName(receipt.tag.round)));
  }
  const Result here{shadow_->id, shadow_->fragment}, named{receipt.result, receipt.fragment};
  if (here != named) {
    return absl::FailedPreconditionError(
        absl::StrCat("this node's result of ", RoundName(receipt.tag.round), " is not the receipt's: they differ in ",
                     Difference(here, named, env_.spec.rounds.fragments)));
  }
  GDF_RETURN_IF_ERROR(CheckCodec(receipt.next_codec));
  // Another lead may finish a round under its own tag; whoever signed it first has checked it here.
  if (receipt.tag == shadow_tag_ && receipt.contributions != shadow_contributions_) {
    return absl::InvalidArgumentError(absl::StrCat("the receipt of ", receipt.tag.ToString(),
                                                   " names other contributions than its exchange had"));
  }
  if (receipt.tag == shadow_tag_ && receipt.codec != shadow_codec_) {
    return absl::InvalidArgumentError(absl::StrCat("the receipt of ", receipt.tag.ToString(),
                                                   " names another codec than its exchange had"));
  }
  for (const wire::Contribution& c : receipt.contributions) {
    const bool mine = c.node == env_.transport.self() && c.tokens > 0;
    if (mine && training_ && training_->finished && training_->round == receipt.tag.round &&
        training_->report.tokens != c.tokens) {
      return absl::InvalidArgumentError(absl::StrCat("the receipt says that this node trained on ", c.tokens,
                                                     " tokens; it was ", training_->report.tokens));
    }
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnPropose(wire::Receipt receipt) {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  GDF_CO_RETURN_IF_ERROR(Admit(known_->lead, wire::Propose{receipt}));
  GDF_CO_RETURN_IF_ERROR(CheckReceipt(receipt));
  exchange_.Forget();  // the lead has its result
  activity_ = "signing";
  const absl::Status persisted = co_await PersistPrepared(receipt);
  GDF_CO_RETURN_IF_ERROR(persisted);
  prepared_ = receipt;
  co_return wire::RoundReply(wire::Signed{SignReceipt(env_.key, env_.submission, receipt)});
}

Task<absl::StatusOr<wire::RoundReply>> JobMember::Impl::OnCommit(wire::CommitRound commit) {
  AsyncLock::Hold hold = co_await state_lock_.Acquire();
  const wire::Receipt& receipt = commit.commit.receipt;
  if (state_->id == receipt.result) co_return TrafficReply();
  GDF_CO_RETURN_IF_ERROR(Admit(known_->lead, commit));
  if (receipt.tag.epoch != commit.tag.epoch) co_return absl::InvalidArgumentError("the commit is of another epoch");
  GDF_CO_RETURN_IF_ERROR(CheckCommit(commit.commit));
  GDF_CO_RETURN_IF_ERROR(CheckReceipt(receipt));
  activity_ = "committing";
  shadow_->id.cursor = receipt.result.cursor;
  exchange_.Forget();
  state_ = std::exchange(shadow_, nullptr);
  prepared_.reset();
  first_pass_.reset();
  commit_ = std::move(commit.commit);
  SettleTraining();
  if (CheckpointDue(state_->id.round)) {
    // It is committed whatever this disk says, and the prepared state is on it.
    const absl::Status persisted = co_await PersistCommitted(state_, commit_);
    persisted.IgnoreError();
  }
  co_return TrafficReply();
}

absl::StatusOr<wire::RoundReply> JobMember::Impl::OnAbort(const wire::Abort& abort) {
  if (abort.lost.empty()) {
    if (abort.tag.attempt >= last_attempt_) exchange_.Cancel(abort.reason);
    return wire::RoundReply(wire::Done{});
  }
  if (abort.tag.attempt > last_attempt_) {
    return absl::UnavailableError(
        absl::StrCat("the exchange of ", abort.tag.ToString(), " has not begun here"));
  }
  for (const NodeId& node : abort.lost) exchange_.Lose(abort.tag, node, abort.reason);
  return wire::RoundReply(wire::Done{});
}

absl::StatusOr<wire::RoundReply> JobMember::Impl::OnEnd(const wire::EndJob& end) {
  if (end.failure.empty() && state_->id.round.value != static_cast<uint64_t>(config::NumRounds(env_.spec))) {
    return absl::FailedPreconditionError(absl::StrCat("the job cannot be complete: here is round ",
                                                      state_->id.round.value, " of ", config::NumRounds(env_.spec)));
  }
  struct Later {  // after the reply, since whoever waits for the end may stop serving
    static Task<void> Run(Impl* member, std::string failure) {
      co_await Sleep(member->env_.executor, member->env_.timings.retry);
      absl::Status end = absl::FailedPreconditionError(failure);
      if (failure.empty()) end = co_await member->SaveResult();
      member->End(std::move(end));
    }
  };
  scope_.Spawn(Later::Run(this, end.failure));
  return wire::RoundReply(wire::Done{});
}

}  // namespace gdf::rounds
