// How linear_attention and its delta rule are cut into chunks of steps on a GPU, for tensors of 16
// bits: the form of Gated DeltaNet (Yang et al., arXiv:2412.06464, section 3) and of gated linear
// attention (arXiv:2312.06635, section 4). With S the state before a chunk, and Gamma_ij what the
// gates leave between steps j and i,
//
//   R = V - (decayed K) S        D = A diag(beta) R, or V       A: the inverse of
//   delta_rule_transform O = (decayed Q) S + (Gamma * Q K^T) D                       next S = decay
//   S + (decayed K)^T D
//
// One phase makes, for all chunks at once, what does not depend on the state: a record for each
// (linear_attention_weights_gpu.h). In the next, four warps have 16 columns of a state in registers
// and walk the chunks (linear_attention_walk_gpu.h).
//
// Products are of bfloat16, float32 sums. What is not bfloat16 goes in as the sum of several, its
// terms, which have eight bits each: three where it becomes a state, which so is float32's, and two
// where it becomes an output of 16 bits. A number that is not finite spreads over its chunk.
#pragma once

#include "tilewright/tile/program.h"

namespace tw::kernels {

/// The chunks of a call.
struct LinearChunks {
  static constexpr int kSteps = 32;             // of a chunk
  static constexpr int kColumns = 16;           // of a group of warps
  static constexpr int kWarps = 4;              // of a group, each with some dimensions
  static constexpr int kMostGroups = 4;         // of a block
  static constexpr int64_t kFewest = 64;        // steps that a call is cut from on
  static constexpr int64_t kBlocksOfGpu = 128;  // that keep it busy
  static constexpr int kOutTerms = 2, kStateTerms = 3;

  int64_t dims;        // of keys, rounded up to what the kernel is built for
  int key_terms;       // of a number of q or k: 1 of bfloat16, 2 of float16
  bool is_corrected;   // the delta rule
  bool is_backward;    // of the gradient (linear_attention_backward_chunks.h)
  bool has_one_gate;   // of all dimensions; else q and k are decayed in the record
  bool reads_rows;     // the walk reads q and k where they are; else the record has them
  bool copies_values;  // v's rows are aligned
  int64_t states, chunks, columns;

  /// Dimensions that a kernel is built for: 64, 128 or 256; 0: none is.
  TW_INLINE static constexpr int64_t built_dims(int64_t dims) {
    return dims <= 0 || dims > 256 ? 0 : dims <= 64 ? 64 : dims <= 128 ? 128 : 256;
  }

  /// Of numbers that become outputs, which of gradients are float32's, too.
  TW_INLINE static constexpr int out_terms_of(bool is_backward) {
    return is_backward ? kStateTerms : kOutTerms;
  }
  TW_INLINE constexpr int out_terms() const { return out_terms_of(is_backward); }

  // A record, in elements of bfloat16. Rows of its matrices have a unit of eight more.
  TW_INLINE static constexpr int64_t padded(int64_t cols) { return cols + 8; }
  static constexpr int64_t kSquare = int64_t{kSteps} * (kSteps + 8);
  TW_INLINE constexpr int64_t rows_size() const { return kSteps * padded(dims); }
  /// Of the weights, [step, earlier step]: those of outputs, then the transform's.
  TW_INLINE constexpr int64_t weights_size() const {
    return kSquare * (out_terms() + (is_corrected ? kStateTerms : 0));
  }
  /// float32: what gates leave of the state before a step, and of a step after the chunk, or of
  /// each dimension after the chunk.
  TW_INLINE constexpr int64_t decays_size() const { return 2 * (has_one_gate ? 2 * kSteps : dims); }
  /// Of a gradient with the delta rule: betas, float32, and the transform of the errors.
  TW_INLINE constexpr int64_t betas_size() const {
    return is_corrected && is_backward ? 2 * kSteps : 0;
  }
  TW_INLINE constexpr int64_t errors_size() const {
    return is_corrected && is_backward ? kSquare * kStateTerms : 0;
  }
  /// Of a gradient: one gate's sums, float64.
  TW_INLINE constexpr int64_t sums_size() const {
    return has_one_gate && is_backward ? 4 * kSteps : 0;
  }
  /// Queries, keys; those are for the state after the chunk, and keys that the state before is held
  /// against are others, if they are decayed.
  TW_INLINE constexpr int64_t factors_size() const {
    if (has_one_gate) return rows_size() * 2 * key_terms;
    return rows_size() * (out_terms() + kStateTerms * (is_corrected ? 2 : 1));
  }
  /// What a walk needs; the gradient's walk there has the errors' transform in the weights' place.
  TW_INLINE constexpr int64_t staged_size() const {
    return weights_size() + decays_size() + betas_size();
  }
  TW_INLINE constexpr int64_t made_size() const {
    return staged_size() + errors_size() + sums_size();
  }
  TW_INLINE constexpr int64_t record_size() const {
    return made_size() + (reads_rows ? 0 : factors_size());
  }

