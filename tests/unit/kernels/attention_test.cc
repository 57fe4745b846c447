// What the definition cannot state: that a row has the same bits however it is computed, and that
// memory past the valid lengths has no influence.
#include "tilewright/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/ops/attention_paged.h"
#include "tilewright/ops/attention_varlen.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  testing::Random random(seed);
  std::vector<T> out(static_cast<size_t>(count));
  for (T& x : out) {
    if constexpr (std::is_same_v<T, int8_t>)
      x = static_cast<int8_t>(random.below(31) - 15);
    else
      x = static_cast<T>(random.normal());
  }
  return out;
}

template <class T>
T poison_of() {
  if constexpr (std::is_same_v<T, int8_t>)
    return int8_t{127};
  else
    return T(kNan);
}

/// Queries at the end of a sequence, its keys and values, and options.
template <class T, class U>
struct Problem {
  int64_t queries, keys, q_heads, kv_heads, dims;
  std::vector<T> q;
  std::vector<U> k, v;
  std::vector<float> k_scale, v_scale;
  bool causal = true;
  int64_t window = -1;
  float softcap = 0;
  std::vector<float> sinks;

  Problem(int64_t queries_, int64_t keys_, int64_t q_heads_, int64_t kv_heads_, int64_t dims_)
      : queries(queries_), keys(keys_), q_heads(q_heads_), kv_heads(kv_heads_), dims(dims_) {
    q = random_values<T>(queries * q_heads * dims, 1);
    k = random_values<U>(keys * kv_heads * dims, 2);
    v = random_values<U>(keys * kv_heads * dims, 3);
    if (!std::is_same_v<U, int8_t>) return;
    k_scale.resize(static_cast<size_t>(keys * kv_heads));
    testing::Random random(4);
    for (float& s : k_scale) s = static_cast<float>(0.02 + 0.1 * random.uniform());
    v_scale = k_scale;
    std::reverse(v_scale.begin(), v_scale.end());
  }

  View<const T, 4> q_view() const { return view(q.data(), 1, queries, q_heads, dims); }
  View<const float, 1> sinks_view() const {
    return sinks.empty() ? View<const float, 1>{} : view(sinks.data(), q_heads);
  }
};

template <class T>
struct Result {
  std::vector<T> out;
  std::vector<float> lse;  // [Hq, S]

  Result(int64_t queries, int64_t q_heads, int64_t dims)
      : out(static_cast<size_t>(queries * q_heads * dims), T(kNan)),
        lse(static_cast<size_t>(queries * q_heads), kNan) {}
};

template <class T>
bool same_bits(const T* a, const T* b, int64_t count) {
  return count == 0 || std::memcmp(a, b, static_cast<size_t>(count) * sizeof(T)) == 0;
}
template <class T>
bool same_bits(const Result<T>& a, const Result<T>& b) {
  return a.out.size() == b.out.size() &&
         same_bits(a.out.data(), b.out.data(), static_cast<int64_t>(a.out.size())) &&
         same_bits(a.lse.data(), b.lse.data(), static_cast<int64_t>(a.lse.size()));
}

/// Queries [first, end) as if the sequence ended with them.
template <class T, class U>
Result<T> run_contiguous(runtime::Context& context, const Problem<T, U>& p, int64_t first,
                         int64_t end) {
  const int64_t before = p.keys - p.queries, count = end - first;
  Result<T> result(count, p.q_heads, p.dims);
  const auto lens = static_cast<int32_t>(before + end);
  kernels::Attention<T, U> kernel{};
  kernel.q = p.q_view();
  kernel.q.data += first * p.q_heads * p.dims;
  kernel.q.sizes[1] = count;
  kernel.k = view(p.k.data(), 1, p.keys, p.kv_heads, p.dims);
  kernel.v = view(p.v.data(), 1, p.keys, p.kv_heads, p.dims);
  kernel.kv_lens = view(&lens, 1);
  kernel.sinks = p.sinks_view();
  if (!p.k_scale.empty()) kernel.k_scale = view(p.k_scale.data(), 1, p.keys, p.kv_heads);
  if (!p.v_scale.empty()) kernel.v_scale = view(p.v_scale.data(), 1, p.keys, p.kv_heads);
  kernel.causal = p.causal;
  kernel.window_left = p.window;
  kernel.window_right = -1;
  kernel.softcap = p.softcap;
  kernel.out = view(result.out.data(), 1, count, p.q_heads, p.dims);
  kernel.lse = view(result.lse.data(), 1, p.q_heads, count);
  runtime::launch<ops::Attention>(context, kernel);
  return result;
}

