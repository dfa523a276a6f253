// Stands for libcuda or libnccl in tests: what it is called is up to who copies it.
#include <sched.h>

const char version_text[] = "NCCL version 2.28.9+cuda13.0";
int rung_simulated = 1;

const char* lookalike_version(void) { return version_text; }

// Keeps the CPU busy inside this library until *stop is not 0.
void lookalike_spin(const volatile int* stop) {
  while (*stop == 0) {
  }
}

// As NCCL and CUDA wait: most of the time is spent in the kernel and in libc, on their behalf.
void lookalike_yield(const volatile int* stop) {
  while (*stop == 0) sched_yield();
}