  // What a block of the walk has in shared memory, in bytes: stages, what the warps of a group tell
  // each other, and their outputs.
  static constexpr int kValuePitch = kMostGroups * kColumns + 8, kOutPitch = kColumns + 8;
  TW_INLINE constexpr int64_t stage_bytes() const {
    return 2 * (staged_size() + factors_size() + kSteps * kValuePitch);
  }
  static constexpr int64_t kSumsBytes = int64_t{4} * kWarps * kSteps * kColumns;
  TW_INLINE constexpr int64_t told_bytes() const {
    return kSumsBytes * (is_corrected && !is_backward ? 2 : 1);
  }
  static constexpr int64_t kOutBytes = int64_t{2} * kSteps * kOutPitch;
  TW_INLINE constexpr int64_t walk_bytes(int stages, int groups) const {
    return stages * stage_bytes() + groups * (told_bytes() + kOutBytes);
  }

  /// The scratch of the first phase: q and k, sums of gates, squares of float32; where each
  /// dimension has gates of its own, some dimensions of all at a time.
  static constexpr int kWeighingThreads = 128;  // of a chunk
  static constexpr int kPitch = kSteps + 4, kSlab = 64, kSlabPitch = kSlab + 4;
  static constexpr int64_t kSmallBytes = int64_t{4} * (4 * kSteps + 3 * kSteps * kPitch);
  static constexpr int64_t kSlabBytes = int64_t{4} * (3 * kSteps * kSlabPitch + 2 * kSlab) +
                                        int64_t{2} * 3 * kStateTerms * (kSteps / 2) * (kSlab + 8);
  TW_INLINE constexpr int64_t weighing_bytes() const {
    const int64_t both = 2 * rows_size() * 2 * key_terms;
    return kSmallBytes + (has_one_gate ? both : kSlabBytes);
  }

  /// Of a block of the first phase, as both phases have as much shared memory.
  TW_INLINE constexpr int chunks_beside(int64_t shared_bytes) const {
    int count = 4;
    while (count > 1 &&
           (states * chunks < count * kBlocksOfGpu || count * weighing_bytes() > shared_bytes))
      count /= 2;
    return count;
  }

  TW_INLINE constexpr int64_t blocks(int groups) const {
    const int64_t width = int64_t{groups} * kColumns;
    return (columns + width - 1) / width;
  }
  /// A gradient's states are walked there and back at once.
  TW_INLINE constexpr int64_t walks() const { return is_backward ? 2 * states : states; }
  /// Of a block of the walk: what it reads they share, but a GPU has many multiprocessors.
  TW_INLINE constexpr int groups(int64_t shared_bytes) const {
    int count = kMostGroups;
    while (count > 1 && (walks() * blocks(count) < kBlocksOfGpu ||
                         columns <= count / 2 * kColumns || walk_bytes(1, count) > shared_bytes))
      count /= 2;
    return count;
  }

  TW_INLINE tile::Plan plan(int64_t shared_bytes) const {
    const int count = groups(shared_bytes);
    const int stages = walk_bytes(2, count) <= shared_bytes ? 2 : 1,
              beside = chunks_beside(shared_bytes);
    const int64_t walk = walk_bytes(stages, count), weighing = beside * weighing_bytes();
    tile::Plan plan =
        tile::plan_of((states * chunks + beside - 1) / beside, walk > weighing ? walk : weighing);
    plan.phases = 2;
    plan.grid[1] = walks() * blocks(count);
    plan.columns[0] = tile::Plan::columns_of(kWeighingThreads * beside);
    plan.columns[1] = tile::Plan::columns_of(32 * kWarps * count);
    plan.workspace_bytes = 2 * states * chunks * record_size();
    return plan;
  }
};

}  // namespace tw::kernels
