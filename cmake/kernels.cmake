# One object library per instruction set, holding one translation unit per operator.

include(${CMAKE_CURRENT_LIST_DIR}/isas.cmake)

set(TILEWRIGHT_ISAS all CACHE STRING
    "Instruction sets to build kernels for; `all`, `native`: those this machine can execute, `best`: the last of them, or `none`")
set(TILEWRIGHT_KERNEL_OPTIMIZATION -O3 CACHE STRING "Optimization level of the kernels")
mark_as_advanced(TILEWRIGHT_KERNEL_OPTIMIZATION)

set(TILEWRIGHT_OPERATORS all CACHE STRING
    "Operators with kernels for CPUs: all, or `models` for those that language models need and what \
is compiled with them; the others refuse calls")

set(TILEWRIGHT_BUILT_ISAS ${TILEWRIGHT_ISAS})
if(TILEWRIGHT_ISAS STREQUAL "all")
  set(TILEWRIGHT_BUILT_ISAS ${TILEWRIGHT_ALL_ISAS})
elseif(TILEWRIGHT_ISAS STREQUAL "native")
  tilewright_native_isas(TILEWRIGHT_BUILT_ISAS)
elseif(TILEWRIGHT_ISAS STREQUAL "best")
  tilewright_native_isas(TILEWRIGHT_BUILT_ISAS)
  list(GET TILEWRIGHT_BUILT_ISAS -1 TILEWRIGHT_BUILT_ISAS)
elseif(TILEWRIGHT_ISAS STREQUAL "none")
  set(TILEWRIGHT_BUILT_ISAS)
endif()
foreach(isa IN LISTS TILEWRIGHT_BUILT_ISAS)
  if(NOT isa IN_LIST TILEWRIGHT_ALL_ISAS)
    message(FATAL_ERROR "TILEWRIGHT_ISAS: unknown `${isa}`; known: ${TILEWRIGHT_ALL_ISAS} all native best none")
  endif()
endforeach()
list(JOIN TILEWRIGHT_BUILT_ISAS " " isas_shown)
message(STATUS "Kernels for: ${isas_shown}")

