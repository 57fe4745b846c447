// Attention of few queries over keys and values of 8 bits on Hopper: the device's text of the warps
// that multiply, run by threads as lanes (testing/lanes), against the definition.
#include "tilewright/kernels/attention_across_sm90.h"

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tilewright/kernels/attention_policy_sm90.h"

namespace tw::kernels {
namespace {

constexpr double kLn2 = 0.6931471805599453;

struct Problem {
  int pack, queries, keys;  // of the one sequence
  int dims;
  int left = -1;  // of a causal window
  float softcap = 0;
  bool sinks = false, scales = false;
  int page = 0;         // keys; 0: there are none
  bool in_two = false;  // whether the keys are two tiles, parts of one
};

/// What is computed of it, in float64.
struct Wanted {
  double row[256], lse;
};

template <class T, class U, AttentionBuild kBuild>
class Across {
 public:
  using Block = AttentionBlock<T, kBuild>;
  using Shared = typename Block::Shared;

  explicit Across(const Problem& p) : p_(p), blocks_((p.keys + kBuild.keys - 1) / kBuild.keys) {
    const auto normal = [this] { return normal_(random_); };
    for (auto& row : q_)
      for (T& x : row) x = T(normal());
    for (auto* x : {&k_, &v_}) {
      x->resize(size_t(blocks_ * kBuild.keys * kBuild.dims));
      for (U& number : *x) number = U(std::is_same_v<U, int8_t> ? 40 * normal() : normal());
    }
    for (auto* x : {&k_scale_, &v_scale_}) {
      x->resize(size_t(p.keys));
      for (float& scale : *x) scale = (std::is_same_v<U, int8_t> ? 0.025F : 1.0F) * normal();
    }
    for (float& x : v_scale_) x *= std::exp2(8 * normal());  // of any size
    v_scale_[0] = 0;
    for (float& x : sinks_) x = normal();
  }

  /// The largest error of all rows, in parts of their rms; of the logarithms of sums as well.
  double error() {
    run();
    double worst = 0;
    const auto compare = [&](double want, double got, double unit) {
      const double off = std::abs(want - got) / unit;
      if (!(off <= worst)) worst = std::isnan(off) ? INFINITY : off;
    };
    for (int tile = 0; tile < tiles(); ++tile)
      for (int r = 0; r < p_.queries * p_.pack; ++r) {
        const Wanted wanted = wanted_of(r, tile);
        double squares = 0;
        for (int d = 0; d < p_.dims; ++d) squares += wanted.row[d] * wanted.row[d];
        const double rms = std::sqrt(squares / p_.dims) + 1e-30;
        const int row = tile * rows() + r;
        for (int d = 0; d < p_.dims; ++d)
          compare(wanted.row[d],
                  p_.in_two ? double(partials_[size_t(row * p_.dims + d)])
                            : double(float(out_[size_t(r * p_.dims + d)])),
                  rms);
        const float lse = p_.in_two ? partial_lse_[size_t(row)] : lse_[size_t(r)];
        if (std::isfinite(wanted.lse)) compare(wanted.lse, lse, 1);
      }
    return worst;
  }

 private:
  int tiles() const { return p_.in_two ? 2 : 1; }
  int rows() const { return p_.queries * p_.pack; }
  float scale() const { return 1 / std::sqrt(float(p_.dims)); }
  /// Keys of a tile: the second has the first ones.
  AttentionSpan keys_of(int tile) const {
    const int cut = kBuild.keys;  // the first block is the second tile's
    if (!p_.in_two) return {0, p_.keys};
    return tile == 0 ? AttentionSpan{cut, p_.keys} : AttentionSpan{0, cut};
  }

