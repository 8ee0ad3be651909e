// One JobMember of a job of three; the test plays the lead by hand, and strangers.
#ifndef GDF_TESTS_UNIT_ROUNDS_ONE_MEMBER_H_
#define GDF_TESTS_UNIT_ROUNDS_ONE_MEMBER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/hash.h"
#include "core/exchange/exchange.h"
#include "core/rounds/job_member.h"
#include "core/rounds/receipts.h"
#include "core/rounds/state_transfer.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_worker.h"

namespace gdf::rounds {

inline constexpr JobId kJob{7};
inline const Digest kSubmission = HashBytes("submission");
inline constexpr uint64_t kParams = 100;

class RecordingCoordinator final : public Coordinator {
 public:
  Task<absl::Status> RequestEpoch(EpochRequest request) override {
    requests.push_back(std::move(request));
    co_return absl::OkStatus();
  }
  Task<absl::Status> ReportJob(wire::ReportJob) override { co_return absl::OkStatus(); }
  Task<absl::Status> FinishJob(wire::FinishJob) override { co_return absl::OkStatus(); }
  Task<absl::Status> RollBackJob(wire::RollBackJob) override { co_return absl::OkStatus(); }
  Task<absl::Status> ReportEvent(wire::JobEvent event) override {
    events.push_back(std::move(event.text));
    co_return absl::OkStatus();
  }
  absl::StatusOr<std::vector<NodeId>> MembersOf(JobId, Epoch epoch) override {
    const auto it = opened.find(epoch);
    if (it == opened.end()) return absl::NotFoundError("no such epoch");
    return it->second;
  }
  uint64_t RecordedRounds(JobId) override { return 0; }
  std::vector<std::pair<RoundId, double>> RecordedLosses(JobId, size_t) override { return {}; }
  bool IsMember(NodeId) override { return true; }
  std::string NameOf(NodeId node) override { return "name of " + node.Short(); }
  bool SeesOffline(NodeId) override { return false; }
  std::map<Epoch, std::vector<NodeId>> opened;
  std::vector<EpochRequest> requests;
  std::vector<std::string> events;
};

class RecordingWorker final : public sim::SimWorker {
 public:
  using SimWorker::SimWorker;
  Task<absl::Status> Settle(RoundId round, train::Settlement settlement) override {
    settled.emplace_back(round, settlement);
    return SimWorker::Settle(round, settlement);
  }
  std::vector<std::pair<RoundId, train::Settlement>> settled;
};

class OneMember {
 public:
  // Node 0 is the lead, 1 the member under test, 2 another member, 3 a node of the network that is no member.
  explicit OneMember(uint64_t num_params = kParams) : network(executor, 1), scope(executor) {
    for (uint8_t i = 0; i < 4; ++i) {
      trust::NodeKey::Seed seed{};
      seed[0] = static_cast<uint8_t>(i + 1);
      keys.push_back(trust::NodeKey::FromSeed(seed));
      transports.push_back(network.Join(keys[i].id()));
    }
    spec.train.steps = 4;
    spec.rounds.inner_steps = 2;
    spec.rounds.codecs = {{config::CodecKind::kFp32, 0}};
    spec.rounds.error_feedback = true;
    spec.nodes.min = 1;
    worker_options.num_params = num_params;
    worker_options.node = id(1);
    first = {Epoch{1}, id(0), {id(0), id(1), id(2)}};
    coordinator.opened[first.epoch] = first.members;
    lead_exchange = std::make_unique<exchange::Exchange>(
        exchange::Exchange::Context{executor, pool, *transports[0], kJob});
    StartMember();
  }
  ~OneMember() {
    scope.Clear();
    member.reset();
  }

  NodeId id(int node) const { return keys[node].id(); }

  void StartMember() {
    member.reset();
    worker = std::make_unique<RecordingWorker>(executor, worker_options, &journal, nullptr);
    store = std::make_shared<checkpoint::CheckpointStore>(
        disk, checkpoint::CheckpointStore::Options{.folder = "/state", .keep = 2, .num_params = worker_options.num_params});
    member = std::make_unique<JobMember>(RoundEnv{.job = kJob,
                                                  .submission = kSubmission,
                                                  .spec = spec,
                                                  .executor = executor,
                                                  .pool = pool,
                                                  .transport = *transports[1],
                                                  .worker = *worker,
                                                  .loaded = sim::SimWorker::Loaded(worker_options),
                                                  .store = store,
                                                  .key = keys[1],
                                                  .coordinator = coordinator});
    started = Run(member->Start());
  }

  // Runs `task` to its end.
  template <typename T>
  T Run(Task<T> task) {
    std::optional<T> result;
    struct Body {
      static Task<void> Await(Task<T> task, std::optional<T>* result) {
        T value = co_await std::move(task);
        result->emplace(std::move(value));
      }
    };
    scope.Spawn(Body::Await(std::move(task), &result));
    executor.RunUntil([&] { return result.has_value(); }, absl::Minutes(30));
    GDF_CHECK(result.has_value());
    return *std::move(result);
  }