/// The same keys in pages in falling order; what no key fills is poisoned. Keys lie along the page
/// when `transposed`.
template <class T, class U>
Result<T> run_paged(runtime::Context& context, const Problem<T, U>& p, int64_t page_size,
                    bool transposed) {
  const int64_t used = (p.keys + page_size - 1) / page_size, pages = used + 2;
  std::vector<int32_t> table(static_cast<size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  testing::Random random(8);
  for (size_t i = table.size() - 1; i > 0; --i)
    std::swap(table[i], table[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
  const auto size = static_cast<size_t>(pages * page_size * p.kv_heads * p.dims);
  std::vector<U> k(size, poison_of<U>()), v(size, poison_of<U>());
  std::vector<float> k_scale(size / static_cast<size_t>(p.dims), kNan), v_scale = k_scale;
  View<U, 4> k_pages = view(k.data(), pages, page_size, p.kv_heads, p.dims);
  if (transposed) {
    k_pages.strides[0] = p.kv_heads * p.dims * page_size;
    k_pages.strides[1] = 1;
    k_pages.strides[2] = p.dims * page_size;
    k_pages.strides[3] = page_size;
  }
  const View<U, 4> v_pages = view(v.data(), pages, page_size, p.kv_heads, p.dims);
  for (int64_t j = 0; j < p.keys; ++j) {
    const int64_t page = table[static_cast<size_t>(j / page_size)], at = j % page_size;
    for (int64_t h = 0; h < p.kv_heads; ++h) {
      const auto from = static_cast<size_t>(j * p.kv_heads + h);
      const auto to = static_cast<size_t>((page * page_size + at) * p.kv_heads + h);
      if (!p.k_scale.empty()) k_scale[to] = p.k_scale[from], v_scale[to] = p.v_scale[from];
      for (int64_t d = 0; d < p.dims; ++d) {
        k_pages(page, at, h, d) = p.k[from * static_cast<size_t>(p.dims) + static_cast<size_t>(d)];
        v_pages(page, at, h, d) = p.v[from * static_cast<size_t>(p.dims) + static_cast<size_t>(d)];
      }
    }
  }
  Result<T> result(p.queries, p.q_heads, p.dims);
  const auto lens = static_cast<int32_t>(p.keys);
  kernels::AttentionPaged<T, U> kernel{};
  kernel.q = p.q_view()[0];
  kernel.k_pages = {
      k.data(),
      {pages, page_size, p.kv_heads, p.dims},
      {k_pages.strides[0], k_pages.strides[1], k_pages.strides[2], k_pages.strides[3]}};
  kernel.v_pages = view(static_cast<const U*>(v.data()), pages, page_size, p.kv_heads, p.dims);
  kernel.block_table = view(static_cast<const int32_t*>(table.data()), 1, used);
  kernel.kv_lens = view(&lens, 1);
  kernel.sinks = p.sinks_view();
  if (!p.k_scale.empty()) {
    kernel.k_scale = view(static_cast<const float*>(k_scale.data()), pages, page_size, p.kv_heads);
    kernel.v_scale = view(static_cast<const float*>(v_scale.data()), pages, page_size, p.kv_heads);
  }
  kernel.causal = p.causal;
  kernel.window_left = p.window;
  kernel.window_right = -1;
  kernel.softcap = p.softcap;
  kernel.out = view(result.out.data(), p.queries, p.q_heads, p.dims);
  kernel.lse = view(result.lse.data(), p.q_heads, p.queries);
  runtime::launch<ops::AttentionPaged>(context, kernel);
  return result;
}

class AttentionKernel : public ::testing::TestWithParam<Isa> {
 protected:
  runtime::ThreadPool one_{1}, two_{2};
  runtime::Context single_{one_, GetParam()}, pair_{two_, GetParam()};

  /// Rows [first, end) of `whole` against a run of only them.
  template <class T, class U>
  void expect_rows(runtime::Context& context, const Problem<T, U>& p, const Result<T>& whole,
                   int64_t first, int64_t end) {
    const Result<T> part = run_contiguous(context, p, first, end);
    const int64_t row = p.q_heads * p.dims;
    EXPECT_TRUE(same_bits(part.out.data(), whole.out.data() + first * row, (end - first) * row))
        << "queries " << first << " .. " << end << " differ from the whole prompt";
    for (int64_t h = 0; h < p.q_heads; ++h)
      EXPECT_TRUE(same_bits(part.lse.data() + h * (end - first),
                            whole.lse.data() + h * p.queries + first, end - first))
          << "lse of head " << h;
  }

  template <class T, class U>
  void expect_same_for_all_paths(const Problem<T, U>& p) {
    const Result<T> whole = run_contiguous(single_, p, 0, p.queries);
    for (const T& x : whole.out) ASSERT_TRUE(std::isfinite(static_cast<float>(x)));
    EXPECT_TRUE(same_bits(whole, run_contiguous(pair_, p, 0, p.queries))) << "two threads";
    for (const int64_t page : {10, 16, 64})
      for (const bool transposed : {false, true})
        EXPECT_TRUE(same_bits(whole, run_paged(pair_, p, page, transposed)))
            << "pages of " << page << (transposed ? ", keys along the page" : "");
    expect_rows(pair_, p, whole, 0, 37);
    expect_rows(pair_, p, whole, 37, 38);
    expect_rows(pair_, p, whole, 38, p.queries);
    for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{130}, p.queries - 1}) {
      expect_rows(single_, p, whole, i, i + 1);
      expect_rows(pair_, p, whole, i, i + 1);
    }
  }
};

TEST_P(AttentionKernel, AllPathsGiveTheSameBits) {
  expect_same_for_all_paths(Problem<float, float>(200, 500, 3, 1, 64));
  expect_same_for_all_paths(Problem<bf16, bf16>(200, 400, 8, 2, 32));
  expect_same_for_all_paths(Problem<float, f16>(150, 150, 2, 2, 40));
  expect_same_for_all_paths(Problem<f16, int8_t>(170, 300, 7, 1, 48));
}

TEST_P(AttentionKernel, AllPathsGiveTheSameBitsWithEveryOption) {
  const auto expect_same = [this](auto p) {
    p.window = 150;
    p.softcap = 4;
    p.sinks = {0.5f, -3.0f, 2.0f, 9.0f};
    expect_same_for_all_paths(p);
  };
  expect_same(Problem<float, bf16>(200, 600, 4, 2, 36));
  expect_same(Problem<bf16, bf16>(200, 600, 4, 2, 36));
}

TEST_P(AttentionKernel, PagedDecodeReadsTransposedKeys) {
  for (const int64_t keys : {1, 15, 16, 17, 127, 128, 129, 1000}) {
    Problem<bf16, bf16> p(1, keys, 9, 3, 64);
    const Result<bf16> want = run_contiguous(single_, p, 0, 1);
    EXPECT_TRUE(same_bits(want, run_paged(pair_, p, 32, true))) << keys << " keys";
    EXPECT_TRUE(same_bits(want, run_paged(single_, p, 32, false))) << keys << " keys";
  }
}

TEST_P(AttentionKernel, ASequenceInABatchHasTheBitsItHasAlone) {
  const int64_t heads = 2, dims = 32, tokens = 420;
  const std::vector<int32_t> cu_q{0, 1, 1, 90, 91, 220}, cu_kv{0, 200, 230, 330, 331, 420};
  const auto q = random_values<float>(220 * heads * dims, 5);
  const auto k = random_values<float>(tokens * dims, 6), v = random_values<float>(tokens * dims, 7);
  std::vector<float> out(q.size(), kNan);
  kernels::AttentionVarlen<float, float> all{};
  all.q = view(q.data(), 220, heads, dims);
  all.k = view(k.data(), tokens, 1, dims);
  all.v = view(v.data(), tokens, 1, dims);
  all.cu_seqlens_q = view(cu_q.data(), 6);
  all.cu_seqlens_kv = view(cu_kv.data(), 6);
  all.causal = true;
  all.window_left = all.window_right = -1;
  all.out = view(out.data(), 220, heads, dims);
  runtime::launch<ops::AttentionVarlen>(pair_, all);

  for (size_t b = 0; b < 5; ++b) {
    const int64_t first = cu_q[b], count = cu_q[b + 1] - first;
    const int64_t first_key = cu_kv[b], keys = cu_kv[b + 1] - first_key;
    std::vector<float> alone(static_cast<size_t>(count * heads * dims), kNan);
    kernels::Attention<float, float> one{};
    one.q = view(q.data() + first * heads * dims, 1, count, heads, dims);
    one.k = view(k.data() + first_key * dims, 1, keys, 1, dims);
    one.v = view(v.data() + first_key * dims, 1, keys, 1, dims);
    one.causal = true;
    one.window_left = one.window_right = -1;
    one.out = view(alone.data(), 1, count, heads, dims);
    runtime::launch<ops::Attention>(single_, one);
    EXPECT_TRUE(same_bits(alone.data(), out.data() + first * heads * dims, count * heads * dims))
        << "sequence " << b;
  }
}

TEST_P(AttentionKernel, OneKeyGivesItsValue) {
  Problem<float, float> p(1, 1, 4, 2, 24);
  const Result<float> result = run_contiguous(pair_, p, 0, 1);
  for (int64_t h = 0; h < 4; ++h)
    EXPECT_TRUE(same_bits(result.out.data() + h * 24, p.v.data() + h / 2 * 24, 24));
}

TEST_P(AttentionKernel, NoKeyGivesZerosAndMinusInfinity) {
  Problem<float, float> p(5, 2, 2, 1, 16);  // causal: the first three queries stand before all keys
  const Result<float> result = run_contiguous(pair_, p, 0, 5);
  for (size_t i = 0; i < 3 * 2 * 16; ++i) EXPECT_EQ(result.out[i], 0.0f);
  for (size_t h = 0; h < 2; ++h)
    for (size_t i = 0; i < 5; ++i)
      EXPECT_EQ(std::isinf(result.lse[h * 5 + i]), i < 3) << "query " << i;
}

TEST_P(AttentionKernel, ASinkIsAKeyWithoutAValue) {
  Problem<float, float> p(20, 150, 2, 1, 16);
  const Result<float> without = run_contiguous(pair_, p, 0, 20);
  p.sinks = {3.0f, -1.0f};
  const Result<float> with = run_contiguous(pair_, p, 0, 20);
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t h = 0; h < 2; ++h) {
      const double lse = without.lse[static_cast<size_t>(h * 20 + i)];
      const double sink = p.sinks[static_cast<size_t>(h)];
      const double both = lse + std::log1p(std::exp(sink - lse));
      EXPECT_NEAR(with.lse[static_cast<size_t>(h * 20 + i)], both, 1e-5);
      for (int64_t d = 0; d < 16; ++d) {
        const auto at = static_cast<size_t>((i * 2 + h) * 16 + d);
        EXPECT_NEAR(with.out[at], without.out[at] * std::exp(lse - both), 1e-5);
      }
    }
}

