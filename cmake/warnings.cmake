# Compiler settings that every target of ours shares.
add_library(rung_flags INTERFACE)
target_compile_options(rung_flags INTERFACE -Wall -Wextra -Wconversion -Werror)
if(RUNG_SANITIZE)
  target_compile_options(rung_flags INTERFACE -fsanitize=${RUNG_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(rung_flags INTERFACE -fsanitize=${RUNG_SANITIZE})
endif()
if(RUNG_FUZZ)
  # Coverage counters in every room; the fuzz targets themselves link the fuzzer.
  # Two of clang's checks double the time to compile and find little that ASan does not.
  target_compile_options(rung_flags INTERFACE -fsanitize=fuzzer-no-link
    -fno-sanitize=object-size,vptr)
endif()
if(RUNG_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT lto_ok OUTPUT lto_why)
  if(NOT lto_ok)
    message(FATAL_ERROR "RUNG_LTO is on but the compiler cannot: ${lto_why}")
  endif()
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
  # Rooms share one namespace: two types of one name would be merged into nonsense.
  target_link_options(rung_flags INTERFACE -Werror=odr -flto=auto)
endif()
