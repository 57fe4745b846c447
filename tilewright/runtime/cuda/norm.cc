#include "tilewright/runtime/cuda/norm.h"

#include <algorithm>
#include <string_view>

#include "tilewright/kernels/norm_build_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/norm_image.h"
#include "tilewright/runtime/cuda/stream_memory.h"

namespace tw::runtime::cuda {
namespace {

using kernels::kNormFunctions;
using kernels::NormArguments;
using kernels::NormFewBuild;
using kernels::NormKind;
using kernels::NormRowsArguments;
using kernels::NormRowsBuild;
using kernels::NormRowsShape;
using kernels::NormShortBuild;
using Build = kernels::NormBuild;

/// The functions of one element type, found when the first of them is launched.
struct NormModule {
  KernelBuilds<size_t{kNormFunctions}> functions;
  KernelBuilds<size_t{kernels::kNormRowsFunctions}> rows;
  KernelBuilds<size_t{kernels::kNormColumnFunctions}> few_columns;
  KernelBuilds<size_t{NormShortBuild::kFunctions}> short_rows;
  Kernel fold = nullptr;

  explicit NormModule(const char* image) {
    load_kernels("norm", "this GPU", image, [this](std::string_view name, Kernel kernel) {
      functions.place(name, "10cuda_entry4normILi", kernel);  // norm_kernels.cu
      rows.place(name, "10cuda_entry8few_normILi", kernel);
      rows.place(name, "10cuda_entry9many_normILi", kernel);
      short_rows.place(name, "10cuda_entry10short_normILi", kernel);
      few_columns.place(name, "10cuda_entry16few_norm_columnsILi", kernel);
      if (name.find("norm_fold") != name.npos) fold = kernel;
    });
  }
};

template <class T>
NormModule& module() {
  static NormModule loaded(norm_image<T>());
  return loaded;
}

/// What they have in common.
template <class T>
struct NormProblem {
  const char* name;
  NormKind kind;
  Rows<const T> inputs[2];
  Rows<const T> residual_grad;  // or the bias, a row for all
  View<const T, 1> weight;
  Rows<T> outs[2];
  View<T, 1> sums[2];  // outputs of the kernel's sums
  float eps = 0;

  explicit NormProblem(const kernels::RmsNormBackward<T>& call)
      : name("rms_norm_backward"),
        kind(NormKind::kRmsBackward),
        inputs{call.x, call.grad},
        residual_grad(call.residual_grad),
        weight(call.weight),
        outs{call.x_grad, {}},
        sums{call.weight_grad, {}},
        eps(call.eps) {}
  explicit NormProblem(const kernels::LayerNormBackward<T>& call)
      : name("layer_norm_backward"),
        kind(NormKind::kLayerBackward),
        inputs{call.x, call.grad},
        weight(call.weight),
        outs{call.x_grad, {}},
        sums{call.weight_grad, call.bias_grad},
        eps(call.eps) {}
  explicit NormProblem(const kernels::FusedAddRmsNorm<T>& call)
      : name("fused_add_rms_norm"),
        kind(NormKind::kFusedAddRms),
        inputs{call.x, call.residual},
        weight(call.weight),
        outs{call.out, call.residual_out},
        eps(call.eps) {}
  explicit NormProblem(const kernels::RmsNorm<T>& call)
      : name("rms_norm"),
        kind(NormKind::kRms),
        inputs{call.x, {}},
        weight(call.weight),
        outs{call.out, {}},
        eps(call.eps) {}
  explicit NormProblem(const kernels::LayerNorm<T>& call)
      : name("layer_norm"),
        kind(NormKind::kLayer),
        inputs{call.x, {}},
        weight(call.weight),
        outs{call.out, {}},
        eps(call.eps) {
    residual_grad.data = call.bias.data;
    residual_grad.rows = 1, residual_grad.cols = call.bias.size(0);
    residual_grad.col_stride = call.bias.stride(0);
  }

  explicit NormProblem(const kernels::Softmax<T>& call)
      : name("softmax"), kind(NormKind::kSoftmax), inputs{call.x, {}}, outs{call.out, {}} {}
  explicit NormProblem(const kernels::LogSoftmax<T>& call)
      : name("log_softmax"), kind(NormKind::kLogSoftmax), inputs{call.x, {}}, outs{call.out, {}} {}
  explicit NormProblem(const kernels::SoftmaxBackward<T>& call)
      : NormProblem("softmax_backward", NormKind::kSoftmaxBackward, call) {}
  explicit NormProblem(const kernels::LogSoftmaxBackward<T>& call)
      : NormProblem("log_softmax_backward", NormKind::kLogSoftmaxBackward, call) {}

