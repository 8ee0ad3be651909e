#include <catch2/catch.hpp>

#include "core/base/encoding.h"
#include "core/rounds/state_transfer.h"
#include "tests/unit/rounds/one_member.h"

namespace gdf::rounds {
namespace {

bool Says(const absl::Status& status, std::string_view text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// A state of round 1 that the test's lead holds, and the commit that made it.
struct Held {
  std::shared_ptr<checkpoint::OuterState> state = std::make_shared<checkpoint::OuterState>();
  wire::Commit commit;
};

Held MakeHeld(const OneMember& world, uint64_t num_params = kParams) {
  Held held;
  held.state->id.round = RoundId{1};
  held.state->theta = *tensor::FlatBuffer::Zeros(num_params);
  held.state->momentum = *tensor::FlatBuffer::Zeros(num_params);
  for (uint64_t i = 0; i < num_params; ++i) held.state->theta.data()[i] = static_cast<float>(i);
  checkpoint::Identify(*held.state);
  wire::Receipt receipt;
  receipt.tag = world.Tag();
  receipt.voters = world.first.members;
  receipt.contributions = {{world.id(0), 5}};
  receipt.result = held.state->id;
  held.commit = world.CommitBy(receipt, {0, 2});
  return held;
}

// Node `from` answers so who fetches a state.
net::Registration Serve(OneMember& world, int from, std::function<Task<void>(net::Stream&)> answer) {
  struct Body {
    static Task<void> Run(std::function<Task<void>(net::Stream&)> answer, std::unique_ptr<net::Stream> stream) {
      absl::StatusOr<std::optional<Buffer>> request = co_await stream->Receive(absl::Seconds(9));
      GDF_CHECK(request.ok() && request->has_value());
      co_await answer(*stream);
    }
  };
  return world.transports[from]->HandleStream(
      JobMember::StateMethod(kJob),
      [answer](NodeId, std::unique_ptr<net::Stream> stream) { return Body::Run(answer, std::move(stream)); }, {});
}

Task<void> Send(GivingState giving, net::Stream& stream, checkpoint::OuterStatePtr state) {
  (void)co_await GiveState(std::move(giving), stream, std::move(state));
  stream.Finish();
}

Task<void> Refuse(net::Stream& stream, absl::Status why) {
  stream.Cancel(std::move(why));
  co_return;
}

// The digests of `state`, as asked for, and then messages of these sizes.
Task<void> SendRaw(net::Stream& stream, checkpoint::OuterStatePtr state, std::vector<size_t> sizes) {
  Buffer digests(std::string(AsString(MerkleLeaf(tensor::AsBytes(state->theta.span())).span())) +
                 std::string(AsString(MerkleLeaf(tensor::AsBytes(state->momentum.span())).span())));
  (void)co_await stream.Send(std::move(digests));
  for (const size_t size : sizes) {
    Buffer leaf(std::string(size, '\1'));
    (void)co_await stream.Send(std::move(leaf));
  }
  stream.Finish();
}

TEST_CASE_METHOD(OneMember, "a member that is behind adopts a committed state, and keeps it") {
  EnterFirst();
  const Held held = MakeHeld(*this);
  const net::Registration serves = Serve(*this, 0, [&](net::Stream& s) { return Send(Giving(), s, held.state); });
  const wire::SyncState sync{Tag(1), held.state->id, {id(0)}, true, held.commit};
  AskFor<wire::Done>(sync);
  CHECK(member->state()->id == held.state->id);
  CHECK(member->state()->theta.span()[7] == 7.0f);
  StartMember();
  CHECK(member->state()->id == held.state->id);
  member->SetEpoch(first);
  CHECK(AskFor<wire::EnterReply>(wire::Enter{kJob, first}).commit == held.commit);
}

TEST_CASE_METHOD(OneMember, "a state is adopted only with its commit, and only when its bytes are its own") {
  EnterFirst();
  const Held held = MakeHeld(*this);
  const wire::StateId before = member->state()->id;
  wire::SyncState sync{Tag(1), held.state->id, {id(0)}, true, held.commit};
  auto other = std::make_shared<checkpoint::OuterState>();
  other->theta = *tensor::FlatBuffer::Zeros(kParams);
  other->momentum = *tensor::FlatBuffer::Zeros(kParams);
  net::Registration serves;
  absl::StatusCode expected = absl::StatusCode::kInvalidArgument;
  std::string says;
  SECTION("no commit") {
    sync.commit.reset();
    says = "comes without its commit";
  }
  SECTION("a commit of another state") {
    sync.target.theta = HashBytes("other");
    says = "not of the state to be fetched";
  }
  SECTION("a commit by too few") {
    sync.commit->signatures.pop_back();
    expected = absl::StatusCode::kPermissionDenied;
  }
  SECTION("other bytes") {
    serves = Serve(*this, 0, [&](net::Stream& s) { return Send(Giving(), s, other); });
    expected = absl::StatusCode::kDataLoss;
    says = id(0).Short() + ": its digests are not those of that state";
  }
  SECTION("other bytes behind its digests") {
    serves = Serve(*this, 0, [&](net::Stream& s) { return SendRaw(s, held.state, {400, 400}); });
    expected = absl::StatusCode::kDataLoss;
    says = id(0).Short() + ": it gives something else than part 0 of the state";
  }
  SECTION("a part that is too long") {
    serves = Serve(*this, 0, [&](net::Stream& s) { return SendRaw(s, held.state, {500}); });
    expected = absl::StatusCode::kDataLoss;
    says = "not 400 bytes";
  }
  SECTION("too few parts") {
    serves = Serve(*this, 0, [&](net::Stream& s) { return SendRaw(s, held.state, {}); });
    expected = absl::StatusCode::kDataLoss;
    says = "not 400 bytes";
  }
  SECTION("a source that does not serve it") {
    expected = absl::StatusCode::kUnimplemented;
    says = "fetching round 1: ";
  }
  SECTION("a source that says nothing") {
    serves = Serve(*this, 0, [this](net::Stream&) { return Sleep(executor, absl::Hours(1)); });
    expected = absl::StatusCode::kDeadlineExceeded;
    says = "fetching round 1: ";
  }
  const absl::Status status = Ask(sync).status();
  INFO(status);
  CHECK(status.code() == expected);
  CHECK(Says(status, says));
  CHECK(member->state()->id == before);
  CHECK_FALSE(disk.Exists("/state/state-0000000000000001"));
}

TEST_CASE_METHOD(OneMember, "a shadow is fetched, signed for and committed like one that was made here") {
  EnterFirst();
  const Held held = MakeHeld(*this);
  const net::Registration serves = Serve(*this, 0, [&](net::Stream& s) { return Send(Giving(), s, held.state); });
  AskFor<wire::Done>(wire::SyncState{Tag(0), held.state->id, {id(0)}, false, std::nullopt});
  CHECK(member->state()->id.round == RoundId{0});
  wire::Receipt receipt = held.commit.receipt;
  receipt.start_theta = member->state()->id.theta;
  const auto signed_here = AskFor<wire::Signed>(wire::Propose{receipt});
  CHECK(VerifySignature(receipt, kSubmission, signed_here.signature, id(1)).ok());
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 1})});
  CHECK(member->state()->id == held.state->id);
}

