# Compiler, warnings, sanitizers, and the optional ccache and mold.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# CMake's RelWithDebInfo defines NDEBUG; ours keeps the assertions.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
mark_as_advanced(MOLD_PROGRAM)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)

# What every one of our translation units is compiled with.
add_library(tilewright_build_settings INTERFACE)
target_compile_features(tilewright_build_settings INTERFACE cxx_std_20)
target_include_directories(tilewright_build_settings INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(tilewright_build_settings INTERFACE -Wall -Wextra -Wconversion -Wshadow)
# The same bits whatever -march users add: their compiler may not fuse multiply and add by itself.
target_compile_options(tilewright_build_settings INTERFACE -ffp-contract=off)
# Baseline code reads the kernels' argument structs, and with them vector functions it never calls.
target_compile_options(tilewright_build_settings INTERFACE -Wno-psabi)
# libstdc++'s own std::stable_sort calls a function that it declares deprecated.
target_compile_options(tilewright_build_settings INTERFACE -Wno-deprecated-declarations)
# g++ 12 reports overlapping copies inside std::string that cannot happen (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tilewright_build_settings INTERFACE -Wno-restrict)
endif()
if(TILEWRIGHT_WERROR)
  target_compile_options(tilewright_build_settings INTERFACE -Werror)
endif()
target_compile_definitions(tilewright_build_settings INTERFACE
  TILEWRIGHT_VERSION="${PROJECT_VERSION}")
target_link_libraries(tilewright_build_settings INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

if(TILEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${TILEWRIGHT_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  # What these check AddressSanitizer finds too, once memory is touched; at every access to what a
  # lambda captures and at every pointer formed they take most of a kernel's compilation.
  if(TILEWRIGHT_SANITIZE MATCHES "address" AND TILEWRIGHT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null,object-size,vptr,pointer-overflow)
  endif()
  add_link_options(-fsanitize=${TILEWRIGHT_SANITIZE})
endif()
if(TILEWRIGHT_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "TILEWRIGHT_FUZZ needs Clang; this compiler is ${CMAKE_CXX_COMPILER_ID}")
endif()