TEST_P(AttentionKernel, MemoryPastTheLengthHasNoInfluence) {
  const auto expect_none = [this]<class T>(const Problem<T, T>& p) {
    const Result<T> want = run_contiguous(pair_, p, 0, p.queries);
    Problem<T, T> longer = p;
    longer.k.resize(p.k.size() + 1000 * 64, T(kNan));
    longer.v.resize(p.v.size() + 1000 * 64, T(kNan));
    longer.keys += 1000;
    longer.queries += 1000;  // the run is told that the sequence ends with its last query
    EXPECT_TRUE(same_bits(want, run_contiguous(pair_, longer, 0, p.queries)));
  };
  for (const int64_t queries : {1, 40}) {
    expect_none(Problem<float, float>(queries, 140, 4, 2, 32));
    expect_none(Problem<bf16, bf16>(queries, 140, 4, 2, 32));
  }
}

TEST_P(AttentionKernel, NanReachesTheRowsThatSeeIt) {
  const auto expect_nan = [this]<class T>(Problem<T, T> p) {
    p.k[50 * 16 + 3] = T(kNan);
    const Result<T> result = run_contiguous(pair_, p, 0, 70);
    for (size_t i = 0; i < 70; ++i)
      EXPECT_EQ(std::isnan(static_cast<float>(result.out[i * 16])), i >= 50) << i;
  };
  expect_nan(Problem<float, float>(70, 70, 1, 1, 16));
  expect_nan(Problem<bf16, bf16>(70, 70, 1, 1, 16));
}

