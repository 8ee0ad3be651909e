#include "fixture.h"

namespace gdf::state {
namespace {

using absl::StatusCode;
using trust::Role;

std::vector<NodeId> Coordinators(World& w) { return w.state->network()->coordinators; }

TEST_CASE("an admin chooses up to five coordinators among the members") {
  World w;
  w.Found();
  for (const std::string node : {"a", "b", "d", "e", "f"}) w.Admit(node, {Role::kContributor});
  CHECK(w.state->coordinators_since() == 1);
  w.Refused("a", wire::AddCoordinator{IdOf("a")}, StatusCode::kPermissionDenied, "choose the coordinators");
  w.Refused("c", wire::AddCoordinator{IdOf("x")}, StatusCode::kNotFound, "");
  w.Refused("c", wire::AddCoordinator{IdOf("c")}, StatusCode::kAlreadyExists, "is a coordinator already");
  for (const std::string node : {"a", "b", "d", "e"}) {
    REQUIRE(w.Do("c", wire::AddCoordinator{IdOf(node)}).ok());
    CHECK(w.state->coordinators_since() == w.state->last_applied());
    CHECK(w.state->member(IdOf(node))->coordinator);
  }
  CHECK(Coordinators(w).size() == 5);
  w.Refused("c", wire::AddCoordinator{IdOf("f")}, StatusCode::kResourceExhausted, "there are 5 coordinators");
  w.Refused("c", wire::RemoveCoordinator{IdOf("f")}, StatusCode::kFailedPrecondition, "is no coordinator");
  for (const std::string node : {"c", "a", "b", "d"}) REQUIRE(w.Do("c", wire::RemoveCoordinator{IdOf(node)}).ok());
  CHECK(Coordinators(w) == std::vector<NodeId>{IdOf("e")});
  w.Refused("c", wire::RemoveCoordinator{IdOf("e")}, StatusCode::kFailedPrecondition, "is the only coordinator");
}

TEST_CASE("a coordinator is neither removed from the network nor given another key while there are others") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  REQUIRE(w.Do("c", wire::AddCoordinator{IdOf("a")}).ok());
  w.Refused("c", wire::RemoveNode{IdOf("a"), ""}, StatusCode::kFailedPrecondition, "gdfctl coordinator remove a first");
  const std::string record = trust::KeyRotation::Make(w.state->network()->id, KeyOf("a"), KeyOf("a2"), w.now_ms());
  w.Refused("a", wire::RotateKey{record}, StatusCode::kFailedPrecondition, "is one of 2 coordinators");
  REQUIRE(w.Do("c", wire::RemoveCoordinator{IdOf("a")}).ok());
  CHECK(w.Do("a", wire::RotateKey{record}).ok());
}

TEST_CASE("a coordinator recovers the network alone, nobody else does") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  w.Admit("b", {Role::kAdmin});
  REQUIRE(w.Do("c", wire::AddCoordinator{IdOf("a")}).ok());
  w.Refused("b", wire::RecoverNetwork{}, StatusCode::kPermissionDenied, "only a coordinator");
  REQUIRE(w.Do("a", wire::RecoverNetwork{}).ok());
  CHECK(Coordinators(w) == std::vector<NodeId>{IdOf("a")});
  CHECK(w.state->coordinators_since() == w.state->last_applied());
}

TEST_CASE("what is tried changes nothing, and each command sees those before it") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  const Digest digest = *w.state->StateDigest();
  const uint64_t last = w.state->last_applied();
  const auto command = [&w](uint8_t id, wire::CommandBody body) {
    wire::Command made;
    made.request[0] = id;
    made.actor = IdOf("c");
    made.at_unix_ms = w.now_ms();
    made.body = std::move(body);
    return made;
  };
  const auto outcomes = w.state->Try({command(1, wire::SetRole{IdOf("a"), 7}), command(2, wire::RemoveCoordinator{IdOf("c")}),
                                      command(1, wire::SetRole{IdOf("a"), 7}), command(3, wire::SetRole{IdOf("c"), 4})});
  REQUIRE(outcomes.ok());
  CHECK((*outcomes)[0].entry);
  CHECK_FALSE((*outcomes)[1].entry);  // refused
  CHECK((*outcomes)[1].result.status.code() == StatusCode::kFailedPrecondition);
  CHECK_FALSE((*outcomes)[2].entry);  // a repetition
  CHECK((*outcomes)[2].result.status.ok());
  CHECK((*outcomes)[3].entry);  // "a" is an admin by then
  CHECK(w.state->last_applied() == last);
  CHECK(*w.state->StateDigest() == digest);
  CHECK(w.Do("c", wire::SetRole{IdOf("c"), 4}).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("promises are kept over a restart, and begin anew with other coordinators") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  const Digest digest = *w.state->StateDigest();
  REQUIRE(w.state->SaveVote(7, IdOf("a")).ok());
  wire::Command next;
  next.actor = IdOf("c");
  next.at_unix_ms = w.now_ms();
  next.body = wire::SetRole{IdOf("a"), 7};
  REQUIRE(w.state->SaveTail(6, {wire::EncodeCommand(next), "later"}).ok());
  REQUIRE(w.state->Abstain().ok());
  CHECK(*w.state->StateDigest() == digest);
  Ballot ballot = *w.state->ballot();
  CHECK(ballot.term == 7);
  CHECK(ballot.vote == IdOf("a"));
  CHECK(ballot.accepted == 6);
  CHECK(ballot.tail == std::vector<std::string>{wire::EncodeCommand(next), "later"});
  CHECK(ballot.abstains);
  // What is applied is in the log, and in the tail no more.
  REQUIRE(w.state->Apply(w.state->last_applied() + 1, wire::EncodeCommand(next)).ok());
  CHECK(w.state->ballot()->tail == std::vector<std::string>{"later"});
  REQUIRE(w.Do("c", wire::AddCoordinator{IdOf("a")}).ok());
  ballot = *w.state->ballot();
  CHECK(ballot.term == 0);
  CHECK_FALSE(ballot.vote);
  CHECK(ballot.accepted == 0);
  CHECK(ballot.tail.empty());
  CHECK_FALSE(ballot.abstains);
}

TEST_CASE("a copy that another node takes over has not promised what that node has") {
  World w;
  w.Found();
  REQUIRE(w.state->SetKeeper(IdOf("c")).ok());
  REQUIRE(w.state->SetKeeper(IdOf("c")).ok());
  CHECK_FALSE(w.state->ballot()->abstains);
  REQUIRE(w.state->SetKeeper(IdOf("a")).ok());
  CHECK(w.state->ballot()->abstains);
}

}  // namespace
}  // namespace gdf::state
