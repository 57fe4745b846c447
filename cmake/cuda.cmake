# The CUDA kernels: for each operator a fatbin of its neutral kernels, embedded in the library, and
# host code with their plans. The library has no dependency on CUDA; the driver is opened at run
# time.

option(TILEWRIGHT_CUDA "Build CUDA kernels (needs nvcc)" OFF)
set(TILEWRIGHT_CUDA_TARGET "-gencode=arch=compute_90a,code=sm_90a" CACHE STRING
    "nvcc options that name the GPUs to build for")
option(TILEWRIGHT_CUDA_RESOURCES "Let nvcc say what kernels use (tools/lint/cuda_stack.py)" OFF)
option(TILEWRIGHT_CUDA_CHECK "Only see whether kernels compile, those of float16 by bfloat16's, \
Hopper's own alone with optimization" OFF)
mark_as_advanced(TILEWRIGHT_CUDA_TARGET TILEWRIGHT_CUDA_RESOURCES TILEWRIGHT_CUDA_CHECK)

# The text of the kernels, which NVRTC compiles at run time for other GPUs, and of attention on Hopper
# that changes scores or widens keys. `tilewright cuda-compile` does that without a GPU, in every build.
file(GLOB text_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     ${PROJECT_SOURCE_DIR}/tilewright/core/*.h ${PROJECT_SOURCE_DIR}/tilewright/tile/*.h
     ${PROJECT_SOURCE_DIR}/tilewright/tile/cuda/*.h ${PROJECT_SOURCE_DIR}/tilewright/kernels/*.h
     ${PROJECT_SOURCE_DIR}/tilewright/ops/*.h ${PROJECT_SOURCE_DIR}/tilewright/ops/core/*.h)
set(attention_headers ${text_headers})
list(FILTER text_headers EXCLUDE REGEX "_(cpu|sm90)\\.h$|ops/catalog\\.h$")
list(FILTER attention_headers INCLUDE REGEX "/(attention|mla)_[a-z_]*sm90\\.h$")
list(FILTER attention_headers EXCLUDE REGEX "backward")
list(APPEND text_headers ${attention_headers} tilewright/runtime/cuda/gemm_kernels.cu
     tilewright/runtime/cuda/attention_kernels.cu tilewright/runtime/cuda/mla_kernels.cu)
list(TRANSFORM text_headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE text_paths)
list(JOIN text_headers "," text_headers)
set(CUDA_TEXT ${PROJECT_BINARY_DIR}/kernels/cuda_text.txt)
set(TILEWRIGHT_CUDA_TEXT_SOURCE ${PROJECT_BINARY_DIR}/kernels/cuda_text.cc)
configure_file(${PROJECT_SOURCE_DIR}/cmake/cuda_text.cc.in ${TILEWRIGHT_CUDA_TEXT_SOURCE} @ONLY)
add_custom_command(OUTPUT ${CUDA_TEXT}
  DEPENDS ${text_paths} ${PROJECT_SOURCE_DIR}/cmake/cuda_text.cmake
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DFILES=${text_headers} -DOUT=${CUDA_TEXT}
          -P ${PROJECT_SOURCE_DIR}/cmake/cuda_text.cmake
  COMMENT "Collecting the text of the kernels" VERBATIM)
set_source_files_properties(${TILEWRIGHT_CUDA_TEXT_SOURCE} PROPERTIES OBJECT_DEPENDS ${CUDA_TEXT})

if(TILEWRIGHT_CUDA)
  find_program(NVCC_PROGRAM nvcc HINTS /usr/local/cuda/bin REQUIRED)
  set(nvcc_flags -std=c++20 -O3 -prec-div=false -diag-suppress 445 -Wno-deprecated-gpu-targets
      $<IF:$<BOOL:${TILEWRIGHT_CUDA_CHECK}>,--no-compress,-compress-mode=size>
      -DTW_CUDA_CHECK=$<BOOL:${TILEWRIGHT_CUDA_CHECK}> ${TILEWRIGHT_CUDA_TARGET}
      -I${PROJECT_SOURCE_DIR} -I${PROJECT_BINARY_DIR}/generated)
  if(TILEWRIGHT_CUDA_RESOURCES)
    list(APPEND nvcc_flags -Xptxas=-v)
  endif()
  # A check leaves the neutral kernels without optimization, and ptxas, which verifies all of their
  # instructions, makes code of none: a fifth of the time or less.
  set(neutral_flags ${nvcc_flags})
  if(TILEWRIGHT_CUDA_CHECK)
    list(REMOVE_ITEM neutral_flags -Xptxas=-v)  # tells nothing of what optimized code will use
    list(APPEND neutral_flags --Ofast-compile=max -Xptxas=--entry=tw_checked)
  endif()
  # An operator has an image of its own; in a check a group of operators has one (kernels.cmake),
  # which is embedded for each: to read the headers takes longer there than most operators.
  set(sources)
  set(groups)
  set(embedded)
  foreach(header IN LISTS operator_headers)
    # Operators say where their kernels for GPUs come from, if not from the neutral text
    # (tilewright/ops/core/operator.h).
    file(STRINGS ${PROJECT_SOURCE_DIR}/tilewright/ops/${header} elsewhere
         REGEX "kGpu = GpuKernels::k(Own|None)")
    if(elsewhere)
      continue()
    endif()
    string(REGEX REPLACE "\\.h$" "" NAME ${header})
    tilewright_camel_case(${NAME} CAMEL_NAME)
    set(group ${NAME})
    if(TILEWRIGHT_CUDA_CHECK AND TILEWRIGHT_UNITY)
      tilewright_unity_group(${NAME} group)
      string(PREPEND group group_)
    endif()
    list(APPEND groups ${group})
    string(APPEND ${group}_includes "#include \"tilewright/ops/${NAME}.h\"\n")
    string(APPEND ${group}_instances "template void instantiate<ops::${CAMEL_NAME}>();\n")
    string(APPEND embedded
           "TW_EMBED(tw_cuda_${NAME}, \"${PROJECT_BINARY_DIR}/kernels/cuda/${group}.fatbin\")\n")
    set(host ${PROJECT_BINARY_DIR}/kernels/cuda/${NAME}.cc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/cuda_host.cc.in ${host} @ONLY)
    list(APPEND sources ${host})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  # Images are made with -c, which means nothing beside -fatbin: without it ccache keeps none.
  set(neutral_images)
  foreach(group IN LISTS groups)
    set(INCLUDES ${${group}_includes})
    set(INSTANCES ${${group}_instances})
    set(stem ${PROJECT_BINARY_DIR}/kernels/cuda/${group})
    set(image ${stem}.fatbin)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/cuda_kernel.cu.in ${stem}.cu @ONLY)
    add_custom_command(OUTPUT ${image} DEPENDS ${stem}.cu DEPFILE ${stem}.d
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${NVCC_PROGRAM} ${neutral_flags} -c -fatbin -MD -MF ${stem}.d
              -MT ${image} ${stem}.cu -o ${image}
      COMMENT "Building CUDA kernels of ${group}" VERBATIM)
    list(APPEND neutral_images ${image})
  endforeach()
  # On their own: what sources depend on is lost where several are compiled as one.
  set(embedding ${PROJECT_BINARY_DIR}/kernels/cuda/neutral_images.cc)
  file(CONFIGURE OUTPUT ${embedding} CONTENT
       "#include \"tilewright/ops/core/build_cuda.h\"\n\n${embedded}" @ONLY)
  set_source_files_properties(${embedding} PROPERTIES OBJECT_DEPENDS "${neutral_images}"
                              SKIP_UNITY_BUILD_INCLUSION ON)
  list(APPEND sources ${embedding})

  # tilewright_cuda_images(NAME FILE ELEMENT...): tilewright/runtime/cuda/NAME_kernels.cu as one
  # image FILE_ELEMENT.fatbin for each element type, and the host code that embeds them.
  function(tilewright_cuda_images NAME FILE)
    string(TOUPPER ${NAME} upper)
    set(source ${PROJECT_SOURCE_DIR}/tilewright/runtime/cuda/${NAME}_kernels.cu)
    set(images)
    foreach(element IN LISTS ARGN)
      set(image ${PROJECT_BINARY_DIR}/kernels/cuda/${FILE}_${element}.fatbin)
      set(${upper}_IMAGE_${element} ${image})
      if(TILEWRIGHT_CUDA_CHECK AND element STREQUAL f16)
        set(${upper}_IMAGE_f16 ${PROJECT_BINARY_DIR}/kernels/cuda/${FILE}_bf16.fatbin)
        continue()
      endif()
      set(type tw::${element})
      if(element MATCHES "^(float|int8_t)$")
        set(type ${element})
      endif()
      set(definitions -DTW_${upper}_ELEMENT=${type} -DTW_${upper}_HAS_SM90=1)
      add_custom_command(OUTPUT ${image} DEPENDS ${source} DEPFILE ${image}.d
        COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${NVCC_PROGRAM} ${nvcc_flags} ${definitions} -c -fatbin
                -MD -MF ${image}.d -MT ${image} ${source} -o ${image}
        COMMENT "Building CUDA kernels of ${FILE}_${element}" VERBATIM)
      list(APPEND images ${image})
    endforeach()
    set(host ${PROJECT_BINARY_DIR}/kernels/cuda/${NAME}_images.cc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/cuda_${NAME}_images.cc.in ${host} @ONLY)
    set_source_files_properties(${host} PROPERTIES OBJECT_DEPENDS "${images}"
                                SKIP_UNITY_BUILD_INCLUSION ON)
    set(sources ${sources} ${host} PARENT_SCOPE)
  endfunction()

  # Matrix multiplication has kernels of its own; grouped matrix multiplication and attention have
  # some for Hopper beside the neutral ones.
  tilewright_cuda_images(gemm gemm float f16 bf16)
  tilewright_cuda_images(gemm_grouped gemm_grouped f16 bf16)
  tilewright_cuda_images(gemm_int8 gemm_int8 int8_t)
  tilewright_cuda_images(gemm_scaled gemm_scaled f8_e4m3fn int8_t)
  tilewright_cuda_images(gemm_scaled_experts gemm_scaled_experts f8_e4m3fn)
  tilewright_cuda_images(attention attention_sm90 f16 bf16)
  tilewright_cuda_images(attention_backward attention_backward_sm90 f16 bf16)
  tilewright_cuda_images(mla mla_sm90 f16 bf16)
  tilewright_cuda_images(linear_int linear_int_sm90 f16 bf16)
  tilewright_cuda_images(norm norm_sm90 float f16 bf16)

  add_library(tilewright_kernels_cuda OBJECT ${sources})
  target_link_libraries(tilewright_kernels_cuda PRIVATE tilewright_build_settings)
  if(TILEWRIGHT_CUDA_CHECK)
    target_compile_options(tilewright_kernels_cuda PRIVATE -O0)
  endif()
  set_target_properties(tilewright_kernels_cuda PROPERTIES UNITY_BUILD ${TILEWRIGHT_UNITY}
                        UNITY_BUILD_BATCH_SIZE 16)
  list(APPEND TILEWRIGHT_KERNEL_TARGETS tilewright_kernels_cuda)
endif()

set(has_cuda false)
set(targets)
if(TILEWRIGHT_CUDA)
  set(has_cuda true)
  # -gencode=arch=compute_90a,code=[sm_90a,compute_90a] gives sm_90a compute_90a.
  string(REGEX MATCHALL "(,code|-arch)=[^ ;]*" targets "${TILEWRIGHT_CUDA_TARGET}")
  string(REGEX MATCHALL "(sm|compute)_[0-9]+[a-z]?" targets "${targets}")
endif()
list(JOIN targets " " targets)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tilewright/runtime/cuda/jit.cc PROPERTIES
                            COMPILE_DEFINITIONS "TW_CUDA_TARGETS=\"${targets}\"")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/tilewright/built_cuda.h CONTENT
"// Written by cmake/cuda.cmake.
#pragma once

namespace tw::runtime {
/// Whether this build carries kernels for GPUs.
inline constexpr bool kHasCuda = ${has_cuda};
}  // namespace tw::runtime
" @ONLY)
if(TILEWRIGHT_CUDA)
  foreach(file run_gpu_suite.sh gpu_sanitizer.sh gpu_known_hazards.txt)
    configure_file(${PROJECT_SOURCE_DIR}/tools/${file} ${PROJECT_BINARY_DIR} COPYONLY)
  endforeach()
  # What the suite runs of Python; the folder of a build is taken to machines without the sources.
  set(copies)
  foreach(folder python/tilewright testing/python tests/python benchmarks/gpu)
    list(APPEND copies COMMAND ${CMAKE_COMMAND} -E copy_directory
         ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/suite/${folder})
  endforeach()
  add_custom_target(tilewright_gpu_suite ALL ${copies} VERBATIM)
endif()
