// Gradients of norms on Hopper. A block stays on its multiprocessor and its groups of warps
// take rows in turn; a row that one block does not hold is shared by the blocks of a cluster. Rows
// of inputs come by bulk copies into a ring in shared memory, which a group has for itself: while
// it finishes a row, having looked at the one after it, the next ones are on their way.
//
// What the warps of a row tell each other they meet for once a row, and that one meeting serves
// twice: nobody reads the row before any more, whose place in the ring is filled again. The sums
// over rows stay in registers for the life of the block; equal calls give equal bits.
#pragma once

#include "tilewright/kernels/norm_row_sm90.h"
#include "tilewright/tile/cuda/bulk.h"
#include "tilewright/tile/cuda/cluster.h"
#include "tilewright/tile/cuda/copy_async.h"
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/cuda/grid_dependency.h"
#include "tilewright/tile/cuda/ring.h"

namespace tw::kernels {

template <class Norm, bool kIsCluster>
struct NormSm90 {
  using T = typename Norm::Element;
  using Build = NormBuild;
  using Part = typename Norm::Part;
  using Span = norm_sm90::Span<T>;
  using Mbarrier = tile::cuda::Mbarrier;
  static constexpr int kSpans = Build::kSpans, kLanes = norm_sm90::kLanes<T>;
  static constexpr int kStep = norm_sm90::kStep<T>, kWarpColumns = kSpans * kStep;
  static constexpr int kInputs = Build::kInputs, kStages = Build::kStages, kSums = Norm::kSums;
  static constexpr int kParts = (kIsCluster ? Build::kRanks : 1) * Build::kWarps;
  using Position = tile::cuda::RingPosition<kStages>;
  using Turn = tile::cuda::RingPosition<2>;  // of parts
  using Sums = norm_sm90::Sums<T>[kSums > 0 ? kSums : 1];
  const NormArguments<T>& given;

  struct alignas(128) Shared {
    char ring[Build::kRingBytes];  // [kStages][kInputs][groups], then [kSums][groups] of sums
    char weight[Build::kRowBytes];
    Part parts[2][kParts];                  // of a row and of the next one
    float columns[kParts];                  // that the parts of a row are of
    float inverses[kParts];                 // 1 / columns
    Mbarrier full[Build::kWarps][kStages];  // of each group
    Mbarrier told[2];                       // of a cluster: all parts are there
  };
  static_assert(sizeof(Shared) <= Build::kSharedBytes);
  static_assert(kSums * Build::kThreads * kSpans * kLanes * 4 <= Build::kRingBytes);

  TW_PTX void operator()(char* memory) const {
    using namespace tile::cuda;
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const Place at = place();
    begin(shared, at);
    if constexpr (kIsCluster)
      cluster_sync();
    else
      __syncthreads();
    wait_for_grids_before();
    launch_grids_after();
    Sums sums = {};
    walk(shared, at, sums);
    if constexpr (kSums > 0)
      if (given.sums > 0) put(shared, at, sums);
  }

 private:
  /// Where a thread is.
  struct Place {
    int group, warp;            // of the block; of the group
    int rank, cluster;          // of the cluster; of all
    int first_column, columns;  // of the block
    int first;                  // column of the thread, in the block
    int spans;                  // of the thread that have columns
    TW_PTX bool orders() const { return first == 0; }
  };
  TW_PTX int group_threads() const { return 32 * given.shape.warps; }
  TW_PTX int group_columns() const { return kWarpColumns * given.shape.warps; }
  TW_PTX int ranks() const { return kIsCluster ? given.shape.ranks : 1; }
  TW_PTX int clusters() const { return int(gridDim.x) / ranks(); }
  /// Columns of a rank, and of these a warp's.
  TW_PTX int columns_of(int rank) const {
    return min(given.shape.columns, given.cols - rank * given.shape.columns);
  }
  TW_PTX int columns_of(int rank, int warp) const {
    return max(0, min(kWarpColumns, columns_of(rank) - warp * kWarpColumns));
  }

  TW_PTX Place place() const {
    Place at;
    const int warp = tile::cuda::uniform(int(threadIdx.x) / 32);
    at.group = kIsCluster ? 0 : warp / given.shape.warps;
    at.warp = warp - at.group * given.shape.warps;
    at.rank = kIsCluster ? tile::cuda::cluster_rank() : 0;
    at.cluster = kIsCluster ? int(blockIdx.x) / ranks() : int(blockIdx.x);
    at.first_column = at.rank * given.shape.columns;
    at.columns = columns_of(at.rank);
    at.first = at.warp * kWarpColumns + norm_sm90::lane() * kLanes;
    const int rest = columns_of(at.rank, at.warp) - norm_sm90::lane() * kLanes;
    at.spans = max(0, rest + kStep - kLanes) / kStep;
    return at;
  }

