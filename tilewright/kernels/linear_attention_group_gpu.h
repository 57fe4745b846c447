// What walks of linear_attention's chunks share on a GPU, there (linear_attention_walk_gpu.h) and
// back (linear_attention_walk_back_gpu.h). A group of four warps has 16 columns of a state, turned:
// each some dimensions of them, as sums in registers, which are the left factor of the next
// product. Products over dimensions the warps add up by way of shared memory.
#pragma once

#include "tilewright/kernels/linear_attention_chunks.h"
#include "tilewright/kernels/linear_attention_terms_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/fence.h"

namespace tw::kernels {

template <class P, class T, class U, class Kernel, int kDims, bool kHasOneGate, bool kIsCorrected>
struct LinearChunkGroup {
  static constexpr int kSteps = LinearChunks::kSteps, kTiles = kSteps / 8, kUnits = kDims / 8;
  static constexpr int kWarps = LinearChunks::kWarps, kColumns = LinearChunks::kColumns;
  static constexpr int kOwnDims = kDims / kWarps;
  static constexpr int kStateTerms = LinearChunks::kStateTerms;
  static constexpr int kOutTerms = LinearChunks::out_terms_of(Kernel::kIsBackward);
  /// Of numbers of q and k, and of v, as they are.
  static constexpr int kGivenTerms = tile::same_type<T, bf16> ? 1 : 2;
  static constexpr int kQueryTerms = kHasOneGate ? kGivenTerms : kOutTerms;
  static constexpr int kKeyTerms = kHasOneGate ? kGivenTerms : kStateTerms;
  static constexpr int kSquare = int(LinearChunks::kSquare);
  static constexpr int kRows = kSteps * int(LinearChunks::padded(kDims));
  static constexpr int kPitch = LinearChunks::kValuePitch, kOutPitch = LinearChunks::kOutPitch;
  using Square = PaddedRows<kSteps / 8>;
  using Rows = PaddedRows<kUnits>;
  using Sums = float[kTiles][4];  // of [column, step]
  static_assert(kTiles == kWarps && kOwnDims % 16 == 0);

  P p;
  const Kernel& of;
  LinearChunks with;
  int64_t b, h, head, column;  // the block's first column
  float scale;
  float state[kOwnDims / 8][4] = {};  // [column, dimension]

  /// The walk of a state, `index` of all.
  __device__ __forceinline__ LinearChunkGroup(P program, const Kernel& kernel,
                                              const LinearChunks& chunks, int64_t index)
      : p(program), of(kernel), with(chunks), scale(kernel.score_scale()) {
    const int64_t blocks = with.blocks(groups()), row = index_quotient(index, blocks);
    column = (index - row * blocks) * groups() * kColumns;
    b = index_quotient(row, of.v.size(2));
    h = row - b * of.v.size(2);
    head = index_quotient(h, index_quotient(of.v.size(2), of.q.size(2)));
  }

  __device__ __forceinline__ int lane() const { return p.thread() % 32; }
  __device__ __forceinline__ int groups() const { return p.threads() / 32 / kWarps; }
  __device__ __forceinline__ int group() const { return p.thread() / 32 / kWarps; }
  /// Of the group's dimensions and outputs, the warp's.
  __device__ __forceinline__ int part() const { return p.thread() / 32 % kWarps; }
  /// Of a tile, the first of the two steps or dimensions that the thread has.
  __device__ __forceinline__ int pair() const { return lane() % 4 * 2; }

  // A stage: the record, factors, values.
  __device__ __forceinline__ bf16* stage(int which) const {
    return reinterpret_cast<bf16*>(tile::cuda::shared_scratch) + which * with.stage_bytes() / 2;
  }
  __device__ __forceinline__ bf16* factors(int which) const {
    return stage(which) + with.staged_size();
  }
  __device__ __forceinline__ T* values(int which) const {
    return reinterpret_cast<T*>(factors(which) + with.factors_size());
  }
  __device__ __forceinline__ int stages() const {
    return p.shared_scratch() >= with.walk_bytes(2, groups()) ? 2 : 1;
  }
  /// What warps of the group have of a tile of sums: four numbers of each lane.
  __device__ __forceinline__ float* told(int which, int tile, int warp) const {
    char* const begin = reinterpret_cast<char*>(stage(stages()));
    return reinterpret_cast<float*>(begin + group() * with.told_bytes() +
                                    which * LinearChunks::kSumsBytes) +
           4 * ((tile * kWarps + warp) * 32 + lane());
  }
  __device__ __forceinline__ T* outs() const {
    char* const begin = reinterpret_cast<char*>(stage(stages())) + groups() * with.told_bytes();
    return reinterpret_cast<T*>(begin) + p.thread() / 32 * (kSteps / kWarps) * kOutPitch;
  }

