// The command line as a whole.
#pragma once

namespace rung::cli {

int run(int argc, char** argv);

}  // namespace rung::cli
