# benchmarks/micro/*.cc make the program tilewright-micro, which measures what the machine itself can
# do; with CUDA it carries the image of benchmarks/micro/gpu_kernels.cu, which is for Hopper alone.

if(TILEWRIGHT_BENCHMARKS)
  file(GLOB micro_sources CONFIGURE_DEPENDS benchmarks/micro/*.cc)
  set(image_source ${PROJECT_BINARY_DIR}/kernels/micro_image.cc)
  set(image_text "#include \"benchmarks/micro/gpu.h\"\n")
  set(image_name nullptr)
  if(TILEWRIGHT_CUDA)
    set(micro_kernels ${PROJECT_SOURCE_DIR}/benchmarks/micro/gpu_kernels.cu)
    set(micro_image ${PROJECT_BINARY_DIR}/kernels/cuda/micro.fatbin)
    add_custom_command(OUTPUT ${micro_image} DEPENDS ${micro_kernels} DEPFILE ${micro_image}.d
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${NVCC_PROGRAM} -std=c++20 -O3 -diag-suppress 445
              -gencode=arch=compute_90a,code=sm_90a -I${PROJECT_SOURCE_DIR} -c -fatbin -MD
              -MF ${micro_image}.d -MT ${micro_image} ${micro_kernels} -o ${micro_image}
      COMMENT "Building CUDA kernels of tilewright-micro" VERBATIM)
    set_source_files_properties(${image_source} PROPERTIES OBJECT_DEPENDS ${micro_image})
    string(APPEND image_text "#include \"tilewright/ops/core/build_cuda.h\"\n"
                             "TW_EMBED(tw_cuda_micro, \"${micro_image}\")\n")
    set(image_name tw_cuda_micro)
  endif()
  file(CONFIGURE OUTPUT ${image_source} CONTENT
       "${image_text}const char* tw::bench::gpu_image() {\n  return ${image_name};\n}\n" @ONLY)
  add_executable(tilewright_micro ${micro_sources} ${image_source})
  set_target_properties(tilewright_micro PROPERTIES OUTPUT_NAME tilewright-micro
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(tilewright_micro PRIVATE ${TILEWRIGHT_OBJECT_TARGETS}
                        tilewright_testing tilewright_cli_settings)
endif()
