# The house: every folder under src/ is one room, and this file says which rooms it may see.
#
# A room is compiled with an include path that holds only the rooms it may see, so a forbidden
# #include does not compile. SEES is the full list: it is not transitive.

# rung_room(NAME SEES rooms... [LINK targets...] [INCLUDES folders...]): folder src/NAME with '_' for a sub-folder of sources.
function(rung_room name)
  cmake_parse_arguments(ARG "" "" "SEES;LINK;INCLUDES" ${ARGN})
  string(REGEX REPLACE "^sources_" "sources/" folder ${name})
  set(view ${CMAKE_BINARY_DIR}/rooms/${name})
  set(link ${view}/${folder})
  cmake_path(GET link PARENT_PATH link_parent)
  file(MAKE_DIRECTORY ${link_parent})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${folder} ${link} SYMBOLIC)

  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
  if(name STREQUAL "cli")
    list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  endif()
  set(target rung_${name})
  set(includes ${view} ${ARG_INCLUDES})
  set(libraries)
  foreach(room IN LISTS ARG_SEES)
    list(APPEND includes ${CMAKE_BINARY_DIR}/rooms/${room})
    list(APPEND libraries rung_${room})
  endforeach()
  if(sources)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PRIVATE ${includes})
    target_link_libraries(${target} PRIVATE rung_flags dep_fmt ${libraries} ${ARG_LINK})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${libraries} ${ARG_LINK})
  endif()
endfunction()

# rung_sees(TARGET rooms...): lets a program that is no room (a test, a bench, main) see rooms.
function(rung_sees target)
  foreach(room IN LISTS ARGN)
    target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/rooms/${room})
    target_link_libraries(${target} PRIVATE rung_${room})
  endforeach()
endfunction()
