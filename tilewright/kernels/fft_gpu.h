// The schedule of fft.h on a GPU. A program makes several transforms, or one, in shared memory. A
// transform that does not fit there is cut (Bailey's four steps): of n = a b numbers, number
// j = b i + c, result k = l + a m, a phase makes the transforms over i, of columns c, and turns
// their results l by w^(c l); the next one those over c, of rows l. A length with a larger prime
// factor becomes that of a convolution (Bluestein): the transform of the chirp is made first; those
// of the rows are multiplied by it and go back at once, those of columns come before and after.
#pragma once

#include "tilewright/kernels/fft_tile_gpu.h"

namespace tw::kernels {

template <class C>
struct FftGpu {
  using Number = Complex<C>;
  using Side = FftSide<C>;
  using Tile = FftTile<C>;
  static constexpr int kGpuRegisters = 128;
  static constexpr int kAtOnce = 16 / int(sizeof(C));    // numbers that a thread moves
  static constexpr int64_t kWithin = int64_t{64} << 10;  // bytes of a transform in shared memory

  View<const C, 3> x;  // [B, n, 2]
  View<C, 3> out;      // [B, n, 2]
  bool inverse, is_convolved;
  int64_t length;               // of the transforms: n, or that of the convolution
  int rows, columns;            // of a transform that is cut, or one row
  int tile_rows, tile_columns;  // that a program has
  FftPasses of_row, of_column;

  TW_DEVICE FftGpu(const View<const C, 3>& from, const View<C, 3>& to, bool is_inverse)
      : x(from), out(to), inverse(is_inverse) {
    const int64_t n = x.size(1) > 0 ? x.size(1) : 1;
    is_convolved = !FftPasses::are_for(n);
    length = is_convolved ? chirp_length(n) : n;
    rows = length * int64_t{sizeof(Number)} <= kWithin ? 1 : int(smaller_half(length));
    columns = int(length / rows);
    tile_columns = Tile::beside(rows);
    tile_rows = is_cut() && !is_convolved
                    ? Tile::beside(columns)
                    : Tile::rows(columns, is_cut() ? x.size(0) * rows : x.size(0));
    of_row = FftPasses::of(columns, Tile::kLargest);
    of_column = FftPasses::of(rows, Tile::kLargest);
  }

  template <class P>
  TW_DEVICE tile::Plan plan(const Machine&) const {
    if (x.size(0) == 0 || x.size(1) == 0) return tile::plan_of(0);
    tile::Plan plan = tile::plan_of(0);
    plan.phases = 0;
    const int64_t batch = x.size(0);
    if (is_cut()) add_phase(plan, true, batch + is_convolved);
    if (is_convolved) add_phase(plan, false, 1);
    add_phase(plan, false, batch);
    if (is_cut() && is_convolved) add_phase(plan, true, batch);
    plan.workspace_bytes = (is_cut() ? batch + is_convolved : int64_t{is_convolved}) * length *
                           int64_t{sizeof(Number)};
    return plan;
  }

  template <class P>
  TW_INLINE void operator()(P p) const {
    Task task = task_of(p);
    Tile& tile = task.tile;
    const FftPasses& passes = task.is_of_columns ? of_column : of_row;
    const bool reads = !task.is_spread && tile.is_direct(task.source, passes.first());
    const bool writes = !task.is_result && tile.is_direct(task.sink, passes.last());
    if (!reads) {
      const bool is_by_number = task.is_spread ? !tile.is_beside : task.source.is_by_number();
      const auto put = [&](int t, int j, const Number& v) { tile.at(t, j) = v; };
      if (task.is_spread)
        tile.template each<1>(
            p, is_by_number,
            [&](int t, int j) { return spread(row_of(task, t), number_of(task, t, j)); }, put);
      else
        tile.template each<kAtOnce>(
            p, is_by_number, [&](int t, int j) { return task.source.load(t, j); }, put);
      p.sync();
    }
    TW_ROLLED
    for (int i = 0; i <= int(task.convolves); ++i) {
      const bool is_end = i == int(task.convolves);
      tile.run(p, passes, task.source, reads && i == 0, task.sink, writes && is_end,
               is_end ? task.turn : FftTurn{});
      if (is_end) break;
      tile.template each<kAtOnce>(
          p, true,
          [&](int t, int k) {
            const Number& by = task.chirp[(is_cut() ? int64_t{t} * columns : 0) + k];
            return tile.at(t, k).times(by).exchanged();
          },
          [&](int t, int k, const Number& v) { tile.at(t, k) = v; });
      p.sync();
    }
    if (writes) return;
    const bool is_by_number = task.is_result ? !tile.is_beside : task.sink.is_by_number();
    const auto get = [&](int t, int k) { return tile.at(t, k); };
    if (task.is_result)
      tile.template each<1>(p, is_by_number, get, [&](int t, int k, const Number& v) {
        store_result(row_of(task, t), number_of(task, t, k), v);
      });
    else
      tile.template each<kAtOnce>(p, is_by_number, get,
                                  [&](int t, int k, const Number& v) { task.sink.store(t, k, v); });
  }

 private:
  struct Part {
    int64_t which, first;  // of the transforms; of its rows or columns, or of all transforms
    int here;
  };
  /// What a program does.
  struct Task {
    Tile tile;
    int64_t which, first;  // as of a Part
    bool is_of_columns;
    bool is_spread, is_result;  // reads what is convolved, and writes what comes of that
    bool convolves;
    const Number* chirp;  // its transform
    Side source, sink;    // otherwise
    FftTurn turn;
  };

