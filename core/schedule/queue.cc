#include "core/schedule/queue.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::schedule {
namespace {

// One submitter's jobs, the next first.
struct Line {
  NodeId submitter;
  double charged = 0;  // node seconds
  std::deque<const WaitingJob*> jobs;
};

// By who is next.
struct ByTurn {
  static auto Key(const Line* line) {
    const WaitingJob* next = line->jobs.front();
    return std::tuple(line->charged, next->submitted, next->request->id);
  }
  bool operator()(const Line* a, const Line* b) const { return Key(a) < Key(b); }
};

double AheadSeconds(const QueuePolicy& policy, int64_t nodes) {
  return static_cast<double>(nodes) * absl::ToDoubleSeconds(policy.ahead);
}

std::map<NodeId, Line> Lines(absl::Span<const WaitingJob> jobs, const std::map<NodeId, Use>& uses, const QueuePolicy& policy) {
  std::map<NodeId, Line> lines;
  for (const WaitingJob& job : jobs) lines[job.submitter].jobs.push_back(&job);
  for (auto& [submitter, line] : lines) {
    line.submitter = submitter;
    if (const auto use = uses.find(submitter); use != uses.end()) {
      line.charged = use->second.node_seconds + AheadSeconds(policy, use->second.nodes);
    }
    std::sort(line.jobs.begin(), line.jobs.end(), [](const WaitingJob* a, const WaitingJob* b) {
      const auto key = [](const WaitingJob* job) { return std::tuple(-job->request->spec->priority, job->submitted, job->request->id); };
      return key(a) < key(b);
    });
  }
  return lines;
}

// Nobody else is offered them.
std::vector<NodeId> Keep(const WaitingJob& job, std::vector<NodeOffer>* offers) {
  std::vector<NodeId> kept = Able(*job.request, *offers);
  std::sort(kept.begin(), kept.end());
  for (NodeOffer& offer : *offers) {
    if (std::binary_search(kept.begin(), kept.end(), offer.id)) offer.free_tasks = 0;
  }
  return kept;
}

// Which of those that wait a job is, where there are several; and for whom nodes are kept.
void TellPlaces(std::optional<JobId> keeper, size_t num_kept, std::vector<Placement>* placements) {
  const auto waits = [](const Placement& p) { return p.verdict == Verdict::kPending; };
  const auto waiting = std::count_if(placements->begin(), placements->end(), waits);
  int64_t position = 0;
  for (Placement& p : *placements) {
    if (!waits(p)) continue;
    ++position;
    if (waiting > 1) absl::StrAppend(&p.reason, "; it is number ", position, " of ", waiting, " that wait");
    if (keeper == p.job) {
      absl::StrAppend(&p.reason, "; ", Counted(num_kept, "free node"), num_kept == 1 ? " is" : " are", " kept for it");
    } else if (keeper && num_kept > 0) {
      absl::StrAppend(&p.reason, "; ", Counted(num_kept, "free node"), num_kept == 1 ? " is" : " are", " kept for ", ToString(*keeper),
                      ", which has waited for long");
    }
  }
}

}  // namespace

double DecayedUse(int64_t nodes, absl::Time begin, absl::Time end, absl::Time now, absl::Duration half_life) {
  end = std::min(end, now);
  if (end <= begin) return 0;
  const double mean_life = absl::ToDoubleSeconds(half_life) / std::log(2.0);
  const double used = absl::ToDoubleSeconds(end - begin), since = absl::ToDoubleSeconds(now - end);
  return static_cast<double>(nodes) * mean_life * std::exp(-since / mean_life) * -std::expm1(-used / mean_life);
}

QueuePlan PlanQueue(absl::Span<const WaitingJob> jobs, absl::Span<const NodeOffer> nodes, const std::map<NodeId, Use>& uses,
                    const QueuePolicy& policy, absl::Time now) {
  QueuePlan plan;
  std::vector<NodeOffer> offers(nodes.begin(), nodes.end());
  std::map<NodeId, Line> lines = Lines(jobs, uses, policy);
  std::set<Line*, ByTurn> turns;
  for (auto& [submitter, line] : lines) turns.insert(&line);
  std::optional<JobId> keeper;
  while (!turns.empty()) {
    Line* const line = turns.extract(turns.begin()).value();
    const WaitingJob& job = *line->jobs.front();
    line->jobs.pop_front();
    Placement placement = PlaceOne(*job.request, &offers);
    if (placement.verdict == Verdict::kPlaced) {
      line->charged += AheadSeconds(policy, static_cast<int64_t>(placement.nodes.size()));
    } else if (placement.verdict == Verdict::kPending && placement.possible >= job.request->spec->nodes.min) {
      const absl::Time patient_until = job.submitted + policy.patience;
      if (now < patient_until) {
        plan.next = std::min(plan.next.value_or(absl::InfiniteFuture()), patient_until);
      } else if (!keeper) {
        keeper = job.request->id;
        plan.kept = Keep(job, &offers);
      }
    }
    plan.placements.push_back(std::move(placement));
    if (!line->jobs.empty()) turns.insert(line);
  }
  TellPlaces(keeper, plan.kept.size(), &plan.placements);
  return plan;
}

}  // namespace gdf::schedule