  absl::StatusOr<wire::RoundReply> Ask(const wire::RoundRequest& request, int from = 0) {
    absl::StatusOr<Buffer> reply = Run(transports[from]->Call(id(1), JobMember::Method(kJob),
                                                              wire::EncodeRoundRequest(request), absl::Minutes(5)));
    if (!reply.ok()) return reply.status();
    return wire::DecodeRoundReply(reply->span());
  }
  template <typename T>
  T AskFor(const wire::RoundRequest& request) {
    absl::StatusOr<wire::RoundReply> reply = Ask(request);
    GDF_CHECK(reply.ok() && std::holds_alternative<T>(*reply));
    return std::get<T>(*reply);
  }

  wire::RoundTag Tag(uint64_t round = 0, uint32_t attempt = 1) const {
    return {kJob, first.epoch, RoundId{round}, attempt};
  }
  wire::RoundPlan Plan() const {
    wire::RoundPlan plan;
    plan.tag = Tag(member->state()->id.round.value, 0);
    plan.start_theta = member->state()->id.theta;
    plan.from_step = 2 * plan.tag.round.value;
    plan.until_step = plan.from_step + 2;
    plan.member_index = 1;
    plan.num_members = 3;
    plan.deadline = absl::Minutes(1);
    return plan;
  }
  void EnterFirst() {
    member->SetEpoch(first);
    AskFor<wire::EnterReply>(wire::Enter{kJob, first});
  }

  // Trains, and exchanges with the lead, which contributes nothing, or alone contributes.
  wire::Prepared TrainAndExchange(uint32_t attempt = 1) {
    const wire::RoundReport report = AskFor<wire::RoundReport>(Plan());
    wire::ExchangeStart start{Tag(member->state()->id.round.value, attempt), {{id(0), 0}, {id(1), report.tokens}},
                              absl::Minutes(1)};
    return ExchangeAs(start, Buffer());
  }
  wire::Prepared ExchangeAs(const wire::ExchangeStart& start, Buffer lead_packed) {
    exchange::AllReduceRequest request;
    request.tag = start.tag;
    request.members = start.members;
    request.codec = *compress::Codec::Create(*compress::CodecSpec::Parse("fp32"));
    request.num_params = worker_options.num_params;
    request.packed = std::move(lead_packed);
    request.deadline = start.deadline;
    struct Lead {
      static Task<void> Run(exchange::Exchange* exchange, exchange::AllReduceRequest request) {
        exchange::Outcome ignored = co_await exchange->AllReduce(std::move(request));
      }
    };
    scope.Spawn(Lead::Run(lead_exchange.get(), std::move(request)));
    return AskFor<wire::Prepared>(start);
  }

  wire::Receipt ReceiptFor(const wire::Prepared& prepared, std::vector<wire::Contribution> contributions) const {
    wire::Receipt receipt;
    receipt.tag = prepared.tag;
    receipt.voters = first.members;
    receipt.contributions = std::move(contributions);
    receipt.start_theta = member->state()->id.theta;
    receipt.result = prepared.result;
    receipt.result.cursor = {0, 6};
    return receipt;
  }
  wire::Commit CommitBy(const wire::Receipt& receipt, const std::vector<int>& signers) const {
    wire::Commit commit{receipt, {}};
    for (const int signer : signers) commit.signatures.push_back(SignReceipt(keys[signer], kSubmission, receipt));
    return commit;
  }

  // What a hostile node would like everybody to hold, as round `round`.
  static checkpoint::OuterStatePtr OtherState(uint64_t round) {
    auto state = std::make_shared<checkpoint::OuterState>();
    state->theta = *tensor::FlatBuffer::Zeros(kParams);
    state->momentum = *tensor::FlatBuffer::Zeros(kParams);
    state->id.round = RoundId{round};
    checkpoint::Identify(*state);
    return state;
  }
  GivingState Giving(bool busy = false) {
    return {executor, pool, absl::Minutes(1), [busy] { return busy; }};
  }
  // Node `from` gives `state` to whoever fetches one; counts them in `served`.
  void ServeStateFrom(int from, checkpoint::OuterStatePtr state) {
    struct Body {
      static Task<void> Serve(GivingState giving, checkpoint::OuterStatePtr state, std::unique_ptr<net::Stream> stream) {
        (co_await stream->Receive(absl::Minutes(1))).IgnoreError();
        (co_await GiveState(giving, *stream, std::move(state))).IgnoreError();
        stream->Finish();
      }
    };
    registrations.push_back(transports[from]->HandleStream(
        JobMember::StateMethod(kJob),
        [this, state](NodeId, std::unique_ptr<net::Stream> stream) {
          ++served;
          return Body::Serve(Giving(), state, std::move(stream));
        },
        {}));
  }

  SimExecutor executor;
  InlinePool pool;
  sim::SimNetwork network;
  std::vector<trust::NodeKey> keys;
  std::vector<std::unique_ptr<sim::SimTransport>> transports;
  config::JobSpec spec;
  sim::SimWorkerOptions worker_options;
  sim::EmitJournal journal;
  MemoryFileSystem disk;
  RecordingCoordinator coordinator;
  wire::EpochRecord first;
  std::unique_ptr<exchange::Exchange> lead_exchange;
  std::unique_ptr<RecordingWorker> worker;
  std::shared_ptr<checkpoint::CheckpointStore> store;
  std::unique_ptr<JobMember> member;
  absl::Status started;
  std::vector<net::Registration> registrations;
  int served = 0;
  TaskScope scope;
};

}  // namespace gdf::rounds

#endif  // GDF_TESTS_UNIT_ROUNDS_ONE_MEMBER_H_
