// A relayout by boxes on a GPU: of each dimension so many indices that both what a box reads and
// what it writes are runs of adjacent elements. It goes through shared memory, in words on the way
// in and on the way out, wherever the runs begin: whichever dimensions are small, or not aligned.
#pragma once

#include "tilewright/kernels/relayout.h"

namespace tw::kernels {

/// Division of numbers below 2^16 by one of them, in one instruction.
struct SmallDivisor {
  uint32_t factor = 0;  // 2^32 / n, rounded up; 0: n = 1
  int divisor = 1;
  SmallDivisor() = default;
  TW_INLINE explicit SmallDivisor(int n)
      : factor(n > 1 ? uint32_t(((uint64_t{1} << 32) + unsigned(n) - 1) / unsigned(n)) : 0),
        divisor(n) {}
  TW_INLINE uint32_t quotient(uint32_t i) const {
    return factor == 0 ? i : uint32_t(uint64_t{factor} * i >> 32);
  }
};

/// Worked out on the host.
template <class U>
struct RelayoutBox {
  static constexpr int kMaxRank = 8;
  static constexpr int kRead = 16 / int(sizeof(U));       // elements of a word that is read
  static constexpr int kWritten = sizeof(U) < 8 ? 4 : 2;  // written: threads meet in few banks
  static constexpr int kTogether = 2;                     // words of a thread on their way
  static constexpr int64_t kLeastRun = 64, kSector = 32;  // bytes
  static constexpr int64_t kLeast = 4 << 10, kMost = 16 << 10, kMany = 512;  // boxes
  static constexpr int64_t kThreads = 256;

  struct Dim {
    int64_t size, from, to, boxes;
    int part;    // indices of a box
    int shared;  // their distance in shared memory
  };
  /// The dimensions by their distance on one side. The first ones are a run of adjacent elements
  /// (of the source with what is between them), the next ones count the runs.
  struct Side {
    int order[kMaxRank];
    SmallDivisor parts[kMaxRank];  // in this order
    int in_run = 0, all = 0;       // dimensions of a run, and with those that count runs
    int runs = 1;
    SmallDivisor words_per_run;
  };
  int rank = 0;  // 0: no boxes
  Dim dims[kMaxRank];
  Side source, target;
  int pitch = 0;  // between runs in shared memory

  RelayoutBox() = default;
  /// `to` of the last dimension is 1.
  TW_INLINE RelayoutBox(const RelayoutDims& of, const U* from, const U* to) {
    if (of.rank > kMaxRank) return;
    int64_t bytes = int64_t{sizeof(U)};
    for (int d = 0; d < of.rank; ++d) {
      dims[d] = {of.sizes[d], of.from[d], of.to[d], 1, 1, 0};
      bytes *= of.sizes[d];
    }
    rank = of.rank;
    sort(source, &Dim::from);
    sort(target, &Dim::to);
    const int64_t gap = dims[source.order[0]].from;
    if (gap < 1 || gap * int64_t{sizeof(U)} > kSector) {
      rank = 0;
      return;
    }
    const int64_t share = bytes / kMany, most = share < kLeast  ? kLeast
                                                : share < kMost ? share
                                                                : kMost;
    for (int64_t run = kLeastRun; run <= most; run *= 2)
      if (!grow(source, &Dim::from, run, most / gap) || !grow(target, &Dim::to, run, most / gap))
        break;
    for (int d = 0; d < rank; ++d) dims[d].boxes = (dims[d].size + dims[d].part - 1) / dims[d].part;
    lay_out(from, to);
  }

  TW_INLINE tile::Plan plan() const {
    int64_t boxes = 1;
    for (int d = 0; d < rank; ++d) boxes *= dims[d].boxes;
    const int64_t all = spread(unsigned(pitch * source.runs)) + kPacked;
    const int64_t elements = kHeader / int64_t{sizeof(U)} + all;
    return tile::plan_of(boxes, elements * int64_t{sizeof(U)}).over_threads(kThreads);
  }

