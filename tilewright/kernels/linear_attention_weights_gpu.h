// The first phase of linear_attention by chunks on a GPU (linear_attention_chunks.h): the record of
// a chunk. Gates that are the same for all dimensions of a key weigh the products of queries and
// keys; others go into their factors, from where the later half of the chunk begins, so that none
// is larger than 1, and in each half step by step.
#pragma once

#include "tilewright/kernels/linear_attention_chunks.h"
#include "tilewright/kernels/linear_attention_terms_gpu.h"
#if defined(__CUDACC__)
#include "tilewright/tile/cuda/fence.h"
#include "tilewright/tile/math.h"

namespace tw::kernels {

/// What both kinds of gates share.
template <class P, class T, class U, class Kernel, int kDims, bool kIsCorrected>
struct LinearChunkRecord {
  static constexpr int kSteps = LinearChunks::kSteps, kHalf = kSteps / 2, kUnits = kDims / 8;
  static constexpr int kPitch = LinearChunks::kPitch, kThreads = LinearChunks::kWeighingThreads;
  static constexpr bool kIsBackward = Kernel::kIsBackward;
  static constexpr int kOutTerms = LinearChunks::out_terms_of(kIsBackward);
  static constexpr int kStateTerms = LinearChunks::kStateTerms;
  static constexpr int kSquare = int(LinearChunks::kSquare),
                       kRows = kSteps * int(LinearChunks::padded(kDims));
  using Square = PaddedRows<kSteps / 8>;
  using Rows = PaddedRows<kUnits>;

  P p;
  const Kernel& of;
  LinearChunks with;
  int64_t b, h, head, first;
  int count;  // steps
  bf16* record;

  __device__ __forceinline__ LinearChunkRecord(P program, const Kernel& kernel,
                                               const LinearChunks& chunks)
      : p(program), of(kernel), with(chunks) {
    const int64_t chunk = p.index() * (p.threads() / kThreads) + beside();
    const int64_t row = index_quotient(chunk, with.chunks);
    first = (chunk - row * with.chunks) * kSteps;
    b = index_quotient(row, of.v.size(2));
    h = row - b * of.v.size(2);
    head = index_quotient(h, index_quotient(of.v.size(2), of.q.size(2)));
    count = chunk < with.states * with.chunks ? int(tile::lesser(of.length() - first, kSteps)) : 0;
    record = p.template workspace<bf16>() + chunk * with.record_size();
  }

  /// Which of the chunks that a block has beside each other.
  __device__ __forceinline__ int beside() const { return p.thread() / kThreads; }
  __device__ __forceinline__ int thread() const { return p.thread() % kThreads; }
  __device__ __forceinline__ void sync() const { tile::cuda::sync_named(1 + beside(), kThreads); }
  __device__ __forceinline__ int lane() const { return thread() % 32; }
  __device__ __forceinline__ int warp() const { return thread() / 32; }
  // The scratch.
  __device__ __forceinline__ float* betas() const {
    return reinterpret_cast<float*>(tile::cuda::shared_scratch + beside() * with.weighing_bytes());
  }
  __device__ __forceinline__ float* gates() const { return betas() + kSteps; }
  __device__ __forceinline__ double* sums() const {
    return reinterpret_cast<double*>(gates() + kSteps);
  }
  __device__ __forceinline__ float* lower() const { return betas() + 4 * kSteps; }
  __device__ __forceinline__ float* inverse() const { return lower() + kSteps * kPitch; }
  __device__ __forceinline__ float* product() const { return inverse() + kSteps * kPitch; }
  __device__ __forceinline__ void* large() const { return product() + kSteps * kPitch; }
  // The record.
  __device__ __forceinline__ bf16* transform() const { return record + kOutTerms * kSquare; }
  __device__ __forceinline__ float* decays() const {
    return reinterpret_cast<float*>(record + with.weights_size());
  }
  __device__ __forceinline__ float* kept_betas() const {
    return reinterpret_cast<float*>(record + with.weights_size() + with.decays_size());
  }
  __device__ __forceinline__ bf16* errors() const { return record + with.staged_size(); }
  __device__ __forceinline__ double* kept_sums() const {
    return reinterpret_cast<double*>(errors() + with.errors_size());
  }
  __device__ __forceinline__ bf16* queries() const { return record + with.made_size(); }

  __device__ __forceinline__ void load_betas() const {
    if (kIsCorrected && thread() < kSteps)
      betas()[thread()] = thread() < count ? float(of.beta(b, first + thread(), h)) : 0.0f;
  }

