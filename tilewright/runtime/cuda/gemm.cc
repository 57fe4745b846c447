#include "tilewright/runtime/cuda/gemm.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/kernels/gemm_epilogue.h"
#include "tilewright/kernels/gemm_few_rows.h"
#include "tilewright/kernels/gemm_strided_policy.h"
#include "tilewright/kernels/gemm_variants_sm90.h"
#include "tilewright/runtime/cuda/device.h"
#include "tilewright/runtime/cuda/gemm_image.h"
#include "tilewright/runtime/cuda/gemm_launch_sm90.h"
#include "tilewright/runtime/cuda/gemm_problem.h"
#include "tilewright/runtime/cuda/gemm_reading.h"
#include "tilewright/runtime/cuda/jit.h"
#include "tilewright/runtime/cuda/kernel_image.h"
#include "tilewright/runtime/cuda/launch.h"
#include "tilewright/runtime/cuda/stream_memory.h"
#include "tilewright/runtime/cuda/tensor_map.h"
#include "tilewright/runtime/matmul_precision.h"

namespace tw::runtime::cuda {
namespace {

using kernels::GemmBuild;
using kernels::GemmFewRowsBuild;
using kernels::GemmStridedBuild;
using kernels::GemmVariant;

/// The functions for any GPU.
struct StridedKernels {
  KernelBuilds<kernels::kGemmStridedShapeCount> shapes;
  KernelBuilds<GemmFewRowsBuild::kCount> few_rows;
  Kernel sum = nullptr, gate = nullptr;

  /// By the mangled name (gemm_kernels.cu).
  void place(std::string_view name, Kernel kernel) {
    shapes.place(name, "12gemm_stridedILi", kernel);
    few_rows.place(name, "13gemm_few_rowsILi", kernel);
    if (name.find("gemm_strided_sum") != std::string_view::npos) sum = kernel;
    if (name.find("gemm_gate") != std::string_view::npos) gate = kernel;
  }
};

/// The functions of one element type, found when the first of them is launched.
struct GemmModule {
  Kernel realign = nullptr;
  LargeKernel k_grouped;
  StridedKernels strided;
  KernelBuilds<GemmVariant::kCount> variants;

  explicit GemmModule(const char* image) {
    load_kernels("gemm", "this GPU", image,
                 [this](std::string_view name, Kernel kernel) { place(name, kernel); });
  }

