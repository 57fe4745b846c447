#pragma once

#include "tilewright/kernels/attention.h"
#include "tilewright/ops/core/attention_family.h"

namespace tw::ops {

/// Attention over keys and values in one tensor per batch entry: a prompt, or a cache of which
/// kv_lens[b] keys are filled. Hq may be a multiple of H (grouped queries). A query sees the keys
/// up to its own position (causal) or within the window; the last query stands at the last key. A
/// row that sees no key gives zeros, and lse = -inf (or the sink). attn_bias is added to the capped
/// scores, and -alibi_slopes[h] times the distance of query and key; -inf hides a key. Values
/// of 8 bits times their scales must be numbers of T. Last, score_mod gives the score that replaces
/// each, and mask_mod says whether it counts: expressions in score, b, h, q, k, q_len, kv_len and
/// the elements of mod_f32 and mod_i32, such as "score - 0.5 * abs(q - k)" and "mod_i32[q] ==
/// mod_i32[k]", with q and k counted from 0.
struct Attention : AttentionFamily {
  static constexpr Schema kSchema{
      "attention(q: T[B, S, Hq, D], k: U[B, L, H, D], v: U[B, L, H, Dv], kv_lens: i32[B]?, "
      "sinks: f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, "
      "attn_bias: T[B, Hq, S, L]?, alibi_slopes: f32[Hq]?, scale: f32 = 0, "
      "causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0, "
      "score_mod: text = \"\", mask_mod: text = \"\", mod_f32: f32[F]?, mod_i32: i32[I]?) -> "
      "out: T[B, S, Hq, Dv], lse: f32[B, Hq, S]?"};
  static constexpr Isa kBf16Isas[] = {Isa::avx512_bf16, Isa::amx};
  static constexpr Gradient kGradient{
      "where sinks=absent, k_scale=absent, v_scale=absent, attn_bias=absent, alibi_slopes=absent, "
      "score_mod=absent, mask_mod=absent: "
      "attention_backward(grad=out.grad, q, k, v, output=out, lse, kv_lens, scale, causal, "
      "window_left, window_right, softcap) -> q.grad, k.grad, v.grad"};
  using ReferenceTypes = Combos<Combo<double, double>>;

  template <class T, class U>
  using Kernel = kernels::Attention<T, U>;

  template <class K>
  static Support supports_shapes(const K& kernel) {
    return supports_shape(kernel.shape(), kernel.options());
  }
  template <class K>
  static Support supports(const K& kernel) {
    return supports_lens("kv_lens", kernel.kv_lens, kernel.k.size(1));
  }

  static std::optional<Tensor> materialize(std::string_view arg, const Bindings& known,
                                           std::span<const DType> combo, uint64_t seed) {
    if (arg == "alibi_slopes") return slopes(known["Hq"], seed);
    if (arg == "mod_i32") return few_numbers(known["I"], seed);
    if (arg == "kv_lens") {
      const int64_t most = known["L"];
      return make<int32_t>({known["B"]},
                           [&](int64_t i) { return most - mix_below(seed, i, most / 2 + 1); });
    }
    return materialize_quantized(arg, {known["B"], known["L"], known["H"]}, known, combo[1], seed);
  }

