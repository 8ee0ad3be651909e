#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "tests/sim/chaos.h"
#include "tests/sim/coordinators.h"

namespace gdf::sim {
namespace {

constexpr absl::Duration kFaultsEnd = absl::Seconds(40);
// From where all is mended to every answer: a leader is chosen within 5 s, and what was under way is given up by then.
constexpr absl::Duration kProgress = absl::Minutes(1);

// One run's faults. Everything is undone by kFaultsEnd.
class CoordinatorFaults {
 public:
  CoordinatorFaults(Coordinators& coordinators, Rng& rng, std::function<void(const std::string&)> say)
      : of_(coordinators), rng_(rng), say_(std::move(say)) {}

  void Plan() {
    const int faults = 2 + static_cast<int>(rng_.Below(16));
    for (int i = 0; i < faults; ++i) {
      if (rng_.Below(2) == 0) {
        After(kFaultsEnd * rng_.Unit(), [this] { Inflict(); });
      } else {
        at_messages_.insert(rng_.Below(4000));
      }
    }
    of_.network().set_on_message([this](const SimMessage& message) {
      if (at_messages_.erase(message.number) > 0) Inflict();
    });
    of_.network().set_repeat([this](const SimMessage&) -> std::optional<absl::Duration> {
      if (!repeats_ || rng_.Below(3) > 0) return std::nullopt;
      return Some(absl::Seconds(5));
    });
    After(kFaultsEnd, [this] { UndoAll(); });
  }
  const std::vector<std::string>& inflicted() const { return inflicted_; }

 private:
  void Say(const std::string& what) {
    inflicted_.push_back(absl::StrCat(absl::FormatDuration(of_.executor().Monotonic()), " ", what));
    if (say_) say_(absl::StrCat("fault: ", inflicted_.back()));
  }
  int Node() { return static_cast<int>(rng_.Below(static_cast<uint64_t>(of_.size()))); }
  absl::Duration Some(absl::Duration max) { return rng_.Unit() * max; }
  void After(absl::Duration time, std::function<void()> then) { of_.executor().PostAfter(time, std::move(then)); }

  void Inflict() {
    const int node = Node(), other = Node();
    const absl::Duration time = Some(absl::Seconds(8));
    const std::string for_time = absl::StrCat(" for ", absl::FormatDuration(time));
    const bool power = rng_.Below(2) == 0;
    switch (rng_.Below(11)) {
      case 0:
        Say(absl::StrCat("node ", node, power ? "'s power is cut" : " crashes", for_time));
        power ? of_.CutPower(node) : of_.Crash(node);
        After(time, [this, node] { of_.Restart(node); });
        break;
      case 1:
      case 2:
      case 3: FallAtDiskStep(node, rng_.Below(60), power, time); break;
      case 4:
        Say(absl::StrCat("nodes ", node, " and ", other, " are cut from each other", for_time));
        if (node == other) break;
        of_.network().Cut(of_.id(node), of_.id(other));
        After(time, [this, node, other] { of_.network().Heal(of_.id(node), of_.id(other)); });
        break;
      case 5:
        Say(absl::StrCat("nothing of node ", node, " arrives at node ", other, for_time));
        if (node == other) break;
        of_.network().CutOneWay(of_.id(node), of_.id(other));
        After(time, [this, node, other] { of_.network().Heal(of_.id(node), of_.id(other)); });
        break;
      case 6:
        Say(absl::StrCat("node ", node, " is cut off", for_time));
        of_.Isolate(node);
        After(time, [this, node] { of_.Rejoin(node); });
        break;
      case 7: FillDisk(node, time); break;
      case 8: {
        const absl::Duration ahead = (rng_.Unit() - 0.5) * absl::Hours(24 * 365 * 20);
        Say(absl::StrCat("the wall clock of node ", node, " jumps by ", absl::FormatDuration(ahead)));
        of_.set_wall_clock_ahead(node, ahead);
        break;
      }
      case 9:
        Say(absl::StrCat("requests come again later", for_time));
        repeats_ = true;
        After(time, [this] { repeats_ = false; });
        break;
      case 10:
        Say(absl::StrCat("reset between ", node, " and ", other));
        if (node != other) of_.network().Reset(of_.id(node), of_.id(other));
        break;
    }
  }

  // The process, or its machine, ends just before a write or a sync of its database, a few from now.
  void FallAtDiskStep(int node, uint64_t step, bool power, absl::Duration time) {
    Say(absl::StrCat("node ", node, power ? "'s power will be cut" : " will crash", " before disk step ", step, " for ",
                     absl::FormatDuration(time)));
    of_.disk(node).set_before([this, node, power, time, left = step](std::string_view step) mutable {
      if (left-- > 0) return SqliteDisk::Outcome::kDone;
      Say(absl::StrCat("node ", node, power ? "'s power is cut" : " crashes", " before: ", ToAbsl(step)));
      of_.CrashFromWithin(node, power);
      of_.executor().Post([this, node] { of_.disk(node).set_before(nullptr); });
      After(time, [this, node] { of_.Restart(node); });
      return SqliteDisk::Outcome::kLost;
    });
  }

  void FillDisk(int node, absl::Duration time) {
    Say(absl::StrCat("the disk of node ", node, " is full for ", absl::FormatDuration(time)));
    of_.disk(node).set_before([](std::string_view step) {
      return step == "write" ? SqliteDisk::Outcome::kFull : SqliteDisk::Outcome::kDone;
    });
    After(time, [this, node] { of_.disk(node).set_before(nullptr); });
  }

  void UndoAll() {
    if (say_) say_("all is mended");
    at_messages_.clear();
    repeats_ = false;
    for (int node = 0; node < of_.size(); ++node) {
      of_.Rejoin(node);
      of_.disk(node).set_before(nullptr);
      of_.Restart(node);
    }
  }

  Coordinators& of_;
  Rng& rng_;
  const std::function<void(const std::string&)> say_;
  std::vector<std::string> inflicted_;
  std::set<uint64_t> at_messages_;
  bool repeats_ = false;
};

}  // namespace

std::string RunCoordinatorChaos(uint64_t seed, const std::function<void(const std::string&)>& say) {
  constexpr int kCounts[] = {1, 2, 3, 3, 3, 5};
  SeededRng rng(MixSeed(seed, 0x6368616f73));
  Coordinators coordinators(seed, kCounts[rng.Below(6)]);
  if (say) say(absl::StrCat(coordinators.size(), " coordinators"));
  CoordinatorFaults faults(coordinators, rng, say);
  faults.Plan();
  coordinators.StartClients(/*clients=*/2 + static_cast<int>(rng.Below(4)), /*operations=*/25);
  std::string wrong;
  if (!coordinators.RunToEnd(kFaultsEnd + kProgress)) {
    wrong = absl::StrCat("progress: not all is answered within ", absl::FormatDuration(kProgress), " without faults\n");
  }
  absl::StrAppend(&wrong, coordinators.Violations());
  return wrong.empty() ? "" : absl::StrCat(wrong, "\nfaults:\n", absl::StrJoin(faults.inflicted(), "\n"));
}

}  // namespace gdf::sim
