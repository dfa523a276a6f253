// libcuda.so.1: one launch function in a file that is compiled with -fcf-protection=branch, so that
// a prologue classifier also meets `endbr64; push` as toolchains with CET emit it.
#include "fakes/cuda/launch.h"

RUNG_SIM_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned, unsigned,
                                                   unsigned, unsigned, unsigned, unsigned, unsigned,
                                                   CUstream stream, void** kernel_params) {
  return rung::sim::launch(function, stream, kernel_params);
}

RUNG_SIM_EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned, unsigned,
                                                        unsigned, unsigned, unsigned, unsigned,
                                                        unsigned, CUstream stream,
                                                        void** kernel_params) {
  return rung::sim::launch(function, stream, kernel_params);
}