# Every header directly in tilewright/ops is an operator; the machinery lives in tilewright/ops/core.
file(GLOB operator_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tilewright/ops
     ${PROJECT_SOURCE_DIR}/tilewright/ops/*.h)
list(REMOVE_ITEM operator_headers catalog.h)

# Sets `out` to the CamelCase form of a snake_case name: rms_norm gives RmsNorm.
function(tilewright_camel_case name out)
  set(result)
  string(REPLACE "_" ";" words ${name})
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 head)
    string(SUBSTRING ${word} 1 -1 tail)
    string(TOUPPER ${head} head)
    string(APPEND result ${head}${tail})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Sets `out` to the names of the operators that language models and what runs them launch.
function(tilewright_model_operators out)
  file(GLOB_RECURSE model_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tilewright/models/*.cc
       ${PROJECT_SOURCE_DIR}/tools/cli/*.cc)
  set(names)
  foreach(source IN LISTS model_sources)
    file(STRINGS ${source} lines REGEX "launch<ops::")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*launch<ops::([A-Za-z0-9]+)>.*" "\\1" name ${line})
      list(APPEND names ${name})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${out} ${names} PARENT_SCOPE)
endfunction()

tilewright_model_operators(model_operators)

# Sets `out` to the group of an operator in a unity build: operators that share much code are
# compiled together; so are those that models launch, for preset `demo` to compile what other builds
# do; the others by their names alone, so that a new operator leaves most groups as they are.
function(tilewright_unity_group name out)
  tilewright_camel_case(${name} camel_name)
  if(name MATCHES "^(attention(_fp8|_paged|_varlen)?|mla(_paged)?)$")
    set(group attention)
  elseif(name MATCHES "^(gated_linear|linear|linear_packed|linear_quantized|matmul|(k_)?grouped_matmul|fused_linear_cross_entropy)$")
    set(group gemm)
  elseif(name MATCHES "^(linear_int|int_matmul|scaled_grouped|grouped_|fused_experts)")
    set(group products)
  elseif(name MATCHES "^(attention|linear_attention|delta_rule|engram|fft|segment)")
    set(group sequence)
  elseif(camel_name IN_LIST model_operators OR name MATCHES "^(permute|transpose)$")  # as copy
    set(group models)
  else()
    string(MD5 group ${name})
    string(SUBSTRING ${group} 0 1 group)
    math(EXPR group "0x${group} % 8")
  endif()
  set(${out} ${group} PARENT_SCOPE)
endfunction()

# tilewright_set_unity_groups(TARGET MUCH SOURCE...): MUCH is `all` where each source has much code,
# `some` where it has little beside the headers, `few` where most say no more than that the operator
# has nothing there.
function(tilewright_set_unity_groups target much)
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    tilewright_unity_group(${name} group)
    if(much STREQUAL few AND NOT group MATCHES "^(attention|gemm)$")
      set(group others)
    elseif(much STREQUAL some AND group MATCHES "^[0-9]$")
      math(EXPR group "${group} / 3")
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TILEWRIGHT_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# What the table of operators says of each: long, not hot.
set(sources)
foreach(header IN LISTS operator_headers)
  string(REGEX REPLACE "\\.h$" "" NAME ${header})
  tilewright_camel_case(${NAME} CAMEL_NAME)
  set(source ${PROJECT_BINARY_DIR}/operators/${NAME}.cc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/operator_info.cc.in ${source} @ONLY)
  list(APPEND sources ${source})
endforeach()
add_library(tilewright_operators OBJECT ${sources})
target_link_libraries(tilewright_operators PRIVATE tilewright_build_settings)
target_compile_options(tilewright_operators PRIVATE $<$<CONFIG:Release>:-O1>)
tilewright_set_unity_groups(tilewright_operators some ${sources})

set(kernel_flags ${TILEWRIGHT_KERNEL_OPTIMIZATION} -fno-math-errno -fno-trapping-math)
# g++ 12's own AVX-512 headers read a variable to say "undefined". Kernels say themselves what is a
# vector and which loops are unrolled: that -O3 copies functions and loops once more only takes time.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND kernel_flags -Wno-uninitialized -Wno-maybe-uninitialized
       -fno-ipa-cp-clone -fno-unswitch-loops -fno-split-paths -fno-split-loops
       -fno-version-loops-for-strides -fno-loop-interchange -fno-loop-unroll-and-jam
       -fno-tree-loop-distribution -fno-predictive-commoning -fno-gcse-after-reload
       -fno-tree-partial-pre -fvect-cost-model=very-cheap)
endif()
# At -O1, as the sanitizers build, Clang leaves some loops rolled and says so.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND kernel_flags -Wno-pass-failed)
endif()

# Whole groups, so that their objects are those of other builds.
set(wanted_groups)
if(TILEWRIGHT_OPERATORS STREQUAL "models")
  foreach(header IN LISTS operator_headers)
    string(REGEX REPLACE "\\.h$" "" NAME ${header})
    tilewright_camel_case(${NAME} CAMEL_NAME)
    if(CAMEL_NAME IN_LIST model_operators)
      tilewright_unity_group(${NAME} group)
      list(APPEND wanted_groups ${group})
    endif()
  endforeach()
elseif(NOT TILEWRIGHT_OPERATORS STREQUAL "all")
  message(FATAL_ERROR "TILEWRIGHT_OPERATORS: unknown `${TILEWRIGHT_OPERATORS}`; known: all models")
endif()

set(TILEWRIGHT_KERNEL_TARGETS)
set(isa_entries)
set(much all)
foreach(ISA IN LISTS TILEWRIGHT_BUILT_ISAS)
  string(APPEND isa_entries " X(${ISA})")
  set(sources)
  set(LEFT_OUT)
  foreach(header IN LISTS operator_headers)
    string(REGEX REPLACE "\\.h$" "" NAME ${header})
    tilewright_camel_case(${NAME} CAMEL_NAME)
    tilewright_unity_group(${NAME} group)
    if(wanted_groups AND NOT group IN_LIST wanted_groups)
      string(APPEND LEFT_OUT "TW_LEAVE_OUT(${CAMEL_NAME}, ${ISA})\n")
      continue()
    endif()
    set(source ${PROJECT_BINARY_DIR}/kernels/${ISA}/${NAME}.cc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/kernel_build.cc.in ${source} @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(LEFT_OUT)
    set(source ${PROJECT_BINARY_DIR}/kernels/${ISA}/left_out.cc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/kernels_left_out.cc.in ${source} @ONLY)
    list(APPEND sources ${source})
  endif()
  if(sources)
    add_library(tilewright_kernels_${ISA} OBJECT ${sources})
    target_compile_options(tilewright_kernels_${ISA} PRIVATE ${kernel_flags} ${${ISA}_flags})
    target_link_libraries(tilewright_kernels_${ISA} PRIVATE tilewright_build_settings)
    # Only operators that list it in kIsas or kBf16Isas have a build for a set beyond another of its width.
    tilewright_set_unity_groups(tilewright_kernels_${ISA} ${much} ${sources})
    list(APPEND TILEWRIGHT_KERNEL_TARGETS tilewright_kernels_${ISA})
  endif()
  if(NOT ISA STREQUAL avx2)
    set(much few)
  endif()
endforeach()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/tilewright/built_isas.h CONTENT
"// Written by cmake/kernels.cmake: the instruction sets that this build has kernels for.
#pragma once

#define TW_FOR_EACH_BUILT_ISA(X)${isa_entries}
" @ONLY)