  /// Terms of two neighbours, of which the first is at an even column.
  template <int kTerms>
  __device__ __forceinline__ static void put(bf16* to, int stride, int at, float x, float y) {
    const PairTerms<kTerms> pair(x, y);
    TW_UNROLL
    for (int t = 0; t < kTerms; ++t)
      *reinterpret_cast<uint32_t*>(to + t * stride + at) = pair.term[t];
  }
  template <int kTerms>
  __device__ __forceinline__ static void put_unit(bf16* to, int stride, int at,
                                                  const tile::Pack<float, 8>& v) {
    uint32_t words[kTerms][4];
    TW_UNROLL
    for (int i = 0; i < 4; ++i) {
      const PairTerms<kTerms> pair(v[2 * i], v[2 * i + 1]);
      TW_UNROLL
      for (int t = 0; t < kTerms; ++t) words[t][i] = pair.term[t];
    }
    TW_UNROLL
    for (int t = 0; t < kTerms; ++t)
      *reinterpret_cast<uint4*>(to + t * stride + at) =
          make_uint4(words[t][0], words[t][1], words[t][2], words[t][3]);
  }

  /// Weights of a step and two earlier ones or itself, of outputs.
  __device__ __forceinline__ void put_weights(int step, int at, float x, float y) const {
    put<kOutTerms>(record, kSquare, Square::at(step, at), at <= step ? x : 0.0f,
                   at < step ? y : 0.0f);
  }
  /// Of the transform's lower part, without betas.
  __device__ __forceinline__ void put_lower(int step, int at, float x, float y) const {
    float* const to = lower() + step * kPitch + at;
    to[0] = at < step ? x : 0.0f;
    to[1] = at + 1 < step ? y : 0.0f;
  }

  /// The transform: with B the diagonal of betas, inverse(I + B lower) B. A gradient has the
  /// inverse alone, and that of I + lower B for errors.
  __device__ __forceinline__ void transform_steps() const {
    if constexpr (!kIsBackward) return put_transform<true, true>(transform());
    put_transform<true, false>(transform());
    put_transform<false, false>(errors());
    if (thread() < kSteps) kept_betas()[thread()] = betas()[thread()];
  }
  /// Of either half by substitution, and between them two products.
  template <bool kOfRows, bool kIsScaled>
  __device__ __forceinline__ void put_transform(bf16* to) const {
    sync();  // all of `lower` is there
    if (thread() < kSteps) invert<kOfRows>(thread() / kHalf * kHalf, thread() % kHalf);
    sync();
    multiply_halves<kOfRows ? 1 : 2>(product(), lower(), inverse(), 0, 1.0f);
    sync();
    multiply_halves<0>(inverse(), inverse(), product(), kHalf, -1.0f);
    sync();
    TW_ROLLED
    for (int i = thread(); i < kSteps * kSteps / 8; i += kThreads) {
      const int step = i / (kSteps / 8), at = i % (kSteps / 8) * 8;
      tile::Pack<float, 8> v;
      TW_UNROLL
      for (int e = 0; e < 8; ++e)
        v[e] = at + e <= step
                   ? inverse()[step * kPitch + at + e] * (kIsScaled ? betas()[at + e] : 1.0f)
                   : 0.0f;
      put_unit<kStateTerms>(to, kSquare, Square::at(step, at), v);
    }
  }
  /// A column of the inverse of the diagonal block that begins there; betas of rows, or columns.
  template <bool kOfRows>
  __device__ __forceinline__ void invert(int begin, int col) const {
    float x[kHalf];
    TW_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      const float* const row = lower() + (begin + i) * kPitch + begin;
      float sum = 0;
      TW_UNROLL
      for (int j = 0; j < i; ++j) sum = tile::fma(row[j], x[j], sum);
      if (kOfRows) sum *= betas()[begin + i];
      sum = (i == col ? 1.0f : 0.0f) - sum;
      x[i] = kOfRows ? sum : betas()[begin + i] * sum;
      inverse()[(begin + i) * kPitch + begin + col] = sum;
    }
  }
  /// The later half's rows of the earlier half's columns: to = sign left right, of columns of
  /// `left` and rows of `right` from `begin` on; times betas of the rows (1), or between them (2).
  template <int kBetas>
  __device__ __forceinline__ void multiply_halves(float* to, const float* left, const float* right,
                                                  int begin, float sign) const {
    TW_ROLLED
    for (int i = thread(); i < kHalf * kHalf; i += kThreads) {
      const int row = kHalf + i / kHalf, col = i % kHalf;
      float sum = 0;
      TW_UNROLL
      for (int j = 0; j < kHalf; ++j) {
        const float one =
            left[row * kPitch + begin + j] * (kBetas == 2 ? betas()[begin + j] : 1.0f);
        sum = tile::fma(one, right[(begin + j) * kPitch + col], sum);
      }
      to[row * kPitch + col] = (kBetas == 1 ? betas()[row] : 1.0f) * sign * sum;
    }
  }
};