constexpr uint64_t kLargeParams = 3 * 1'048'576 + 5;  // 13 leaves of θ, as many of the momentum

class LargeMember : public OneMember {
 public:
  LargeMember() : OneMember(kLargeParams) { EnterFirst(); }
};

// Counts what each node gives of the state in messages of a leaf.
std::map<NodeId, int> CountLeaves(OneMember& world, std::function<void(const NodeId& from, int given)> told, const wire::SyncState& sync) {
  std::map<NodeId, int> given;
  world.network.set_on_message([&](const sim::SimMessage& message) {
    if (message.method != JobMember::StateMethod(kJob) || message.to != world.id(1)) return;
    told(message.from, ++given[message.from]);
  });
  world.AskFor<wire::Done>(sync);
  world.network.set_on_message(nullptr);
  CHECK(world.member->state()->id == sync.target);
  CHECK(checkpoint::VerifyDigests(*world.member->state()).ok());
  return given;
}

TEST_CASE_METHOD(LargeMember, "several give parts of one state; who dies, lies or is silent is replaced by another") {
  const Held held = MakeHeld(*this, kLargeParams);
  const auto gives = [&](net::Stream& s) { return Send(Giving(), s, held.state); };
  const wire::SyncState sync{Tag(1), held.state->id, {id(0), id(2), id(3)}, true, held.commit};
  std::vector<net::Registration> serve;
  std::function<void(const NodeId&, int)> told = [](const NodeId&, int) {};
  serve.push_back(Serve(*this, 2, gives));
  serve.push_back(Serve(*this, 3, gives));
  SECTION("all are there") {
    serve.push_back(Serve(*this, 0, gives));
    std::map<NodeId, int> given = CountLeaves(*this, told, sync);
    for (const int node : {0, 2, 3}) CHECK(given[id(node)] >= 26 / 3 - 3);  // with a message of digests each
  }
  SECTION("one dies after some of its parts") {
    serve.push_back(Serve(*this, 0, gives));
    told = [&](const NodeId& from, int given) {
      if (from == id(2) && given == 4) network.Cut(id(2), id(1));
    };
    std::map<NodeId, int> given = CountLeaves(*this, told, sync);
    CHECK(given[id(2)] <= 5);
    CHECK(given[id(0)] + given[id(3)] >= 26 - 4);
  }
  SECTION("one gives other parameters behind the digests of these") {
    auto other = std::make_shared<checkpoint::OuterState>();
    other->theta = *tensor::FlatBuffer::Zeros(kLargeParams);
    other->momentum = *tensor::FlatBuffer::Zeros(kLargeParams);
    other->theta_leaves = held.state->theta_leaves;
    other->momentum_leaves = held.state->momentum_leaves;
    serve.push_back(Serve(*this, 0, [this, other](net::Stream& s) { return Send(Giving(), s, other); }));
    CountLeaves(*this, told, sync);
  }
  SECTION("one says nothing") {
    serve.push_back(Serve(*this, 0, [this](net::Stream&) { return Sleep(executor, absl::Hours(1)); }));
    const absl::Duration begun = executor.clock().Monotonic();
    CountLeaves(*this, told, sync);
    CHECK(executor.clock().Monotonic() - begun < absl::Seconds(40));
  }
  SECTION("one has it no more, and one gives to others at first") {
    serve.clear();
    int asked = 0;
    serve.push_back(Serve(*this, 2, [](net::Stream& s) { return Refuse(s, absl::NotFoundError("round 1 is not held here")); }));
    serve.push_back(Serve(*this, 0, [&](net::Stream& s) {
      return ++asked > 3 ? Send(Giving(), s, held.state) : Refuse(s, absl::ResourceExhaustedError("ask again later"));
    }));
    CountLeaves(*this, told, sync);
    CHECK(asked == 4);
  }
}

