#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/rounds/factors.h"
#include "core/rounds/member.h"
#include "core/rounds/receipts.h"
#include "core/rounds/round_lead.h"

namespace gdf::rounds {
namespace {

constexpr int kMaxGiven = 8;  // fetches of this node's state at a time: the others go on elsewhere, or ask again
constexpr int kMaxGivenPerPeer = 2;

aggregate::OuterSgd OuterOf(const config::OuterSpec& spec) {
  aggregate::OuterSgd out;
  out.learning_rate = static_cast<float>(spec.lr);
  out.momentum = static_cast<float>(spec.momentum);
  out.nesterov = spec.optimizer == config::OuterOptimizer::kNesterov;
  return out;
}

std::shared_ptr<const compress::LowRank> LowRankOf(const RoundEnv& env) {
  if (env.spec.rounds.rank == 0) return nullptr;
  absl::StatusOr<compress::LowRank> low_rank = compress::LowRank::Create(env.loaded.layout, env.spec.rounds.rank);
  GDF_CHECK(low_rank.ok());  // job.yaml's ranks are within bounds
  return std::make_shared<const compress::LowRank>(*std::move(low_rank));
}

}  // namespace

JobMember::JobMember(RoundEnv env) : impl_(std::make_unique<Impl>(std::move(env))) {}
JobMember::~JobMember() = default;
Task<absl::Status> JobMember::Start() { return impl_->Start(); }
void JobMember::SetEpoch(wire::EpochRecord record) { impl_->SetEpoch(std::move(record)); }
Task<absl::Status> JobMember::WaitForEnd() { return impl_->WaitForEnd(); }
checkpoint::OuterStatePtr JobMember::state() const { return impl_->state(); }
const std::optional<wire::Commit>& JobMember::commit() const { return impl_->commit(); }
JobProgress JobMember::progress() const { return impl_->progress(); }
std::string JobMember::Method(JobId job) { return absl::StrCat("gdf.round/", ToString(job)); }
std::string JobMember::StateMethod(JobId job) { return absl::StrCat("gdf.state/", ToString(job)); }

JobMember::Impl::Impl(RoundEnv env)
    : env_(std::move(env)),
      low_rank_(LowRankOf(env_)),
      outer_(OuterOf(env_.spec.rounds.outer)),
      exchange_({env_.executor, env_.pool, env_.transport, env_.job}),
      tuner_(env_.spec.rounds.codecs, low_rank_ ? low_rank_->num_second() : env_.loaded.layout.num_params()),
      anomalies_(env_.spec.rounds.anomalies),
      end_(env_.executor),
      state_lock_(env_.executor),
      exchange_lock_(env_.executor),
      store_lock_(env_.executor),
      worker_lock_(env_.executor),
      scope_(env_.executor) {}

JobMember::Impl::~Impl() {
  calls_.Reset();
  states_.Reset();
  lead_scope_.reset();
  scope_.Clear();
}

JobProgress JobMember::Impl::progress() const {
  JobProgress out;
  if (entered_) out.epoch = entered_->epoch;
  out.lead = lead_ != nullptr;
  if (state_) out.round = state_->id.round;
  out.activity = activity_;
  out.step = step_;
  out.loss = loss_;
  return out;
}

Task<absl::Status> JobMember::Impl::Start() {
  GDF_CO_RETURN_IF_ERROR(Annotate(outer_.Validate(), "rounds.outer"));
  for (const config::CodecSpec& spec : env_.spec.rounds.codecs) {
    GDF_CO_ASSIGN_OR_RETURN(std::unique_ptr<compress::Codec> codec, compress::Codec::Create(spec));
    codecs_.push_back(std::move(codec));
  }
  absl::StatusOr<train::Fragments> fragments = train::Fragments::Create(
      env_.loaded.layout.num_params(), static_cast<uint64_t>(env_.spec.rounds.fragments));
  GDF_CO_RETURN_IF_ERROR(Annotate(fragments.status(), "rounds.fragments"));
  fragments_ = *fragments;
  const absl::Status restored = co_await Restore();
  GDF_CO_RETURN_IF_ERROR(restored);
  last_heard_ = env_.executor.clock().Monotonic();
  Serve();
  scope_.Spawn(WatchLead());
  activity_ = "waiting for the lead";
  co_return absl::OkStatus();
}

Task<absl::Status> JobMember::Impl::Restore() {
  absl::StatusOr<checkpoint::Loaded> loaded = co_await LoadOwn();
  GDF_CO_RETURN_IF_ERROR(loaded.status());
  entered_ = std::move(loaded->epoch);
  previous_ = std::move(loaded->previous);
  if (loaded->committed == nullptr) {
    const absl::Status initial = co_await TakeInitialState();
    co_return initial;
  }
  state_ = std::move(loaded->committed);
  if (state_->id.round.value > 0) {
    Event(wire::Severity::kInfo, absl::StrCat("goes on from the checkpoint of round ", state_->id.round.value));
  }
  commit_ = std::move(loaded->commit);
  if (loaded->prepared) {
    shadow_ = std::move(loaded->shadow);
    prepared_ = std::move(loaded->prepared);
    co_await IdentifyFragment(shadow_);
    prepared_->fragment = shadow_->fragment;  // receipts of earlier releases name none
  }
  if (loaded->worker) {
    train::StateSource source = [this, record = loaded->worker](uint64_t offset, uint64_t bytes) {
      return ReadSaved(record, offset, bytes);
    };
    const absl::Status restored = co_await env_.worker.Restore(loaded->worker->size(), std::move(source));
    if (!restored.ok()) {
      Event(wire::Severity::kWarning,
            absl::StrCat("the worker's inner state could not be put back, it begins anew: ", restored.message()));
    }
  }
  if (state_->id.round.value > 0 && (!loaded->worker || loaded->worker_round != state_->id.round)) {
    Event(wire::Severity::kWarning,
          absl::StrCat("inner optimiser state of round ", state_->id.round.value, " is lost; ",
                       loaded->worker ? absl::StrCat("that of round ", loaded->worker_round.value, " is used")
                                      : std::string("it begins anew")));
  }
  co_return absl::OkStatus();
}

// The newest state in this node's folder that is this job's. A file of another job with the same number is whole, so only
// its commit and its epoch tell; whoever held on to it would never be let into an epoch. Of such a folder nothing else is
// believed.
Task<absl::StatusOr<checkpoint::Loaded>> JobMember::Impl::LoadOwn() {
  std::optional<RoundId> before;
  std::set<std::string> told;
  while (true) {
    auto load = [store = env_.store, before] {
      store->RemoveLeftovers();
      return store->Load(before);
    };
    absl::StatusOr<checkpoint::Loaded> loaded = co_await RunOn(env_.pool, env_.executor, std::move(load));
    GDF_CO_RETURN_IF_ERROR(loaded.status());
    for (const std::string& damage : loaded->damage) {
      if (told.insert(damage).second) {
        Event(wire::Severity::kError, absl::StrCat("passed over a damaged checkpoint file: ", damage));
      }
    }
    const absl::Status own = CheckOwn(*loaded);
    if (!own.ok()) {
      before = loaded->committed->id.round;
      Event(wire::Severity::kError, absl::StrCat("passed over the checkpoint of round ", before->value,
                                                 ", which is not this job's: ", own.message()));
      continue;
    }
    const bool foreign = before.has_value() ||
                         (loaded->epoch && !env_.coordinator.MembersOf(env_.job, loaded->epoch->epoch).ok());
    if (foreign) {
      loaded->prepared.reset();
      loaded->shadow.reset();
      loaded->epoch.reset();
      loaded->previous.reset();
    }
    co_return loaded;
  }
}

absl::Status JobMember::Impl::CheckOwn(const checkpoint::Loaded& loaded) const {
  if (loaded.committed == nullptr) return absl::OkStatus();
  for (const checkpoint::OuterStatePtr& state : {loaded.committed, checkpoint::OuterStatePtr(loaded.shadow)}) {
    if (state == nullptr || state->momentum.size() == num_momentum()) continue;
    return absl::InvalidArgumentError(absl::StrCat("round ", state->id.round.value, " has a momentum of ",
                                                   state->momentum.size(), " values, expected ", num_momentum()));
  }
  if (loaded.commit) return CheckCommit(*loaded.commit);
  if (loaded.committed->id.round.value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError("it has no commit");
}

uint64_t JobMember::Impl::num_momentum() const {
  return (outer_.uses_momentum() ? env_.loaded.layout.num_params() : 0) + (low_rank_ ? low_rank_->num_right() : 0);
}

Task<absl::Status> JobMember::Impl::TakeInitialState() {
  auto state = std::make_shared<checkpoint::OuterState>();
  const uint64_t num_params = env_.loaded.layout.num_params();
  GDF_CO_ASSIGN_OR_RETURN(state->theta, tensor::FlatBuffer::Zeros(num_params));
  GDF_CO_ASSIGN_OR_RETURN(state->momentum, tensor::FlatBuffer::Zeros(num_momentum()));
  if (low_rank_) low_rank_->FirstRight(env_.spec.train.seed, RightFactors(*low_rank_, state->momentum.span()));
  const absl::Status read = co_await env_.worker.ReadParameters(state->theta.span());
  GDF_CO_RETURN_IF_ERROR(read);
  auto commit = [state](checkpoint::CheckpointStore& store) {
    checkpoint::Identify(*state);
    return store.Commit(*state, std::nullopt);
  };
  const absl::Status saved = co_await OnStore(std::move(commit));
  GDF_CO_RETURN_IF_ERROR(Annotate(saved, "saving the initial parameters"));
  state_ = std::move(state);
  co_return absl::OkStatus();
}

void JobMember::Impl::Serve() {
  calls_ = env_.transport.HandleCall(
      Method(env_.job), [this](NodeId peer, Buffer request) { return HandleCall(peer, std::move(request)); });
  states_ = env_.transport.HandleStream(
      StateMethod(env_.job),
      [this](NodeId peer, std::unique_ptr<net::Stream> stream) { return ServeState(peer, std::move(stream)); },
      {.max_concurrent_per_peer = kMaxGivenPerPeer});
}

Task<void> JobMember::Impl::ServeState(NodeId peer, std::unique_ptr<net::Stream> stream) {
  absl::StatusOr<std::optional<Buffer>> first = co_await stream->Receive(env_.timings.call);
  absl::StatusOr<wire::FetchState> fetch = absl::InvalidArgumentError("the stream ended without a request");
  if (!first.ok()) {
    fetch = first.status();
  } else if (first->has_value()) {
    fetch = wire::DecodeFetchState((*first)->span());
  }
  absl::Status refused = fetch.status();
  checkpoint::OuterStatePtr state;
  if (fetch.ok()) {
    // The cursor is not part of the bytes: a shadow has none before its receipt.
    const auto is = [&](const wire::StateId& id) {
      return id.round == fetch->state.round && id.theta == fetch->state.theta && id.momentum == fetch->state.momentum;
    };
    if (is(state_->id)) {
      state = state_;
    } else if (shadow_ && is(shadow_->id)) {
      state = shadow_;
    }
    if (!known_ || !known_->Has(peer)) {
      refused = absl::PermissionDeniedError("only the job's members may fetch its state");
    } else if (!state) {
      refused = absl::NotFoundError(absl::StrCat("round ", fetch->state.round.value, " is not held here; it has round ",
                                                 state_->id.round.value));
    }
  }
  if (refused.ok() && giving_ == kMaxGiven) {
    refused = absl::ResourceExhaustedError("this node gives its state to as many as it does at a time; ask again later");
  }
  if (refused.ok()) {
    ++giving_;
    const auto done = absl::MakeCleanup([this] { --giving_; });
    const GivingState giving{env_.executor, env_.pool, env_.timings.call, [this] { return exchanging_ > 0; }};
    refused = co_await GiveState(giving, *stream, std::move(state));
  }
  if (refused.ok()) {
    stream->Finish();
  } else {
    stream->Cancel(refused);
  }
}

void JobMember::Impl::SetEpoch(wire::EpochRecord record) {
  if (ended_ || (known_ && record.epoch <= known_->epoch)) return;
  if (entered_ && record.epoch < entered_->epoch) return;
  known_ = std::move(record);
  ReadTraffic();
  last_heard_ = env_.executor.clock().Monotonic();
  heard_in_epoch_ = false;
  exchange_.Cancel(absl::StrCat("epoch ", known_->epoch.value, " has begun"));
  exchange_.Forget();
  scope_.Spawn(ActivateEpoch(known_->epoch));
}

// A task of its own, since SetEpoch may be called from the lead that ends here.
Task<void> JobMember::Impl::ActivateEpoch(Epoch epoch) {
  if (known_->epoch != epoch) co_return;  // a newer one came
  lead_scope_.reset();
  lead_.reset();
  const NodeId self = env_.transport.self();
  if (!known_->Has(self)) {
    End(absl::AbortedError(absl::StrCat("this node is not a member of ", ToString(env_.job), " from epoch ",
                                        epoch.value, " on")));
    co_return;
  }
  if (known_->lead != self) {
    activity_ = "waiting for the lead";
    co_return;
  }
  lead_ = std::make_unique<RoundLead>(*this, *known_);
  lead_scope_ = std::make_unique<TaskScope>(env_.executor);
  lead_scope_->Spawn(lead_->Run());
}

absl::Duration JobMember::Impl::SilenceAllowed() {
  if (env_.transport.Connected(known_->lead)) {
    return env_.spec.rounds.round_deadline + env_.timings.lead_silence;
  }
  if (env_.coordinator.SeesOffline(known_->lead)) return env_.timings.lead_down;
  return heard_in_epoch_ ? 2 * env_.timings.reconnect : env_.timings.enter;
}

// The coordinators need not take the lead's word that this node keeps the others waiting.
Task<void> JobMember::Impl::ReportSlowTraining() {
  const std::shared_ptr<Training> training = training_;
  if (!training || training->finished || training->slow) co_return;
  if (env_.executor.clock().Monotonic() - training->begun <= env_.spec.rounds.round_deadline) co_return;
  training->slow = true;
  EpochRequest request{env_.job, known_->epoch, {env_.transport.self()},
                       absl::StrCat("node ", env_.transport.self().Short(), " trains on round ", training->round.value,
                                    " for longer than the round's deadline")};
  const absl::Status asked = co_await env_.coordinator.RequestEpoch(std::move(request));
  if (!asked.ok()) Log(LogLevel::kWarning, "epoch_request_failed", {{"job", ToString(env_.job)}, {"error", asked}});
}

Task<void> JobMember::Impl::WatchLead() {
  absl::Duration connected_at = env_.executor.clock().Monotonic();
  absl::Duration asked_at = -absl::InfiniteDuration();
  Epoch told;  // that it waits in this epoch
  while (!ended_) {
    co_await Sleep(env_.executor, env_.timings.retry);
    const absl::Duration now = env_.executor.clock().Monotonic();
    if (ended_ || !known_) continue;
    co_await ReportSlowTraining();
    if (ended_ || known_->lead == env_.transport.self()) continue;
    const bool connected = env_.transport.Connected(known_->lead);
    if (connected) connected_at = now;
    const absl::Duration since = connected ? last_heard_ : std::max(last_heard_, connected_at);
    const bool put_out = !env_.coordinator.IsMember(known_->lead);
    if (!put_out && now - since <= SilenceAllowed()) continue;
    if (now - asked_at < env_.timings.epoch) continue;
    asked_at = now;
    activity_ = "asking for another lead";
    EpochRequest request{env_.job, known_->epoch, {known_->lead},
                         absl::StrCat("lead ", known_->lead.Short(),
                                      put_out     ? " is out of the network"
                                      : connected ? " is silent"
                                                  : " is not reachable")};
    const absl::Status asked = co_await env_.coordinator.RequestEpoch(std::move(request));
    if (asked.ok()) continue;
    Log(LogLevel::kWarning, "epoch_request_failed", {{"job", ToString(env_.job)}, {"error", asked}});
    if (told != known_->epoch) Event(wire::Severity::kWarning, absl::StrCat("waiting: ", asked.message()));
    told = known_->epoch;
  }
}

void JobMember::Impl::NodeFailed(const absl::Status& why) {
  if (ended_) return;
  Event(wire::Severity::kError, absl::StrCat("this node leaves the job: ", why.message()));
  struct Leave {
    static Task<void> Run(Coordinator* coordinator, EpochRequest request) {
      (co_await coordinator->RequestEpoch(std::move(request))).IgnoreError();
    }
  };
  if (known_) {
    EpochRequest request{env_.job, known_->epoch, {env_.transport.self()}, std::string(why.message())};
    scope_.Spawn(Leave::Run(&env_.coordinator, std::move(request)));
  }
  End(why);
}

void JobMember::Impl::End(absl::Status status) {
  if (std::exchange(ended_, true)) return;
  activity_ = status.ok() ? "complete" : "ended";
  exchange_.Cancel("the job has ended here");
  end_.Set(std::move(status));
}

Task<absl::Status> JobMember::Impl::WaitForEnd() {
  absl::Status status = co_await end_.Wait();
  co_return status;
}

void JobMember::Impl::Event(wire::Severity severity, std::string text) {
  struct Report {
    static Task<void> Run(Coordinator* coordinator, wire::JobEvent event) {
      const absl::Status sent = co_await coordinator->ReportEvent(event);
      if (!sent.ok()) Log(LogLevel::kWarning, "event_not_reported", {{"text", event.text}, {"error", sent}});
    }
  };
  wire::JobEvent event{env_.job, env_.transport.self(), severity, std::move(text)};
  scope_.Spawn(Report::Run(&env_.coordinator, std::move(event)));
}

}  // namespace gdf::rounds
