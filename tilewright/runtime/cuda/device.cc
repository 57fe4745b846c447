#include "tilewright/runtime/cuda/device.h"

#include <memory>
#include <vector>

namespace tw::runtime::cuda {
namespace {

// CUdevice_attribute.
constexpr int kMultiprocessors = 16, kL2Bytes = 38, kComputeMajor = 75, kComputeMinor = 76,
              kSharedBytesOptin = 97;

/// Workspaces of calls to come: without this, memory that calls gave back leaves the process
/// whenever it waits for the GPU, and mapping it anew takes longer than many a kernel.
void keep_freed_memory(const Driver& d, int index) {
  constexpr int kReleaseThreshold = 4;  // CUmemPool_attribute
  constexpr uint64_t kKept = uint64_t{256} << 20;
  MemoryPool pool = nullptr;
  uint64_t kept = 0;
  check(d.default_pool(&pool, index), "cuda: cuDeviceGetDefaultMemPool");
  check(d.pool_attribute(pool, kReleaseThreshold, &kept), "cuda: cuMemPoolGetAttribute");
  if (kept >= kKept) return;  // the program has said more
  kept = kKept;
  check(d.set_pool_attribute(pool, kReleaseThreshold, &kept), "cuda: cuMemPoolSetAttribute");
}

std::unique_ptr<Gpu> open_gpu(int index) {
  const Driver& d = driver();
  auto out = std::make_unique<Gpu>();
  out->id = index;
  const auto attribute = [&](int which) {
    int value = 0;
    check(d.device_attribute(&value, which, index), "cuda: cuDeviceGetAttribute");
    return value;
  };
  char name[256] = {};
  check(d.device_name(name, int(sizeof(name)) - 1, index), "cuda: cuDeviceGetName");
  out->name = name;
  out->multiprocessors = attribute(kMultiprocessors);
  out->l2_bytes = attribute(kL2Bytes);
  out->compute_major = attribute(kComputeMajor);
  out->compute_minor = attribute(kComputeMinor);
  out->shared_bytes = attribute(kSharedBytesOptin);
  check(d.retain_context(&out->context, index), "cuda: cuDevicePrimaryCtxRetain");
  keep_freed_memory(d, index);
  return out;
}

}  // namespace

const Gpu& gpu(int index) {
  static const auto& kGpus = *[] {
    int count = 0;
    check(driver().device_count(&count), "cuda: cuDeviceGetCount");
    auto* gpus = new std::vector<std::unique_ptr<Gpu>>;  // for the process's life
    for (int i = 0; i < count; ++i) gpus->push_back(open_gpu(i));
    return gpus;
  }();
  if (index < 0 || static_cast<size_t>(index) >= kGpus.size())
    throw Error(ErrorKind::kInvalidArgument, "cuda:" + std::to_string(index) +
                                                 " does not exist; there are " +
                                                 std::to_string(kGpus.size()) + " GPUs");
  return *kGpus[static_cast<size_t>(index)];
}

CurrentContext::CurrentContext(const Gpu& gpu) {
  DriverContext current = nullptr;
  check(driver().current_context(&current), "cuda: cuCtxGetCurrent");
  if (current == gpu.context) return;
  check(driver().push_context(gpu.context), "cuda: cuCtxPushCurrent");
  pushed_ = true;
}

CurrentContext::~CurrentContext() {
  DriverContext popped = nullptr;
  if (pushed_) driver().pop_context(&popped);
}

Buffer::Buffer(const Gpu& gpu, int64_t bytes) : gpu_(gpu), bytes_(bytes) {
  const CurrentContext current(gpu_);
  check(driver().allocate(&pointer_, static_cast<size_t>(bytes > 0 ? bytes : 1)),
        "cuda: cannot allocate ", std::to_string(bytes), " bytes on ", gpu_.name);
}

Buffer::~Buffer() {
  const CurrentContext current(gpu_);
  driver().free(pointer_);
}

void Buffer::copy_from_host(const void* from, int64_t bytes, int64_t offset) const {
  const CurrentContext current(gpu_);
  check(driver().copy_to_device(pointer_ + static_cast<uint64_t>(offset), from,
                                static_cast<size_t>(bytes)),
        "cuda: copying to ", gpu_.name);
  // The driver may return once it holds the bytes; not every stream waits for the rest.
  check(driver().synchronize_stream(nullptr), "cuda: copying to ", gpu_.name);
}

void Buffer::copy_to_host(void* to, int64_t bytes, int64_t offset) const {
  const CurrentContext current(gpu_);
  check(driver().copy_to_host(to, pointer_ + static_cast<uint64_t>(offset),
                              static_cast<size_t>(bytes)),
        "cuda: copying from ", gpu_.name);
}

}  // namespace tw::runtime::cuda
