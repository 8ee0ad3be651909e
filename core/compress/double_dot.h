// Dot products in double, of the same bits on every machine.
#ifndef GDF_CORE_COMPRESS_DOUBLE_DOT_H_
#define GDF_CORE_COMPRESS_DOUBLE_DOT_H_

#include <cstddef>

#include "absl/types/span.h"

namespace gdf::compress {

// Of vectors of the same size. By eight running sums, since one would wait for each addition: product i in sum i % 8,
// added up in order.
template <typename T>
double DoubleDot(absl::Span<const T> a_span, absl::Span<const T> b_span) {
  constexpr size_t kLanes = 8;
  const T* a = a_span.data();
  const T* b = b_span.data();
  double sums[kLanes] = {};
  const size_t whole = a_span.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double{a[i + lane]} * double{b[i + lane]};
  }
  for (size_t i = whole; i < a_span.size(); ++i) sums[i - whole] += double{a[i]} * double{b[i]};
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_DOUBLE_DOT_H_