  Wanted wanted_of(int row, int tile) const {
    const int at = row / p_.pack + p_.keys - p_.queries;
    const AttentionSpan keys = keys_of(tile);
    std::vector<double> scores;
    double top = -INFINITY, total = 0;
    for (int j = keys.begin; j < keys.end; ++j) {
      double score = 0;
      for (int d = 0; d < p_.dims; ++d)
        score += double(float(q_[row][d])) * double(float(k_[size_t(j * kBuild.dims + d)]));
      score *= double(scale()) * (p_.scales ? double(k_scale_[size_t(j)]) : 1);
      if (p_.softcap > 0) score = double(p_.softcap) * std::tanh(score / double(p_.softcap));
      const bool seen = j <= at && (p_.left < 0 || j >= at - p_.left);
      scores.push_back(seen ? score : -INFINITY);
      top = std::max(top, scores.back());
    }
    const bool sinks = p_.sinks && !p_.in_two;
    if (sinks) top = std::max(top, double(sinks_[row % p_.pack]));
    Wanted out{};
    if (sinks) total += std::exp(double(sinks_[row % p_.pack]) - top);
    for (size_t i = 0; i < scores.size() && std::isfinite(top); ++i) {
      const double weight = std::exp(scores[i] - top);
      const auto j = i + size_t(keys.begin);
      total += weight;
      for (int d = 0; d < p_.dims; ++d)
        out.row[d] += weight * (p_.scales ? double(v_scale_[j]) : 1) *
                      double(float(v_[j * kBuild.dims + size_t(d)]));
    }
    for (int d = 0; d < p_.dims && total > 0; ++d) out.row[d] /= total;
    out.lse = top + std::log(total);
    return out;
  }

  /// A block of keys or values as TMA leaves it: what is no key's is any memory.
  void put(char* to, const std::vector<U>& from, int block) const {
    constexpr int kRow = Block::kBoxRowBytes;
    std::memset(to, 0x7f, size_t(kBuild.keys * kBuild.dims));  // NaN, of e4m3
    for (int key = 0; key < kBuild.keys && block * kBuild.keys + key < p_.keys; ++key)
      for (int d = 0; d < kBuild.dims; ++d) {
        const int turn = kRow == 128 ? key % 8 : 0, column = d % kRow;
        to[d / kRow * kBuild.keys * kRow + key * kRow + ((column / 16) ^ turn) * 16 + column % 16] =
            std::bit_cast<char>(from[size_t((block * kBuild.keys + key) * kBuild.dims + d)]);
      }
  }
  void put_queries(char* to) const {
    for (int r = 0; r < rows(); ++r)
      for (int d = 0; d < kBuild.dims; ++d) {
        const T x = d < p_.dims ? q_[r][d] : T(0.0F);
        const int column = d % 64 * 2;
        std::memcpy(to + d / 64 * Block::kQueryChunkBytes + r * 128 +
                        ((column / 16) ^ (r % 8)) * 16 + column % 16,
                    &x, sizeof x);
      }
  }

