#include "gdfd/worker/inner_state.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace gdf::worker {
namespace {

using Catch::Matchers::Contains;

const InnerState kState{.step = 7, .cursor = {.epoch = 2, .position = 5}, .num_moments = 2, .num_params = 3};

std::vector<uint8_t> Bytes(const std::vector<float>& moments) {
  std::vector<uint8_t> bytes(InnerState::ByteSize(2, 3));
  REQUIRE(kState.WriteHeader(absl::MakeSpan(bytes)).ok());
  std::memcpy(bytes.data() + InnerState::kHeaderBytes, moments.data(), moments.size() * sizeof(float));
  return bytes;
}

std::string Refusal(absl::Span<const uint8_t> bytes, const InnerState& expected = kState) {
  const auto state = InnerState::Read(bytes, expected);
  REQUIRE(state.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(state.status().message());
}

}  // namespace

TEST_CASE("an inner state reads back") {
  const auto state = InnerState::Read(Bytes({-1, 2, 3, 4, 5, 6}), kState);
  REQUIRE(state.ok());
  CHECK(state->step == 7);
  CHECK(state->cursor == data::Cursor{.epoch = 2, .position = 5});
}

// docs/formats/inner-state.md: magic, then little-endian 64-bit fields.
TEST_CASE("the header has the documented bytes") {
  const std::vector<uint8_t> bytes = Bytes({0, 0, 0, 0, 0, 0});
  CHECK(std::string(bytes.begin(), bytes.begin() + 8) == "GDFINNR1");
  CHECK(bytes[8] == 7);
  CHECK(bytes[16] == 2);
  CHECK(bytes[24] == 5);
  CHECK(bytes[32] == 0);
  CHECK(bytes[40] == 2);
  CHECK(bytes[48] == 3);
  CHECK(bytes.size() == 64 + 2 * 3 * 4);
}

TEST_CASE("an inner state that does not fit is refused") {
  const std::vector<uint8_t> good = Bytes({1, 2, 3, 4, 5, 6});
  std::vector<uint8_t> bad = good;
  bad[0] = 'X';
  CHECK_THAT(Refusal(bad), Contains("not an inner state"));
  CHECK_THAT(Refusal(absl::MakeConstSpan(good).first(10)), Contains("not an inner state"));
  CHECK_THAT(Refusal(absl::MakeConstSpan(good).first(80)), Contains("80 bytes, expected 88"));
  InnerState other = kState;
  other.num_params = 4;
  CHECK_THAT(Refusal(good, other), Contains("3 parameters, this one has 4"));
  other = kState;
  other.optimizer = config::InnerOptimizer::kSgd;
  CHECK_THAT(Refusal(good, other), Contains("another optimiser"));
  bad = good;
  bad[15] = 0x80;
  CHECK_THAT(Refusal(bad), Contains("is negative"));
  CHECK_THAT(Refusal(Bytes({1, std::numeric_limits<float>::infinity(), 3, 4, 5, 6})), Contains("moment 0"));
  CHECK_THAT(Refusal(Bytes({1, 2, 3, 4, -5, 6})), Contains("moment 1"));
}

}  // namespace gdf::worker
