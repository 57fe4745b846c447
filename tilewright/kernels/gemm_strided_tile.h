// A tile of the float32 matrix multiplication: how threads share it, what one reads and multiplies,
// and what becomes of the sums.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/gemm_strided_build.h"
#include "tilewright/tile/cuda/memory.h"

namespace tw::kernels {

/// What becomes of sums.
template <class T>
struct GemmStridedEpilogue {
  using Sums = tile::Pack<float, 4>;
  const GemmStridedArguments<T>& given;

  /// Not inlined: copies of it would be most of the kernel.
  __device__ __noinline__ static Sums activated(Sums x, int activation) {
    with_activation(Activation(activation), [&](auto activate) { x = activate(x); });
    return x;
  }

  /// What columns [c, c + 4) of all rows have in common.
  struct Columns {
    int64_t first;
    int count;  // that exist
    Sums scale, bias;
  };
  __device__ Columns columns(int64_t c) const {
    const int64_t left = given.out.cols - c;
    Columns out{c, left < 4 ? int(left) : 4, {}, {}};
    if (out.count <= 0) return out;
    if (given.column_scale) out.scale = four(given.column_scale, out);
    if (given.bias) out.bias = four(given.bias, out);
    return out;
  }

  /// Sums of a row; those of columns that exist are stored.
  __device__ void store(Sums sums, int64_t batch, int64_t r, const Columns& at) const {
    sums = given.scale(sums);
    if (given.column_scale) sums = sums * at.scale;
    if (given.row_scale) sums = sums * given.row_scale(r, 0);
    if (given.bias) sums = sums + at.bias;
    if (given.activation != 0) sums = activated(sums, given.activation);
    if (given.residual) {
      View<const T, 1> rest = given.residual.row(r);
      rest.data += batch * given.residual_batch;
      sums = MatmulScale{1, given.scale.beta}(sums, four(rest, at));
    }
    const View<T, 1> out = given.out.row(r);
    T* to = out.data + batch * given.out_batch + at.first * out.strides[0];
    const tile::Raw<T, 4> rounded = tile::Raw<T, 4>::narrow(sums);
    if (out.strides[0] == 1 && at.count == 4 && rounded.is_aligned(to))
      rounded.store(to);
    else
      rounded.scatter(to, out.strides[0], at.count);
  }

  __device__ float4* part(int64_t z, int64_t batch, int64_t r, int64_t c) const {
    const int64_t row = (z * given.batch + batch) * given.out.rows + r;
    return reinterpret_cast<float4*>(given.parts + row * given.parts_pitch() + c);
  }

 private:
  template <class E>
  __device__ static Sums four(const View<const E, 1>& from, const Columns& at) {
    using Of = tile::Raw<E, 4>;
    const E* const first = from.data + at.first * from.strides[0];
    const bool is_whole = from.strides[0] == 1 && at.count == 4 && Of::is_aligned(first);
    return (is_whole ? Of::load(first) : Of::gather(first, from.strides[0], at.count))
        .template widen<float>();
  }
};

/// Where a block's work begins: the part of k, the matrix of the batch, the element of out.
struct GemmStridedPlace {
  int64_t part, batch, row, column;
};

/// A block's kM x kN elements of out, of which a thread has kRows x kColumns: groups of four rows
/// and four columns, as many apart as the threads' first ones take up.
template <class T, int kM, int kN, int kRows, int kColumns>
struct GemmStridedTile {
  static constexpr int kThreadRows = kM / kRows, kThreadColumns = kN / kColumns;
  static constexpr int kThreads = kThreadRows * kThreadColumns;
  static constexpr int kApartM = 4 * kThreadRows, kApartN = 4 * kThreadColumns;
  static constexpr int kWarpRows = kThreadRows >= 8 ? 8 : 4, kWarpColumns = 32 / kWarpRows;
  static_assert(kThreadRows % kWarpRows == 0 && kThreadColumns % kWarpColumns == 0);
  static_assert(kRows % 4 == 0 && kColumns % 4 == 0);

  using Staged = float[kApartM][GemmStridedBuild::pitch(kN)];
  using Sums = float[kRows][kColumns];
  struct Fragment {
    float4 a[kRows / 4], b[kColumns / 4];
  };

  int thread_row, thread_column;

