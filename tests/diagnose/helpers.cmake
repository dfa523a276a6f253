# The rooms that judge touch no file, socket or clock; and the guard does see a room that does.
if(NOT RUNG_SANITIZE)  # sanitizers add calls of their own to the object code
  add_test(NAME diagnose_is_pure
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/diagnose/purity_check.sh ${CMAKE_NM}
            $<TARGET_FILE:rung_diagnose> $<TARGET_FILE:rung_timeline>)
  add_test(NAME diagnose_purity_guard_sees_clocks
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/diagnose/purity_check.sh ${CMAKE_NM}
            $<TARGET_FILE:rung_base>)
  set_tests_properties(diagnose_is_pure diagnose_purity_guard_sees_clocks
    PROPERTIES SKIP_RETURN_CODE 77)
  set_tests_properties(diagnose_purity_guard_sees_clocks PROPERTIES WILL_FAIL TRUE)
endif()
