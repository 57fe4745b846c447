#include "tilewright/runtime/operators.h"

#include "tilewright/core/printable.h"
#include "tilewright/ops/catalog.h"

namespace tw::runtime {

/// Defined in runtime/describe.h, instantiated apart.
template <class Op>
OperatorInfo describe();

namespace {

constexpr const ops::Schema* find_schema(std::string_view name) {
  const ops::Schema* found = nullptr;
  ops::for_each(ops::All{}, [&]<class Op>() {
    if (Op::kSchema.name() == name) found = &Op::kSchema;
  });
  return found;
}

/// A rule that names what is not there does not compile.
template <class Op>
constexpr bool gradient_holds() {
  if constexpr (requires { Op::kGradient; })
    return ops::check_gradient(Op::kGradient, Op::kSchema, find_schema);
  return true;
}

}  // namespace

std::span<const OperatorInfo> operators() {
  // Never destroyed: threads may still be in calls when the process ends.
  static const std::vector<OperatorInfo>& kTable = *[] {
    auto* table = new std::vector<OperatorInfo>;
    ops::for_each(ops::All{}, [&]<class Op>() {
      static_assert(gradient_holds<Op>());
      table->push_back(describe<Op>());
    });
    return table;
  }();
  return kTable;
}

const OperatorInfo& find_operator(std::string_view name) {
  for (const OperatorInfo& op : operators())
    if (op.name() == name) return op;
  std::string near;
  for (const OperatorInfo& op : operators())
    if (op.name().find(name) != std::string_view::npos ||
        name.find(op.name()) != std::string_view::npos)
      near += (near.empty() ? "; did you mean " : ", ") + std::string(op.name());
  throw Error(ErrorKind::kInvalidArgument, "there is no operator " + printable(name, 80) + near);
}

}  // namespace tw::runtime
