// Every store of bfloat16 rounds to the nearest, ties to even, as the conversion of core/types.h:
// subnormal numbers, which vcvtneps2bf16 takes for zeros, infinities and NaN included.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/tensor.h"
#include "tilewright/core/types.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

constexpr int64_t kColumns = 4101;  // spans of all widths and a tail

/// The first and last that round to a number, those between which a tie lies, for each upper half.
Tensor floats_about_ties() {
  constexpr uint32_t kLow[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  const Tensor out = Tensor::empty({65536 * 6}, DType::kF32);
  for (uint32_t i = 0; i < 65536 * 6; ++i)
    out.span<float>()[i] = __builtin_bit_cast(float, i / 6 << 16 | kLow[i % 6]);
  return out;
}

/// Numbers of all exponents, zeros, which leave what they are added to, and ordinary ones: a vector
/// may hold them all.
Tensor all_exponents(uint64_t seed) {
  testing::Random random(seed);
  const Tensor out = Tensor::empty({96, kColumns}, DType::kBf16);
  for (bf16& v : out.span<bf16>()) {
    const int64_t kind = random.below(4);
    const auto bits = kind == 0 ? uint16_t(random.below(65536)) : uint16_t(0);
    v = kind < 2 ? __builtin_bit_cast(bf16, bits) : bf16(float(random.normal()));
  }
  return out;
}

void run(const runtime::OperatorInfo& info, ops::Call& call, Isa isa) {
  runtime::Context context(runtime::default_pool(), isa);
  info.run(call, context);
}

void expect_same(bf16 got, bf16 want, Isa isa) {
  if (std::isnan(float(want)))
    EXPECT_TRUE(std::isnan(float(got))) << name(isa);
  else
    EXPECT_EQ(__builtin_bit_cast(uint16_t, got), __builtin_bit_cast(uint16_t, want)) << name(isa);
}

TEST(Bf16Rounding, OfSingleVectors) {
  const Tensor x = floats_about_ties(), out = Tensor::empty({65536 * 6}, DType::kBf16);
  const Tensor like = Tensor::empty({1}, DType::kBf16);
  const runtime::OperatorInfo& info = runtime::find_operator("type_as");
  for (const Isa isa : runtime::available_isas()) {
    ops::Call call(*info.schema);
    call.set("x", x.ref()).set("other", like.ref()).set("out", out.ref());
    run(info, call, isa);
    for (size_t i = 0; i < x.span<float>().size(); ++i)
      expect_same(out.span<bf16>()[i], bf16(x.span<float>()[i]), isa);
  }
}

TEST(Bf16Rounding, OfPairsOfVectors) {
  const Tensor x = all_exponents(1), residual = all_exponents(2);
  const Tensor weight = Tensor::empty({kColumns}, DType::kBf16);
  for (bf16& v : weight.span<bf16>()) v = bf16(1.0f);
  const Tensor out = Tensor::empty({96, kColumns}, DType::kBf16);
  const Tensor sum = Tensor::empty({96, kColumns}, DType::kBf16);
  const runtime::OperatorInfo& info = runtime::find_operator("fused_add_rms_norm");
  for (const Isa isa : runtime::available_isas()) {
    ops::Call call(*info.schema);
    call.set("x", x.ref()).set("residual", residual.ref()).set("weight", weight.ref());
    call.set("out", out.ref()).set("residual_out", sum.ref());
    run(info, call, isa);
    for (size_t i = 0; i < sum.span<bf16>().size(); ++i)
      expect_same(sum.span<bf16>()[i],
                  bf16(float(x.span<bf16>()[i]) + float(residual.span<bf16>()[i])), isa);
  }
}

}  // namespace
}  // namespace tw
