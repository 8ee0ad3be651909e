#include <catch2/catch.hpp>

#include "tests/unit/rounds/one_member.h"

namespace gdf::rounds {
namespace {

bool Says(const absl::Status& status, std::string_view text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// --- Who may ask, and when ---

TEST_CASE_METHOD(OneMember, "a request is taken from the lead of the newest epoch only") {
  REQUIRE(started.ok());
  const wire::Enter enter{kJob, first};
  SECTION("before the coordinators said so") {
    const absl::Status status = Ask(enter).status();
    CHECK(absl::IsUnavailable(status));
    CHECK(Says(status, "epoch 1 is not known here yet"));
  }
  SECTION("not from another member, nor from a node that is none") {
    member->SetEpoch(first);
    for (const int from : {2, 3}) {
      const absl::Status status = Ask(enter, from).status();
      CHECK(absl::IsPermissionDenied(status));
      CHECK(Says(status, id(from).Short() + " is not the lead of epoch 1"));
    }
  }
  SECTION("not for another job") {
    member->SetEpoch(first);
    CHECK(absl::IsInvalidArgument(Ask(wire::Enter{JobId{8}, first}).status()));
  }
  SECTION("not with other members than the coordinators opened it with") {
    member->SetEpoch(first);
    wire::EpochRecord forged = first;
    forged.members.pop_back();
    CHECK(absl::IsInvalidArgument(Ask(wire::Enter{kJob, forged}).status()));
  }
  SECTION("not for an epoch that was not entered") {
    member->SetEpoch(first);
    const absl::Status status = Ask(Plan()).status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(Says(status, "epoch 1 was not entered here"));
  }
  SECTION("not for an epoch that is over") {
    EnterFirst();
    member->SetEpoch({Epoch{2}, id(0), {id(0), id(1)}});
    const absl::Status status = Ask(Plan()).status();
    CHECK(absl::IsAborted(status));
    CHECK(Says(status, "epoch 1 is over; now is epoch 2"));
  }
  SECTION("and must be a request at all") {
    member->SetEpoch(first);
    absl::StatusOr<Buffer> reply = Run(transports[0]->Call(id(1), JobMember::Method(kJob),
                                                           Buffer(std::string("\xff\x01garbage")), absl::Seconds(9)));
    CHECK(absl::IsInvalidArgument(reply.status()));
    CHECK(Says(reply.status(), "from node " + id(0).Short()));
  }
}

TEST_CASE_METHOD(OneMember, "entering an epoch is a promise that outlives a restart") {
  EnterFirst();
  const wire::EpochRecord second{Epoch{2}, id(0), {id(0), id(1)}};
  member->SetEpoch(second);
  const auto reply = AskFor<wire::EnterReply>(wire::Enter{kJob, second});
  CHECK(reply.committed == member->state()->id);
  CHECK_FALSE(reply.commit);
  CHECK_FALSE(reply.prepared);
  CHECK(reply.previous == first);
  CHECK(reply.num_params == kParams);
  coordinator.opened[Epoch{2}] = {id(0), id(1)};
  StartMember();
  member->SetEpoch(first);  // from a stale replica: ignored
  CHECK(absl::IsUnavailable(Ask(wire::Enter{kJob, first}).status()));
  // The lead of the second epoch never began to train: one of the third must still ask the first's members.
  const wire::EpochRecord third{Epoch{3}, id(0), {id(0), id(1)}};
  member->SetEpoch(third);
  CHECK(AskFor<wire::EnterReply>(wire::Enter{kJob, third}).previous == first);
}

TEST_CASE_METHOD(OneMember, "a whole checkpoint of another job with this number is passed over") {
  EnterFirst();
  const wire::StateId initial = member->state()->id;
  const checkpoint::OuterStatePtr other = OtherState(80);
  wire::Receipt receipt;
  receipt.tag = {kJob, first.epoch, RoundId{79}, 1};
  receipt.voters = first.members;
  receipt.contributions = {{id(1), 64}};
  receipt.result = other->id;
  const Digest elsewhere = HashBytes("another submission");
  wire::Commit commit{receipt, {}};
  for (const int signer : {0, 1, 2}) commit.signatures.push_back(SignReceipt(keys[signer], elsewhere, receipt));
  const wire::EpochRecord later{Epoch{9}, id(2), first.members};
  SECTION("with its epoch") {
    REQUIRE(store->Commit(*other, commit).ok());
    REQUIRE(store->SaveEpoch(later, first).ok());
    coordinator.opened[later.epoch] = later.members;
  }
  SECTION("without a commit") { REQUIRE(store->Commit(*other, std::nullopt).ok()); }
  SECTION("of an epoch that was not opened here") {
    commit.receipt.tag.epoch = later.epoch;
    REQUIRE(store->Commit(*other, commit).ok());
  }
  bool told = true;
  SECTION("an epoch alone") {
    REQUIRE(store->SaveEpoch(later, first).ok());
    told = false;
  }
  coordinator.events.clear();
  StartMember();
  REQUIRE(started.ok());
  CHECK(member->state()->id == initial);
  member->SetEpoch(first);
  const auto reply = AskFor<wire::EnterReply>(wire::Enter{kJob, first});
  CHECK(reply.committed == initial);
  CHECK_FALSE(reply.commit);
  CHECK_FALSE(reply.previous);
  AskFor<wire::RoundReport>(Plan());
  if (!told) return;
  REQUIRE_FALSE(coordinator.events.empty());
  CHECK(coordinator.events.front().find("passed over the checkpoint of round 80, which is not this job's: ") == 0);
}

TEST_CASE_METHOD(OneMember, "an epoch whose lead trains has taken over from the one before it") {
  EnterFirst();
  AskFor<wire::RoundReport>(Plan());
  const wire::EpochRecord second{Epoch{2}, id(0), {id(0), id(1)}};
  member->SetEpoch(second);
  CHECK(AskFor<wire::EnterReply>(wire::Enter{kJob, second}).previous == first);
  first = second;
  AskFor<wire::RoundReport>(Plan());
  const wire::EpochRecord third{Epoch{3}, id(0), {id(0), id(1)}};
  member->SetEpoch(third);
  CHECK(AskFor<wire::EnterReply>(wire::Enter{kJob, third}).previous == second);
}

TEST_CASE_METHOD(OneMember, "an epoch without this node ends the job here") {
  EnterFirst();
  member->SetEpoch({Epoch{2}, id(0), {id(0), id(2)}});
  const absl::Status end = Run(member->WaitForEnd());
  CHECK(absl::IsAborted(end));
  CHECK(Says(end, "not a member of j7 from epoch 2 on"));
}

// --- Steps 1 to 6 ---

TEST_CASE_METHOD(OneMember, "a plan must start from what is held here and have the job's steps") {
  EnterFirst();
  wire::RoundPlan plan = Plan();
  SECTION("another digest") {
    plan.start_theta = HashBytes("other");
    const absl::Status status = Ask(plan).status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(Says(status, plan.start_theta.Short()));
    CHECK(Says(status, member->state()->id.theta.Short()));
  }
  SECTION("another round") {
    plan.tag.round = RoundId{1};
    CHECK(absl::IsFailedPrecondition(Ask(plan).status()));
  }
  SECTION("more steps") {
    plan.until_step = 3;
    CHECK(absl::IsInvalidArgument(Ask(plan).status()));
  }
  SECTION("steps of another round") {
    plan.from_step = 2;
    plan.until_step = 4;
    CHECK(absl::IsInvalidArgument(Ask(plan).status()));
  }
  CHECK(journal.empty());
}

TEST_CASE_METHOD(OneMember, "a plan that is repeated is trained once") {
  EnterFirst();
  const auto report = AskFor<wire::RoundReport>(Plan());
  CHECK(report.refused.empty());
  CHECK(report.steps == 2);
  CHECK(report.tokens == 2 * 32);
  CHECK(report.cursor == wire::DataCursor{0, 6});
  const std::vector<Buffer>& packed = journal.at({id(1), RoundId{0}});
  CHECK(report.packed == MerkleRoot(packed.at(0).span()));
  CHECK(AskFor<wire::RoundReport>(Plan()) == report);
  CHECK(packed.size() == 1);
}

// --- Steps 7 and 9 ---

TEST_CASE_METHOD(OneMember, "an exchange must be of this round, name this node, and not be superseded") {
  EnterFirst();
  const auto report = AskFor<wire::RoundReport>(Plan());
  wire::ExchangeStart start{Tag(0, 5), {{id(0), 0}, {id(1), report.tokens}}, absl::Seconds(30)};
  SECTION("not named") {
    start.members[1].node = id(2);
    CHECK(absl::IsInvalidArgument(Ask(start).status()));
  }
  SECTION("with tokens it did not train on") {
    start.members[1].tokens += 1;
    CHECK(absl::IsFailedPrecondition(Ask(start).status()));
  }
  SECTION("of another round") {
    start.tag.round = RoundId{1};
    CHECK(absl::IsAborted(Ask(start).status()));
  }
  SECTION("a second pass, where rounds have one") {
    start.first_pass = HashBytes("factors");
    const absl::Status status = Ask(start).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Says(status, "have one pass"));
  }
  SECTION("an older attempt") {
    CHECK(ExchangeAs(start, Buffer()).failure.empty());
    start.tag.attempt = 4;
    CHECK(absl::IsAborted(Ask(start).status()));
  }
  SECTION("repeated, it is answered from what is held") {
    const wire::Prepared prepared = ExchangeAs(start, Buffer());
    CHECK(AskFor<wire::Prepared>(start) == prepared);
  }
  SECTION("without the others it fails by its deadline and names who is missing") {
    const auto prepared = AskFor<wire::Prepared>(start);
    CHECK(prepared.lost == std::vector<NodeId>{id(0)});
    CHECK(prepared.failure.find(id(0).Short()) != std::string::npos);
  }
}

struct TwoPassMember : OneMember {
  TwoPassMember() {
    spec.rounds.rank = 2;
    worker_options.has_matrix = true;
    worker_options.projections = &projections;
    StartMember();
  }
  sim::ProjectionJournal projections;
};

TEST_CASE_METHOD(TwoPassMember, "a second pass must follow the first pass that is held here, and is made of it") {
  REQUIRE(started.ok());
  EnterFirst();
  const auto low_rank = *compress::LowRank::Create(sim::SimWorker::Loaded(worker_options).layout, 2);
  const absl::Span<const float> momentum = member->state()->momentum.span();
  CHECK(momentum.size() == worker_options.num_params + low_rank.num_right());
  const auto report = AskFor<wire::RoundReport>(Plan());
  wire::ExchangeStart start{Tag(0, 1), {{id(1), report.tokens}}, absl::Seconds(30)};
  const auto first = AskFor<wire::Prepared>(start);
  CHECK(first.failure.empty());
  CHECK(first.result.theta == MerkleRoot(journal.at({id(1), RoundId{0}}).at(0).span()));  // of one member alone
  CHECK(AskFor<wire::Prepared>(start) == first);
  start.tag.attempt = 2;
  start.first_pass = HashBytes("other");
  const absl::Status status = Ask(start).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(Says(status, start.first_pass->Short()));
  CHECK(projections.empty());
  start.first_pass = first.result.theta;
  const auto second = AskFor<wire::Prepared>(start);
  CHECK(second.failure.empty());
  CHECK(second.result.round == RoundId{1});
  CHECK(AskFor<wire::Prepared>(start) == second);
  start.tag.attempt = 3;  // of what the worker has made already
  CHECK(AskFor<wire::Prepared>(start).result == second.result);
  CHECK(projections.at({id(1), RoundId{0}}).size() == 1);
}

TEST_CASE_METHOD(TwoPassMember, "a node's checkpoint that has no factors is none of a job that needs them") {
  EnterFirst();
  spec.rounds.rank = 0;
  StartMember();
  REQUIRE(started.ok());
  CHECK(member->state()->momentum.size() == worker_options.num_params);
}

// --- Signing, step 10, step 8 ---

TEST_CASE_METHOD(OneMember, "only a receipt of the result that is held here is signed") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  REQUIRE(prepared.failure.empty());
  wire::Receipt receipt = ReceiptFor(prepared, {{id(1), 64}});
  SECTION("other voters") {
    receipt.voters.pop_back();
    CHECK(absl::IsInvalidArgument(Ask(wire::Propose{receipt}).status()));
  }
  SECTION("another digest") {
    receipt.result.theta = HashBytes("other");
    const absl::Status status = Ask(wire::Propose{receipt}).status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(Says(status, "result of round 1 is not the receipt's"));
  }
  SECTION("another momentum") {
    receipt.result.momentum = HashBytes("other");
    CHECK(absl::IsFailedPrecondition(Ask(wire::Propose{receipt}).status()));
  }
  SECTION("another start") {
    receipt.start_theta = HashBytes("other");
    CHECK(absl::IsFailedPrecondition(Ask(wire::Propose{receipt}).status()));
  }
  SECTION("tokens that this node did not train on") {
    receipt.contributions[0].tokens = 65;
    CHECK(absl::IsInvalidArgument(Ask(wire::Propose{receipt}).status()));
  }
  SECTION("contributions that were not in the mean") {
    if (GENERATE(false, true)) {
      receipt.contributions = {{id(0), 64}, {id(1), 64}};
    } else {
      receipt.contributions.clear();
    }
    const absl::Status status = Ask(wire::Propose{receipt}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(Says(status, "names other contributions than its exchange had"));
  }
  SECTION("codecs that the job does not have") {
    (GENERATE(false, true) ? receipt.codec : receipt.next_codec) = 1;
    CHECK(absl::IsInvalidArgument(Ask(wire::Propose{receipt}).status()));
  }
  SECTION("from another node than the lead") {
    CHECK(absl::IsPermissionDenied(Ask(wire::Propose{receipt}, 2).status()));
  }
  CHECK_FALSE(disk.Exists("/state/prepared-0000000000000001"));
}

struct FragmentMember : OneMember {
  FragmentMember() : OneMember(2 * train::Fragments::kUnit) {
    spec.rounds.inner_steps = 4;
    spec.rounds.fragments = 2;
    worker_options.fragments = 2;
    StartMember();
    EnterFirst();
  }
  wire::Receipt TrainAlone() {
    const auto report = AskFor<wire::RoundReport>(Plan());
    const wire::ExchangeStart start{Tag(member->state()->id.round.value), {{id(1), report.tokens}}, absl::Seconds(30)};
    const auto prepared = AskFor<wire::Prepared>(start);
    wire::Receipt receipt = ReceiptFor(prepared, start.members);
    receipt.fragment = prepared.fragment;
    return receipt;
  }
  Digest HeldHere(uint64_t fragment) const {
    const train::Fragments fragments = *train::Fragments::Create(worker_options.num_params, 2);
    return MerkleRoot(tensor::AsBytes(fragments.Slice(member->state()->theta.span(), fragment)));
  }
};

TEST_CASE_METHOD(FragmentMember, "a receipt names the digest of the fragment that its round exchanged") {
  const Digest second = HeldHere(1);
  wire::Receipt receipt = TrainAlone();
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 1})});
  CHECK(receipt.fragment == HeldHere(0));
  CHECK(HeldHere(1) == second);
  receipt = TrainAlone();
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 1})});
  CHECK(receipt.fragment == HeldHere(1));
  CHECK(HeldHere(1) != second);
}

