// The schedule of sample (sample.h) on a GPU: the threads of a program share a row.
//
// Weights are whole multiples of 2^-s, rounded down, with s such that those of all tokens together
// are below 2^62 (s = 45 for 128 Ki tokens): sums are exact, and the same in any order. A token's
// probability is thus off by 2^-s at most.
//
// Scores are computed from the logits again wherever they are wanted; with a history they are kept
// in the workspace. Of top-k with a k that is not large the tokens left are put into a list: of the
// threads' own largest the k-th is a bound that few more reach. Without, and for large k, limits
// are found by digits of the scores, in passes over the row.
#pragma once

#include "tilewright/kernels/select.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/philox.h"
#include "tilewright/tile/tile.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/select.h"
#endif

namespace tw::kernels {

/// What plans ask.
struct SamplePrograms {
  static constexpr int64_t kBins = 2048, kRoom = 1024;  // of the list
  static constexpr int64_t kScoreRows = 264;            // programs that keep scores, at most

  /// With a history each program keeps the scores of a row, and walks several rows.
  TW_INLINE static int64_t count(int64_t rows, bool has_history) {
    return has_history && rows > kScoreRows ? kScoreRows : rows;
  }
  /// Bins or the list, and its length.
  static constexpr int64_t kScratchBytes = (kBins + 1) * int64_t{sizeof(uint64_t)};
  static constexpr int64_t kTokenBytes = sizeof(float) + sizeof(uint32_t);

  TW_INLINE static tile::Plan plan(int64_t rows, int64_t vocabulary, bool has_history) {
    tile::Plan plan = tile::plan_of(count(rows, has_history), kScratchBytes).over(vocabulary);
    if (has_history) plan.workspace_bytes = plan.grid[0] * vocabulary * kTokenBytes;
    return plan;
  }
};

#if defined(__CUDACC__)

/// Settings: Sample. kIsAdjacent: the scores are, those in the workspace or the logits.
template <class P, class Settings, bool kIsAdjacent>
struct SampleOnGpu {
  static constexpr float kNone = -__builtin_inff();

  const Settings& with;
  P p;
  int64_t n;  // tokens
  uint64_t* memory;
  uint32_t* listed;
  float scale;      // of weights: 2^s
  float sharpness;  // 1 / temperature
  View<const float, 1> scores;
  float high = 0;  // the largest score

  __device__ __forceinline__ SampleOnGpu(P program, const Settings& settings)
      : with(settings),
        p(program),
        n(settings.logits.cols),
        memory(program.template scratch<uint64_t>()),
        listed(reinterpret_cast<uint32_t*>(memory + SamplePrograms::kBins)),
        sharpness(1 / settings.temperature) {
    int exponent = 62;
    while ((int64_t{1} << (62 - exponent)) < n) --exponent;
    scale = __builtin_bit_cast(float, uint32_t(127 + exponent) << 23);
  }

  __device__ __forceinline__ void run_rows() {
    const int64_t programs = SamplePrograms::count(with.logits.rows, bool(with.history));
    for (int64_t row = p.index(); row < with.logits.rows; row += programs) run(row);
  }

 private:
  __device__ __forceinline__ void run(int64_t row) {
    scores = kIsAdjacent && with.history ? penalized(row) : with.logits.row(row);
    int64_t token = -1;
    if (with.temperature > 0 && limits_count()) token = draw_from_list(row);
    if (token < 0) {
      const uint64_t largest = find_largest();
      high = RankSelect::value_of(tile::key_of(largest));
      token = with.temperature > 0 && high > kNone ? draw_from_row(row) : tile::place_of(largest);
    }
    if (p.thread() == 0) with.out(row, 0) = int32_t(token);
    p.sync();  // the next row has the same memory
  }

