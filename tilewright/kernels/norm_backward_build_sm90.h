// What the host and the device agree on about the gradients of norms on Hopper: how threads share
// rows and what the kernels are given. Neutral.
#pragma once

#include "tilewright/core/view.h"

namespace tw::kernels {

/// How threads share rows.
struct NormBackwardShape {
  int ranks;    // blocks that share one, a cluster
  int columns;  // of a row that a block has
  int warps;    // of a block that share a row
  int groups;   // of so many warps, with a row each
};

struct NormBackwardBuild {
  static constexpr int kWarps = 16, kThreads = 32 * kWarps;         // of a block, at most
  static constexpr int kRanks = 4;                                  // of a cluster, at most
  static constexpr int kSpanBytes = 16, kSpans = 4;                 // of each row a thread has
  static constexpr int kRowBytes = kThreads * kSpans * kSpanBytes;  // that a block holds, at most
  /// Rows of x and grad in shared memory: one that is looked at, the one before it, which is
  /// finished meanwhile, and one on its way.
  static constexpr int kStages = 3, kRowsOfStage = 2;
  static constexpr int kRingBytes = kStages * kRowsOfStage * kRowBytes;
  /// And the weight, and what warps tell each other: all that a block may have.
  static constexpr int kSharedBytes = kRingBytes + kRowBytes + 3072;
};

/// For rows of at most kRanks * kRowBytes bytes, whole spans.
constexpr NormBackwardShape choose_norm_backward_sm90(int64_t cols, int64_t element_bytes) {
  using Build = NormBackwardBuild;
  const int64_t span = Build::kSpanBytes / element_bytes, most = Build::kRowBytes / element_bytes;
  int ranks = 1;
  while (ranks * most < cols) ranks *= 2;
  const int64_t spans = (cols / span + ranks - 1) / ranks;  // of a block
  const int64_t of_warp = 32 * Build::kSpans;
  const int warps = int((spans + of_warp - 1) / of_warp);
  return {ranks, int(spans * span), warps, ranks > 1 ? 1 : Build::kWarps / warps};
}

/// The kernels of an element type: of RMSNorm and of layer normalization, for rows of one block and
/// for those of several.
inline constexpr int kNormBackwardFunctions = 4;
constexpr int norm_backward_function(bool is_layer_norm, bool is_cluster) {
  return 2 * int(is_layer_norm) + int(is_cluster);
}

template <class T>
struct NormBackwardArguments {
  const T *grad, *x;
  const T* residual_grad;  // or none
  const T* weight;         // or none: 1
  T* x_grad;
  int64_t grad_stride, x_stride, residual_stride, x_grad_stride;  // from a row to the next
  int rows, cols;
  float eps;
  NormBackwardShape shape;
  float* partials;  // [clusters, sums, cols]: the sums of each cluster's rows
  int sums;         // that are wanted
  int place[2];     // of each sum of the kernel among them, or -1
};

template <class T>
struct NormBackwardFoldArguments {
  static constexpr int kThreads = 256, kColumns = 32;  // of a block
  const float* partials;
  int clusters, cols, sums;
  View<T, 1> outs[2];
};

}  // namespace tw::kernels
