// The scales of scaled matrix multiplication on Hopper: what lies in shared memory for each stage
// of the ring, and the warps that bring it there.
#pragma once

#include "tilewright/kernels/gemm_grouped_build_sm90.h"
#include "tilewright/kernels/gemm_scaled_build_sm90.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::kernels {

/// Of a tile's rows, and of its spans of columns, for one block of k.
template <ScaledGemmBuild kBuild>
struct StageScales {
  static constexpr int kWarps = 2;    // that bring them
  static constexpr int kFetched = 4;  // blocks of k whose scales are read at once
  static constexpr int kSpans = kBuild.spans();
  static_assert(kSpans <= 4);
  float rows[kBuild.rows];
  float spans[4];

  struct Factors {
    float top, bottom, spans[kSpans];
  };
  /// Those of a consumer's thread, which has sums of two rows.
  TW_PTX Factors of_thread(int consumer) const {
    const int thread = int(threadIdx.x) % 128;
    const int row = consumer * 64 + thread / 32 * 16 + thread % 32 / 4;
    Factors out = {rows[row], rows[row + 8], {}};
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) out.spans[s] = spans[s];
    return out;
  }
};

/// A lane of those warps has every 64th row of a tile, and perhaps a span of columns. What of the
/// tile is outside out has the scales of its edge.
template <ScaledGemmBuild kBuild>
class ScaleReader {
  using Scales = StageScales<kBuild>;
  static constexpr int kLanes = 32 * Scales::kWarps, kMine = kBuild.rows / kLanes;
  static constexpr int kFetched = Scales::kFetched;

 public:
  struct Fetched {
    float rows[kMine][kFetched], span[kFetched];
  };

  TW_PTX ScaleReader(const ScaledGemmArguments& given, const GroupedGemmPlace& place, int lane,
                     int last)
      : given_(given), lane_(lane), last_(last) {
    const int64_t bottom = given.rows.size(0) - 1, right = given.rows.size(1) - 1;
    TW_UNROLL
    for (int j = 0; j < kMine; ++j) {
      const int64_t row = place.row + lane + kLanes * j;
      rows_[j] = &given.a_scale(row < bottom ? row : bottom, 0);
    }
    const int64_t column =
        int64_t{place.column} * kBuild.columns + lane % Scales::kSpans * ScaledGemmBuild::kSpan;
    const int64_t n_block = (column < right ? column : right) / given.columns_per_scale;
    span_ = &given.b_scale(place.group, n_block, 0);
  }

  /// The scales for blocks of k from `base` on, a multiple of kFetched.
  TW_PTX void fetch(int base, Fetched& to) const {
    TW_UNROLL
    for (int j = 0; j < kMine; ++j) fetch(to.rows[j], rows_[j], given_.a_scale.stride(1), base);
    if (lane_ < Scales::kSpans) fetch(to.span, span_, given_.b_scale.stride(2), base);
  }
  TW_PTX void put(Scales& to, const Fetched& from, int block) const {
    TW_UNROLL
    for (int j = 0; j < kMine; ++j) to.rows[lane_ + kLanes * j] = from.rows[j][block];
    if (lane_ < Scales::kSpans) to.spans[lane_] = from.span[block];
  }

 private:
  TW_PTX void fetch(float (&out)[kFetched], const float* from, int64_t step, int base) const {
    if (given_.fetches_four) {
      const float4 four = *reinterpret_cast<const float4*>(from + base);
      out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
    } else if (given_.is_long) {
      out[0] = out[1] = out[2] = out[3] = from[base / given_.k_blocks_per_scale * step];
    } else {
      TW_UNROLL
      for (int e = 0; e < kFetched; ++e)
        out[e] = base + e < last_ ? from[(base + e) / given_.k_blocks_per_scale * step] : 0.0f;
    }
  }

  const ScaledGemmArguments& given_;
  int lane_, last_;
  const float* rows_[kMine];
  const float* span_;
};

}  // namespace tw::kernels
