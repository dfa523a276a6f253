#include "cli/run.h"

int main(int argc, char** argv) { return rung::cli::run(argc, argv); }
