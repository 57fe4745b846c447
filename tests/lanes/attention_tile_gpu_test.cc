// Tiles of attention on any GPU: the device's text of whole programs, run by threads as lanes
// (testing/lanes), against the definition.
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/tile/cpu/vector.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile {  // device code has these functions of a number, a CPU's of vectors
template <>
struct vector_traits<float> {
  using scalar = float;
  static constexpr int kLanes = 1;
};
inline float exp(float x) {
  return std::exp(x);
}
inline float exp_below(float x, float base) {
  return std::exp(x - base);
}
inline float log(float x) {
  return std::log(x);
}
inline float rsqrt(float x) {
  return 1 / std::sqrt(x);
}
struct OneLane {
  float lane = 0;
  float& operator[](int) { return lane; }
};
inline OneLane tanh(OneLane x) {
  return {std::tanh(x.lane)};
}
inline float first_lane(OneLane x) {
  return x.lane;
}
}  // namespace tw::tile

#include "tilewright/kernels/attention.h"
#include "tilewright/kernels/attention_tile_gpu.h"

namespace tw::kernels {
namespace {

struct LaneProgram {
  template <class C>
  using Vec = tile::OneLane;
  static int thread() { return int(threadIdx.x); }
  static void sync() { __syncthreads(); }

  int64_t number;
  int64_t index() const { return number; }
};

struct Problem {
  int queries, keys, heads, kv_heads, dims, value_dims;
  bool causal = false, sinks = false;
  int left = -1;  // of the window
  float softcap = 0;
  int gap = 0;  // between rows of queries and keys
};

template <class T, int kRank>
View<T, kRank> view_of(T* data, const std::array<int64_t, kRank>& sizes) {
  View<T, kRank> out{};
  out.data = data;
  int64_t stride = 1;
  for (int i = kRank; i-- > 0; stride *= sizes[size_t(i)]) {
    out.sizes[i] = sizes[size_t(i)];
    out.strides[i] = stride;
  }
  return out;
}
template <class T>
std::vector<T> random_of(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> out(static_cast<size_t>(count));
  for (T& x : out) x = T(normal(random));
  return out;
}

/// Runs all programs, as on a GPU whose blocks have `shared_bytes`.
template <class T>
void run_tiles(const Attention<T, T>& kernel, int64_t shared_bytes, bool is_large) {
  const auto tiles = attention_tiles<T, T>(kernel, shared_bytes);
  const tile::Plan plan = tiles.plan();
  EXPECT_EQ(tiles.is_large, is_large);
  EXPECT_LE(plan.scratch_bytes, shared_bytes);
  std::memset(tile::cuda::shared_scratch, 0xff, sizeof tile::cuda::shared_scratch);
  for (int64_t i = 0; i < plan.grid[0]; ++i)
    testing::run_block(unsigned(i), unsigned(tiles.cut().threads()),
                       [&] { run_attention_tile<T, T>(LaneProgram{i}, kernel, tiles); });
}

/// The largest error of outputs and of the logarithms of sums.
template <class T>
double error_of(const Problem& p, int64_t shared_bytes, bool is_large) {
  const int pitch = p.dims + p.gap;
  const auto q = random_of<T>(p.queries * p.heads * pitch, 1);
  const auto k = random_of<T>(p.keys * p.kv_heads * pitch, 2);
  const auto v = random_of<T>(p.keys * p.kv_heads * p.value_dims, 3);
  const auto sinks = random_of<float>(p.heads, 4);
  std::vector<T> out(size_t(p.queries * p.heads * p.value_dims), T(NAN));
  std::vector<float> lse(size_t(p.heads * p.queries), NAN);

  Attention<T, T> kernel{};
  kernel.q = view_of<const T, 4>(q.data(), {1, p.queries, p.heads, pitch});
  kernel.k = view_of<const T, 4>(k.data(), {1, p.keys, p.kv_heads, pitch});
  kernel.v = view_of<const T, 4>(v.data(), {1, p.keys, p.kv_heads, p.value_dims});
  kernel.q.sizes[3] = kernel.k.sizes[3] = p.dims;
  if (p.sinks) kernel.sinks = view_of<const float, 1>(sinks.data(), {p.heads});
  kernel.causal = p.causal;
  kernel.window_left = p.left;
  kernel.window_right = -1;
  kernel.softcap = p.softcap;
  kernel.out = view_of<T, 4>(out.data(), {1, p.queries, p.heads, p.value_dims});
  kernel.lse = view_of<float, 3>(lse.data(), {1, p.heads, p.queries});

  run_tiles<T>(kernel, shared_bytes, is_large);

  double worst = 0;
  const auto compare = [&](double want, double got) {
    const double error = std::abs(want - got);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  };
  std::vector<double> weights(static_cast<size_t>(p.keys));
  for (int i = 0; i < p.queries; ++i)
    for (int h = 0; h < p.heads; ++h) {
      const int kv_head = h / (p.heads / p.kv_heads);
      const KeyRange seen = kernel.options().mask(p.queries, p.keys).keys(i);
      double total = p.sinks ? std::exp(double(sinks[size_t(h)])) : 0;
      for (int j = 0; j < p.keys; ++j) {
        double score = 0;
        for (int d = 0; d < p.dims; ++d)
          score += double(float(kernel.q(0, i, h, d))) * double(float(kernel.k(0, j, kv_head, d)));
        score /= std::sqrt(double(p.dims));
        if (p.softcap > 0) score = double(p.softcap) * std::tanh(score / double(p.softcap));
        weights[size_t(j)] = j >= seen.begin && j < seen.end ? std::exp(score) : 0;
        total += weights[size_t(j)];
      }
      for (int d = 0; d < p.value_dims; ++d) {
        double want = 0;
        for (int j = 0; j < p.keys; ++j)
          want += weights[size_t(j)] * double(float(kernel.v(0, j, kv_head, d)));
        compare(total > 0 ? want / total : 0, double(float(kernel.out(0, i, h, d))));
      }
      if (total > 0) compare(std::log(total), double(kernel.lse(0, h, i)));
    }
  return worst;
}

constexpr int64_t kSmall = 99 << 10, kLarge = 227 << 10;

TEST(AttentionTile, MultipliesFloat32) {
  EXPECT_LT(error_of<float>({64, 100, 1, 1, 64, 64}, kSmall, false), 1e-5);
  EXPECT_LT(error_of<float>({33, 90, 2, 1, 80, 136, true, true}, kSmall, true), 1e-5);
  EXPECT_LT(error_of<float>({20, 70, 1, 1, 200, 40, true, false, -1, 5}, kSmall, false), 1e-5);
  EXPECT_LT(error_of<float>({20, 70, 1, 1, 61, 67, false, false, 9, 0, 2}, kSmall, true), 1e-5);
}
TEST(AttentionTile, Multiplies16Bits) {
  EXPECT_LT(error_of<bf16>({40, 75, 2, 1, 64, 64, true, true}, kSmall, false), 8e-3);
  EXPECT_LT(error_of<bf16>({20, 40, 1, 1, 300, 130, true}, kSmall, false), 8e-3);
  EXPECT_LT(error_of<f16>({20, 70, 1, 1, 96, 65, false, false, 30, 3, 1}, kSmall, false), 1e-3);
}
TEST(AttentionTile, SharesWideRowsAmongWarps) {
  EXPECT_LT(error_of<bf16>({17, 70, 1, 1, 512, 512}, kLarge, true), 8e-3);
  EXPECT_LT(error_of<f16>({30, 70, 2, 1, 300, 260, true, true, -1, 3}, kLarge, true), 1e-3);
  EXPECT_LT(error_of<bf16>({10, 70, 1, 1, 129, 515, true, false, 50, 0, 3}, kLarge, true), 8e-3);
}

}  // namespace
}  // namespace tw::kernels
