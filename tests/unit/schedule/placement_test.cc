#include "core/schedule/placement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace gdf::schedule {
namespace {

using config::Device;
using config::JobSpec;

constexpr uint64_t kGiB = uint64_t{1} << 30;

NodeId Id(uint8_t first) {
  Digest digest;
  digest.bytes[0] = first;
  return NodeId(digest);
}

NodeOffer Node(uint8_t id, uint64_t free_gib) {
  NodeOffer node;
  node.id = Id(id);
  node.name = "n" + std::to_string(id);
  node.contributor = node.alive = true;
  node.total_memory_bytes = node.free_memory_bytes = free_gib * kGiB;
  node.free_tasks = 1;
  return node;
}

NodeOffer GpuNode(uint8_t id, uint64_t free_gib, int gpus, uint64_t gpu_gib) {
  NodeOffer node = Node(id, free_gib);
  node.gpus.assign(gpus, {"H200", gpu_gib * kGiB, gpu_gib * kGiB});
  return node;
}

JobSpec Spec(int64_t min, int64_t max) {
  JobSpec spec;
  spec.nodes.min = min;
  spec.nodes.max = max;
  return spec;
}

JobRequest Job(uint64_t id, const JobSpec* spec, uint64_t gib) {
  JobRequest job;
  job.id = {id};
  job.spec = spec;
  job.host_memory_on_cpu.Add("parameters", gib * kGiB / 2);
  job.host_memory_on_cpu.Add("gradients", gib * kGiB / 2);
  job.host_memory_on_gpu.Add("outer state", kGiB);
  job.gpu_memory.Add("parameters", gib * kGiB);
  return job;
}

TEST_CASE("most free memory first, then by id; the first leads") {
  const JobSpec spec = Spec(2, 3);
  const auto p = Place({Job(1, &spec, 2)}, {Node(9, 8), Node(2, 4), Node(1, 8), Node(3, 2)});
  REQUIRE(p.size() == 1);
  REQUIRE(p[0].verdict == Verdict::kPlaced);
  CHECK(p[0].nodes ==
        std::vector<ChosenNode>{{Id(1)}, {Id(9)}, {Id(2)}});
  CHECK(p[0].lead == Id(1));
  CHECK(p[0].reason.empty());
}

TEST_CASE("the order in which nodes are told does not matter") {
  const JobSpec spec = Spec(1, 2);
  std::vector<NodeOffer> nodes = {Node(1, 4), Node(2, 4), Node(3, 8), Node(4, 4)};
  const auto first = Place({Job(1, &spec, 2)}, nodes);
  for (int i = 0; i < 4; ++i) {
    std::rotate(nodes.begin(), nodes.begin() + 1, nodes.end());
    CHECK(Place({Job(1, &spec, 2)}, nodes)[0].nodes == first[0].nodes);
  }
}

TEST_CASE("a placed job takes its memory and task slot from later ones") {
  const JobSpec spec = Spec(1, 1);
  const auto p =
      Place({Job(1, &spec, 2), Job(2, &spec, 2), Job(3, &spec, 2)}, {Node(1, 8), Node(2, 4)});
  CHECK(p[0].lead == Id(1));
  CHECK(p[1].lead == Id(2));
  CHECK(p[2].verdict == Verdict::kPending);
  CHECK(p[2].reason ==
        "needs 1 node: 2 can contribute, 2 of them have the hardware, 2 of those are alive, 0 of "
        "those are free; it begins when other jobs end (gdfctl job list)");

  NodeOffer two_slots = Node(1, 5);
  two_slots.free_tasks = 3;
  const auto q = Place({Job(1, &spec, 2), Job(2, &spec, 2), Job(3, &spec, 2)}, {two_slots});
  CHECK(q[1].verdict == Verdict::kPlaced);
  CHECK(q[2].verdict == Verdict::kPending);  // 1 GiB is left
}

TEST_CASE("a pending job leaves everything to the next") {
  const JobSpec big = Spec(3, 3), small = Spec(1, 1);
  const auto p = Place({Job(1, &big, 2), Job(2, &small, 2)}, {Node(1, 4), Node(2, 4)});
  CHECK(p[0].verdict == Verdict::kPending);
  CHECK(p[1].verdict == Verdict::kPlaced);
}

TEST_CASE("what a waiting job's user can do is told with why it waits") {
  const JobSpec two = Spec(2, 2);
  NodeOffer dead = Node(2, 8);
  dead.alive = false;
  const auto why = [&](const NodeOffer& second) {
    return Place({Job(1, &two, 4)}, {Node(1, 8), second})[0].reason;
  };
  CHECK(Place({Job(1, &two, 4)}, {Node(1, 8)})[0].reason ==
        "needs 2 nodes: 1 can contribute, 1 of them have the hardware, 1 of those are alive, 1 of "
        "those are free; invite more (gdfctl invite), or ask for fewer: nodes.count, or nodes.min and "
        "nodes.max");
  const JobSpec from_two = Spec(2, 3);
  CHECK(Place({Job(1, &from_two, 4)}, {Node(1, 8)})[0].reason.ends_with("or ask for fewer: nodes.min"));
  CHECK(why(Node(2, 2)) ==
        "needs 2 nodes: 2 can contribute, 1 of them have the hardware, 1 of those are alive, 1 of "
        "those are free; add nodes that have it, or ask for less below nodes:");
  CHECK(why(dead) ==
        "needs 2 nodes: 2 can contribute, 2 of them have the hardware, 1 of those are alive, 1 of "
        "those are free; start gdfd on those that are not online (gdfctl node list)");
}

TEST_CASE("nodes that are no contributors, dead or busy do not count") {
  const JobSpec spec = Spec(1, 4);
  NodeOffer other = Node(1, 8), dead = Node(2, 8), busy = Node(3, 8);
  other.contributor = false;
  dead.alive = false;
  busy.free_tasks = 0;
  CHECK(Place({Job(1, &spec, 2)}, {other, dead, busy})[0].reason ==
        "needs 1 node: 2 can contribute, 2 of them have the hardware, 1 of those are alive, 0 of "
        "those are free; it begins when other jobs end (gdfctl job list)");
  CHECK(Place({Job(1, &spec, 2)}, {other, dead, busy, Node(4, 2)})[0].lead == Id(4));
  CHECK(Place({Job(1, &spec, 2)}, {})[0].verdict == Verdict::kPending);
}

TEST_CASE("a job that no node has the memory for is refused with the sum") {
  const JobSpec spec = Spec(1, 1);
  NodeOffer dead = Node(2, 4);
  dead.alive = false;
  const auto p = Place({Job(1, &spec, 6)}, {Node(1, 2), dead});
  CHECK(p[0].verdict == Verdict::kRefused);
  CHECK(p[0].reason ==
        "needs 6.0 GiB of host memory on each node (6.0 GiB: parameters 3.0 GiB + gradients 3.0 "
        "GiB), more than the 4.0 GiB of the best node, n2");

  JobSpec asks = Spec(1, 1);
  asks.nodes.memory_bytes = 16 * kGiB;
  CHECK(Place({Job(1, &asks, 2)}, {Node(1, 8)})[0].reason ==
        "needs 16.0 GiB of host memory on each node (asked for by job.yaml), more than the 8.0 GiB "
        "of "
        "the best node, n1");
}

TEST_CASE("memory that other jobs hold makes a job wait, not fail") {
  const JobSpec spec = Spec(1, 1);
  NodeOffer node = Node(1, 8);
  node.free_memory_bytes = kGiB;
  CHECK(Place({Job(1, &spec, 6)}, {node})[0].verdict == Verdict::kPending);
}

TEST_CASE("nodes.where names nodes by name or id") {
  JobSpec spec = Spec(1, 2);
  spec.nodes.where = {"n2", Id(3).ToString()};
  const auto p = Place({Job(1, &spec, 2)}, {Node(1, 16), Node(2, 4), Node(3, 8)});
  CHECK(p[0].nodes == std::vector<ChosenNode>{{Id(3)}, {Id(2)}});
  spec.nodes.where = {"n9"};
  const auto q = Place({Job(1, &spec, 2)}, {Node(1, 16)});
  CHECK(q[0].verdict == Verdict::kRefused);
  CHECK(q[0].reason == "nodes.where names 'n9', which is no member of this network");
}

TEST_CASE("nodes.sites names members, whether they are chosen or not") {
  JobSpec spec = Spec(1, 1);
  spec.nodes.sites = {{"n1"}, {Id(2).ToString()}};
  const auto p = Place({Job(1, &spec, 2)}, {Node(1, 16), Node(2, 4)});
  CHECK(p[0].nodes == std::vector<ChosenNode>{{Id(1)}});
  spec.nodes.sites = {{"n1"}, {"n2", "n9"}};
  const auto q = Place({Job(1, &spec, 2)}, {Node(1, 16), Node(2, 4)});
  CHECK(q[0].verdict == Verdict::kRefused);
  CHECK(q[0].reason == "nodes.sites names 'n9', which is no member of this network");
}

TEST_CASE("GPUs: used when there, required when asked for, shared out") {
  JobSpec spec = Spec(1, 2);
  const auto p = Place({Job(1, &spec, 10)}, {GpuNode(1, 4, 2, 16), Node(2, 16), Node(3, 4)});
  CHECK(p[0].nodes == std::vector<ChosenNode>{{Id(2)}, {Id(1), {0}}});

  spec.nodes.device = Device::kCpu;
  CHECK(Place({Job(1, &spec, 10)}, {GpuNode(1, 16, 2, 16)})[0].nodes[0].gpus.empty());

  spec = Spec(1, 1);
  spec.nodes.device = Device::kGpu;
  spec.nodes.gpus = 1;
  NodeOffer node = GpuNode(1, 8, 2, 16);
  node.free_tasks = 4;
  const auto q = Place({Job(1, &spec, 10), Job(2, &spec, 10), Job(3, &spec, 10)}, {node});
  CHECK(q[0].nodes[0].gpus == std::vector<size_t>{0});
  CHECK(q[1].verdict == Verdict::kPlaced);
  CHECK(q[2].verdict == Verdict::kPending);
}

TEST_CASE("GPUs: why a job is refused") {
  JobSpec spec = Spec(1, 1);
  spec.nodes.device = Device::kGpu;
  CHECK(Place({Job(1, &spec, 10)}, {Node(1, 16)})[0].reason ==
        "needs 1 GPU on each node; the most that a node has is 0; nodes.device: auto also takes nodes without, to compute on "
        "their CPUs");
  CHECK(Place({Job(1, &spec, 20)}, {GpuNode(1, 16, 1, 16), Node(2, 64)})[0].reason ==
        "needs 20.0 GiB of GPU memory on each node (20.0 GiB: parameters 20.0 GiB), more than the "
        "16.0 GiB of the best node, n1");
  CHECK(
      Place({Job(1, &spec, 10)}, {GpuNode(1, 0, 1, 16)})[0].reason ==
      "needs 1.0 GiB of host memory on each node (1.0 GiB: outer state 1.0 GiB), more than the 0 B "
      "of the best node, n1");
  CHECK(Place({Job(1, &spec, 10)}, {GpuNode(1, 0, 1, 16), Node(2, 64)})[0].reason ==
        "needs 1.0 GiB of host memory and 1 GPU of 10.0 GiB on the same node; no node has both");
}

}  // namespace
}  // namespace gdf::schedule