 private:
  using Stride = int64_t Dim::*;
  static constexpr int64_t kHeader = 64;
  static constexpr int kPacked = sizeof(U) < 4 ? 4 / int(sizeof(U)) : 1;  // elements of a bank
  static_assert(kMaxRank * sizeof(int) <= kHeader);

  /// Where an element lies in shared memory: a word is left out behind the words of all banks. With
  /// an odd number of words from run to run, elements any distance apart are in different banks.
  TW_INLINE static unsigned spread(unsigned at) {
    return at + at / (128 / unsigned(sizeof(U))) * kPacked;
  }
  TW_INLINE void sort(Side& side, Stride stride) {
    const auto key = [&](int d) {  // what repeats or goes backwards is not adjacent
      return dims[d].*stride > 0 ? dims[d].*stride : int64_t{1} << 62;
    };
    for (int i = 0; i < rank; ++i) {
      int at = i;
      for (; at > 0 && key(side.order[at - 1]) > key(i); --at) side.order[at] = side.order[at - 1];
      side.order[at] = i;
    }
  }
  /// Whether dimension i of a side's order goes on where the ones before it end.
  TW_INLINE bool goes_on(const Side& side, Stride stride, int i) const {
    if (i == 0) return true;
    const Dim &before = dims[side.order[i - 1]], &next = dims[side.order[i]];
    return before.part == before.size && next.*stride == before.*stride * before.size;
  }
  /// Makes a side's runs so many bytes, unless boxes of more than `most` bytes would come of it.
  TW_INLINE bool grow(const Side& side, Stride stride, int64_t run, int64_t most) {
    int parts[kMaxRank];
    int64_t bytes = int64_t{sizeof(U)};
    for (int d = 0; d < rank; ++d) parts[d] = dims[d].part;
    for (int i = 0; i < rank && goes_on(side, stride, i); ++i) {
      Dim& d = dims[side.order[i]];
      const int64_t step = d.*stride * int64_t{sizeof(U)};
      const int64_t part = part_of(d.size, (run + step - 1) / step);
      if (d.part < part) d.part = int(part < most ? part : most + 1);
    }
    for (int d = 0; d < rank; ++d) bytes *= dims[d].part;
    if (bytes <= most) return true;
    for (int d = 0; d < rank; ++d) dims[d].part = parts[d];
    return false;
  }
  /// A part of a dimension of at least `least` indices: all parts are about equal.
  TW_INLINE static int64_t part_of(int64_t size, int64_t least) {
    if (size < 2 * least) return size;
    const int64_t count = size / least, each = (size + count - 1) / count;
    return each < kRead ? each : (each + kRead - 1) / kRead * kRead;
  }

