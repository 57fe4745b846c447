// Before attention with a mask: which blocks of keys it leaves. Plain host code.
#pragma once

#include <algorithm>

#include "tilewright/runtime/cuda/attention_arguments.h"

namespace tw::runtime::cuda {

/// kernels::AttentionSeen of a call; of one without a mask_mod, nothing.
template <class T>
class AttentionSeenBlocks {
 public:
  template <class U>
  AttentionSeenBlocks(const AttentionProblem<T, U>& p, const AttentionCut& cut, Stream stream,
                      kernels::AttentionArguments<T>& a)
      : seen_(layout_of(p, cut, a)),
        memory_(rows_of(p, cut, a) * row_bytes(), stream, "attention") {
    seen_.words = static_cast<kernels::AttentionSeenWord*>(memory_.data());
    a.seen = seen_;
  }

  explicit operator bool() const { return seen_.words_of_tile > 0; }

  /// Fills them by the kernel of that mask.
  void find(Kernel kernel, kernels::AttentionArguments<T> a, int multiprocessors,
            Stream stream) const {
    constexpr int kWaves = 16;
    a.order.heads = seen_.heads;
    if (!seen_.by_sequence) a.order.batches = 1;
    const int64_t blocks = std::min<int64_t>(a.order.items(), int64_t{kWaves} * multiprocessors);
    const int parts = seen_.words_of_tile * (32 / kernels::kAttentionSeenBlocks);
    void* pointers[] = {&a};
    check(
        driver().launch_kernel(kernel, unsigned(blocks), unsigned(parts), 1,
                               kernels::kAttentionSeenThreads, 1, 1, 0, stream, pointers, nullptr),
        "attention: launching the search for blocks that its mask leaves");
  }

 private:
  template <class U>
  static kernels::AttentionSeen layout_of(const AttentionProblem<T, U>& p, const AttentionCut& cut,
                                          const kernels::AttentionArguments<T>& a) {
    const kernels::ScoreProgram* const mask = p.mods().mask;
    if (mask == nullptr) return {};
    const int64_t blocks = (p.keys + cut.block_keys - 1) / cut.block_keys;
    const bool lengths_differ = p.q_offsets || p.kv_offsets || p.kv_lens;
    return {.words = nullptr,
            .words_of_tile = int((blocks + 31) / 32),
            .heads = p.mods().tells_heads_apart() ? a.order.heads : 1,
            .by_sequence = lengths_differ || mask->uses(kernels::ScoreOp::kBatch)};
  }
  /// As AttentionSeen::at counts.
  template <class U>
  int64_t rows_of(const AttentionProblem<T, U>& p, const AttentionCut& cut,
                  const kernels::AttentionArguments<T>& a) const {
    const int64_t queries = cut.queries(a.pack);
    const int64_t tiles = p.q_offsets         ? p.q.rows / queries + p.sequences + 1
                          : seen_.by_sequence ? a.order.tiles * p.sequences
                                              : a.order.tiles;
    return tiles * seen_.heads;
  }
  int64_t row_bytes() const {
    return seen_.words_of_tile * int64_t{sizeof(kernels::AttentionSeenWord)};
  }

  kernels::AttentionSeen seen_;
  StreamMemory memory_;
};

}  // namespace tw::runtime::cuda
