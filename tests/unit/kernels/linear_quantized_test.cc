// What the conformance suite cannot state of the quantised linear layer: the very bits of its
// modes and what rounding activations costs.
#include "tilewright/ops/linear_quantized.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/kernels/quantized_weight.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

using testing::block_dtypes;
using testing::bytes_of;
using testing::bytes_view;
using testing::expect_same_bits;
using testing::normals;
using testing::Weight;

using Kernel = kernels::LinearQuantized<float>;
using kernels::QuantizedCompute;
using enum QuantizedCompute;

constexpr QuantizedCompute kComputes[] = {kInt8, kInt16, kBf16, kF32};

const char* name_of(QuantizedCompute compute) {
  return compute == kInt8    ? "int8"
         : compute == kInt16 ? "int16"
         : compute == kBf16  ? "bf16"
                             : "f32";
}

std::vector<float> run(runtime::Context& context, const Weight& w, const float* x, int64_t tokens,
                       QuantizedCompute compute) {
  std::vector<float> out(static_cast<size_t>(tokens * w.rows), NAN);
  runtime::launch<ops::LinearQuantized>(context, Kernel{rows<const float>(x, tokens, w.k),
                                                        bytes_view(w.packed),
                                                        {},
                                                        {},
                                                        0,
                                                        int(compute),
                                                        -1,
                                                        rows(out.data(), tokens, w.rows)});
  return out;
}

class LinearQuantized : public ::testing::TestWithParam<DType> {
 protected:
  /// Calls f with a context of two threads for every build that this machine runs.
  template <class F>
  void for_each_isa(F&& f) {
    runtime::ThreadPool pool(2);
    for (const Isa isa : runtime::available_isas()) {
      SCOPED_TRACE("isa " + std::to_string(int(isa)));
      runtime::Context context(pool, isa);
      f(context);
    }
  }
};

TEST_P(LinearQuantized, ATokenHasTheSameBitsInAnyBatch) {
  const int64_t tokens = 43, k = 3 * info(GetParam()).block_elements;
  const Weight w(GetParam(), 53, k);
  const auto x = normals(tokens * k, 3);
  for_each_isa([&](runtime::Context& context) {
    for (const QuantizedCompute compute : kComputes) {
      const auto all = run(context, w, x.data(), tokens, compute);
      for (int64_t first = 0, count = 1; first < tokens; first += count++) {
        count = std::min(count, tokens - first);
        const auto some = run(context, w, x.data() + first * k, count, compute);
        expect_same_bits(some.data(), all.data() + first * w.rows, count * w.rows,
                         name_of(compute));
      }
    }
  });
}

/// f32 is the textbook: one chain of fused multiply-adds over k.
TEST_P(LinearQuantized, Float32IsOneChainOverK) {
  const int64_t tokens = 5, k = 2 * info(GetParam()).block_elements;
  const Weight w(GetParam(), 18, k);
  const auto x = normals(tokens * k, 5);
  std::vector<float> want;
  for (int64_t m = 0; m < tokens; ++m) {
    for (int64_t n = 0; n < w.rows; ++n) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum = std::fma(x[size_t(m * k + i)], w.values[size_t(n * k + i)], sum);
      want.push_back(sum);
    }
  }
  for_each_isa([&](runtime::Context& context) {
    const auto got = run(context, w, x.data(), tokens, kF32);
    expect_same_bits(got.data(), want.data(), tokens * w.rows, "f32");
  });
}