  /// Without NaN and -0.
  __device__ __forceinline__ static float cleaned(float x) { return x == x ? x + 0.0f : kNone; }
  __device__ __forceinline__ float score(uint32_t i) const {
    return cleaned(scores.data[i * (kIsAdjacent ? 1 : scores.stride(0))]);
  }
  __device__ __forceinline__ bool limits_count() const { return with.top_k > 0 && with.top_k < n; }
  /// A score equal to the largest weighs 1 even when both are infinite.
  __device__ __forceinline__ float weight(float s) const {
    return s == high ? 1.0f : tile::exp_nonpositive((s - high) * sharpness);
  }
  __device__ __forceinline__ uint64_t whole(float w) const { return uint64_t(w * scale); }
  __device__ __forceinline__ uint64_t whole_of_drawn(float s) const {
    const float w = weight(s);
    return w >= with.min_p ? whole(w) : 0;
  }
  /// The whole number that sums of at least top_p of `total` exceed.
  __device__ __forceinline__ uint64_t limit_of_share(uint64_t total) const {
    const double share = double(with.top_p) * double(total);
    const uint64_t below = uint64_t(share);
    return below > 0 && double(below) == share ? below - 1 : below;
  }
  /// The whole number that sums of more than u times `total` exceed.
  __device__ __forceinline__ uint64_t limit_of_draw(int64_t row, uint64_t total) const {
    const tile::PhiloxBits bits =
        tile::philox(uint64_t(with.seed), uint64_t(with.offset), uint64_t(row));
    const uint64_t u = uint64_t{bits.word[0]} << 32 | bits.word[1];  // of tile::uniform
    return __umul64hi(total, u >> 11 << 11);
  }

  /// The scores after penalties, in the workspace. Each token's occurrences are counted there.
  __device__ __forceinline__ View<const float, 1> penalized(int64_t row) const {
    float* const kept = p.template workspace<float>() + p.index() * 2 * n;
    uint32_t* const counts = reinterpret_cast<uint32_t*>(kept + n);
    const View<const float, 1> logits = with.logits.row(row);
    tile::for_loaded<8>(
        p, n, [&](uint32_t i) { return cleaned(logits(i)); },
        [&](uint32_t i, float s) { kept[i] = s; });
    const auto tokens = with.history.row(row);
    const auto each = [&](auto f) {
      for (int64_t i = p.thread(); i < tokens.size(0); i += p.threads()) {
        const int32_t token = tokens(i);
        if (token >= 0) f(token);
      }
      p.sync();
    };
    each([&](int32_t token) {
      tile::require_index(p, token, n);
      counts[token] = 0;
    });
    each([&](int32_t token) { atomicAdd(counts + token, 1u); });
    each([&](int32_t token) {
      const uint32_t count = atomicExch(counts + token, 0u);  // one thread has it
      if (count == 0) return;
      float s = kept[token];
      s = s < 0 ? s * with.repetition_penalty : s / with.repetition_penalty;
      kept[token] = s - with.frequency_penalty * float(count) - with.presence_penalty;
    });
    return view(static_cast<const float*>(kept), n);
  }

  /// As an element: the score, and of equals the first.
  __device__ __forceinline__ uint64_t find_largest() const {
    float largest = kNone;
    uint32_t place = uint32_t(p.thread());
    tile::for_loaded(
        p, n, [&](uint32_t i) { return score(i); },
        [&](uint32_t i, float s) {
          if (s > largest) place = i;
          largest = s > largest ? s : largest;
        });
    const uint64_t mine =
        place < n ? tile::element_of(RankSelect::ordered_bits(largest), place) : 0;
    return tile::reduce_threads(p, tile::LargestOf{}, mine);
  }

