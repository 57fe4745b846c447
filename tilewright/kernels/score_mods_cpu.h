// Modifications of scores and masks on the CPU: a row of a block of keys, some vectors at a time.
// An operation is looked up once for all of their lanes.
#pragma once

#include "tilewright/kernels/score_program.h"
#include "tilewright/tile/circular.h"
#include "tilewright/tile/math.h"
#include "tilewright/tile/tile.h"

namespace tw::kernels::attention_detail {

template <class P>
class ScoreMachine {
 public:
  using V = typename P::f32;
  using I = tile::with_element<int32_t, V>;
  static constexpr int kN = P::template kLanes<float>, kVecs = 8, kLanes = kN * kVecs;

  /// That hold so many numbers, or all.
  TW_INLINE static int vectors(int64_t count) {
    return count < kLanes ? int(count + kN - 1) / kN : kVecs;
  }

  TW_INLINE ScoreMachine(const ScoreProgram& program, const ScoreNumbers& numbers,
                         const ScoreAt& first)
      : program_(program), numbers_(numbers), first_(first) {
    run(0, program.shared, nullptr);
  }

  /// What the program makes of scores of the keys from `key` on. Integers and conditions (0 or -1)
  /// are kept as their bits.
  TW_INLINE const V* operator()(int key, const V* scores) {
    key_ = key;
    run(program_.shared, program_.count, scores);
    return at_[program_.count - 1];
  }

 private:
  __attribute__((noinline)) void run(int begin, int end, const V* scores) {
    for (int i = begin; i < end; ++i) {
      const ScoreInstruction& op = program_.code[i];
      const V *a = at_[op.a], *b = at_[op.b];
      V* const to = at_[i];
      if (op.op < ScoreOp::kAdd)
        read(op, scores, a, to);
      else if (program_.code[op.a].type == ScoreType::kFloat)
        of_floats(op.op, a, b, to);
      else if (op.op == ScoreOp::kWhere)
        choose(a, b, at_[op.c], to);
      else
        of_ints(op.op, a, b, to);
    }
  }

  TW_INLINE static I ints(V x) { return tile::bit_cast<I>(x); }
  template <class F>
  TW_INLINE static void each(V* to, F&& f) {
    TW_UNROLL
    for (int u = 0; u < kVecs; ++u) to[u] = f(u);
  }
  template <class F>
  TW_INLINE static void each_int(V* to, F&& f) {
    TW_UNROLL
    for (int u = 0; u < kVecs; ++u) to[u] = tile::bit_cast<V>(I(f(u)));
  }

  /// What is the same for all keys.
  TW_INLINE int constant(const ScoreInstruction& op) const {
    switch (op.op) {
      case ScoreOp::kBatch:
        return first_.batch;
      case ScoreOp::kHead:
        return first_.head;
      case ScoreOp::kQuery:
        return first_.query;
      case ScoreOp::kQueries:
        return first_.queries;
      case ScoreOp::kKeys:
        return first_.keys;
      default:
        return op.number;
    }
  }
  TW_INLINE void read(const ScoreInstruction& op, const V* scores, const V* a, V* to) const {
    if (op.op == ScoreOp::kScore) return each(to, [&](int u) TW_INLINED { return scores[u]; });
    if (op.op == ScoreOp::kKey)
      return each_int(to, [&](int u) TW_INLINED { return tile::iota<I>(key_ + u * kN); });
    if (op.op == ScoreOp::kToFloat)
      return each(to, [&](int u) TW_INLINED { return tile::convert<V>(ints(a[u])); });
    if (op.op == ScoreOp::kLoad)
      return op.type == ScoreType::kInt ? load(numbers_.ints, op, a, to)
                                        : load(numbers_.floats, op, a, to);
    const I all = tile::splat<I>(constant(op));
    each_int(to, [&](int) TW_INLINED { return all; });
  }
  template <class T>
  TW_INLINE void load(const View<const T, 1>& from, const ScoreInstruction& op, const V* a,
                      V* to) const {
    using Numbers = tile::with_element<T, V>;
    if (op.a < program_.shared) {
      const Numbers all = tile::splat<Numbers>(ScoreNumbers::at(from, ints(a[0])[0]));
      return each(to, [&](int) TW_INLINED { return tile::bit_cast<V>(all); });
    }
    const int64_t first = ints(a[0])[0];
    if (op.number == 1 && from.stride(0) == 1 && first >= 0 && first + kLanes <= from.size(0))
      return each(to, [&](int u) TW_INLINED {
        return tile::bit_cast<V>(tile::load<Numbers>(from.data + first + u * kN));
      });
    for (int u = 0; u < kVecs; ++u) {
      const I at = ints(a[u]);
      Numbers out{};
      for (int i = 0; i < kN; ++i) out[i] = ScoreNumbers::at(from, at[i]);
      to[u] = tile::bit_cast<V>(out);
    }
  }