/// Activations of 32 with one step of max / 127 err by max / 254 at most, max / 440 in the mean:
/// for normal data about 0.5 % of an output's deviation.
TEST_P(LinearQuantized, RoundingActivationsCostsLittle) {
  const int64_t tokens = 24, k = 1024;
  const Weight w(GetParam(), 48, k);
  const auto x = normals(tokens * k, 9);
  double power = 0;
  std::vector<double> want;
  for (int64_t m = 0; m < tokens; ++m) {
    for (int64_t n = 0; n < w.rows; ++n) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += double(x[size_t(m * k + i)]) * double(w.values[size_t(n * k + i)]);
      want.push_back(sum);
      power += sum * sum;
    }
  }
  for_each_isa([&](runtime::Context& context) {
    for (const QuantizedCompute compute : kComputes) {
      const auto got = run(context, w, x.data(), tokens, compute);
      double error = 0;
      for (size_t i = 0; i < want.size(); ++i) error += std::pow(double(got[i]) - want[i], 2);
      const double relative = std::sqrt(error / power);
      const auto [least, most] = compute == kF32     ? std::pair(0.0, 1e-6)
                                 : compute == kInt16 ? std::pair(1e-6, 4e-5)
                                 : compute == kBf16  ? std::pair(1e-3, 3e-3)
                                                     : std::pair(1e-3, 6e-3);
      EXPECT_LT(relative, most);
      EXPECT_GT(relative, least);  // or it did not round at all
    }
  });
}

