#include "core/data/sampler.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/rng.h"

namespace gdf::data {
namespace {

constexpr int kFeistelRounds = 4;

// A permutation of [0, size) chosen by `key`: a balanced Feistel network (Luby, Rackoff 1988) on
// the next even number of bits, walked until the value is below `size` (Black, Rogaway 2002). The
// domain is less than 4 * size, so that takes fewer than 4 steps on average.
uint64_t Permute(uint64_t value, uint64_t size, uint64_t key) {
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  do {
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (int round = 0; round < kFeistelRounds; ++round) {
      const uint64_t mixed = left ^ (MixSeed(key, static_cast<uint64_t>(round), right) & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits | right;
  } while (value >= size);
  return value;
}

int64_t WindowsPerEpoch(const SamplerOptions& options) {
  return options.policy == SamplePolicy::kRandom ? options.corpus_len - options.seq_len
                                                 : (options.corpus_len - 1) / options.seq_len;
}

}  // namespace

absl::StatusOr<Sampler> Sampler::Create(const SamplerOptions& options, Cursor cursor) {
  if (options.seq_len < 1 || options.corpus_len < 0) {
    return absl::InvalidArgumentError(absl::StrCat("sequence length ", options.seq_len, " over ",
                                                   options.corpus_len, " tokens is impossible"));
  }
  if (options.corpus_len <= options.seq_len) {
    return absl::InvalidArgumentError(absl::StrCat("the training part has ", options.corpus_len,
                                                   " tokens; a window takes ", options.seq_len + 1,
                                                   ": use more text or a shorter sequence"));
  }
  if (options.num_members < 1 || options.member_index < 0 ||
      options.member_index >= options.num_members) {
    return absl::InvalidArgumentError(absl::StrCat("member ", options.member_index, " of ",
                                                   options.num_members, " does not exist"));
  }
  const int64_t windows = WindowsPerEpoch(options);
  if (windows < options.num_members) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the training part has ", windows, " windows of ", options.seq_len, " tokens for ",
        options.num_members, " members: use more text, a shorter sequence or fewer members"));
  }
  if (cursor.epoch < 0 || cursor.position < 0 || cursor.position > windows) {
    return absl::InvalidArgumentError(absl::StrCat("cursor (epoch ", cursor.epoch, ", position ",
                                                   cursor.position, ") is outside the ", windows,
                                                   " windows of an epoch"));
  }
  return Sampler(options, cursor, windows);
}

Sampler::Sampler(const SamplerOptions& options, Cursor cursor, int64_t windows)
    : options_(options), windows_(windows), cursor_(cursor) {}

int64_t Sampler::StartOf(int64_t position) const {
  if (options_.policy == SamplePolicy::kSequential) return position * options_.seq_len;
  const uint64_t key = MixSeed(options_.seed, static_cast<uint64_t>(cursor_.epoch));
  return static_cast<int64_t>(
      Permute(static_cast<uint64_t>(position), static_cast<uint64_t>(windows_), key));
}

int64_t Sampler::Next() {
  if (windows_ - cursor_.position < options_.num_members) cursor_ = {cursor_.epoch + 1, 0};
  const int64_t start = StartOf(cursor_.position + options_.member_index);
  cursor_.position += options_.num_members;
  return start;
}

void Sampler::Next(absl::Span<int64_t> starts) {
  for (int64_t& start : starts) start = Next();
}

std::vector<EvalWindow> AllEvalWindows(int64_t valid_len, int64_t seq_len) {
  std::vector<EvalWindow> windows;
  if (seq_len < 1 || valid_len <= seq_len) return windows;
  const int64_t targets = valid_len - 1;
  for (int64_t start = 0; start + seq_len <= targets; start += seq_len) {
    windows.push_back({start, 0});
  }
  if (const int64_t rest = targets % seq_len; rest != 0) {
    windows.push_back({targets - seq_len, seq_len - rest});
  }
  return windows;
}

std::vector<EvalWindow> QuickEvalWindows(int64_t valid_len, int64_t seq_len, int64_t count) {
  const std::vector<EvalWindow> all = AllEvalWindows(valid_len, seq_len);
  const auto total = static_cast<int64_t>(all.size());
  if (count >= total) return all;
  std::vector<EvalWindow> chosen;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(all[static_cast<size_t>(i * total / count)]);
  }
  return chosen;
}

void CopyWindows(absl::Span<const int32_t> tokens, absl::Span<const int64_t> starts,
                 int64_t seq_len, absl::Span<int64_t> inputs, absl::Span<int64_t> targets) {
  const auto length = static_cast<size_t>(seq_len);
  GDF_CHECK(inputs.size() == starts.size() * length && targets.size() == inputs.size());
  for (size_t b = 0; b < starts.size(); ++b) {
    GDF_CHECK(starts[b] >= 0);
    const auto start = static_cast<size_t>(starts[b]);
    GDF_CHECK(start + length < tokens.size());
    const int32_t* window = tokens.data() + start;
    std::copy(window, window + length, inputs.data() + b * length);
    std::copy(window + 1, window + length + 1, targets.data() + b * length);
  }
}

}  // namespace gdf::data
