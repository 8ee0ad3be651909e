# Language level, warnings and the floating-point rules on which bit identity between nodes rests.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")            # asserts stay on: they guard our own invariants
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

find_program(GDF_CCACHE ccache)
if(GDF_CCACHE)
  # Paths below the source folder are cached relative to it, so that another clone finds what this one built.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${GDF_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
find_program(GDF_MOLD mold)
if(GDF_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
endif()
if(GDF_SANITIZE)
  if(GDF_WORKER OR GDF_CUDA)
    message(FATAL_ERROR "GDF_SANITIZE needs -DGDF_WORKER=OFF -DGDF_CUDA=OFF: libtorch is not instrumented")
  endif()
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")        # quick enough for whole tests; reports name lines
  add_compile_options(-fsanitize=${GDF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-fno-sanitize=function)  # clang 14 cannot assemble some coroutines with it
  endif()
  add_link_options(-fsanitize=${GDF_SANITIZE})
endif()
if(GDF_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "GDF_FUZZ needs clang's libFuzzer: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # the fuzzer sees which lines of core an input reaches
endif()
