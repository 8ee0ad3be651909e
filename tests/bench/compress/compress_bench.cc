// Throughput of each codec, of the outer step and of the norm-clipped error feedback on one thread,
// in GB/s of float32, with memcpy beside it: what a node can hide behind its link.
//
//   bench_compress [MILLIONS_OF_VALUES [CODEC...]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/aggregate/outer_optimizer.h"
#include "core/base/check.h"
#include "core/compress/codec.h"
#include "core/compress/error_feedback.h"
#include "core/tensor/finite.h"
#include "core/tensor/flat_buffer.h"

namespace {

using gdf::tensor::FlatBuffer;

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Fastest of seven runs of either, which is the one least disturbed by others; one after the other,
// so that both see the machine in the same state.
void Report(const std::string& name, const char* what, size_t num_values, const std::function<void()>& copy,
            const std::function<void()>& work) {
  double copied = 1e9, worked = 1e9;
  for (int run = 0; run < 7; ++run) {
    copied = std::min(copied, SecondsOf(copy));
    worked = std::min(worked, SecondsOf(work));
  }
  std::printf("%-19s %-18s %6.2f GB/s  %5.2f x memcpy\n", name.c_str(), what,
              static_cast<double>(num_values) * sizeof(float) / worked / 1e9, copied / worked);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t n = static_cast<size_t>(argc > 1 ? std::max(1, std::atoi(argv[1])) : 16) << 20;
  FlatBuffer values = *FlatBuffer::Zeros(n), out = *FlatBuffer::Zeros(n);
  FlatBuffer momentum = *FlatBuffer::Zeros(n), momentum_out = *FlatBuffer::Zeros(n);
  uint32_t state = 1;
  for (float& value :
       values.span()) {  // Numerical Recipes' generator: any spread of values will do
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-40f;
  }
  const auto copy = [&] { std::memcpy(out.data(), values.data(), n * sizeof(float)); };
  Report("memcpy", "", n, copy, copy);
  Report("", "check finite", n, copy, [&] { GDF_CHECK(gdf::tensor::AllFinite(values.span())); });
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  if (names.empty()) {
    names = {"fp32", "bf16", "fp16", "int8:64", "int8", "int8:4096", "int8:stochastic", "int4", "int4:stochastic",
             "fp4", "sign", "topk2", "topk8", "topk8:82", "dct"};
  }
  for (const std::string& name : names) {
    const auto codec = *gdf::compress::Codec::Create(*gdf::compress::CodecSpec::Parse(name));
    std::vector<uint8_t> packed(codec->PackedSize(n));
    Report(name, "encode", n, copy, [&] { codec->Encode(values.span(), absl::MakeSpan(packed)); });
    Report(name, "decode", n, copy, [&] { GDF_CHECK(codec->Decode(packed, out.span()).ok()); });
    Report(name, "decode-accumulate", n, copy,
           [&] { GDF_CHECK(codec->DecodeAccumulate(packed, 0.5f, out.span()).ok()); });
    auto feedback = *gdf::compress::ErrorFeedback::Create(n, codec.get(), {.max_norm = 1.0});
    Report(name, "error feedback", n, copy, [&] {
      GDF_CHECK(feedback.Stage(values.span(), absl::MakeSpan(packed)).ok());
      GDF_CHECK(feedback.Settle(true).ok());
    });
  }
  Report("outer", "Nesterov step", n, copy, [&] {
    GDF_CHECK(gdf::aggregate::OuterStep({}, {values.span(), values.span(), momentum.span(),
                                             out.span(), momentum_out.span()})
                  .ok());
  });
  return 0;
}