TEST_CASE("a hundred nodes that come are spread over those that can give the state") {
  std::vector<NodeId> donors, all;
  for (int i = 0; i < 10; ++i) donors.push_back(NodeId(HashBytes("donor " + std::to_string(i))));
  std::map<NodeId, int> first, some;
  for (int i = 0; i < 100; ++i) {
    const NodeId joiner(HashBytes("joiner " + std::to_string(i)));
    const std::vector<NodeId> order = DonorsFor(joiner, donors);
    REQUIRE(order.size() == 10);
    CHECK(DonorsFor(joiner, donors) == order);
    ++first[order[0]];
    for (int rank = 0; rank < 4; ++rank) ++some[order[rank]];
  }
  // 10 and 40 each; standard deviations 3 and 4.9.
  for (const NodeId& donor : donors) {
    CHECK(first[donor] <= 10 + 4 * 3);
    CHECK(some[donor] >= 40 - 4 * 5);
    CHECK(some[donor] <= 40 + 4 * 5);
  }
  CHECK(DonorsFor(donors[3], donors).size() == 9);  // not from itself
}

TEST_CASE_METHOD(LargeMember, "who needs its link for its own work gives a part now and then, which the other one waits for") {
  const Held held = MakeHeld(*this, kLargeParams);
  const wire::SyncState sync{Tag(1), held.state->id, {id(0)}, true, held.commit};
  bool busy = true;
  const net::Registration serves = Serve(*this, 0, [&](net::Stream& s) {
    return Send({executor, pool, absl::Minutes(1), [&busy] { return busy; }}, s, held.state);
  });
  const absl::Duration begun = executor.clock().Monotonic();
  const auto elapsed = [&] { return executor.clock().Monotonic() - begun; };
  executor.PostAfter(absl::Seconds(80), [&] { busy = false; });
  int early = 0;
  CountLeaves(*this, [&](const NodeId&, int) { early += elapsed() < absl::Seconds(80) ? 1 : 0; }, sync);
  CHECK(early <= 1 + 6);  // the digests; a leaf at once and every 15 s
  CHECK(early >= 1 + 5);
  CHECK(elapsed() < absl::Seconds(90));
}

