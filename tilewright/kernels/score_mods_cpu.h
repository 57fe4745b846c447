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
  static constexpr int kN = P::template kLanes<float>, kVecs = 4, kLanes = kN * kVecs;

  TW_INLINE ScoreMachine(const ScoreNumbers& numbers, const ScoreAt& first)
      : numbers_(numbers), first_(first) {}

  /// Scores of the keys from `key` on become what `program` makes of them. Integers and conditions
  /// (0 or -1) are kept as their bits.
  __attribute__((noinline)) const V* run(const ScoreProgram& program, int key, const V* scores) {
    key_ = key;
    for (int i = 0; i < program.count; ++i) {
      const ScoreInstruction& op = program.code[i];
      const V *a = at_[op.a], *b = at_[op.b];
      V* const to = at_[i];
      if (op.op < ScoreOp::kAdd)
        read(op, scores, a, to);
      else if (program.code[op.a].type == ScoreType::kFloat)
        of_floats(op.op, a, b, to);
      else if (op.op == ScoreOp::kWhere)
        choose(a, b, at_[op.c], to);
      else
        of_ints(op.op, a, b, to);
    }
    return at_[program.count - 1];
  }

 private:
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
    if (op.op == ScoreOp::kLoad) return load(op.type, a, to);
    const I all = tile::splat<I>(constant(op));
    each_int(to, [&](int) TW_INLINED { return all; });
  }
  TW_INLINE void load(ScoreType type, const V* a, V* to) const {
    for (int u = 0; u < kVecs; ++u) {
      I out = ints(a[u]);
      for (int i = 0; i < kN; ++i)
        out[i] = type == ScoreType::kInt
                     ? ScoreNumbers::at(numbers_.ints, out[i])
                     : __builtin_bit_cast(int32_t, ScoreNumbers::at(numbers_.floats, out[i]));
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
  const ScoreNumbers& numbers_;
  const ScoreAt& first_;
  int key_ = 0;
  V at_[ScoreProgram::kMost][kVecs];
};

/// Modifies `count` scores, in units of log2 e, of the keys from first.key on; writes up to a
/// vector more.
template <class P>
__attribute__((noinline)) void modify_scores(P, const ScoreMods& mods, const ScoreAt& first,
                                             int64_t count, float* scores) {
  using Machine = ScoreMachine<P>;
  using V = typename Machine::V;
  using I = typename Machine::I;
  constexpr float kLog2OfE = 1.44269504f, kLn2 = 0.693147181f;
  Machine machine(mods.numbers, first);
  V row[Machine::kVecs] = {};
  for (int64_t j = 0; j < count; j += Machine::kLanes) {
    const int64_t rest = (count - j + Machine::kN - 1) / Machine::kN;
    const int vecs = rest < Machine::kVecs ? int(rest) : Machine::kVecs;
    const int key = first.key + int(j);
    float* const from = scores + j;
    for (int u = 0; u < vecs; ++u) row[u] = tile::load<V>(from + u * Machine::kN);
    if (mods.score != nullptr) {
      for (V& x : row) x *= kLn2;
      const V* const changed = machine.run(*mods.score, key, row);
      for (int u = 0; u < Machine::kVecs; ++u) row[u] = changed[u] * kLog2OfE;
    }
    if (mods.mask != nullptr) {
      const V* const seen = machine.run(*mods.mask, key, row);
      for (int u = 0; u < vecs; ++u)
        row[u] = tile::select(tile::bit_cast<I>(seen[u]) != 0, row[u],
                              tile::splat<V>(-__builtin_inff()));
    }
    for (int u = 0; u < vecs; ++u) tile::store(from + u * Machine::kN, row[u]);
  }
}

}  // namespace tw::kernels::attention_detail
