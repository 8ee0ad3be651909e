#include <catch2/catch.hpp>

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

Held MakeHeld(const OneMember& world) {
  Held held;
  held.state->id.round = RoundId{1};
  held.state->theta = *tensor::FlatBuffer::Zeros(kParams);
  held.state->momentum = *tensor::FlatBuffer::Zeros(kParams);
  for (uint64_t i = 0; i < kParams; ++i) held.state->theta.data()[i] = static_cast<float>(i);
  checkpoint::Identify(*held.state);
  wire::Receipt receipt;
  receipt.tag = world.Tag();
  receipt.voters = world.first.members;
  receipt.contributions = {{world.id(0), 5}};
  receipt.result = held.state->id;
  held.commit = world.CommitBy(receipt, {0, 2});
  return held;
}

// Serves `state` as node 0, or bytes that are not it.
net::Registration Serve(OneMember& world, const Held& held, std::function<Task<void>(net::Stream&)> answer) {
  (void)held;
  struct Body {
    static Task<void> Run(std::function<Task<void>(net::Stream&)> answer, std::unique_ptr<net::Stream> stream) {
      absl::StatusOr<std::optional<Buffer>> request = co_await stream->Receive(absl::Seconds(9));
      GDF_CHECK(request.ok() && request->has_value());
      co_await answer(*stream);
    }
  };
  return world.transports[0]->HandleStream(
      JobMember::StateMethod(kJob),
      [answer](NodeId, std::unique_ptr<net::Stream> stream) { return Body::Run(answer, std::move(stream)); }, {});
}

Task<void> Send(net::Stream& stream, checkpoint::OuterStatePtr state) {
  (void)co_await SendState(stream, std::move(state));
  stream.Finish();
}

Task<void> SendRaw(net::Stream& stream, std::vector<size_t> sizes) {
  for (const size_t size : sizes) {
    Buffer frame(std::string(size, '\1'));
    (void)co_await stream.Send(std::move(frame));
  }
  stream.Finish();
}

TEST_CASE_METHOD(OneMember, "a member that is behind adopts a committed state, and keeps it") {
  EnterFirst();
  const Held held = MakeHeld(*this);
  const net::Registration serves = Serve(*this, held, [&](net::Stream& s) { return Send(s, held.state); });
  const wire::SyncState sync{Tag(1), held.state->id, id(0), true, held.commit};
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
  wire::SyncState sync{Tag(1), held.state->id, id(0), true, held.commit};
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
    serves = Serve(*this, held, [&](net::Stream& s) { return Send(s, other); });
    expected = absl::StatusCode::kDataLoss;
    says = "fetching round 1 from node " + id(0).Short() + ": theta of round 1 has digest";
  }
  SECTION("a frame that is too long") {
    serves = Serve(*this, held, [](net::Stream& s) { return SendRaw(s, {500}); });
    says = "not 400 bytes";
  }
  SECTION("too few frames") {
    serves = Serve(*this, held, [](net::Stream& s) { return SendRaw(s, {400}); });
    says = "not 400 bytes";
  }
  SECTION("a source that does not serve it") {
    expected = absl::StatusCode::kUnimplemented;
    says = "fetching round 1 from node " + id(0).Short();
  }
  SECTION("a source that says nothing") {
    serves = Serve(*this, held, [this](net::Stream&) { return Sleep(executor, absl::Hours(1)); });
    expected = absl::StatusCode::kDeadlineExceeded;
    says = "fetching round 1 from node " + id(0).Short();
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
  const net::Registration serves = Serve(*this, held, [&](net::Stream& s) { return Send(s, held.state); });
  AskFor<wire::Done>(wire::SyncState{Tag(0), held.state->id, id(0), false, std::nullopt});
  CHECK(member->state()->id.round == RoundId{0});
  wire::Receipt receipt = held.commit.receipt;
  receipt.start_theta = member->state()->id.theta;
  const auto signed_here = AskFor<wire::Signed>(wire::Propose{receipt});
  CHECK(VerifySignature(receipt, kSubmission, signed_here.signature, id(1)).ok());
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 1})});
  CHECK(member->state()->id == held.state->id);
}

Task<absl::StatusOr<std::optional<Buffer>>> Fetch(sim::SimTransport* from, NodeId to, wire::FetchState fetch) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream =
      co_await from->Open(to, JobMember::StateMethod(kJob), net::Priority::kBulk, absl::Seconds(5));
  GDF_CHECK(stream.ok());
  Buffer request = wire::EncodeFetchState(fetch);
  (void)co_await (*stream)->Send(std::move(request));
  (*stream)->Finish();
  absl::StatusOr<std::optional<Buffer>> got = co_await (*stream)->Receive(absl::Seconds(5));
  co_return got;
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