 private:
  /// By the mangled name (gemm_kernels.cu).
  void place(std::string_view name, Kernel kernel) {
    strided.place(name, kernel);
    if (name.find("gemm_realign") != std::string_view::npos) realign = kernel;
    if (name.find("gemm_k_grouped") != std::string_view::npos) k_grouped.set(kernel);
    variants.place(name, "10cuda_entry4gemmILi", kernel);
    variants.place(name, "10cuda_entry12gemm_clusterILi", kernel);
  }
};

template <class T>
GemmModule& module() {
  static GemmModule loaded(gemm_image<T>());
  return loaded;
}

/// The kernels for any GPU, where the image has no code for this one; of each architecture once.
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

template <class T>
StridedKernels& strided(const Gpu& on) {
  if (!carries_code_for(on.compute_major, on.compute_minor)) return compiled_strided<T>(on);
  return module<T>().strided;
}

constexpr int64_t kMostY = 65535;

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
  const Kernel kernel = module<T>().variants.with_shared_bytes("gemm", size_t(variant.index()),
                                                               build.shared_bytes(), on);
  launch_gemm_sm90("gemm", kernel, build, arguments, on, stream);
}

template <class T>
View<T, 3> as_batch(const GemmOperand<T>& of) {
  return {
      of.data, {of.batch, of.rows, of.columns}, {of.batch_stride, of.row_stride, of.column_stride}};
}

/// The build for a product; that of TILEWRIGHT_GEMM_BUILD, if it may have it, so that builds can be
/// measured beside each other (benchmarks/gpu/gemm_builds.py). Looked at again for each product
/// only where it is set, if to nothing, at the first.
int shape_for(const kernels::GemmSize& size, const Gpu& on) {
  static const bool kIsSet = std::getenv("TILEWRIGHT_GEMM_BUILD") != nullptr;
  const char* const asked = kIsSet ? std::getenv("TILEWRIGHT_GEMM_BUILD") : nullptr;
  if (asked != nullptr && *asked != 0) {
    int shape = -1;
    const char* const end = asked + std::string_view(asked).size();
    const auto read = std::from_chars(asked, end, shape);
    if (read.ptr != end || shape < 0 || shape >= kernels::kGemmShapeCount)
      throw Error(ErrorKind::kInvalidArgument,
                  "TILEWRIGHT_GEMM_BUILD is \"" + printable(asked, 80) +
                      "\", but builds are 0 to " + std::to_string(kernels::kGemmShapeCount - 1));
    if (kernels::gemm_takes(kernels::kGemmShapes[shape], size)) return shape;
  }
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
  if (a.copies) a.copy_to(a_copy.data(), module<T>().realign, on, stream);
  if (b.copies) b.copy_to(b_copy.data(), module<T>().realign, on, stream);
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

/// Float32 of few rows; false where it is not.
bool launch_few_rows(kernels::GemmStridedArguments<float>& arguments, const Gpu& on,
                     Stream stream) {
  const int build = GemmFewRowsBuild::choose(arguments, on.multiprocessors);
  if (build < 0) return false;
  void* pointers[] = {&arguments};
  launch_gemm(strided<float>(on).few_rows[size_t(build)],
              {gemm_blocks(arguments.out.cols, GemmFewRowsBuild::kColumns),
               std::min(arguments.batch, kMostY)},
              GemmFewRowsBuild::kThreads, 0, pointers, stream);
  return true;
}

/// An operand of float32 that lies along k, turned over if `wanted`, for as long as this lives.
class TurnedOver {
 public:
  TurnedOver(kernels::GemmStridedOperand<float>& operand, int64_t batch, bool wanted, const Gpu& on,
             Stream stream)
      : reading_(GemmReading<float>::copied(across(operand, batch))),
        memory_(wanted && lies_along_k(operand) ? reading_.bytes() : 0, stream, "gemm") {
    if (memory_.data() == nullptr) return;
    reading_.copy_to(memory_.data(), module<float>().realign, on, stream);
    const GemmOperand<const float>& from = reading_.from;
    operand = {as_rows(from.transposed()), from.batch > 1 ? from.batch_stride : 0};
  }

 private:
  static bool lies_along_k(const kernels::GemmStridedOperand<float>& x) {
    return x.rows.lead == 1 && x.rows.col_stride == 1 && x.rows.lead_strides[0] != 1;
  }
  /// Its rows are values of k.
  static GemmOperand<const float> across(const kernels::GemmStridedOperand<float>& x,
                                         int64_t batch) {
    const GemmOperand<const float> one = as_operand(x.rows).transposed();
    return {one.data,
            one.rows,
            one.columns,
            one.row_stride,
            one.column_stride,
            x.batch_stride,
            x.batch_stride == 0 ? 1 : batch};
  }

  GemmReading<float> reading_;
  StreamMemory memory_;
};

}  // namespace

template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments,
                    const kernels::GemmStridedChoice& choice, const Gpu& on, Stream stream) {
  const GemmStridedBuild& build = kernels::kGemmStridedShapes[choice.shape].build;
  const int64_t m = arguments.out.rows, n = arguments.out.cols, batch = arguments.batch;
  arguments.a.choose(), arguments.b.choose();
  arguments.k_part = choice.k_part;
  const int64_t sums = batch * m * arguments.parts_pitch();
  const StreamMemory parts(choice.parts > 1 ? choice.parts * sums * int64_t{sizeof(float)} : 0,
                           stream, "gemm");
  arguments.parts = static_cast<float*>(parts.data());

  StridedKernels& from = strided<T>(on);
  const Kernel kernel =
      from.shapes.with_shared_bytes("gemm", size_t(choice.shape), build.shared_bytes(), on);
  int64_t count = choice.parts;
  void* pointers[] = {&arguments, &count};
  launch_gemm(
      kernel,
      {gemm_blocks(m, build.tile_m) * gemm_blocks(n, build.tile_n), std::min(batch, kMostY), count},
      build.threads(), build.shared_bytes(), pointers, stream);
  if (count == 1) return;
  constexpr int kThreads = 256, kResident = 8;
  const int64_t fours = gemm_blocks(sums / 4, kThreads);
  check(launch_kernel(Start::kEarly, from.sum, on,
                      unsigned(std::min<int64_t>(fours, int64_t{on.multiprocessors} * kResident)),
                      kThreads, 1, 0, stream, pointers),
        "gemm: launching the sum over parts of k");
}

