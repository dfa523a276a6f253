# Small libraries and a program for the host probe tests to watch.
set(fixtures ${CMAKE_CURRENT_LIST_DIR}/fixtures)
set(fixtures_out ${CMAKE_CURRENT_BINARY_DIR}/host_probe_fixtures)

# rung_fixture(TARGET SOURCE FILE BUILD_ID): shared library FILE with that GNU build-id.
function(rung_fixture target source file build_id)
  get_filename_component(name ${file} NAME)
  get_filename_component(folder ${file} DIRECTORY)
  add_library(${target} SHARED ${source})
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${fixtures_out}/${folder} PREFIX "" OUTPUT_NAME ${name} SUFFIX ""
    INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(${target} PRIVATE -O1 -fvisibility=hidden)
  target_link_options(${target} PRIVATE -Wl,--build-id=0x${build_id} -Wl,-soname,${name})
endfunction()

set(known_id 1111111111111111111111111111111111111111)
set(unknown_id 2222222222222222222222222222222222222222)
rung_fixture(fixture_cuda ${fixtures}/fake_cuda.cpp libcuda.so.1 ${known_id})
rung_fixture(fixture_nccl ${fixtures}/fake_nccl.cpp libnccl.so.2 ${known_id})
rung_fixture(fixture_nccl_unknown ${fixtures}/fake_nccl.cpp unknown/libnccl.so.2 ${unknown_id})

add_executable(fixture_workload ${fixtures}/probe_workload.cpp)
set_target_properties(fixture_workload PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${fixtures_out} OUTPUT_NAME probe_workload)
target_link_libraries(fixture_workload PRIVATE rung_flags dep_fmt Threads::Threads ${CMAKE_DL_LIBS})
rung_sees(fixture_workload base vocab model sources_host_probes)

set(target rung_sources_host_probes_tests)
add_dependencies(${target} fixture_cuda fixture_nccl fixture_nccl_unknown fixture_workload)
target_compile_definitions(${target} PRIVATE
  RUNG_PROBE_FIXTURES="${fixtures_out}" RUNG_PROBE_KNOWN_ID="${known_id}")

# NVIDIA's own files, where they are: the tables of abi/ are checked against them.
if(NOT RUNG_HIDE_CUDA)
  find_path(toolkit_include cuda.h PATHS /usr/local/cuda/include)
  find_file(toolkit_stub libcuda.so PATHS /usr/local/cuda/lib64/stubs /usr/local/cuda/lib/stubs
            NO_DEFAULT_PATH)
  find_file(toolkit_nccl libnccl.so.2 PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib
            NO_DEFAULT_PATH)
  find_program(dwarfdump NAMES llvm-dwarfdump-16 llvm-dwarfdump)
  if(toolkit_include)
    target_include_directories(${target} SYSTEM PRIVATE ${toolkit_include})
    target_compile_definitions(${target} PRIVATE RUNG_TOOLKIT_INCLUDE)
  endif()
  if(toolkit_stub)
    target_compile_definitions(${target} PRIVATE RUNG_TOOLKIT_CUDA_STUB="${toolkit_stub}")
  endif()
  if(toolkit_nccl)
    target_compile_definitions(${target} PRIVATE RUNG_TOOLKIT_NCCL="${toolkit_nccl}")
  endif()
  if(dwarfdump)
    target_compile_definitions(${target} PRIVATE RUNG_DWARFDUMP="${dwarfdump}")
  endif()
endif()
