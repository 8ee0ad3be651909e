# Registers each TEST_CASE of a Catch2 (version 2) program with ctest. Debian packages Catch2 without
# its CMake module, so the list is read from the program after it is linked.
function(gdf_catch_discover target labels timeout)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.cmake)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DOUT=${list} -DPREFIX=${target}
            "-DLABELS=${labels}" -DTIMEOUT=${timeout} -P ${CMAKE_SOURCE_DIR}/cmake/catch_list.cmake
    VERBATIM)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
endfunction()