INSTANTIATE_TEST_SUITE_P(, AttentionKernel, ::testing::ValuesIn(runtime::available_isas()),
                         [](const auto& isa) { return std::string(name(isa.param)); });

TEST(AttentionRules, RefusesLengthsAndPagesOutOfRange) {
  const std::vector<float> data(64);
  std::vector<float> out(8);
  std::vector<int32_t> lens{9}, table{0, 4};
  kernels::Attention<float, float> dense{};
  dense.q = view(data.data(), 1, 1, 2, 4);
  dense.k = dense.v = view(data.data(), 1, 8, 2, 4);
  dense.kv_lens = view(static_cast<const int32_t*>(lens.data()), 1);
  EXPECT_FALSE(ops::Attention::supports(dense));
  lens[0] = 8;
  EXPECT_TRUE(ops::Attention::supports(dense));
  lens[0] = -1;
  EXPECT_FALSE(ops::Attention::supports(dense));
  lens[0] = 1;
  dense.softcap = -1;
  EXPECT_FALSE(ops::Attention::supports_shapes(dense));
  dense.softcap = 0;
  dense.q.sizes[2] = 3;
  EXPECT_FALSE(ops::Attention::supports_shapes(dense));

  kernels::AttentionPaged<float, float> paged{};
  paged.q = view(data.data(), 1, 2, 4);
  paged.k_pages = paged.v_pages = view(data.data(), 4, 2, 2, 4);
  paged.block_table = view(static_cast<const int32_t*>(table.data()), 1, 2);
  paged.kv_lens = view(static_cast<const int32_t*>(lens.data()), 1);
  lens[0] = 2;
  EXPECT_TRUE(ops::AttentionPaged::supports(paged));  // page 4 is not reached
  lens[0] = 3;
  EXPECT_FALSE(ops::AttentionPaged::supports(paged));
  lens[0] = 5;
  EXPECT_FALSE(ops::AttentionPaged::supports(paged));

  const std::vector<int32_t> falling{0, 3, 2};
  EXPECT_FALSE(ops::AttentionFamily::supports_offsets("cu", view(falling.data(), 3), 10));
}

}  // namespace
}  // namespace tw
