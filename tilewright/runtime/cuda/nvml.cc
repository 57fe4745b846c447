#include "tilewright/runtime/cuda/nvml.h"

#include <cstdint>
#include <string>

#include <dlfcn.h>

#include "tilewright/runtime/cuda/driver.h"

namespace tw::runtime::cuda {
namespace {

using NvmlResult = int;  // nvmlReturn_t; 0 is success
struct NvmlDeviceOpaque;
using NvmlDevice = NvmlDeviceOpaque*;

/// nvmlFieldValue_t.
struct NvmlField {
  unsigned id, scope;
  int64_t timestamp, latency_us;
  int value_type;
  NvmlResult result;
  union {
    unsigned value;
    uint64_t widest;
  };
};
static_assert(sizeof(NvmlField) == 40);

// X(result, member, symbol, parameters)
#define TW_FOR_EACH_NVML_FUNCTION(X)                                                               \
  X(NvmlResult, init, "nvmlInit_v2", ())                                                           \
  X(const char*, error_string, "nvmlErrorString", (NvmlResult error))                              \
  X(NvmlResult, find_device, "nvmlDeviceGetHandleByPciBusId_v2",                                   \
    (const char* bus_id, NvmlDevice* device))                                                      \
  X(NvmlResult, clock, "nvmlDeviceGetClockInfo", (NvmlDevice device, int clock, unsigned* mhz))    \
  X(NvmlResult, fields, "nvmlDeviceGetFieldValues",                                                \
    (NvmlDevice device, int count, NvmlField* values))                                             \
  X(NvmlResult, power, "nvmlDeviceGetPowerUsage", (NvmlDevice device, unsigned* mw))               \
  X(NvmlResult, power_limit, "nvmlDeviceGetEnforcedPowerLimit", (NvmlDevice device, unsigned* mw)) \
  X(NvmlResult, temperature, "nvmlDeviceGetTemperature",                                           \
    (NvmlDevice device, int sensor, unsigned* celsius))

struct Nvml {
#define TW_MEMBER(result, member, symbol, parameters) result(*member) parameters;
  TW_FOR_EACH_NVML_FUNCTION(TW_MEMBER)
#undef TW_MEMBER
};

constexpr int kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
constexpr int kCoreSensor = 0;                 // nvmlTemperatureSensors_t
constexpr unsigned kPowerInstant = 186;        // NVML_FI_DEV_POWER_INSTANT

struct Opened {
  Nvml nvml{};
  Support support = Support::yes();
};

Opened open() {
  Opened out;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.support = Support::no("there is no NVML (libnvidia-ml.so.1)");
    return out;
  }
#define TW_FIND(result, member, symbol, parameters)                                 \
  out.nvml.member = reinterpret_cast<result(*) parameters>(dlsym(library, symbol)); \
  if (out.nvml.member == nullptr) {                                                 \
    out.support = Support::no("NVML is too old: it has no " symbol);                \
    return out;                                                                     \
  }
  TW_FOR_EACH_NVML_FUNCTION(TW_FIND)
#undef TW_FIND
  if (const NvmlResult result = out.nvml.init(); result != 0)
    out.support = Support::no(std::string("NVML does not start: ") + out.nvml.error_string(result));
  return out;
}

/// Kept open for the process's life, as the driver is.
const Opened& opened() {
  static const Opened kOpened = open();
  return kOpened;
}

/// Milliwatts. What nvmlDeviceGetPowerUsage tells of Hopper is the mean of a second, in which other
/// work may have run.
unsigned power_now(const Nvml& nvml, NvmlDevice device) {
  NvmlField field[2] = {};  // drivers are said to look at one more than they are asked for
  field[0].id = kPowerInstant;
  if (nvml.fields(device, 1, field) == 0 && field[0].result == 0) return field[0].value;
  unsigned mean = 0;
  return nvml.power(device, &mean) == 0 ? mean : 0;
}

}  // namespace

Support read_gpu_state(int device, GpuState& state) {
  if (!availability()) return availability();
  if (!opened().support) return opened().support;
  // By its place on the bus: CUDA_VISIBLE_DEVICES numbers the driver's GPUs, but not NVML's.
  char bus_id[32] = {};
  if (driver().pci_bus_id(bus_id, int(sizeof bus_id), device) != 0)
    return Support::no("cuda:" + std::to_string(device) + " does not exist");
  const Nvml& nvml = opened().nvml;
  NvmlDevice found = nullptr;
  if (const NvmlResult result = nvml.find_device(bus_id, &found); result != 0)
    return Support::no("NVML does not know the GPU at " + std::string(bus_id) + ": " +
                       nvml.error_string(result));
  const auto told = [&](NvmlResult (*get)(NvmlDevice, int, unsigned*), int which) {
    unsigned value = 0;
    return get(found, which, &value) == 0 ? double(value) : 0;
  };
  unsigned limit = 0;
  if (nvml.power_limit(found, &limit) != 0) limit = 0;
  state = {.sm_mhz = told(nvml.clock, kSmClock),
           .memory_mhz = told(nvml.clock, kMemoryClock),
           .power_w = power_now(nvml, found) * 1e-3,
           .power_limit_w = limit * 1e-3,
           .temperature_c = told(nvml.temperature, kCoreSensor)};
  return Support::yes();
}

}  // namespace tw::runtime::cuda