TEST_CASE_METHOD(FragmentMember, "a receipt with another digest of the fragment is not signed, and said to be so") {
  wire::Receipt receipt = TrainAlone();
  std::string differs = "result of round 1 is not the receipt's: they differ in fragment 1 of 2";
  SECTION("another") { receipt.fragment = HashBytes("other"); }
  SECTION("none") { receipt.fragment = {}; }
  SECTION("with all of theta") {
    receipt.fragment = HashBytes("other");
    receipt.result.theta = HashBytes("other");
  }
  SECTION("what differs is elsewhere") {
    receipt.result.theta = HashBytes("other");
    differs = "they differ in theta outside of fragment 1 of 2";
  }
  SECTION("or is not theta") {
    receipt.result.momentum = HashBytes("other");
    differs = "they differ in the outer momentum";
  }
  const absl::Status proposed = Ask(wire::Propose{receipt}).status();
  CHECK(absl::IsFailedPrecondition(proposed));
  CHECK(Says(proposed, differs));
  const absl::Status committed = Ask(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 2})}).status();
  CHECK(absl::IsFailedPrecondition(committed));
  CHECK(Says(committed, differs));
}

TEST_CASE_METHOD(FragmentMember, "a receipt that names no fragment, signed by an earlier release, is finished") {
  wire::Receipt receipt = TrainAlone();
  AskFor<wire::Signed>(wire::Propose{receipt});
  checkpoint::Loaded loaded = *store->Load();
  wire::Receipt old = receipt;
  old.fragment = {};
  REQUIRE(store->Prepare(*loaded.shadow, old).ok());
  StartMember();
  member->SetEpoch(first);
  CHECK(AskFor<wire::EnterReply>(wire::Enter{kJob, first}).prepared == receipt);
  AskFor<wire::Signed>(wire::Propose{receipt});
}

