// Adjacent elements that begin anywhere, as an odd number of columns makes most rows do. They come
// in the aligned words that they lie in, which a shift puts together; on the way out, threads side
// by side exchange what their words are short of. Element by element, each would take instructions
// of its own, and each store a part of a sector. Freestanding.
#pragma once

#include "tilewright/tile/cuda/memory.h"
#include "tilewright/tile/cuda/ptx.h"

namespace tw::tile {

namespace detail {

/// An aligned word of memory, as registers.
template <class Word>
struct Registers {
  static constexpr int kCount = int(sizeof(Word)) / 4;
  uint32_t of[kCount];
  __device__ __forceinline__ static Registers load(const char* from) {
    const Word word = *reinterpret_cast<const Word*>(from);
    Registers out;
    __builtin_memcpy(out.of, &word, sizeof(word));
    return out;
  }
  __device__ __forceinline__ void store(char* to) const {
    Word word;
    __builtin_memcpy(&word, of, sizeof(word));
    *reinterpret_cast<Word*>(to) = word;
  }
  /// Register i, without an array in memory.
  __device__ __forceinline__ uint32_t pick(int i) const {
    uint32_t out = of[0];
    TW_UNROLL
    for (int k = 1; k < kCount; ++k) out = i == k ? of[k] : out;
    return out;
  }
};

/// The word that begins `shift` bytes, a multiple of kUnit, after the first of two words.
template <int kUnit, class Word>
__device__ __forceinline__ Registers<Word> shifted(const Registers<Word>& first,
                                                   const Registers<Word>& second, int shift) {
  constexpr int kCount = Registers<Word>::kCount;
  uint32_t all[2 * kCount];
  TW_UNROLL
  for (int i = 0; i < kCount; ++i) {
    all[i] = first.of[i];
    all[kCount + i] = second.of[i];
  }
  TW_UNROLL
  for (int by = kCount / 2; by > 0; by /= 2) {
    if (4 * by < kUnit) break;
    TW_UNROLL
    for (int i = 0; i < kCount + by; ++i) all[i] = (shift & 4 * by) != 0 ? all[i + by] : all[i];
  }
  Registers<Word> out;
  TW_UNROLL
  for (int i = 0; i < kCount; ++i)
    out.of[i] = kUnit < 4 ? __funnelshift_r(all[i], all[i + 1], 8 * (shift & 3)) : all[i];
  return out;
}

template <class U>
__device__ __forceinline__ void put(char* to, U value) {
  *reinterpret_cast<U*>(to) = value;
}
/// Bytes [begin, end), multiples of kUnit, of the word at `to`, of which one is an end of the word.
template <int kUnit, class Word>
__device__ __forceinline__ void store_part(char* to, const Registers<Word>& word, int begin,
                                           int end) {
  constexpr int kBytes = int(sizeof(Word));
  const int count = end - begin;
  const auto offset = [&](int size) {  // pieces grow towards the end of the word that they reach
    return begin == 0 ? count & ~(2 * size - 1) : kBytes - (count & ~(size - 1));
  };
  const auto bits = [&](int at) { return word.pick(at / 4) >> 8 * (at & 3); };
  if (kUnit <= 1 && (count & 1) != 0) put(to + offset(1), uint8_t(bits(offset(1))));
  if (kUnit <= 2 && (count & 2) != 0) put(to + offset(2), uint16_t(bits(offset(2))));
  if (kBytes > 4 && kUnit <= 4 && (count & 4) != 0) put(to + offset(4), bits(offset(4)));
  if (kBytes > 8 && (count & 8) != 0) {
    const int at = offset(8) / 4;
    put(to + 4 * at, make_uint2(word.pick(at), word.pick(at + 1)));
  }
}

/// Elements at the ends of a row: few, so that the loops have the registers.
template <class R, class T>
__device__ __noinline__ R load_each(const T* from, int count) {
  return R::gather(from, 1, count);
}

}  // namespace detail

/// Bytes from the beginning of the word that the first element of a row lies in.
template <class R, class T>
__device__ __forceinline__ int shift_of(const T* row) {
  return int(reinterpret_cast<uint64_t>(row) & (R::kWordBytes - 1));
}

/// `count` elements of a row of n from `column` on, kN at most; then zero. No byte outside the row
/// is read.
template <int kN, class T>
__device__ __forceinline__ auto load_unaligned(T* row, int64_t n, int64_t column, int count) {
  using U = typename remove_const<T>::type;
  using R = Raw<U, kN>;
  using Word = detail::Registers<typename R::Word>;
  constexpr int kUnit = int(sizeof(U));
  const int shift = shift_of<R>(row + column);
  if (count == kN && shift == 0) return R::load(row + column);
  const int before = shift / kUnit, behind = shift == 0 ? 0 : R::kWordBytes / kUnit - before;
  if (count < kN || column < before || n - column < kN + behind)
    return detail::load_each<R>(row + column, count);
  const char* const from = reinterpret_cast<const char*>(row + column);
  Word words[R::kWords + 1], out[R::kWords];
  TW_UNROLL
  for (int w = 0; w < R::kWords; ++w) words[w] = Word::load(from - shift + w * R::kWordBytes);
  if (shift != 0) words[R::kWords] = Word::load(from - shift + R::kBytes);
  TW_UNROLL
  for (int w = 0; w < R::kWords; ++w)
    out[w] = detail::shifted<kUnit>(words[w], words[w + 1], shift);
  R all;
  __builtin_memcpy(all.words, out, sizeof(all.words));
  return all;
}

namespace detail {

/// The words of threads whose elements may follow on each other's: of a word that two share, the
/// one behind stores all.
template <int kUnit, class R>
__device__ __noinline__ void store_each(R raw, char* here, unsigned together) {
  using Word = typename R::Word;
  constexpr int kWords = R::kWords;
  Registers<Word> words[kWords];
  __builtin_memcpy(words, raw.words, sizeof(words));
  const int shift = int(reinterpret_cast<uint64_t>(here) & (sizeof(Word) - 1));
  constexpr int kBytes = int(sizeof(Word)), kAll = kWords * kBytes;
  const auto at = reinterpret_cast<uint64_t>(here);
  const uint64_t before = __shfl_up_sync(together, at, 1);
  const uint64_t behind = __shfl_down_sync(together, at, 1);
  const int lane = cuda::lane();
  const bool has_before = lane > 0 && (together >> (lane - 1) & 1) != 0 && before + kAll == at;
  const bool has_behind = lane < 31 && (together >> (lane + 1) & 1) != 0 && at + kAll == behind;
  const Registers<Word> last = words[kWords - 1];
  Registers<Word> left;
  TW_UNROLL
  for (int i = 0; i < last.kCount; ++i) left.of[i] = __shfl_up_sync(together, last.of[i], 1);
  char* to = here - shift;
  const Registers<Word> head = shifted<kUnit>(left, words[0], kBytes - shift);
  if (has_before)
    head.store(to);
  else
    store_part<kUnit>(to, head, shift, kBytes);
  TW_UNROLL
  for (int w = 1; w < kWords; ++w)
    shifted<kUnit>(words[w - 1], words[w], kBytes - shift).store(to += kBytes);
  if (!has_behind)
    store_part<kUnit>(to + kBytes, shifted<kUnit>(last, last, kBytes - shift), 0, shift);
}

/// The same of a whole warp whose elements follow on each other. What its first and its last
/// thread have of words that are not the warp's alone, is as much as a word: a lane for each
/// element stores it.
template <int kUnit, class Word, int kWords>
__device__ __forceinline__ void store_warp(const Registers<Word> (&words)[kWords], char* here,
                                           int shift) {
  constexpr int kBytes = int(sizeof(Word)), kAll = kWords * kBytes;
  constexpr unsigned kWarp = 0xffffffffu;
  const int lane = cuda::lane(), offset = lane * kUnit;
  const bool is_of_first = offset < kBytes - shift;
  Registers<Word> left, edge;
  TW_UNROLL
  for (int i = 0; i < left.kCount; ++i) {
    left.of[i] = __shfl_up_sync(kWarp, words[kWords - 1].of[i], 1);
    const uint32_t first = __shfl_sync(kWarp, words[0].of[i], 0);
    const uint32_t last = __shfl_sync(kWarp, words[kWords - 1].of[i], 31);
    edge.of[i] = is_of_first ? first : last;
  }
  char* to = here - shift;
  if (lane > 0) shifted<kUnit>(left, words[0], kBytes - shift).store(to);
  TW_UNROLL
  for (int w = 1; w < kWords; ++w)
    shifted<kUnit>(words[w - 1], words[w], kBytes - shift).store(to += kBytes);
  if (offset >= kBytes) return;
  const uint32_t bits = edge.pick(offset / 4) >> 8 * (offset & 3);
  char* const at = here + (is_of_first ? -lane * kAll : (32 - lane) * kAll - kBytes) + offset;
  if constexpr (kUnit == 1)
    put(at, uint8_t(bits));
  else if constexpr (kUnit == 2)
    put(at, uint16_t(bits));
  else if constexpr (kUnit == 4)
    put(at, bits);
  else
    put(at, make_uint2(bits, edge.pick(offset / 4 + 1)));
}

}  // namespace detail

/// kN elements of a row from `column` on. Called by threads of a warp together, which exchange what
/// their words are short of.
template <class T, int kN>
__device__ __forceinline__ void store_unaligned(const Raw<T, kN>& raw, T* row, int64_t column) {
  using R = Raw<T, kN>;
  constexpr int kUnit = int(sizeof(T));
  char* const here = reinterpret_cast<char*>(row + column);
  const int shift = shift_of<R>(row + column);
  if (shift == 0) return raw.store(row + column);
  detail::Registers<typename R::Word> words[R::kWords];
  __builtin_memcpy(words, raw.words, sizeof(words));
  const unsigned together = __activemask();
  if (together == 0xffffffffu) {
    const auto first =
        reinterpret_cast<char*>(__shfl_sync(together, reinterpret_cast<uint64_t>(here), 0));
    if (__all_sync(together, first + cuda::lane() * R::kBytes == here))
      return detail::store_warp<kUnit>(words, here, shift);
  }
  detail::store_each<kUnit>(raw, here, together);
}

}  // namespace tw::tile
