// Members that exchange over a simulated network, and the mean computed apart from them.
#ifndef GDF_TESTS_UNIT_EXCHANGE_GROUP_H_
#define GDF_TESTS_UNIT_EXCHANGE_GROUP_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/compute_pool.h"
#include "core/base/encoding.h"
#include "core/exchange/exchange.h"
#include "core/exchange/pieces.h"
#include "core/exchange/shard_plan.h"
#include "tests/sim/sim_network.h"

namespace gdf::exchange {

inline constexpr JobId kJob{3};

inline NodeId TestId(int i) { return NodeId(HashBytes("node " + std::to_string(i))); }

// In [-1, 1), the same for every run.
inline std::vector<float> Values(uint64_t seed, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(MixSeed(seed, i) >> 40) * 0x1p-23f - 1.0f;
  return values;
}

inline Buffer Pack(const compress::Codec& codec, const std::vector<float>& values) {
  std::vector<uint8_t> packed(codec.PackedSize(values.size()));
  codec.Encode(values, absl::MakeSpan(packed));
  return Buffer(std::move(packed));
}

// One a member, all of them different.
inline std::vector<Buffer> PackedDeltas(const compress::Codec& codec, size_t members, uint64_t count,
                                        uint64_t first_seed = 1) {
  std::vector<Buffer> packed;
  for (uint64_t i = 0; i < members; ++i) packed.push_back(Pack(codec, Values(first_seed + i, count)));
  return packed;
}

// docs/collectives.md: the float32 mean in member order, encoded once.
inline std::vector<float> ExpectedMean(const compress::Codec& codec, const std::vector<Buffer>& packed,
                                       const std::vector<uint64_t>& tokens, uint64_t count) {
  std::vector<float> mean(count);
  std::vector<float> decoded(count);
  float total = 0;
  for (size_t m = 0; m < packed.size(); ++m) {
    if (tokens[m] == 0) continue;
    if (!codec.Decode(packed[m].span(), absl::MakeSpan(decoded)).ok()) return {};
    for (uint64_t i = 0; i < count; ++i) mean[i] = mean[i] + static_cast<float>(tokens[m]) * decoded[i];
    total = total + static_cast<float>(tokens[m]);
  }
  for (float& value : mean) value = value / total;
  if (!codec.is_dense()) return mean;
  std::vector<uint8_t> once(codec.PackedSize(count));
  codec.Encode(mean, absl::MakeSpan(once));
  if (!codec.Decode(once, absl::MakeSpan(mean)).ok()) return {};
  return mean;
}

// As above with sites: each piece apart, as its owner makes it of its neighbours' slices and the other sites' means.
inline std::vector<float> ExpectedMeanOfSites(const compress::Codec& codec, const std::vector<Buffer>& packed,
                                              const std::vector<uint64_t>& tokens, uint64_t count,
                                              const std::vector<uint32_t>& sites, const std::vector<uint32_t>& lost = {}) {
  const auto members = static_cast<uint32_t>(packed.size());
  const Pieces pieces(ShardPlan(count, codec.block(), members), members, lost);
  const auto is_lost = [&](uint32_t m) { return std::find(lost.begin(), lost.end(), m) != lost.end(); };
  std::vector<float> mean(count);
  for (uint32_t owner = 0; owner < members; ++owner) {
    const auto turn = static_cast<size_t>(std::count(sites.begin(), sites.begin() + owner, sites[owner]));
    for (const uint32_t piece : pieces.of(owner)) {
      const Range bytes = PackedRange(codec, pieces.range(piece));
      std::map<uint32_t, std::pair<Buffer, uint64_t>> sources;  // by who sends it to the owner: frame and weight
      std::map<uint32_t, std::vector<uint32_t>> at_site;
      for (uint32_t m = 0; m < members; ++m) at_site[sites[m]].push_back(m);
      for (const auto& [site, there] : at_site) {
        std::vector<Buffer> frames;
        std::vector<uint64_t> weights;
        uint64_t sum = 0;
        for (const uint32_t m : there) {
          if (tokens[m] == 0) continue;
          const Buffer slice = packed[m].Slice(bytes.begin, bytes.size());
          if (site == sites[owner]) sources[m] = {slice, tokens[m]};
          frames.push_back(slice);
          weights.push_back(tokens[m]);
          sum += tokens[m];
        }
        if (site == sites[owner] || frames.empty()) continue;
        size_t gate = turn % there.size();
        while (is_lost(there[gate])) gate = (gate + 1) % there.size();
        const std::vector<float> of_site =
            frames.size() == 1 ? std::vector<float>() : ExpectedMean(codec, frames, weights, pieces.range(piece).size());
        sources[there[gate]] = {frames.size() == 1 ? frames[0] : Pack(codec, of_site), sum};
      }
      std::vector<Buffer> frames;
      std::vector<uint64_t> weights;
      for (const auto& [from, source] : sources) {
        frames.push_back(source.first);
        weights.push_back(source.second);
      }
      const std::vector<float> part = ExpectedMean(codec, frames, weights, pieces.range(piece).size());
      std::copy(part.begin(), part.end(), mean.begin() + static_cast<std::ptrdiff_t>(pieces.range(piece).begin));
    }
  }
  return mean;
}

class Group {
 public:
  struct Member {
    std::unique_ptr<sim::SimTransport> transport;
    std::unique_ptr<Exchange> exchange;  // none: the test plays it by hand
    std::optional<Outcome> outcome;
  };

