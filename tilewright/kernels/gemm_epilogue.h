// What may be done to a sum of a matrix multiplication before it is rounded. Freestanding.
//
// A thread has sums in pairs of neighbouring columns, eight columns apart, of two rows, eight
// apart. An epilogue hands out an object for a piece of out, whose loads are all under way before
// the first sum needs one, and then answers for each sum:
//
//   piece<kPairs>(row, column)(sum, 0 or 1: which row, pair, 0 or 1: which of the pair)
//
// In a transposed product a thread has a column, and rows next to each other:
//
//   column(column)(sum, row)
//
// What is added to all sums of a column, a term, is loaded before they are there:
//
//   term(column)
//
// and given to piece(row, column, terms), from that column on, or to column(column, term).
//
// An epilogue of which most calls need only a part may say so once for a tile: choose(f) is f of
// what this call needs.
//
// What few calls ask for is an adjustment: a functor of the same kind, which every sum of a tile
// passes through before, if adjusts() says so when the kernel runs. One kernel has the code of
// both, and the epilogue proper, rest(), needs no more registers than alone.
#pragma once

#include "tilewright/core/view.h"
#include "tilewright/kernels/matmul_scale.h"
#include "tilewright/tile/compute_type.h"

namespace tw::kernels {

template <class E>
concept GemmHasTerms = requires(const E e, int64_t column) { e.term(column); };

template <int kPairs, class E>
TW_INLINE auto gemm_piece(const E& epilogue, int64_t row, int64_t column, const float* terms) {
  if constexpr (GemmHasTerms<E>)
    return epilogue.template piece<kPairs>(row, column, terms);
  else
    return epilogue.template piece<kPairs>(row, column);
}
template <class E>
TW_INLINE auto gemm_column(const E& epilogue, int64_t column, float term) {
  if constexpr (GemmHasTerms<E>)
    return epilogue.column(column, term);
  else
    return epilogue.column(column);
}

/// See above; Sum is what sums are, and kLong says that it is too much code to be repeated for
/// every sum of a thread.
template <class E>
concept GemmEpilogue = requires(const E e, typename E::Sum sum, int64_t at, int i) {
  requires tile::same_type<decltype(gemm_piece<1>(e, at, at, nullptr)(sum, i, i, i)),
                           typename E::Sum>;
  requires tile::same_type<decltype(gemm_column(e, at, 0)(sum, at)), typename E::Sum>;
  E::kLong;
};

template <class E>
concept AdjustingEpilogue = requires(const E e, int64_t batch) {
  e.adjusts();
  e.adjustment(batch);
  e.rest(true);
};

/// alpha times the product.
struct GemmScale {
  using Sum = float;
  static constexpr bool kLong = false;
  float alpha;

  struct Scaled {
    float alpha;
    TW_INLINE float operator()(float x, int, int, int) const { return x * alpha; }
    TW_INLINE float operator()(float x, int64_t) const { return x * alpha; }
  };
  template <int kPairs>
  TW_INLINE Scaled piece(int64_t, int64_t) const {
    return {alpha};
  }
  TW_INLINE Scaled column(int64_t) const { return {alpha}; }
};

/// The product of integers as it is.
struct GemmExact {
  using Sum = int32_t;
  static constexpr bool kLong = false;

  struct Same {
    TW_INLINE int32_t operator()(int32_t x, int, int, int) const { return x; }
    TW_INLINE int32_t operator()(int32_t x, int64_t) const { return x; }
  };
  template <int kPairs>
  TW_INLINE Same piece(int64_t, int64_t) const {
    return {};
  }
  TW_INLINE Same column(int64_t) const { return {}; }
};

/// Elements of a row, which has `columns`, from `first` on: zeros where it has none.
template <class T, int kPairs>
struct GemmPairs {
  struct alignas(2 * sizeof(T)) Pair {
    T of[2];
  };
  Pair pair[kPairs] = {};

