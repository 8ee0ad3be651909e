# The Debian package `gdf`, made by scripts/package: what `cmake --install` installs, below /usr, and what makes a service of
# it: unit, configuration, man pages, completions, and the scripts in systemd/debian that add and remove the user.

# man_pages: out of --help, which needs the programs to run.
set(GDF_MAN_DIR ${CMAKE_BINARY_DIR}/man)
add_custom_command(OUTPUT ${GDF_MAN_DIR}/stamp
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/man-pages ${CMAKE_BINARY_DIR}/bin ${GDF_MAN_DIR}
  COMMAND ${CMAKE_COMMAND} -E touch ${GDF_MAN_DIR}/stamp
  DEPENDS gdfctl gdfd ${CMAKE_SOURCE_DIR}/scripts/man-pages VERBATIM)
add_custom_target(man_pages DEPENDS ${GDF_MAN_DIR}/stamp)

add_custom_target(packaged DEPENDS man_pages gdfd gdfctl)
foreach(target gdf-worker gdf_cuda)
  if(TARGET ${target})
    add_dependencies(packaged ${target})
  endif()
endforeach()

set(package COMPONENT package EXCLUDE_FROM_ALL)
install(FILES systemd/gdfd.service DESTINATION /usr/lib/systemd/system ${package})
install(FILES configs/gdfd.yaml DESTINATION /etc/gdf ${package})
install(FILES LICENSE DESTINATION /usr/share/doc/gdf RENAME copyright ${package})
install(DIRECTORY configs/examples DESTINATION /usr/share/doc/gdf ${package})
install(DIRECTORY docs/ DESTINATION /usr/share/doc/gdf ${package} FILES_MATCHING PATTERN "*.md")
install(DIRECTORY ${GDF_MAN_DIR}/ DESTINATION /usr/share/man ${package} FILES_MATCHING PATTERN "*.gz")
foreach(completion bash:/usr/share/bash-completion/completions/gdfctl zsh:/usr/share/zsh/vendor-completions/_gdfctl
                   fish:/usr/share/fish/vendor_completions.d/gdfctl.fish)
  string(REPLACE ":" ";" parts ${completion})
  list(GET parts 0 shell)
  list(GET parts 1 path)
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(name ${path} NAME)
  install(CODE "execute_process(COMMAND ${CMAKE_BINARY_DIR}/bin/gdfctl completion ${shell} COMMAND_ERROR_IS_FATAL ANY
                                OUTPUT_FILE ${CMAKE_BINARY_DIR}/completion.${shell})" ${package})
  install(FILES ${CMAKE_BINARY_DIR}/completion.${shell} DESTINATION ${folder} RENAME ${name} ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gdf)
set(CPACK_PACKAGE_CONTACT "The GDF maintainers <maintainers@gdf.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains models together with other machines over ordinary links")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "GDF pools GPUs and CPUs behind home and office links and trains or fine-tunes\
 one PyTorch-compatible model on them together: the daemon gdfd as a service, gdfctl to tell it what to do, and\
 the worker that trains, with the part of libtorch that it needs.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/bin ${GDF_LIBTORCH_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
foreach(script conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/systemd/debian/${script})
endforeach()
# Both what is installed anyway and what only the package has; /etc and /usr/lib/systemd lie where they say.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};gdf;Unspecified;/;${CMAKE_BINARY_DIR};gdf;package;/")
set(CPACK_STRIP_FILES ON)
include(CPack)
