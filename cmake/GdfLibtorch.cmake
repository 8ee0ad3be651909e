# gdf_libtorch: libtorch's headers and libraries (CPU part), from GDF_LIBTORCH or from the cache that
# scripts/fetch-libtorch fills. The CUDA part is opened at run time (gdfd/worker/gpu.h).
set(gdf_libtorch_version 2.11.0)
if(GDF_LIBTORCH)
  set(GDF_LIBTORCH_DIR ${GDF_LIBTORCH})
elseif(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(GDF_LIBTORCH_DIR $ENV{XDG_CACHE_HOME}/gdf/libtorch-${gdf_libtorch_version})
else()
  set(GDF_LIBTORCH_DIR $ENV{HOME}/.cache/gdf/libtorch-${gdf_libtorch_version})
endif()
foreach(file include/ATen/ATen.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS ${GDF_LIBTORCH_DIR}/${file})
    message(FATAL_ERROR "libtorch ${gdf_libtorch_version} is not in ${GDF_LIBTORCH_DIR} (no ${file}). "
      "Run scripts/fetch-libtorch, or give a folder of your own with -DGDF_LIBTORCH=DIR, "
      "or build without the worker with -DGDF_WORKER=OFF.")
  endif()
endforeach()

add_library(gdf_libtorch INTERFACE)
# -idirafter: its include/ has protobuf and fmt headers that must not shadow the system's.
target_compile_options(gdf_libtorch INTERFACE
  "SHELL:-idirafter ${GDF_LIBTORCH_DIR}/include"
  "SHELL:-idirafter ${GDF_LIBTORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(gdf_libtorch INTERFACE ${GDF_LIBTORCH_DIR}/lib/libtorch_cpu.so ${GDF_LIBTORCH_DIR}/lib/libc10.so)
# libcudart and libcupti, which libtorch_cpu.so names, are found by its own run path.
target_link_options(gdf_libtorch INTERFACE -Wl,--allow-shlib-undefined)
