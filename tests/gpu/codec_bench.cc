// Times each codec's kernels on the first device, by the device's own clock, beside a copy on the device in the same run:
// JSON lines, then a table. Rates are of the bytes that must be read and written, once each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/gpu/device.h"
#include "tests/unit/cuda/cases.h"

namespace gdf::cuda {
namespace {

using compress::Codec;

constexpr uint64_t kMaxValues = uint64_t{128} << 20;  // 512 MiB: beyond any cache, launches are next to nothing
constexpr size_t kWarmups = 2, kMinRuns = 5, kMaxRuns = 20;
constexpr auto kEnoughTime = std::chrono::seconds(1);  // of one operation's runs

struct Figure {
  std::string codec, operation;
  uint64_t bytes;    // read and written
  double seconds;    // median, by the device's clock
  double of_copy;    // this rate by the copy's
  double of_memory;  // by what the memory allows; 0: not known
};

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_codec_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

double MedianSeconds(const Session& session, const std::function<absl::Status()>& work) {
  std::vector<double> seconds;
  for (size_t run = 0; run < kWarmups; ++run) Require(work());
  const auto begin = std::chrono::steady_clock::now();
  while (seconds.size() < kMinRuns ||
         (seconds.size() < kMaxRuns && std::chrono::steady_clock::now() - begin < kEnoughTime)) {
    Require(work());
    const absl::StatusOr<absl::Duration> time = session.DeviceTime();
    Require(time.status());
    seconds.push_back(absl::ToDoubleSeconds(*time));
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

// What decoding to the sum touches: of a top-k codec the kept values alone.
uint64_t Summed(const Codec& codec, uint64_t num_values) {
  const compress::CodecSpec& spec = codec.spec();
  const bool is_sparse = spec.kind == compress::CodecKind::kTopK2 || spec.kind == compress::CodecKind::kTopK8;
  return is_sparse ? num_values / compress::CodecSpec::kChunk * spec.k : num_values;
}

DeviceMemory Allocate(Session& session, uint64_t num_bytes) {
  absl::StatusOr<DeviceMemory> memory = session.Allocate(num_bytes);
  Require(memory.status());
  return *std::move(memory);
}

class Bench {
 public:
  Bench(OpenDevice& device, uint64_t num_values)
      : device_(device.description), session_(device.session), num_values_(num_values),
        values_(Allocate(session_, value_bytes())), out_(Allocate(session_, value_bytes())) {
    std::mt19937 random(1);
    const std::vector<float> values = OneMagnitude(num_values, random);
    Require(session_.CopyToDevice({reinterpret_cast<const uint8_t*>(values.data()), value_bytes()}, values_));
    Add("copy", "copy", 2 * value_bytes(), [this] { return session_.CopyOnDevice(values_, out_, value_bytes()); });
  }

  void Time(const Codec& codec) {
    const uint64_t packed_bytes = codec.PackedSize(num_values_);
    DeviceMemory packed = Allocate(session_, packed_bytes);
    Add(codec.name(), "encode", value_bytes() + packed_bytes,
        [&] { return session_.Encode(codec, values_, num_values_, packed); });
    Add(codec.name(), "decode", packed_bytes + value_bytes(),
        [&] { return session_.Decode(codec, packed, num_values_, out_); });
    Add(codec.name(), "decode-accumulate", packed_bytes + 2 * Summed(codec, num_values_) * sizeof(float),
        [&] { return session_.DecodeAccumulate(codec, packed, num_values_, 0.5f, out_); });
  }

  void PrintTable() const {
    std::printf("\n%s, compute capability %d.%d, %llu MiB of float32", device_.name.c_str(), device_.major, device_.minor,
                static_cast<unsigned long long>(value_bytes() >> 20));
    if (device_.memory_bytes_per_sec > 0) std::printf("; its memory allows %.0f GB/s", static_cast<double>(device_.memory_bytes_per_sec) / 1e9);
    std::printf("\n%-20s %-18s %10s %8s %8s %10s\n", "codec", "operation", "us", "GB/s", "of copy", "of memory");
    for (const Figure& figure : figures_) {
      std::printf("%-20s %-18s %10.1f %8.1f %8.2f %10s\n", figure.codec.c_str(), figure.operation.c_str(), figure.seconds * 1e6,
                  static_cast<double>(figure.bytes) / figure.seconds / 1e9, figure.of_copy, OfMemory(figure).c_str());
    }
  }

 private:
  uint64_t value_bytes() const { return num_values_ * sizeof(float); }

  void Add(const std::string& codec, const char* operation, uint64_t bytes, const std::function<absl::Status()>& work) {
    Figure figure{codec, operation, bytes, MedianSeconds(session_, work), 0, 0};
    const double rate = static_cast<double>(bytes) / figure.seconds;
    if (figures_.empty()) copy_rate_ = rate;
    figure.of_copy = rate / copy_rate_;
    if (device_.memory_bytes_per_sec > 0) figure.of_memory = rate / static_cast<double>(device_.memory_bytes_per_sec);
    const nlohmann::json line = {{"device", device_.name}, {"codec", codec}, {"operation", operation},
                                 {"values", num_values_}, {"bytes", bytes}, {"seconds", figure.seconds},
                                 {"bytes_per_sec", rate}, {"of_copy", figure.of_copy}, {"of_memory", figure.of_memory}};
    std::printf("%s\n", line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
    std::fflush(stdout);
    figures_.push_back(std::move(figure));
  }

  static std::string OfMemory(const Figure& figure) {
    char text[16] = "-";
    if (figure.of_memory > 0) std::snprintf(text, sizeof(text), "%.2f", figure.of_memory);
    return text;
  }

  const Device device_;
  Session& session_;
  const uint64_t num_values_;
  DeviceMemory values_, out_;
  double copy_rate_ = 0;  // bytes per second
  std::vector<Figure> figures_;
};

}  // namespace
}  // namespace gdf::cuda

int main() {
  using namespace gdf::cuda;
  OpenDevice device = OpenFirstDevice();
  // Three buffers of an eighth of the memory at most; whole blocks of every codec.
  constexpr uint64_t kWhole = gdf::compress::CodecSpec::kMaxBlock;
  const uint64_t room = device.description.total_bytes / 8 / sizeof(float) / kWhole * kWhole;
  if (room == 0) {
    std::fprintf(stderr, "gpu_codec_bench: %s has %llu bytes of memory, too few\n", device.description.name.c_str(),
                 static_cast<unsigned long long>(device.description.total_bytes));
    return 1;
  }
  Bench bench(device, std::min(kMaxValues, room));
  for (const char* name : kCodecs) bench.Time(*CodecOf(name));
  bench.PrintTable();
  return 0;
}
