// Typed launching: a kernel aggregate goes straight to the build for the context's instruction set.
// No validation happens here; calls with arguments from outside go through ops::Call first.
#pragma once

#include "tilewright/built_isas.h"
#include "tilewright/ops/core/bind.h"
#include "tilewright/runtime/context.h"

namespace tw::runtime {

/// Entries of Op for the best build not above `isa`; null when the library carries none.
template <class Op>
const ops::KernelEntry* entries_for([[maybe_unused]] Isa isa) {
  const ops::KernelEntry* best = nullptr;
#define TW_CONSIDER(built)                         \
  if constexpr (ops::is_built_for<Op>(Isa::built)) \
    if (Isa::built <= isa) best = ops::kernel_entries<Op, Isa::built>();
  TW_FOR_EACH_BUILT_ISA(TW_CONSIDER)
#undef TW_CONSIDER
  return best;
}

namespace detail {
template <class Op, class Kernel>
constexpr int combo_index() {
  int index = -1;
  ops::for_each_combo(typename Op::Types{}, [&]<int kIndex, class C>() {
    if (std::is_same_v<ops::kernel_for_t<Op, C>, Kernel>) index = kIndex;
  });
  return index;
}
}  // namespace detail

/// Runs a kernel of operator Op. The views must satisfy Op's schema.
template <class Op, class Kernel>
void launch(Context& context, const Kernel& kernel) {
  constexpr int kIndex = detail::combo_index<Op, Kernel>();
  static_assert(kIndex >= 0, "the operator is not built for this kernel type");
  const ops::KernelEntry* entries = entries_for<Op>(context.isa());
  if (entries == nullptr)
    throw Error(ErrorKind::kUnsupported,
                std::string(Op::kSchema.name()) + ": this library has no build for the machine");
  context.launch(entries[kIndex], &kernel, Op::cost(kernel));
}

}  // namespace tw::runtime
