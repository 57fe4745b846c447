// Normalises one row with the installed library and prints it: "1 1 1 1".
#include <algorithm>
#include <iostream>

#include "tilewright/runtime/operators.h"

int main() {
  const auto x = tw::Tensor::empty({1, 4}, tw::DType::kF32);
  const auto weight = tw::Tensor::empty({4}, tw::DType::kF32);
  const auto out = tw::Tensor::empty({1, 4}, tw::DType::kF32);
  std::ranges::fill(x.span<float>(), 1000.0f);
  std::ranges::fill(weight.span<float>(), 1.0f);

  tw::runtime::Context context;
  const auto& rms_norm = tw::runtime::find_operator("rms_norm");
  tw::ops::Call call(*rms_norm.schema);
  rms_norm.run(call.set("x", x.ref()).set("weight", weight.ref()).set("out", out.ref()), context);
  for (const float value : out.span<float>()) std::cout << value << ' ';
  std::cout << '\n';
}
