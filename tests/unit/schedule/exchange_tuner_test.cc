// Expected values are arithmetic by hand from docs/collectives.md.
#include "core/schedule/exchange_tuner.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace gdf::schedule {
namespace {

using config::CodecSpec;

constexpr uint64_t kValues = 16'000'000;
constexpr uint64_t kMbit = 125'000;  // bytes per second

CodecSpec Spec(const char* text) { return *CodecSpec::Parse(text); }

const CodecSpec kFp32 = Spec("fp32"), kBf16 = Spec("bf16"), kInt8 = Spec("int8"), kInt4 = Spec("int4");

std::vector<NodeId> Nodes(int count) {
  std::vector<NodeId> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(NodeId(HashBytes("node " + std::to_string(i))));
  return nodes;
}

wire::LinkFigures Figures(uint64_t rate, uint64_t values_per_sec = 0) {
  return {rate, rate, absl::Milliseconds(20), values_per_sec};
}

struct Lead {
  ExchangeTuner tuner{{kFp32, kBf16, kInt8, kInt4}, kValues};
  std::vector<NodeId> nodes = Nodes(4);

  void Round(const CodecSpec& codec, uint64_t rate, absl::Duration packing = {}, uint64_t values_per_sec = 0) {
    for (const NodeId& node : nodes) tuner.Learn(node, codec, packing, Figures(rate, values_per_sec));
  }
};

TEST_CASE("where nothing is known the codec stays and shares are equal") {
  Lead lead;
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt8) == kInt8);
  CHECK(lead.tuner.DealShares(lead.nodes).empty());
  CHECK(lead.tuner.Predict(lead.nodes, kInt8) == absl::ZeroDuration());
  lead.tuner.Learn(lead.nodes[0], kInt8, absl::Seconds(1), {});  // an exchange that said nothing
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt8) == kInt8);
  CHECK(lead.tuner.ChooseCodec({lead.nodes.data(), 1}, kInt8) == kInt8);
}

TEST_CASE("the time predicted is packing, a round trip and three halves of the packed delta") {
  Lead lead;
  lead.Round(kFp32, 100 * kMbit, absl::Seconds(0.5));
  CHECK(absl::ToDoubleSeconds(lead.tuner.Predict(lead.nodes, kFp32)) == Approx(0.5 + 0.02 + 96e6 / 12.5e6));
}

TEST_CASE("on a slow link the codec of the fewest bytes is used, in any order of events") {
  for (const CodecSpec& first : {kFp32, kBf16, kInt8, kInt4}) {
    Lead lead;
    lead.Round(first, 10 * kMbit);
    CHECK(lead.tuner.ChooseCodec(lead.nodes, first) == kInt4);
  }
}

TEST_CASE("of codecs that are as soon done the preferred one is used") {
  // 100 Gbit/s: 96 MB in 8 ms, 12 MB in 1 ms, beside round trips of 20 ms and 2 s of packing whichever codec.
  Lead lead;
  lead.Round(kInt4, 100'000 * kMbit, absl::Seconds(2));
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt4) == kFp32);
}

TEST_CASE("links that were too fast for an exchange to tell of are no reason for a smaller codec") {
  Lead lead;
  lead.Round(kInt4, 0);
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt4) == kFp32);
  CHECK(lead.tuner.DealShares(lead.nodes).empty());
  lead.Round(kFp32, 10 * kMbit);
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kFp32) == kInt4);
  lead.Round(kInt4, 0);  // what is known stays
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt4) == kInt4);
}

