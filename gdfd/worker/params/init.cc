#include <cmath>
#include <string_view>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {
namespace {

constexpr double kStddev = 0.02;  // GPT-2's and Llama's initializer_range

// ln(x), x > 0, by +, *, / alone: libm's log may differ in the last bit between machines.
// ln m = 2 atanh((m - 1) / (m + 1)); with m in [1/sqrt 2, sqrt 2) twelve terms reach 2^-53.
double PortableLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return 2 * z * sum + exponent * 0.69314718055994531;
}

// Standard normal values by Marsaglia's polar method.
class NormalStream {
 public:
  explicit NormalStream(uint64_t seed) : rng_(seed) {}

  double Next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double u = 0, v = 0, s = 0;
    do {
      u = 2 * Unit() - 1;
      v = 2 * Unit() - 1;
      s = u * u + v * v;
    } while (s >= 1 || s == 0);
    const double scale = std::sqrt(-2 * PortableLog(s) / s);
    spare_ = v * scale;
    has_spare_ = true;
    return u * scale;
  }

 private:
  double Unit() { return static_cast<double>(rng_.NextWord() >> 11) * 0x1p-53; }

  SeededRng rng_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace

absl::Status InitParameters(const config::ModelShape& shape, uint64_t seed, absl::Span<float> out) {
  GDF_ASSIGN_OR_RETURN(const tensor::Layout layout, ParameterLayout(shape));
  if (out.size() != layout.num_params()) {
    return absl::InvalidArgumentError(absl::StrCat("the buffer holds ", out.size(),
                                                   " values, the model has ", layout.num_params()));
  }
  const bool scale_residual = std::holds_alternative<config::Gpt2Shape>(shape);
  const double residual_stddev = kStddev / std::sqrt(2.0 * config::Layers(shape));
  uint64_t index = 0;
  for (const tensor::TensorInfo& t : layout.tensors()) {
    const absl::Span<float> values = layout.Slice(out, t);
    ++index;
    if (t.shape.size() == 1) {
      const float first = absl::EndsWith(t.name, ".bias") ? 0.0f : 1.0f;
      for (float& v : values) v = first;
      continue;
    }
    const bool residual = scale_residual && absl::EndsWith(t.name, ".c_proj.weight");
    const double stddev = residual ? residual_stddev : kStddev;
    NormalStream normal(MixSeed(seed, index));
    for (float& v : values) v = static_cast<float>(stddev * normal.Next());
  }
  return absl::OkStatus();
}

}  // namespace gdf::worker
