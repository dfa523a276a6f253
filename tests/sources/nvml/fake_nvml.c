// A tiny NVML whose behaviour is set by files in the folder that FAKE_NVML names, read at each
// call: `devices` (a count), `block` (calls on devices do not return while it exists),
// `block_count` (the same for the count), `lost`, `unsupported`, `init_error` (a code), `wide`
// (process entries of 32 bytes), `crash`.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, LOST = 15, BAD_VERSION = 25 };

#ifndef FAKE_REAL
EXPORT int rung_simulated = 1;
#endif

static int path_of(char* path, size_t size, const char* name) {
  const char* folder = getenv("FAKE_NVML");
  return folder != NULL && snprintf(path, size, "%s/%s", folder, name) < (int)size;
}

static int present(const char* name) {
  char path[512];
  return path_of(path, sizeof path, name) && access(path, F_OK) == 0;
}

static int number(const char* name, int otherwise) {
  char path[512];
  int value = otherwise;
  if (!path_of(path, sizeof path, name)) return otherwise;
  FILE* file = fopen(path, "r");
  if (file == NULL) return otherwise;
  if (fscanf(file, "%d", &value) != 1) value = otherwise;
  fclose(file);
  return value;
}

static void wait_while(const char* name) {
  const struct timespec pause = {0, 2000000};
  while (present(name)) nanosleep(&pause, NULL);
}

static int enter(void) {
  if (present("crash")) abort();
  wait_while("block");
  if (present("lost")) return LOST;
  return present("unsupported") ? NOT_SUPPORTED : SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return number("init_error", SUCCESS); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }

EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  wait_while("block_count");
  *count = (unsigned)number("devices", 2);
  return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (present("lost")) return LOST;
  *device = (void*)(uintptr_t)(index + 1);
  return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  snprintf(text, size, "GPU-fake-%d", (int)(uintptr_t)device - 1);
  return SUCCESS;
}

EXPORT int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  (void)device;
  snprintf(text, size, "Fake H200");
  return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned rates[2]) {
  const int code = enter();
  rates[0] = 90 + (unsigned)(uintptr_t)device;
  rates[1] = 30;
  return code;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void* device, void* memory) {
  (void)device;
  unsigned version;
  memcpy(&version, memory, sizeof version);
  if (version != 0x2000028) return BAD_VERSION;
  const uint64_t values[4] = {1000, 100, 600, 300};  // total, reserved, free, used
  memcpy((char*)memory + 8, values, sizeof values);
  return enter();
}

EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  (void)device;
  *milliwatts = 688500;
  return enter();
}

EXPORT int nvmlDeviceGetClockInfo(void* device, unsigned clock, unsigned* megahertz) {
  (void)device;
  *megahertz = clock == 1 ? 1980 : 3201;
  return enter();
}

EXPORT int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  (void)device;
  (void)sensor;
  *celsius = 64;
  return enter();
}

// Only the older name is there.
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  (void)device;
  *reasons = 4;
  return enter();
}

EXPORT int nvmlDeviceGetFieldValues(void* device, int count, char* fields) {
  (void)device;
  for (int i = 0; i < count; ++i) {
    char* field = fields + 40 * i;
    unsigned id, scope;
    memcpy(&id, field, 4);
    memcpy(&scope, field + 4, 4);
    const unsigned type = 3;  // u64
    const int known = (id == 138 || id == 139) && scope == 0xFFFFFFFF;
    const int result = known ? SUCCESS : NOT_SUPPORTED;
    const uint64_t value = id * 1000ULL;
    memcpy(field + 24, &type, 4);
    memcpy(field + 28, &result, 4);
    memcpy(field + 32, &value, 8);
  }
  return enter();
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, char* infos) {
  (void)device;
  const unsigned room = *count;
  const size_t stride = present("wide") ? 32 : 24;
  *count = 3;
  if (room < 3) return TOO_SMALL;
  for (unsigned i = 0; i < 3; ++i) {
    const unsigned pid = 4000 + i;
    const uint64_t used = 100 + i;
    const unsigned none = ~0U;
    const uint64_t protected_memory = ~0ULL;
    char* info = infos + stride * i;
    memcpy(info, &pid, 4);
    memcpy(info + 8, &used, 8);
    memcpy(info + 16, &none, 4);
    memcpy(info + 20, &none, 4);
    if (stride == 32) memcpy(info + 24, &protected_memory, 8);
  }
  return enter();
}

EXPORT int nvmlGpmQueryDeviceSupport(void* device, unsigned support[2]) {
  (void)device;
  if (support[0] != 1) return BAD_VERSION;
  support[1] = !present("unsupported");
  return SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(void** sample) {
  *sample = calloc(1, sizeof(int));
  return SUCCESS;
}

EXPORT int nvmlGpmSampleFree(void* sample) {
  free(sample);
  return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(void* device, void* sample) {
  (void)device;
  *(int*)sample = 1;
  return enter();
}

EXPORT int nvmlGpmMetricsGet(char* request) {
  unsigned version, count;
  int *before, *after;
  memcpy(&version, request, 4);
  memcpy(&count, request + 4, 4);
  memcpy(&before, request + 8, 8);
  memcpy(&after, request + 16, 8);
  if (version != 1 || *before != 1 || *after != 1) return INVALID;
  for (unsigned i = 0; i < count; ++i) {
    char* metric = request + 24 + 40 * i;
    unsigned id;
    memcpy(&id, metric, 4);
    const int result = id == 5 ? NOT_SUPPORTED : SUCCESS;  // no tensor metric
    const double value = id + 0.5;
    memcpy(metric + 4, &result, 4);
    memcpy(metric + 8, &value, 8);
  }
  return SUCCESS;
}
