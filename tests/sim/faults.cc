#include "tests/sim/faults.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::sim {
namespace {

constexpr absl::Duration kShort = absl::Seconds(8);
constexpr absl::Duration kLong = absl::Minutes(1);

bool IsExchange(const SimMessage& message) { return absl::StartsWith(message.method, "gdf.exchange/"); }

}  // namespace

void Faults::Say(const std::string& what) {
  inflicted_.push_back(absl::StrCat(absl::FormatDuration(job_.executor().Monotonic()), " ", what));
  if (say_) say_(absl::StrCat("fault: ", what));
}

void Faults::Plan() {
  const JobOptions& options = job_.options();
  const double rounds = static_cast<double>(options.rounds);
  round_ = static_cast<double>(options.inner_steps) * absl::Milliseconds(125) + 15 * options.network.max_delay;
  const double peers = options.nodes - 1;
  const double messages = rounds * peers * (3 * options.nodes + 8);
  const int faults = 1 + static_cast<int>(rng_.Below(12));
  for (int i = 0; i < faults; ++i) {
    const double at = 1.5 * rng_.Unit();
    if (rng_.Below(3) == 0) {
      After(at * rounds * round_, [this] { Inflict(); });
    } else {
      at_messages_.insert(static_cast<uint64_t>(at * messages));
    }
  }
  job_.network().set_on_message([this](const SimMessage& message) {
    if (at_messages_.count(message.number) > 0) Inflict();
  });
  job_.network().set_tamper([this](const SimMessage& message, Buffer& bytes) {
    if (hostile_.count(message.from) > 0 && rng_.Below(4) == 0) Tamper(message, bytes);
  });
  job_.network().set_repeat([this](const SimMessage& message) -> std::optional<absl::Duration> {
    if (!repeats_ || IsExchange(message) || rng_.Below(3) > 0) return std::nullopt;
    return Some(absl::Seconds(10));
  });
  After(kEnd, [this] { UndoAll(); });
}

void Faults::Inflict() {
  if (job_.finished()) return;
  const int node = Node();
  switch (rng_.Below(15)) {
    case 0: return Fall(node, Some(kShort));
    case 1: return Fall(node, Some(2 * kLong));
    case 2: {
      const int other = Node();
      Say(absl::StrCat("reset between ", node, " and ", other));
      if (node != other) job_.network().Reset(job_.id(node), job_.id(other));
      return;
    }
    case 3: return Isolate(node);
    case 4:
    case 5: return FallAtDiskStep(node);
    case 6: return RefuseDelta(node);
    case 7: return CutOneWay(node);
    case 8: return FillDisk(node);
    case 9: return SlowDown(node);
    case 10: return JumpClock(node);
    case 11: return RepeatRequests();
    case 12: return TurnHostile(node);
    case 13: return Freeze(node);
    case 14: return Churn(1 + static_cast<int>(rng_.Below(4)));
  }
}

void Faults::Fall(int node, absl::Duration time) {
  const bool power = rng_.Below(2) == 0;
  Say(absl::StrCat("node ", node, power ? "'s power is cut for " : " crashes for ", absl::FormatDuration(time)));
  power ? job_.CutPower(node) : job_.Crash(node);
  After(time, [this, node] { job_.Restart(node); });
}

void Faults::Churn(int rounds) {
  if (job_.finished()) return;
  const auto some = rng_.Below(static_cast<uint64_t>(job_.size()) / 2 + 1);
  Say(absl::StrCat("churn: ", some, " nodes fall"));
  for (uint64_t i = 0; i < some; ++i) Fall(Node(), Some(kShort));
  if (rounds > 1) After(round_, [this, rounds] { Churn(rounds - 1); });
}

void Faults::Isolate(int node) {
  const absl::Duration time = Some(kLong);
  Say(absl::StrCat("node ", node, " is cut off for ", absl::FormatDuration(time)));
  job_.Isolate(node);
  After(time, [this, node] { job_.Rejoin(node); });
}

void Faults::CutOneWay(int node) {
  const absl::Duration time = Some(kLong);
  const bool out = rng_.Below(2) == 0;
  Say(absl::StrCat("nothing of what ", out ? "leaves" : "goes to", " node ", node, " arrives, for ", absl::FormatDuration(time)));
  for (int other = 0; other < job_.size(); ++other) {
    if (other == node || rng_.Below(4) == 0) continue;
    const NodeId a = job_.id(node), b = job_.id(other);
    out ? job_.network().CutOneWay(a, b) : job_.network().CutOneWay(b, a);
  }
  After(time, [this, node] { job_.Rejoin(node); });
}

