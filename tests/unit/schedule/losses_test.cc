#include "core/schedule/losses.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/base/hash.h"

namespace gdf::schedule {
namespace {

NodeId Node(int i) { return NodeId(HashBytes(std::to_string(i))); }

std::vector<NodeId> Nodes(std::initializer_list<int> numbers) {
  std::vector<NodeId> nodes;
  for (const int i : numbers) nodes.push_back(Node(i));
  return nodes;
}

// Node 0 leads; all are online.
Losses::Group GroupOf(std::initializer_list<int> members, size_t placed) {
  return {Nodes(members), Node(0), Nodes(members), placed};
}

constexpr absl::Duration kNow = absl::Minutes(10);

TEST_CASE("a member that the coordinator does not see leaves, and one that says so itself") {
  Losses losses;
  Losses::Group group = GroupOf({0, 1, 2, 3}, 4);
  CHECK(losses.Staying(group, kNow) == group.members);
  group.online = Nodes({0, 2, 3});
  CHECK(losses.Staying(group, kNow) == Nodes({0, 2, 3}));
  losses.Hear(Node(3), Nodes({3}), kNow);
  CHECK(losses.Staying(group, kNow) == Nodes({0, 2}));
  losses.Hear(Node(0), Nodes({0}), kNow);
  CHECK(losses.Staying(group, kNow) == Nodes({2}));
}

TEST_CASE("of members that are seen one leaves when more than half of the others, and at least two, call it lost") {
  struct Case {
    Losses::Group group;
    size_t voices;
  };
  for (const Case& c : {Case{GroupOf({0, 1, 2}, 3), 2}, Case{GroupOf({0, 1, 2, 3}, 4), 2},
                        Case{GroupOf({0, 1, 2, 3, 4}, 5), 3}, Case{GroupOf({0, 1, 2, 3, 4, 5}, 6), 3}}) {
    INFO(c.group.members.size() << " members");
    Losses losses;
    for (size_t i = 1; i <= c.voices; ++i) {
      CHECK(losses.Staying(c.group, kNow) == c.group.members);
      losses.Hear(Node(1), Nodes({0}), kNow);  // again and again is one voice
      losses.Hear(c.group.members[i], Nodes({0}), kNow);
    }
    const std::vector<NodeId> staying = losses.Staying(c.group, kNow);
    CHECK(staying == std::vector<NodeId>(c.group.members.begin() + 1, c.group.members.end()));
  }
  Losses of_two;
  of_two.Hear(Node(1), Nodes({0}), kNow);
  CHECK(of_two.Staying(GroupOf({0, 1}, 2), kNow) == Nodes({0, 1}));
}

TEST_CASE("what was said long ago does not count") {
  Losses losses;
  const Losses::Group group = GroupOf({0, 1, 2}, 3);
  losses.Hear(Node(1), Nodes({0}), kNow);
  losses.Hear(Node(2), Nodes({0}), kNow + Losses::kLifetime);
  CHECK(losses.Staying(group, kNow + Losses::kLifetime) == Nodes({1, 2}));
  CHECK(losses.Staying(group, kNow + Losses::kLifetime + absl::Seconds(1)) == group.members);
}

TEST_CASE("the lead alone removes members while more than half of those that began stay") {
  Losses losses;
  losses.Hear(Node(0), Nodes({1, 2, 3, 4}), kNow);
  CHECK(losses.Staying(GroupOf({0, 1, 2, 3, 4}, 5), kNow) == Nodes({0, 3, 4}));
  CHECK(losses.Staying(GroupOf({0, 1, 2, 3}, 4), kNow) == Nodes({0, 2, 3}));
  CHECK(losses.Staying(GroupOf({0, 1, 2}, 3), kNow) == Nodes({0, 2}));
  CHECK(losses.Staying(GroupOf({0, 1}, 2), kNow) == Nodes({0, 1}));
  // One epoch after the other is no way around it.
  CHECK(losses.Staying(GroupOf({0, 3, 4}, 5), kNow) == Nodes({0, 3, 4}));
  // Who is gone anyway counts.
  Losses::Group group = GroupOf({0, 1, 2, 3, 4}, 5);
  group.online = Nodes({0, 1, 2, 4});
  CHECK(losses.Staying(group, kNow) == Nodes({0, 2, 4}));
  // A lead that is itself lost has no say.
  group.online = Nodes({1, 2, 3, 4});
  CHECK(losses.Staying(group, kNow) == Nodes({1, 2, 3, 4}));
}

}  // namespace
}  // namespace gdf::schedule
