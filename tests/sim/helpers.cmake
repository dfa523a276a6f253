# The tests of the simulator use its files, and the types of the fakes.
add_dependencies(rung_sim_tests rung_sim)
target_include_directories(rung_sim_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/sim
  ${CMAKE_BINARY_DIR}/rooms/vocab)
target_compile_definitions(rung_sim_tests PRIVATE RUNG_SIM_TEST_HOME="${CMAKE_BINARY_DIR}/sim")
if(NOT RUNG_HIDE_CUDA)
  find_path(sim_cuda_include cuda.h PATHS /usr/local/cuda/include NO_CACHE)
  if(sim_cuda_include)
    target_include_directories(rung_sim_tests SYSTEM PRIVATE ${sim_cuda_include})
  endif()
endif()