TEST_CASE_METHOD(FragmentMember, "a fetched result is signed by the digest of its fragment") {
  auto other = std::make_shared<checkpoint::OuterState>();
  other->theta = *tensor::FlatBuffer::Zeros(worker_options.num_params);
  other->momentum = *tensor::FlatBuffer::Zeros(worker_options.num_params);
  other->theta.span()[0] = 3;
  other->id.round = RoundId{1};
  checkpoint::Identify(*other);
  ServeStateFrom(2, other);
  AskFor<wire::Done>(wire::SyncState{Tag(), other->id, {id(2)}, false, std::nullopt});
  wire::Prepared prepared;
  prepared.tag = Tag();
  prepared.result = other->id;
  wire::Receipt receipt = ReceiptFor(prepared, {{id(0), 9}});
  CHECK(Says(Ask(wire::Propose{receipt}).status(), "they differ in fragment 1 of 2"));
  receipt.fragment = MerkleRoot(tensor::AsBytes(other->theta.span().subspan(0, train::Fragments::kUnit)));
  AskFor<wire::Signed>(wire::Propose{receipt});
}

TEST_CASE_METHOD(OneMember, "what is signed is on disk first, and outlives a restart") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  const wire::Receipt receipt = ReceiptFor(prepared, {{id(1), 64}});
  const auto signed_here = AskFor<wire::Signed>(wire::Propose{receipt});
  CHECK(VerifySignature(receipt, kSubmission, signed_here.signature, id(1)).ok());
  StartMember();
  member->SetEpoch(first);
  const auto entered = AskFor<wire::EnterReply>(wire::Enter{kJob, first});
  CHECK(entered.prepared == receipt);
  CHECK(entered.committed.round == RoundId{0});
  // A commit finds the shadow where the restart left it.
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 1})});
  CHECK(member->state()->id == receipt.result);
}

