// What an operator declares, checked where the compiler can point at it.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tilewright/core/dtype.h"
#include "tilewright/core/error.h"
#include "tilewright/core/machine.h"
#include "tilewright/ops/core/gradient.h"
#include "tilewright/ops/core/schema.h"

namespace tw::ops {

/// Work of one call, for rooflines and scheduling.
struct Cost {
  double flops = 0;
  double bytes = 0;                // read + written, each element once
  DType arithmetic = DType::kF32;  // kI8: products of 8-bit integers
};

/// A named shape: "*=3 C=1025 eps=1e-5 +bias". Dimensions and scalars by name, `*=2x3` for leading
/// dimensions, `x=[2,1]` for the shape of a `...` argument, `+name` to pass an optional tensor.
struct Case {
  std::string_view label;
  std::string_view text;
};

/// One assignment of the schema's type variables.
template <class... Ts>
struct Combo {};
/// All assignments an operator is built for.
template <class... Cs>
struct Combos {
  static constexpr int kCount = static_cast<int>(sizeof...(Cs));
};

template <class Op, class C>
struct kernel_for;
template <class Op, class... Ts>
struct kernel_for<Op, Combo<Ts...>> {
  using type = typename Op::template Kernel<Ts...>;
};
/// The kernel aggregate of an operator for one Combo.
template <class Op, class C>
using kernel_for_t = typename kernel_for<Op, C>::type;

/// Calls f.template operator()<index, Combo>() for each combination.
template <class F, class... Cs>
constexpr void for_each_combo(Combos<Cs...>, F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (f.template operator()<I, Cs>(), ...);
  }(std::make_integer_sequence<int, static_cast<int>(sizeof...(Cs))>{});
}

/// The first combination that has this kernel: several may share one. -1: none.
template <class Op, class Kernel>
constexpr int combo_index() {
  int index = -1;
  for_each_combo(typename Op::Types{}, [&]<int kIndex, class C>() {
    if (index < 0 && std::is_same_v<kernel_for_t<Op, C>, Kernel>) index = kIndex;
  });
  return index;
}

/// Combinations that Op::reference answers for want of a kernel: `ReferenceTypes`, if declared.
/// Float64, for which a definition in float64 is all that anyone asks for.
template <class Op>
struct reference_types {
  using type = Combos<>;
};
template <class Op>
  requires requires { typename Op::ReferenceTypes; }
struct reference_types<Op> {
  using type = typename Op::ReferenceTypes;
};
template <class Op>
using reference_types_t = typename reference_types<Op>::type;

namespace detail {
template <class Cs>
struct first_combo;
template <class C, class... Cs>
struct first_combo<Combos<C, Cs...>> {
  using type = C;
};
}  // namespace detail

template <class Op>
concept Operator = requires(
    const kernel_for_t<Op, typename detail::first_combo<typename Op::Types>::type>& kernel) {
  { Op::kSchema } -> std::convertible_to<const Schema&>;
  Op::reference(kernel);
  { Op::cost(kernel) } -> std::same_as<Cost>;
  { Op::kEdgeCases[0] } -> std::convertible_to<const Case&>;
  { Op::kWorkloads[0] } -> std::convertible_to<const Case&>;
};

namespace detail {
template <class C>
inline constexpr bool kIsBf16 = false;
template <class T, class... Ts>
inline constexpr bool kIsBf16<Combo<T, Ts...>> =
    std::is_same_v<T, bf16> && (std::is_same_v<Ts, bf16> && ...);

constexpr bool contains(std::span<const Isa> isas, Isa isa) {
  for (const Isa one : isas)
    if (one == isa) return true;
  return false;
}
}  // namespace detail

/// Whether `isa` has instructions that the operator's kernel of combination C uses and those before
/// it lack. Vectors of another width change every kernel; an operator whose kernels use more lists
/// it in kIsas, in kBf16Isas where only those do whose types are all bf16.
/// avx512_bf16 also rounds in one instruction: listed where models wait for rows so rounded.
template <class Op, class C>
constexpr bool changes_with(Isa isa) {
  if (isa == Isa::avx2 || isa == Isa::avx512) return true;
  if constexpr (requires { Op::kIsas; })
    if (detail::contains(Op::kIsas, isa)) return true;
  if constexpr (detail::kIsBf16<C> && requires { Op::kBf16Isas; })
    return detail::contains(Op::kBf16Isas, isa);
  return false;
}

/// Where an operator's kernels for GPUs come from. cmake/cuda.cmake reads the declaration too.
enum class GpuKernels {
  kNeutral,  // its Kernel, compiled for GPUs
  kOwn,      // a schedule of their own: runtime/cuda/own_kernels.h launches them
  kNone,     // it runs on the CPU only
};
/// As the operator declares: `static constexpr GpuKernels kGpu = GpuKernels::kOwn;`
template <class Op>
constexpr GpuKernels gpu_kernels() {
  if constexpr (requires { Op::kGpu; })
    return Op::kGpu;
  else
    return GpuKernels::kNeutral;
}

/// Whether an output may be the very same view as an input of its type and shape. An operator that
/// reads inputs again after writing, or writes in another order, declares otherwise:
/// `static constexpr bool kInPlace = false;`
template <class Op>
constexpr bool runs_in_place() {
  if constexpr (requires { Op::kInPlace; })
    return Op::kInPlace;
  else
    return true;
}

/// The operators of a library, in the order they are listed.
template <class... Ops>
struct Catalog {
  static constexpr int kCount = static_cast<int>(sizeof...(Ops));
};

template <class F, class... Ops>
constexpr void for_each(Catalog<Ops...>, F&& f) {
  (f.template operator()<Ops>(), ...);
}

}  // namespace tw::ops
