# Third-party code, all from Debian packages and linked statically: one file must run on any node.
find_package(Threads REQUIRED)

function(rung_static_library target archive)
  find_library(${target}_archive NAMES ${archive} REQUIRED)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_archive})
endfunction()

rung_static_library(dep_z libz.a)
rung_static_library(dep_elf libelf.a)
target_link_libraries(dep_elf INTERFACE dep_z)
rung_static_library(dep_bpf libbpf.a)
target_link_libraries(dep_bpf INTERFACE dep_elf dep_z)
rung_static_library(dep_sqlite libsqlite3.a)
target_link_libraries(dep_sqlite INTERFACE m Threads::Threads ${CMAKE_DL_LIBS})
rung_static_library(dep_event libevent_core.a)
rung_static_library(dep_event_http libevent_extra.a)
target_link_libraries(dep_event_http INTERFACE dep_event)

# Header-only packages: their headers are system headers, so our warnings do not apply to them.
add_library(dep_fmt INTERFACE)
target_compile_definitions(dep_fmt INTERFACE FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
