// Histories of a register whose answers are known by hand, after Herlihy and Wing 1990, figure 2.
#include <catch2/catch.hpp>

#include "tests/sim/linearizable.h"

namespace gdf::sim {
namespace {

struct Register {
  using State = int;
  struct Call {
    std::optional<int> write;  // none: a read
  };
  using Answer = int;
  static std::optional<State> Apply(const State& state, const Call& call, const std::optional<Answer>& answer) {
    if (call.write) return *call.write;
    return !answer || *answer == state ? std::optional(state) : std::nullopt;
  }
};
using Op = Operation<Register>;

absl::Duration At(int ms) { return absl::Milliseconds(ms); }
Op Write(int value, int from, int to) { return {{value}, At(from), At(to), 0}; }
Op LostWrite(int value, int from) { return {{value}, At(from), std::nullopt, std::nullopt}; }
Op Read(int value, int from, int to) { return {{}, At(from), At(to), value}; }

bool Holds(std::vector<Op> history) { return Linearizable<Register>(std::move(history), 0); }

TEST_CASE("histories of a register that one order explains") {
  CHECK(Holds({}));
  CHECK(Holds({Write(1, 0, 10), Read(1, 20, 30)}));
  CHECK(Holds({Write(1, 0, 10), Read(0, 5, 15)}));               // the read came first
  CHECK(Holds({Write(1, 0, 50), Read(1, 10, 20), Read(1, 30, 40)}));
  CHECK(Holds({Write(1, 0, 50), Read(0, 10, 20), Read(1, 30, 40)}));
  CHECK(Holds({Write(1, 0, 50), Write(2, 0, 50), Read(2, 10, 20), Read(1, 30, 40)}));
  CHECK(Holds({Write(1, 0, 10), Read(1, 10, 20)}));              // at the same instant: either order
}

TEST_CASE("histories of a register that no order explains") {
  CHECK_FALSE(Holds({Read(1, 0, 10)}));
  CHECK_FALSE(Holds({Write(1, 0, 10), Read(0, 20, 30)}));        // stale
  CHECK_FALSE(Holds({Write(1, 0, 50), Read(1, 10, 20), Read(0, 30, 40)}));  // back in time
  CHECK_FALSE(Holds({Write(1, 0, 10), Write(2, 20, 30), Read(1, 40, 50)}));
  CHECK_FALSE(Holds({Write(1, 0, 90), Write(2, 0, 90), Read(1, 10, 20), Read(2, 30, 40), Read(1, 50, 60)}));
}

TEST_CASE("an operation whose outcome is not known may take effect late, or never, but once") {
  CHECK(Holds({LostWrite(1, 0), Read(0, 10, 20)}));
  CHECK(Holds({LostWrite(1, 0), Read(0, 10, 20), Read(1, 30, 40), Read(1, 50, 60)}));
  CHECK(Holds({LostWrite(1, 0), Write(2, 10, 20), Read(2, 30, 40), Read(1, 50, 60)}));
  CHECK_FALSE(Holds({LostWrite(1, 30), Read(1, 10, 20)}));       // before it was asked for
  CHECK_FALSE(Holds({LostWrite(1, 0), Read(1, 10, 20), Write(2, 30, 40), Read(2, 50, 60), Read(1, 70, 80)}));
}

TEST_CASE("a long history of a few clients is judged without trying every order") {
  std::vector<Op> history;
  for (int i = 0; i < 100; ++i) {
    for (int client = 0; client < 4; ++client) history.push_back(Write(client, 10 * i + client, 10 * i + 8 + client));
    if (i % 20 == 0) history.push_back(LostWrite(5, 10 * i));
  }
  history.push_back(Read(9, 1100, 1200));
  CHECK_FALSE(Holds(history));
  history.back() = Read(5, 1100, 1200);
  CHECK(Holds(history));
}

}  // namespace
}  // namespace gdf::sim