  /// Of an input, from its group's first column.
  TW_PTX T* input(Shared& shared, const Place& at, int stage, int which) const {
    char* const rows = shared.ring + (stage * kInputs + which) * Build::kRowBytes;
    return reinterpret_cast<T*>(rows) + at.group * group_columns();
  }
  TW_PTX static T* weight(Shared& shared) { return reinterpret_cast<T*>(shared.weight); }
  /// What a thread has of a row.
  TW_PTX norm_sm90::Row<T> row(Shared& shared, const Place& at, int stage) const {
    norm_sm90::Row<T> of;
    TW_UNROLL
    for (int i = 0; i < kInputs; ++i) of.inputs[i] = input(shared, at, stage, i) + at.first;
    of.weights = weight(shared) + at.first;
    return of;
  }

  /// What needs no data of others: barriers, and zeros where rows end before their threads do.
  TW_PTX void begin(Shared& shared, const Place& at) const {
    const int thread = int(threadIdx.x), warps = given.shape.warps;
    if (thread < given.shape.groups * kStages)
      shared.full[thread / kStages][thread % kStages].init(1);
    if (kIsCluster && thread < 2) shared.told[thread].init(1);
    tile::cuda::fence_barrier_init();
    norm_sm90::for_lanes(at.group == 0 && at.warp == 0 ? ranks() * warps : 0, [&](int i) {
      shared.columns[i] = float(columns_of(i / warps, i % warps));
      shared.inverses[i] = shared.columns[i] > 0 ? 1 / shared.columns[i] : 0;
    });
    for (int s = at.spans; s < kSpans; ++s)
      for (int stage = 0; stage < kStages; ++stage)
        for (int which = 0; which < kInputs; ++which)
          Span{}.store(input(shared, at, stage, which) + at.first + s * kStep);
  }

  /// One group does, for all.
  TW_PTX void load_weight(Shared& shared, const Place& at) const {
    if (at.group != 0) return;
    const T* const from = given.weight + at.first_column + at.first;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      Span span{};
      if (s < at.spans)
        span = given.weight != nullptr ? Span::load(from + s * kStep) : norm_sm90::ones<T>();
      span.store(weight(shared) + at.first + s * kStep);
    }
  }

  /// One thread orders row r.
  TW_PTX void order(Shared& shared, const Place& at, int64_t r, int stage) const {
    const int bytes = at.columns * int(sizeof(T));
    Mbarrier& full = shared.full[at.group][stage];
    full.arrive_expect(kInputs * bytes);
    TW_UNROLL
    for (int i = 0; i < kInputs; ++i)
      tile::cuda::load_bulk(input(shared, at, stage, i),
                            given.inputs[i] + r * given.input_strides[i] + at.first_column, bytes,
                            full);
    if (Norm::kHasResidual && given.residual_grad != nullptr)
      tile::cuda::prefetch_l2(given.residual_grad + r * given.residual_stride + at.first_column,
                              bytes);
  }

  /// Waits for the row in `place` and tells all warps that share it what this one finds.
  TW_PTX void look(Shared& shared, const Place& at, Position place, int which) const {
    shared.full[at.group][place.index].wait(place.phase);
    const Part part = Norm::look(row(shared, at, place.index), at.spans,
                                 shared.inverses[at.rank * given.shape.warps + at.warp]);
    if constexpr (kIsCluster) {
      Mbarrier& told = shared.told[which];
      if (at.orders()) told.arrive_expect(ranks() * given.shape.warps * int(sizeof(Part)));
      if (norm_sm90::lane() < ranks())
        tile::cuda::send_cluster(&shared.parts[which][at.rank * given.shape.warps + at.warp], part,
                                 &told, norm_sm90::lane());
    } else if (norm_sm90::lane() == 0) {
      shared.parts[which][at.group * given.shape.warps + at.warp] = part;
    }
  }

  /// The threads of the group in this block.
  TW_PTX void meet(const Place& at) const {
    if (given.shape.warps > 1)
      tile::cuda::sync_named(1 + at.group, group_threads());
    else
      __syncwarp();
  }

  TW_PTX typename Norm::Factors settle(Shared& shared, const Place& at, Turn turn) const {
    if constexpr (kIsCluster) shared.told[turn.index].wait(turn.phase);
    return Norm::settle(&shared.parts[turn.index][at.group * given.shape.warps], shared.columns,
                        ranks() * given.shape.warps, 1.0f / float(given.cols), given.eps);
  }

