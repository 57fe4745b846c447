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

template <class K>
constexpr bool kIsGated = requires(K call) { call.activation; };
template <class K>
constexpr bool kIsScattered = requires(K call) { call.to_rows; };
template <class K>
constexpr const char* kName = kIsGated<K>       ? "grouped_gated_matmul"
                              : kIsScattered<K> ? "grouped_matmul_unpermute"
                                                : "grouped_matmul";

/// The functions of one element type: weights with k, and with n along memory; then gated; then
/// gathered; then into other rows of out.
struct GroupedModule {
  KernelBuilds<10> builds;

  explicit GroupedModule(const char* image) {
    load_kernels("grouped_matmul", "this GPU", image, [this](std::string_view name, Kernel kernel) {
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
GemmOperand<const T> weight_of(const View<const T, 3>& b) {
  return {b.data, b.size(2), b.size(1), b.stride(2), b.stride(1), b.stride(0), b.size(0)};
}

/// How far apart rows of a lie, in the 16 bytes that are copied at once.
template <class T>
int64_t row_chunks(const View<const T, 2>& a) {
  return a.stride(0) * int64_t{sizeof(T)} / 16;
}

template <class K>
View<const int32_t, 1> numbers_of(const K& call) {
  if constexpr (kIsGated<K>) return call.rows;
  return {};
}

/// `scattered`: rows of out are none of TMA's.
template <class T>
Support supports(const View<const T, 2>& a, const View<const T, 3>& b, const View<T, 2>& to,
                 bool scattered, int device) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 512;  // coordinates reach a tile beyond
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  const GemmOperand<const T> rows = as_operand(a), weight = weight_of(b);
  const GemmOperand<T> out = as_operand(to);
  if (rows.rows == 0 || out.rows == 0 || rows.columns == 0 || out.columns == 0 || weight.batch == 0)
    return Support::no("an empty operand");
  if (rows.rows > kMost || out.rows > kMost || rows.columns > kMost || weight.rows > kMost ||
      weight.batch > kMost)
    return Support::no("a size beyond 2^31");
  if (!rows.is_tma_legal() || !(scattered ? out.is_tma_legal() : out.is_tma_writable()))
    return Support::no(
        "rows of a or out that start, or of out that end, at no multiple of 16 bytes");
  if (!weight.is_tma_legal() && !weight.transposed().is_tma_legal())
    return Support::no("rows of b that start at no multiple of 16 bytes");
  return Support::yes();
}

template <class K, class T>
kernels::GroupedGemmArguments<T> arguments_of(const K& call, const GemmOperand<const T>& weight,
                                              bool along_n, const View<const T, 1>& bias) {
  constexpr int kTileK = 128 / int(sizeof(T));
  constexpr int kColumns = kIsGated<K> ? Build::kGatedColumns : Build::kColumns;
  kernels::GroupedGemmArguments<T> out{};
  out.weight = along_n ? operand_map(kName<K>, weight.transposed(), kTileK)
                       : operand_map(kName<K>, weight, kColumns);
  out.a = operand_map(kName<K>, as_operand(call.a), Build::kRowBox);
  if constexpr (kIsScattered<K>)
    out.scattered = call.scattered();
  else
    out.out = operand_map(kName<K>, as_operand(call.out), Build::kUnit);
  out.groups = call.groups();
  out.rows = call.out;
  out.column_tiles = int((call.out.size(1) + kColumns - 1) / kColumns);
  out.k_blocks = int((weight.columns + kTileK - 1) / kTileK);
  if constexpr (kIsGated<K>) out.activation = call.activation;
  out.bias = bias;
  out.gathered = {numbers_of(call), call.a.data, uint32_t(row_chunks(call.a)), int(call.a.size(0)),
                  int(call.a.size(1))};
  return out;
}

template <class K, class T>
void launch(const K& call, const GemmOperand<const T>& weight, int device, Stream stream,
            const View<const T, 1>& bias = {}) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  const bool along_n = !weight.is_tma_legal();
  auto arguments = arguments_of(call, weight, along_n, bias);
  const size_t build = size_t(along_n) + 2 * size_t(kIsGated<K>) +
                       4 * size_t(bool(numbers_of(call))) + 8 * size_t(kIsScattered<K>);
  const Kernel kernel =
      module<T>().builds.with_shared_bytes(kName<K>, build, Build::kSharedBytes, on);
  void* pointers[] = {&arguments};
  const int64_t m = kIsScattered<K> ? call.a.size(0) : call.out.size(0);
  const bool few_rows = m <= Build::kUnit * call.b.size(0);
  check(launch_kernel(few_rows ? Start::kEarly : Start::kInOrder, kernel, on,
                      unsigned(on.multiprocessors), unsigned(Build::kThreads), 1,
                      unsigned(Build::kSharedBytes), stream, pointers),
        std::string(kName<K>) + ": launching");
  wait_if_asked(kName<K>, on, stream);
}

template <class T>
View<T, 2> as_view(const Rows<T>& rows) {
  return {rows.data, {rows.rows, rows.cols}, {rows.lead_strides[0], rows.col_stride}};
}

template <class K>
const K& product_of(const K& call) {
  return call;
}
/// A gated layer as a product of one group, which has no offsets.
template <class T>
kernels::GroupedGatedMatmul<T> product_of(const kernels::GatedLinear<T>& call) {
  const View<const T, 2>& w = call.weight;
  return {as_view(call.x),
          {w.data, {1, w.size(1), w.size(0)}, {0, w.stride(1), w.stride(0)}},
          {},
          {},
          {},
          call.activation,
          as_view(call.out)};
}

}  // namespace

template <GroupedProduct K>
Support supports_sm90(const K& call, int device) {
  if constexpr (requires { call.bias; })
    if (call.x.lead > 1 || call.out.lead > 1) return Support::no("rows of several strides");
  const auto& product = product_of(call);
  constexpr int64_t kMostChunks = int64_t{1} << 32;
  if (numbers_of(product) &&
      row_chunks(product.a) > kMostChunks / std::max<int64_t>(product.a.size(0), 1))
    return Support::no("rows of a, to be gathered, that span more than 64 GiB");
  return supports(product.a, product.b, product.out, kIsScattered<K>, device);
}

template <GroupedProduct K>
void launch_sm90(const K& call, int device, Stream stream) {
  const auto& product = product_of(call);
  if constexpr (requires { call.bias; })
    launch(product, weight_of(product.b), device, stream, call.bias);
  else
    launch(product, weight_of(product.b), device, stream);
}

#define TW_INSTANTIATE(K)                        \
  template Support supports_sm90(const K&, int); \
  template void launch_sm90(const K&, int, Stream);
TW_INSTANTIATE(kernels::GroupedMatmul<f16>)
TW_INSTANTIATE(kernels::GroupedMatmul<bf16>)
TW_INSTANTIATE(kernels::GroupedGatedMatmul<f16>)
TW_INSTANTIATE(kernels::GroupedGatedMatmul<bf16>)
TW_INSTANTIATE(kernels::GroupedMatmulUnpermute<f16>)
TW_INSTANTIATE(kernels::GroupedMatmulUnpermute<bf16>)
TW_INSTANTIATE(kernels::GatedLinear<f16>)
TW_INSTANTIATE(kernels::GatedLinear<bf16>)
#undef TW_INSTANTIATE

}  // namespace tw::runtime::cuda