namespace {

template <class T>
void launch_strided(kernels::GemmStridedArguments<T>& arguments, const Gpu& on, Stream stream) {
  if constexpr (std::is_same_v<T, float>)
    if (launch_few_rows(arguments, on, stream)) return;
  const int64_t m = arguments.out.rows, n = arguments.out.cols, batch = arguments.batch;
  const kernels::GemmStridedSize size{batch, m, n, arguments.k};
  const kernels::GemmStridedChoice choice =
      kernels::choose_gemm_strided<T>(size, on.multiprocessors);
  if constexpr (std::is_same_v<T, float>) {
    const kernels::GemmStridedTurns turns(choice, size);
    const bool can_turn{supports_hopper(on)};  // its image has the kernel that copies
    const TurnedOver a(arguments.a, batch, can_turn && turns.a, on, stream);
    const TurnedOver b(arguments.b, batch, can_turn && turns.b, on, stream);
    launch_strided(arguments, choice, on, stream);
  } else {
    launch_strided(arguments, choice, on, stream);
  }
}

/// Whether Hopper's tensor cores multiply it. float32 only if that may be as tf32, and is quicker:
/// few rows are bound by reading the weight.
template <class T>
bool takes_sm90(const GemmProblem<T>& p, const Gpu& on) {
  if (!supports_hopper(on) || p.k == 0 || !p.fits_sm90()) return false;
  if constexpr (sizeof(T) == kernels::kTf32Bytes) {
    if (float32_matmul_precision() == MatmulPrecision::kHighest) return false;
    const auto tensor_cores = kernels::choose_gemm_sm90(p.size(), on.multiprocessors);
    return tensor_cores.us <
           kernels::choose_gemm_strided<T>({p.batch, p.m, p.n, p.k}, on.multiprocessors).us;
  }
  return true;
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
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
  if (takes_sm90(p, on)) {
    launch_warp_specialized(p, on, stream);
    wait_if_asked("matmul", on, stream);
    return kSm90<T>;
  }
  kernels::GemmStridedArguments<T> arguments{};
  arguments.a = {as_rows(p.left), p.left.batch_stride};
  arguments.b = {as_rows(p.right), p.right.batch_stride};
  arguments.out = as_rows(p.out);
  arguments.out_batch = p.out.batch_stride;
  arguments.residual = as_rows(p.addend), arguments.residual_batch = p.addend.batch_stride;
  arguments.batch = p.batch, arguments.k = p.k, arguments.scale = p.scale;
  launch_strided(arguments, on, stream);
  wait_if_asked("matmul", on, stream);
  return kPortable;
}

template <class T>
std::string_view launch_own(const kernels::Linear<T>& call, int device, Stream stream) {
  if (call.out.rows == 0 || call.out.cols == 0) return kPortable;
  const auto& weight = call.weight;
  const GemmOperand<const T> right = as_operand(weight);
  const Gpu& on = gpu(device);
  const CurrentContext current(on);
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
  if (one_stride && takes_sm90(p, on)) {
    launch_warp_specialized(p, on, stream);
    wait_if_asked("linear", on, stream);
    return kSm90<T>;
  }
  kernels::GemmStridedArguments<T> arguments{};
  arguments.a = {call.x, 0}, arguments.b = {as_rows(right), 0}, arguments.out = call.out;
  arguments.residual = call.residual, arguments.bias = call.bias;
  arguments.batch = 1, arguments.k = weight.size(1), arguments.scale = {};
  arguments.activation = call.activation;
  arguments.row_scale = call.row_scale, arguments.column_scale = call.column_scale;
  launch_strided(arguments, on, stream);
  wait_if_asked("linear", on, stream);
  return kPortable;
}

template <class T>
Kernel gate_kernel(const Gpu& on) {
  return strided<T>(on).gate;
}

template <class T>
KGroupedKernels k_grouped_kernels(const Gpu& on) {
  GemmModule& from = module<T>();
  return {from.k_grouped.with_shared_bytes("k_grouped_matmul",
                                           kernels::kGemmKGrouped.shared_bytes(), on),
          from.realign};
}

template KGroupedKernels k_grouped_kernels<f16>(const Gpu&);
template KGroupedKernels k_grouped_kernels<bf16>(const Gpu&);
template void launch_strided(kernels::GemmStridedArguments<float>&,
                             const kernels::GemmStridedChoice&, const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<f16>&, const kernels::GemmStridedChoice&,
                             const Gpu&, Stream);
template void launch_strided(kernels::GemmStridedArguments<bf16>&,
                             const kernels::GemmStridedChoice&, const Gpu&, Stream);
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
