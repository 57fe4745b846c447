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

/// What takes few rows alone follows kFusedAddRms: of many the neutral kernels are as fast.
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
/// The kernels of an element type, each for rows of one block and for those of several.
constexpr int norm_function(NormKind kind, bool is_cluster) {
  return 2 * int(kind) + int(is_cluster);
}
inline constexpr int kNormFunctions = norm_function(NormKind::kFusedAddRms, true) + 1;
/// Those of few rows (norm_few_sm90.h): for rows of one span a thread and for longer ones; and of
/// the first two kinds the sums over rows.
constexpr int norm_few_function(NormKind kind, bool is_short) {
  return 2 * int(kind) + int(is_short);
}
inline constexpr int kNormFewFunctions = norm_few_function(NormKind::kLogSoftmaxBackward, true) + 1;
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

/// Few rows have a block each.
struct NormFewBuild {
  static constexpr int64_t kRows = 256;  // at most: as many as are under way together
  static constexpr int kShortBytes = NormBuild::kThreads * NormBuild::kSpanBytes;
  /// Of the sums over rows: threads of a block side by side in a row, and those of all rows.
  static constexpr int kAcross = 4, kColumnThreads = 256;
  static constexpr int kFactorBytes = 16;  // of a row, at most

  static constexpr int threads(int64_t spans, bool is_short) {
    const int64_t of_warp = 32 * (is_short ? 1 : NormBuild::kSpans);
    return int((spans + of_warp - 1) / of_warp) * 32;
  }
};
template <class T>
struct NormFewArguments : NormArguments<T> {
  T* column_sums[2];  // or none
  /// Of more than one row, whose sums are wanted: factors are left here, and outputs to the kernel
  /// of the sums.
  void* factors;
};

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
