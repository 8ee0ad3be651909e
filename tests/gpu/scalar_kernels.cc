// Takes the place of core/compress's SIMD loops in programs that are carried to other machines: those need Highway's shared
// library, and what a kernel is held to are the scalar loops, which say what the bytes are.
#include "core/compress/kernels.h"

namespace gdf::compress {

const Kernels& SimdKernels() { return ScalarKernels(); }

}  // namespace gdf::compress