TEST_CASE_METHOD(OneMember, "a disk that is full is not signed for") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  disk.set_capacity_bytes(disk.used_bytes());
  CHECK(absl::IsResourceExhausted(Ask(wire::Propose{ReceiptFor(prepared, {{id(1), 64}})}).status()));
  REQUIRE_FALSE(coordinator.events.empty());
  CHECK(coordinator.events.back().find("cannot save the result of round 1 and so not sign it") == 0);
}

TEST_CASE_METHOD(OneMember, "a commit needs the signatures of a majority") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  const wire::Receipt receipt = ReceiptFor(prepared, {{id(1), 64}});
  const wire::StateId before = member->state()->id;
  wire::CommitRound commit{receipt.tag, CommitBy(receipt, {0, 1})};
  SECTION("one of three") {
    commit.commit.signatures.pop_back();
    CHECK(absl::IsPermissionDenied(Ask(commit).status()));
  }
  SECTION("one of three twice") {
    commit.commit.signatures[1] = commit.commit.signatures[0];
    CHECK(absl::IsPermissionDenied(Ask(commit).status()));
  }
  SECTION("one of three and a stranger") {
    commit.commit = CommitBy(receipt, {0, 3});
    CHECK(absl::IsPermissionDenied(Ask(commit).status()));
  }
  SECTION("signatures of another receipt") {
    wire::Receipt other = receipt;
    other.result.cursor.position += 1;
    commit.commit.signatures = CommitBy(other, {0, 1}).signatures;
    CHECK(absl::IsPermissionDenied(Ask(commit).status()));
  }
  SECTION("of another epoch") {
    commit.commit.receipt.tag.epoch = Epoch{2};
    commit.commit = CommitBy(commit.commit.receipt, {0, 1});
    CHECK(absl::IsInvalidArgument(Ask(commit).status()));
  }
  SECTION("of another result") {
    commit.commit.receipt.result.theta = HashBytes("other");
    commit.commit = CommitBy(commit.commit.receipt, {0, 1});
    CHECK(absl::IsFailedPrecondition(Ask(commit).status()));
  }
  CHECK(member->state()->id == before);
}