  template <class P>
  TW_INLINE Task task_of(P p) const {
    const bool is_first = is_cut() && p.phase() == 0, is_of_columns = is_first || p.phase() == 3;
    const bool is_of_chirp = is_convolved && p.phase() == int(is_cut());
    const bool convolves = is_convolved && !is_of_columns && !is_of_chirp;
    const int64_t all_rows = is_cut() || is_of_chirp ? rows : x.size(0);
    const Part part = is_of_columns ? part_of(p.index(), columns, tile_columns)
                                    : part_of(p.index(), all_rows, tile_rows);
    const bool is_beside = is_of_columns || (is_cut() && !is_convolved);
    const Tile tile(is_of_columns ? rows : columns, is_of_columns ? tile_columns : tile_rows,
                    part.here, is_beside, p.template scratch<Number>());

    // The call's numbers, or those between two phases; the chirp's follow the rows'.
    const int64_t which = is_of_chirp && is_cut() ? x.size(0) : part.which;
    Number* const between = p.template workspace<Number>();
    Number* const its = between + which * length;
    const Side inside = is_of_columns ? Side::of(its + part.first, 1, columns)
                                      : Side::of(its + part.first * columns, columns, 1);
    const auto outside = [&](C* data, const int64_t(&stride)[3]) {
      if (!is_cut())
        return Side::of(data + part.first * stride[0], stride[0], stride[1], stride[2], inverse);
      return Side::of(data + which * stride[0] + part.first * stride[1], stride[1],
                      (is_first ? columns : rows) * stride[1], stride[2], inverse);
    };
    const bool is_in = !is_convolved && p.phase() == 0, is_out = !is_convolved && !is_first;
    const bool is_turned = is_first || (is_cut() && convolves);
    return {tile,
            is_of_chirp && !is_cut() ? x.size(0) : which,
            part.first,
            is_of_columns,
            is_convolved && (is_first || !is_cut()),
            is_convolved && (p.phase() == 3 || (convolves && !is_cut())),
            convolves,
            between + (is_cut() ? x.size(0) * length + part.first * columns : 0),
            is_in ? outside(const_cast<C*>(x.data), x.strides) : inside,
            is_out ? outside(out.data, out.strides) : inside,
            is_turned ? FftTurn{length, part.first} : FftTurn{}};
  }
  TW_INLINE int64_t number_of(const Task& task, int t, int j) const {
    return is_cut() ? int64_t{j} * columns + task.first + t : int64_t{j};
  }
  TW_INLINE int64_t row_of(const Task& task, int t) const {
    return is_cut() ? task.which : task.which + task.first + t;
  }

  TW_INLINE bool is_cut() const { return rows > 1; }
  TW_INLINE static int64_t tiles_of(int64_t count, int64_t each) {
    return index_quotient(count + each - 1, each);
  }
  /// A thread for each butterfly of the first pass.
  TW_INLINE void add_phase(tile::Plan& plan, bool is_of_columns, int64_t transforms) const {
    const int each = is_of_columns ? tile_columns : tile_rows;
    const FftPasses& passes = is_of_columns ? of_column : of_row;
    const int64_t numbers = int64_t{each} * (is_of_columns ? rows : columns);
    const int64_t threads = passes.count > 0 ? numbers / passes.radix[0] : numbers;
    plan.grid[plan.phases] = is_cut() ? transforms * tiles_of(is_of_columns ? columns : rows, each)
                                      : tiles_of(transforms, each);
    plan.columns[plan.phases++] = tile::Plan::columns_of(threads > 64 ? threads : 64);
    const int64_t bytes = Tile::scratch_bytes(numbers);
    if (bytes > plan.scratch_bytes) plan.scratch_bytes = bytes;
  }
  TW_INLINE Part part_of(int64_t index, int64_t count, int each) const {
    const int64_t tiles = tiles_of(count, each), which = index_quotient(index, tiles);
    const int64_t first = (index - which * tiles) * each, left = count - first;
    return {which, first, int(left < each ? left : each)};
  }

  /// Number j of what is convolved, from row `row`; after the last row, of the chirp, which is the
  /// same from either end.
  TW_INLINE Number spread(int64_t row, int64_t j) const {
    const int64_t n = x.size(1), back = length - j;
    if (row == x.size(0)) {
      const int64_t near = j < back ? j : back;
      return near < n ? chirp<C>(near, n).conjugate() : Number{};
    }
    if (j >= n) return {};
    const C* const at = &x(row, j, 0);
    const Number v{at[0], at[x.stride(2)]};
    return (inverse ? v.exchanged() : v).times(chirp<C>(j, n));
  }
  /// Result k of a row, from the convolution's, which has its parts exchanged.
  TW_INLINE void store_result(int64_t row, int64_t k, const Number& v) const {
    const int64_t n = x.size(1);
    if (k >= n) return;
    const C scale = C(1) / C(length);
    const Number y = Number{v.im * scale, v.re * scale}.times(chirp<C>(k, n));
    out(row, k, 0) = inverse ? y.im : y.re;
    out(row, k, 1) = inverse ? y.re : y.im;
  }
};

}  // namespace tw::kernels
