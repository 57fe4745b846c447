// Random block-quantised weights with what they mean, for tests of what multiplies them.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random.h"
#include "tilewright/core/block_formats.h"
#include "tilewright/ops/core/packed_quantized.h"
#include "tilewright/ops/core/random_blocks.h"

namespace tw::testing {

inline std::vector<DType> block_dtypes() {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i)
    if (is_block(DType(i))) out.push_back(DType(i));
  return out;
}

inline std::vector<float> normals(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = float(random.normal());
  return out;
}

inline int64_t bytes_of(DType dtype, int64_t elements) {
  return elements / info(dtype).block_elements * info(dtype).block_bytes;
}

inline View<const uint8_t, 1> bytes_view(const ops::PackedQuantized& packed) {
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

inline void expect_same_bits(const float* got, const float* want, int64_t n, const char* what) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(got + i, want + i, sizeof(float)) == 0) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", expected " << want[i];
    return;
  }
}

}  // namespace tw::testing