TEST_CASE_METHOD(OneMember, "a committed contribution settles the residual; repeated commits change nothing") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  const wire::Receipt receipt = ReceiptFor(prepared, {{id(1), 64}});
  const wire::CommitRound commit{receipt.tag, CommitBy(receipt, {0, 2})};
  AskFor<wire::Done>(commit);
  CHECK(member->state()->id == receipt.result);
  AskFor<wire::Done>(commit);
  executor.RunUntil([] { return false; }, absl::Seconds(5));
  CHECK(worker->settled == std::vector<std::pair<RoundId, train::Settlement>>{{RoundId{0}, train::Settlement::kApplied}});
  // θ, momentum and inner state are on disk, under the committed round.
  const checkpoint::Loaded loaded = *store->Load();
  CHECK(loaded.committed->id == receipt.result);
  CHECK(loaded.commit == commit.commit);
  CHECK(loaded.worker_round == RoundId{1});
}

TEST_CASE_METHOD(OneMember, "a contribution that was left out is carried on") {
  EnterFirst();
  AskFor<wire::RoundReport>(Plan());
  std::vector<float> delta(kParams, 0.5f);
  const auto codec = *compress::Codec::Create(*compress::CodecSpec::Parse("fp32"));
  std::vector<uint8_t> packed(codec->PackedSize(kParams));
  codec->Encode(delta, absl::MakeSpan(packed));
  const wire::Prepared prepared =
      ExchangeAs({Tag(), {{id(0), 9}, {id(1), 0}}, absl::Seconds(30)}, Buffer(std::move(packed)));
  REQUIRE(prepared.failure.empty());
  const wire::Receipt receipt = ReceiptFor(prepared, {{id(0), 9}});
  const std::vector<float> before(member->state()->theta.span().begin(), member->state()->theta.span().end());
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, CommitBy(receipt, {0, 2})});
  executor.RunUntil([] { return false; }, absl::Seconds(5));
  CHECK(worker->settled == std::vector<std::pair<RoundId, train::Settlement>>{{RoundId{0}, train::Settlement::kKept}});
  // m' = Δ, θ' = θ − lr (Δ + μ m') with lr 0.7, μ 0.9, Δ = 0.5
  const float step = 0.7f * (0.5f + 0.9f * 0.5f);
  for (uint64_t i = 0; i < kParams; ++i) CHECK(member->state()->theta.span()[i] == before[i] - step);
}

