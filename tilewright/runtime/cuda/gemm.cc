#include "tilewright/runtime/cuda/gemm.h"

#include <string_view>
#include <type_traits>

#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#include "tilewright/kernels/gemm_variants_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_launch_sm90.h"
#include "tilewright/runtime/cuda/gemm_module.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/stream_memory.h"
#include "tilewright/runtime/cuda/tensor_map.h"
#include "tilewright/runtime/matmul_precision.h"

namespace tw::runtime::cuda {
namespace {

using kernels::GemmBuild;
using kernels::GemmVariant;

/// What a kernel asks for before its turn: the first `most` bytes of each row of a block's part.
template <class T>
kernels::GemmAhead ahead_of(const GemmReading<T>& a, int most) {
  constexpr int64_t kSize = sizeof(T), kLongest = int64_t{1} << 30;  // bytes are counted in 32 bits
  if (most == 0 || a.transposed || a.from.columns * kSize > kLongest) return {};
  return {reinterpret_cast<const char*>(a.from.data),
          a.from.row_stride * kSize,
          a.from.batch > 1 ? a.from.batch_stride * kSize : 0,
          int(a.from.rows),
          int(a.from.columns * kSize),
          most};
}

template <class T, class Epilogue>
void launch_variant(const GemmProblem<T>& p, const GemmVariant& variant, const GemmReading<T>& a,
                    const GemmReading<T>& b, const Epilogue& epilogue, const Gpu& on,
                    Stream stream) {
  const GemmBuild build = variant.build();
  auto arguments = gemm_arguments<Epilogue>("gemm", p, build, a, b);
  arguments.epilogue = epilogue;
  arguments.ahead = ahead_of(a, kernels::kGemmShapes[variant.shape].ahead);
  const Kernel kernel = gemm_module<T>().variants.with_shared_bytes("gemm", size_t(variant.index()),
                                                                    build.shared_bytes(), on);
  launch_gemm_sm90("gemm", kernel, build, arguments, on, stream);
}

template <class T>
View<T, 3> as_batch(const GemmOperand<T>& of) {
  return {
      of.data, {of.batch, of.rows, of.columns}, {of.batch_stride, of.row_stride, of.column_stride}};
}

/// The build for a product: the one that was asked for, if it may have it.
int shape_for(const kernels::GemmSize& size, const Gpu& on) {
  const int asked = asked_gemm_build();
  if (asked >= 0 && asked < kernels::kGemmShapeCount &&
      kernels::gemm_takes(kernels::kGemmShapes[asked], size))
    return asked;
  return kernels::choose_gemm_sm90(size, on.multiprocessors).shape;
}

/// By Hopper's tensor cores.
template <class T>
void launch_warp_specialized(const GemmProblem<T>& p, const Gpu& on, Stream stream) {
  const int shape = shape_for(p.size(), on);
  const bool turned = kernels::kGemmShapes[shape].build.transposed_out;
  GemmReading<T> a(turned ? p.right : p.left, !p.linear);
  GemmReading<T> b(turned ? p.left : p.right, !p.linear && !turned);
  if (a.is_slow() || b.is_slow()) {
    const double us =
        kernels::gemm_time_us(kernels::kGemmShapes[shape], p.size(), on.multiprocessors);
    a.copy_where_quicker(us), b.copy_where_quicker(us);
  }
  const StreamMemory a_copy(a.bytes(), stream, "gemm"), b_copy(b.bytes(), stream, "gemm");
  if (a.copies) a.copy_to(a_copy.data(), gemm_module<T>().realign, on, stream);
  if (b.copies) b.copy_to(b_copy.data(), gemm_module<T>().realign, on, stream);
  if (p.linear) {
    // The functor is part of the kernel; the arguments of all of them are laid out alike.
    const kernels::GemmLinear<T, void> epilogue{p.bias, p.residual, p.m, p.n, p.scales};
    launch_variant(p, GemmVariant::linear(shape, p.activation), a, b, epilogue, on, stream);
  } else {
    const kernels::GemmProduct<T> epilogue{{p.scale.alpha}, p.scale.beta, as_batch(p.addend)};
    launch_variant(p, GemmVariant::plain(shape, a.transposed, b.transposed), a, b, epilogue, on,
                   stream);
  }
}

/// Whether Hopper's tensor cores multiply it by wgmma: float32 only if that may be as tf32. Few
/// rows of it are bound by reading the weight, and what TMA cannot read or write is copied before,
/// or stored by threads: where those for any GPU are quicker, they are taken. strided(): what those
/// are given, asked for only where it counts.
template <class T, class Strided>
bool takes_sm90(const GemmProblem<T>& p, const Gpu& on, const Strided& strided) {
  constexpr bool kIsTf32 = sizeof(T) == kernels::kTf32Bytes;
  if (!supports_hopper(on) || p.k == 0 || !p.fits_sm90()) return false;
  if (kIsTf32 && float32_matmul_precision() == MatmulPrecision::kHighest) return false;
  if (const int asked = asked_gemm_build(); asked >= 0) return asked < kernels::kGemmShapeCount;
  double copying = 0;
  if constexpr (!kIsTf32) {
    const GemmReading<T> a(p.left, !p.linear), b(p.right, !p.linear);
    if (!a.copies && !b.copies && p.out.is_tma_writable()) return true;
    copying = (a.copies ? a.copy_us() : 0) + (b.copies ? b.copy_us() : 0);
  }
  return copying + kernels::choose_gemm_sm90(p.size(), on.multiprocessors).us <
         kernels::choose_gemm_strided<T>(strided_size(strided()), on.multiprocessors).us;
}

/// Which kernels answered, for Context::answered_by.
template <class T>
constexpr std::string_view kSm90 = sizeof(T) == kernels::kTf32Bytes ? "sm_90a_tf32" : "sm_90a";

}  // namespace

template <class T>
std::string_view launch_own(const kernels::Matmul<T>& call, int device, Stream stream) {
  const auto& out = call.out;
  if (out.size(0) == 0 || out.size(1) == 0 || out.size(2) == 0) return kPortable;
  auto p = GemmProblem<T>::product(call.a, call.b, out, call.added());
  p.scale = {call.alpha, call.beta};
  const auto strided = [&] {
    kernels::GemmStridedArguments<T> arguments{};
    arguments.a = {as_rows(p.left), p.left.batch_stride};
    arguments.b = {as_rows(p.right), p.right.batch_stride};
    arguments.out = as_rows(p.out);
    arguments.out_batch = p.out.batch_stride;
    arguments.residual = as_rows(p.addend), arguments.residual_batch = p.addend.batch_stride;
    arguments.batch = p.batch, arguments.k = p.k, arguments.scale = p.scale;
    return arguments;
  };
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  if (takes_sm90(p, on, strided)) {
    launch_warp_specialized(p, on, stream);
    wait_if_asked("matmul", on, stream);
    return kSm90<T>;
  }
  auto arguments = strided();
  launch_strided(arguments, on, stream);
  wait_if_asked("matmul", on, stream);
  return kPortable;
}

template <class T>
std::string_view launch_own(const kernels::Linear<T>& call, int device, Stream stream) {
  if (call.out.rows == 0 || call.out.cols == 0) return kPortable;
  const auto& weight = call.weight;
  const GemmOperand<const T> right = as_operand(weight);
  const bool one_stride = call.x.lead == 1 && call.out.lead == 1 &&
                          (!call.residual || call.residual.lead == 1) &&
                          (!call.row_scale || call.row_scale.lead == 1);
  GemmProblem<T> p;
  p.m = call.out.rows, p.n = call.out.cols, p.k = weight.size(1);
  p.left = as_operand(call.x), p.right = right, p.out = as_operand(call.out);
  p.linear = true, p.bias = call.bias, p.activation = call.activation;
  if (call.residual)
    p.residual = {
        call.residual.data, {p.m, p.n}, {call.residual.lead_strides[0], call.residual.col_stride}};
  p.scales.columns = call.column_scale;
  if (call.row_scale)
    p.scales.rows = {call.row_scale.data, {p.m}, {call.row_scale.lead_strides[0]}};
  p.simplify();
  const auto strided = [&] {
    kernels::GemmStridedArguments<T> arguments{};
    arguments.a = {call.x, 0}, arguments.b = {as_rows(right), 0}, arguments.out = call.out;
    arguments.residual = call.residual, arguments.bias = call.bias;
    arguments.batch = 1, arguments.k = weight.size(1), arguments.scale = {};
    arguments.activation = call.activation;
    arguments.row_scale = call.row_scale, arguments.column_scale = call.column_scale;
    return arguments;
  };
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  if (one_stride && takes_sm90(p, on, strided)) {
    launch_warp_specialized(p, on, stream);
    wait_if_asked("linear", on, stream);
    return kSm90<T>;
  }
  auto arguments = strided();
  launch_strided(arguments, on, stream);
  wait_if_asked("linear", on, stream);
  return kPortable;
}

template <class T>
Kernel gate_kernel(const Gpu& on) {
  return strided_kernels<T>(on).gate;
}

template <class T>
KGroupedKernels k_grouped_kernels(const Gpu& on) {
  GemmModule& from = gemm_module<T>();
  return {from.k_grouped.with_shared_bytes("k_grouped_matmul",
                                           kernels::kGemmKGrouped.shared_bytes(), on),
          from.realign};
}

template KGroupedKernels k_grouped_kernels<f16>(const Gpu&);
template KGroupedKernels k_grouped_kernels<bf16>(const Gpu&);
template Kernel gate_kernel<float>(const Gpu&);
template Kernel gate_kernel<f16>(const Gpu&);
template Kernel gate_kernel<bf16>(const Gpu&);
template std::string_view launch_own(const kernels::Matmul<float>&, int, Stream);
template std::string_view launch_own(const kernels::Matmul<f16>&, int, Stream);
template std::string_view launch_own(const kernels::Matmul<bf16>&, int, Stream);
template std::string_view launch_own(const kernels::Linear<float>&, int, Stream);
template std::string_view launch_own(const kernels::Linear<f16>&, int, Stream);
template std::string_view launch_own(const kernels::Linear<bf16>&, int, Stream);

}  // namespace tw::runtime::cuda
