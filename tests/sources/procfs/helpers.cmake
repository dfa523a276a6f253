# A library that tests copy under the names of vendor libraries.
add_library(rung_lookalike MODULE ${CMAKE_CURRENT_LIST_DIR}/lookalike.c)
set_target_properties(rung_lookalike PROPERTIES PREFIX "")
target_link_options(rung_lookalike PRIVATE
  -Wl,--build-id=0x00112233445566778899aabbccddeeff00112233)
foreach(tests rung_sources_procfs_tests rung_sources_cpu_place_tests rung_capability_tests)
  if(TARGET ${tests})
    add_dependencies(${tests} rung_lookalike)
    target_compile_definitions(${tests} PRIVATE RUNG_LOOKALIKE="$<TARGET_FILE:rung_lookalike>")
  endif()
endforeach()
