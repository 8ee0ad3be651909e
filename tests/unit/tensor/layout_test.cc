#include "core/tensor/layout.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/tensor/finite.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::tensor {
namespace {

using Catch::Matchers::Contains;

std::string Error(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

Layout Small() {
  Layout layout;
  REQUIRE(layout.Add("wte.weight", {65, 128}).ok());
  REQUIRE(layout.Add("scale", {}).ok());
  REQUIRE(layout.Add("ln.weight", {128}).ok());
  return layout;
}

TEST_CASE("tensors follow one another in a layout") {
  const Layout layout = Small();
  CHECK(layout.num_params() == 65 * 128 + 1 + 128);
  CHECK(layout.Find("wte.weight")->offset_elems == 0);
  CHECK(layout.Find("scale")->offset_elems == 8320);
  CHECK(layout.Find("scale")->num_elems == 1);
  CHECK(layout.Find("ln.weight")->offset_elems == 8321);
  CHECK(layout.Find("missing") == nullptr);
  std::vector<float> theta(layout.num_params());
  const absl::Span<float> slice = layout.Slice(absl::MakeSpan(theta), *layout.Find("ln.weight"));
  CHECK(slice.data() == theta.data() + 8321);
  CHECK(slice.size() == 128);
}

TEST_CASE("a layout refuses names and shapes out of bounds and stays as it was") {
  Layout layout = Small();
  const Layout before = layout;
  CHECK_THAT(Error(layout.Add("", {1})), Contains("1 to 512"));
  CHECK_THAT(Error(layout.Add(std::string(513, 'a'), {1})), Contains("513 bytes"));
  CHECK_THAT(Error(layout.Add("a\nb", {1})), Contains("printable ASCII"));
  CHECK_THAT(Error(layout.Add("scale", {1})), Contains("twice"));
  CHECK_THAT(Error(layout.Add("x", {2, 0})), Contains("0 elements"));
  CHECK_THAT(Error(layout.Add("x", {2, -1})), Contains("negative"));
  CHECK_THAT(Error(layout.Add("x", {int64_t{1} << 40})), Contains("at most"));
  CHECK_THAT(Error(layout.Add("x", {int64_t{1} << 32, int64_t{1} << 32})), Contains("more than"));
  CHECK_THAT(Error(layout.Add("x", {int64_t{1} << 62, 4})), Contains("more than"));
  CHECK_THAT(Error(layout.Add("x", std::vector<int64_t>(17, 1))), Contains("17 dimensions"));
  CHECK(layout == before);
  CHECK(layout.Add(std::string(512, 'a'), {1}).ok());
  Layout full;
  CHECK(full.Add("all", {int64_t{1} << 40}).ok());
  CHECK(!full.Add("one more", {1}).ok());
}

TEST_CASE("shape products are bounded, with zeros allowed") {
  CHECK(*ShapeElems({}) == 1);
  CHECK(*ShapeElems({3, 4}) == 12);
  CHECK(*ShapeElems({0, int64_t{1} << 62}) == 0);
  CHECK(!ShapeElems({std::numeric_limits<int64_t>::max(), 2}).ok());
}

TEST_CASE("a layout survives JSON and its digest tells layouts apart") {
  const Layout layout = Small();
  CHECK(layout.ToJson() ==
        R"({"tensors":[{"name":"wte.weight","shape":[65,128]},{"name":"scale","shape":[]},)"
        R"({"name":"ln.weight","shape":[128]}]})");
  const absl::StatusOr<Layout> back = Layout::FromJson(layout.ToJson());
  REQUIRE(back.ok());
  CHECK(*back == layout);
  CHECK(back->num_params() == layout.num_params());
  CHECK(back->digest() == layout.digest());

  Layout other;
  REQUIRE(other.Add("wte.weight", {128, 65}).ok());
  Layout swapped;
  REQUIRE(swapped.Add("scale", {}).ok());
  REQUIRE(swapped.Add("wte.weight", {65, 128}).ok());
  REQUIRE(swapped.Add("ln.weight", {128}).ok());
  CHECK(other.digest() != layout.digest());
  CHECK(swapped.digest() != layout.digest());
  CHECK(Layout::FromJson(Layout().ToJson())->num_params() == 0);
}

TEST_CASE("malformed layout JSON is refused with its place") {
  for (const char* json :
       {"", "[]", "{", "{}", "null", R"({"tensors":{}})", R"({"tensors":[],"more":1})",
        R"({"tensors":[1]})", R"({"tensors":[{"name":"a"}]})",
        R"({"tensors":[{"name":1,"shape":[1]}]})", R"({"tensors":[{"name":"a","shape":1}]})",
        R"({"tensors":[{"name":"a","shape":[1],"offset":0}]})",
        R"({"tensors":[{"name":"a","shape":[-1]}]})", R"({"tensors":[{"name":"a","shape":[1.5]}]})",
        R"({"tensors":[{"name":"a","shape":["1"]}]})",
        R"({"tensors":[{"name":"a","shape":[18446744073709551615]}]})",
        R"({"tensors":[{"name":"a","shape":[18446744073709551616]}]})",
        R"({"tensors":[{"name":"a","shape":[1099511627776,2]}]})",
        R"({"tensors":[{"name":"","shape":[1]}]})"}) {
    INFO(json);
    CHECK_THAT(Error(Layout::FromJson(json).status()), Contains("layout"));
  }
  CHECK_THAT(
      Error(Layout::FromJson(R"({"tensors":[{"name":"a","shape":[1]},{"name":"a","shape":[1]}]})")
                .status()),
      Contains("tensor number 2") && Contains("twice"));
}

TEST_CASE("a flat buffer is aligned, zeroed and moves") {
  absl::StatusOr<FlatBuffer> made = FlatBuffer::Zeros(1001);
  REQUIRE(made.ok());
  FlatBuffer buffer = *std::move(made);
  CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % FlatBuffer::kAlignment == 0);
  CHECK(buffer.size() == 1001);
  for (const float value : buffer.span()) CHECK(value == 0.0f);
  buffer.data()[1000] = 5.0f;
  FlatBuffer other = std::move(buffer);
  CHECK(other.span().back() == 5.0f);
  buffer = std::move(other);
  CHECK(buffer.span().back() == 5.0f);
  CHECK(AsBytes(buffer.span()).size() == 4004);
  CHECK(FlatBuffer::Zeros(0)->size() == 0);
  for (const uint64_t size : {uint64_t{1} << 60, ~uint64_t{0}}) {
    CHECK(FlatBuffer::Zeros(size).status().code() == absl::StatusCode::kResourceExhausted);
  }
}

TEST_CASE("NaN and infinity are found and named") {
  std::vector<float> values(1000, std::numeric_limits<float>::max());
  values[3] = -std::numeric_limits<float>::denorm_min();
  CHECK(AllFinite(values));
  CHECK(CheckFinite("delta", values).ok());
  CHECK(AllFinite({}));
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf(""), -std::nanf("1")}) {
    for (const size_t at : {0, 517, 999}) {
      std::vector<float> spoilt = values;
      spoilt[at] = bad;
      CHECK(!AllFinite(spoilt));
      CHECK_THAT(Error(CheckFinite("delta", spoilt)),
                 Contains("delta: element " + std::to_string(at) + " of 1000"));
    }
  }
}

}  // namespace
}  // namespace gdf::tensor