  __device__ __forceinline__ int64_t place_of(int64_t chunk) const {
    return (b * of.v.size(2) + h) * with.chunks + chunk;
  }
  const __device__ __forceinline__ bf16* record(int64_t chunk) const {
    return p.template workspace<bf16>() + place_of(chunk) * with.record_size();
  }
  /// Whether q and k come from where they are.
  __device__ __forceinline__ bool reads_rows() const {
    return kHasOneGate && tile::same_type<T, bf16> && with.reads_rows;
  }
  /// Begins to bring a part of a record.
  __device__ __forceinline__ void bring(bf16* to, const bf16* from, int64_t size) const {
    const int count = int(size / 8);
    TW_UNROLL_4
    for (int i = p.thread(); i < count; i += p.threads())
      tile::cuda::copy_async<16>(to + 8 * i, from + 8 * i);
  }
  /// Rows of q or k, which are aligned: a thread has the same unit of several.
  __device__ __forceinline__ void bring_rows(const View<const T, 4>& from, int64_t first,
                                             bf16* to) const {
    const int unit = p.thread() % kUnits, apart = p.threads() / kUnits;
    const int64_t pitch = apart * from.stride(1);
    const int steps = int(tile::lesser(of.length() - first, kSteps));
    const int bytes = bytes_of(from.size(3) - 8 * unit);
    int step = p.thread() / kUnits;
    const T* at = from[b][first][head].data + 8 * unit + step * from.stride(1);
    TW_UNROLL_4
    for (; step < kSteps; step += apart, at += pitch) {
      const bool is_there = step < steps && bytes > 0;
      tile::cuda::copy_async_or_zero<16>(to + Rows::at(step, 8 * unit), is_there ? at : from.data,
                                         is_there ? bytes : 0);
    }
  }
  /// Queries and keys.
  __device__ __forceinline__ void bring_factors(int64_t chunk, bf16* to) const {
    if (!reads_rows()) return bring(to, record(chunk) + with.made_size(), with.factors_size());
    bring_rows(of.q, chunk * kSteps, to);
    bring_rows(of.k, chunk * kSteps, to + kRows);
  }
  __device__ __forceinline__ static int bytes_of(int64_t left) {
    return left >= 8 ? 16 : left > 0 ? 2 * int(left) : 0;
  }
  /// A thread has one unit at most.
  __device__ __forceinline__ void bring_values(const View<const T, 4>& from, bool is_aligned,
                                               int64_t first, T* to) const {
    const int units = 2 * groups(), step = p.thread() / units, unit = p.thread() % units;
    if (step >= kSteps) return;
    const int64_t c = column + 8 * unit;
    const bool is_there = first + step < of.length() && c < from.size(3);
    T* const place = to + step * kPitch + 8 * unit;
    const View<const T, 1> row = from[b][is_there ? first + step : 0][h];
    if (is_aligned) {
      const int bytes = is_there ? bytes_of(row.size(0) - c) : 0;
      tile::cuda::copy_async_or_zero<16>(place, is_there ? row.data + c : from.data, bytes);
    } else {
      tile::Raw<T, 8> raw{};
      if (is_there) raw = decltype(raw)::of_row(row, c);
      raw.store(place);
    }
  }

  __device__ __forceinline__ int64_t dim_of(int i) const {
    return part() * kOwnDims + i / 4 * 8 + pair() + i % 2;
  }
  __device__ __forceinline__ int64_t column_of(int i) const {
    return column + group() * kColumns + lane() / 4 + i / 2 % 2 * 8;
  }
  __device__ __forceinline__ void load_state(const View<const U, 2>& from) {
    TW_UNROLL
    for (int i = 0; i < kOwnDims / 2; ++i)
      if (dim_of(i) < from.size(0) && column_of(i) < from.size(1))
        state[i / 4][i % 4] = float(from(dim_of(i), column_of(i)));
  }
  __device__ __forceinline__ void store_state(const View<U, 2>& to) const {
    TW_UNROLL
    for (int i = 0; i < kOwnDims / 2; ++i)
      if (dim_of(i) < to.size(0) && column_of(i) < to.size(1))
        to(dim_of(i), column_of(i)) = U(state[i / 4][i % 4]);
  }

