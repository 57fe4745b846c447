// Panels (gemm_panels_cpu.h) of numbers of 4 or 8 bits in groups, as kernels/linear_int.h has them.
// They become float32 in registers, a vector of columns at a time, and are the same numbers whether
// they are packed for many rows of a or multiplied at once with few.
#pragma once

#include "tilewright/kernels/gemm_panels_cpu.h"
#include "tilewright/tile/cpu/unpack.h"

namespace tw::kernels {

template <class T, int kBits>
struct IntPanels {
  using Element = T;
  using Value = float;
  static constexpr bool kPacked = false;
  /// Sums of two vectors for each take half of the registers.
  template <class P>
  static constexpr int64_t kRowsAtOnce = P::kRegisters / 4;

  View<const int8_t, 2> codes;  // [n, k kBits / 8]
  View<const T, 2> scale;       // [n, k / group_size], rounded up
  View<const int8_t, 2> zero;   // the same, or absent
  int64_t group_size;

  TW_INLINE bool across() const { return codes.stride(1) != 1; }

  template <class Units, class P>
  __attribute__((noinline)) void pack(P p, int64_t column, int64_t first, int64_t k, int64_t ahead,
                                      float* to) const {
    constexpr int kN = P::template kLanes<float>;
    const int64_t next = ahead > 0 ? bytes(first + k) : kWidth * codes.stride(0) + bytes(first);
    for_weights<kWidth / kN>(p, column, first, k, next,
                             [&](int64_t i, int v, auto weights)
                                 TW_INLINED { tile::store(to + i * kWidth + v * kN, weights); });
  }

  template <class Units, class P>
  TW_INLINE void multiply(P p, int rows, const float* a, int64_t column, int64_t columns, int64_t k,
                          float* tile) const {
    tile::with_rows<kRowsAtOnce<P>>(
        rows, [&]<int kRows>() { multiply_rows<kRows>(p, a, column, columns, k, tile); });
  }

 private:
  static constexpr int kWidth = tile::kPanelWidth;
  static constexpr int kWord = 32 / kBits;   // numbers of a word
  static constexpr int kStep = 512 / kBits;  // k that are read together: a cache line of a column
  static constexpr int kGroups = 32;         // groups whose scales are

  TW_INLINE static int64_t bytes(int64_t k) { return k * kBits / 8; }

