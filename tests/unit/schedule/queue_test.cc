#include "core/schedule/queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/rng.h"

namespace gdf::schedule {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

NodeId Id(uint8_t first) {
  Digest digest;
  digest.bytes[0] = first;
  return NodeId(digest);
}

std::vector<NodeOffer> Nodes(int count) {
  std::vector<NodeOffer> nodes;
  for (int i = 1; i <= count; ++i) {
    NodeOffer& node = nodes.emplace_back();
    node.id = Id(static_cast<uint8_t>(i));
    node.name = "n" + std::to_string(i);
    node.contributor = node.alive = true;
    node.total_memory_bytes = node.free_memory_bytes = 8 * kGiB;
    node.free_tasks = 1;
  }
  return nodes;
}

// Jobs whose specs stay where they are.
class Queue {
 public:
  WaitingJob& Add(uint64_t id, uint8_t submitter, int64_t nodes, absl::Duration waited = absl::ZeroDuration(), int64_t priority = 0) {
    config::JobSpec& spec = specs_.emplace_back();
    spec.nodes.min = spec.nodes.max = nodes;
    spec.priority = priority;
    JobRequest& request = requests_.emplace_back();
    request.id = {id};
    request.spec = &spec;
    request.host_memory_on_cpu.Add("parameters", kGiB);
    return jobs.emplace_back(WaitingJob{&request, Id(submitter), kNow - waited});
  }
  std::vector<uint64_t> Order(const std::vector<NodeOffer>& nodes, const std::map<NodeId, Use>& uses = {}) const {
    std::vector<uint64_t> order;
    for (const Placement& p : PlanQueue(jobs, nodes, uses, QueuePolicy(), kNow).placements) order.push_back(p.job.value);
    return order;
  }

  std::vector<WaitingJob> jobs;

