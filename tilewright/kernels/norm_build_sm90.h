// What the host and the device agree on about norms and their gradients on Hopper: how threads
// share rows and what the kernels are given. Neutral.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

/// How threads share rows.
struct NormShape {
  int ranks;    // blocks that share one, a cluster
  int columns;  // of a row that a block has
  int warps;    // of a block that share a row
  int groups;   // of so many warps, with a row each
};

struct NormBuild {
  static constexpr int kWarps = 16, kThreads = 32 * kWarps;         // of a block, at most
  static constexpr int kRanks = 4;                                  // of a cluster, at most
  static constexpr int kSpanBytes = 16, kSpans = 4;                 // of each row a thread has
  static constexpr int kRowBytes = kThreads * kSpans * kSpanBytes;  // that a block holds, at most
  /// Rows of both inputs in shared memory: one that is looked at, the one before it, which is
  /// finished meanwhile, and one on its way.
  static constexpr int kStages = 3, kInputs = 2;
  static constexpr int kRingBytes = kStages * kInputs * kRowBytes;
  /// And the weight, and what warps tell each other: all that a block may have.
  static constexpr int kSharedBytes = kRingBytes + kRowBytes + 3072;
};

/// For rows of at most kRanks * kRowBytes bytes, whole spans.
constexpr NormShape choose_norm_sm90(int64_t cols, int64_t element_bytes) {
  using Build = NormBuild;
  const int64_t span = Build::kSpanBytes / element_bytes, most = Build::kRowBytes / element_bytes;
  int ranks = 1;
  while (ranks * most < cols) ranks *= 2;
  const int64_t spans = (cols / span + ranks - 1) / ranks;  // of a block
  const int64_t of_warp = 32 * Build::kSpans;
  const int warps = int((spans + of_warp - 1) / of_warp);
  return {ranks, int(spans * span), warps, ranks > 1 ? 1 : Build::kWarps / warps};
}

/// The gradients, which have sums over rows, come first.
enum class NormKind {
  kRmsBackward,
  kLayerBackward,
  kFusedAddRms,
  kRms,
  kLayer,
  kSoftmax,
  kLogSoftmax,
  kSoftmaxBackward,
  kLogSoftmaxBackward
};
inline constexpr int kNormKinds = int(NormKind::kLogSoftmaxBackward) + 1;
constexpr bool norm_has_sums(NormKind kind) {
  return kind <= NormKind::kLayerBackward;
}
constexpr int norm_inputs(NormKind kind) {
  return kind <= NormKind::kFusedAddRms || kind >= NormKind::kSoftmaxBackward ? 2 : 1;
}

/// The kernels of an element type for many rows with sums over them (norm_sm90.h), each for rows of
/// one block and for those of several.
constexpr int norm_function(NormKind kind, bool is_cluster) {
  return 2 * int(kind) + int(is_cluster);
}
inline constexpr int kNormFunctions = norm_function(NormKind::kLayerBackward, true) + 1;
inline constexpr int kNormColumnFunctions = 2;

/// A row is what all leading dimensions are but the last; strides are from one to the next.
template <class T>
struct NormArguments {
  const T* inputs[2];      // x; and grad, or the residual that is added, or none
  const T* residual_grad;  // or none; of few rows also the bias, with a stride of 0
  const T* weight;         // or none: 1
  T* outs[2];              // the second is the sum of x and the residual
  int64_t input_strides[2], residual_stride, out_strides[2];
  int rows, cols;
  float eps;
  NormShape shape;
  float* partials;  // [clusters, sums, cols]: the sums of each cluster's rows
  int sums;         // that are wanted
  int place[2];     // of each sum of the kernel among them, or -1
};

/// Few rows whose sums are wanted.
struct NormFewBuild {
  /// Threads of a block side by side in a row, and those of all rows.
  static constexpr int kAcross = 4, kColumnThreads = 256;
  static constexpr int kFactorBytes = 16;  // of a row, at most
};
template <class T>
struct NormRowsArguments : NormArguments<T> {
  T* column_sums[2];  // or none
  /// Of more than one row, whose sums are wanted: factors are left here, and outputs to the kernel
  /// of the sums.
  void* factors;
};

/// How rows that a block holds go (norm_rows_sm90.h): few ones of one span a thread, few longer
/// ones; many, and many that registers alone do not hold.
enum class NormWay { kFewShort, kFew, kMany, kManyLong };
inline constexpr int kNormWays = int(NormWay::kManyLong) + 1;
constexpr int norm_rows_function(NormKind kind, NormWay way) {
  return kNormWays * int(kind) + int(way);
}
inline constexpr int kNormRowsFunctions = kNormKinds * kNormWays;
constexpr bool is_many(NormWay way) {
  return way >= NormWay::kMany;
}