  template <int kRows, class P>
  __attribute__((noinline)) void multiply_rows(P p, const float* a, int64_t column, int64_t columns,
                                               int64_t k, float* tile) const {
    using F = typename P::f32;
    constexpr int kN = tile::kLanesOf<F>;
    constexpr int kVecs = kRows <= 2 ? kWidth / kN : 2;
    for (int64_t lane = 0; lane < columns; lane += kVecs * kN) {
      F sums[kRows][kVecs] = {};
      for_weights<kVecs>(p, column + lane, 0, k, kVecs * kN * codes.stride(0),
                         [&](int64_t i, int v, F weights) TW_INLINED {
                           TW_UNROLL
                           for (int r = 0; r < kRows; ++r)
                             sums[r][v] =
                                 tile::fma(tile::splat<F>(a[i * kRows + r]), weights, sums[r][v]);
                         });
      TW_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v) tile::store(tile + r * kWidth + lane + v * kN, sums[r][v]);
      }
    }
  }

  /// Calls f(i, v, weights) for every i < k in order: k value `first` + i of vector v of the kVecs
  /// that begin with `column`. Lanes past the last column hold any. `first` is a multiple of 8;
  /// `next` is where in each row the bytes begin that are wanted after these.
  template <int kVecs, class P, class F>
  TW_INLINE void for_weights(P p, int64_t column, int64_t first, int64_t k, int64_t next,
                             F&& f) const {
    constexpr int kN = P::template kLanes<float>, kColumns = kVecs * kN;
    const int8_t* rows[kColumns];
    for (int i = 0; i < kColumns; ++i)
      rows[i] = &codes(column + i < codes.size(0) ? column + i : column, 0);
    alignas(64) uint32_t words[kStep / kWord * kColumns];
    alignas(64) float scales[kGroups * kColumns], zeros[kGroups * kColumns];

    const int64_t last = first + k;
    int64_t group = first / group_size - 1, group_end = first;
    int64_t slot = kGroups - 1;  // of the group among those whose scales were read
    for (int64_t at = first; at < last; at += kStep) {
      const int64_t end = at + kStep < last ? at + kStep : last;
      read_codes<kVecs>(p, rows, codes.stride(1), bytes(at), bytes(end - at),
                        end < last ? bytes(end) : next, words);
      for (int64_t begin = at; begin < end;) {
        if (begin == group_end) {
          group_end = (++group + 1) * group_size;
          if (++slot == kGroups) {
            slot = 0;
            const int64_t left = (last - 1) / group_size + 1 - group;
            const int64_t count = left < kGroups ? left : kGroups;
            read_groups<kColumns>(p, scale, column, group, count, scales);
            if (zero) read_groups<kColumns>(p, zero, column, group, count, zeros);
          }
        }
        const int64_t stop = group_end < end ? group_end : end;
        take_apart<kVecs, P>(words, begin - at, stop - at, scales + slot * kColumns,
                             zero ? zeros + slot * kColumns : nullptr, at - first, f);
        begin = stop;
      }
    }
  }

  /// to[i][columns] = word i of each column, the first number lowest, of `count` bytes from `first`
  /// on.
  template <int kVecs, class P>
  __attribute__((noinline)) static void read_codes(P p, const int8_t* const* rows, int64_t stride,
                                                   int64_t first, int64_t count, int64_t next,
                                                   uint32_t* to) {
    constexpr int kN = P::template kLanes<float>;
    for (int i = 0; i < kVecs * kN; ++i) tile::prefetch(rows[i] + next);
    for (int v = 0; v < kVecs; ++v)
      tile::pack_bytes(p, rows + v * kN, stride, first, count, to + v * kN, kVecs * kN);
  }

  /// to[g][kColumns] = groups [first, first + count) of so many rows.
  template <int kColumns, class P, class E>
  __attribute__((noinline)) static void read_groups(P p, const View<const E, 2>& from, int64_t row,
                                                    int64_t first, int64_t count, float* to) {
    for (int lane = 0; lane < kColumns; lane += P::template kLanes<float>) {
      const int64_t left = from.size(0) - row - lane, at = left > 0 ? row + lane : row;
      const tile::PackRows<P, E> rows(left > 0 ? left : 1, from.stride(1), 0,
                                      [&](int i) { return &from(at + i, 0); });
      tile::pack_wide<tile::WidenedUnits<E>>(p, rows, first, count, to + lane, kColumns);
    }
  }

  static constexpr float kNoZero = kBits == 4 ? 8 : 0;
  /// What raised() adds: a sign bit, turned over, adds half of its range.
  static constexpr float kRaised = 0x1p23f + (kBits == 4 ? 0 : 128);
  template <class V, class U>
  TW_INLINE static V raised(U word, int from) {
    if constexpr (kBits == 4) return tile::raised_nibble<V>(word, from);
    return tile::raised_byte<V>(word, from);
  }

  /// The k [begin, end) of a step, all of one group; the step's first one is i = `first`.
  template <int kVecs, class P, class F>
  TW_INLINE static void take_apart(const uint32_t* words, int64_t begin, int64_t end,
                                   const float* scales, const float* zeros, int64_t first, F&& f) {
    using V = typename P::f32;
    using U = typename P::template Vec<uint32_t>;
    constexpr int kN = tile::kLanesOf<V>;
    V scale[kVecs], base[kVecs];
    TW_UNROLL
    for (int v = 0; v < kVecs; ++v) {
      scale[v] = tile::load<V>(scales + v * kN);
      base[v] = kRaised + (zeros ? tile::load<V>(zeros + v * kN) : tile::splat<V>(kNoZero));
    }
    for (int64_t i = begin; i < end;) {
      U codes[kVecs];
      TW_UNROLL
      for (int v = 0; v < kVecs; ++v)
        codes[v] = tile::load<U>(words + (i / kWord * kVecs + v) * kN);
      const auto one = [&](int64_t at, int place) TW_INLINED {
        TW_UNROLL
        for (int v = 0; v < kVecs; ++v)
          f(first + at, v, (raised<V>(codes[v], kBits * place) - base[v]) * scale[v]);
      };
      if (i % kWord == 0 && i + kWord <= end) [[likely]] {
        TW_UNROLL
        for (int j = 0; j < kWord; ++j) one(i + j, j);
        i += kWord;
      } else {
        one(i, int(i % kWord));
        ++i;
      }
    }
  }
};

}  // namespace tw::kernels
