// The catalog's test cases for programs in other languages: calls built as the C++ tests build
// them.
#include <exception>
#include <string>

#include "testing/op_call.h"
#include "tilewright/c/tilewright.h"

namespace {

thread_local std::string why_not;

const char* refuse(const std::exception& error) {
  why_not = error.what();
  return why_not.c_str();
}

}  // namespace

/// Calls give(user, index, tensor, text, number) for each input of a case that is present: `text`
/// is the dtype of a tensor, which is null for a scalar. Returns null, or why the case cannot be
/// built, until the thread's next call.
extern "C" TW_C_API const char* twt_make_case(const char* op_name, int32_t combo, const char* text,
                                              uint64_t seed,
                                              void (*give)(void* user, int32_t index,
                                                           const tw_tensor* tensor,
                                                           const char* text, double number),
                                              void* user) {
  try {
    const tw::runtime::OperatorInfo& op = tw::runtime::find_operator(op_name);
    const auto spec = tw::testing::CaseSpec::parse(*op.schema, text);
    tw::testing::OpCall made(op, op.combos[static_cast<size_t>(combo)], spec, seed,
                             tw::testing::Layout::kAligned);
    for (int i = 0; i < op.schema->size(); ++i) {
      const tw::ops::Slot& slot = made.call()[i];
      if ((*op.schema)[i].output || !slot.present) continue;
      tw::TensorRef ref = slot.tensor;
      tw_tensor tensor{};
      tensor.data = ref.data;
      tensor.device = {1, 0};
      tensor.rank = ref.rank;
      tensor.shape = ref.sizes.data();
      tensor.strides = ref.strides.data();
      const bool is_tensor = (*op.schema)[i].kind == tw::ops::ArgKind::kTensor;
      give(user, i, is_tensor ? &tensor : nullptr,
           is_tensor ? tw::name(ref.dtype).data() : slot.text.c_str(), slot.number);
    }
    return nullptr;
  } catch (const std::exception& error) {
    return refuse(error);
  }
}

/// Writes the floating-point operations and the bytes of a case to `cost`. Returns as
/// twt_make_case.
extern "C" TW_C_API const char* twt_case_cost(const char* op_name, int32_t combo, const char* text,
                                              double* cost) {
  try {
    const tw::runtime::OperatorInfo& op = tw::runtime::find_operator(op_name);
    const auto spec = tw::testing::CaseSpec::parse(*op.schema, text);
    tw::testing::OpCall made(op, op.combos[static_cast<size_t>(combo)], spec, 1,
                             tw::testing::Layout::kAligned);
    const tw::ops::Cost found = op.cost(made.call());
    cost[0] = found.flops;
    cost[1] = found.bytes;
    return nullptr;
  } catch (const std::exception& error) {
    return refuse(error);
  }
}
