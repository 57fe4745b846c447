// Kernel entry points of one build (operator x instruction set): what the generated translation
// units define and the launcher looks up.
#pragma once

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
  static void run(const void* kernel, tile::ProgramState& state, int64_t begin, int64_t end) {
    P program;
    program.state = &state;
    for (int64_t i = begin; i < end; ++i) {
      state.index = i;
      (*static_cast<const Kernel*>(kernel))(program);
    }
  }
};

/// Entries of an operator for one instruction set, in the order of Op::Types.
template <class Op, Isa kIsa>
const KernelEntry* kernel_entries();

template <class Op, class P, class... Cs>
const KernelEntry* make_entries(Combos<Cs...>) {
  static constexpr KernelEntry kEntries[] = {
      {&Entry<kernel_for_t<Op, Cs>, P>::plan, &Entry<kernel_for_t<Op, Cs>, P>::run}...};
  return kEntries;
}

}  // namespace tw::ops

#define TW_BUILD_KERNELS(Op, isa)                                                            \
  template <>                                                                                \
  const ::tw::ops::KernelEntry* ::tw::ops::kernel_entries<::tw::ops::Op, ::tw::Isa::isa>() { \
    return make_entries<::tw::ops::Op, ::tw::tile::isa::Program>(::tw::ops::Op::Types{});    \
  }
