// From a validated Call to the kernel aggregate of an operator: each field is initialised from the
// slot of the same position, by its type.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <type_traits>

#include "tilewright/core/dtype.h"
#include "tilewright/core/view.h"
#include "tilewright/kernels/score_program.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/ops/core/score_parser.h"

namespace tw::ops {

/// A tensor's leading dimensions, merged where the strides allow, over its last one (or over
/// single elements, for a schema type `T[*]`).
template <class T>
Rows<T> rows_of(const TensorRef& tensor, bool lead_only) {
  Rows<T> out;
  out.data = static_cast<T*>(tensor.data);
  const int lead = lead_only || tensor.rank == 0 ? tensor.rank : tensor.rank - 1;
  if (lead < tensor.rank) {
    out.cols = tensor.sizes[static_cast<size_t>(lead)];
    out.col_stride = tensor.strides[static_cast<size_t>(lead)];
  } else {
    out.cols = 1;
  }
  out.rows = 1;
  out.lead = 0;
  for (int d = 0; d < lead; ++d) {
    const int64_t size = tensor.sizes[static_cast<size_t>(d)];
    const int64_t stride = tensor.strides[static_cast<size_t>(d)];
    out.rows = checked_mul(out.rows, size, "rows");
    if (size == 1) continue;
    if (out.lead > 0 && out.lead_strides[out.lead - 1] == stride * size) {
      out.lead_sizes[out.lead - 1] *= size;
      out.lead_strides[out.lead - 1] = stride;
    } else {
      out.lead_sizes[out.lead] = size;
      out.lead_strides[out.lead++] = stride;
    }
  }
  if (out.lead == 0) {
    out.lead = 1;
    out.lead_sizes[0] = out.rows;
  }
  return out;
}

/// Converts to whatever the kernel field at this position is.
class FieldInit {
 public:
  FieldInit(const Schema& schema, const Arg& arg, Slot& slot)
      : schema_(schema), arg_(arg), slot_(slot) {}

  template <class T, int kRank>
  operator View<T, kRank>() const {  // NOLINT(google-explicit-constructor)
    View<T, kRank> out;
    if (!slot_.present) return out;
    out.data = static_cast<T*>(slot_.tensor.data);
    for (size_t d = 0; d < size_t{kRank}; ++d) {
      out.sizes[d] = slot_.tensor.sizes[d];
      out.strides[d] = slot_.tensor.strides[d];
    }
    return out;
  }
  template <class T>
  operator Rows<T>() const {  // NOLINT(google-explicit-constructor)
    if (!slot_.present) return {};
    return rows_of<T>(slot_.tensor, arg_.has_lead() && arg_.rank == 1);
  }
  template <class A>
    requires std::is_arithmetic_v<A>
  operator A() const {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(slot_.integer);
    else
      return static_cast<A>(slot_.number);
  }
  operator kernels::ScoreMod() const {  // NOLINT(google-explicit-constructor)
    return {program(ScoreText::kScore)};
  }
  operator kernels::MaskMod() const {  // NOLINT(google-explicit-constructor)
    return {program(ScoreText::kMask)};
  }

 private:
  /// Null for an empty text; otherwise kept in the call.
  const kernels::ScoreProgram* program(ScoreText kind) const {
    if (slot_.text.empty()) return nullptr;
    try {
      slot_.program =
          std::make_shared<const kernels::ScoreProgram>(parse_score_program(slot_.text, kind));
    } catch (const Error& error) {
      throw Error(error.kind(), std::string(schema_.name()) + ": " + std::string(arg_.name) + ": " +
                                    error.what() + "\n  in " + std::string(schema_.text()));
    }
    return *slot_.program ? slot_.program.get() : nullptr;
  }