  /// c is not -inf where nothing is: both sides are numbers, and none is chosen by arithmetic.
  TW_INLINE static void choose(const V* a, const V* b, const V* c, V* to) {
    each(to, [&](int u) TW_INLINED { return tile::select(ints(a[u]) != 0, b[u], c[u]); });
  }
  TW_INLINE static void of_floats(ScoreOp op, const V* a, const V* b, V* to) {
    switch (op) {
#define TW_FLOATS(name, value) \
  case ScoreOp::name:          \
    return each(to, [&](int u) TW_INLINED { return value; })
      TW_FLOATS(kAdd, a[u] + b[u]);
      TW_FLOATS(kSub, a[u] - b[u]);
      TW_FLOATS(kMul, a[u] * b[u]);
      TW_FLOATS(kDiv, a[u] / b[u]);
      TW_FLOATS(kMin, tile::min(a[u], b[u]));
      TW_FLOATS(kMax, tile::max(a[u], b[u]));
      TW_FLOATS(kNeg, -a[u]);
      TW_FLOATS(kAbs, tile::bit_cast<V>(ints(a[u]) & 0x7fffffff));
      TW_FLOATS(kSqrt, tile::sqrt(a[u]));
      TW_FLOATS(kFloor, tile::floor(a[u]));
#undef TW_FLOATS
      case ScoreOp::kLess:
        return each_int(to, [&](int u) TW_INLINED { return a[u] < b[u]; });
      case ScoreOp::kLessEqual:
        return each_int(to, [&](int u) TW_INLINED { return a[u] <= b[u]; });
      case ScoreOp::kEqual:
        return each_int(to, [&](int u) TW_INLINED { return a[u] == b[u]; });
      default:
        return elementary(op, a, to);
    }
  }
  /// Not unrolled: their text is long.
  TW_INLINE static void elementary(ScoreOp op, const V* a, V* to) {
    for (int u = 0; u < kVecs; ++u) {
      const V x = a[u];
      to[u] = op == ScoreOp::kExp    ? tile::exp(x)
              : op == ScoreOp::kExp2 ? exp2(x)
              : op == ScoreOp::kLog  ? tile::log(x)
              : op == ScoreOp::kLog2 ? tile::log(x) * kLog2OfE
              : op == ScoreOp::kTanh ? tile::tanh(x)
                                     : tile::sigmoid(x);
    }
  }
  /// Its fraction by e^x, which is exact to a bit there, and the whole part exactly.
  TW_INLINE static V exp2(V x) {
    const V bounded = tile::min(tile::splat<V>(129.0f), tile::max(tile::splat<V>(-160.0f), x));
    const V whole = tile::floor(bounded);
    return tile::detail::times_any_power_of_2(tile::exp((bounded - whole) * 0.693147181f),
                                              whole + tile::detail::kToWhole);
  }
  TW_INLINE static void of_ints(ScoreOp op, const V* a, const V* b, V* to) {
    using U = tile::with_element<uint32_t, V>;  // wraps
    switch (op) {
#define TW_INTS(name, value) \
  case ScoreOp::name:        \
    return each_int(to, [&](int u) TW_INLINED { return value; })
      TW_INTS(kAdd, tile::bit_cast<I>(tile::bit_cast<U>(a[u]) + tile::bit_cast<U>(b[u])));
      TW_INTS(kSub, tile::bit_cast<I>(tile::bit_cast<U>(a[u]) - tile::bit_cast<U>(b[u])));
      TW_INTS(kMul, tile::bit_cast<I>(tile::bit_cast<U>(a[u]) * tile::bit_cast<U>(b[u])));
      TW_INTS(kNeg, tile::bit_cast<I>(U{} - tile::bit_cast<U>(a[u])));
      TW_INTS(kMin, tile::select(ints(a[u]) < ints(b[u]), ints(a[u]), ints(b[u])));
      TW_INTS(kMax, tile::select(ints(a[u]) > ints(b[u]), ints(a[u]), ints(b[u])));
      TW_INTS(kAbs, tile::select(ints(a[u]) < 0, tile::bit_cast<I>(U{} - tile::bit_cast<U>(a[u])),
                                 ints(a[u])));
      TW_INTS(kLess, ints(a[u]) < ints(b[u]));
      TW_INTS(kLessEqual, ints(a[u]) <= ints(b[u]));
      TW_INTS(kEqual, ints(a[u]) == ints(b[u]));
      TW_INTS(kAnd, ints(a[u]) & ints(b[u]));
      TW_INTS(kOr, ints(a[u]) | ints(b[u]));
      TW_INTS(kNot, ~ints(a[u]));
#undef TW_INTS
      case ScoreOp::kFloorDiv:
        return by_lanes(a, b, to, [](int32_t x, int32_t y) { return score_floor_div(x, y); });
      default:
        return by_lanes(a, b, to, [](int32_t x, int32_t y) { return score_remainder(x, y); });
    }
  }
  template <class F>
  TW_INLINE static void by_lanes(const V* a, const V* b, V* to, F&& f) {
    for (int u = 0; u < kVecs; ++u) {
      I x = ints(a[u]);
      const I y = ints(b[u]);
      for (int i = 0; i < kN; ++i) x[i] = f(x[i], y[i]);
      to[u] = tile::bit_cast<V>(x);
    }
  }