/// Gates that are the same for all dimensions.
template <class P, class T, class U, class Kernel, int kDims, bool kIsCorrected>
struct LinearChunkWeights : LinearChunkRecord<P, T, U, Kernel, kDims, kIsCorrected> {
  using Base = LinearChunkRecord<P, T, U, Kernel, kDims, kIsCorrected>;
  using Base::b, Base::count, Base::first, Base::h, Base::head, Base::kHalf, Base::kRows,
      Base::kSteps, Base::kUnits, Base::lane, Base::of, Base::sums, Base::warp, Base::with;
  using typename Base::Rows;
  static constexpr int kTerms = tile::same_type<T, bf16> ? 1 : 2;  // of a number as it is

  __device__ __forceinline__ LinearChunkWeights(P program, const Kernel& kernel,
                                                const LinearChunks& chunks)
      : Base(program, kernel, chunks) {}

  __device__ __forceinline__ void go() const {
    if (this->count == 0) return;  // there is no such chunk
    load_gates();
    load_rows();
    this->sync();
    put_decays();
    if (warp() < 2)
      weigh<false>(warp() * kHalf);
    else if (kIsCorrected)
      weigh<true>((warp() - 2) * kHalf);
    if constexpr (kIsCorrected) this->transform_steps();
  }

 private:
  // Queries, then keys.
  __device__ __forceinline__ bf16* rows(bool of_keys) const {
    return static_cast<bf16*>(this->large()) + (of_keys ? kTerms * kRows : 0);
  }

  /// Sums in float64: their differences are those of a few gates, of which one may be infinite.
  __device__ __forceinline__ void load_gates() const {
    constexpr float kLeast = -1e4f;  // exp of which, and of any sum with it, is 0
    this->load_betas();
    float* const gates = this->gates();
    const int i = this->thread();
    if (i < kSteps) {
      const float gate = i < count ? float(of.g(b, first + i, h, 0)) : 0.0f;
      gates[i] = gate < kLeast ? kLeast : gate;
    }
    this->sync();
    if (i >= kSteps) return;
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += double(gates[j]);
    sums()[i] = sum;
  }
  /// A thread has the same unit of several rows of both.
  __device__ __forceinline__ void load_rows() const {
    load_rows(of.q, false);
    load_rows(of.k, true);
  }
  __device__ __forceinline__ void load_rows(const View<const T, 4>& from, bool are_keys) const {
    constexpr int kEach = kSteps * kUnits / Base::kThreads;
    const int unit = this->thread() % kUnits, apart = Base::kThreads / kUnits,
              begin = this->thread() / kUnits;
    View<const T, 1> row = from[b][first][head];
    row.data += begin * from.stride(1);
    tile::Raw<T, 8> raws[kEach];
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      raws[i] = {};
      if (begin + i * apart < count && 8 * unit < row.size(0))
        raws[i] = tile::Raw<T, 8>::of_row(row, 8 * unit);
      row.data += apart * from.stride(1);
    }
    TW_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int at = Rows::at(begin + i * apart, 8 * unit);
      const auto wide = raws[i].template widen<float>();
      Base::template put_unit<kTerms>(rows(are_keys), kRows, at, wide);
      if (!with.reads_rows)
        Base::template put_unit<kTerms>(this->queries() + (are_keys ? kTerms * kRows : 0), kRows,
                                        at, wide);
    }
  }

  __device__ __forceinline__ void put_decays() const {
    const int i = this->thread();
    if (i >= kSteps) return;
    this->decays()[i] = tile::exp(float(sums()[i]));
    this->decays()[kSteps + i] = tile::exp(float(sums()[kSteps - 1] - sums()[i]));
    if constexpr (Base::kIsBackward) this->kept_sums()[i] = sums()[i];
  }

  /// 16 rows of outputs' weights, or of the transform's.
  template <bool kOfKeys>
  __device__ __forceinline__ void weigh(int row) const {
    float dots[4][4] = {};
    const bf16* const own_rows = rows(kOfKeys) + Rows::of_rows(lane()) + Rows::at(row, 0);
    const bf16* const keys = rows(true) + Rows::of_columns(lane());
    TW_UNROLL_4
    for (int d = 0; d < kDims; d += 16) {
      const auto left = Rows::template left<kTerms>(own_rows, kRows, 0, d);
      TW_UNROLL
      for (int s = 0; s < kSteps; s += 16)
        if (s <= row)
          multiply<Base::kStateTerms>(dots[s / 8], dots[s / 8 + 1], left,
                                      Rows::template columns<kTerms>(keys, kRows, s, d));
    }
    TW_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int step = row + lane() / 4 + i % 2 * 8, at = i / 2 * 8 + lane() % 4 * 2;
      const float* const two = &dots[i / 2][i % 2 * 2];
      const float x = two[0] * between(step, at), y = two[1] * between(step, at + 1);
      if constexpr (kOfKeys)
        this->put_lower(step, at, x, y);
      else
        this->put_weights(step, at, of.score_scale() * x, of.score_scale() * y);
    }
  }
  __device__ __forceinline__ float between(int step, int earlier) const {
    return tile::exp(earlier <= step ? float(sums()[step] - sums()[earlier]) : 0.0f);
  }
};

}  // namespace tw::kernels
#endif