  const Schema& schema_;
  const Arg& arg_;
  Slot& slot_;
};

/// supports_shapes(kernel) has the rules for shapes and scalars, supports(kernel) those for
/// elements, which only the CPU can look at, and supports_cuda(kernel) those of a GPU alone. Throws
/// kInvalidArgument where one does not hold.
template <class Op, class Kernel>
void check_support(const Kernel& kernel, Device device) {
  Support support = Support::yes();
  if constexpr (requires { Op::supports_shapes(kernel); }) support = Op::supports_shapes(kernel);
  if constexpr (requires { Op::supports(kernel); })
    if (support && !device.is_cuda()) support = Op::supports(kernel);
  if constexpr (requires { Op::supports_cuda(kernel); })
    if (support && device.is_cuda()) support = Op::supports_cuda(kernel);
  if (!support)
    throw Error(ErrorKind::kInvalidArgument, std::string(Op::kSchema.name()) + ": " +
                                                 support.reason() + "\n  in " +
                                                 std::string(Op::kSchema.text()));
}

namespace detail {

template <class Kernel, int... I>
Kernel make_kernel(Call& call, std::integer_sequence<int, I...>) {
  return Kernel{FieldInit(call.schema(), call.schema()[I], call[I])...};
}

/// The dtypes a Combo assigns, in the order of the schema's type variables.
template <class C>
struct combo_dtypes;
template <class... Ts>
struct combo_dtypes<Combo<Ts...>> {
  static constexpr DType value[] = {dtype_of<Ts>..., DType::kF32};
  static constexpr int size = static_cast<int>(sizeof...(Ts));
};

/// What the type variables of a bound call stand for.
inline std::array<DType, Schema::kMaxTypes> types_of(const Call& call) {
  std::array<DType, Schema::kMaxTypes> out{};
  for (int i = 0; i < call.schema().size(); ++i) {
    const Arg& arg = call.schema()[i];
    if (arg.is_type_variable() && call[i].present)
      out[static_cast<size_t>(arg.variable)] = call[i].tensor.dtype;
  }
  return out;
}

template <class C>
bool matches(const std::array<DType, Schema::kMaxTypes>& types) {
  using D = combo_dtypes<C>;
  return std::equal(D::value, D::value + D::size, types.begin());
}

}  // namespace detail

/// "f32", "bf16": the dtypes of a Combo, joined by a slash.
template <class C>
std::string combo_name() {
  using D = detail::combo_dtypes<C>;
  std::string out;
  for (int i = 0; i < D::size; ++i) out += (i ? "/" : "") + std::string(name(D::value[i]));
  return out;
}

/// The index that with_kernel passes for a combination that only the reference takes.
inline constexpr int kReferenceOnly = -1;

/// Validates `call` and calls f.template operator()<index>(kernel) for the Combo of its dtypes.
/// Throws kInvalidArgument for a call outside the schema, kUnsupported when the operator is not
/// built for these dtypes or refuses these values. An operator that names dimensions by number
/// defines rearrange(Call&), which reorders sizes and strides so that its schema fits; it leaves a
/// call that is wrong in other ways as it is.
template <class Op, class F>
void with_kernel(const Call& given, F&& f) {
  Call call = given;
  if constexpr (requires { Op::rearrange(call); }) {
    call.name_tensors_of(given);
    Op::rearrange(call);
  }
  call.bind(runs_in_place<Op>());
  broadcast_and_merge(call);
  const auto types = detail::types_of(call);
  bool found = false;
  const auto consider = [&]<int kIndex, class C>() {
    if (found || !detail::matches<C>(types)) return;
    found = true;
    using Kernel = kernel_for_t<Op, C>;
    const auto kernel =
        detail::make_kernel<Kernel>(call, std::make_integer_sequence<int, Op::kSchema.size()>{});
    check_support<Op>(kernel, call.device());
    f.template operator()<kIndex>(kernel);
  };
  for_each_combo(typename Op::Types{}, consider);
  for_each_combo(reference_types_t<Op>{},
                 [&]<int, class C>() { consider.template operator()<kReferenceOnly, C>(); });
  if (!found) {
    std::string built;
    const auto list = [&]<int, class C>() {
      built += (built.empty() ? "" : ", ") + combo_name<C>();
    };
    for_each_combo(typename Op::Types{}, list);
    for_each_combo(reference_types_t<Op>{}, list);
    std::string tensors;
    for (int i = 0; i < given.schema().size(); ++i)
      if (given.schema()[i].is_type_variable() && given[i].present)
        tensors += (tensors.empty() ? "" : ", ") + std::string(given.schema()[i].name) + ": " +
                   given[i].tensor.describe();
    throw Error(ErrorKind::kUnsupported, std::string(Op::kSchema.name()) + ": no kernel takes " +
                                             tensors + "; it is built for " + built);
  }
}

}  // namespace tw::ops