  /// All warps' sums of tiles, in each of them.
  __device__ __forceinline__ void tell(int which, const Sums& sums) const {
    TW_UNROLL
    for (int i = 0; i < kTiles; ++i) tell(sums[i], told(which, i, part()));
  }
  __device__ __forceinline__ void add_told(int which, Sums& to) const {
    TW_UNROLL
    for (int i = 0; i < kTiles; ++i) add_told(which, i, to[i]);
  }
  __device__ __forceinline__ void meet() const { tile::cuda::sync_named(1 + group(), 32 * kWarps); }
  __device__ __forceinline__ static void tell(const float (&sums)[4], float* to) {
    *reinterpret_cast<float4*>(to) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  }
  __device__ __forceinline__ void add_told(int which, int tile, float (&to)[4]) const {
    TW_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const float4 four = *reinterpret_cast<const float4*>(told(which, tile, w));
      to[0] = w == 0 ? four.x : to[0] + four.x;
      to[1] = w == 0 ? four.y : to[1] + four.y;
      to[2] = w == 0 ? four.z : to[2] + four.z;
      to[3] = w == 0 ? four.w : to[3] + four.w;
    }
  }
  __device__ __forceinline__ tile::Pack<float, 2> two_of(const float* tile) const {
    return tile::Raw<float, 2>::load(tile + pair()).template widen<float>();
  }
  __device__ __forceinline__ void scale_steps(Sums& sums, const float* by) const {
    TW_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      const auto two = two_of(by + 8 * n);
      TW_UNROLL
      for (int i = 0; i < 4; ++i) sums[n][i] *= two[i % 2];
    }
  }
  __device__ __forceinline__ void decay(const float* decays) {
    TW_UNROLL
    for (int n = 0; n < kOwnDims / 8; ++n) {
      tile::Pack<float, 2> two{decays[kSteps - 1], decays[kSteps - 1]};
      if constexpr (!kHasOneGate) two = two_of(decays + part() * kOwnDims + 8 * n);
      TW_UNROLL
      for (int i = 0; i < 4; ++i) state[n][i] *= two[i % 2];
    }
  }
  __device__ __forceinline__ void load_values(const T* from, Sums& to) const {
    const T* const begin =
        from + (lane() / 16 * 8 + lane() % 8) * kPitch + group() * kColumns + lane() / 8 % 2 * 8;
    TW_UNROLL
    for (int s = 0; s < kSteps; s += 16) {
      uint32_t pairs[4];
      tile::cuda::load_matrices_transposed(pairs, begin + s * kPitch);
      TW_UNROLL
      for (int i = 0; i < 4; ++i) {
        tile::Raw<T, 2> two;
        two.words[0] = pairs[i];
        const auto wide = two.template widen<float>();
        to[s / 8 + i / 2][i % 2 * 2] = wide[0];
        to[s / 8 + i / 2][i % 2 * 2 + 1] = wide[1];
      }
    }
  }
  /// Of the warp's steps, by way of shared memory, for whole lines.
  __device__ __forceinline__ void store(const float (&out)[4], int64_t first,
                                        const View<T, 4>& to) const {
    T* const own = outs();
    TW_UNROLL
    for (int i = 0; i < 4; ++i)
      own[(pair() + i % 2) * kOutPitch + lane() / 4 + i / 2 * 8] = T(out[i]);
    __syncwarp();
    const int row = lane() / 2, unit = lane() % 2 * 8;
    const int64_t step = first + 8 * part() + row, c = column + group() * kColumns + unit;
    if (row < 8 && step < of.length() && c < to.size(3))
      tile::Raw<T, 8>::load(own + row * kOutPitch + unit).to_row(to[b][step][h], c);
    __syncwarp();
  }
  /// f of each chunk, of the first or the last on, and of the stage where it is; `bring_chunk`
  /// begins to bring a chunk into a stage.
  template <bool kIsBack, class Bring, class F>
  __device__ __forceinline__ void each_chunk(Bring&& bring_chunk, F&& f) const {
    const bool has_two = stages() == 2;
    const auto chunk = [&](int64_t i) { return kIsBack ? with.chunks - 1 - i : i; };
    bring_chunk(chunk(0), 0);
    TW_ROLLED
    for (int64_t i = 0; i < with.chunks; ++i) {
      const int which = has_two ? int(i & 1) : 0;
      tile::cuda::wait_copies();
      p.sync();  // what others brought; and they have read the chunk before
      if (has_two && i + 1 < with.chunks) bring_chunk(chunk(i + 1), which ^ 1);
      f(chunk(i), which);
      if (has_two || i + 1 == with.chunks) continue;
      p.sync();
      bring_chunk(chunk(i + 1), 0);
    }
  }
  /// change = transform (values - change), which is what keys hold.
  __device__ __forceinline__ void correct(const T* values, const bf16* transform,
                                          Sums& change) const {
    Sums left;
    load_values(values, left);
    TW_UNROLL
    for (int i = 0; i < 4 * kTiles; ++i) {
      left[i / 4][i % 4] -= change[i / 4][i % 4];
      change[i / 4][i % 4] = 0;
    }
    const bf16* const begin = transform + Square::of_columns(lane());
    TW_UNROLL
    for (int e = 0; e < kSteps; e += 16) {
      const auto terms = LeftTerms<kStateTerms>::of(left[e / 8], left[e / 8 + 1]);
      TW_UNROLL
      for (int s = e; s < kSteps; s += 16)
        multiply<kStateTerms>(change[s / 8], change[s / 8 + 1], terms,
                              Square::template columns<kStateTerms>(begin, kSquare, s, e));
    }
  }
  /// state += change factors, over the steps.
  template <int kChangeTerms, int kFactorTerms>
  __device__ __forceinline__ void advance(const Sums& change, const bf16* factors) {
    const bf16* const begin = factors + Rows::of_rows(lane());
    TW_UNROLL
    for (int s = 0; s < kSteps; s += 16) {
      const auto left = LeftTerms<kChangeTerms>::of(change[s / 8], change[s / 8 + 1]);
      TW_UNROLL
      for (int d = 0; d < kOwnDims; d += 16)
        multiply<kStateTerms>(state[d / 8], state[d / 8 + 1], left,
                              Rows::template rows<kFactorTerms>(begin, kRows, s, d));
    }
  }
};

}  // namespace tw::kernels
#endif
