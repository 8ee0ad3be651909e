#include "fixture.h"

namespace gdf::state {
namespace {

using absl::StatusCode;
using trust::Role;
using trust::RoleSet;

TEST_CASE("creating a network makes its coordinator the first member") {
  World w;
  CHECK_FALSE(w.state->has_network());
  CHECK(absl::IsNotFound(w.state->network().status()));
  CHECK_FALSE(w.Do("c", w.Invite("i", {Role::kAdmin})).ok());
  CHECK(w.state->last_applied() == 0);  // a log does not start with anything else
  w.Found();
  const Network network = *w.state->network();
  CHECK(network.genesis.name == "my-net");
  CHECK(network.id == trust::NetworkIdOf(GenesisRecord()));
  CHECK(network.coordinators == std::vector<NodeId>{IdOf("c")});
  const Member member = *w.state->member(IdOf("c"));
  CHECK(member.coordinator);
  CHECK(member.roles == RoleSet::All());
  CHECK(member.profile == ProfileOf("c"));
  CHECK(member.public_key == KeyOf("c").public_key());
  CHECK(member.joined_unix_ms == w.now_ms());
  w.Refused("c", wire::CreateNetwork{GenesisRecord(), ProfileOf("c")}, StatusCode::kAlreadyExists, "exists already");
}

TEST_CASE("a network is created by the coordinator that its genesis names") {
  World w;
  CHECK(absl::IsPermissionDenied(w.Do("x", wire::CreateNetwork{GenesisRecord(), ProfileOf("x")})));
  std::string forged = GenesisRecord();
  forged[10] ^= 1;
  CHECK_FALSE(w.Do("c", wire::CreateNetwork{forged, ProfileOf("c")}).ok());
  CHECK(w.state->last_applied() == 0);
}

TEST_CASE("an invite admits as many nodes as it says, with its roles") {
  World w;
  w.Found();
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor}, 2)).ok());
  REQUIRE(w.Do("a", w.JoinWith("i", "a")).ok());
  REQUIRE(w.Do("b", w.JoinWith("i", "b")).ok());
  CHECK(w.state->member(IdOf("a"))->roles == RoleSet{Role::kContributor});
  w.Refused("d", w.JoinWith("i", "d"), StatusCode::kPermissionDenied, "was good for 2 nodes and is used up");
  const InviteRecord record = w.state->invites()->at(0);
  CHECK(record.uses == 2);
  CHECK(record.uses_allowed == 2);
  CHECK(record.created_by == IdOf("c"));
  CHECK(w.state->members()->size() == 3);
}

TEST_CASE("a node does not join without a good invite") {
  World w;
  w.Found();
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor}, 10)).ok());
  w.Refused("a", w.JoinWith("unknown", "a"), StatusCode::kPermissionDenied, "has not issued that invite");
  wire::Join join = w.JoinWith("i", "a");
  join.secret_hash = World::SecretHashOf("guess");
  w.Refused("a", join, StatusCode::kPermissionDenied, "altered or forged");
  join = w.JoinWith("i", "a");
  join.network = trust::NetworkIdOf(GenesisRecord("other-net"));
  w.Refused("a", join, StatusCode::kPermissionDenied, "is for another network");
  w.Refused("b", w.JoinWith("i", "a"), StatusCode::kPermissionDenied, "is not that of node");
  w.clock.RunUntilIdle();
  w.clock.PostAfter(absl::Hours(1), [] {});
  w.clock.RunUntilIdle();
  w.Refused("a", w.JoinWith("i", "a"), StatusCode::kPermissionDenied, "expired");
  REQUIRE(w.Do("c", w.Invite("r", {Role::kContributor}, 10)).ok());
  REQUIRE(w.Do("c", wire::RevokeInvite{World::InviteIdOf("r")}).ok());
  w.Refused("a", w.JoinWith("r", "a"), StatusCode::kPermissionDenied, "was revoked");
  CHECK(w.state->members()->size() == 1);
}

TEST_CASE("invites are made and revoked by admins, within the network's policy") {
  World w;
  w.Found();
  w.Admit("s", {Role::kSubmitter});
  w.Refused("s", w.Invite("i", {Role::kAdmin}), StatusCode::kPermissionDenied, "needs the role admin");
  w.Refused("x", w.Invite("i", {Role::kAdmin}), StatusCode::kPermissionDenied, "is not a member");
  wire::CreateInvite invite = w.Invite("i", {Role::kContributor});
  invite.expires_unix_ms = w.now_ms();
  w.Refused("c", invite, StatusCode::kInvalidArgument, "in the past");
  invite.expires_unix_ms = w.now_ms() + int64_t{91} * 24 * 3600 * 1000;
  w.Refused("c", invite, StatusCode::kInvalidArgument, "this network allows at most");
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor})).ok());
  w.Refused("c", w.Invite("i", {Role::kContributor}), StatusCode::kAlreadyExists, "exists already");
  w.Refused("s", wire::RevokeInvite{World::InviteIdOf("i")}, StatusCode::kPermissionDenied, "needs the role admin");
  w.Refused("c", wire::RevokeInvite{World::InviteIdOf("j")}, StatusCode::kNotFound, "there is no invite");
}

