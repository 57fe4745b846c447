// How linear_attention_backward is cut into chunks on a GPU, for tensors of 16 bits: after
// linear_attention_chunks.h, whose names these are, and linear_attention_backward.h's. With S the
// state before a chunk, dS what reaches the one after it, L the products of keys that gates leave,
// and per chunk
//
//   U = V - (decayed K) S          E = inverse(I + L B) U       D = B E            S goes forth
//   X = W^T dO + (decayed K) dS    dD = inverse(I + B L)^T X    dV = B dD          dS goes back
//
// (without the delta rule D = V and dD = X = dV), S does not need dS, nor dS S: one phase walks
// both at once and keeps them before, and after, each chunk. The next has all chunks beside each
// other: gradients of q, k and g from products of dO, D and dD with S, dS and each other; beta's is
// the diagonal of dD E^T. Heads that share keys are added up in a last one.
#pragma once

#include "tilewright/kernels/linear_attention_chunks.h"

namespace tw::kernels {

struct LinearBackwardChunks {
  LinearChunks chunks;
  int64_t heads, key_heads;  // of v, and of q and k
  int64_t rows;              // all of q: batch, steps and heads
  bool copies_grads;         // rows of the output's gradient are aligned

  // The workspace: records, then what walks keep, in the order in which a lane of the third phase
  // reads right factors of 16 columns by 8 dimensions or steps: of each its two words or four
  // numbers, and all lanes' side by side.
  static constexpr int kTile = LinearChunks::kColumns * 8;                // numbers
  TW_INLINE constexpr int64_t tiles() const { return chunks.blocks(1); }  // of columns
  TW_INLINE constexpr int64_t places() const { return chunks.states * chunks.chunks; }
  TW_INLINE constexpr int64_t records_bytes() const { return 2 * places() * chunks.record_size(); }
  /// Float32, of S or dS.
  TW_INLINE constexpr int64_t state_floats() const {
    return tiles() * chunks.dims * LinearChunks::kColumns;
  }
  TW_INLINE constexpr int64_t states_bytes() const { return 4 * places() * state_floats(); }
  /// Of dO, E and dD of a chunk, bfloat16: terms of each tile one after the other.
  TW_INLINE constexpr int out_terms() const { return chunks.key_terms; }
  TW_INLINE constexpr int change_terms() const {
    return chunks.is_corrected ? LinearChunks::kStateTerms : chunks.key_terms;
  }
  TW_INLINE constexpr int64_t terms_size(int terms) const {
    return tiles() * (LinearChunks::kSteps / 8) * terms * kTile;
  }
  TW_INLINE constexpr int64_t outs_begin() const { return records_bytes() + 2 * states_bytes(); }
  TW_INLINE constexpr int64_t changes_begin() const {
    return outs_begin() + 2 * places() * terms_size(out_terms());
  }
  TW_INLINE constexpr int64_t slopes_begin() const {
    return changes_begin() + 2 * places() * terms_size(change_terms());
  }
  TW_INLINE constexpr int64_t sums_begin() const {
    return slopes_begin() + (chunks.is_corrected ? 2 * places() * terms_size(change_terms()) : 0);
  }
  /// Where heads share keys: rows of q's and k's gradients, float32, [chunk's step, dimension].
  TW_INLINE constexpr bool shares_keys() const { return key_heads < heads; }
  TW_INLINE constexpr int64_t sum_floats() const {
    return shares_keys() ? 2 * LinearChunks::kSteps * chunks.dims : 0;
  }
  TW_INLINE constexpr int64_t workspace_bytes() const {
    return sums_begin() + 4 * places() * sum_floats();
  }

  // The scratch of the third phase, of a chunk: products with states, [step, dimension]; squares of
  // steps; rows that halves of a chunk tell each other; of dimensions and steps.
  TW_INLINE constexpr int threads() const { return int(2 * chunks.dims); }
  TW_INLINE constexpr int64_t pitch() const { return chunks.dims + 8; }
  TW_INLINE constexpr int products() const { return chunks.is_corrected ? 3 : 2; }
  TW_INLINE constexpr int64_t product_floats() const { return LinearChunks::kSteps * pitch(); }
  static constexpr int64_t kSquareFloats = int64_t{LinearChunks::kSteps} * LinearChunks::kPitch;
  static constexpr int kToldRows = 3 * LinearChunks::kSteps / 2, kDimRows = 7, kStepRows = 5;
  TW_INLINE constexpr int64_t gradient_bytes() const {
    return 4 * (products() * product_floats() + 2 * kSquareFloats +
                (kToldRows + kDimRows) * chunks.dims + kStepRows * LinearChunks::kSteps);
  }
  TW_INLINE constexpr int chunks_beside(int64_t shared_bytes) const {
    int count = 512 / threads();
    while (count > 1 && (places() < count * LinearChunks::kBlocksOfGpu ||
                         count * gradient_bytes() > shared_bytes))
      count /= 2;
    return count;
  }

  static constexpr int kFoldedRows = 16;  // of a program that adds up
  TW_INLINE tile::Plan plan(int64_t shared_bytes) const {
    tile::Plan plan = chunks.plan(shared_bytes);
    const int beside = chunks_beside(shared_bytes);
    const int64_t bytes = beside * gradient_bytes();
    if (bytes > plan.scratch_bytes) plan.scratch_bytes = bytes;
    plan.phases = shares_keys() ? 4 : 3;
    plan.grid[2] = (places() + beside - 1) / beside;
    plan.columns[2] = tile::Plan::columns_of(beside * threads());
    plan.grid[3] = (rows + kFoldedRows - 1) / kFoldedRows;
    plan.columns[3] = tile::Plan::columns_of(256);
    plan.workspace_bytes = workspace_bytes();
    return plan;
  }
};

}  // namespace tw::kernels