  TW_INLINE void lay_out(const U* from, const U* to) {
    count(source, &Dim::from);
    count(target, &Dim::to);
    int length = 1, before = 0;
    for (int i = 0; i < source.in_run; ++i) {
      Dim& d = dims[source.order[i]];
      d.shared = int(d.from);
      length += (d.part - 1) * d.shared;
    }
    pitch = pitch_of(length, source.runs);
    before = pitch;
    for (int i = source.in_run; i < source.all; ++i) {
      Dim& d = dims[source.order[i]];
      d.shared = before;
      before *= d.part;
    }
    int written = 1;
    for (int i = 0; i < target.in_run; ++i) written *= dims[target.order[i]].part;
    source.words_per_run = words<kRead>(source, &Dim::from, from, length);
    target.words_per_run = words<kWritten>(target, &Dim::to, to, written);
  }
  TW_INLINE static int pitch_of(int length, int runs) {
    const int count = (length + kPacked - 1) / kPacked;
    return (runs > 1 ? count | 1 : count) * kPacked;
  }
  TW_INLINE void count(Side& side, Stride stride) {
    int others[kMaxRank], left = 0;
    for (int i = 0; i < rank; ++i) {
      const int d = side.order[i];
      if (side.in_run == i && goes_on(side, stride, i) && (i == 0 || dims[d].part > 1))
        side.order[side.in_run++] = d;
      else if (dims[d].part > 1)
        others[left++] = d;
    }
    side.all = side.in_run + left;
    for (int i = 0; i < left; ++i) {
      side.order[side.in_run + i] = others[i];
      side.runs *= dims[others[i]].part;
    }
    for (int i = 0; i < side.all; ++i) side.parts[i] = SmallDivisor(dims[side.order[i]].part);
  }
  /// Words that a run lies in: one more, unless all runs begin with one.
  template <int kN>
  TW_INLINE SmallDivisor words(const Side& side, Stride stride, const U* data, int length) const {
    auto bits = reinterpret_cast<uint64_t>(data) / sizeof(U);
    for (int d = 0; d < rank; ++d)
      if (dims[d].boxes > 1) bits |= uint64_t(dims[d].part * dims[d].*stride);
    for (int i = side.in_run; i < side.all; ++i) bits |= uint64_t(dims[side.order[i]].*stride);
    return SmallDivisor((length + kN - 1) / kN + (bits % kN != 0));
  }

#if defined(__CUDACC__)
 public:
  template <class P>
  __device__ __forceinline__ void move(P p, const U* from, U* to) const {
    int* const limits = reinterpret_cast<int*>(tile::cuda::shared_scratch);
    int64_t index = p.index();
    TW_ROLLED
    for (int d = rank - 1; d >= 0; --d) {
      const Dim& dim = dims[d];
      const int64_t next = index_quotient(index, dim.boxes);
      const int64_t begin = (index - next * dim.boxes) * dim.part, rest = dim.size - begin;
      if (p.thread() == 0) limits[d] = int(rest < dim.part ? rest : dim.part);
      from += begin * dim.from;
      to += begin * dim.to;
      index = next;
    }
    p.sync();
    read(p, from, limits);
    p.sync();
    write(p, to, limits);
  }

 private:
  using Line = tile::Raw<U, kRead>;

  __device__ __forceinline__ static U* elements() {
    return reinterpret_cast<U*>(tile::cuda::shared_scratch + kHeader);
  }
  /// Elements from the first to the last one of a run.
  __device__ __forceinline__ int extent(const Side& side, Stride stride, const int* limits) const {
    int64_t length = 1;
    TW_ROLLED
    for (int i = 0; i < side.in_run; ++i) {
      const int d = side.order[i];
      length += (limits[d] - 1) * dims[d].*stride;
    }
    return int(length);
  }

  /// A part of a run: elements [begin, end) of a word, from the run's element `column` on.
  struct Word {
    int64_t run;  // where it begins in memory
    int column, shared, begin, end;
    __device__ __forceinline__ bool is_whole(int of) const { return end - begin == of; }
  };
  /// Word i of a side of the box.
  template <int kN>
  __device__ __forceinline__ Word word_at(int i, const Side& side, Stride stride, const U* data,
                                          int length, const int* limits) const {
    int rest = int(side.words_per_run.quotient(unsigned(i)));
    Word out{0, (i - rest * side.words_per_run.divisor) * kN, 0, 0, 0};
    bool is_inside = rest < side.runs;
    TW_ROLLED
    for (int k = side.in_run; k < side.all; ++k) {
      const int d = side.order[k], next = int(side.parts[k].quotient(unsigned(rest)));
      const int x = rest - next * side.parts[k].divisor;
      is_inside = is_inside && x < limits[d];
      out.run += x * dims[d].*stride;
      out.shared += x * dims[d].shared;
      rest = next;
    }
    const auto address = reinterpret_cast<uint64_t>(data + out.run) / sizeof(U);
    out.column -= int(address & (kN - 1));  // words begin where memory's do
    out.begin = out.column < 0 ? -out.column : 0;
    out.end = length - out.column < kN ? length - out.column : kN;
    if (!is_inside || out.end < out.begin) out.end = out.begin;
    return out;
  }

