#include "tests/sim/recompute.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/compress/low_rank.h"
#include "core/train/fragments.h"

namespace gdf::sim {

// The optimiser's, without the factors that may follow it.
absl::Span<const float> Recompute::OuterMomentum(const checkpoint::OuterState& state) const {
  return state.momentum.span().subspan(0, options_.outer.momentum > 0 ? options_.num_params : 0);
}

// The receipt's contributors' deltas give the state. A node that trained twice on a round packed twice.
std::string Recompute::Check(const CommittedRound& before, const CommittedRound& round) const {
  if (options_.rank > 0) return CheckFactors(before, round);
  const wire::Receipt& receipt = round.commit->receipt;
  std::vector<std::vector<Buffer>> choices;
  size_t combinations = 1;
  for (const wire::Contribution& c : receipt.contributions) {
    const auto it = journal_.find({c.node, receipt.tag.round});
    if (it == journal_.end()) return absl::StrCat(receipt.tag.ToString(), " names a node that packed nothing\n");
    choices.push_back(it->second);
    combinations *= it->second.size();
  }
  for (size_t pick = 0; pick < combinations; ++pick) {
    std::vector<Buffer> packed;
    size_t rest = pick;
    for (const std::vector<Buffer>& of_node : choices) {
      packed.push_back(of_node[of_node.size() - 1 - rest % of_node.size()]);
      rest /= of_node.size();
    }
    if (Reproduces(before, round, packed)) return "";
  }
  return absl::StrCat("the result of ", receipt.tag.ToString(), " is not what its contributions give\n");
}

// The arithmetic of docs/formats/round-messages.md, written out: no shards, no exchange. With sites float32 is added up in
// another order.
bool Recompute::Reproduces(const CommittedRound& before, const CommittedRound& round,
                        const std::vector<Buffer>& packed) const {
  const wire::Receipt& receipt = round.commit->receipt;
  const std::unique_ptr<compress::Codec> codec = *compress::Codec::Create(options_.codecs[receipt.codec]);
  const train::Fragments fragments =
      *train::Fragments::Create(options_.num_params, static_cast<uint64_t>(options_.fragments));
  const size_t n = fragments.size(receipt.tag.round.value % fragments.count());
  std::vector<float> mean(n);
  std::vector<float> decoded(n);
  float total = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    const float weight = static_cast<float>(receipt.contributions[i].tokens);
    if (!codec->Decode(packed[i].span(), absl::MakeSpan(decoded)).ok()) return false;
    for (size_t k = 0; k < n; ++k) mean[k] = mean[k] + weight * decoded[k];
    total = total + weight;
  }
  for (float& value : mean) value = value / total;
  if (codec->is_dense()) {
    std::vector<uint8_t> once(codec->PackedSize(n));
    codec->Encode(mean, absl::MakeSpan(once), {.seed = MixSeed(spec_.train.seed, receipt.tag.round.value, 0)});
    if (!codec->Decode(once, absl::MakeSpan(mean)).ok()) return false;
  }
  return Steps(before, round, mean);
}

bool Recompute::Steps(const CommittedRound& before, const CommittedRound& round, absl::Span<const float> mean) const {
  const train::Fragments fragments =
      *train::Fragments::Create(options_.num_params, static_cast<uint64_t>(options_.fragments));
  const uint64_t fragment = round.commit->receipt.tag.round.value % fragments.count();
  const size_t n = fragments.size(fragment);
  const absl::Span<const float> theta = before.state->theta.span();
  const absl::Span<const float> momentum = OuterMomentum(*before.state);
  const absl::Span<const float> next_momentum = OuterMomentum(*round.state);
  if (momentum.size() != next_momentum.size()) return false;
  const float rate = static_cast<float>(options_.outer.lr);
  const float mu = static_cast<float>(options_.outer.momentum);
  const size_t begin = fragments.begin(fragment);
  const auto same = [this](float expected, float got) {
    const bool one_level = options_.sites.empty() && options_.near.empty();
    return one_level ? expected == got : std::abs(expected - got) <= 1e-5f * (1 + std::abs(expected));
  };
  for (size_t k = 0; k < options_.num_params; ++k) {  // Nesterov, or SGD without momentum
    const bool in = k >= begin && k - begin < n;
    float m = momentum.empty() ? 0 : momentum[k];
    float next = theta[k];
    if (in) {
      m = mu * m + mean[k - begin];
      next = theta[k] - rate * (momentum.empty() ? m : mean[k - begin] + mu * m);
    }
    if (!same(next, round.state->theta.span()[k])) return false;
    if (!momentum.empty() && !same(m, next_momentum[k])) return false;
  }
  return true;
}