  static constexpr Case kEdgeCases[] = {
      {"no batch", "B=0 S=4 Hq=2 L=4 H=1 D=8 Dv=8"},
      {"no queries", "B=1 S=0 Hq=2 L=4 H=1 D=8 Dv=8 +lse"},
      {"no keys", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8 +lse"},
      {"no keys, sinks", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8 +sinks +lse"},
      {"one element", "B=1 S=1 Hq=1 L=1 H=1 D=1 Dv=1 +lse"},
      {"decode, one block, group of 3", "B=2 S=1 Hq=9 L=77 H=3 D=64 Dv=64 +kv_lens +lse"},
      {"decode, many blocks", "B=1 S=1 Hq=4 L=700 H=1 D=32 Dv=32 +lse"},
      {"decode, odd dims", "B=1 S=1 Hq=4 L=300 H=2 D=13 Dv=27 +k_scale +v_scale"},
      {"decode, window", "B=2 S=1 Hq=7 L=555 H=1 D=40 Dv=48 causal=1 window_left=200 +sinks"},
      {"prefill", "B=1 S=130 Hq=2 L=130 H=2 D=64 Dv=64 +lse"},
      {"prefill, causal", "B=2 S=67 Hq=6 L=200 H=2 D=32 Dv=32 causal=1 +kv_lens +lse"},
      {"prefill, more queries than keys", "B=1 S=150 Hq=1 L=20 H=1 D=16 Dv=16 causal=1 +lse"},
      {"prefill, window both ways",
       "B=1 S=300 Hq=2 L=280 H=1 D=24 Dv=40 window_left=37 window_right=5 +lse"},
      {"softcap, sinks, scales",
       "B=1 S=33 Hq=5 L=170 H=5 D=20 Dv=36 softcap=3 scale=0.5 +sinks +k_scale +v_scale +lse"},
      {"heads of 64, softcap, sinks",
       "B=1 S=300 Hq=4 L=170 H=2 D=64 Dv=48 softcap=3 scale=0.5 +sinks +lse"},
      {"heads of 128, causal", "B=2 S=200 Hq=4 L=333 H=2 D=128 Dv=128 causal=1 +lse"},
      {"heads of 128, window",
       "B=1 S=300 Hq=2 L=300 H=1 D=128 Dv=96 window_left=70 window_right=9"},
      {"heads of 128, few queries", "B=2 S=5 Hq=6 L=500 H=2 D=128 Dv=128 causal=1 +kv_lens +lse"},
      {"heads of 128, long keys", "B=1 S=70 Hq=1 L=6200 H=1 D=128 Dv=128 +kv_lens +lse"},
      {"heads of 128, decode", "B=2 S=1 Hq=8 L=3000 H=2 D=128 Dv=128 +kv_lens +sinks +lse"},
      {"bias", "B=2 S=37 Hq=6 L=150 H=2 D=32 Dv=24 causal=1 softcap=3 +attn_bias +kv_lens +lse"},
      {"bias, slopes, heads of 64",
       "B=1 S=300 Hq=2 L=280 H=1 D=64 Dv=64 window_left=37 +attn_bias +alibi_slopes +sinks +lse"},
      {"bias, heads of 128", "B=2 S=200 Hq=4 L=333 H=2 D=128 Dv=128 +attn_bias +kv_lens +lse"},
      {"heads of 128, scales",
       "B=2 S=3 Hq=8 L=700 H=2 D=128 Dv=128 causal=1 +kv_lens +k_scale +v_scale +lse"},
      {"heads of 64, scales", "B=1 S=90 Hq=4 L=300 H=4 D=64 Dv=64 +k_scale +v_scale"},
      {"bias, decode", "B=2 S=1 Hq=8 L=3000 H=2 D=128 Dv=128 +attn_bias +kv_lens +lse"},
      {"slopes, few queries", "B=2 S=5 Hq=6 L=500 H=2 D=128 Dv=96 causal=1 +alibi_slopes +lse"},
      {"slopes, heads of 256", "B=1 S=150 Hq=2 L=300 H=1 D=256 Dv=256 +alibi_slopes"},
      {"heads of 96", "B=1 S=300 Hq=4 L=333 H=2 D=96 Dv=96 causal=1 +kv_lens +lse"},
      {"heads beside each other, one query", "B=2 S=1 Hq=4 L=700 H=4 D=80 Dv=80 +kv_lens"},
      {"the same, of other values", "B=1 S=2 Hq=4 L=300 H=2 D=112 Dv=72 +lse"},
      {"heads of 96, long keys", "B=1 S=70 Hq=1 L=6200 H=1 D=88 Dv=72 +kv_lens +lse"},
      {"heads of 192, values of 128", "B=2 S=150 Hq=4 L=300 H=4 D=192 Dv=128 causal=1 +lse"},
      {"heads of 160", "B=1 S=150 Hq=2 L=700 H=1 D=160 Dv=152 window_left=300 +sinks +lse"},
      {"bias, heads of 192", "B=1 S=150 Hq=2 L=300 H=1 D=192 Dv=192 +attn_bias +kv_lens"},
      {"heads of 256", "B=1 S=150 Hq=2 L=300 H=1 D=256 Dv=200 +sinks +lse"},
      {"heads of 256, decode", "B=1 S=1 Hq=5 L=900 H=1 D=256 Dv=256 +lse"},
      {"odd dims, all that is added",
       "B=2 S=23 Hq=6 L=100 H=2 D=13 Dv=27 causal=1 softcap=3 +kv_lens +k_scale +v_scale "
       "+attn_bias +alibi_slopes +sinks +lse"},
      {"odd dims, group of more heads than a tile has rows",
       "B=1 S=3 Hq=71 L=40 H=1 D=20 Dv=100 causal=1 +lse"},
      {"heads of 140, values of 260", "B=1 S=20 Hq=2 L=70 H=1 D=140 Dv=260 window_left=30 +lse"},
      {"heads of 400", "B=1 S=70 Hq=1 L=70 H=1 D=400 Dv=72 causal=1 +sinks +lse"},
      {"odd dims, mask_mod, score_mod",
       "B=1 S=30 Hq=2 L=50 H=1 D=9 Dv=17 score_mod=score-0.1*abs(k-h) mask_mod=q//9>k+1 +lse"},
      {"score_mod, no keys", "B=1 S=3 Hq=2 L=0 H=1 D=8 Dv=8 score_mod=score*2 +lse"},
      {"score_mod, decode", "B=2 S=1 Hq=6 L=300 H=2 D=32 Dv=24 score_mod=score-0.1*abs(k-h) +lse"},
      {"score_mod, mask_mod, all else",
       "B=2 S=37 Hq=6 L=150 H=2 D=64 Dv=64 causal=1 softcap=3 "
       "score_mod=tanh(score)*(1+h)-log2(1+abs(q+kv_len-q_len-k))*0.25 mask_mod=k%7!=q%5+b "
       "+attn_bias +alibi_slopes +sinks +kv_lens +lse"},
      {"mask_mod that hides rows", "B=1 S=70 Hq=2 L=90 H=1 D=16 Dv=16 mask_mod=q//9>k+1 +lse"},
      {"documents and a table, heads of 128",
       "B=2 S=200 Hq=4 L=200 H=2 D=128 Dv=128 F=64 I=200 score_mod=score+mod_f32[16*h+k//16] "
       "mask_mod=mod_i32[q]==mod_i32[k]and(q>=k) +mod_f32 +mod_i32 +lse"},
      {"heads of 256, functions",
       "B=1 S=150 Hq=2 L=300 H=1 D=256 Dv=256 "
       "score_mod=where(k<9,exp(min(score,1.5)),sigmoid(score))+exp2(-k/64)-sqrt(q+1.5)/(h+1) "
       "+lse"}};
  static constexpr Case kWorkloads[] = {
      {"smollm2-135m/prefill 512", "B=1 S=512 Hq=9 L=512 H=3 D=64 Dv=64 causal=1"},
      {"smollm2-135m/decode 512", "B=1 S=1 Hq=9 L=512 H=3 D=64 Dv=64 causal=1"},
      {"bert-base/128", "B=8 S=128 Hq=12 L=128 H=12 D=64 Dv=64"},
      {"H16 S512 D64", "B=1 S=512 Hq=16 L=512 H=16 D=64 Dv=64"},
      {"H16 S512 D64 causal", "B=1 S=512 Hq=16 L=512 H=16 D=64 Dv=64 causal=1"},
      {"H16 S1024 D64", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64"},
      {"H16 S1024 D64 causal", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64 causal=1"},
      {"H16 S2048 D64", "B=1 S=2048 Hq=16 L=2048 H=16 D=64 Dv=64"},
      {"H16 S2048 D64 causal", "B=1 S=2048 Hq=16 L=2048 H=16 D=64 Dv=64 causal=1"},
      {"H16 S4096 D64", "B=1 S=4096 Hq=16 L=4096 H=16 D=64 Dv=64"},
      {"H16 S4096 D64 causal", "B=1 S=4096 Hq=16 L=4096 H=16 D=64 Dv=64 causal=1"},
      {"H8 S512 D128", "B=1 S=512 Hq=8 L=512 H=8 D=128 Dv=128"},
      {"H8 S512 D128 causal", "B=1 S=512 Hq=8 L=512 H=8 D=128 Dv=128 causal=1"},
      {"H8 S1024 D128", "B=1 S=1024 Hq=8 L=1024 H=8 D=128 Dv=128"},
      {"H8 S1024 D128 causal", "B=1 S=1024 Hq=8 L=1024 H=8 D=128 Dv=128 causal=1"},
      {"H8 S2048 D128", "B=1 S=2048 Hq=8 L=2048 H=8 D=128 Dv=128"},
      {"H8 S2048 D128 causal", "B=1 S=2048 Hq=8 L=2048 H=8 D=128 Dv=128 causal=1"},
      {"H8 S4096 D128", "B=1 S=4096 Hq=8 L=4096 H=8 D=128 Dv=128"},
      {"H8 S4096 D128 causal", "B=1 S=4096 Hq=8 L=4096 H=8 D=128 Dv=128 causal=1"},
      {"t5-base/512", "B=4 S=512 Hq=12 L=512 H=12 D=64 Dv=64 scale=0.125 +attn_bias"},
      {"bloom-560m/1024", "B=1 S=1024 Hq=16 L=1024 H=16 D=64 Dv=64 causal=1 +alibi_slopes"},
      {"llama-3.1-8b/decode 4096", "B=1 S=1 Hq=32 L=4096 H=8 D=128 Dv=128 causal=1"},
      {"gemma-2-9b/2048, cap as score_mod",
       "B=1 S=2048 Hq=16 L=2048 H=8 D=256 Dv=256 scale=0.0625 causal=1 "
       "score_mod=50*tanh(score/50)"},
      {"H16 S2048 D64, alibi as score_mod",
       "B=1 S=2048 Hq=16 L=2048 H=16 D=64 Dv=64 causal=1 "
       "score_mod=score-exp2(-(h+1)/2)*(q+kv_len-q_len-k)"},
      {"H8 S4096 D128, documents",
       "B=1 S=4096 Hq=8 L=4096 H=8 D=128 Dv=128 I=4096 causal=1 mask_mod=mod_i32[q]==mod_i32[k] "
       "+mod_i32"}};

  template <class T, class U>
  static void reference(const Kernel<T, U>& kernel) {
    AttentionFamily::reference(kernel);
  }
  template <class T, class U>
  static Cost cost(const Kernel<T, U>& kernel) {
    return AttentionFamily::cost(kernel.shape(), kernel.lengths(), kernel.options(), sizeof(T),
                                 sizeof(U));
  }
};

}  // namespace tw::ops
