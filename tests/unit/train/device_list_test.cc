// The list of devices as text from another process: what is accepted survives, the rest is named.
#include "core/train/device_list.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gdf::train {
namespace {

using Catch::Matchers::Contains;

constexpr char kGood[] =
    R"({"index":0,"name":"NVIDIA H200","compute_capability":"9.0","memory_bytes":150754820096})";

std::string List(const std::string& devices, const std::string& problem = "") {
  return absl::StrCat(R"({"devices":[)", devices, R"(],"problem":")", problem, R"("})");
}

// A device whose `key` has another value; an empty one: is not there.
std::string With(const std::string& key, const std::string& value) {
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"index", "0"}, {"name", "\"A\""}, {"compute_capability", "\"9.0\""}, {"memory_bytes", "1"}};
  std::string text = "{";
  for (const auto& [name, usual] : fields) {
    const std::string& here = name == key ? value : usual;
    if (here.empty()) continue;
    absl::StrAppend(&text, text.size() == 1 ? "" : ",", "\"", name, "\":", here);
  }
  return text + "}";
}

std::string Refusal(const std::string& text) {
  const absl::StatusOr<DeviceList> list = ParseDeviceList(text);
  CHECK(list.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(list.status().message());
}

}  // namespace

TEST_CASE("a list is read as it was written") {
  DeviceList list;
  CHECK(*ParseDeviceList(FormatDeviceList(list)) == list);
  list.devices = {{0, "NVIDIA H200", "9.0", uint64_t{141} << 30}, {3, "\"A\\100\"", "8.0", 1}};
  list.problem = "GPU 1: compute capability 7.5";
  CHECK(*ParseDeviceList(FormatDeviceList(list)) == list);
  CHECK(FormatDeviceList(list).back() == '\n');
  const absl::StatusOr<DeviceList> written = ParseDeviceList(List(kGood));
  REQUIRE(written.ok());
  CHECK(written->devices == std::vector<GpuDevice>{{0, "NVIDIA H200", "9.0", 150754820096}});
}

TEST_CASE("what a driver says is cut and cleaned, so that it can be read") {
  DeviceList list;
  for (int64_t i = 0; i < 100; ++i) {
    list.devices.push_back({i, std::string(1000, '\x01') + "\xff", std::string(100, '"'), 1});
  }
  list.problem = std::string(100000, '\\');
  const absl::StatusOr<DeviceList> read = ParseDeviceList(FormatDeviceList(list));
  INFO(read.status());
  REQUIRE(read.ok());
  CHECK(read->devices.size() == DeviceList::kMaxDevices);
  CHECK(read->devices[63].name == std::string(128, '?'));
}

TEST_CASE("a list that is none is refused by name") {
  CHECK_THAT(Refusal(""), Contains("not a JSON object"));
  CHECK_THAT(Refusal("[]"), Contains("not a JSON object"));
  CHECK_THAT(Refusal(List(kGood).substr(1)), Contains("not a JSON object"));
  CHECK_THAT(Refusal(R"({"problem":""})"), Contains("devices"));
  CHECK_THAT(Refusal(R"({"devices":{},"problem":""})"), Contains("devices"));
  CHECK_THAT(Refusal(R"({"devices":[]})"), Contains("problem"));
  CHECK_THAT(Refusal(List("7")), Contains("a device is no object"));
  CHECK_THAT(Refusal(List(absl::StrCat(kGood, ",", kGood))), Contains("device 0 is listed twice"));
  CHECK_THAT(Refusal(List("", std::string(2049, 'x'))), Contains("problem"));
  CHECK_THAT(Refusal(List("", "\\u0007")), Contains("problem"));
  CHECK_THAT(Refusal(std::string(65537, ' ')), Contains("65537 bytes"));
  CHECK_THAT(Refusal(std::string(60000, '[')), Contains("nested"));
}

TEST_CASE("a device with a field that cannot be is refused") {
  REQUIRE(ParseDeviceList(List(With("", ""))).ok());
  const std::vector<std::pair<std::string, std::vector<std::string>>> wrong = {
      {"index", {"", "-1", "1024", "0.5", "\"0\"", "null", "99999999999999999999"}},
      {"name", {"", "7", "\"a\\u0000b\"", "\"\\ud800\"", "\"" + std::string(129, 'x') + "\""}},
      {"compute_capability", {"", "9.0", "\"" + std::string(17, '1') + "\""}},
      {"memory_bytes", {"", "-1", "0", "1e30", "1125899906842625", "\"1\"", "18446744073709551616"}}};
  for (const auto& [field, values] : wrong) {
    for (const std::string& value : values) {
      INFO(field << " is " << value);
      const absl::StatusOr<DeviceList> list = ParseDeviceList(List(With(field, value)));
      CHECK(list.status().code() == absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_CASE("more devices than a machine can have are refused") {
  const auto many = [](int count) {
    std::string devices;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&devices, i == 0 ? "" : ",", With("index", std::to_string(i)));
    }
    return List(devices);
  };
  CHECK(ParseDeviceList(many(64))->devices.size() == 64);
  CHECK_THAT(Refusal(many(65)), Contains("at most 64"));
  CHECK_THAT(Refusal(many(10000)), Contains("bytes, expected at most"));
}

}  // namespace gdf::train