TEST_CASE("a full network takes nobody until someone leaves") {
  World w;
  w.Found(2);
  w.Admit("a", {Role::kContributor});
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor}, 5)).ok());
  w.Refused("b", w.JoinWith("i", "b"), StatusCode::kResourceExhausted, "is full");
  REQUIRE(w.Do("a", wire::RemoveNode{IdOf("a"), "leaving"}).ok());
  CHECK(w.Do("b", w.JoinWith("i", "b")).ok());
}

TEST_CASE("a name that is taken gets a number, a removed node's name is free") {
  World w;
  w.Found();
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor}, 9)).ok());
  const auto join = [&](std::string_view node, std::string_view name) {
    wire::Join join = w.JoinWith("i", node);
    join.node.name = std::string(name);
    const auto result = w.Propose(node, join);
    REQUIRE(result->status.ok());
    return result->name;
  };
  CHECK(join("a", "debian") == "debian");
  CHECK(join("b", "debian") == "debian-2");
  CHECK(join("d", "debian") == "debian-3");
  const std::string longest(63, 'n');
  CHECK(join("e", longest) == longest);
  CHECK(join("f", longest) == std::string(61, 'n') + "-2");
  wire::UpdateNode update{ProfileOf("debian")};
  w.Refused("b", update, StatusCode::kAlreadyExists, "another node is called debian");
  REQUIRE(w.Do("a", wire::RemoveNode{IdOf("a"), ""}).ok());
  REQUIRE(w.Do("b", update).ok());
  CHECK(w.state->FindMember("debian")->id == IdOf("b"));
  CHECK(w.state->FindMember(IdOf("d").ToString().substr(0, 8))->id == IdOf("d"));
  CHECK(absl::IsNotFound(w.state->FindMember("nobody").status()));
}

TEST_CASE("a node that is called like another one's id is never taken for it") {
  World w;
  w.Found();
  REQUIRE(w.Do("c", w.Invite("i", {Role::kContributor}, 10)).ok());
  REQUIRE(w.Do("b", w.JoinWith("i", "b")).ok());
  wire::Join join = w.JoinWith("i", "a");
  join.node.name = IdOf("b").ToString().substr(0, 12);
  REQUIRE(w.Do("a", join).ok());
  const absl::Status status = w.state->FindMember(join.node.name).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()).find("give a whole id") != std::string::npos);
  CHECK(w.state->FindMember(IdOf("b").ToString())->id == IdOf("b"));
  CHECK(w.state->FindMember(IdOf("a").ToString())->id == IdOf("a"));
}

TEST_CASE("removal and bans") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  w.Admit("b", {Role::kContributor});
  REQUIRE(w.Do("c", w.Invite("again", {Role::kSubmitter}, 9)).ok());
  w.Refused("a", wire::RemoveNode{IdOf("b"), ""}, StatusCode::kPermissionDenied, "remove a node");
  w.Refused("a", wire::BanNode{IdOf("b"), ""}, StatusCode::kPermissionDenied, "ban a node");
  w.Refused("c", wire::RemoveNode{IdOf("x"), ""}, StatusCode::kNotFound, "is not a member");
  w.Refused("c", wire::RemoveNode{IdOf("c"), ""}, StatusCode::kFailedPrecondition, "is a coordinator");

  REQUIRE(w.Do("c", wire::RemoveNode{IdOf("a"), "idle"}).ok());
  CHECK(w.state->member(IdOf("a"))->status == MemberStatus::kRemoved);
  w.Refused("c", wire::RemoveNode{IdOf("a"), ""}, StatusCode::kFailedPrecondition, "removed already");
  w.Refused("a", wire::UpdateNode{ProfileOf("a")}, StatusCode::kPermissionDenied, "is removed: idle");
  REQUIRE(w.Do("a", w.JoinWith("again", "a")).ok());
  CHECK(w.state->member(IdOf("a"))->roles == RoleSet{Role::kSubmitter});
  w.Refused("a", w.JoinWith("again", "a"), StatusCode::kAlreadyExists, "a member of network my-net already");

  REQUIRE(w.Do("c", wire::BanNode{IdOf("b"), "hostile"}).ok());
  CHECK(absl::IsPermissionDenied(w.state->CheckMember(IdOf("b"), trust::Operation::kReadState)));
  w.Refused("b", w.JoinWith("again", "b"), StatusCode::kPermissionDenied, "banned from network my-net: hostile");
  w.Refused("c", wire::UnbanNode{IdOf("a")}, StatusCode::kFailedPrecondition, "is not banned");
  REQUIRE(w.Do("c", wire::UnbanNode{IdOf("b")}).ok());
  CHECK(w.Do("b", w.JoinWith("again", "b")).ok());
  CHECK(w.state->CheckMember(IdOf("b"), trust::Operation::kReadState).ok());
}

