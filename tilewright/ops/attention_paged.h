#pragma once

#include "tilewright/kernels/attention_paged.h"
#include "tilewright/ops/attention.h"

namespace tw::ops {

/// Attention over a key-value cache in pages, for sequences at any stage; otherwise as `attention`.
/// Without cu_seqlens_q every sequence has N / B queries (1 in decode). Only the table's entries
/// for the first kv_lens[b] keys are read. Rows of queries outside all
/// sequences: as attention_varlen.
struct AttentionPaged : AttentionFamily {
  static constexpr Schema kSchema{
      "attention_paged(q: T[N, Hq, D], k_pages: U[P, S, H, D], v_pages: U[P, S, H, Dv], "
      "block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, sinks: f32[Hq]?, "
      "k_scale: f32[P, S, H]?, v_scale: f32[P, S, H]?, alibi_slopes: f32[Hq]?, scale: f32 = 0, "
      "causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0, "
      "score_mod: text = \"\", mask_mod: text = \"\", mod_f32: f32[F]?, mod_i32: i32[I]?) -> "
      "out: T[N, Hq, Dv], lse: f32[Hq, N]?"};
  static constexpr std::string_view kSequences = "cu_seqlens_q";
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};

  template <class T, class U>
  using Kernel = kernels::AttentionPaged<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    const int64_t sequences = kernel.kv_lens.size(0), queries = kernel.q.size(0);
    if (kernel.cu_seqlens_q) {
      if (kernel.cu_seqlens_q.size(0) != sequences + 1)
        return Support::no("cu_seqlens_q has " + std::to_string(kernel.cu_seqlens_q.size(0)) +
                           " entries, but B + 1 = " + std::to_string(sequences + 1) +
                           " are needed");
    } else if (sequences == 0 ? queries != 0 : queries % sequences != 0) {
      return Support::no("N = " + std::to_string(queries) + " must be a multiple of B = " +
                         std::to_string(sequences) + " without cu_seqlens_q");
    }
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    if (kernel.cu_seqlens_q)
      if (Support s = supports_offsets("cu_seqlens_q", kernel.cu_seqlens_q, kernel.q.size(0)); !s)
        return s;
    const int64_t page_size = kernel.k_pages.size(1);
    if (Support s =
            supports_lens("kv_lens", kernel.kv_lens, kernel.block_table.size(1) * page_size);
        !s)
      return s;
    return supports_table(kernel.block_table, kernel.kv_lens, page_size, kernel.k_pages.size(0));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "alibi_slopes") return slopes(known["Hq"], seed);
    if (arg == "mod_i32") return few_numbers(known["I"], seed);
    if (arg == "cu_seqlens_q") return offsets(known["C"], known["N"], seed);
    if (arg == "block_table") {
      const int64_t pages = known["P"];
      return make<int32_t>({known["B"], known["W"]},
                           [&](int64_t i) { return mix_below(seed, i, pages); });
    }
    if (arg == "kv_lens") {
      const int64_t keys = known["P"] > 0 ? known["W"] * known["S"] : 0;
      // Long contexts are for decode; longer ones than these only make the definition slow.
      const int64_t most = std::min<int64_t>(keys, known["N"] <= known["B"] ? 8192 : 400);
      return make<int32_t>({known["B"]},
                           [&](int64_t i) { return most - mix_below(seed, i, most / 2 + 1); });
    }
    return materialize_quantized(arg, {known["P"], known["S"], known["H"]}, known, combo[1], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no sequence", "N=0 Hq=2 P=1 S=16 H=1 D=8 Dv=8 B=0 W=1"},
      {"no pages", "N=2 Hq=2 P=0 S=16 H=1 D=8 Dv=8 B=2 W=3 +lse"},
      {"decode", "N=3 Hq=9 P=40 S=16 H=3 D=64 Dv=64 B=3 W=20 causal=1 +lse"},
      {"decode, page of 10", "N=2 Hq=2 P=30 S=10 H=1 D=32 Dv=32 B=2 W=25 causal=1 +lse"},
      {"three queries each", "N=9 Hq=4 P=17 S=32 H=1 D=40 Dv=40 B=3 W=12 causal=1"},
      {"mixed stages",
       "N=200 Hq=4 P=64 S=16 H=2 D=32 Dv=32 B=4 W=16 C=5 causal=1 +cu_seqlens_q +lse"},
      {"window, sinks, softcap, scales",
       "N=60 Hq=3 P=64 S=8 H=3 D=24 Dv=40 B=3 W=40 C=4 causal=1 window_left=50 softcap=5 "
       "+cu_seqlens_q +sinks +k_scale +v_scale +lse"},
      {"decode, heads of 128", "N=4 Hq=8 P=60 S=64 H=2 D=128 Dv=128 B=4 W=14 causal=1 +sinks +lse"},
      {"decode, heads of 128, scales",
       "N=4 Hq=8 P=60 S=64 H=2 D=128 Dv=128 B=4 W=14 causal=1 +k_scale +v_scale +lse"},
      {"decode, heads of 256, scales",
       "N=3 Hq=6 P=60 S=16 H=2 D=256 Dv=256 B=3 W=30 causal=1 +k_scale +v_scale +lse"},
      {"five queries each, page of 256, scales",
       "N=10 Hq=4 P=9 S=256 H=1 D=64 Dv=64 B=2 W=4 causal=1 window_left=300 +k_scale +v_scale "
       "+sinks +lse"},
      {"slopes", "N=8 Hq=8 P=60 S=64 H=2 D=128 Dv=128 B=4 W=14 causal=1 +alibi_slopes +lse"},
      {"heads of 64, window, sinks, softcap",
       "N=60 Hq=4 P=64 S=16 H=2 D=64 Dv=64 B=3 W=20 C=4 causal=1 window_left=50 softcap=5 "
       "+cu_seqlens_q +sinks +lse"},
      {"decode, page of 128, window, sinks, softcap",
       "N=4 Hq=8 P=20 S=128 H=2 D=128 Dv=128 B=4 W=5 causal=1 window_left=200 softcap=5 +sinks "
       "+lse"},
      {"heads of 96", "N=140 Hq=4 P=40 S=32 H=2 D=96 Dv=96 B=2 W=10 causal=1 +lse"},
      {"heads of 192", "N=140 Hq=2 P=64 S=16 H=1 D=192 Dv=192 B=2 W=20 causal=1 +lse"},
      {"heads of 192, values of 128",
       "N=300 Hq=2 P=20 S=64 H=1 D=192 Dv=128 B=2 W=5 C=3 causal=1 +cu_seqlens_q +lse"},
      {"page of 256", "N=4 Hq=8 P=20 S=256 H=2 D=128 Dv=128 B=2 W=5 causal=1 +lse"},
      {"mixed stages, heads of 128",
       "N=400 Hq=4 P=64 S=16 H=2 D=128 Dv=128 B=4 W=30 C=5 causal=1 +cu_seqlens_q +lse"},
      {"heads of 256", "N=140 Hq=2 P=64 S=32 H=2 D=256 Dv=256 B=2 W=20 scale=0.01 +lse"},
      {"odd dims, page of 10",
       "N=90 Hq=4 P=30 S=10 H=2 D=20 Dv=260 B=3 W=12 C=4 causal=1 +cu_seqlens_q +k_scale +v_scale "
       "+lse"},
      {"score_mod, mask_mod",
       "N=8 Hq=8 P=60 S=64 H=2 D=128 Dv=128 B=4 W=14 F=20 causal=1 "
       "score_mod=score+mod_f32[(kv_len-k)%20] mask_mod=(k<4)or(k%3!=b) +mod_f32 +lse"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/decode", "N=1 Hq=9 P=128 S=32 H=3 D=64 Dv=64 B=1 W=16 causal=1"},
      {"llama-3.1-8b/decode", "N=1 Hq=32 P=1024 S=32 H=8 D=128 Dv=128 B=1 W=256 causal=1"},
      {"llama-3.1-8b/decode, batch 8, long",
       "N=8 Hq=32 P=1024 S=64 H=8 D=128 Dv=128 B=8 W=128 causal=1"},
      {"llama-3.1-8b/decode, batch 8", "N=8 Hq=32 P=1024 S=32 H=8 D=128 Dv=128 B=8 W=64 causal=1"}};

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T, class U>
  static Cost cost(const Kernel<T, U>& kernel) {
    return AttentionFamily::cost(kernel.shape(), kernel.lengths(), kernel.options(), sizeof(T),
                                 sizeof(U));
  }

 private:
  /// Whether every page that holds keys exists.
  static Support supports_table(const View<const int32_t, 2>& table,
                                const View<const int32_t, 1>& kv_lens, int64_t page_size,
                                int64_t pages) {
    for (int64_t b = 0; b < kv_lens.size(0); ++b)
      for (int64_t i = 0; i * page_size < kv_lens(b); ++i)
        if (table(b, i) < 0 || table(b, i) >= pages)
          return Support::no("block_table[" + std::to_string(b) + ", " + std::to_string(i) +
                             "] = " + std::to_string(table(b, i)) + " must be in 0 .. " +
                             std::to_string(pages - 1));
    return Support::yes();
  }
};

}  // namespace tw::ops
