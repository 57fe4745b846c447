# benchmarks/micro/*.cc make the program tilewright-micro, which measures what the machine itself can
# do.

if(TILEWRIGHT_BENCHMARKS)
  file(GLOB micro_sources CONFIGURE_DEPENDS benchmarks/micro/*.cc)
  add_executable(tilewright_micro ${micro_sources})
  set_target_properties(tilewright_micro PROPERTIES OUTPUT_NAME tilewright-micro
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(tilewright_micro PRIVATE ${TILEWRIGHT_OBJECT_TARGETS}
                        tilewright_testing tilewright_cli_settings)
endif()
