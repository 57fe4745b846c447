// What the conformance suite cannot state of the quantised linear layer: the very bits of both of
// its modes, how much int8 activations cost, and packed weights that are not what they claim.
#include "tilewright/ops/linear_quantized.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/block_formats.h"
#include "tilewright/runtime/context.h"
#include "tilewright/runtime/cpu_info.h"
#include "tilewright/runtime/launch.h"

namespace tw {
namespace {

using Kernel = kernels::LinearQuantized<float>;

std::vector<DType> block_dtypes() {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i)
    if (is_block(DType(i))) out.push_back(DType(i));
  return out;
}

std::vector<float> normals(int64_t count, uint64_t seed) {
  testing::Random random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = float(random.normal());
  return out;
}

int64_t bytes_of(DType dtype, int64_t elements) {
  return elements / info(dtype).block_elements * info(dtype).block_bytes;
}

View<const uint8_t, 1> bytes_view(const ops::PackedQuantized& packed) {
  return view<const uint8_t>(packed.bytes.span<uint8_t>().data(), packed.bytes.bytes());
}

/// A random weight, its blocks, and what they mean.
struct Weight {
  Weight(DType type, int64_t n, int64_t cols)
      : dtype(type),
        rows(n),
        k(cols),
        blocks(ops::random_blocks(type, n * cols, uint64_t(n + cols))),
        values(static_cast<size_t>(n * cols)),
        packed(ops::pack_quantized(type, blocks.data(), n, cols)) {
    dequantize(dtype, blocks.data(), values.data(), n * cols);
  }
  DType dtype;
  int64_t rows, k;
  std::vector<uint8_t> blocks;
  std::vector<float> values;
  ops::PackedQuantized packed;
};

std::vector<float> run(runtime::Context& context, const Weight& w, const float* x, int64_t tokens,
                       bool exact) {
  std::vector<float> out(static_cast<size_t>(tokens * w.rows), NAN);
  runtime::launch<ops::LinearQuantized>(context, Kernel{rows<const float>(x, tokens, w.k),
                                                        bytes_view(w.packed),
                                                        {},
                                                        {},
                                                        0,
                                                        exact,
                                                        rows(out.data(), tokens, w.rows)});
  return out;
}

void expect_same_bits(const float* got, const float* want, int64_t n, const char* what) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(got + i, want + i, sizeof(float)) == 0) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", expected " << want[i];
    return;
  }
}

TEST(PackedQuantized, KeepsEveryWeightExactly) {
  for (const DType dtype : block_dtypes()) {
    SCOPED_TRACE(std::string(name(dtype)));
    for (const int64_t n : {1, 16, 37}) {
      for (const int64_t blocks : {0, 1, 3}) {
        const Weight w(dtype, n, blocks * info(dtype).block_elements);
        std::vector<float> row(static_cast<size_t>(w.k));
        for (int64_t r = 0; r < n; ++r) {
          ops::unpack_row(bytes_view(w.packed).data, r, row.data());
          expect_same_bits(row.data(), w.values.data() + r * w.k, w.k, "row");
        }
      }
    }
  }
}

TEST(PackedQuantized, StacksAndPairsRows) {
  const int64_t k = 64;
  const Weight a(DType::kQ4_1, 19, k), b(DType::kQ4_1, 5, k), c(DType::kQ4_1, 19, k);
  const ops::BlockRows parts[] = {
      {a.blocks.data(), 19}, {b.blocks.data(), 5}, {c.blocks.data(), 19}};
  const auto stacked = ops::pack_quantized(DType::kQ4_1, parts, k);
  const auto paired = ops::pack_gated(DType::kQ4_1, a.blocks.data(), c.blocks.data(), 19, k);
  ASSERT_EQ(stacked.rows, 43);
  ASSERT_EQ(paired.rows, 38);
  std::vector<float> row(static_cast<size_t>(k));
  const auto expect_row = [&](const ops::PackedQuantized& packed, int64_t r, const Weight& w,
                              int64_t from) {
    ops::unpack_row(bytes_view(packed).data, r, row.data());
    expect_same_bits(row.data(), w.values.data() + from * k, k, "row");
  };
  for (int64_t r = 0; r < 43; ++r)
    expect_row(stacked, r, r < 19 ? a : r < 24 ? b : c, r < 19 ? r : r < 24 ? r - 19 : r - 24);
  for (int64_t r = 0; r < 38; ++r) expect_row(paired, r, r < 19 ? a : c, r % 19);
}

TEST(PackedQuantized, RefusesImpossibleShapes) {
  const uint8_t blocks[64] = {};
  EXPECT_THROW(ops::pack_quantized(DType::kF32, blocks, 1, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, 33), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4K, blocks, 1, 128), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, -1, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, -32), Error);
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, huge, 32), Error);
  EXPECT_THROW(ops::pack_quantized(DType::kQ4_0, blocks, 1, huge), Error);
  EXPECT_THROW(ops::pack_gated(DType::kQ4_0, blocks, blocks, huge, 32), Error);
}

