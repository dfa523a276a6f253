# A tiny NVML, once as the simulator's and once as a real one, and a program that is a worker.
add_library(rung_fake_nvml MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvml.c)
add_library(rung_fake_nvml_real MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_nvml.c)
target_compile_definitions(rung_fake_nvml_real PRIVATE FAKE_REAL)
add_executable(rung_test_vendor_worker ${CMAKE_CURRENT_LIST_DIR}/worker_main.cpp)
target_link_libraries(rung_test_vendor_worker PRIVATE rung_flags dep_fmt)
rung_sees(rung_test_vendor_worker abi vocab base model sources_nvml)
if(TARGET rung_sources_nvml_tests)
  add_dependencies(rung_sources_nvml_tests
    rung_fake_nvml rung_fake_nvml_real rung_test_vendor_worker)
  target_compile_definitions(rung_sources_nvml_tests PRIVATE
    RUNG_FAKE_NVML="$<TARGET_FILE:rung_fake_nvml>"
    RUNG_FAKE_NVML_REAL="$<TARGET_FILE:rung_fake_nvml_real>"
    RUNG_TEST_WORKER="$<TARGET_FILE:rung_test_vendor_worker>")
endif()