// The process, or its machine, ends just before a step of its disk, a few from now.
void Faults::FallAtDiskStep(int node) {
  const absl::Duration time = Some(kShort);
  const bool power = rng_.Below(2) == 0;
  const uint64_t last = rng_.Below(80);
  Say(absl::StrCat("node ", node, power ? "'s power will be cut" : " will crash", " before disk step ", last, " for ",
                   absl::FormatDuration(time)));
  job_.set_disk_fault(node, [this, node, power, time, left = last](std::string_view step, const std::string& path) mutable {
    if (left-- > 0) return absl::OkStatus();
    Say(absl::StrCat("node ", node, power ? "'s power is cut" : " crashes", " before: ", ToAbsl(step), " ", path));
    job_.CrashFromWithin(node, power);
    After(time, [this, node] { job_.Restart(node); });
    // Of no use any more, and it cannot be replaced while it runs.
    job_.executor().Post([this, node] { job_.set_disk_fault(node, nullptr); });
    return absl::UnavailableError("this process has crashed");
  });
}

void Faults::FillDisk(int node) {
  const absl::Duration time = Some(kLong);
  const uint64_t room = rng_.Below(4 * job_.options().num_params + 2000);
  Say(absl::StrCat("node ", node, "'s disk has room for ", room, " bytes, for ", absl::FormatDuration(time)));
  job_.set_disk_room(node, room);
  After(time, [this, node] { job_.set_disk_room(node, std::nullopt); });
}

void Faults::SlowDown(int node) {
  const absl::Duration time = Some(kLong), slowness = Some(absl::Seconds(5));
  Say(absl::StrCat("what node ", node, " writes takes up to ", absl::FormatDuration(slowness), ", for ",
                   absl::FormatDuration(time)));
  job_.set_slowness(node, slowness);
  After(time, [this, node] { job_.set_slowness(node, absl::ZeroDuration()); });
}

void Faults::JumpClock(int node) {
  const absl::Duration ahead = (rng_.Unit() - 0.5) * absl::Hours(24 * 365 * 20);
  Say(absl::StrCat("the wall clock of node ", node, " jumps by ", absl::FormatDuration(ahead)));
  job_.set_wall_clock_ahead(node, ahead);
}

void Faults::Freeze(int node) {
  const absl::Duration time = Some(2 * kLong);
  Say(absl::StrCat("the process of node ", node, " is stopped for ", absl::FormatDuration(time)));
  job_.Freeze(node);
  After(time, [this, node] { job_.Thaw(node); });
}

void Faults::RepeatRequests() {
  const absl::Duration time = Some(kLong);
  Say(absl::StrCat("requests come again later, for ", absl::FormatDuration(time)));
  repeats_ = true;
  After(time, [this] { repeats_ = false; });
}

void Faults::TurnHostile(int node) {
  const absl::Duration time = Some(kShort);
  Say(absl::StrCat("one message in four of node ", node, " is not what it should be, for ", absl::FormatDuration(time)));
  hostile_.insert(job_.id(node));
  was_hostile_ = true;
  After(time, [this, node] { hostile_.erase(job_.id(node)); });
}

void Faults::Tamper(const SimMessage& message, Buffer& bytes) {
  std::vector<uint8_t> data(bytes.span().begin(), bytes.span().end());
  switch (rng_.Below(5)) {
    case 0: rng_.Fill(absl::MakeSpan(data)); break;
    case 1: data.resize(rng_.Below(data.size() + 1)); break;
    case 2: data.resize(data.size() + 1 + rng_.Below(100)); break;
    default:
      if (!data.empty()) data[rng_.Below(data.size())] ^= static_cast<uint8_t>(1 << rng_.Below(8));
  }
  bytes = Buffer(std::move(data));
  if (IsExchange(message)) job_.TellTampered();
}

void Faults::RefuseDelta(int node) {
  Say(absl::StrCat("node ", node, " has a delta that is not finite"));
  job_.set_worker_fault(node, [this, node](std::string_view call, RoundId) {
    if (call != "run") return absl::OkStatus();
    job_.executor().Post([this, node] { job_.set_worker_fault(node, nullptr); });
    return absl::DataLossError("the loss is not finite");
  });
}

void Faults::UndoAll() {
  if (say_) say_("all is mended");
  at_messages_.clear();
  hostile_.clear();
  repeats_ = false;
  for (int node = 0; node < job_.size(); ++node) {
    job_.Rejoin(node);
    job_.Thaw(node);
    job_.set_disk_fault(node, nullptr);
    job_.set_disk_room(node, std::nullopt);
    job_.set_slowness(node, absl::ZeroDuration());
    job_.set_worker_fault(node, nullptr);
    job_.Restart(node);
  }
}

// Nobody who is left has a finite delta; or a hostile member showed its means differently to each of the others, and there is
// no majority to tell by.
bool Faults::Explain(std::string_view reason) const {
  return absl::StartsWith(ToAbsl(reason), "no member has a delta") ||
         (was_hostile_ && absl::StrContains(ToAbsl(reason), "; last: the members do not agree on the result"));
}

}  // namespace gdf::sim
