#include "core/compress/kernels.h"
#include "core/compress/scalar_loops.h"

namespace gdf::compress {

const Kernels& ScalarKernels() {
  static constexpr Kernels kKernels = {
      "scalar",
      scalar::MaxMagnitude,
      scalar::kWordLoops<Fp32Word>,
      scalar::kWordLoops<Bf16Word>,
      scalar::kWordLoops<Fp16Word>,
      scalar::kCodeLoops<Int8Code>,
      scalar::kCodeLoops<Int4Code>,
      scalar::kCodeLoops<Fp4Code>,
      scalar::SumMagnitudes,
      scalar::Dot,
      scalar::kSignLoops,
      scalar::Select,
      scalar::Random,
      scalar::EncodeStochastic<Int8Code>,
      scalar::EncodeStochastic<Int4Code>,
      scalar::LargestOfDct,
      scalar::InverseDct,
  };
  return kKernels;
}

}  // namespace gdf::compress
