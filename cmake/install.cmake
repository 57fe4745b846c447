# `cmake --install`: headers, shared library, tool, CMake package and pkg-config file.

include(CMakePackageConfigHelpers)

install(TARGETS tilewright EXPORT tilewright-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tilewright_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY tilewright ${PROJECT_BINARY_DIR}/generated/tilewright
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
install(EXPORT tilewright-targets NAMESPACE tilewright:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilewright-config.cmake.in
                              ${PROJECT_BINARY_DIR}/tilewright-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilewright-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilewright-config.cmake
              ${PROJECT_BINARY_DIR}/tilewright-config-version.cmake DESTINATION ${package_dir})

# Libraries may be more than one folder below the prefix: lib/x86_64-linux-gnu.
file(RELATIVE_PATH TILEWRIGHT_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/tilewright.pc.in ${PROJECT_BINARY_DIR}/tilewright.pc
               @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tilewright.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
