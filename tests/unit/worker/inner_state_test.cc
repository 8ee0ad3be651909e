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

std::vector<uint8_t> Header() {
  const auto header = kState.Header();
  return std::vector<uint8_t>(header.begin(), header.end());
}

std::vector<uint8_t> Bytes(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Refusal(absl::Span<const uint8_t> header, const InnerState& expected = kState) {
  const auto state = InnerState::ReadHeader(header, expected);
  REQUIRE(state.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(state.status().message());
}

}  // namespace

TEST_CASE("an inner state's header reads back") {
  const auto state = InnerState::ReadHeader(Header(), kState);
  REQUIRE(state.ok());
  CHECK(state->step == 7);
  CHECK(state->cursor == data::Cursor{.epoch = 2, .position = 5});
  CHECK(state->num_bytes() == 64 + 2 * 3 * 4);
}

// docs/formats/inner-state.md: magic, then little-endian 64-bit fields.
TEST_CASE("the header has the documented bytes") {
  const std::vector<uint8_t> bytes = Header();
  CHECK(std::string(bytes.begin(), bytes.begin() + 8) == "GDFINNR1");
  CHECK(bytes[8] == 7);
  CHECK(bytes[16] == 2);
  CHECK(bytes[24] == 5);
  CHECK(bytes[32] == 0);
  CHECK(bytes[40] == 2);
  CHECK(bytes[48] == 3);
}

TEST_CASE("an inner state that does not fit is refused") {
  const std::vector<uint8_t> good = Header();
  std::vector<uint8_t> bad = good;
  bad[0] = 'X';
  CHECK_THAT(Refusal(bad), Contains("not an inner state"));
  CHECK_THAT(Refusal(absl::MakeConstSpan(good).first(10)), Contains("not an inner state"));
  InnerState other = kState;
  other.num_params = 4;
  CHECK_THAT(Refusal(good, other), Contains("3 parameters, this one has 4"));
  other = kState;
  other.optimizer = config::InnerOptimizer::kSgd;
  CHECK_THAT(Refusal(good, other), Contains("another optimiser"));
  bad = good;
  bad[15] = 0x80;
  CHECK_THAT(Refusal(bad), Contains("is negative"));
}

TEST_CASE("moments hold finite values, the second none below zero") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(InnerState::CheckMoment(0, Bytes({-1, 2})).ok());
  CHECK(InnerState::CheckMoment(1, Bytes({1, 2})).ok());
  CHECK_THAT(std::string(InnerState::CheckMoment(0, Bytes({1, infinity})).message()), Contains("moment 0"));
  CHECK_THAT(std::string(InnerState::CheckMoment(1, Bytes({1, -5})).message()), Contains("moment 1"));
}

// Bytes 64 to 75 are the first moment, 76 to 87 the second.
TEST_CASE("a piece is divided into the moments' parts") {
  struct Part {
    size_t moment;
    uint64_t first;
    size_t bytes;
    bool operator==(const Part&) const = default;
  };
  const std::vector<uint8_t> state(kState.num_bytes());
  const auto parts = [&](uint64_t offset, size_t length) {
    std::vector<Part> out;
    const auto piece = absl::MakeConstSpan(state).subspan(offset, length);
    const auto visit = [&](size_t moment, uint64_t first, absl::Span<const uint8_t> part) {
      // Element by element, parts lie where the state has them.
      CHECK(part.data() == state.data() + 64 + 12 * moment + 4 * first);
      out.push_back({moment, first, part.size()});
      return absl::OkStatus();
    };
    REQUIRE(kState.VisitMoments(offset, piece, visit).ok());
    return out;
  };
  CHECK(parts(0, 64).empty());
  CHECK((parts(0, 88) == std::vector<Part>{{0, 0, 12}, {1, 0, 12}}));
  CHECK((parts(60, 12) == std::vector<Part>{{0, 0, 8}}));
  CHECK((parts(72, 8) == std::vector<Part>{{0, 2, 4}, {1, 0, 4}}));
  CHECK((parts(84, 4) == std::vector<Part>{{1, 2, 4}}));
}

}  // namespace gdf::worker
