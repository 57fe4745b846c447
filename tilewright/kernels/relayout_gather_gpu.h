// A relayout on a GPU whose destination is one run of elements: each thread makes a word of it of
// elements from wherever they lie. Where dimensions are small, threads side by side read the same
// sectors of memory, and nothing goes through shared memory.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

/// Division of numbers below 2^31 by one of them, above 1: exact, since the factor is too large by
/// less than 1 / 2^31 of it (Granlund and Montgomery, PLDI 1994).
struct IndexDivisor {
  uint32_t factor = 0;  // 2^(31 + bits) / n, rounded up, where n is at most 2^bits
  int shift = 0, divisor = 1;
  IndexDivisor() = default;
  TW_INLINE explicit IndexDivisor(int64_t n) : divisor(int(n)) {
    int bits = 1;
    while (int64_t{1} << bits < n) ++bits;
    factor = uint32_t(((uint64_t{1} << (31 + bits)) + uint64_t(n) - 1) / uint64_t(n));
    shift = bits - 1;
  }
  TW_INLINE uint32_t quotient(uint32_t i) const {
    return uint32_t(uint64_t{factor} * i >> 32) >> shift;
  }
};

/// Worked out on the host.
template <class U>
struct RelayoutGather {
  static constexpr int kMaxRank = 6;
  static constexpr int kN = sizeof(U) > 1 ? 16 / int(sizeof(U)) : 8;  // elements of a word
  static constexpr int64_t kThreads = 256, kMost = int64_t{1} << 31;
  static constexpr int64_t kSmall = int64_t{4} << 20;  // bytes, which wait for no memory

  struct Dim {
    IndexDivisor size;
    int from;
  };
  int rank = 0;        // 0: not to be gathered
  Dim dims[kMaxRank];  // the innermost one first
  uint32_t all = 0;
  int piece = 1;  // elements of a word that lie side by side, aligned, in the source, too

  RelayoutGather() = default;
  TW_INLINE RelayoutGather(const RelayoutDims& of, const U* from, const U* to) {
    int64_t run = 1, reach = 1;
    if (of.rank > kMaxRank || reinterpret_cast<uint64_t>(to) % 16 != 0) return;
    for (int d = of.rank - 1; d >= 0; --d) {
      const int64_t stride = of.from[d] < 0 ? -of.from[d] : of.from[d];
      if (of.to[d] != run || of.sizes[d] < 2 || of.sizes[d] >= kMost / run || stride >= kMost)
        return;
      run *= of.sizes[d];
      reach += (of.sizes[d] - 1) * stride;
      dims[of.rank - 1 - d] = {IndexDivisor(of.sizes[d]), int(of.from[d])};
    }
    if (reach >= kMost || !pays(of)) return;
    rank = of.rank;
    all = uint32_t(run);
    piece = is_of_pieces(of, from, kN) ? kN : is_of_pieces(of, from, kN / 2) ? kN / 2 : 1;
  }

  TW_INLINE tile::Plan plan() const {
    const int64_t words = (int64_t{all} + kN - 1) / kN;
    return tile::plan_of((words + kThreads - 1) / kThreads).over_threads(kThreads);
  }

 private:
  static constexpr int64_t kSector = 32;  // bytes
  /// Measured: a warp may read seven times the bytes that it writes, of what the cache still has
  /// when the other warps come that need the rest of these sectors.
  TW_INLINE static bool pays(const RelayoutDims& of) {
    constexpr int64_t kWarp = 32 * kN, kMostRead = 7 * kWarp * int64_t{sizeof(U)};
    constexpr int64_t kCached = int64_t{8} << 20;
    int64_t left = kWarp, bytes = int64_t{sizeof(U)}, parts[kMaxRank];
    int unit = of.rank - 1;  // along which the source's elements are closest
    for (int d = of.rank - 1; d >= 0; --d) {
      parts[d] = of.sizes[d] < left ? of.sizes[d] : left;
      left = (left + parts[d] - 1) / parts[d];
      bytes *= of.sizes[d];
      if (distance(of, d) < distance(of, unit)) unit = d;
    }
    if (bytes <= kSmall) return true;
    if (bytes_read(of, parts) > kMostRead) return false;
    for (int d = 0; d < of.rank; ++d) parts[d] = d > unit ? of.sizes[d] : 1;
    return bytes_read(of, parts) <= kCached;
  }
  TW_INLINE static bool is_of_pieces(const RelayoutDims& of, const U* from, int64_t elements) {
    const int last = of.rank - 1;
    int64_t bits = of.sizes[last];
    for (int d = 0; d < last; ++d) bits |= of.from[d];
    return of.from[last] == 1 && bits % elements == 0 &&
           reinterpret_cast<uint64_t>(from) / sizeof(U) % uint64_t(elements) == 0;
  }
  TW_INLINE static int64_t distance(const RelayoutDims& of, int d) {
    return (of.from[d] < 0 ? -of.from[d] : of.from[d]) * int64_t{sizeof(U)};
  }
  /// Of the sectors that so many indices of each dimension lie in.
  TW_INLINE static int64_t bytes_read(const RelayoutDims& of, const int64_t* parts) {
    int64_t run = int64_t{sizeof(U)}, runs = 1;
    for (int d = 0; d < of.rank; ++d) {
      if (distance(of, d) < kSector)
        run += (parts[d] - 1) * distance(of, d);
      else
        runs *= parts[d];
    }
    return (run + kSector - 1) / kSector * kSector * runs;
  }

#if defined(__CUDACC__)
 public:
  template <class P>
  __device__ __forceinline__ void move(P p, const U* from, U* to) const {
    const uint32_t thread = uint32_t(p.index()) * uint32_t(p.threads()) + uint32_t(p.thread());
    const uint32_t first = thread * kN;
    if (first >= all) return;
    if (piece == kN)
      move_word<kN>(first, from, to);
    else if (piece > 1)
      move_word<kN / 2>(first, from, to);
    else
      move_word<1>(first, from, to);
  }

 private:
  template <int kPiece>
  __device__ __forceinline__ void move_word(uint32_t first, const U* from, U* to) const {
    constexpr int kPieces = kN / kPiece;
    uint32_t rest[kPieces];
    int at[kPieces] = {};
    TW_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const uint32_t element = first + i * kPiece;
      rest[i] = element < all ? element : 0;
    }
    TW_ROLLED
    for (int d = 0; d + 1 < rank; ++d) {
      TW_UNROLL
      for (int i = 0; i < kPieces; ++i) {
        const uint32_t next = dims[d].size.quotient(rest[i]);
        at[i] += int(rest[i] - next * uint32_t(dims[d].size.divisor)) * dims[d].from;
        rest[i] = next;
      }
    }
    U lanes[kN];
    TW_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const U* const source = from + at[i] + int(rest[i]) * dims[rank - 1].from;
      const auto loaded = tile::Raw<U, kPiece>::load(source);
      __builtin_memcpy(lanes + i * kPiece, &loaded, sizeof(loaded));
    }
    if (first + kN <= all) {
      tile::Raw<U, kN>::of(lanes).store(to + first);
    } else {
      TW_UNROLL
      for (int i = 0; i < kN; ++i)
        if (first + i < all) to[first + i] = lanes[i];
    }
  }
#endif
};

}  // namespace tw::kernels