TEST_CASE("a codec that is slow to code is left for one of more bytes, when that was seen") {
  Lead lead;
  // 1 Gbit/s: int4's 12.75 MB take 0.1 s, int8's 24.4 MB 0.2 s, bf16's 48 MB 0.38 s.
  lead.Round(kInt8, 1000 * kMbit, absl::Milliseconds(10));
  REQUIRE(lead.tuner.ChooseCodec(lead.nodes, kInt8) == kInt4);  // its speed is not known yet: it is tried
  lead.Round(kInt4, 1000 * kMbit, absl::Milliseconds(500));
  CHECK(lead.tuner.ChooseCodec(lead.nodes, kInt4) == kInt8);
  // One node's processor is enough to make it slow: 36e6 values to code.
  Lead other;
  other.Round(kInt8, 1000 * kMbit, absl::Milliseconds(10), 1'000'000'000);
  other.Round(kInt4, 1000 * kMbit, absl::Milliseconds(10), 1'000'000'000);
  REQUIRE(other.tuner.ChooseCodec(other.nodes, kInt8) == kInt4);
  for (int i = 0; i < 8; ++i) other.tuner.Learn(other.nodes[2], kInt4, absl::Milliseconds(10), Figures(1000 * kMbit, 36'000'000));
  CHECK(other.tuner.ChooseCodec(other.nodes, kInt8) == kInt8);
}

TEST_CASE("a codec stays while it is about as good: measurements that vary do not change it") {
  // Two codecs that differ by their packing alone: 1 s against 0.96 and 0.94.
  const auto choose = [](double other_sec) {
    ExchangeTuner tuner({Spec("int8:256"), Spec("int8:512")}, 1'000'000);
    const std::vector<NodeId> nodes = Nodes(2);
    for (const NodeId& node : nodes) {
      tuner.Learn(node, Spec("int8:512"), absl::Seconds(1), Figures(100'000 * kMbit));
      tuner.Learn(node, Spec("int8:256"), absl::Seconds(other_sec), Figures(100'000 * kMbit));
    }
    return tuner.ChooseCodec(nodes, Spec("int8:512"));
  };
  CHECK(choose(0.94) == Spec("int8:256"));
  CHECK(choose(1.5) == Spec("int8:512"));
  CHECK(choose(1.04) == Spec("int8:512"));
}

TEST_CASE("a link is followed when it changes, upwards sooner") {
  Lead lead;
  lead.Round(kFp32, 100 * kMbit);
  lead.Round(kFp32, 50 * kMbit);  // a quarter of the way: 87.5
  CHECK(absl::ToDoubleSeconds(lead.tuner.Predict(lead.nodes, kFp32)) == Approx(0.02 + 96e6 / (87.5 * kMbit)));
  lead.Round(kFp32, 112'500 * kMbit / 1000);  // half of the way: 100
  CHECK(absl::ToDoubleSeconds(lead.tuner.Predict(lead.nodes, kFp32)) == Approx(0.02 + 96e6 / (100 * kMbit)));
}

TEST_CASE("a slow member of four owns nothing; small differences leave shares equal") {
  Lead lead;
  lead.Round(kFp32, 100 * kMbit);
  CHECK(lead.tuner.DealShares(lead.nodes).empty());
  lead.tuner.Learn(lead.nodes[1], kFp32, {}, Figures(90 * kMbit));
  CHECK(lead.tuner.DealShares(lead.nodes).empty());
  for (int i = 0; i < 20; ++i) lead.tuner.Learn(lead.nodes[1], kFp32, {}, Figures(10 * kMbit));
  const std::vector<uint32_t> shares = lead.tuner.DealShares(lead.nodes);
  REQUIRE(shares.size() == 4);
  CHECK(shares[1] == 0);
  CHECK(std::accumulate(shares.begin(), shares.end(), 0u) == wire::kSharesWhole);
  for (const size_t i : {0, 2, 3}) CHECK(shares[i] == Approx(wire::kSharesWhole / 3).margin(1));
}

TEST_CASE("whatever members say of themselves, no share is above the bound and none is lost") {
  for (int seed = 0; seed < 300; ++seed) {
    const auto count = static_cast<size_t>(2 + seed % 15);
    const std::vector<NodeId> nodes = Nodes(static_cast<int>(count));
    ExchangeTuner tuner({kInt8}, kValues);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t rate = uint64_t{1} << (static_cast<uint64_t>(seed) * 7919 + i * i * 104729) % 40;
      tuner.Learn(nodes[i], kInt8, {}, {rate, seed % 3 == 0 ? wire::kMaxRate : rate, {}, rate});
    }
    const std::vector<uint32_t> shares = tuner.DealShares(nodes);
    if (shares.empty()) continue;
    CHECK(std::accumulate(shares.begin(), shares.end(), 0u) == wire::kSharesWhole);
    for (const uint32_t share : shares) {
      CHECK(share <= ExchangeTuner::kMaxShare * wire::kSharesWhole / static_cast<double>(count) + 1);
    }
  }
}

}  // namespace
}  // namespace gdf::schedule