  TW_INLINE GemmPairs(const View<const T, 1>& row, int64_t first, int64_t columns) {
    if (!row) return;
    const T* from = row.data + first * row.stride(0);
    const bool is_aligned = reinterpret_cast<uint64_t>(from) % sizeof(Pair) == 0;
    if (row.stride(0) == 1 && is_aligned && first + 8 * kPairs - 6 <= columns) {
      TW_UNROLL
      for (int i = 0; i < kPairs; ++i) pair[i] = *reinterpret_cast<const Pair*>(from + 8 * i);
    } else {
      TW_UNROLL
      for (int i = 0; i < 2 * kPairs; ++i) {
        const int64_t at = i / 2 * 8 + i % 2;
        if (first + at < columns) pair[i / 2].of[i % 2] = from[at * row.stride(0)];
      }
    }
  }
};

/// The adjustment: alpha times the product, plus beta times an addend.
template <class T>
struct GemmAddend {
  MatmulScale scale;
  View<const T, 2> addend;  // [m, n]

  template <int kPairs>
  struct Piece {
    MatmulScale scale;
    GemmPairs<T, kPairs> addend[2];
    TW_INLINE float operator()(float x, int row, int pair, int which) const {
      return scale(x, float(addend[row].pair[pair].of[which]));
    }
  };
  template <int kPairs>
  TW_INLINE Piece<kPairs> piece(int64_t row, int64_t column) const {
    const int64_t columns = addend.size(1);
    return {scale, {{row_of(row), column, columns}, {row_of(row + 8), column, columns}}};
  }

  struct Column {
    const GemmAddend& from;
    int64_t column;
    TW_INLINE float operator()(float x, int64_t row) const {
      const View<const T, 1> rest = from.row_of(row);
      return rest && column < rest.size(0) ? from.scale(x, float(rest(column))) : x;
    }
  };
  TW_INLINE Column column(int64_t at) const { return {*this, at}; }

 private:
  /// None outside out.
  TW_INLINE View<const T, 1> row_of(int64_t row) const {
    return row < addend.size(0) ? addend[row] : View<const T, 1>{};
  }
};

/// A product's: alpha times it, plus beta times an addend. kAdjusts: whether it may have one; the
/// arguments are laid out alike.
template <class T, bool kAdjusts = true>
struct GemmProduct : GemmScale {
  float beta;
  View<const T, 3> addend;  // [batch, m, n], or absent

  TW_INLINE bool adjusts() const
    requires kAdjusts
  {
    return bool(addend);
  }
  TW_INLINE GemmAddend<T> adjustment(int64_t batch) const { return {{alpha, beta}, addend[batch]}; }
  TW_INLINE GemmScale rest(bool adjusted) const { return {adjusted ? 1.0f : alpha}; }
};

/// The adjustment: the product times a scale of its row and one of its column.
struct GemmScales {
  View<const float, 1> rows, columns;  // [m], [n]; or absent

  template <int kPairs>
  struct Piece {
    float rows[2], columns[kPairs][2];
    TW_INLINE float operator()(float x, int row, int pair, int which) const {
      return x * rows[row] * columns[pair][which];
    }
  };
  template <int kPairs>
  TW_INLINE Piece<kPairs> piece(int64_t row, int64_t column) const {
    Piece<kPairs> out{{factor(rows, row), factor(rows, row + 8)}, {}};
    TW_UNROLL
    for (int i = 0; i < 2 * kPairs; ++i)
      out.columns[i / 2][i % 2] = factor(columns, column + i / 2 * 8 + i % 2);
    return out;
  }

  struct Column {
    const GemmScales& from;
    float scale;
    TW_INLINE float operator()(float x, int64_t row) const {
      return x * factor(from.rows, row) * scale;
    }
  };
  TW_INLINE Column column(int64_t at) const { return {*this, factor(columns, at)}; }