  __device__ GemmStridedTile() {
    // Of 16 lanes, whose reads of 16 bytes are served together, 4 x 4 share rows and columns, and
    // neighbours share one of them.
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int high = lane / 16 * 4;
    thread_row = (lane >> 1 & 1) | (lane >> 2 & 2) | (kWarpRows == 8 ? high : 0);
    thread_column = (lane & 1) | (lane >> 1 & 2) | (kWarpRows == 8 ? 0 : high);
    constexpr int kAcross = kThreadColumns / kWarpColumns;
    thread_row += warp / kAcross * kWarpRows;
    thread_column += warp % kAcross * kWarpColumns;
  }

  /// A thread's values of a and b, of one k.
  __device__ __forceinline__ void read(Fragment& to, const float* a, const float* b) const {
    TW_UNROLL
    for (int i = 0; i < kRows / 4; ++i)
      to.a[i] = *reinterpret_cast<const float4*>(a + 4 * thread_row + i * kApartM);
    TW_UNROLL
    for (int i = 0; i < kColumns / 4; ++i)
      to.b[i] = *reinterpret_cast<const float4*>(b + 4 * thread_column + i * kApartN);
  }
  /// Back and forth along the longer side, so that each product shares a factor with the one
  /// before, which the units still hold.
  __device__ static __forceinline__ void add(Sums& sums, const Fragment& f) {
    constexpr bool kAlongRows = kRows > kColumns;
    constexpr int kShort = kAlongRows ? kColumns : kRows, kLong = kAlongRows ? kRows : kColumns;
    TW_UNROLL
    for (int s = 0; s < kShort; ++s) TW_UNROLL
    for (int at = 0; at < kLong; ++at) {
      const int l = s % 2 == 0 ? at : kLong - 1 - at;
      const int i = kAlongRows ? l : s, j = kAlongRows ? s : l;
      sums[i][j] += lane(f.a[i / 4], i % 4) * lane(f.b[j / 4], j % 4);
    }
  }

  /// Through shared memory, so that a warp writes whole rows.
  __device__ void store(const GemmStridedArguments<T>& given, const Sums& sums, Staged& staged,
                        const GemmStridedPlace& place) const {
    constexpr int kInRow = kN / 4;
    static_assert(kThreads % kInRow == 0);
    const int first = int(threadIdx.x) % kInRow * 4;
    const GemmStridedEpilogue<T> epilogue{given};
    const auto columns = epilogue.columns(place.column + first);
    TW_UNROLL
    for (int part = 0; part < kRows / 4; ++part) {
      __syncthreads();
      // One by one: four at once would lie in the register banks of the four values of b that they
      // are sums of products of, and every multiply-add would read one bank twice.
      TW_UNROLL
      for (int i = 0; i < 4; ++i) TW_UNROLL
      for (int j = 0; j < kColumns; ++j)
        const_cast<volatile float&>(
            staged[4 * thread_row + i][4 * thread_column + j / 4 * kApartN + j % 4]) =
            sums[part * 4 + i][j];
      __syncthreads();
#pragma unroll 1
      for (int i = int(threadIdx.x) / kInRow; i < kApartM; i += kThreads / kInRow) {
        const int64_t r = place.row + part * kApartM + i;
        if (r >= given.out.rows || columns.count <= 0) continue;
        const float4 four = reinterpret_cast<const float4&>(staged[i][first]);
        if (given.parts != nullptr)
          *epilogue.part(place.part, place.batch, r, columns.first) = four;
        else
          epilogue.store({{four.x, four.y, four.z, four.w}}, place.batch, r, columns);
      }
    }
  }

 private:
  __device__ static __forceinline__ float lane(const float4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
};

/// The tile of out that is number `index` of blocks' work. Blocks walk bands of rows of tiles, so
/// that those at work at a time read few panels.
struct GemmStridedOrder {
  unsigned rows, columns;  // of tiles

  __device__ GemmStridedOrder(int64_t m, int64_t n, int tile_m, int tile_n)
      : rows(unsigned((m + tile_m - 1) / tile_m)), columns(unsigned((n + tile_n - 1) / tile_n)) {}
  struct Tile {
    unsigned row, column;
  };
  __device__ Tile tile(unsigned index) const {
    constexpr unsigned kBand = 8;
    const unsigned band = index / (kBand * columns), at = index % (kBand * columns);
    const unsigned high = rows - band * kBand < kBand ? rows - band * kBand : kBand;
    return {band * kBand + at % high, at / high};
  }
};

}  // namespace tw::kernels
