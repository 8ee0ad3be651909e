#include "core/exchange/link_meter.h"

#include <catch2/catch.hpp>

#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

struct Kernel {
  std::map<NodeId, net::TrafficCounters> counters;

  LinkMeter Meter(int peers, absl::Duration now) {
    std::vector<NodeId> ids;
    for (int i = 1; i <= peers; ++i) ids.push_back(TestId(i));
    return LinkMeter([this](const NodeId& peer) { return counters[peer]; }, std::move(ids), now);
  }
  void Pass(int peer, uint64_t sent, uint64_t received) {
    counters[TestId(peer)].bytes_sent += sent;
    counters[TestId(peer)].bytes_received += received;
  }
};

TEST_CASE("a link's rate is that of the busiest window, each direction for itself, all peers together") {
  Kernel kernel;
  kernel.Pass(1, 1'000'000, 1'000'000);  // before: another exchange's
  kernel.counters[TestId(1)].rtt = absl::Milliseconds(20);
  kernel.counters[TestId(2)].rtt = absl::Milliseconds(70);
  LinkMeter meter = kernel.Meter(2, absl::Seconds(5));
  kernel.counters[TestId(1)].rtt = absl::Milliseconds(900);  // behind full queues
  kernel.Pass(1, 100'000, 1000);
  kernel.Pass(2, 300'000, 2000);
  kernel.Pass(3, 9'000'000, 9'000'000);  // no member
  meter.EndWindow(absl::Seconds(5.2));
  kernel.Pass(1, 10'000, 200'000);
  meter.EndWindow(absl::Seconds(5.4));
  kernel.Pass(1, 10'000'000, 10'000'000);  // in no whole window
  const wire::LinkFigures figures = meter.Finish(absl::Seconds(5.41));
  CHECK(figures.up_bytes_per_sec == 2'000'000);    // 400'000 in 0.2 s
  CHECK(figures.down_bytes_per_sec == 1'000'000);  // 200'000 in 0.2 s
  CHECK(figures.rtt == absl::Milliseconds(70));
  CHECK(figures.values_per_sec == 0);
}

TEST_CASE("peers on the local network are near, whatever the queues are now") {
  Kernel kernel;
  LinkMeter meter = kernel.Meter(3, absl::Seconds(1));
  kernel.counters[TestId(1)].min_rtt = wire::kNearRtt;
  kernel.counters[TestId(1)].rtt = absl::Milliseconds(50);
  kernel.counters[TestId(2)].min_rtt = wire::kNearRtt + absl::Microseconds(1);
  kernel.counters[TestId(3)].min_rtt = absl::ZeroDuration();  // not known
  CHECK(meter.Finish(absl::Seconds(2)).near == std::vector<NodeId>{TestId(1)});
}

TEST_CASE("an exchange shorter than a window counts without the round trip that it waits for") {
  Kernel kernel;
  kernel.counters[TestId(1)].rtt = absl::Milliseconds(50);
  LinkMeter meter = kernel.Meter(1, absl::Seconds(1));
  kernel.Pass(1, 50'000, 25'000);
  const wire::LinkFigures figures = meter.Finish(absl::Seconds(1.1));
  CHECK(figures.up_bytes_per_sec == 1'000'000);
  CHECK(figures.down_bytes_per_sec == 500'000);
  LinkMeter shorter = kernel.Meter(1, absl::Seconds(2));
  kernel.Pass(1, 100'000, 0);
  CHECK(shorter.Finish(absl::Seconds(2.04)).up_bytes_per_sec == 10'000'000);  // in a quarter of it
  LinkMeter small = kernel.Meter(1, absl::Seconds(3));
  kernel.Pass(1, 30'000, 30'000);
  const wire::LinkFigures little = small.Finish(absl::Seconds(3.1));  // says nothing of the link
  CHECK(little.up_bytes_per_sec + little.down_bytes_per_sec == 0);
  CHECK(little.rtt == absl::Milliseconds(50));
}

TEST_CASE("what is told stays within the bounds of the message") {
  Kernel kernel;
  kernel.counters[TestId(1)].rtt = absl::Hours(1);
  LinkMeter meter = kernel.Meter(1, absl::Seconds(1));
  kernel.Pass(1, uint64_t{1} << 62, 0);
  meter.EndWindow(absl::Seconds(1) + absl::Nanoseconds(1));
  meter.EndWindow(absl::Seconds(1) + absl::Nanoseconds(1));  // no time at all
  const wire::LinkFigures figures = meter.Finish(absl::Seconds(2));
  CHECK(figures.up_bytes_per_sec == wire::kMaxRate);
  CHECK(figures.rtt == wire::kMaxRtt);
}

TEST_CASE("every member of an exchange that is complete knows its link") {
  constexpr uint64_t kCount = 1'000'000;
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(4);
  for (const uint32_t attempt : {1u, 2u}) {
    for (int i = 0; i < 4; ++i) {
      group.Start(i, group.Request(i, codec, kCount, {1, 1, 1, 1}, Pack(*codec, Values(1, kCount)), attempt));
    }
    group.executor.RunUntilIdle();
  }
  for (const Group::Member& member : group.members) {
    REQUIRE(member.outcome);
    REQUIRE(member.outcome->status == absl::OkStatus());
    CHECK(member.outcome->link.up_bytes_per_sec > 0);
    CHECK(member.outcome->link.down_bytes_per_sec > 0);
    CHECK(member.outcome->link.rtt == absl::Milliseconds(65));  // as sim::SimTransport tells it
  }
}

}  // namespace
}  // namespace gdf::exchange