// --- States from others ---

TEST_CASE_METHOD(OneMember, "a state is installed with a commit by its epoch's recorded members, or as the first") {
  EnterFirst();
  const checkpoint::OuterStatePtr other = OtherState(2);
  ServeStateFrom(0, other);
  wire::Receipt receipt;
  receipt.tag = Tag(1);
  receipt.voters = first.members;
  receipt.result = other->id;
  wire::SyncState sync{Tag(), other->id, {id(0)}, true, CommitBy(receipt, {0, 2})};
  const wire::StateId before = member->state()->id;
  SECTION("as the record has it") {
    AskFor<wire::Done>(sync);
    CHECK(member->state()->id == other->id);
  }
  SECTION("not with voters of the lead's choice") {
    receipt.voters = {id(0)};
    sync.commit = CommitBy(receipt, {0});
    const absl::Status status = Ask(sync).status();
    CHECK(absl::IsPermissionDenied(status));
    CHECK(Says(status, "the voters of j7 epoch 1 round 2 attempt 1 are not the epoch's members"));
    CHECK(member->state()->id == before);
  }
  SECTION("not of an epoch that was never opened") {
    receipt.tag.epoch = Epoch{9};
    sync.commit = CommitBy(receipt, {0, 2});
    CHECK(absl::IsNotFound(Ask(sync).status()));
    CHECK(member->state()->id == before);
  }
  SECTION("not without a commit") {
    sync.commit.reset();
    CHECK(absl::IsInvalidArgument(Ask(sync).status()));
    CHECK(member->state()->id == before);
  }
  SECTION("the first parameters are the lead's") {
    const checkpoint::OuterStatePtr initial = OtherState(0);
    registrations.clear();
    ServeStateFrom(0, initial);
    AskFor<wire::Done>(wire::SyncState{Tag(), initial->id, {id(0)}, true, std::nullopt});
    CHECK(member->state()->id == initial->id);
  }
}

