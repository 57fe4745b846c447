#include "testing/device_call.h"

#include <algorithm>
#include <cstring>

namespace tw::testing {
namespace {

constexpr int64_t kGuardBytes = 256;  // keeps the alignment of the allocation
constexpr std::byte kGuardByte{0xA5};

/// Bytes from the first element to the end of the last.
int64_t reach(const TensorRef& tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < static_cast<size_t>(tensor.rank); ++d) {
    if (tensor.sizes[d] == 0) return 0;
    last += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * element_size(tensor.dtype);
}

}  // namespace

DeviceCall::DeviceCall(const ops::Call& host, int device) : call_(host) {
  for (int i = 0; i < call_.schema().size(); ++i) {
    const ops::Arg& arg = call_.schema()[i];
    ops::Slot& slot = call_[i];
    if (arg.kind != ops::ArgKind::kTensor || !slot.present || arg.is_host_list()) continue;
    TensorRef& tensor = slot.tensor;
    // What is misaligned on the host is so on the device.
    const auto skew = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data) % 64);
    const Copied& copied = copied_.emplace_back(runtime::cuda::gpu(device), tensor.data,
                                                reach(tensor), kGuardBytes + skew, arg.output);
    tensor.data = static_cast<std::byte*>(copied.buffer.data()) + copied.offset;
    tensor.device = Device::cuda(device);
  }
}

DeviceCall::Copied::Copied(const runtime::cuda::Gpu& gpu, void* host_data, int64_t reach_bytes,
                           int64_t guard_bytes, bool is_output)
    : host(host_data),
      bytes(reach_bytes),
      offset(guard_bytes),
      output(is_output),
      buffer(gpu, guard_bytes + reach_bytes + kGuardBytes) {
  std::vector<std::byte> all(static_cast<size_t>(buffer.bytes()), kGuardByte);
  if (bytes > 0) std::memcpy(all.data() + offset, host, static_cast<size_t>(bytes));
  buffer.copy_from_host(all.data(), buffer.bytes());
}

void DeviceCall::fetch() {
  for (const Copied& c : copied_)
    if (c.output && c.bytes > 0) c.buffer.copy_to_host(c.host, c.bytes, c.offset);
}

bool DeviceCall::guards_intact() const {
  for (const Copied& c : copied_) {
    std::vector<std::byte> all(static_cast<size_t>(c.buffer.bytes()));
    c.buffer.copy_to_host(all.data(), c.buffer.bytes());
    const auto intact = [&](int64_t begin, int64_t end) {
      return std::all_of(all.begin() + begin, all.begin() + end,
                         [](std::byte b) { return b == kGuardByte; });
    };
    if (!intact(0, c.offset) || !intact(c.offset + c.bytes, c.buffer.bytes())) return false;
    if (!c.output && c.bytes > 0 &&
        std::memcmp(all.data() + c.offset, c.host, static_cast<size_t>(c.bytes)) != 0)
      return false;
  }
  return true;
}

runtime::cuda::Allocator poisoned_workspaces() {
  using runtime::cuda::DevicePointer, runtime::cuda::driver, runtime::cuda::StreamHandle;
  const auto allocate = [](void*, size_t bytes, StreamHandle stream) -> void* {
    DevicePointer pointer = 0;
    if (driver().allocate_async(&pointer, bytes, stream) != 0) return nullptr;
    void* const out = reinterpret_cast<void*>(pointer);
    return driver().fill_async(pointer, 0xFF, bytes, stream) == 0 ? out : nullptr;
  };
  const auto free = [](void*, void* memory, size_t, StreamHandle stream) {
    driver().free_async(reinterpret_cast<DevicePointer>(memory), stream);
  };
  return {allocate, free, nullptr};
}

}  // namespace tw::testing
