// Memory from PyTorch's allocators: tensors that we own, and the workspaces of kernels on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "python/src/torch_shim.h"
#include "tilewright/c/tilewright.h"

namespace tw::torch {

inline void check(AOTITorchError error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string("tilewright: torch could not ") + what);
}

struct DeleteTensor {
  void operator()(AtenTensorOpaque* tensor) const { aoti_torch_delete_tensor_object(tensor); }
};
using TensorHandle = std::unique_ptr<AtenTensorOpaque, DeleteTensor>;

/// Asks the kernel for large pages: a large output is new memory in most calls, and the faults of
/// its small pages take longer than a memory-bound operator.
inline void ask_for_large_pages(const tw_tensor& tensor) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  int64_t bytes = tensor.dtype.bits / 8;
  for (int32_t d = 0; d < tensor.rank; ++d) bytes *= tensor.shape[d];
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  const uintptr_t begin = (address + kPage - 1) / kPage * kPage;
  const uintptr_t end = (address + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

/// What a running call's kernels need meanwhile on a GPU, from PyTorch's allocator too: its memory
/// is ordered by the current stream, which the call goes into, and counted and reused with all the
/// rest.
struct Workspaces {
  int32_t device;
  std::vector<std::pair<void*, TensorHandle>> made;

  static void* allocate(void* user, size_t bytes, void*) noexcept {
    auto& self = *static_cast<Workspaces*>(user);
    const auto size = static_cast<int64_t>(bytes);
    const int64_t stride = 1;
    AtenTensorHandle tensor = nullptr;
    if (aoti_torch_empty_strided(1, &size, &stride, aoti_torch_dtype_uint8(),
                                 aoti_torch_device_type_cuda(), self.device, &tensor) != 0)
      return nullptr;
    TensorHandle owned(tensor);
    void* data = nullptr;
    if (torch_get_mutable_data_ptr(tensor, &data) != 0) return nullptr;
    self.made.emplace_back(data, std::move(owned));
    return data;
  }
  static void free(void* user, void* memory, size_t, void*) noexcept {
    auto& made = static_cast<Workspaces*>(user)->made;
    std::erase_if(made, [&](const auto& each) { return each.first == memory; });
  }
};

}  // namespace tw::torch
