# Third-party libraries: header-only, or the static archive, so that our binaries run on a machine
# that has none of them.

find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)

find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(PCRE2_STATIC_LIBRARY libpcre2-8.a REQUIRED)
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_STATIC_LIBRARY)
add_library(tilewright_pcre2 STATIC IMPORTED)
set_target_properties(tilewright_pcre2 PROPERTIES
  IMPORTED_LOCATION ${PCRE2_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR}
  INTERFACE_COMPILE_DEFINITIONS "PCRE2_CODE_UNIT_WIDTH=8;PCRE2_STATIC")
target_link_libraries(tilewright_build_settings INTERFACE
  tilewright_pcre2 nlohmann_json::nlohmann_json)

# fmt only where the distribution's header-only target exists.
find_package(fmt QUIET)
if(TARGET fmt::fmt-header-only)
  target_link_libraries(tilewright_build_settings INTERFACE fmt::fmt-header-only)
endif()

add_library(tilewright_cli_settings INTERFACE)
target_link_libraries(tilewright_cli_settings INTERFACE tilewright_build_settings CLI11::CLI11)
# One self-contained program: it needs the C library and nothing else.
if(NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_FUZZ)
  target_link_options(tilewright_cli_settings INTERFACE -static-libstdc++ -static-libgcc)
endif()