// docs/formats/low-rank.md: the contributors' second passes, all made of one mean of first ones, give the state.
std::string Recompute::CheckFactors(const CommittedRound& before, const CommittedRound& round) const {
  const wire::Receipt& receipt = round.commit->receipt;
  SimWorkerOptions of_model;
  of_model.num_params = options_.num_params;
  of_model.has_matrix = true;
  const compress::LowRank low_rank = *compress::LowRank::Create(SimWorker::Loaded(of_model).layout, options_.rank);
  const auto first = projections_.find({receipt.contributions[0].node, receipt.tag.round});
  if (first == projections_.end()) return absl::StrCat(receipt.tag.ToString(), " names a node without a second pass\n");
  for (const Projection& begun : first->second) {
    std::vector<float> second(low_rank.num_second());
    float total = 0;
    for (const wire::Contribution& c : receipt.contributions) {
      const auto of_node = projections_.find({c.node, receipt.tag.round});
      if (of_node == projections_.end()) break;
      // Whoever trained twice on the round is believed by its last one.
      const auto same = std::find_if(of_node->second.rbegin(), of_node->second.rend(),
                                     [&](const Projection& p) { return p.given == begun.given; });
      if (same == of_node->second.rend()) break;
      const float weight = static_cast<float>(c.tokens);
      const auto* values = reinterpret_cast<const float*>(same->packed.span().data());
      for (size_t k = 0; k < second.size(); ++k) second[k] = second[k] + weight * values[k];
      total = total + weight;
    }
    for (float& value : second) value = value / total;
    std::vector<float> left = begun.given, mean(options_.num_params), right(low_rank.num_right());
    low_rank.Orthonormalise(MixSeed(spec_.train.seed, receipt.tag.round.value, 0), absl::MakeSpan(left));
    low_rank.Accumulate(left, second, 1.0f, absl::MakeSpan(mean));
    low_rank.NextRight(second, absl::MakeSpan(right));
    const absl::Span<const float> carried = round.state->momentum.span();
    if (!Steps(before, round, mean) || carried.subspan(carried.size() - right.size()) != absl::MakeConstSpan(right)) {
      continue;
    }
    if (IsFirstPass(receipt.tag.round, begun.given)) return "";
    return absl::StrCat("the factors of ", receipt.tag.ToString(), " are the mean of no first passes\n");
  }
  return absl::StrCat("the result of ", receipt.tag.ToString(), " is not what its contributions' factors give\n");
}

// Of some of the nodes, each with one of the first passes that it packed, of as many tokens as the newest.
bool Recompute::IsFirstPass(RoundId round, const std::vector<float>& mean) const {
  std::vector<std::vector<const Buffer*>> choices;  // of each node; null: it is not among them
  std::vector<float> weights;
  for (const NodeId& node : nodes_) {
    choices.push_back({nullptr});
    weights.push_back(0);
    const auto packed = journal_.find({node, round});
    if (packed == journal_.end()) continue;
    weights.back() = static_cast<float>(inner_.tokens.at({node, round}));
    for (const Buffer& one : packed->second) choices.back().push_back(&one);
  }
  std::vector<size_t> pick(choices.size());
  while (true) {
    std::vector<float> sum(mean.size());
    float total = 0;
    for (size_t i = 0; i < pick.size(); ++i) {
      if (choices[i][pick[i]] == nullptr) continue;
      const auto* values = reinterpret_cast<const float*>(choices[i][pick[i]]->span().data());
      for (size_t k = 0; k < sum.size(); ++k) sum[k] = sum[k] + weights[i] * values[k];
      total = total + weights[i];
    }
    for (float& value : sum) value = value / total;
    if (total > 0 && sum == mean) return true;
    size_t digit = 0;
    while (digit < pick.size() && ++pick[digit] == choices[digit].size()) pick[digit++] = 0;
    if (digit == pick.size()) return false;
  }
}

}  // namespace gdf::sim
