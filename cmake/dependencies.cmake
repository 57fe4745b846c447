# Third-party libraries: header-only, or the static archive, so that our binaries run on a machine
# that has none of them.

find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)

# Debian's packages of these two have no CMake targets for the archives.
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(PCRE2_STATIC_LIBRARY libpcre2-8.a REQUIRED)
add_library(tilewright_pcre2 STATIC IMPORTED)
set_target_properties(tilewright_pcre2 PROPERTIES
  IMPORTED_LOCATION ${PCRE2_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${PCRE2_INCLUDE_DIR}
  INTERFACE_COMPILE_DEFINITIONS "PCRE2_CODE_UNIT_WIDTH=8;PCRE2_STATIC")

find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_STATIC_LIBRARY libutf8proc.a REQUIRED)
add_library(tilewright_utf8proc STATIC IMPORTED)
set_target_properties(tilewright_utf8proc PROPERTIES
  IMPORTED_LOCATION ${UTF8PROC_STATIC_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${UTF8PROC_INCLUDE_DIR})

mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_STATIC_LIBRARY UTF8PROC_INCLUDE_DIR
                 UTF8PROC_STATIC_LIBRARY)
target_link_libraries(tilewright_build_settings INTERFACE
  tilewright_pcre2 tilewright_utf8proc nlohmann_json::nlohmann_json)

add_library(tilewright_cli_settings INTERFACE)
target_link_libraries(tilewright_cli_settings INTERFACE tilewright_build_settings CLI11::CLI11)
# One self-contained program: it needs the C library and nothing else.
if(NOT TILEWRIGHT_SANITIZE AND NOT TILEWRIGHT_FUZZ)
  target_link_options(tilewright_cli_settings INTERFACE -static-libstdc++ -static-libgcc)
endif()
