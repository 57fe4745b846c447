#include "tilewright/runtime/cuda/driver.h"

#include <dlfcn.h>

namespace tw::runtime::cuda {
namespace {

struct Opened {
  Driver driver{};
  Support support = Support::yes();
};

std::string describe(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.get_error_name(result, &name) != 0 || name == nullptr) name = "unknown CUDA error";
  if (driver.get_error_string(result, &text) != 0 || text == nullptr) text = "";
  return std::string(name) + " (" + text + ")";
}

Opened open() {
  Opened out;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.support = Support::no("there is no CUDA driver (libcuda.so.1)");
    return out;
  }
#define TW_FIND(member, symbol, parameters)                                           \
  out.driver.member = reinterpret_cast<Result(*) parameters>(dlsym(library, symbol)); \
  if (out.driver.member == nullptr) {                                                 \
    out.support = Support::no("the CUDA driver is too old: it has no " symbol);       \
    return out;                                                                       \
  }
  TW_FOR_EACH_DRIVER_FUNCTION(TW_FIND)
#undef TW_FIND
  int devices = 0;
  if (const Result result = out.driver.init(0); result != 0)
    out.support = Support::no("the CUDA driver does not start: " + describe(out.driver, result));
  else if (out.driver.device_count(&devices) != 0 || devices == 0)
    out.support = Support::no("the CUDA driver finds no GPU");
  return out;
}

const Opened& opened() {
  static const Opened kOpened = open();
  return kOpened;
}

constexpr Result kOutOfMemoryResult = 2;

}  // namespace

const Support& availability() {
  return opened().support;
}

const Driver& driver() {
  if (!availability()) throw Error(ErrorKind::kUnsupported, "cuda: " + availability().reason());
  return opened().driver;
}

void fail(Result result, std::initializer_list<std::string_view> what) {
  std::string message;
  for (const std::string_view text : what) message += text;
  throw Error(result == kOutOfMemoryResult ? ErrorKind::kOutOfMemory : ErrorKind::kInternal,
              message + ": " + describe(opened().driver, result));
}

}  // namespace tw::runtime::cuda