/// A header is refused unless the bytes are those of the shape it states.
TEST(PackedQuantized, ChecksTheHeader) {
  const Weight w(DType::kQ4K, 21, 512);
  const auto bytes = w.packed.bytes.span<uint8_t>();
  const std::vector<uint8_t> good(bytes.begin(), bytes.end());
  const auto reason = [](const std::vector<uint8_t>& data) {
    return ops::check_packed_quantized(data.data(), int64_t(data.size())).reason;
  };
  EXPECT_EQ(reason(good), "");
  for (const size_t size : {size_t{0}, size_t{63}, size_t{64}, good.size() - 1}) {
    EXPECT_NE(reason(std::vector<uint8_t>(good.begin(), good.begin() + int64_t(size))), "");
  }
  testing::Random random(7);
  for (size_t at = 0; at < sizeof(kernels::QuantizedHeader); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] = uint8_t(bad[at] ^ (1 + random.below(255)));
    const auto check = ops::check_packed_quantized(bad.data(), int64_t(bad.size()));
    if (!check.reason.empty()) continue;
    // What passes has the size that kernels will read.
    const auto f = kernels::quantized_format(DType(check.header.dtype));
    EXPECT_EQ(int64_t(sizeof(kernels::QuantizedHeader)) +
                  kernels::quantized_panels(check.header.rows, check.header.is_gated) *
                      f.panel_bytes(check.header.k / 32),
              int64_t(bad.size()))
        << "byte " << at;
  }
  kernels::QuantizedHeader header;
  for (const int64_t size : {int64_t{-1}, std::numeric_limits<int64_t>::max(), int64_t{1} << 60}) {
    std::vector<uint8_t> bad = good;
    std::memcpy(&header, bad.data(), sizeof(header));
    header.rows = size;
    std::memcpy(bad.data(), &header, sizeof(header));
    EXPECT_NE(reason(bad), "");
    header.rows = w.rows;
    header.k = size & ~int64_t{255};
    std::memcpy(bad.data(), &header, sizeof(header));
    EXPECT_NE(reason(bad), "");
  }
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
    for (const bool exact : {false, true}) {
      const auto all = run(context, w, x.data(), tokens, exact);
      for (int64_t first = 0, count = 1; first < tokens; first += count++) {
        count = std::min(count, tokens - first);
        const auto some = run(context, w, x.data() + first * k, count, exact);
        expect_same_bits(some.data(), all.data() + first * w.rows, count * w.rows,
                         exact ? "exact" : "int8");
      }
    }
  });
}

/// The exact mode is the textbook: one chain of fused multiply-adds over k.
TEST_P(LinearQuantized, ExactIsOneChainOverK) {
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
    const auto got = run(context, w, x.data(), tokens, true);
    expect_same_bits(got.data(), want.data(), tokens * w.rows, "exact");
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
    for (const bool exact : {false, true}) {
      const auto got = run(context, w, x.data(), tokens, exact);
      double error = 0;
      for (size_t i = 0; i < want.size(); ++i) error += std::pow(double(got[i]) - want[i], 2);
      const double relative = std::sqrt(error / power);
      EXPECT_LT(relative, exact ? 1e-6 : 6e-3);
      EXPECT_GT(relative, exact ? 0 : 1e-3);  // or it did not round at all
    }
  });
}

/// A NaN or an infinity makes its own token NaN and leaves the others alone.
TEST_P(LinearQuantized, NotANumberStaysInItsToken) {
  const int64_t tokens = 6, k = 2 * info(GetParam()).block_elements;
  const Weight w(GetParam(), 17, k);
  auto x = normals(tokens * k, 11);
  for_each_isa([&](runtime::Context& context) {
    const auto clean = run(context, w, x.data(), tokens, false);
    auto bad = x;
    bad[size_t(2 * k + 7)] = NAN;
    bad[size_t(4 * k + 9)] = INFINITY;
    const auto got = run(context, w, bad.data(), tokens, false);
    for (int64_t m = 0; m < tokens; ++m) {
      const float* row = got.data() + m * w.rows;
      if (m != 2 && m != 4) {
        expect_same_bits(row, clean.data() + m * w.rows, w.rows, "clean token");
        continue;
      }
      for (int64_t n = 0; n < w.rows; ++n) EXPECT_TRUE(std::isnan(row[n])) << m << ", " << n;
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
    const auto got = run(context, w, x.data(), tokens, false);
    expect_same_bits(got.data(), want.data(), tokens * w.rows, "all tokens");
    const auto one = run(context, w, x.data(), 1, false);
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
        const auto got = run(context, w, x.data(), 2, false);
        const auto one = run(context, w, x.data(), 1, false);
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
                  false,
                  rows(out.data(), 1, n)};
    if (bias) kernel.bias = view<const float>(x.data(), n);
    return ops::LinearQuantized::supports(kernel).reason();
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