  /// The rows of the group.
  TW_PTX void walk(Shared& shared, const Place& at, Sums& sums) const {
    constexpr int kAhead = kStages - 1;
    const int first = at.cluster + clusters() * at.group, last = given.rows;
    const int step = clusters() * given.shape.groups;
    if (at.orders())
      for (int i = 0, r = first; i < kAhead && r < last; ++i, r += step) order(shared, at, r, i);
    load_weight(shared, at);
    __syncthreads();
    Position next;
    Turn turn;
    if (first < last) look(shared, at, next, turn.index);
    next.next();
    for (int r = first; r < last; r += step, next.next(), turn.next()) {
      const int now = next.previous(), ordered = r + kAhead * step;
      meet(at);
      // The row before has been finished, and its place comes before this one's.
      if (at.orders() && ordered < last)
        order(shared, at, ordered, now > 0 ? now - 1 : kStages - 1);
      Span rest_of_sum[Norm::kHasResidual ? kSpans : 1];
      if constexpr (Norm::kHasResidual) load_residual(at, r, rest_of_sum);
      // Once another block has all parts of the next row, it tells of the one after it, in the
      // place of this row's parts. Where there is no other, factors wait for less in registers.
      typename Norm::Factors factors;
      if constexpr (kIsCluster) factors = settle(shared, at, turn);
      if (r + step < last) look(shared, at, next, turn.previous());
      if constexpr (!kIsCluster) factors = settle(shared, at, turn);
      finish(shared, at, now, r, factors, rest_of_sum, sums);
    }
  }

  TW_PTX void load_residual(const Place& at, int64_t r, Span (&to)[kSpans]) const {
    if (given.residual_grad == nullptr) return;
    const T* const from =
        given.residual_grad + r * given.residual_stride + at.first_column + at.first;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s)
      if (s < at.spans) to[s] = Span::load(from + s * kStep);
  }

  template <int kRest>
  TW_PTX void finish(Shared& shared, const Place& at, int stage, int64_t r,
                     const typename Norm::Factors& by, const Span (&rest)[kRest],
                     Sums& sums) const {
    const norm_sm90::Row<T> from = row(shared, at, stage);
    T* const to = given.outs[0] + r * given.out_strides[0] + at.first_column + at.first;
    TW_UNROLL
    for (int s = 0; s < kSpans; ++s) {
      auto out = Norm::finish(from, by, sums, s);
      if constexpr (Norm::kHasResidual)
        if (given.residual_grad != nullptr) norm_sm90::add<T>(out, rest[s].template widen<float>());
      if (s < at.spans) Span::narrow(out).store(to + s * kStep);
    }
  }

  // ---- sums over rows --------------------------------------------------------------------
  using FloatSpan = tile::Raw<float, kLanes>;

  /// The groups' sums are added up in order, by way of the ring.
  TW_PTX void put(Shared& shared, const Place& at, const Sums& sums) const {
    const int groups = given.shape.groups, mine = at.first;
    float* const ring = reinterpret_cast<float*>(shared.ring);
    if (groups > 1) __syncthreads();  // no group reads its rows any more
    TW_UNROLL
    for (int i = 0; i < kSums; ++i) {
      if (given.place[i] < 0) continue;
      float* const to = groups > 1 ? ring + (i * groups + at.group) * group_columns()
                                   : partial(at, given.place[i]);
      TW_UNROLL
      for (int s = 0; s < kSpans; ++s)
        if (s < at.spans) FloatSpan::narrow(sums[i][s]).store(to + mine + s * kStep);
    }
    if (groups == 1) return;
    __syncthreads();
    TW_NO_UNROLL
    for (int i = 0; i < kSums; ++i) {
      if (given.place[i] < 0) continue;
      TW_NO_UNROLL
      for (int c = int(threadIdx.x) * kLanes; c < at.columns;
           c += groups * group_threads() * kLanes) {
        const float* const from = ring + i * groups * group_columns() + c;
        auto total = FloatSpan::load(from).template widen<float>();
        TW_NO_UNROLL
        for (int g = 1; g < groups; ++g) {
          const auto more = FloatSpan::load(from + g * group_columns()).template widen<float>();
          TW_UNROLL
          for (int e = 0; e < kLanes; ++e) total[e] += more[e];
        }
        FloatSpan::narrow(total).store(partial(at, given.place[i]) + c);
      }
    }
  }
  TW_PTX float* partial(const Place& at, int place) const {
    return given.partials + (int64_t{at.cluster} * given.sums + place) * given.cols +
           at.first_column;
  }
};

}  // namespace tw::kernels