TEST_CASE("roles change, but the last admin stays") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  const wire::SetRole demote{IdOf("c"), RoleSet{Role::kSubmitter}.bits()};
  w.Refused("c", demote, StatusCode::kFailedPrecondition, "is the last admin");
  w.Refused("a", wire::SetRole{IdOf("a"), 1}, StatusCode::kPermissionDenied, "change a node's roles");
  REQUIRE(w.Do("c", wire::SetRole{IdOf("a"), RoleSet{Role::kAdmin}.bits()}).ok());
  REQUIRE(w.Do("a", demote).ok());
  CHECK(w.state->member(IdOf("c"))->roles == RoleSet{Role::kSubmitter});
  w.Refused("a", wire::RemoveNode{IdOf("a"), ""}, StatusCode::kFailedPrecondition, "is the last admin");
  w.Refused("c", wire::SetRole{IdOf("x"), 1}, StatusCode::kPermissionDenied, "change a node's roles");
  w.Refused("a", wire::SetRole{IdOf("x"), 1}, StatusCode::kNotFound, "is not a member");
}

TEST_CASE("a key is replaced everywhere, once, by its owner") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor, Role::kSubmitter});
  const NetworkId network = w.state->network()->id;
  const auto rotation = [&](std::string_view from, std::string_view to, const NetworkId& id) {
    return wire::RotateKey{trust::KeyRotation::Make(id, KeyOf(from), KeyOf(to), w.now_ms())};
  };
  const JobId job = w.Propose("a", World::Submission("t"))->job;
  w.Refused("a", rotation("b", "b2", network), StatusCode::kPermissionDenied, "not of");
  w.Refused("a", rotation("a", "a2", NetworkId(HashBytes("x"))), StatusCode::kPermissionDenied, "another network");
  w.Refused("a", rotation("a", "c", network), StatusCode::kAlreadyExists, "in use");
  wire::RotateKey forged = rotation("a", "a2", network);
  forged.record.back() ^= 1;
  w.Refused("a", forged, StatusCode::kPermissionDenied, "signature");
  REQUIRE(w.Do("c", World::EpochOf(job.value, 1, {"a"})).ok());
  w.Refused("a", rotation("a", "a2", network), StatusCode::kFailedPrecondition, "is taking part in 1 job");
  REQUIRE(w.Do("a", World::Finish(job.value, 1, wire::Verdict::kSucceeded)).ok());
  const JobId waiting = w.Propose("c", World::Submission("u"))->job;  // its input is held by c
  REQUIRE(w.Do("a", rotation("a", "a2", network)).ok());
  CHECK(w.state->member(IdOf("a2"))->profile.name == "a");
  CHECK(w.state->job(job)->owner == IdOf("a2"));
  w.Refused("a", wire::UpdateNode{ProfileOf("a")}, StatusCode::kPermissionDenied, "has replaced its key");
  w.Refused("a2", rotation("a2", "a", network), StatusCode::kAlreadyExists, "in use");
  REQUIRE(w.Do("c", rotation("c", "c2", network)).ok());
  CHECK(w.state->network()->coordinators == std::vector<NodeId>{IdOf("c2")});
  CHECK(w.state->network()->id == network);
  REQUIRE(w.Do("a2", rotation("a2", "a3", network)).ok());
  for (const Job& read : {*w.state->job(job), w.state->jobs()->back()}) {
    CHECK(read.owner == IdOf("a3"));
    CHECK(read.lead == IdOf("a3"));
    CHECK(read.members == std::vector<NodeId>{IdOf("a3")});
  }
  CHECK(w.state->job(waiting)->inputs[0].holder == IdOf("c2"));
  EventFilter of_job;
  of_job.job = job;
  const std::vector<Event> events = *w.state->events(0, of_job);
  CHECK(events.size() > 1);
  for (const Event& event : events) CHECK(event.node == IdOf("a3"));
  // What it signed before, it signed with the key that it had.
  CHECK(*w.state->epoch_members(job, {1}) == std::vector<NodeId>{IdOf("a")});
  w.Refused("a", wire::UpdateNode{ProfileOf("a")}, StatusCode::kPermissionDenied, "has replaced its key");
}

TEST_CASE("a node tells what it has") {
  World w;
  w.Found();
  w.Admit("a", {Role::kContributor});
  wire::NodeProfile profile = ProfileOf("a");
  profile.resources.memory_bytes = 1;
  profile.version = "0.2.0";
  REQUIRE(w.Do("a", wire::UpdateNode{profile}).ok());
  CHECK(w.state->member(IdOf("a"))->profile == profile);
}

}  // namespace
}  // namespace gdf::state
