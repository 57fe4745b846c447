// What a tile of attention_tile_gpu.h has in shared memory, and the steps in which keys and values
// come there: one is on its way while the one before is multiplied.
#pragma once

#include "tilewright/kernels/attention_load_gpu.h"

namespace tw::kernels {

template <class P, class T, class U, AttentionCut kCut>
struct AttentionTileSteps {
  using Tiles = AttentionTiles<T, U>;
  using E = typename Tiles::E;
  static constexpr int kThreads = kCut.threads(), kKeys = kCut.keys;
  static constexpr int kWeightPitch = kKeys + 4;
  /// Steps that a block of values takes, and dims of each.
  static constexpr int kValueStep = tile::lesser(kCut.dims, kCut.value_dims);
  static constexpr int kValueSteps = kCut.value_dims / kValueStep;

  /// What the block shares.
  struct Shared {
    E *queries, *buffers;
    typename Tiles::Row* rows;
    typename Tiles::Key* block;  // of two: the one that is worked on, then the next
    float* weights;
    float* told;  // of each row, by the warps that share it
    int at;       // the buffer that is multiplied
  };
  const typename Tiles::Call& call;
  const Tiles& tiles = call.tiles;
  const AttentionTilePlace& place = call.place;
  const AttentionSequence<T, U>& sequence = call.sequence;

  __device__ __forceinline__ Shared cut(char* memory) const {
    Shared out;
    out.queries = reinterpret_cast<E*>(memory);
    out.buffers = out.queries + tiles.query_elements();
    out.rows = reinterpret_cast<typename Tiles::Row*>(out.buffers + 2 * tiles.buffer_elements());
    out.block = reinterpret_cast<typename Tiles::Key*>(out.rows + Tiles::kRows);
    out.weights = reinterpret_cast<float*>(out.block + 2 * kKeys);
    out.told = out.weights + Tiles::kRows * kWeightPitch;
    out.at = 1;
    return out;
  }

  /// Of the program's slice.
  TW_INLINE int value_columns() const {
    return int(tile::lesser(tiles.shape.value_dims - place.first_value, kCut.value_dims));
  }
  /// Where the keys of the block are that begins with key `first`.
  __device__ __forceinline__ void find_keys(typename Tiles::Key* block, const KeyRange& seen,
                                            int64_t first) const {
    if (P::thread() >= kKeys) return;
    const int64_t key = first + P::thread();
    typename Tiles::Key out{nullptr, nullptr, call.scale, 1};
    if (key >= seen.begin && key < seen.end) {
      const auto find = [&](const auto& from) {
        return from.head(place.rows.kv_head).at(key, key + 1).data;
      };
      out.key = find(sequence.k);
      out.value = find(sequence.v);
      if (sequence.k_scale) out.factor *= *find(sequence.k_scale);
      if (sequence.v_scale) out.value_factor = *find(sequence.v_scale);
    }
    block[P::thread()] = out;
  }
  __device__ __forceinline__ typename Tiles::Key* other_block(const Shared& shared) const {
    typename Tiles::Key* const one =
        reinterpret_cast<typename Tiles::Key*>(shared.rows + Tiles::kRows);
    return shared.block == one ? one + kKeys : one;
  }

  /// The other buffer.
  TW_INLINE E* next(const Shared& shared) const {
    return shared.buffers + (1 - shared.at) * tiles.buffer_elements();
  }
  TW_INLINE const E* present(const Shared& shared) const {
    return shared.buffers + shared.at * tiles.buffer_elements();
  }
  /// What was on its way is there, and the buffer before is free.
  __device__ __forceinline__ static void turn(Shared& shared) {
    tile::cuda::wait_copies();
    P::sync();
    shared.at = 1 - shared.at;
  }

  /// Dims [first, first + count) of the tile's queries.
  __device__ __forceinline__ void load_queries(E* to, const Shared& shared, int first,
                                               int count) const {
    const View<const T, 3>& q = sequence.q;
    const AttentionLoad<E, kThreads> load{P::thread(), to, int(tiles.query_pitch()),
                                          int(Tiles::padded(count)), count};
    load.template run<T, Tiles::kRows>(
        load.is_whole(q.data, q.stride(2), q.stride(0), q.stride(1)), q.stride(2), [&](int r) {
          const auto& row = shared.rows[r];
          return r < place.rows.count ? q.data + row.query * q.stride(0) +
                                            row.q_head * q.stride(1) + first * q.stride(2)
                                      : nullptr;
        });
  }
  /// A step of the block's keys, from dim `first` on, and of the queries that are not held.
  __device__ __forceinline__ void start_keys(const Shared& shared, int first) const {
    const int count = int(tile::lesser(tiles.shape.dims - first, kCut.dims));
    const KeySource<U>& k = sequence.k;
    const AttentionLoad<E, kThreads> load{P::thread(), next(shared), int(tiles.key_pitch()),
                                          int(Tiles::padded(count)), count};
    load.template run<U, kKeys>(load.is_whole(k), k.dim_stride, [&](int r) {
      const U* const from = shared.block[r].key;
      return from != nullptr ? from + first * k.dim_stride : nullptr;
    });
    if (!tiles.holds_queries())
      load_queries(shared.queries + (1 - shared.at) * Tiles::kRows * tiles.query_pitch(), shared,
                   first, count);
  }
  /// A step of the block's values.
  __device__ __forceinline__ void start_values(const Shared& shared, int step) const {
    const KeySource<U>& v = sequence.v;
    const int first = step * kValueStep;
    const AttentionLoad<E, kThreads> load{P::thread(), next(shared), int(tiles.value_pitch()),
                                          int(tiles.value_columns()), value_columns() - first};
    const auto row = [&](int r) {
      const U* const from = shared.block[r].value;
      return from != nullptr ? from + (place.first_value + first) * v.dim_stride : nullptr;
    };
    if (sequence.v_scale)
      load.template run<U, kKeys>(load.is_whole(v), v.dim_stride, row,
                                  [&](int r) { return shared.block[r].value_factor; });
    else
      load.template run<U, kKeys>(load.is_whole(v), v.dim_stride, row);
  }
};

}  // namespace tw::kernels
