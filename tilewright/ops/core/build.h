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

/// Whether the operator has a build of its own for `isa`, one of the built instruction sets: not
/// where its code would be that of the build before.
template <class Op>
constexpr bool is_built_for(Isa isa) {
  int before = -1;
#define TW_CONSIDER(built) \
  if (Isa::built < isa) before = int(Isa::built);
  TW_FOR_EACH_BUILT_ISA(TW_CONSIDER)
#undef TW_CONSIDER
  for (int i = before + 1; i <= int(isa); ++i)
    if (changes_with<Op>(Isa(i))) return true;
  return false;
}

/// Entries of an operator for one instruction set, in the order of Op::Types; null where it has no
/// build of its own.
template <class Op, Isa kIsa>
const KernelEntry* kernel_entries();

template <class Op, class P, Isa kIsa, class... Cs>
const KernelEntry* make_entries(Combos<Cs...>) {
  if constexpr (is_built_for<Op>(kIsa)) {
    static constexpr KernelEntry kEntries[] = {
        {&Entry<kernel_for_t<Op, Cs>, P>::plan, &Entry<kernel_for_t<Op, Cs>, P>::run}...};
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
