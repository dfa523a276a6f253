# Compiles an eBPF program and makes its libbpf skeleton header.
find_program(RUNG_BPF_CLANG NAMES clang-16 clang-15 clang-14 clang REQUIRED)
find_program(RUNG_BPFTOOL NAMES bpftool PATHS /usr/sbin /usr/local/sbin REQUIRED)

# rung_bpf(NAME): src/bpf/NAME.bpf.c -> NAME.skel.h, included as "NAME.skel.h" by who links bpf_NAME.
function(rung_bpf name)
  set(source ${CMAKE_SOURCE_DIR}/src/bpf/${name}.bpf.c)
  set(out ${CMAKE_BINARY_DIR}/bpf)
  set(object ${out}/${name}.bpf.o)
  set(skeleton ${out}/${name}.skel.h)
  file(MAKE_DIRECTORY ${out})
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    set(arch x86)
  else()
    set(arch arm64)
  endif()
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/bpf/*.h ${CMAKE_SOURCE_DIR}/src/abi/*.h
       ${CMAKE_SOURCE_DIR}/src/vocab/*.h)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${RUNG_BPF_CLANG} -target bpf -g -O2 -Wall -Werror -mcpu=v3 -D__TARGET_ARCH_${arch}
            -I${CMAKE_SOURCE_DIR}/src -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
            -c ${source} -o ${object}
    COMMAND ${RUNG_BPFTOOL} gen skeleton ${object} name ${name} > ${skeleton}
    DEPENDS ${source} ${headers}
    COMMENT "eBPF ${name}")
  add_custom_target(bpf_${name}_skeleton DEPENDS ${skeleton})
  add_library(bpf_${name} INTERFACE)
  add_dependencies(bpf_${name} bpf_${name}_skeleton)
  target_include_directories(bpf_${name} SYSTEM INTERFACE ${out})
endfunction()
