// Matrix multiplication on any GPU, for any strides and sizes: out = activation(alpha a b^T + bias)
// + residual, float32 products and sums. Float32 operands always come here: the matrix units would
// round them. Also what no tensor map can describe.
//
// Panels of both operands come into a ring of stages in shared memory while threads multiply
// earlier ones; k may be dealt to several blocks, whose sums are added in order by another kernel.
#pragma once

#include "tilewright/kernels/activation.h"
#include "tilewright/kernels/gemm_strided_load.h"
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

  /// Sums of columns [c, c + 4) of a row; those that exist are stored.
  __device__ void store(Sums sums, int64_t batch, int64_t r, int64_t c) const {
    using Four = tile::Raw<T, 4>;
    const int count = given.out.cols - c < 4 ? int(given.out.cols - c) : 4;
    const auto four = [&](const View<const T, 1>& from) {
      const T* at = from.data + c * from.strides[0];
      const bool is_whole = from.strides[0] == 1 && count == 4 && Four::is_aligned(at);
      return (is_whole ? Four::load(at) : Four::gather(at, from.strides[0], count))
          .template widen<float>();
    };
    sums = sums * given.alpha;
    if (given.bias) sums = sums + four(given.bias);
    if (given.activation != 0) sums = activated(sums, given.activation);
    if (given.residual) sums = sums + four(given.residual.row(r));
    const View<T, 1> out = given.out.row(r);
    T* to = out.data + batch * given.out_batch + c * out.strides[0];
    const Four rounded = Four::narrow(sums);
    if (out.strides[0] == 1 && count == 4 && Four::is_aligned(to))
      rounded.store(to);
    else
      rounded.scatter(to, out.strides[0], count);
  }

  __device__ float4* part(int64_t z, int64_t batch, int64_t r, int64_t c) const {
    const int64_t row = (z * given.batch + batch) * given.out.rows + r;
    return reinterpret_cast<float4*>(given.parts + row * given.parts_pitch() + c);
  }
};

template <class T, GemmStridedBuild kBuild>
struct GemmStrided {
  static constexpr int kM = kBuild.tile_m, kN = kBuild.tile_n, kDepth = kBuild.depth;
  static constexpr int kStages = kBuild.stages, kThreads = kBuild.threads();
  // A thread has groups of four rows and four columns, as many apart as the threads' first ones
  // take up.
  static constexpr int kRows = kBuild.thread_m, kColumns = kBuild.thread_n;
  static constexpr int kThreadRows = kM / kRows, kThreadColumns = kN / kColumns;
  static constexpr int kApartM = 4 * kThreadRows, kApartN = 4 * kThreadColumns;
  static constexpr int kWarpRows = kThreadRows >= 8 ? 8 : 4, kWarpColumns = 32 / kWarpRows;
  static_assert(kThreadRows % kWarpRows == 0 && kThreadColumns % kWarpColumns == 0);
  static_assert(kRows % 4 == 0 && kColumns % 4 == 0 && kDepth % 2 == 0 && kStages >= 2);

  using LoaderA = GemmStridedLoader<T, kBuild, kM>;
  using LoaderB = GemmStridedLoader<T, kBuild, kN>;
  struct Stage {
    typename LoaderA::Panel a;
    typename LoaderB::Panel b;
  };
  using Staged = float[kApartM][kBuild.pitch(kN)];
  struct Shared {
    union {
      Stage stages[kStages];
      Staged staged;
    };
    typename LoaderA::Table a_rows;
    typename LoaderB::Table b_rows;
  };
  static_assert(sizeof(Shared) == kBuild.shared_bytes());
  using Sums = float[kRows][kColumns];
  struct Fragment {
    float4 a[kRows / 4], b[kColumns / 4];
  };

  const GemmStridedArguments<T>& given;
  Shared& shared;
  int thread_row, thread_column;

