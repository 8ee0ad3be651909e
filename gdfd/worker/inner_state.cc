#include "gdfd/worker/inner_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gdf::worker {
namespace {

constexpr char kMagic[8] = {'G', 'D', 'F', 'I', 'N', 'N', 'R', '1'};

// Offsets of the header's little-endian 64-bit fields.
constexpr size_t kStepAt = 8;
constexpr size_t kEpochAt = 16;
constexpr size_t kPositionAt = 24;
constexpr size_t kOptimizerAt = 32;
constexpr size_t kNumMomentsAt = 40;
constexpr size_t kNumParamsAt = 48;

void Put(absl::Span<uint8_t> out, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) out[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

uint64_t Get(absl::Span<const uint8_t> in, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{in[at + i]} << (8 * i);
  return value;
}

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("inner state: ", what));
}

// Copies each value out: the piece may lie at any alignment.
bool AllUsable(absl::Span<const uint8_t> bytes, bool may_be_negative) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    if (!std::isfinite(value) || (!may_be_negative && value < 0)) return false;
  }
  return true;
}

}  // namespace

std::array<uint8_t, InnerState::kHeaderBytes> InnerState::Header() const {
  std::array<uint8_t, kHeaderBytes> header{};
  const auto out = absl::MakeSpan(header);
  std::memcpy(out.data(), kMagic, sizeof(kMagic));
  Put(out, kStepAt, static_cast<uint64_t>(step));
  Put(out, kEpochAt, static_cast<uint64_t>(cursor.epoch));
  Put(out, kPositionAt, static_cast<uint64_t>(cursor.position));
  Put(out, kOptimizerAt, static_cast<uint64_t>(optimizer));
  Put(out, kNumMomentsAt, num_moments);
  Put(out, kNumParamsAt, num_params);
  return header;
}

absl::StatusOr<InnerState> InnerState::ReadHeader(absl::Span<const uint8_t> in,
                                                  const InnerState& expected) {
  if (in.size() < kHeaderBytes || std::memcmp(in.data(), kMagic, sizeof(kMagic)) != 0) {
    return Invalid("not an inner state of format 1");
  }
  InnerState state = expected;
  state.step = static_cast<int64_t>(Get(in, kStepAt));
  state.cursor.epoch = static_cast<int64_t>(Get(in, kEpochAt));
  state.cursor.position = static_cast<int64_t>(Get(in, kPositionAt));
  if (Get(in, kOptimizerAt) != static_cast<uint64_t>(expected.optimizer) ||
      Get(in, kNumMomentsAt) != expected.num_moments) {
    return Invalid("it is another optimiser's");
  }
  if (Get(in, kNumParamsAt) != expected.num_params) {
    return Invalid(absl::StrCat("it is of a model with ", Get(in, kNumParamsAt),
                                " parameters, this one has ", expected.num_params));
  }
  if (state.step < 0) return Invalid(absl::StrCat("step ", state.step, " is negative"));
  return state;
}

absl::Status InnerState::CheckMoment(size_t index, absl::Span<const uint8_t> values) {
  const bool second = index == 1;
  if (AllUsable(values, !second)) return absl::OkStatus();
  return Invalid(absl::StrCat("moment ", index, " holds a value that is not finite",
                              second ? " or negative" : ""));
}

}  // namespace gdf::worker