  static constexpr float kLog2OfE = 1.44269504f;
  const ScoreProgram& program_;
  const ScoreNumbers& numbers_;
  const ScoreAt& first_;
  int key_ = 0;
  V at_[ScoreProgram::kMost][kVecs];
};

template <class P>
__attribute__((noinline)) void replace_scores(P, const ScoreProgram& program,
                                              const ScoreNumbers& numbers, const ScoreAt& first,
                                              int64_t count, float* scores) {
  using Machine = ScoreMachine<P>;
  using V = typename Machine::V;
  constexpr float kLog2OfE = 1.44269504f, kLn2 = 0.693147181f;
  Machine machine(program, numbers, first);
  V row[Machine::kVecs] = {};
  for (int64_t j = 0; j < count; j += Machine::kLanes) {
    const int vecs = Machine::vectors(count - j);
    float* const from = scores + j;
    for (int u = 0; u < vecs; ++u) row[u] = tile::load<V>(from + u * Machine::kN) * kLn2;
    const V* const changed = machine(first.key + int(j), row);
    for (int u = 0; u < vecs; ++u) tile::store(from + u * Machine::kN, changed[u] * kLog2OfE);
  }
}

/// Those that a mask hides become -inf.
template <class P>
__attribute__((noinline)) void hide_scores(P, const ScoreProgram& mask, const ScoreNumbers& numbers,
                                           const ScoreAt& first, int64_t count, float* scores) {
  using Machine = ScoreMachine<P>;
  using V = typename Machine::V;
  using I = typename Machine::I;
  Machine machine(mask, numbers, first);
  const V hidden = tile::splat<V>(-__builtin_inff());
  for (int64_t j = 0; j < count; j += Machine::kLanes) {
    const int vecs = Machine::vectors(count - j);
    float* const from = scores + j;
    const V* const seen = machine(first.key + int(j), nullptr);
    for (int u = 0; u < vecs; ++u) {
      const V score = tile::load<V>(from + u * Machine::kN);
      tile::store(from + u * Machine::kN,
                  tile::select(tile::bit_cast<I>(seen[u]) != 0, score, hidden));
    }
  }
}

/// Modifies `count` scores, in units of log2 e, of the keys from first.key on; writes up to a
/// vector more.
template <class P>
TW_INLINE void modify_scores(P p, const ScoreMods& mods, const ScoreAt& first, int64_t count,
                             float* scores) {
  if (mods.score != nullptr) replace_scores(p, *mods.score, mods.numbers, first, count, scores);
  if (mods.mask != nullptr) hide_scores(p, *mods.mask, mods.numbers, first, count, scores);
}

/// Whether a mask lets a query see any of `count` keys from first.key on.
template <class P>
__attribute__((noinline)) bool sees_any(P, const ScoreMods& mods, const ScoreAt& first,
                                        int64_t count) {
  using Machine = ScoreMachine<P>;
  using I = typename Machine::I;
  Machine machine(*mods.mask, mods.numbers, first);
  for (int64_t j = 0; j < count; j += Machine::kLanes) {
    const auto* const seen = machine(first.key + int(j), nullptr);
    I any{};
    for (int u = 0; u < Machine::kVecs; ++u) {
      const int64_t rest = count - j - u * Machine::kN;
      const I within = tile::iota<I>(0) < tile::splat<I>(int32_t(rest < 0 ? 0 : rest));
      any |= tile::bit_cast<I>(seen[u]) & within;
    }
    int32_t lanes = 0;
    for (int i = 0; i < Machine::kN; ++i) lanes |= any[i];
    if (lanes != 0) return true;
  }
  return false;
}

}  // namespace tw::kernels::attention_detail