  template <class P>
  __device__ __forceinline__ void read(P p, const U* from, const int* limits) const {
    const int length = extent(source, &Dim::from, limits);
    const int all = source.runs * source.words_per_run.divisor, step = p.threads();
    TW_ROLLED
    for (int first = p.thread(); first < all; first += kTogether * step) {
      Line lines[kTogether];
      int at[kTogether], lanes_of[kTogether];  // begin and end in two bytes
      TW_UNROLL
      for (int t = 0; t < kTogether; ++t) {
        const Word word =
            word_at<kRead>(first + t * step, source, &Dim::from, from, length, limits);
        const U* const line = from + word.run + word.column;
        at[t] = word.shared + word.column;
        lanes_of[t] = word.begin | word.end << 8;
        if (word.is_whole(kRead)) {
          lines[t] = Line::load(line);
        } else {
          U lanes[kRead];
          TW_UNROLL
          for (int j = 0; j < kRead; ++j)
            lanes[j] = j >= word.begin && j < word.end ? line[j] : U{};
          lines[t] = Line::of(lanes);
        }
      }
      TW_UNROLL
      for (int t = 0; t < kTogether; ++t) put(lines[t], at[t], lanes_of[t] & 255, lanes_of[t] >> 8);
    }
  }
  __device__ __forceinline__ static void put(const Line& line, int at, int begin, int end) {
    using Part = tile::Raw<U, kPacked>;
    U lanes[kRead];
    TW_UNROLL
    for (int j = 0; j < kRead; ++j) lanes[j] = line.element(j);
    if (end - begin == kRead && at % kPacked == 0) {
      Part parts[kRead / kPacked];
      __builtin_memcpy(parts, lanes, sizeof(parts));
      TW_UNROLL
      for (int j = 0; j < kRead / kPacked; ++j)
        parts[j].store(elements() + spread(unsigned(at + j * kPacked)));
    } else {
      TW_UNROLL
      for (int j = 0; j < kRead; ++j)
        if (j >= begin && j < end) elements()[spread(unsigned(at + j))] = lanes[j];
    }
  }

  template <class P>
  __device__ __forceinline__ void write(P p, U* to, const int* limits) const {
    const int length = extent(target, &Dim::to, limits);
    const int all = target.runs * target.words_per_run.divisor;
    TW_ROLLED
    for (int i = p.thread(); i < all; i += p.threads()) {
      const Word word = word_at<kWritten>(i, target, &Dim::to, to, length, limits);
      unsigned rest[kWritten], at[kWritten];  // anything before the run's first element
      TW_UNROLL
      for (int j = 0; j < kWritten; ++j)
        rest[j] = unsigned(word.column + j), at[j] = unsigned(word.shared);
      TW_ROLLED
      for (int k = 0; k < target.in_run; ++k) {
        const SmallDivisor part = target.parts[k];
        const unsigned distance = dims[target.order[k]].shared;
        TW_UNROLL
        for (int j = 0; j < kWritten; ++j) {
          const unsigned next = k + 1 < target.in_run ? part.quotient(rest[j]) : 0;
          at[j] += (rest[j] - next * unsigned(part.divisor)) * distance;
          rest[j] = next;
        }
      }
      U lanes[kWritten];
      TW_UNROLL
      for (int j = 0; j < kWritten; ++j)
        lanes[j] = j >= word.begin && j < word.end ? elements()[spread(at[j])] : U{};
      U* const line = to + word.run + word.column;
      if (word.is_whole(kWritten)) {
        tile::Raw<U, kWritten>::of(lanes).store(line);
      } else {
        TW_UNROLL
        for (int j = 0; j < kWritten; ++j)
          if (j >= word.begin && j < word.end) line[j] = lanes[j];
      }
    }
  }
#endif
};

}  // namespace tw::kernels
