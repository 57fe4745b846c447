# benchmarks/*.cc make the program tilewright-bench, benchmarks/micro/*.cc the program
# tilewright-micro, which measures what the machine itself can do.

if(TILEWRIGHT_BENCHMARKS)
  file(GLOB bench_sources CONFIGURE_DEPENDS benchmarks/*.cc)
  file(GLOB_RECURSE micro_sources CONFIGURE_DEPENDS benchmarks/micro/*.cc)
  foreach(kind IN ITEMS bench micro)
    if(${kind}_sources)
      add_executable(tilewright_${kind} ${${kind}_sources})
      set_target_properties(tilewright_${kind} PROPERTIES OUTPUT_NAME tilewright-${kind}
                            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
      target_link_libraries(tilewright_${kind} PRIVATE ${TILEWRIGHT_OBJECT_TARGETS}
                            tilewright_testing tilewright_cli_settings)
    endif()
  endforeach()
endif()
