#include "tilewright/runtime/cuda/gemm_grouped.h"

#include <array>
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

/// The functions of one element type: weights with k, and with n along memory.
struct GroupedModule {
  std::array<Kernel, 2> builds{};
  PreparedOnce<2> prepared;

  explicit GroupedModule(const char* image) {
    load_kernels("grouped_matmul", "this GPU", image,
                 [this](std::string_view name, Kernel kernel) {  // gemm_grouped_kernels.cu
                   const int build = number_after(name, "10cuda_entry12gemm_groupedILi");
                   if (build >= 0) builds.at(size_t(build)) = kernel;
                 });
  }
};

template <class T>
GroupedModule& module() {
  static GroupedModule loaded(gemm_grouped_image<T>());
  return loaded;
}

template <class T>
GemmOperand<const T> rows_of(const kernels::GroupedMatmul<T>& call) {
  return {call.a.data, call.a.size(0), call.a.size(1), call.a.stride(0), call.a.stride(1), 0, 1};
}
template <class T>
GemmOperand<T> out_of(const kernels::GroupedMatmul<T>& call) {
  return {call.out.data,
          call.out.size(0),
          call.out.size(1),
          call.out.stride(0),
          call.out.stride(1),
          0,
          1};
}
/// [group, n, k]
template <class T>
GemmOperand<const T> weight_of(const kernels::GroupedMatmul<T>& call) {
  const auto& b = call.b;
  return {b.data, b.size(2), b.size(1), b.stride(2), b.stride(1), b.stride(0), b.size(0)};
}

/// Boxes of so many rows of 128 bytes.
template <class T>
tile::cuda::TensorMap map_of(const GemmOperand<T>& of, int box_rows) {
  return encode_tensor_map<std::remove_const_t<T>, 3>(
      "grouped_matmul", of.data, {of.columns, of.rows, of.batch}, {of.row_stride, of.batch_stride},
      {uint32_t(128 / sizeof(T)), uint32_t(box_rows), 1});
}

}  // namespace

template <class T>
  requires(sizeof(T) == 2)
Support supports_sm90(const kernels::GroupedMatmul<T>& call, int device) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const GemmOperand<const T> rows = rows_of(call), weight = weight_of(call);
  const GemmOperand<T> out = out_of(call);
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
  arguments.weight =
      along_n ? map_of(weight.transposed(), kTileK) : map_of(weight, Build::kColumns);
  arguments.a = map_of(rows_of(call), Build::kRowBox);
  arguments.out = map_of(out_of(call), Build::kUnit);
  arguments.groups = call.groups();
  arguments.rows = call.out;
  arguments.column_tiles = int((weight.rows + Build::kColumns - 1) / Build::kColumns);
  arguments.k_blocks = int((weight.columns + kTileK - 1) / kTileK);

  GroupedModule& from = module<T>();
  const auto index = size_t(along_n);
  from.prepared(index, on, [&] {
    allow_shared_bytes("grouped_matmul", from.builds[index], Build::kSharedBytes, on);
  });
  void* pointers[] = {&arguments};
  check(launch_overlapped(from.builds[index], on, unsigned(on.multiprocessors),
                          unsigned(Build::kThreads), 1, unsigned(Build::kSharedBytes), stream,
                          pointers),
        "grouped_matmul: launching");
  wait_if_asked("grouped_matmul", on, stream);
}

#define TW_INSTANTIATE(T)                                                \
  template Support supports_sm90(const kernels::GroupedMatmul<T>&, int); \
  template void launch_sm90(const kernels::GroupedMatmul<T>&, int, Stream);
TW_INSTANTIATE(f16)
TW_INSTANTIATE(bf16)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
