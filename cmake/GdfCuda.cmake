# Turns on the CUDA language where nvcc is found and sets GDF_NVCC_FOUND. The floating-point rules
# are those of GdfCompiler: no contraction, subnormals kept, exact division.
include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER)                    # nvcc is seldom on PATH
  find_program(GDF_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(GDF_NVCC)
    set(CMAKE_CUDA_COMPILER ${GDF_NVCC})
  endif()
endif()
check_language(CUDA)
set(GDF_NVCC_FOUND OFF)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No nvcc: libgdf_cuda.so is not built, and GPUs are not used. "
                 "With a CUDA toolkit elsewhere, give -DCMAKE_CUDA_COMPILER=PATH.")
  return()
endif()
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)       # machine code for both, PTX of 9.0 for newer ones
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)         # the plugin opens where only the driver, or none, is
set(CMAKE_CUDA_FLAGS_RELEASE "-O2")
set(CMAKE_CUDA_FLAGS_DEBUG "-O1 -g")
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # which CMake 3.25 does not know of nvcc
set(GDF_NVCC_FOUND ON)
# constexpr functions of core are device code too.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