 private:
  std::deque<config::JobSpec> specs_;
  std::deque<JobRequest> requests_;
};

TEST_CASE("What was used counts for half after a half-life, and by its integral while it is used") {
  const absl::Duration half = absl::Hours(24);
  const auto use = [&](absl::Duration begin, absl::Duration end) { return DecayedUse(2, kNow - begin, kNow - end, kNow, half); };
  // By hand: from -24 h to now, 2 nodes: 2 · 86400 / ln 2 · (1 - 1/2) = 124,648.85.
  CHECK(use(half, absl::ZeroDuration()) == Approx(124'648.85).epsilon(1e-6));
  CHECK(use(2 * half, half) == Approx(use(half, absl::ZeroDuration()) / 2));
  CHECK(use(absl::Seconds(1), absl::ZeroDuration()) == Approx(2).epsilon(1e-5));  // hardly decayed
  // However an interval is cut, it counts as much.
  CHECK(use(absl::Hours(70), absl::Hours(3)) == Approx(use(absl::Hours(70), absl::Hours(20)) + use(absl::Hours(20), absl::Hours(3))));
  // Against the sum over seconds.
  double sum = 0;
  for (int s = 0; s < 36'000; ++s) sum += 2 * std::exp2(-(s + 0.5) / 86'400);
  CHECK(use(absl::Hours(10), absl::ZeroDuration()) == Approx(sum).epsilon(1e-9));
  CHECK(use(absl::Hours(1), -absl::Hours(5)) == use(absl::Hours(1), absl::ZeroDuration()));  // an end in the future
  CHECK(use(absl::ZeroDuration(), absl::Hours(1)) == 0);                                     // a clock that went back
  CHECK(DecayedUse(3, absl::UnixEpoch(), kNow, kNow, absl::Seconds(1)) == Approx(3 / std::log(2.0)));  // for ever
}

TEST_CASE("Who has used less is next; of its jobs the higher priority and then the older one") {
  Queue queue;
  queue.Add(1, 10, 1, absl::Minutes(50));
  queue.Add(2, 10, 1, absl::Minutes(40), 5);
  queue.Add(3, 20, 1, absl::Minutes(30));
  queue.Add(4, 20, 1, absl::Minutes(20));
  // No nodes: nothing is placed, so that nobody's turn is charged.
  CHECK(queue.Order({}) == std::vector<uint64_t>{2, 1, 3, 4});  // equal: whose next job is older
  CHECK(queue.Order({}, {{Id(10), {1, 0}}}) == std::vector<uint64_t>{3, 4, 2, 1});
  CHECK(queue.Order({}, {{Id(20), {0, 1}}, {Id(10), {3599, 0}}}) == std::vector<uint64_t>{2, 1, 3, 4});
  CHECK(queue.Order({}, {{Id(20), {0, 1}}, {Id(10), {3601, 0}}}) == std::vector<uint64_t>{3, 4, 2, 1});
  // A priority is worth nothing beside others' jobs.
  queue.jobs.clear();
  queue.Add(5, 10, 1, absl::Minutes(1), 100);
  queue.Add(6, 20, 1, absl::Minutes(2), -100);
  CHECK(queue.Order(Nodes(1)) == std::vector<uint64_t>{6, 5});
}

TEST_CASE("Of many jobs submitted at once those of one submitter do not take all the nodes") {
  Queue queue;
  for (uint64_t id = 1; id <= 20; ++id) queue.Add(id, 10, 1, absl::Minutes(30));
  for (uint64_t id = 21; id <= 24; ++id) queue.Add(id, 20, 1, absl::Minutes(1));
  std::map<NodeId, int> placed;
  std::map<uint64_t, NodeId> submitter;
  for (const WaitingJob& job : queue.jobs) submitter[job.request->id.value] = job.submitter;
  for (const Placement& p : PlanQueue(queue.jobs, Nodes(6), {}, QueuePolicy(), kNow).placements) {
    if (p.verdict == Verdict::kPlaced) ++placed[submitter.at(p.job.value)];
  }
  CHECK(placed == std::map<NodeId, int>{{Id(10), 3}, {Id(20), 3}});
}

TEST_CASE("Who waits is told its place; nodes are kept for one that has waited for long") {
  Queue queue;
  queue.Add(1, 10, 3, absl::Minutes(59));
  queue.Add(2, 10, 3, absl::Minutes(10));
  queue.Add(3, 20, 1, absl::Minutes(5));
  std::vector<NodeOffer> nodes = Nodes(3);
  nodes[0].free_tasks = 0;
  std::map<NodeId, Use> uses = {{Id(20), {1000, 0}}};
  const QueuePlan before = PlanQueue(queue.jobs, nodes, uses, QueuePolicy(), kNow);
  CHECK(before.placements[2].verdict == Verdict::kPlaced);
  CHECK(before.placements[2].job.value == 3);
  CHECK(before.kept.empty());
  CHECK(before.next == kNow + absl::Minutes(1));
  CHECK(before.placements[0].reason ==
        "needs 3 nodes: 3 can contribute, 3 of them have the hardware, 3 of those are alive, 2 of those are free; it begins when other jobs "
        "end (gdfctl job list); it is number 1 of 2 that wait");

  const QueuePlan after = PlanQueue(queue.jobs, nodes, uses, QueuePolicy(), kNow + absl::Minutes(1));
  CHECK(after.kept == std::vector<NodeId>{Id(2), Id(3)});
  CHECK(after.placements[0].reason.ends_with("; it is number 1 of 3 that wait; 2 free nodes are kept for it"));
  CHECK(after.placements[2].verdict == Verdict::kPending);
  CHECK(after.placements[2].reason.ends_with("; it is number 3 of 3 that wait; 2 free nodes are kept for j1, which has waited for long"));

  // Nothing is kept for what could not run if all were free.
  nodes[0].alive = false;
  const QueuePlan hopeless = PlanQueue(queue.jobs, nodes, uses, QueuePolicy(), kNow + absl::Hours(9));
  CHECK(hopeless.kept.empty());
  CHECK_FALSE(hopeless.next);
  CHECK(hopeless.placements[2].verdict == Verdict::kPlaced);
}

TEST_CASE("A large job starts though small ones never end to come") {
  Queue queue;
  queue.Add(1, 10, 4);
  std::vector<NodeOffer> nodes = Nodes(4);
  std::map<NodeId, absl::Time> busy_until;
  uint64_t next_id = 2;
  absl::Time now = kNow, started = absl::InfiniteFuture();
  // A small job of 40 minutes is there for every node at any time; one node falls free every 10 minutes.
  for (int step = 0; step < 60 && started == absl::InfiniteFuture(); ++step, now += absl::Minutes(10)) {
    for (size_t i = queue.jobs.size(); i < 6; ++i) queue.Add(next_id++, 20, 1).submitted = now;
    for (NodeOffer& node : nodes) node.free_tasks = busy_until[node.id] <= now ? 1 : 0;
    const QueuePlan plan = PlanQueue(queue.jobs, nodes, {}, QueuePolicy(), now);
    for (const Placement& p : plan.placements) {
      if (p.verdict != Verdict::kPlaced) continue;
      if (p.job.value == 1) started = now;
      for (const ChosenNode& node : p.nodes) busy_until[node.id] = now + absl::Minutes(10) * static_cast<int64_t>(4);
      std::erase_if(queue.jobs, [&](const WaitingJob& job) { return job.request->id == p.job; });
    }
    if (step == 0) busy_until[Id(1)] = now + absl::Minutes(40);
  }
  CHECK(started - kNow <= QueuePolicy().patience + absl::Minutes(40));
}

TEST_CASE("Plans of any queue: no node twice; none that is not free; no submitter before one with less; whatever the order told") {
  SeededRng rng(7);
  for (int trial = 0; trial < 300; ++trial) {
    Queue queue;
    std::vector<NodeOffer> nodes = Nodes(static_cast<int>(1 + rng.Below(9)));
    for (NodeOffer& node : nodes) {
      node.free_tasks = static_cast<int64_t>(rng.Below(3));
      node.alive = rng.Below(5) != 0;
      node.free_memory_bytes = kGiB * rng.Below(4);
    }
    std::map<NodeId, Use> uses;
    for (uint8_t s = 1; s <= 3; ++s) uses[Id(s)] = {static_cast<double>(rng.Below(20'000)), static_cast<int64_t>(rng.Below(4))};
    const uint64_t count = rng.Below(12);
    for (uint64_t id = 1; id <= count; ++id) {
      queue.Add(id, static_cast<uint8_t>(1 + rng.Below(3)), static_cast<int64_t>(1 + rng.Below(4)), absl::Minutes(static_cast<int64_t>(rng.Below(120))),
                static_cast<int64_t>(rng.Below(3)));
    }
    const QueuePlan plan = PlanQueue(queue.jobs, nodes, uses, QueuePolicy(), kNow);
    REQUIRE(plan.placements.size() == count);
    std::map<NodeId, int64_t> taken;
    std::map<NodeId, size_t> left;  // jobs that were not decided yet
    for (const WaitingJob& job : queue.jobs) ++left[job.submitter];
    const auto charged = [&](const NodeId& who) { return uses[who].node_seconds + 3600.0 * static_cast<double>(uses[who].nodes); };
    const std::map<NodeId, Use> before = uses;
    for (const Placement& p : plan.placements) {
      const NodeId who = std::find_if(queue.jobs.begin(), queue.jobs.end(), [&](const WaitingJob& job) { return job.request->id == p.job; })->submitter;
      for (const auto& [other, jobs] : left) {
        if (jobs > 0) CHECK(charged(who) <= charged(other));
      }
      --left[who];
      uses[who].nodes += static_cast<int64_t>(p.nodes.size());
      for (const ChosenNode& node : p.nodes) ++taken[node.id];
      CHECK((p.verdict == Verdict::kPlaced) == !p.nodes.empty());
    }
    for (const NodeOffer& node : nodes) {
      const int64_t had = taken[node.id];
      if (had == 0) continue;
      CHECK(node.alive);
      CHECK(had <= node.free_tasks);
      CHECK(static_cast<uint64_t>(had) * kGiB <= node.free_memory_bytes);
    }
    uses = before;
    std::reverse(queue.jobs.begin(), queue.jobs.end());
    std::rotate(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(rng.Below(nodes.size())), nodes.end());
    const QueuePlan again = PlanQueue(queue.jobs, nodes, uses, QueuePolicy(), kNow);
    CHECK(again.kept == plan.kept);
    for (size_t i = 0; i < count; ++i) {
      CHECK(again.placements[i].job == plan.placements[i].job);
      CHECK(again.placements[i].nodes == plan.placements[i].nodes);
      CHECK(again.placements[i].reason == plan.placements[i].reason);
    }
  }
}

}  // namespace
}  // namespace gdf::schedule
