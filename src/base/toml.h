// toml++ made fit for foreign bytes. Its parser asserts about the input in places where it also has
// an error path (`[ =x]` is one), so a debug build would abort on a bad file and clang's release
// build would have undefined behaviour: without assertions and assumptions the error path runs.
// One error mode for the whole program: parts compiled with different ones crash each other.
#pragma once

#undef NDEBUG  // with it toml++ turns assertions into assumptions
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