  void run() {
    AttentionArguments<T> given{};
    given.pack = p_.pack, given.heads_per_kv = 1;
    given.value_dims = p_.dims;
    given.before = p_.left, given.after = 0;
    const float factor = p_.softcap > 0 ? p_.softcap : scale();
    given.score_scale = p_.softcap > 0 ? scale() / p_.softcap : 0;
    given.exponent_scale = factor / float(kLn2);
    if (p_.sinks) given.sinks.data = sinks_, given.sinks.strides[0] = 1;
    const std::vector<float> k_scale = in_memory(k_scale_), v_scale = in_memory(v_scale_);
    if (p_.scales) given.k_scale = scales_of(k_scale), given.v_scale = scales_of(v_scale);
    std::vector<int32_t> table;
    if (p_.page > 0) {
      for (int i = pages(); i-- > 0;) table.push_back(i);
      given.table.data = table.data();
      given.table.strides[1] = 1;
      given.page_keys = p_.page;
    }
    out_.assign(size_t(rows() * p_.dims), T(NAN));
    lse_.assign(size_t(rows()), NAN);
    partials_.assign(size_t(2 * rows() * p_.dims), NAN);
    partial_lse_.assign(size_t(2 * rows()), NAN);
    given.rows = {out_.data(), 0, p_.pack * p_.dims, p_.dims};
    given.lse = {lse_.data(), 0, p_.pack, 1};
    given.partials = partials_.data(), given.partial_lse = partial_lse_.data();
    given.part_rows = rows();

    const auto shared = std::make_unique<Shared>();
    std::memset(static_cast<void*>(shared.get()), 0x7f, sizeof(Shared));
    Block::init(*shared);
    int filled = 0;
    for (int i = 0; i <= tiles(); ++i) {
      AttentionTile& tile = shared->tiles.tiles[i];
      tile = {};
      tile.q_len = p_.queries, tile.kv_len = p_.keys;
      tile.ends = i == tiles();
      if (!tile.ends) {
        tile.slot = p_.in_two ? i : -1;
        tile.find_blocks(given, p_.queries, kBuild.keys);
        if (p_.in_two && i == 0) tile.first_block = 1;
        if (p_.in_two && i == 1) tile.last_block = 1;
        put_queries(shared->q[i][0]);
        shared->q_full[i][0].arrive();
        for (int block = tile.last_block; block-- > tile.first_block; ++filled) {
          ASSERT_LT(filled, kBuild.stages);
          put(shared->k[filled], k_, block);
          put(shared->v[filled], v_, block);
          shared->k_full[filled].arrive();
          shared->v_full[filled].arrive();
        }
      }
      shared->tiles.full[i].arrive();
    }
    testing::run_block(0, unsigned(kBuild.threads()), [&] {
      if (threadIdx.x >= 128) AttentionAcross<T, U, kBuild>{given}(*shared);
    });
  }
  int pages() const { return (p_.keys + p_.page - 1) / p_.page; }
  /// One after the other, or in pages, the last page first.
  std::vector<float> in_memory(const std::vector<float>& of) const {
    if (p_.page == 0) return of;
    std::vector<float> out(size_t(pages() * p_.page), NAN);
    for (int i = 0; i < p_.keys; ++i)
      out[size_t((pages() - 1 - i / p_.page) * p_.page + i % p_.page)] = of[size_t(i)];
    return out;
  }
  AttentionScales scales_of(const std::vector<float>& of) const {
    return {of.data(), p_.page, 1, 0};
  }

  Problem p_;
  int blocks_;
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
  T q_[kBuild.across][256];
  std::vector<U> k_, v_;
  std::vector<float> k_scale_, v_scale_;
  float sinks_[kBuild.across];
  std::vector<T> out_;
  std::vector<float> lse_, partials_, partial_lse_;
};

template <class T, class U, int kIndex>
double error_of(const Problem& p) {
  return Across<T, U, kAttentionNarrowBuilds[kIndex]>(p).error();
}

// Of what is rounded to them; weights are f16.
constexpr double kBf16 = 2e-2, kF16 = 3e-3;

TEST(AttentionAcross, AgreesWithTheDefinition) {
  EXPECT_LT((error_of<bf16, int8_t, 5>({4, 1, 200, 128})), kBf16);
  EXPECT_LT((error_of<f16, f8_e4m3fn, 5>({3, 2, 300, 128, 100, 0, true})), kF16);
  EXPECT_LT((error_of<f16, int8_t, 6>({12, 1, 129, 128, -1, 5})), kF16);
  EXPECT_LT((error_of<bf16, f8_e4m3fn, 3>({7, 1, 400, 64, -1, 0, true})), kBf16);
  EXPECT_LT((error_of<f16, int8_t, 7>({8, 1, 140, 256})), kF16);
}
TEST(AttentionAcross, ScalesMayHaveAnySizeAndSign) {
  EXPECT_LT((error_of<bf16, int8_t, 5>({4, 2, 250, 128, -1, 0, true, true})), kBf16);
  EXPECT_LT((error_of<bf16, f8_e4m3fn, 3>({4, 1, 330, 64, 150, 0, false, true, 16})), kBf16);
  EXPECT_LT((error_of<bf16, f8_e4m3fn, 5>({2, 1, 500, 128, -1, 0, false, true, 256})), kBf16);
}
TEST(AttentionAcross, PartsAreLeftInFloat32) {
  EXPECT_LT((error_of<bf16, int8_t, 5>({4, 2, 300, 128, -1, 0, true, true, 0, true})), kF16);
}

}  // namespace
}  // namespace tw::kernels
