// Kernel entry points of one build (operator x instruction set): what the generated translation
// units define and the launcher looks up.
#pragma once

#include "tilewright/built_isas.h"
#include "tilewright/core/machine.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/tile/program.h"

namespace tw::ops {

struct KernelEntry {
  tile::Plan (*plan)(const void* kernel, const Machine& machine) = nullptr;
  /// Runs instances [begin, end) of state.phase.
  void (*run)(const void* kernel, tile::ProgramState& state, int64_t begin, int64_t end) = nullptr;
};

/// The functions behind an entry. P names the instruction set, so each build has its own symbols.
template <class Kernel, class P>
struct Entry {
  static tile::Plan plan(const void* kernel, const Machine& machine) {
    return static_cast<const Kernel*>(kernel)->template plan<P>(machine);
  }
  TW_FLATTEN static void run(const void* kernel, tile::ProgramState& state, int64_t begin,
                             int64_t end) {
    P program;
    program.state = &state;
    for (int64_t i = begin; i < end; ++i) {
      state.index = i;
      (*static_cast<const Kernel*>(kernel))(program);
    }
  }
};

/// Whether the operator's kernel of combination C is built for `isa`, one of the built instruction
/// sets: not where its code would be that of the build before.
template <class Op, class C>
constexpr bool is_built_for(Isa isa) {
  int before = -1;
#define TW_CONSIDER(built) \
  if (Isa::built < isa) before = int(Isa::built);
  TW_FOR_EACH_BUILT_ISA(TW_CONSIDER)
#undef TW_CONSIDER
  for (int i = before + 1; i <= int(isa); ++i)
    if (changes_with<Op, C>(Isa(i))) return true;
  return false;
}

/// The same of any of its combinations.
template <class Op>
constexpr bool is_built_for(Isa isa) {
  bool any = false;
  for_each_combo(typename Op::Types{},
                 [&]<int, class C>() { any = any || is_built_for<Op, C>(isa); });
  return any;
}

/// Entries of an operator for one instruction set, in the order of Op::Types: empty of what is not
/// built for it; null where nothing is.
template <class Op, Isa kIsa>
const KernelEntry* kernel_entries();

template <class Op, class C, class P, Isa kIsa>
constexpr KernelEntry make_entry() {
  if constexpr (is_built_for<Op, C>(kIsa))
    return {&Entry<kernel_for_t<Op, C>, P>::plan, &Entry<kernel_for_t<Op, C>, P>::run};
  else
    return {};
}

template <class Op, class P, Isa kIsa, class... Cs>
const KernelEntry* make_entries(Combos<Cs...>) {
  if constexpr (is_built_for<Op>(kIsa)) {
    static constexpr KernelEntry kEntries[] = {make_entry<Op, Cs, P, kIsa>()...};
    return kEntries;
  } else {
    return nullptr;
  }
}

}  // namespace tw::ops

#define TW_BUILD_KERNELS(Op, isa)                                                            \
  template <>                                                                                \
  const ::tw::ops::KernelEntry* ::tw::ops::kernel_entries<::tw::ops::Op, ::tw::Isa::isa>() { \
    return make_entries<::tw::ops::Op, ::tw::tile::isa::Program, ::tw::Isa::isa>(            \
        ::tw::ops::Op::Types{});                                                             \
  }