Task<absl::StatusOr<std::optional<Buffer>>> Fetch(sim::SimTransport* from, NodeId to, wire::FetchState fetch) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream =
      co_await from->Open(to, JobMember::StateMethod(kJob), net::Priority::kBulk, absl::Seconds(5));
  GDF_CHECK(stream.ok());
  Buffer request = wire::EncodeFetchState(fetch);
  (void)co_await (*stream)->Send(std::move(request));
  Buffer leaf = wire::EncodeFetchLeaves({0, 1});
  (void)co_await (*stream)->Send(std::move(leaf));
  (*stream)->Finish();
  absl::StatusOr<std::optional<Buffer>> got = co_await (*stream)->Receive(absl::Seconds(5));
  co_return got;
}

// Asks for ten leaves and takes none.
Task<std::unique_ptr<net::Stream>> AskAndWait(sim::SimTransport* from, NodeId to, wire::FetchState fetch) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream =
      co_await from->Open(to, JobMember::StateMethod(kJob), net::Priority::kBulk, absl::Seconds(5));
  GDF_CHECK(stream.ok());
  Buffer request = wire::EncodeFetchState(fetch);
  (void)co_await (*stream)->Send(std::move(request));
  Buffer leaves = wire::EncodeFetchLeaves({0, 10});
  (void)co_await (*stream)->Send(std::move(leaves));
  co_return *std::move(stream);
}

TEST_CASE_METHOD(LargeMember, "who asks for a state and takes none of it does not keep the others from it") {
  const wire::FetchState fetch{kJob, member->state()->id};
  std::vector<std::unique_ptr<net::Stream>> idle;
  for (int i = 0; i < 2; ++i) idle.push_back(Run(AskAndWait(transports[2].get(), id(1), fetch)));
  CHECK(absl::IsResourceExhausted(Run(Fetch(transports[2].get(), id(1), fetch)).status()));
  CHECK(Run(Fetch(transports[0].get(), id(1), fetch)).ok());
  executor.RunUntil([] { return false; }, absl::Seconds(60));
  CHECK(Run(Fetch(transports[2].get(), id(1), fetch)).ok());
}

TEST_CASE_METHOD(OneMember, "states are given to members of the job only") {
  member->SetEpoch(first);
  const wire::FetchState fetch{kJob, member->state()->id};
  absl::StatusOr<std::optional<Buffer>> given = Run(Fetch(transports[2].get(), id(1), fetch));
  REQUIRE(given.ok());
  CHECK((*given)->size() == kParams * sizeof(float));
  CHECK(absl::IsPermissionDenied(Run(Fetch(transports[3].get(), id(1), fetch)).status()));
  wire::FetchState other = fetch;
  other.state.theta = HashBytes("other");
  const absl::Status missing = Run(Fetch(transports[2].get(), id(1), other)).status();
  CHECK(absl::IsNotFound(missing));
  CHECK(Says(missing, "round 0 is not held here"));
}

}  // namespace
}  // namespace gdf::rounds
