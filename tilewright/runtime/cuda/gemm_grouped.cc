#include "tilewright/runtime/cuda/gemm_grouped.h"

#include <string_view>

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_grouped_image.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/tensor_map.h"

namespace tw::runtime::cuda {
namespace {

using Build = kernels::GroupedGemmBuild;

constexpr const char* kName = "grouped_matmul";

/// The functions of one element type: weights with k, and with n along memory.
struct GroupedModule {
  KernelBuilds<2> builds;

  explicit GroupedModule(const char* image) {
    load_kernels(kName, "this GPU", image, [this](std::string_view name, Kernel kernel) {
      builds.place(name, "10cuda_entry12gemm_groupedILi", kernel);  // gemm_grouped_kernels.cu
    });
  }
};

template <class T>
GroupedModule& module() {
  static GroupedModule loaded(gemm_grouped_image<T>());
  return loaded;
}

/// [group, n, k]
template <class T>
GemmOperand<const T> weight_of(const kernels::GroupedMatmul<T>& call) {
  const auto& b = call.b;
  return {b.data, b.size(2), b.size(1), b.stride(2), b.stride(1), b.stride(0), b.size(0)};
}

}  // namespace

template <class T>
  requires(sizeof(T) == 2)
Support supports_sm90(const kernels::GroupedMatmul<T>& call, int device) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const GemmOperand<const T> rows = as_operand(call.a), weight = weight_of(call);
  const GemmOperand<T> out = as_operand(call.out);
  if (rows.rows == 0 || rows.columns == 0 || out.columns == 0 || weight.batch == 0)
    return Support::no("an empty operand");
  if (rows.rows > kMost || rows.columns > kMost || out.columns > kMost || weight.batch > kMost)
    return Support::no("a size beyond 2^31");
  if (!rows.is_tma_legal() || !out.is_tma_writable())
    return Support::no(
        "rows of a or out that start, or of out that end, at no multiple of 16 bytes");
  if (!weight.is_tma_legal() && !weight.transposed().is_tma_legal())
    return Support::no("rows of b that start at no multiple of 16 bytes");
  return Support::yes();
}

template <class T>
  requires(sizeof(T) == 2)
void launch_sm90(const kernels::GroupedMatmul<T>& call, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  constexpr int kTileK = 128 / int(sizeof(T));
  const GemmOperand<const T> weight = weight_of(call);
  const bool along_n = !weight.is_tma_legal();
  kernels::GroupedGemmArguments<T> arguments;
  arguments.weight = along_n ? operand_map(kName, weight.transposed(), kTileK)
                             : operand_map(kName, weight, Build::kColumns);
  arguments.a = operand_map(kName, as_operand(call.a), Build::kRowBox);
  arguments.out = operand_map(kName, as_operand(call.out), Build::kUnit);
  arguments.groups = call.groups();
  arguments.rows = call.out;
  arguments.column_tiles = int((weight.rows + Build::kColumns - 1) / Build::kColumns);
  arguments.k_blocks = int((weight.columns + kTileK - 1) / kTileK);

  const Kernel kernel =
      module<T>().builds.with_shared_bytes(kName, size_t(along_n), Build::kSharedBytes, on);
  void* pointers[] = {&arguments};
  check(launch_overlapped(kernel, on, unsigned(on.multiprocessors), unsigned(Build::kThreads), 1,
                          unsigned(Build::kSharedBytes), stream, pointers),
        "grouped_matmul: launching");
  wait_if_asked(kName, on, stream);
}

#define TW_INSTANTIATE(T)                                                \
  template Support supports_sm90(const kernels::GroupedMatmul<T>&, int); \
  template void launch_sm90(const kernels::GroupedMatmul<T>&, int, Stream);
TW_INSTANTIATE(f16)
TW_INSTANTIATE(bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
