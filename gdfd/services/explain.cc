#include "gdfd/services/explain.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "gdfd/services/node_names.h"

namespace gdf::services {
namespace {

// A running job stands still when no round is done for so many times as long as one took, and for this long.
constexpr double kStandsStill = 3;
constexpr absl::Duration kNotSoon = absl::Minutes(1);
// Parts of a round that are worth a word.
constexpr double kMuchExchange = 0.4;
constexpr double kMuchWaiting = 0.3;
constexpr size_t kMostEvents = 3;

absl::Time At(int64_t unix_ms) { return absl::FromUnixMillis(unix_ms); }

std::string Share(double part) { return absl::StrCat(std::lround(100 * part), " %"); }

const state::Member* Find(const NetworkView& network, const NodeId& id) {
  const auto found = absl::c_find_if(network.members, [&](const state::Member& m) { return m.id == id; });
  return found == network.members.end() ? nullptr : &*found;
}

bool Offline(const NetworkView& network, const NodeId& id) { return network.online && !network.online->contains(id); }

// Why `id` cannot do its part in a job now; empty: nothing is known against it.
std::string Absence(const NetworkView& network, const NodeId& id) {
  const state::Member* const node = Find(network, id);
  if (node == nullptr) return "is no member of the network";
  if (node->status != state::MemberStatus::kActive) {
    return absl::StrCat("is ", ToAbsl(state::ToString(node->status)), node->reason.empty() ? "" : ": ", node->reason);
  }
  if (Offline(network, id)) return "is not online";
  if (node->profile.resources.paused) return "is paused by its owner";
  return "";
}

// The newest events of at least `severity`, newest first.
std::vector<std::string> Told(const JobView& view, const NodeNames& names, wire::Severity severity, absl::Time now) {
  std::vector<std::string> told;
  for (auto event = view.events.rbegin(); event != view.events.rend() && told.size() < kMostEvents; ++event) {
    if (event->severity < severity) continue;
    const std::string who = event->node == NodeId() ? "" : names.Of(event->node) + ": ";
    told.push_back(absl::StrCat(HumanDuration(now - At(event->at_unix_ms)), " ago, ", who, names.In(ToStd(event->text))));
  }
  return told;
}

// How long a round took lately; rounds that were recorded together share their time. None before the second record.
std::optional<absl::Duration> RoundTime(const std::vector<state::RoundRecord>& rounds) {
  std::vector<absl::Duration> times;
  for (size_t i = 1; i < rounds.size(); ++i) {
    const auto count = static_cast<int64_t>(rounds[i].round.value - rounds[i - 1].round.value);
    if (count > 0) times.push_back(absl::Milliseconds(rounds[i].at_unix_ms - rounds[i - 1].at_unix_ms) / count);
  }
  if (times.empty()) return std::nullopt;
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::string NotCalled(const state::Exclusion& exclusion, const NodeNames& names) {
  return absl::StrCat("is not called again", exclusion.reason.empty() ? "" : ": ", names.In(exclusion.reason));
}

std::optional<std::string> WentBack(const JobView& view, const NodeNames& names) {
  const std::optional<state::Rollback>& rollback = view.job.rollback;
  if (!rollback) return std::nullopt;
  return absl::StrCat("it was sent back to round ", rollback->round.value, rollback->reason.empty() ? "" : ": ", names.In(rollback->reason),
                      rollback->by_lead == 0 ? "" : absl::StrCat(" (by itself ", rollback->by_lead == 1 ? "once" : absl::StrCat(rollback->by_lead, " times"), ")"));
}

// What the members, and those that might be, are kept from taking part by.
std::vector<std::string> Lacks(const JobView& view, const NetworkView& network, const NodeNames& names) {
  std::vector<std::string> lacks;
  for (const NodeId& member : view.job.members) {
    if (const std::string absence = Absence(network, member); !absence.empty()) {
      lacks.push_back(absl::StrCat(names.Of(member), " ", absence));
    }
  }
  for (const NodeId& node : view.job.recruits) {
    lacks.push_back(absl::StrCat(names.Of(node), " is called to it, and fetches or loads what it needs"));
  }
  for (const state::Exclusion& exclusion : view.job.excluded) {
    lacks.push_back(absl::StrCat(names.Of(exclusion.node), " ", NotCalled(exclusion, names)));
  }
  return lacks;
}

Explanation Ended(const JobView& view, const NetworkView& network, const NodeNames& names) {
  const state::Job& job = view.job;
  Explanation out;
  const absl::Time begun = job.started_unix_ms == 0 ? At(job.submitted_unix_ms) : At(job.started_unix_ms);
  out.answer = absl::StrCat("it ", ToAbsl(wire::ToString(job.verdict)), " ", HumanDuration(network.now - At(job.finished_unix_ms)), " ago, after ",
                            Counted(job.rounds_done, "round"), " of ", job.planned_rounds, " in ",
                            HumanDuration(At(job.finished_unix_ms) - begun),
                            job.reason.empty() ? "" : absl::StrCat(": ", names.In(job.reason)));
  if (job.verdict != wire::Verdict::kSucceeded) out.because = Told(view, names, wire::Severity::kWarning, network.now);
  if (std::optional<std::string> back = WentBack(view, names)) out.because.insert(out.because.begin(), *std::move(back));
  if (job.rounds_done > 0) out.advice.push_back(absl::StrCat("gdfctl job export ", ToString(job.id), " DIR writes what it reached"));
  return out;
}

Explanation StandsStill(const JobView& view, const NetworkView& network, const NodeNames& names, absl::Duration since) {
  const state::Job& job = view.job;
  Explanation out;
  const auto there = absl::c_count_if(job.members, [&](const NodeId& id) { return Absence(network, id).empty(); });
  const int64_t min = view.spec ? view.spec->nodes.min : 1;
  const std::string after = job.rounds_done == 0 ? "no round is done yet" : absl::StrCat("no round is done for ", HumanDuration(since));
  out.because = Lacks(view, network, names);
  if (there < min) {
    out.answer = absl::StrCat("it waits for nodes: ", there == 1 ? "1 of its members is" : absl::StrCat(there, " of its members are"),
                              " there, and it needs ", min, " (nodes.min); ", after);
    out.advice.push_back("start or resume those nodes, or invite others: it goes on by itself, in their place too");
  } else if (job.rounds_done == 0) {
    out.answer = absl::StrCat("its nodes fetch the inputs and load the model; placed ", HumanDuration(since), " ago");
    out.advice.push_back("gdfctl job show on a member says what that node does");
  } else {
    out.answer = absl::StrCat(after, " though its nodes are there");
    out.advice.push_back(absl::StrCat("gdfctl job show ", ToString(job.id), " on a member says what that node does"));
  }
  for (std::string& told : Told(view, names, wire::Severity::kWarning, network.now)) out.because.push_back(std::move(told));
  return out;
}

// Where a round's time goes, and what could be done about it.
void ExplainPace(const JobView& view, absl::Duration round, Explanation* out) {
  double train = 0, exchange = 0;
  for (const state::RoundRecord& record : view.rounds) {
    train += record.metrics.compute_sec + record.metrics.compress_sec;
    exchange += record.metrics.exchange_sec + record.metrics.aggregate_sec;
  }
  const double count = static_cast<double>(view.rounds.size());
  const double whole = std::max(absl::ToDoubleSeconds(round), 1e-9);
  train /= count * whole;
  exchange /= count * whole;
  const double waiting = std::max(0.0, 1 - train - exchange);
  out->because.push_back(absl::StrCat("of a round's ", HumanDuration(round), " the slowest node trains for ", Share(std::min(train, 1.0)),
                                      ", the exchange takes ", Share(std::min(exchange, 1.0)), ", and for ", Share(waiting), " somebody waits or saves"));
  if (exchange > kMuchExchange) {
    out->advice.push_back("the links are what it waits for: a larger rounds.inner_steps, a smaller rounds.codec (int8, int4), or rounds.fragments with rounds.delay_steps");
  } else if (waiting > kMuchWaiting) {
    out->advice.push_back("neither training nor the links take the time: gdfctl job logs tells of lost and joining nodes, and output.checkpoint_every of disks");
  }
}

Explanation GoesOn(const JobView& view, const NetworkView& network, const NodeNames& names, std::optional<absl::Duration> round) {
  const state::Job& job = view.job;
  Explanation out;
  const uint64_t left = job.planned_rounds - std::min(job.planned_rounds, job.rounds_done);
  out.answer = absl::StrCat("it goes on: ", job.rounds_done, " of ", job.planned_rounds, " rounds are done",
                            round ? absl::StrCat(", one takes ", HumanDuration(*round), ", the rest about ", HumanDuration(*round * static_cast<int64_t>(left))) : "");
  if (round) ExplainPace(view, *round, &out);
  const uint32_t contributors = view.rounds.empty() ? 0 : view.rounds.back().metrics.contributors;
  if (contributors > 0 && contributors < job.members.size()) {
    out.because.push_back(absl::StrCat("the last round is made of ", contributors, " of its ", job.members.size(), " nodes"));
  }
  if (view.spec && static_cast<int64_t>(job.members.size()) < view.spec->nodes.max) {
    out.because.push_back(absl::StrCat("it has ", job.members.size(), " of up to ", view.spec->nodes.max, " nodes (nodes.max)"));
  }
  for (std::string& lack : Lacks(view, network, names)) out.because.push_back(std::move(lack));
  if (std::optional<std::string> back = WentBack(view, names)) out.because.push_back(*std::move(back));
  for (std::string& told : Told(view, names, wire::Severity::kWarning, network.now)) out.because.push_back(std::move(told));
  return out;
}

}  // namespace

Explanation ExplainJob(const JobView& view, const NetworkView& network) {
  const NodeNames names(network.members);
  const state::Job& job = view.job;
  if (job.phase == state::JobPhase::kFinished) return Ended(view, network, names);
  if (job.phase == state::JobPhase::kPending) {
    return {view.waiting_for.empty() ? "it waits to be placed; the coordinator knows for what (gdfctl explain there)"
                                     : absl::StrCat("it waits: ", names.In(view.waiting_for)),
            {absl::StrCat("submitted ", HumanDuration(network.now - At(job.submitted_unix_ms)), " ago by ", names.Of(job.owner))},
            {}};
  }
  const std::optional<absl::Duration> round = RoundTime(view.rounds);
  const absl::Time last = view.rounds.empty() ? At(job.started_unix_ms) : At(view.rounds.back().at_unix_ms);
  const absl::Duration since = network.now - last;
  if (job.rounds_done == 0 || since > std::max(kNotSoon, kStandsStill * round.value_or(absl::ZeroDuration()))) {
    return StandsStill(view, network, names, since);
  }
  return GoesOn(view, network, names, round);
}

Explanation ExplainNode(const state::Member& node, const std::vector<JobView>& jobs, const NetworkView& network) {
  const NodeNames names(network.members);
  Explanation out;
  std::vector<std::string> in;
  for (const JobView& view : jobs) {
    const std::string job = absl::StrCat(ToString(view.job.id), " (", view.job.name, ")");
    if (view.job.IsMember(node.id)) in.push_back(job);
    if (view.job.IsRecruit(node.id)) out.because.push_back(absl::StrCat("it is called to ", job, ", and fetches or loads what it needs"));
    for (const state::Exclusion& exclusion : view.job.excluded) {
      if (exclusion.node == node.id) out.because.push_back(absl::StrCat("in ", job, " it ", NotCalled(exclusion, names)));
    }
  }
  for (const JobView& view : jobs) {
    for (auto event = view.events.rbegin(); event != view.events.rend() && out.because.size() < 2 * kMostEvents; ++event) {
      if (event->node != node.id || event->severity == wire::Severity::kInfo) continue;
      out.because.push_back(absl::StrCat(ToString(view.job.id), ", ", HumanDuration(network.now - At(event->at_unix_ms)), " ago: ", names.In(event->text)));
    }
  }
  const std::string absence = Absence(network, node.id);
  if (!absence.empty()) {
    out.answer = absl::StrCat("it ", absence);
    if (node.profile.resources.paused) out.advice.push_back("its owner has it take work again with gdfctl resume");
    if (!in.empty()) out.because.insert(out.because.begin(), absl::StrCat("it still has its place in ", absl::StrJoin(in, ", ")));
  } else if (!in.empty()) {
    out.answer = absl::StrCat("it takes part in ", absl::StrJoin(in, ", "));
  } else if (!node.roles.Has(trust::Role::kContributor)) {
    out.answer = absl::StrCat("it is given no jobs: it is ", node.roles.ToString(), ", no contributor");
    out.advice.push_back(absl::StrCat("gdfctl node role ", node.profile.name, " ... makes it one"));
  } else if (jobs.empty()) {
    out.answer = "it has nothing to do: no job runs or waits";
  } else {
    out.answer = "it has nothing to do: no running job has a place for it, and none that waits can begin";
    for (const JobView& view : jobs) {
      if (view.job.phase == state::JobPhase::kPending && !view.waiting_for.empty()) {
        out.because.push_back(absl::StrCat(ToString(view.job.id), " waits: ", names.In(view.waiting_for)));
      }
    }
  }
  if (!network.online) out.because.push_back("no coordinator is reachable from here: who is online is not known");
  return out;
}

}  // namespace gdf::services