  explicit Group(int size, uint64_t seed = 1) : network(executor, seed), scope(executor) {
    for (int i = 0; i < size; ++i) {
      members.emplace_back();
      members[i].transport = network.Join(TestId(i));
      members[i].exchange =
          std::make_unique<Exchange>(Exchange::Context{executor, pool, *members[i].transport, kJob});
    }
  }
  ~Group() {
    scope.Clear();
    for (Member& member : members) member.exchange.reset();
  }

  AllReduceRequest Request(int self, std::shared_ptr<const compress::Codec> codec, uint64_t num_params,
                           const std::vector<uint64_t>& tokens, const Buffer& packed, uint32_t attempt = 1) const {
    AllReduceRequest request;
    request.tag = {kJob, Epoch{1}, RoundId{5}, attempt};
    for (size_t i = 0; i < tokens.size(); ++i) request.members.push_back({TestId(static_cast<int>(i)), tokens[i]});
    request.codec = std::move(codec);
    request.num_params = num_params;
    if (tokens[self] > 0) request.packed = packed;
    request.deadline = absl::Seconds(30);
    return request;
  }

  void Start(int self, AllReduceRequest request) { scope.Spawn(Run(&members[self], std::move(request))); }
  // The process of a member is no more.
  void Crash(int self) {
    members[self].transport->Mute();
    members[self].exchange.reset();
    members[self].transport.reset();
  }

  SimExecutor executor;
  InlinePool pool;
  sim::SimNetwork network;
  std::vector<Member> members;
  TaskScope scope;  // last: its tasks use the rest

 private:
  static Task<void> Run(Member* member, AllReduceRequest request) {
    Outcome outcome = co_await member->exchange->AllReduce(std::move(request));
    member->outcome = std::move(outcome);
  }
};

inline std::shared_ptr<const compress::Codec> MakeCodec(const char* name) {
  return *compress::Codec::Create(*compress::CodecSpec::Parse(name));
}

inline bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Everybody ends with the mean computed apart, bit for bit. `shares` and `sites` as of a request.
inline void CheckAllReduce(const char* codec_name, uint64_t count, const std::vector<uint64_t>& tokens,
                           const std::vector<uint32_t>& shares = {}, const std::vector<uint32_t>& sites = {}) {
  INFO(codec_name << ", " << count << " values, " << tokens.size() << " members");
  const std::shared_ptr<const compress::Codec> codec = MakeCodec(codec_name);
  const int size = static_cast<int>(tokens.size());
  Group group(size);
  const std::vector<Buffer> packed = PackedDeltas(*codec, tokens.size(), count);
  for (int i = 0; i < size; ++i) {
    AllReduceRequest request = group.Request(i, codec, count, tokens, packed[i]);
    request.shares = shares;
    request.sites = sites;
    group.Start(i, std::move(request));
  }
  group.executor.RunUntilIdle();
  const std::vector<float> expected = sites.empty() ? ExpectedMean(*codec, packed, tokens, count)
                                                    : ExpectedMeanOfSites(*codec, packed, tokens, count, sites);
  uint64_t sent = 0;
  uint64_t received = 0;
  for (int i = 0; i < size; ++i) {
    INFO("member " << i);
    REQUIRE(group.members[i].outcome);
    const Outcome& outcome = *group.members[i].outcome;
    REQUIRE(outcome.status == absl::OkStatus());
    CHECK(SameBits(outcome.mean.span(), expected));
    CHECK(outcome.lost.empty());
    sent += outcome.payload_sent;
    received += outcome.payload_received;
  }
  CHECK(sent == received);
}

}  // namespace gdf::exchange

#endif  // GDF_TESTS_UNIT_EXCHANGE_GROUP_H_