struct NormRowsBuild {
  /// At most: as many as are under way together. With sums over rows, as many as are sooner read
  /// twice than added up in registers and in memory.
  static constexpr int64_t few_rows(NormKind kind) { return norm_has_sums(kind) ? 512 : 256; }
  static constexpr int kLeastWarps = 8;  // of a block of rows that a warp has
  static constexpr int kLongSpans = 8;   // of each input that a thread has

  /// Of a thread, where rows are many: what is faster.
  static constexpr int registers(NormWay way, NormKind kind) {
    return way == NormWay::kManyLong && kind != NormKind::kLayer ? 64 : 56;
  }
  /// Spans of each input that a thread has in registers, and in shared memory.
  static constexpr int held(NormWay way, NormKind kind) {
    if (way == NormWay::kFewShort) return 1;
    return is_many(way) ? NormBuild::kSpans / norm_inputs(kind) : NormBuild::kSpans;
  }
  static constexpr int near(NormWay way, NormKind kind) {
    return way == NormWay::kManyLong ? kLongSpans - held(way, kind) : 0;
  }
  /// Of a row of so many spans.
  static constexpr int warps(NormWay way, NormKind kind, int64_t spans) {
    const int64_t of_warp = 32 * (held(way, kind) + near(way, kind));
    return int((spans + of_warp - 1) / of_warp);
  }
  /// Of longer rows a multiprocessor's registers hold two blocks, not three: so some use less.
  static constexpr int most_warps(NormWay way, NormKind kind) {
    return way == NormWay::kMany && kind > NormKind::kRms ? 12 : NormBuild::kWarps;
  }
  /// Rows of a block, of so many warps each.
  static constexpr int rows(NormWay way, int warps) {
    return way == NormWay::kMany && warps == 1 ? kLeastWarps : 1;
  }
  /// That a block has for rows of so many warps.
  static constexpr int shared_bytes(NormWay way, NormKind kind, int warps) {
    return near(way, kind) * norm_inputs(kind) * 32 * warps * NormBuild::kSpanBytes;
  }
  static constexpr bool has(NormWay way, NormKind kind) {
    return !norm_has_sums(kind) || !is_many(way);
  }
};
struct NormRowsShape {
  NormWay way;
  int warps;  // of a row; 0: no way takes it
  int rows;   // of a block
};
/// Of rows of so many spans.
constexpr NormRowsShape choose_norm_rows(NormKind kind, int64_t rows, int64_t spans) {
  using Build = NormRowsBuild;
  const bool is_few = rows <= Build::few_rows(kind);
  for (int i = is_few ? 0 : int(NormWay::kMany); i < kNormWays; ++i) {
    const auto way = NormWay(i);
    const int warps = Build::warps(way, kind, spans);
    if (!Build::has(way, kind) || warps > Build::most_warps(way, kind)) continue;
    return {way, warps, Build::rows(way, warps)};
  }
  return {};
}

/// Many short rows: `lanes` have one, `spans` each.
struct NormShortShape {
  int lanes, spans;
};
struct NormShortBuild {
  static constexpr int kThreads = 256, kResident = 2;  // blocks of a multiprocessor
  static constexpr NormShortShape kShapes[] = {{8, 1}, {16, 1}, {32, 1}, {32, 2}};
  static constexpr int kShapeCount = 4;
  static constexpr int kFunctions = 2 * kShapeCount;  // of the gradients
  static constexpr int64_t kMostBytes = 32 * 2 * NormBuild::kSpanBytes;
  static constexpr int64_t kFewRows = 256;  // for which it is not worth it

  static constexpr int function(NormKind kind, int64_t bytes) {
    int shape = 0;
    while (kShapes[shape].lanes * kShapes[shape].spans * NormBuild::kSpanBytes < bytes) ++shape;
    return kShapeCount * int(kind) + shape;
  }
};

template <class T>
struct NormShortArguments : NormArguments<T> {
  int inner;  // rows that lie one stride apart; those of heads, if these are some of a token's
  int64_t outer_inputs[2], outer_residual, outer_out;  // strides from so many to the next
};

template <class T>
struct NormFoldArguments {
  static constexpr int kThreads = 256, kColumns = 32;  // of a block
  const float* partials;
  int clusters, cols, sums;
  View<T, 1> outs[2];
};

}  // namespace tw::kernels
