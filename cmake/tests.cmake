# tests/unit/**/*_test.cc make one GoogleTest program, tests/lanes/*_test.cc another, in which the
# headers of testing/lanes stand in for instructions of a GPU; tests/fuzz/*_fuzz.cc one libFuzzer program
# each, with its seed corpus in tests/fuzz/corpus/NAME.

if(TILEWRIGHT_TESTS)
  enable_testing()
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(STATUS "GoogleTest not found: no unit tests (`tools/setup.sh test` installs it)")
  endif()
  file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS tests/unit/*_test.cc tests/ops/*_test.cc)
  if(unit_sources AND GTest_FOUND)
    add_executable(tilewright_tests ${unit_sources})
    set_target_properties(tilewright_tests PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                          UNITY_BUILD ${TILEWRIGHT_UNITY} UNITY_BUILD_BATCH_SIZE 6)  # a third of the time
    target_link_libraries(tilewright_tests PRIVATE ${TILEWRIGHT_OBJECT_TARGETS} tilewright_testing
                          tilewright_build_settings GTest::gtest GTest::gtest_main)
    target_compile_options(tilewright_tests PRIVATE $<$<CONFIG:Release>:-O1>)
    # They run on a machine with a GPU, which need not be the one that built them.
    if(TILEWRIGHT_CUDA)
      target_link_options(tilewright_tests PRIVATE -static-libstdc++ -static-libgcc)
    endif()
    include(GoogleTest)
    gtest_discover_tests(tilewright_tests DISCOVERY_MODE PRE_TEST
                         WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT 300)
  endif()
  file(GLOB lane_sources CONFIGURE_DEPENDS tests/lanes/*_test.cc)
  if(lane_sources AND GTest_FOUND)
    add_executable(tilewright_lane_tests ${lane_sources})
    set_target_properties(tilewright_lane_tests PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    target_include_directories(tilewright_lane_tests BEFORE PRIVATE testing/lanes)
    target_compile_options(tilewright_lane_tests PRIVATE -Wno-unknown-pragmas -Wno-psabi  # nvcc's
                           $<$<CONFIG:Release>:-O1>)
    target_link_libraries(tilewright_lane_tests PRIVATE tilewright_build_settings GTest::gtest
                          GTest::gtest_main)
    gtest_discover_tests(tilewright_lane_tests DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
  endif()
  if(PROJECT_IS_TOP_LEVEL AND NOT TILEWRIGHT_SANITIZE)
    add_test(NAME install COMMAND tools/check_install.sh ${PROJECT_BINARY_DIR}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    add_test(NAME isa_symbols COMMAND tools/lint/isa_symbols.py ${PROJECT_BINARY_DIR}
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endif()
endif()

# ThreadSanitizer looks at what synchronises threads, which needs little of the library.
if(TILEWRIGHT_SANITIZE STREQUAL "thread" AND GTest_FOUND)
  file(GLOB thread_sources CONFIGURE_DEPENDS tilewright/core/*.cc tilewright/runtime/thread_*.cc
       tests/unit/runtime/thread_*_test.cc)
  add_executable(tilewright_thread_tests ${thread_sources})
  set_target_properties(tilewright_thread_tests PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(tilewright_thread_tests PRIVATE tilewright_build_settings GTest::gtest
                        GTest::gtest_main)
endif()

if(TILEWRIGHT_FUZZ)
  file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/*_fuzz.cc)
  add_custom_target(tilewright_fuzzers)
  foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    set_target_properties(${name} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    target_link_libraries(${name} PRIVATE ${TILEWRIGHT_OBJECT_TARGETS} tilewright_build_settings)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(tilewright_fuzzers ${name})
  endforeach()
endif()