 private:
  /// 1 where there is none, and outside out.
  TW_INLINE static float factor(const View<const float, 1>& of, int64_t at) {
    return of && at < of.size(0) ? of(at) : 1.0f;
  }
};

/// activation(x + bias), the bias of columns being their terms.
template <class Activate, bool kIsLong>
struct GemmBiased {
  using Sum = float;
  static constexpr bool kLong = kIsLong;

  template <int kPairs>
  struct Piece {
    struct alignas(2 * sizeof(float)) Pair {
      float of[2];
    };
    Pair bias[kPairs];
    TW_INLINE explicit Piece(const float* terms) {
      TW_UNROLL
      for (int i = 0; i < kPairs; ++i) bias[i] = *reinterpret_cast<const Pair*>(terms + 8 * i);
    }
    TW_INLINE float operator()(float x, int, int pair, int which) const {
      return Activate{}(x + bias[pair].of[which]);
    }
  };
  struct Column {
    float bias;
    TW_INLINE float operator()(float x, int64_t) const { return Activate{}(x + bias); }
  };
  TW_INLINE float term(int64_t) const { return 0; }
  template <int kPairs>
  TW_INLINE Piece<kPairs> piece(int64_t, int64_t, const float* terms) const {
    return Piece<kPairs>(terms);
  }
  TW_INLINE Column column(int64_t, float term) const { return {term}; }
};

/// A linear layer's: activation(x * scales + bias) + residual. kAdjusts: whether it may have
/// scales.
template <class T, class Activate, bool kAdjusts = true>
struct GemmLinear {
  using Sum = float;
  static constexpr bool kLong = true;
  /// Repeated, it would spill where sums leave no registers for an adjustment.
  using Biased = GemmBiased<Activate, !kAdjusts || !requires { Activate::kCheap; }>;
  View<const T, 1> bias;      // [n], or absent
  View<const T, 2> residual;  // [m, n], or absent
  int64_t rows, columns;      // of out; tiles reach beyond
  GemmScales scales;

  TW_INLINE bool adjusts() const
    requires kAdjusts
  {
    return scales.rows || scales.columns;
  }
  TW_INLINE const GemmScales& adjustment(int64_t) const { return scales; }
  TW_INLINE const GemmLinear& rest(bool) const { return *this; }

  TW_INLINE float term(int64_t column) const {
    return bias && column < columns ? float(bias(column)) : 0.0f;
  }

  template <class F>
  TW_INLINE void choose(F&& f) const {
    if (residual)
      f(*this);
    else
      f(Biased{});
  }

  template <int kPairs>
  struct Piece {
    typename Biased::template Piece<kPairs> biased;
    GemmPairs<T, kPairs> residual[2];
    TW_INLINE float operator()(float x, int row, int pair, int which) const {
      return biased(x, row, pair, which) + float(residual[row].pair[pair].of[which]);
    }
  };
  template <int kPairs>
  TW_INLINE Piece<kPairs> piece(int64_t row, int64_t column, const float* terms) const {
    return {typename Biased::template Piece<kPairs>(terms),
            {{residual_of(row), column, columns}, {residual_of(row + 8), column, columns}}};
  }

  struct Column {
    typename Biased::Column biased;
    View<const T, 1> residual;  // of the rows; or absent
    TW_INLINE float operator()(float x, int64_t row) const {
      const float y = biased(x, row);
      return residual && row < residual.size(0) ? y + float(residual(row)) : y;
    }
  };
  TW_INLINE Column column(int64_t at, float term) const {
    if (!residual || at >= columns) return {{term}, {}};
    return {{term}, {&residual(0, at), {rows}, {residual.stride(0)}}};
  }

 private:
  /// No row outside out, or where there is no residual.
  TW_INLINE View<const T, 1> residual_of(int64_t row) const {
    if (!residual || row >= rows) return {};
    return residual[row];
  }
};

}  // namespace tw::kernels
