#include "tilewright/runtime/cuda/kernel_image.h"

#include <cstdlib>
#include <vector>

namespace tw::runtime::cuda {

std::string described(const Gpu& gpu) {
  return gpu.name + " (compute capability " + std::to_string(gpu.compute_major) + "." +
         std::to_string(gpu.compute_minor) + ")";
}

void load_kernels(const std::string& op, const std::string& gpu, const void* image,
                  const std::function<void(std::string_view, Kernel)>& place) {
  const Driver& d = driver();
  Library library = nullptr;
  check(d.load_library(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0), op,
        ": no kernel for ", gpu);
  unsigned count = 0;
  check(d.kernel_count(&count, library), op, ": cuLibraryGetKernelCount");
  std::vector<Kernel> found(count);
  check(d.list_kernels(found.data(), count, library), op, ": cuLibraryEnumerateKernels");
  for (const Kernel kernel : found) {
    const char* name = nullptr;
    check(d.kernel_name(&name, kernel), op, ": cuKernelGetName");
    place(name, kernel);
  }
}

Kernel load_kernel(const std::string& op, const std::string& gpu, const void* image) {
  Kernel found = nullptr;
  load_kernels(op, gpu, image, [&](std::string_view, Kernel kernel) { found = kernel; });
  if (found == nullptr)
    throw Error(ErrorKind::kInternal, op + ": the kernel compiled for " + gpu + " is not there");
  return found;
}

int number_after(std::string_view name, std::string_view text) {
  const size_t at = name.find(text);
  return at == std::string_view::npos ? -1 : std::atoi(name.data() + at + text.size());
}

void allow_shared_bytes(std::string_view op, Kernel kernel, int bytes, const Gpu& on) {
  constexpr int kMaxDynamicSharedBytes = 8;  // CUfunction_attribute
  check(driver().set_kernel_attribute(kMaxDynamicSharedBytes, bytes, kernel, on.id), op,
        ": cuKernelSetAttribute");
}

}  // namespace tw::runtime::cuda
