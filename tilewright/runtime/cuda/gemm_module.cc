#include "tilewright/runtime/cuda/gemm_module.h"

#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/runtime/cuda/gemm_image.h"
#include "tilewright/runtime/cuda/jit.h"

namespace tw::runtime::cuda {

void StridedKernels::place(std::string_view name, Kernel kernel) {
  shapes.place(name, "12gemm_stridedILi", kernel);
  mma.place(name, "8gemm_mmaILi", kernel);
  few_rows.place(name, "13gemm_few_rowsILi", kernel);
  if (name.find("gemm_strided_sum") != std::string_view::npos) sum = kernel;
  if (name.find("gemm_gate") != std::string_view::npos) gate = kernel;
}

GemmModule::GemmModule(const char* image) {
  load_kernels("gemm", "this GPU", image, [this](std::string_view name, Kernel kernel) {
    strided.place(name, kernel);
    if (name.find("gemm_realign") != std::string_view::npos) realign = kernel;
    if (name.find("gemm_k_grouped") != std::string_view::npos) k_grouped.set(kernel);
    variants.place(name, "10cuda_entry4gemmILi", kernel);
    variants.place(name, "10cuda_entry12gemm_clusterILi", kernel);
  });
}

template <class T>
GemmModule& gemm_module() {
  static GemmModule loaded(gemm_image<T>());
  return loaded;
}

namespace {

/// Of each architecture once.
template <class T>
StridedKernels& compiled_strided(const Gpu& on) {
  static std::mutex compiling;
  static std::map<std::string, StridedKernels> compiled;
  const std::string target = architecture(on.compute_major, on.compute_minor);
  const std::lock_guard lock(compiling);
  StridedKernels& from = compiled[target];
  if (from.sum == nullptr)
    load_kernels("gemm", described(on),
                 compile_kernel("gemm", gemm_program(dtype_of<T>), target).cubin.data(),
                 [&](std::string_view name, Kernel kernel) { from.place(name, kernel); });
  return from;
}

}  // namespace

template <class T>
StridedKernels& strided_kernels(const Gpu& on) {
  if (!carries_code_for(on.compute_major, on.compute_minor)) return compiled_strided<T>(on);
  return gemm_module<T>().strided;
}

int asked_gemm_build() {
  static const bool kIsSet = std::getenv("TILEWRIGHT_GEMM_BUILD") != nullptr;
  const char* const asked = kIsSet ? std::getenv("TILEWRIGHT_GEMM_BUILD") : nullptr;
  if (asked == nullptr || *asked == 0) return -1;
  constexpr int kCount = kernels::kGemmShapeCount + kernels::kGemmMmaShapeCount;
  int build = -1;
  const char* const end = asked + std::string_view(asked).size();
  const auto read = std::from_chars(asked, end, build);
  if (read.ptr != end || build < 0 || build >= kCount)
    throw Error(ErrorKind::kInvalidArgument, "TILEWRIGHT_GEMM_BUILD is \"" + printable(asked, 80) +
                                                 "\", but builds are 0 to " +
                                                 std::to_string(kCount - 1));
  return build;
}

template GemmModule& gemm_module<float>();
template GemmModule& gemm_module<f16>();
template GemmModule& gemm_module<bf16>();
template StridedKernels& strided_kernels<float>(const Gpu&);
template StridedKernels& strided_kernels<f16>(const Gpu&);
template StridedKernels& strided_kernels<bf16>(const Gpu&);

}  // namespace tw::runtime::cuda