  /// -1 where the list has no room for all scores from the k-th largest on.
  __device__ __forceinline__ int64_t draw_from_list(int64_t row) {
    constexpr int64_t kRoom = SamplePrograms::kRoom;
    const auto key = [&](uint32_t i) { return RankSelect::ordered_bits(score(i)); };
    uint64_t least = 0;
    if (n > kRoom) {
      if (2 * with.top_k > p.threads()) return -1;
      least = uint64_t{tile::bound_of_largest(p, n, with.top_k, memory, key)} << 32;
    }
    const int64_t count = tile::list_from(p, n, 0, least, memory, kRoom, listed, key);
    if (count > kRoom) return -1;
    tile::sort_largest_first(p, memory, count);
    const auto score_at = [&](int64_t i) { return RankSelect::value_of(tile::key_of(memory[i])); };
    high = score_at(0);
    if (high == kNone) return tile::place_of(memory[0]);
    int64_t kept = until_below(count, score_at(with.top_k - 1), score_at);
    if (with.top_p < 1) {
      const auto of = [&](int64_t i) { return whole(weight(score_at(i))); };
      const uint64_t total = tile::sum_all<uint64_t>(p, kept, of);
      const int64_t last = tile::find_running(p, kept, limit_of_share(total), of).index;
      if (last < kept) kept = until_below(kept, score_at(last), score_at);
    }
    p.sync();
    for (int64_t i = p.thread(); i < kept; i += p.threads())  // in order of their places
      memory[i] = memory[i] << 32 | memory[i] >> 32;
    p.sync();
    tile::sort_largest_first(p, memory, kept);
    const auto of = [&](int64_t i) {
      return whole_of_drawn(RankSelect::value_of(uint32_t(memory[i])));
    };
    const uint64_t limit = limit_of_draw(row, tile::sum_all<uint64_t>(p, kept, of));
    return int64_t{~uint32_t(memory[tile::find_running(p, kept, limit, of).index] >> 32)};
  }
  /// How many of the first `count` of a sorted list are at least `least`.
  template <class F>
  __device__ __forceinline__ int64_t until_below(int64_t count, float least, F&& score_at) const {
    return tile::find_where(p, count, [&](int64_t i) { return score_at(i) < least; });
  }

  /// The smallest score that is kept. W: what weights are added up in.
  template <class W, class F, class L>
  __device__ __forceinline__ float threshold(F&& weight_of, L&& limit_of) const {
    W* const bins = reinterpret_cast<W*>(memory);
    const auto load = [&](uint32_t i) { return score(i); };
    const auto number = [](uint32_t, float s) { return uint64_t{RankSelect::ordered_bits(s)}; };
    tile::Digits<W> digits{32, 0};
    while (digits.below > 0) {
      digits.weigh(p, bins, n, load, number, weight_of);
      if (digits.below == 32) digits.limit = limit_of(bins);
      if (digits.take(p, bins) == 0) return kNone;
    }
    return RankSelect::value_of(uint32_t(digits.known));
  }

  __device__ __forceinline__ int64_t draw_from_row(int64_t row) const {
    float least = kNone;
    if (limits_count())
      least = threshold<uint32_t>([](float) { return 1u; },
                                  [&](const uint32_t*) { return uint32_t(with.top_k - 1); });
    if (with.top_p < 1) {
      const auto of = [&](float s) { return s >= least ? whole(weight(s)) : 0; };
      const float from = threshold<uint64_t>(of, [&](const uint64_t* bins) {
        constexpr int64_t kBins = SamplePrograms::kBins;
        return limit_of_share(
            tile::sum_all<uint64_t>(p, kBins, [&](int64_t b) { return bins[b]; }));
      });
      least = from > least ? from : least;
    }
    const auto of = [&](int64_t i) {
      const float s = score(uint32_t(i));
      return s >= least ? whole_of_drawn(s) : 0;
    };
    // Sums of blocks of tokens, each by a warp; then the block, then the token in it.
    constexpr int64_t kBlock = 512, kMost = SamplePrograms::kBins;
    const int64_t size = (n + kBlock * kMost - 1) / (kBlock * kMost) * kBlock;
    const int64_t blocks = index_quotient(n + size - 1, size);
    tile::sum_blocks(p, n, size, memory, of);
    const auto of_block = [&](int64_t b) { return memory[b]; };
    const uint64_t limit = limit_of_draw(row, tile::sum_all<uint64_t>(p, blocks, of_block));
    const auto block = tile::find_running(p, blocks, limit, of_block);
    const int64_t begin = block.index * size, rest = n - begin;
    return begin +
           tile::find_running(p, rest < size ? rest : size, limit - block.before, [&](int64_t i) {
             return of(begin + i);
           }).index;
  }
};

#endif

}  // namespace tw::kernels
