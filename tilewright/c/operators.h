/* Written by tools/c_header.py from the catalog; do not edit.
 *
 * One function per operator. Tensors that are optional in the schema may be NULL. */
#ifndef TILEWRIGHT_C_OPERATORS_H_
#define TILEWRIGHT_C_OPERATORS_H_

#include "tilewright/c/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* add(x: T[...], other: T[...], alpha: f32 = 1) -> out: T[...] */
static inline tw_status tw_add(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                               double alpha, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_float_value(alpha),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("add", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* argmax(x: T[*, C], dim: i64 = -1) -> out: i64[*] */
static inline tw_status tw_argmax(tw_context* context, const tw_tensor* x, int64_t dim,
                                  tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("argmax", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* attention(q: T[B, S, Hq, D], k: U[B, L, H, D], v: U[B, L, H, Dv], kv_lens: i32[B]?, sinks:
 * f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, scale: f32 = 0, causal: bool = false,
 * window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> out: T[B, S, Hq, Dv], lse:
 * f32[B, Hq, S]? */
static inline tw_status tw_attention(tw_context* context, const tw_tensor* q, const tw_tensor* k,
                                     const tw_tensor* v, const tw_tensor* kv_lens,
                                     const tw_tensor* sinks, const tw_tensor* k_scale,
                                     const tw_tensor* v_scale, double scale, int64_t causal,
                                     int64_t window_left, int64_t window_right, double softcap,
                                     tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {
      tw_tensor_value(q),        tw_tensor_value(k),         tw_tensor_value(v),
      tw_tensor_value(kv_lens),  tw_tensor_value(sinks),     tw_tensor_value(k_scale),
      tw_tensor_value(v_scale),  tw_float_value(scale),      tw_int_value(causal),
      tw_int_value(window_left), tw_int_value(window_right), tw_float_value(softcap),
      tw_tensor_value(out),      tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 14, NULL, NULL);
}

/* attention_paged(q: T[N, Hq, D], k_pages: U[P, S, H, D], v_pages: U[P, S, H, Dv], block_table:
 * i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, sinks: f32[Hq]?, k_scale: f32[P, S, H]?,
 * v_scale: f32[P, S, H]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1,
 * window_right: i64 = -1, softcap: f32 = 0) -> out: T[N, Hq, Dv], lse: f32[Hq, N]? */
static inline tw_status tw_attention_paged(tw_context* context, const tw_tensor* q,
                                           const tw_tensor* k_pages, const tw_tensor* v_pages,
                                           const tw_tensor* block_table, const tw_tensor* kv_lens,
                                           const tw_tensor* cu_seqlens_q, const tw_tensor* sinks,
                                           const tw_tensor* k_scale, const tw_tensor* v_scale,
                                           double scale, int64_t causal, int64_t window_left,
                                           int64_t window_right, double softcap, tw_tensor* out,
                                           tw_tensor* lse) {
  const tw_value arguments[] = {
      tw_tensor_value(q),           tw_tensor_value(k_pages), tw_tensor_value(v_pages),
      tw_tensor_value(block_table), tw_tensor_value(kv_lens), tw_tensor_value(cu_seqlens_q),
      tw_tensor_value(sinks),       tw_tensor_value(k_scale), tw_tensor_value(v_scale),
      tw_float_value(scale),        tw_int_value(causal),     tw_int_value(window_left),
      tw_int_value(window_right),   tw_float_value(softcap),  tw_tensor_value(out),
      tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_paged", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 16, NULL, NULL);
}

/* attention_varlen(q: T[N, Hq, D], k: U[M, H, D], v: U[M, H, Dv], cu_seqlens_q: i32[C],
 * cu_seqlens_kv: i32[C], sinks: f32[Hq]?, k_scale: f32[M, H]?, v_scale: f32[M, H]?, scale: f32 = 0,
 * causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> out:
 * T[N, Hq, Dv], lse: f32[Hq, N]? */
static inline tw_status tw_attention_varlen(
    tw_context* context, const tw_tensor* q, const tw_tensor* k, const tw_tensor* v,
    const tw_tensor* cu_seqlens_q, const tw_tensor* cu_seqlens_kv, const tw_tensor* sinks,
    const tw_tensor* k_scale, const tw_tensor* v_scale, double scale, int64_t causal,
    int64_t window_left, int64_t window_right, double softcap, tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q),
                                tw_tensor_value(k),
                                tw_tensor_value(v),
                                tw_tensor_value(cu_seqlens_q),
                                tw_tensor_value(cu_seqlens_kv),
                                tw_tensor_value(sinks),
                                tw_tensor_value(k_scale),
                                tw_tensor_value(v_scale),
                                tw_float_value(scale),
                                tw_int_value(causal),
                                tw_int_value(window_left),
                                tw_int_value(window_right),
                                tw_float_value(softcap),
                                tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_varlen", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 15, NULL, NULL);
}

/* copy(x: T[...]) -> out: T[...] */
static inline tw_status tw_copy(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("copy", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* embedding(weight: T[V, C], indices: I[*]) -> out: T[*, C] */
static inline tw_status tw_embedding(tw_context* context, const tw_tensor* weight,
                                     const tw_tensor* indices, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(weight), tw_tensor_value(indices),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("embedding", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* erf(x: T[...]) -> out: T[...] */
static inline tw_status tw_erf(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("erf", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* exp(x: T[...]) -> out: T[...] */
static inline tw_status tw_exp(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("exp", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C],
 * residual_out: T[*, C] */
static inline tw_status tw_fused_add_rms_norm(tw_context* context, const tw_tensor* x,
                                              const tw_tensor* residual, const tw_tensor* weight,
                                              double eps, tw_tensor* out, tw_tensor* residual_out) {
  const tw_value arguments[] = {tw_tensor_value(x),      tw_tensor_value(residual),
                                tw_tensor_value(weight), tw_float_value(eps),
                                tw_tensor_value(out),    tw_tensor_value(residual_out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("fused_add_rms_norm", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* gelu(x: T[...], approximate: none|tanh = none) -> out: T[...] */
static inline tw_status tw_gelu(tw_context* context, const tw_tensor* x, const char* approximate,
                                tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_text_value(approximate),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* gelu_tanh_and_mul(x: T[*, 2*H]) -> out: T[*, H] */
static inline tw_status tw_gelu_tanh_and_mul(tw_context* context, const tw_tensor* x,
                                             tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu_tanh_and_mul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* linear(x: T[*, K], weight: T[N, K], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N] */
static inline tw_status tw_linear(tw_context* context, const tw_tensor* x, const tw_tensor* weight,
                                  const tw_tensor* bias, const tw_tensor* residual,
                                  const char* activation, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x),        tw_tensor_value(weight),
                                tw_tensor_value(bias),     tw_tensor_value(residual),
                                tw_text_value(activation), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* linear_packed(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N] */
static inline tw_status tw_linear_packed(tw_context* context, const tw_tensor* x,
                                         const tw_tensor* packed, const tw_tensor* bias,
                                         const tw_tensor* residual, const char* activation,
                                         tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x),        tw_tensor_value(packed),
                                tw_tensor_value(bias),     tw_tensor_value(residual),
                                tw_text_value(activation), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_packed", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* linear_quantized(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu|silu_and_mul|gelu_tanh_and_mul = none, exact: bool = false) -> out:
 * T[*, N] */
static inline tw_status tw_linear_quantized(tw_context* context, const tw_tensor* x,
                                            const tw_tensor* packed, const tw_tensor* bias,
                                            const tw_tensor* residual, const char* activation,
                                            int64_t exact, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x),        tw_tensor_value(packed),
                                tw_tensor_value(bias),     tw_tensor_value(residual),
                                tw_text_value(activation), tw_int_value(exact),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_quantized", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* log(x: T[...]) -> out: T[...] */
static inline tw_status tw_log(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("log", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1) -> out: T[B, M, N] */
static inline tw_status tw_matmul(tw_context* context, const tw_tensor* a, const tw_tensor* b,
                                  double alpha, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_float_value(alpha),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* mul(x: T[...], other: T[...]) -> out: T[...] */
static inline tw_status tw_mul(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                               tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("mul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* permute(x: T[...], dims: i64[R]) -> out: T[...] */
static inline tw_status tw_permute(tw_context* context, const tw_tensor* x, const tw_tensor* dims,
                                   tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(dims), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("permute", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* relu(x: T[...]) -> out: T[...] */
static inline tw_status tw_relu(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("relu", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* rms_norm(x: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C] */
static inline tw_status tw_rms_norm(tw_context* context, const tw_tensor* x,
                                    const tw_tensor* weight, double eps, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_float_value(eps),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("rms_norm", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, interleaved: bool =
 * false) -> out: T[B, S, H, D] */
static inline tw_status tw_rope(tw_context* context, const tw_tensor* x, const tw_tensor* cos,
                                const tw_tensor* sin, const tw_tensor* positions,
                                int64_t interleaved, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x),        tw_tensor_value(cos),
                                tw_tensor_value(sin),      tw_tensor_value(positions),
                                tw_int_value(interleaved), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("rope", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* sample(logits: f32[*, V], history: i32[*, L]?, temperature: f32 = 1, top_k: i64 = 0, top_p: f32 =
 * 1, min_p: f32 = 0, repetition_penalty: f32 = 1, frequency_penalty: f32 = 0, presence_penalty: f32
 * = 0, seed: i64 = 0, offset: i64 = 0) -> out: i32[*] */
static inline tw_status tw_sample(tw_context* context, const tw_tensor* logits,
                                  const tw_tensor* history, double temperature, int64_t top_k,
                                  double top_p, double min_p, double repetition_penalty,
                                  double frequency_penalty, double presence_penalty, int64_t seed,
                                  int64_t offset, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(logits),
                                tw_tensor_value(history),
                                tw_float_value(temperature),
                                tw_int_value(top_k),
                                tw_float_value(top_p),
                                tw_float_value(min_p),
                                tw_float_value(repetition_penalty),
                                tw_float_value(frequency_penalty),
                                tw_float_value(presence_penalty),
                                tw_int_value(seed),
                                tw_int_value(offset),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sample", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 12, NULL, NULL);
}

/* sigmoid(x: T[...]) -> out: T[...] */
static inline tw_status tw_sigmoid(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sigmoid", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* silu(x: T[...]) -> out: T[...] */
static inline tw_status tw_silu(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("silu", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* silu_and_mul(x: T[*, 2*H]) -> out: T[*, H] */
static inline tw_status tw_silu_and_mul(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("silu_and_mul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C] */
static inline tw_status tw_softmax(tw_context* context, const tw_tensor* x, int64_t dim,
                                   tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("softmax", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* sum(x: T[*, C], dim: i64 = -1) -> out: T[*] */
static inline tw_status tw_sum(tw_context* context, const tw_tensor* x, int64_t dim,
                               tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sum", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* tanh(x: T[...]) -> out: T[...] */
static inline tw_status tw_tanh(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("tanh", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* transpose(x: T[...], dim0: i64 = -2, dim1: i64 = -1) -> out: T[...] */
static inline tw_status tw_transpose(tw_context* context, const tw_tensor* x, int64_t dim0,
                                     int64_t dim1, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim0), tw_int_value(dim1),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("transpose", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* type_as(x: T[...], other: U[N]) -> out: U[...] */
static inline tw_status tw_type_as(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                                   tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("type_as", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_C_OPERATORS_H_ */