/// A NaN or an infinity makes its own token NaN and leaves the others alone.
TEST_P(LinearQuantized, NotANumberStaysInItsToken) {
  const int64_t tokens = 6, k = 2 * info(GetParam()).block_elements;
  const Weight w(GetParam(), 17, k);
  auto x = normals(tokens * k, 11);
  for_each_isa([&](runtime::Context& context) {
    for (const QuantizedCompute compute : {kInt8, kInt16, kBf16}) {
      const auto clean = run(context, w, x.data(), tokens, compute);
      auto bad = x;
      bad[size_t(2 * k + 7)] = NAN;
      bad[size_t(4 * k + 9)] = INFINITY;
      const auto got = run(context, w, bad.data(), tokens, compute);
      for (int64_t m = 0; m < tokens; ++m) {
        const float* row = got.data() + m * w.rows;
        if (m != 2 && m != 4) {
          expect_same_bits(row, clean.data() + m * w.rows, w.rows, "clean token");
          continue;
        }
        for (int64_t n = 0; n < w.rows; ++n)  // infinity times a weight is infinite in bf16
          EXPECT_FALSE(compute != kBf16 || m == 2 ? !std::isnan(row[n]) : std::isfinite(row[n]))
              << name_of(compute) << ", " << m << ", " << n;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, LinearQuantized, ::testing::ValuesIn(block_dtypes()),
                         [](const auto& param) { return std::string(name(param.param)); });

// ---- the bits of the int8 mode, from scalar code -------------------------------------------

/// One scale group of a row: weight i is scale * (codes[i] - offset) + min.
struct Group {
  float scale = 0, min = 0;
  int offset = 0;
  std::vector<int> codes;
};

std::vector<Group> groups_of(const Block<DType::kQ4_1>& b) {
  Group g{float(b.d), float(b.m), 0, {}};
  for (int i = 0; i < 32; ++i) g.codes.push_back((b.qs[i % 16] >> (i / 16 * 4)) & 15);
  return {g};
}
std::vector<Group> groups_of(const Block<DType::kQ5_0>& b) {
  Group g{float(b.d), 0, 16, {}};
  for (int i = 0; i < 32; ++i)
    g.codes.push_back(((b.qs[i % 16] >> (i / 16 * 4)) & 15) | ((b.qh[i / 8] >> (i % 8)) & 1) << 4);
  return {g};
}
std::vector<Group> groups_of(const Block<DType::kQ8_0>& b) {
  Group g{float(b.d), 0, 0, {}};
  for (int i = 0; i < 32; ++i) g.codes.push_back(b.qs[i]);
  return {g};
}
std::vector<Group> groups_of(const Block<DType::kQ4K>& b) {
  std::vector<Group> out;
  for (int s = 0; s < 8; ++s) {
    const ScaleMin pair = k_scale_min(b.scales, s);
    Group g{float(b.d) * float(pair.scale), float(b.dmin) * -float(pair.min), 0, {}};
    for (int i = 0; i < 32; ++i) g.codes.push_back((b.qs[32 * (s / 2) + i] >> (4 * (s % 2))) & 15);
    out.push_back(g);
  }
  return out;
}
std::vector<Group> groups_of(const Block<DType::kQ6K>& b) {
  std::vector<Group> out;
  for (int s = 0; s < 16; ++s) {
    Group g{float(b.d) * float(b.scales[s]), 0, 32, {}};
    for (int i = 16 * s; i < 16 * s + 16; ++i) {
      const int half = i / 128, run = i / 32 % 4;
      const int low = b.ql[64 * half + 32 * (run % 2) + i % 32] >> (run / 2 * 4);
      g.codes.push_back((low & 15) | ((b.qh[32 * half + i % 32] >> (2 * run)) & 3) << 4);
    }
    out.push_back(g);
  }
  return out;
}

template <DType kType>
float emulate_row(const uint8_t* blocks, int64_t k, const float* x) {
  float sum = 0;
  int64_t at = 0;
  float d = 0, inverse = 0;
  for (int64_t b = 0; b < k / info(kType).block_elements; ++b) {
    Block<kType> block;
    std::memcpy(&block, blocks + b * int64_t(sizeof(block)), sizeof(block));
    for (const Group& g : groups_of(block)) {
      if (at % 32 == 0) {
        float range = 0;
        for (int i = 0; i < 32; ++i) range = std::max(range, std::fabs(x[at + i]));
        d = range * (1.0f / 127.0f);
        inverse = 127.0f / range;
      }
      int dot = 0, total = 0;
      for (const int code : g.codes) {
        const int q = int(std::nearbyint(x[at++] * inverse));
        dot += (code - g.offset) * q;
        total += q;
      }
      sum = std::fma(g.scale * d, float(dot), sum);
      if (kType == DType::kQ4_1 || kType == DType::kQ4K)
        sum = std::fma(g.min, d * float(total), sum);
    }
  }
  return sum;
}

template <DType kType>
void check_bits() {
  SCOPED_TRACE(std::string(name(kType)));
  const int64_t tokens = 30, k = 3 * std::max(64, info(kType).block_elements);
  const Weight w(kType, 35, k);
  const auto x = normals(tokens * k, 13);
  std::vector<float> want;
  for (int64_t m = 0; m < tokens; ++m)
    for (int64_t n = 0; n < w.rows; ++n)
      want.push_back(
          emulate_row<kType>(w.blocks.data() + n * bytes_of(kType, k), k, x.data() + m * k));
  runtime::ThreadPool pool(1);
  for (const Isa isa : runtime::available_isas()) {
    runtime::Context context(pool, isa);
    const auto got = run(context, w, x.data(), tokens, kInt8);
    expect_same_bits(got.data(), want.data(), tokens * w.rows, "all tokens");
    const auto one = run(context, w, x.data(), 1, kInt8);
    expect_same_bits(one.data(), want.data(), w.rows, "one token");
  }
}

TEST(LinearQuantizedBits, AreThoseOfScalarCode) {
  check_bits<DType::kQ4_1>();
  check_bits<DType::kQ5_0>();
  check_bits<DType::kQ8_0>();
  check_bits<DType::kQ4K>();
  check_bits<DType::kQ6K>();
}

/// Extreme codes on both sides: where 16-bit sums would overflow if they were too long.
TEST(LinearQuantizedBits, SumsNeverSaturate) {
  runtime::ThreadPool pool(1);
  for (const DType dtype : block_dtypes()) {
    SCOPED_TRACE(std::string(name(dtype)));
    const int64_t k = 2 * std::max(64, info(dtype).block_elements), n = 16;
    for (const uint8_t fill : {uint8_t{0x00}, uint8_t{0xff}, uint8_t{0x88}, uint8_t{0x7f}}) {
      Weight w(dtype, n, k);
      for (size_t i = 0; i < w.blocks.size(); ++i)
        w.blocks[i] = i % 2 ? fill : uint8_t(fill ^ (fill == 0x88 ? 0x77 : 0));
      const auto scaled = ops::random_blocks(dtype, n * k, 1);
      const int64_t bytes = info(dtype).block_bytes;
      for (size_t b = 0; b < w.blocks.size(); b += size_t(bytes)) {  // sane scales, extreme codes
        const bool at_end = dtype == DType::kQ2K || dtype == DType::kQ3K || dtype == DType::kQ6K;
        const size_t at = at_end ? b + size_t(bytes) - 4 : b;
        std::memcpy(&w.blocks[at], &scaled[at], dtype == DType::kMxfp4 ? 1 : at_end ? 4 : 2);
        if (dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4K ||
            dtype == DType::kQ5K)
          std::memcpy(&w.blocks[at + 2], &scaled[at + 2], 2);
      }
      dequantize(dtype, w.blocks.data(), w.values.data(), n * k);
      w.packed = ops::pack_quantized(dtype, w.blocks.data(), n, k);
      std::vector<float> x(static_cast<size_t>(2 * k), 1.0f);
      for (size_t i = 0; i < size_t(k); ++i) x[i] = -1.0f;
      for (const Isa isa : runtime::available_isas()) {
        runtime::Context context(pool, isa);
        const auto got = run(context, w, x.data(), 2, kInt8);
        const auto one = run(context, w, x.data(), 1, kInt8);
        expect_same_bits(one.data(), got.data(), n, "one token");
        for (int64_t r = 0; r < n; ++r) {
          double want = 0, size = 0;
          for (int64_t i = 0; i < k; ++i) {
            want += double(w.values[size_t(r * k + i)]);
            size += std::fabs(double(w.values[size_t(r * k + i)]));
          }
          EXPECT_NEAR(got[size_t(n + r)], want, 1e-5 * size + 1e-30);
          EXPECT_NEAR(got[size_t(r)], -want, 1e-5 * size + 1e-30);
        }
      }
    }
  }
}

TEST(LinearQuantizedCall, RefusesWhatDoesNotFit) {
  runtime::Context context;
  const Weight w(DType::kQ4_1, 20, 64);
  const auto gated = ops::pack_gated(DType::kQ4_1, w.blocks.data(), w.blocks.data(), 20, 64);
  std::vector<float> x(64), out(40);
  const auto support = [&](const ops::PackedQuantized& packed, int64_t k, int64_t n, int activation,
                           bool bias) {
    Kernel kernel{rows<const float>(x.data(), 1, k),
                  bytes_view(packed),
                  {},
                  {},
                  activation,
                  int(kInt8),
                  -1,
                  rows(out.data(), 1, n)};
    if (bias) kernel.bias = view<const float>(x.data(), n);
    const Support shapes = ops::LinearQuantized::supports_shapes(kernel);
    return (shapes ? ops::LinearQuantized::supports(kernel) : shapes).reason();
  };
  EXPECT_EQ(support(w.packed, 64, 20, 0, true), "");
  EXPECT_EQ(support(gated, 64, 20, 5, false), "");
  EXPECT_NE(support(w.packed, 32, 20, 0, false).find("K = 64"), std::string::npos);
  EXPECT_NE(support(w.packed, 64, 21, 0, false).find("N = 20"), std::string::npos);
  EXPECT_NE(support(w.packed, 64, 20, 5, false).find("pack_gated"), std::string::npos);
  EXPECT_NE(support(gated, 64, 20, 0, false).find("gate"), std::string::npos);
  EXPECT_NE(support(gated, 64, 20, 6, true).find("bias"), std::string::npos);
}

}  // namespace
}  // namespace tw
