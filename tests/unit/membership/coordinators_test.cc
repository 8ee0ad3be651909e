// Several coordinators, real transports on loopback.
#include <memory>

#include "tests/support/test_network.h"

namespace gdf::membership {
namespace {

using testing::LoopThread;
using testing::TestMember;
using trust::Role;

// Nodes 1 to 4 of one network; 1 to 3 coordinate, 4 is a member.
class Network {
 public:
  Network() {
    for (int i = 1; i <= 4; ++i) nodes_.push_back(std::make_unique<TestMember>(loop_, i));
    node(1).Found();
    for (int i = 2; i <= 4; ++i) node(i).JoinAs(node(1), {Role::kAdmin, Role::kContributor});
  }
  void Choose(int coordinators) {
    for (int i = 2; i <= coordinators; ++i) {
      const absl::Status added = node(1).Do(wire::AddCoordinator{node(i).id()});
      INFO(added);
      REQUIRE(added.ok());
    }
    AwaitLeader();
  }
  TestMember& node(int i) { return *nodes_.at(static_cast<size_t>(i) - 1); }
  void Lose(int i) { nodes_.at(static_cast<size_t>(i) - 1).reset(); }
  bool Leads(int i) {
    return nodes_.at(static_cast<size_t>(i) - 1) != nullptr &&
           loop_.On([&] { return node(i).membership().coordinator() && node(i).membership().leading(); });
  }
  int AwaitLeader() {
    int leader = 0;
    REQUIRE(loop_.Comes([&] {
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i] && nodes_[i]->membership().coordinator() && nodes_[i]->membership().leading()) {
          leader = static_cast<int>(i) + 1;
        }
      }
      return leader != 0;
    }));
    return leader;
  }
  LoopThread& loop() { return loop_; }
  static wire::JobEvent EventOf(TestMember& node, const std::string& text) {
    return {{}, node.id(), wire::Severity::kInfo, text};
  }
  int Count(int i, const std::string& text) {
    return loop_.On([&] {
      const auto events = node(i).state().events(0);
      REQUIRE(events.ok());
      return static_cast<int>(std::count_if(events->begin(), events->end(),
                                            [&](const state::Event& event) { return event.text == text; }));
    });
  }

 private:
  LoopThread loop_;
  std::vector<std::unique_ptr<TestMember>> nodes_;
};

TEST_CASE("members propose through whichever coordinator leads, and move to another when it is lost") {
  Network net;
  net.Choose(3);
  REQUIRE(net.node(4).Do(Network::EventOf(net.node(4), "first")).ok());
  const int leader = net.AwaitLeader(), other = leader % 3 + 1;
  REQUIRE(net.loop().Comes([&] { return net.node(4).membership().leader() == net.node(leader).id(); }));
  // On a coordinator that does not lead it is passed on.
  REQUIRE(net.node(other).Do(Network::EventOf(net.node(other), "passed on")).ok());
  CHECK(net.Count(other, "passed on") == 1);
  net.Lose(leader);
  const absl::Duration lost = net.loop().Now();
  REQUIRE(net.node(4).Do(Network::EventOf(net.node(4), "second")).ok());
  CHECK(net.loop().Now() - lost < absl::Seconds(5));
  const int next = net.AwaitLeader();
  CHECK(next != leader);
  for (const char* text : {"first", "second"}) CHECK(net.Count(next, text) == 1);
  REQUIRE(net.loop().Comes([&] { return net.node(4).membership().connected(); }));
  CHECK(net.node(4).HasStateOf(net.node(next)));
}

TEST_CASE("a coordinator that is one no more follows as a member, and may leave the network") {
  Network net;
  net.Choose(3);
  const int leader = net.AwaitLeader();
  const absl::Status removed = net.node(4).Do(wire::RemoveCoordinator{net.node(leader).id()});
  INFO(removed);
  REQUIRE(removed.ok());
  REQUIRE(net.loop().Comes([&] { return !net.node(leader).membership().coordinator(); }));
  REQUIRE(net.loop().Comes([&] { return net.node(leader).membership().connected(); }));
  REQUIRE(net.node(leader).Do(Network::EventOf(net.node(leader), "as a member")).ok());
  const int next = net.AwaitLeader();
  CHECK(next != leader);
  REQUIRE(net.node(next).Do(wire::RemoveNode{net.node(leader).id(), ""}).ok());
}

TEST_CASE("coordinators without a majority serve no watch after a while, and say for how long") {
  Network net;
  net.Choose(2);
  const int leader = net.AwaitLeader(), left = 3 - leader;
  net.Lose(leader);
  REQUIRE(net.loop().Comes([&] { return net.node(left).membership().Leaderless() > absl::Seconds(11); }));
  CHECK_FALSE(net.loop().On([&] { return net.node(left).membership().connected(); }));
  REQUIRE(net.loop().Comes([&] { return !net.node(4).membership().connected(); }));
  CHECK_FALSE(net.Leads(left));
}

TEST_CASE("a node joins by way of a coordinator that leads, whichever its invite names first") {
  Network net;
  net.Choose(3);
  const int leader = net.AwaitLeader();
  trust::Invite invite = net.node(leader).MakeInvite({Role::kContributor});
  const int other = leader % 3 + 1;
  invite.coordinators = {{net.node(other).id(), {net.node(other).address()}},
                         {net.node(leader).id(), {net.node(leader).address()}}};
  TestMember fifth(net.loop(), 5);
  const absl::Status joined = fifth.Join(invite);
  INFO(joined);
  CHECK(joined.ok());
}

}  // namespace
}  // namespace gdf::membership