  const Rows<const T>& x() const { return inputs[0]; }

 private:
  template <class F>
  NormProblem(const char* op, NormKind of, const kernels::SoftmaxGradient<T, F>& call)
      : name(op), kind(of), inputs{call.grad, call.output}, outs{call.x_grad, {}} {}
};

bool in_words(const void* data, int64_t stride_bytes) {
  return reinterpret_cast<uintptr_t>(data) % Build::kSpanBytes == 0 &&
         stride_bytes % Build::kSpanBytes == 0;
}
/// How many clusters of `ranks` blocks run at once. Larger ones than pairs leave multiprocessors
/// out, as not every part of the GPU has a multiple of them.
int clusters_at_once(int multiprocessors, int ranks) {
  constexpr int kOfPart = 16;
  if (ranks <= 2) return multiprocessors / ranks;
  return std::max(1, multiprocessors / kOfPart * kOfPart / ranks);
}

/// Rows that bulk copies take, or none.
template <class T>
bool in_words(const Rows<T>& rows) {
  if (!rows) return true;
  bool all = rows.cols == 1 || rows.col_stride == 1;
  for (int d = 0; d < rows.lead; ++d) {
    const int64_t stride = rows.rows > 1 ? rows.lead_strides[d] : 0;
    all &= in_words(rows.data, stride * int64_t{sizeof(T)});
  }
  return all;
}

template <class T>
int64_t row_bytes(const NormProblem<T>& p) {
  return p.x().cols * int64_t{sizeof(T)};
}

/// f(rows) of all operands that have them.
template <class T, class F>
void for_operands(const NormProblem<T>& p, F f) {
  for (const auto& rows : p.inputs) f(rows);
  for (const auto& rows : p.outs) f(rows);
  f(p.residual_grad);
}

/// The rows that lie one stride apart in every operand, and so do those blocks of rows: all of
/// them, heads of a token; or 0.
template <class T>
int64_t inner_rows(const NormProblem<T>& p) {
  int64_t inner = p.x().rows;
  for_operands(p, [&](const auto& rows) {
    if (!rows || rows.lead <= 1) return;
    const bool is_other = inner != p.x().rows && inner != rows.lead_sizes[1];
    inner = rows.lead > 2 || is_other ? 0 : rows.lead_sizes[1];
  });
  return inner;
}

template <class T>
Support supports_layout(const NormProblem<T>& p) {
  bool is_in_words = row_bytes(p) % Build::kSpanBytes == 0;
  for_operands(p, [&](const auto& rows) { is_in_words &= in_words(rows); });
  if (!is_in_words) return Support::no("rows that start or end at no multiple of 16 bytes");
  if (p.weight && (p.weight.stride(0) != 1 || !in_words(p.weight.data, 0)))
    return Support::no("a weight with gaps or that starts at no multiple of 16 bytes");
  return Support::yes();
}

/// Of a row, which a warp has for itself. Shorter ones are shared by fewer lanes.
constexpr int64_t kLeastBytes = NormShortBuild::kMostBytes;

/// How a block holds a row, of what all kernels take.
template <class T>
NormRowsShape rows_shape(const NormProblem<T>& p) {
  const auto takes = [](const View<T, 1>& sum) {
    return !sum || (sum.stride(0) == 1 && in_words(sum.data, 0));
  };
  if (!takes(p.sums[0]) || !takes(p.sums[1])) return {};
  return kernels::choose_norm_rows(p.kind, p.x().rows, row_bytes(p) / Build::kSpanBytes);
}

/// Whether the kernels of many short rows take it, of what all of them take.
template <class T>
bool is_short(const NormProblem<T>& p) {
  return kernels::norm_has_sums(p.kind) && p.x().rows > NormShortBuild::kFewRows &&
         row_bytes(p) < kLeastBytes;
}

template <class T>
Support supports(const NormProblem<T>& p, int device) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t bytes = row_bytes(p);
  if (Support s = supports_hopper(gpu(device)); !s) return s;
  if (p.x().rows == 0 || p.x().cols == 0) return Support::no("an empty operand");
  if (Support s = supports_layout(p); !s) return s;
  if (const int64_t inner = inner_rows(p); inner == 0 || (inner < p.x().rows && !is_short(p)))
    return Support::no("leading dimensions that no one stride describes");
  if (bytes < kLeastBytes && !is_short(p)) return Support::no("rows of less than 1 KiB");
  if (p.x().rows > kMost) return Support::no("more than 2^30 rows");
  if (is_short(p) || rows_shape(p).warps > 0) return Support::yes();
  if (!kernels::norm_has_sums(p.kind)) return Support::no("rows that a block does not hold");
  if (bytes > int64_t{Build::kRanks} * Build::kRowBytes)
    return Support::no("rows that four blocks do not hold");
  return Support::yes();
}

template <class T>
NormArguments<T> arguments_of(const NormProblem<T>& p) {
  NormArguments<T> to{};
  for (size_t i = 0; i < 2; ++i) {
    to.inputs[i] = p.inputs[i].data, to.input_strides[i] = p.inputs[i].lead_strides[0];
    to.outs[i] = p.outs[i].data, to.out_strides[i] = p.outs[i].lead_strides[0];
    to.place[i] = p.sums[i] ? to.sums++ : -1;
  }
  to.weight = p.weight.data;
  to.residual_grad = p.residual_grad.data, to.residual_stride = p.residual_grad.lead_strides[0];
  to.rows = int(p.x().rows), to.cols = int(p.x().cols);
  to.eps = p.eps;
  to.shape = kernels::choose_norm_sm90(p.x().cols, int64_t{sizeof(T)});
  return to;
}

/// Adds up what the clusters left.
template <class T>
void fold(const NormProblem<T>& p, const NormArguments<T>& of, int clusters, const Gpu& on,
          Stream stream) {
  using Fold = kernels::NormFoldArguments<T>;
  Fold to{of.partials, clusters, of.cols, of.sums, {}};
  for (size_t i = 0; i < 2; ++i)
    if (of.place[i] >= 0) to.outs[of.place[i]] = p.sums[i];
  const int blocks = (of.cols + Fold::kColumns - 1) / Fold::kColumns * of.sums;
  void* pointers[] = {&to};
  check(launch_kernel(Start::kEarly, module<T>().fold, on, unsigned(blocks), Fold::kThreads, 1, 0,
                      stream, pointers),
        p.name, ": launching");
}

template <class T>
void launch_rows(const NormProblem<T>& p, const NormRowsShape& shape, const Gpu& on,
                 Stream stream) {
  NormRowsArguments<T> arguments{arguments_of(p), {p.sums[0].data, p.sums[1].data}, nullptr};
  const bool is_apart = arguments.sums > 0 && arguments.rows > 1;
  const StreamMemory factors(is_apart ? arguments.rows * NormFewBuild::kFactorBytes : 0, stream,
                             p.name);
  arguments.factors = factors.data();
  const auto start = [&](Kernel kernel, int blocks, int threads, int rows, int shared_bytes) {
    void* pointers[] = {&arguments};
    check(launch_kernel(Start::kEarly, kernel, on, unsigned(blocks), unsigned(threads),
                        unsigned(rows), unsigned(shared_bytes), stream, pointers),
          p.name, ": launching");
  };
  const auto index = size_t(kernels::norm_rows_function(p.kind, shape.way));
  const int most = NormRowsBuild::shared_bytes(shape.way, p.kind, Build::kWarps);
  auto& builds = module<T>().rows;
  start(most > 0 ? builds.with_shared_bytes(p.name, index, most, on) : builds[index],
        (arguments.rows + shape.rows - 1) / shape.rows, 32 * shape.warps, shape.rows,
        NormRowsBuild::shared_bytes(shape.way, p.kind, shape.warps));
  if (!is_apart) return;
  constexpr int kBytes = NormFewBuild::kAcross * Build::kSpanBytes;
  start(module<T>().few_columns[size_t(p.kind)], int((row_bytes(p) + kBytes - 1) / kBytes),
        NormFewBuild::kColumnThreads, 1, 0);
}

template <class T>
void launch_ring(const NormProblem<T>& p, const Gpu& on, Stream stream) {
  NormArguments<T> arguments = arguments_of(p);
  const kernels::NormShape& shape = arguments.shape;
  const int clusters = std::min(clusters_at_once(on.multiprocessors, shape.ranks), arguments.rows);
  const StreamMemory partials(
      int64_t{clusters} * arguments.sums * arguments.cols * int64_t{sizeof(float)}, stream, p.name);
  arguments.partials = static_cast<float*>(partials.data());
  const auto index = size_t(kernels::norm_function(p.kind, shape.ranks > 1));
  const Kernel kernel =
      module<T>().functions.with_shared_bytes(p.name, index, Build::kSharedBytes, on);
  void* pointers[] = {&arguments};
  check(launch_kernel(Start::kEarly, kernel, on, unsigned(clusters * shape.ranks),
                      unsigned(32 * shape.warps * shape.groups), 1, Build::kSharedBytes, stream,
                      pointers, unsigned(shape.ranks)),
        p.name, ": launching");
  if (arguments.sums > 0) fold(p, arguments, clusters, on, stream);
}

template <class T>
void launch_short(const NormProblem<T>& p, const Gpu& on, Stream stream) {
  constexpr int kWarps = NormShortBuild::kThreads / 32;
  kernels::NormShortArguments<T> arguments{arguments_of(p), int(inner_rows(p)), {}, 0, 0};
  const auto strides = [&](const auto& rows, int64_t& inner, int64_t& outer) {
    inner = rows.lead_strides[rows.lead > 1 ? 1 : 0];
    outer = rows.lead > 1 ? rows.lead_strides[0] : inner * arguments.inner;
  };
  for (size_t i = 0; i < 2; ++i)
    strides(p.inputs[i], arguments.input_strides[i], arguments.outer_inputs[i]);
  strides(p.residual_grad, arguments.residual_stride, arguments.outer_residual);
  strides(p.outs[0], arguments.out_strides[0], arguments.outer_out);
  const int blocks = std::min(on.multiprocessors * NormShortBuild::kResident,
                              (arguments.rows + kWarps - 1) / kWarps);
  const StreamMemory partials(
      int64_t{blocks} * arguments.sums * arguments.cols * int64_t{sizeof(float)}, stream, p.name);
  arguments.partials = static_cast<float*>(partials.data());
  const int index = NormShortBuild::function(p.kind, row_bytes(p));
  void* pointers[] = {&arguments};
  check(launch_kernel(Start::kEarly, module<T>().short_rows[size_t(index)], on, unsigned(blocks),
                      NormShortBuild::kThreads, 1, 0, stream, pointers),
        p.name, ": launching");
  if (arguments.sums > 0) fold(p, arguments, blocks, on, stream);
}

template <class T>
void launch(const NormProblem<T>& p, int device, Stream stream) {
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  if (is_short(p))
    launch_short(p, on, stream);
  else if (const NormRowsShape shape = rows_shape(p); shape.warps > 0)
    launch_rows(p, shape, on, stream);
  else
    launch_ring(p, on, stream);
  wait_if_asked(p.name, on, stream);
}

}  // namespace

