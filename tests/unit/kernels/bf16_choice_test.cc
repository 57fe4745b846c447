// Rates decide how bf16 is multiplied: by pairs (vdpbf16ps) or widened to float32. Both are right
// on any machine that has the instruction, whichever of them is quicker there.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/op_call.h"
#include "tilewright/ops/attention.h"
#include "tilewright/ops/linear.h"
#include "tilewright/ops/matmul.h"
#include "tilewright/runtime/launch.h"
#include "tilewright/runtime/operators.h"

namespace tw {
namespace {

using testing::CaseSpec;
using testing::OpCall;

/// The parameter: the rate of pairs, as a multiple of that of float32.
class Bf16Choice : public ::testing::TestWithParam<double> {
 protected:
  void SetUp() override {
    if (runtime::Context().isa() < Isa::avx512_bf16) GTEST_SKIP() << "no vdpbf16ps here";
  }
  static bool by_pairs() { return GetParam() > 1; }
  static Machine machine() {
    Machine out = runtime::Context().machine();
    out.bf16_dot_gflops = GetParam() * out.f32_fma_gflops;
    out.bf16_tile_gflops = 0;
    return out;
  }

  runtime::Context context_{runtime::default_pool(), machine()};
};

/// All edge cases of an operator's dtypes, against its definition.
void expect_definition(const runtime::OperatorInfo& op, const std::vector<DType>& combo,
                       runtime::Context& context) {
  for (const ops::Case& edge : op.edge_cases) {
    SCOPED_TRACE(std::string(edge.text));
    const CaseSpec spec = CaseSpec::parse(*op.schema, edge.text);
    OpCall want(op, combo, spec, 42, testing::Layout::kContiguous);
    OpCall got(op, combo, spec, 42, testing::Layout::kContiguous);
    op.reference(want.call());
    op.run(got.call(), context);
    for (size_t i = 0; i < want.outputs().size(); ++i) {
      const TensorRef& expected = want.outputs()[i];
      const double tolerance = testing::tolerance_of(expected.dtype) * op.tolerance_scale;
      const testing::Comparison c = testing::compare(got.outputs()[i], expected, tolerance);
      EXPECT_TRUE(c.ok) << c.message;
    }
  }
}

TEST_P(Bf16Choice, GivesTheDefinitionsResult) {
  for (const char* name : {"matmul", "linear", "linear_packed", "attention", "attention_paged"}) {
    const runtime::OperatorInfo& op = runtime::find_operator(name);
    const std::vector<DType> alike(op.combos[0].size(), DType::kBf16);
    ASSERT_NE(std::find(op.combos.begin(), op.combos.end(), alike), op.combos.end());
    for (const std::vector<DType>& combo : op.combos) {  // keys may be of other dtypes than queries
      if (combo[0] != DType::kBf16) continue;
      SCOPED_TRACE(std::string(name) + " of " + std::string(tw::name(combo.back())));
      expect_definition(op, combo, context_);
    }
  }
}

// vdpbf16ps takes subnormal numbers for zeros, which tells who multiplied.
const bf16 kSubnormal(0x1p-127f), kLarge(0x1p126f);

TEST_P(Bf16Choice, IsWhatMatmulAndLinearMultiplyBy) {
  const float want = by_pairs() ? 0.0f : 0.5f;
  for (const int64_t m : {1, 3, 40, 300}) {  // as it lies, packed by a task, packed once for all
    const int64_t n = 70, k = 5;
    std::vector<bf16> x(size_t(m * k)), weight(size_t(n * k)), out(size_t(m * n), bf16(7.0f));
    for (int64_t i = 0; i < m; ++i) x[size_t(i * k)] = kSubnormal;
    for (int64_t i = 0; i < n; ++i) weight[size_t(i * k)] = kLarge;
    const View<const bf16, 3> a = view<const bf16>(x.data(), 1, m, k);
    const View<const bf16, 3> b{weight.data(), {1, k, n}, {0, 1, k}};

    kernels::Matmul<bf16> matmul{a, b, 1, {}, 1, view(out.data(), 1, m, n)};
    runtime::launch<ops::Matmul>(context_, matmul);
    for (const bf16 y : out) ASSERT_EQ(float(y), want) << "matmul, M=" << m;

    kernels::Linear<bf16> linear{};
    linear.x = rows<const bf16>(x.data(), m, k);
    linear.weight = view<const bf16>(weight.data(), n, k);
    linear.out = rows(out.data(), m, n);
    std::fill(out.begin(), out.end(), bf16(7.0f));
    runtime::launch<ops::Linear>(context_, linear);
    for (const bf16 y : out) ASSERT_EQ(float(y), want) << "linear, M=" << m;
  }
}

TEST_P(Bf16Choice, IsWhatAttentionMultipliesBy) {
  // Of two keys one has a score of 8 or, its subnormal factors being zeros, 0 as the other.
  const float want = by_pairs() ? 0.5f : 1.0f;
  for (const int64_t queries : {1, 2, 100}) {
    const int64_t dims = 16;
    std::vector<bf16> q(size_t(queries * dims)), k(size_t(2 * dims)), v(size_t(2 * dims));
    std::vector<bf16> out(size_t(queries * dims), bf16(7.0f));
    for (int64_t i = 0; i < queries; ++i) q[size_t(i * dims)] = kSubnormal;
    k[0] = kLarge;
    std::fill_n(v.begin(), dims, bf16(1.0f));

    kernels::Attention<bf16, bf16> kernel{};
    kernel.q = view<const bf16>(q.data(), 1, queries, 1, dims);
    kernel.k = view<const bf16>(k.data(), 1, 2, 1, dims);
    kernel.v = view<const bf16>(v.data(), 1, 2, 1, dims);
    kernel.scale = 16;
    kernel.window_left = kernel.window_right = -1;
    kernel.out = view(out.data(), 1, queries, 1, dims);
    runtime::launch<ops::Attention>(context_, kernel);
    for (const bf16 y : out) ASSERT_EQ(float(y), want) << "S=" << queries;
  }
}

INSTANTIATE_TEST_SUITE_P(Rates, Bf16Choice, ::testing::Values(0.5, 2.0),
                         [](const ::testing::TestParamInfo<double>& rate) {
                           return rate.param > 1 ? "pairs_are_quicker" : "pairs_are_slower";
                         });

}  // namespace
}  // namespace tw
