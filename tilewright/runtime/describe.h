// What operators() tells of one operator. Each is instantiated in a translation unit of its own
// (cmake/operator_info.cc.in), since all of them in one took minutes to compile.
#pragma once

#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/cuda/stream_memory.h"
#include "tilewright/runtime/launch.h"
#include "tilewright/runtime/operators.h"

namespace tw::runtime {
namespace detail {

/// Throws kUnsupported unless the definition can reach the tensors.
template <class Op>
void require_definition(const ops::Call& call) {
  if (call.device().is_cuda())
    throw Error(ErrorKind::kUnsupported,
                std::string(Op::kSchema.name()) +
                    ": the definition runs on the cpu, but the tensors are on " +
                    call.device().describe());
}

/// The call as calls of other operators, with memory that belongs to the stream.
template <class Op, class Kernel, class Launch>
void compose_on_gpu(const Kernel& kernel, Launch&& start, Device device, cuda::Stream stream) {
  require_build<Op>(device);
  const cuda::CurrentContext current(cuda::gpu(device.index));
  Op::compose_on_gpu(kernel, start, [&](int64_t bytes) {
    return cuda::StreamMemory(bytes, stream, Op::kSchema.name());
  });
}

/// Runs a kernel, or the sequence of others that its operator is there.
template <class Op, class Kernel>
void run_kernel(const Kernel& kernel, Device device, Context& context) {
  const auto start = [&]<class Part>(const auto& part) {
    if constexpr (std::is_same_v<Part, Op>)
      launch<Op>(context, part, device);  // the operator's own program in its sequence
    else
      run_kernel<Part>(part, device, context);
  };
  if (device.is_cuda()) {
    if constexpr (requires { Op::compose_on_gpu(kernel, start, allocate); })
      return compose_on_gpu<Op>(kernel, start, device, context.cuda_stream());
  } else {
    if constexpr (requires { Op::compose(kernel, start); }) return Op::compose(kernel, start);
  }
  launch<Op>(context, kernel, device);
}

/// What is wanted of a call. One function answers all, for the way from a call to its kernel is
/// long code for each combination of types.
enum class Wanted { kRun, kReference, kCost };

/// `context` is for kRun; the cost is of kCost.
template <class Op>
ops::Cost answer(const ops::Call& call, Wanted wanted, Context* context) {
  ops::Cost cost;
  ops::with_kernel<Op>(call, [&]<int kIndex>(const auto& kernel) {
    if (wanted == Wanted::kCost) {
      cost = Op::cost(kernel);
      return;
    }
    if constexpr (kIndex != ops::kReferenceOnly)
      if (wanted == Wanted::kRun) return run_kernel<Op>(kernel, call.device(), *context);
    if (wanted == Wanted::kRun) {
      require_build<Op>(call.device());
      require_definition<Op>(call);
      context->set_answered_by("reference");
    }
    Op::reference(kernel);
  });
  return cost;
}

template <class Op>
void run(const ops::Call& call, Context& context) {
  answer<Op>(call, Wanted::kRun, &context);
}

template <class Op>
void reference(const ops::Call& call) {
  require_definition<Op>(call);
  answer<Op>(call, Wanted::kReference, nullptr);
}

template <class Op>
ops::Cost cost(const ops::Call& call) {
  return answer<Op>(call, Wanted::kCost, nullptr);
}

template <class Op>
std::vector<std::vector<int64_t>> infer(ops::Call& call) {
  require_build<Op>(call.device());  // or infer() might look into memory of the GPU
  ops::Bindings bindings;
  if constexpr (requires { Op::rearrange(call); }) {  // the schema fits what it leaves behind
    ops::Call moved = call;
    moved.name_tensors_of(call);
    Op::rearrange(moved);
    bindings = moved.bind_inputs();
  } else {
    bindings = call.bind_inputs();
  }
  if constexpr (requires { Op::infer(call, bindings); }) {
    return Op::infer(call, bindings);
  } else {
    static_assert(Op::kSchema.outputs_bound(),
                  "an output dimension is bound by no input; define infer()");
    std::vector<std::vector<int64_t>> shapes;
    for (int i = 0; i < call.schema().size(); ++i)
      if (call.schema()[i].output) shapes.push_back(call.output_shape(i, bindings));
    return shapes;
  }
}

template <class Op>
std::optional<Tensor> materialize(std::string_view arg, const ops::Bindings& bindings,
                                  std::span<const DType> combo, uint64_t seed) {
  if constexpr (requires { Op::materialize(arg, bindings, combo, seed); })
    return Op::materialize(arg, bindings, combo, seed);
  return std::nullopt;
}

template <class C>
std::vector<std::vector<DType>> dtypes_of(C) {
  std::vector<std::vector<DType>> out;
  ops::for_each_combo(C{}, [&]<int, class One>() {
    using D = ops::detail::combo_dtypes<One>;
    out.emplace_back(D::value, D::value + D::size);
  });
  return out;
}

template <class Op>
std::vector<OperatorInfo::GpuKernel> gpu_kernels_of() {
  std::vector<OperatorInfo::GpuKernel> out;
  if constexpr (ops::gpu_kernels<Op>() == ops::GpuKernels::kNeutral)
    ops::for_each_combo(typename Op::Types{}, [&]<int kIndex, class C>() {
      using Kernel = ops::kernel_for_t<Op, C>;
      using OnGpu = decltype(tile::cuda::device_kernel(std::declval<Kernel>()));
      out.emplace_back();
      if (ops::combo_index<Op, Kernel>() == kIndex)
        out.back() = {ops::kernel_type<Kernel>(), tile::cuda::ways_of<OnGpu>()};
    });
  return out;
}

}  // namespace detail

template <class Op>
OperatorInfo describe() {
  static_assert(ops::Operator<Op>,
                "an operator declares kSchema, Types, Kernel, reference, cost, "
                "kEdgeCases and kWorkloads");
  OperatorInfo out{};
  out.schema = &Op::kSchema;
  out.edge_cases = Op::kEdgeCases;
  out.workloads = Op::kWorkloads;
  out.combos = detail::dtypes_of(typename Op::Types{});
  out.reference_combos = detail::dtypes_of(ops::reference_types_t<Op>{});
#define TW_CONSIDER(built)                         \
  if constexpr (ops::is_built_for<Op>(Isa::built)) \
    if (ops::kernel_entries<Op, Isa::built>() != nullptr) out.isas.push_back(Isa::built);
  TW_FOR_EACH_BUILT_ISA(TW_CONSIDER)
#undef TW_CONSIDER
  if constexpr (requires { Op::kGradient; }) out.gradient = &Op::kGradient;
  if constexpr (requires { Op::kToleranceScale; }) out.tolerance_scale = Op::kToleranceScale;
  out.gpu_tolerance_scale = out.tolerance_scale;
  if constexpr (requires { Op::kGpuToleranceScale; })
    out.gpu_tolerance_scale = Op::kGpuToleranceScale;
  if constexpr (requires { Op::kOperandTolerance; }) out.operand_tolerance = Op::kOperandTolerance;
  if constexpr (requires { Op::kSequences; }) out.sequences = Op::kSequences;
  out.on_cuda = runs_on_cuda<Op>();
  out.gpu_kernels = detail::gpu_kernels_of<Op>();
  out.run = detail::run<Op>;
  out.reference = detail::reference<Op>;
  out.cost = detail::cost<Op>;
  out.infer = detail::infer<Op>;
  out.materialize = detail::materialize<Op>;
  return out;
}

}  // namespace tw::runtime
