// How a text view is laid out; the caller knows the terminal.
#pragma once

namespace rung {

struct TextOptions {
  bool colour = false;  // ANSI colours: only for a terminal, and not when NO_COLOR is set
  int width = 100;      // columns of the terminal; views use 40 at least
};

}  // namespace rung