  __device__ GemmStrided(const GemmStridedArguments<T>& arguments, void* memory)
      : given(arguments), shared(*static_cast<Shared*>(memory)) {
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

  __device__ void operator()() const {
    const auto [row, column] = tile();
    const int64_t first_k = int64_t(blockIdx.z) * given.k_part;
    const int64_t rest = given.k - first_k;
    const int64_t depth = rest < given.k_part ? rest : given.k_part;
    for (int64_t batch = blockIdx.y; batch < given.batch; batch += gridDim.y) {
      LoaderA a(given.a, batch, row, first_k, shared.a_rows);
      LoaderB b(given.b, batch, column, first_k, shared.b_rows);
      __syncthreads();
      Sums sums = {};
      multiply(a, b, depth, sums);
      store(sums, batch, row, column);
      __syncthreads();
    }
  }

 private:
  struct Corner {
    int64_t row, column;
  };
  /// The first row and column of a block's tile. Blocks walk bands of rows of tiles, so that those
  /// at work at a time read few panels.
  __device__ static constexpr int64_t blocks(int64_t n, int64_t step) {
    return (n + step - 1) / step;
  }
  __device__ Corner tile() const {
    constexpr unsigned kBand = 8;
    const auto rows = unsigned(blocks(given.out.rows, kM));
    const auto columns = unsigned(blocks(given.out.cols, kN));
    const unsigned band = blockIdx.x / (kBand * columns), at = blockIdx.x % (kBand * columns);
    const unsigned high = rows - band * kBand < kBand ? rows - band * kBand : kBand;
    return {int64_t(band * kBand + at % high) * kM, int64_t(at / high) * kN};
  }

  __device__ __forceinline__ void read(Fragment& to, const Stage& from, int k) const {
    TW_UNROLL
    for (int i = 0; i < kRows / 4; ++i)
      to.a[i] = *reinterpret_cast<const float4*>(&from.a[k][4 * thread_row + i * kApartM]);
    TW_UNROLL
    for (int i = 0; i < kColumns / 4; ++i)
      to.b[i] = *reinterpret_cast<const float4*>(&from.b[k][4 * thread_column + i * kApartN]);
  }
  __device__ static __forceinline__ float lane(const float4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
  __device__ static __forceinline__ void add(Sums& sums, const Fragment& f) {
    TW_UNROLL
    for (int i = 0; i < kRows; ++i) TW_UNROLL
    for (int j = 0; j < kColumns; ++j)
      sums[i][j] += lane(f.a[i / 4], i % 4) * lane(f.b[j / 4], j % 4);
  }

  /// A stage is free when all threads have read the last fragment of it, which they do before the
  /// barrier that precedes the use of the next stage's first.
  __device__ __forceinline__ void multiply(LoaderA& a, LoaderB& b, int64_t depth,
                                           Sums& sums) const {
    int64_t ahead = depth;  // values of k that no copy has been begun for
    const auto begin = [&](int slot) {
      if (ahead <= 0) return;
      const int left = ahead < kDepth ? int(ahead) : kDepth;
      a.begin(shared.stages[slot].a, left);
      b.begin(shared.stages[slot].b, left);
    };
    const auto finish = [&](int slot) {
      if (ahead > 0) a.finish(shared.stages[slot].a), b.finish(shared.stages[slot].b);
      ahead -= kDepth;
    };
    TW_UNROLL
    for (int slot = 0; slot < kStages - 1; ++slot) {
      begin(slot);
      finish(slot);
      tile::cuda::commit_copies();
    }
    tile::cuda::wait_copy_groups<kStages - 2>();
    __syncthreads();
    Fragment fragments[2];
    read(fragments[0], shared.stages[0], 0);
    int slot = 0, free = kStages - 1;
    for (int64_t k = 0; k < depth; k += kDepth) {
      TW_UNROLL
      for (int i = 0; i < kDepth; ++i) {
        if (i == kDepth - 1) {
          finish(free);
          tile::cuda::wait_copy_groups<kStages - 2>();
          __syncthreads();
          free = slot;
          slot = slot + 1 == kStages ? 0 : slot + 1;
        }
        read(fragments[(i + 1) % 2], shared.stages[slot], (i + 1) % kDepth);
        if (i == 0) {
          begin(free);
          tile::cuda::commit_copies();
        }
        add(sums, fragments[i % 2]);
      }
    }
    tile::cuda::wait_copies();
  }

  /// Through shared memory, so that a warp writes whole rows.
  __device__ void store(const Sums& sums, int64_t batch, int64_t row, int64_t column) const {
    const GemmStridedEpilogue<T> epilogue{given};
    TW_UNROLL
    for (int part = 0; part < kRows / 4; ++part) {
      __syncthreads();
      TW_UNROLL
      for (int i = 0; i < 4; ++i) TW_UNROLL
      for (int j = 0; j < kColumns; j += 4) {
        const float* from = &sums[part * 4 + i][j];
        float& to = shared.staged[4 * thread_row + i][4 * thread_column + j / 4 * kApartN];
        reinterpret_cast<float4&>(to) = {from[0], from[1], from[2], from[3]};
      }
      __syncthreads();
#pragma unroll 1
      for (int at = int(threadIdx.x); at < kApartM * (kN / 4); at += kThreads) {
        const int i = at / (kN / 4), j = at % (kN / 4) * 4;
        const int64_t r = row + part * kApartM + i, c = column + j;
        if (r >= given.out.rows || c >= given.out.cols) continue;
        const float4 four = reinterpret_cast<const float4&>(shared.staged[i][j]);
        if (given.parts != nullptr)
          *epilogue.part(blockIdx.z, batch, r, c) = four;
        else
          epilogue.store({{four.x, four.y, four.z, four.w}}, batch, r, c);
      }
    }
  }
};

/// Adds the sums of `parts` parts of k, in order.
template <class T>
struct GemmStridedSum {
  const GemmStridedArguments<T>& given;
  int64_t parts;

  __device__ void operator()() const {
    const GemmStridedEpilogue<T> epilogue{given};
    const int64_t fours = given.parts_pitch() / 4;
    const int64_t count = given.batch * given.out.rows * fours;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
      const int64_t row = index_quotient(i, fours), c = (i - row * fours) * 4;
      const int64_t batch = index_quotient(row, given.out.rows), r = row - batch * given.out.rows;
      tile::Pack<float, 4> sums = {};
      TW_UNROLL_LOADS
      for (int64_t z = 0; z < parts; ++z) {
        const float4 x = *epilogue.part(z, batch, r, c);
        sums = sums + tile::Pack<float, 4>{{x.x, x.y, x.z, x.w}};
      }
      epilogue.store(sums, batch, r, c);
    }
  }
};

}  // namespace tw::kernels