template <class K>
  requires kHasNormSm90<K>
Support supports_sm90(const K& call, int device) {
  return supports(NormProblem(call), device);
}

template <class K>
  requires kHasNormSm90<K>
void launch_sm90(const K& call, int device, Stream stream) {
  launch(NormProblem(call), device, stream);
}

#define TW_INSTANTIATE_OF(K, T)                              \
  template Support supports_sm90(const kernels::K<T>&, int); \
  template void launch_sm90(const kernels::K<T>&, int, Stream);
#define TW_INSTANTIATE(K)     \
  TW_INSTANTIATE_OF(K, float) \
  TW_INSTANTIATE_OF(K, f16)   \
  TW_INSTANTIATE_OF(K, bf16)
TW_INSTANTIATE(RmsNormBackward)
TW_INSTANTIATE(LayerNormBackward)
TW_INSTANTIATE(FusedAddRmsNorm)
TW_INSTANTIATE(RmsNorm)
TW_INSTANTIATE(LayerNorm)
TW_INSTANTIATE(Softmax)
TW_INSTANTIATE(LogSoftmax)
TW_INSTANTIATE(SoftmaxBackward)
TW_INSTANTIATE(LogSoftmaxBackward)
#undef TW_INSTANTIATE
#undef TW_INSTANTIATE_OF

}  // namespace tw::runtime::cuda