TEST_CASE_METHOD(OneMember, "what is committed here is not taken back by the lead's word") {
  EnterFirst();
  const wire::Prepared prepared = TrainAndExchange();
  const wire::Receipt receipt = ReceiptFor(prepared, {{id(1), 64}});
  const wire::Commit commit = CommitBy(receipt, {0, 1});
  AskFor<wire::Done>(wire::CommitRound{receipt.tag, commit});
  const checkpoint::OuterStatePtr initial = OtherState(0);
  ServeStateFrom(0, initial);
  const absl::Status status =
      Ask(wire::SyncState{Tag(), initial->id, {id(0)}, true, std::nullopt}).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(Says(status, "round 0 comes before round 1, which is committed here"));
  CHECK(served == 0);
  CHECK(member->state()->id == receipt.result);
}

TEST_CASE_METHOD(OneMember, "a lead does not take a member's word for a state that no epoch committed") {
  const wire::EpochRecord mine{Epoch{1}, id(1), first.members};
  const checkpoint::OuterStatePtr other = OtherState(2);
  ServeStateFrom(2, other);
  std::vector<wire::RoundPlan> plans;
  for (const int node : {0, 2}) {
    registrations.push_back(transports[node]->HandleCall(
        JobMember::Method(kJob), [&, node](NodeId, Buffer request) -> Task<absl::StatusOr<Buffer>> {
          const wire::RoundRequest decoded = *wire::DecodeRoundRequest(request.span());
          if (const auto* plan = std::get_if<wire::RoundPlan>(&decoded)) plans.push_back(*plan);
          if (!std::holds_alternative<wire::Enter>(decoded)) co_return absl::AbortedError("enough");
          wire::EnterReply reply;
          reply.committed = member->state()->id;
          reply.num_params = kParams;
          if (node == 2) {
            wire::Receipt receipt;
            receipt.tag = Tag(1);
            receipt.voters = {id(2)};
            receipt.result = reply.committed = other->id;
            reply.commit = CommitBy(receipt, {2});
          }
          co_return wire::EncodeRoundReply(wire::RoundReply(reply));
        }));
  }
  member->SetEpoch(mine);
  REQUIRE(executor.RunUntil([&] { return !plans.empty(); }, absl::Minutes(5)));
  CHECK(plans[0].tag.round == RoundId{0});
  CHECK(plans[0].start_theta == member->state()->id.theta);
  CHECK(served == 0);
}

// --- Ends ---

TEST_CASE_METHOD(OneMember, "the job's end is taken from the lead, and not too early") {
  EnterFirst();
  const absl::Status early = Ask(wire::EndJob{Tag(), ""}).status();
  CHECK(absl::IsFailedPrecondition(early));
  CHECK(Says(early, "here is round 0 of 2"));
  AskFor<wire::Done>(wire::EndJob{Tag(), "no member has a delta"});
  const absl::Status end = Run(member->WaitForEnd());
  CHECK(absl::IsFailedPrecondition(end));
  CHECK(Says(end, "no member has a delta"));
  CHECK(Says(Ask(Plan()).status(), "j7 has ended on this node"));
}

TEST_CASE_METHOD(OneMember, "a lead that is silent is reported, once a while") {
  EnterFirst();
  transports[0]->Mute();
  executor.RunUntil([&] { return coordinator.requests.size() == 2; }, absl::Hours(2));
  REQUIRE(coordinator.requests.size() == 2);
  CHECK(coordinator.requests[0].job == kJob);
  CHECK(coordinator.requests[0].current == Epoch{1});
  CHECK(coordinator.requests[0].lost == std::vector<NodeId>{id(0)});
  const size_t day = absl::Hours(24) / RoundTimings().epoch;
  executor.RunUntil([] { return false; }, absl::Hours(24));
  CHECK(coordinator.requests.size() > day / 2);
  CHECK(coordinator.requests.size() < 2 * day);
  CHECK(member->progress().activity == "asking for another lead");  // it has not given up
}

TEST_CASE_METHOD(OneMember, "a lead that crashes is reported soon") {
  EnterFirst();
  transports[0].reset();
  const absl::Duration begin = executor.Monotonic();
  executor.RunUntil([&] { return !coordinator.requests.empty(); }, absl::Minutes(2));
  REQUIRE(coordinator.requests.size() == 1);
  CHECK(coordinator.requests[0].lost == std::vector<NodeId>{id(0)});
  CHECK(executor.Monotonic() - begin < absl::Seconds(31));
}

}  // namespace
}  // namespace gdf::rounds
