// Every operator of the catalog behind one type-erased interface: what the command line, the tests,
// the benchmarks and the bindings loop over.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/call.h"
#include "tilewright/ops/core/gradient.h"
#include "tilewright/ops/core/operator.h"
#include "tilewright/runtime/context.h"

namespace tw::runtime {

struct OperatorInfo {
  const ops::Schema* schema;
  std::span<const ops::Case> edge_cases;
  std::span<const ops::Case> workloads;
  /// The dtypes of each combination, in the order of the schema's type variables.
  std::vector<std::vector<DType>> combos;
  /// The instruction sets that it has builds for, weakest first; others run the best one below.
  std::vector<Isa> isas;
  /// Combinations without a kernel, which `run` answers by the float64 definition.
  std::vector<std::vector<DType>> reference_combos;
  /// How the gradient is computed; null: the operator has none.
  const ops::Gradient* gradient = nullptr;
  /// Factor on the dtype's tolerance against the reference; 1 unless the operator quantises.
  double tolerance_scale = 1;
  /// The same on a GPU, where its matrix instructions keep less of a sum.
  double gpu_tolerance_scale = 1;
  /// What results may be off besides, a part of the largest rms of an operand: where all of a
  /// result can be what is left of a difference.
  double operand_tolerance = 0;
  /// The argument whose offsets tell which rows of the first argument, and of the outputs, a call
  /// is about; empty: all.
  std::string_view sequences;
  bool on_cuda = false;  // this library has kernels for GPUs
  /// A neutral kernel's type in C++, and the ways that a GPU has code for; no type where the kernel
  /// of an earlier combination serves.
  struct GpuKernel {
    std::string_view type;
    int ways = 0;
  };
  std::vector<GpuKernel> gpu_kernels;  // by combination; empty: it has none

  /// Runs the call where its tensors are; on a GPU, without waiting for it. Throws as with_kernel
  /// does.
  void (*run)(const ops::Call& call, Context& context);
  /// Runs the float64 definition, on the CPU.
  void (*reference)(const ops::Call& call);
  ops::Cost (*cost)(const ops::Call& call);
  /// Shapes of the outputs in schema order, from validated inputs.
  std::vector<std::vector<int64_t>> (*infer)(ops::Call& call);
  /// Makes an input that cannot be random numbers (indices, packed weights); nullopt: any will do.
  std::optional<Tensor> (*materialize)(std::string_view arg, const ops::Bindings& bindings,
                                       std::span<const DType> combo, uint64_t seed);

  std::string_view name() const { return schema->name(); }
};

/// All operators, in catalog order.
TW_API std::span<const OperatorInfo> operators();
/// Throws kInvalidArgument, naming the closest operators, when there is none of this name.
TW_API const OperatorInfo& find_operator(std::string_view name);

}  // namespace tw::runtime
