/* Written by tools/c_header.py from the catalog; do not edit.
 *
 * One function per operator. Tensors that are optional in the schema may be NULL. */
/* clang-format off */
#ifndef TILEWRIGHT_C_OPERATORS_H_
#define TILEWRIGHT_C_OPERATORS_H_

#include "tilewright/c/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* activation(x: T[...], function:
 * clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b: f32 =
 * 0, c: f32 = 0) -> out: T[...] */
static inline tw_status tw_activation(tw_context* context, const tw_tensor* x, const char* function,
                                      double a, double b, double c, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_text_value(function), tw_float_value(a),
                                tw_float_value(b), tw_float_value(c), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("activation", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* activation_backward(grad: T[...], x: T[...], function:
 * clamp|hardsigmoid|hardswish|mish|leaky_relu|elu|softplus|nan_to_num|round, a: f32 = 0, b: f32 =
 * 0, c: f32 = 0) -> x_grad: T[...] */
static inline tw_status tw_activation_backward(tw_context* context, const tw_tensor* grad,
                                               const tw_tensor* x, const char* function, double a,
                                               double b, double c, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_text_value(function),
                                tw_float_value(a), tw_float_value(b), tw_float_value(c),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("activation_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* add(x: T[...], other: T[...], alpha: f64 = 1) -> out: T[...] */
static inline tw_status tw_add(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                               double alpha, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_float_value(alpha),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("add", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* amax(x: T[*, C], dim: i64 = -1) -> out: T[*] */
static inline tw_status tw_amax(tw_context* context, const tw_tensor* x, int64_t dim,
                                tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("amax", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* amax_backward(grad: T[*], x: T[*, C], output: T[*], dim: i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_amax_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* x, const tw_tensor* output, int64_t dim,
                                         tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(output),
                                tw_int_value(dim), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("amax_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
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
 * f32[Hq]?, k_scale: f32[B, L, H]?, v_scale: f32[B, L, H]?, attn_bias: T[B, Hq, S, L]?,
 * alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1,
 * window_right: i64 = -1, softcap: f32 = 0, score_mod: text = "", mask_mod: text = "", mod_f32:
 * f32[F]?, mod_i32: i32[I]?) -> out: T[B, S, Hq, Dv], lse: f32[B, Hq, S]? */
static inline tw_status tw_attention(tw_context* context, const tw_tensor* q, const tw_tensor* k,
                                     const tw_tensor* v, const tw_tensor* kv_lens,
                                     const tw_tensor* sinks, const tw_tensor* k_scale,
                                     const tw_tensor* v_scale, const tw_tensor* attn_bias,
                                     const tw_tensor* alibi_slopes, double scale, int64_t causal,
                                     int64_t window_left, int64_t window_right, double softcap,
                                     const char* score_mod, const char* mask_mod,
                                     const tw_tensor* mod_f32, const tw_tensor* mod_i32,
                                     tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q), tw_tensor_value(k), tw_tensor_value(v),
                                tw_tensor_value(kv_lens), tw_tensor_value(sinks),
                                tw_tensor_value(k_scale), tw_tensor_value(v_scale),
                                tw_tensor_value(attn_bias), tw_tensor_value(alibi_slopes),
                                tw_float_value(scale), tw_int_value(causal),
                                tw_int_value(window_left), tw_int_value(window_right),
                                tw_float_value(softcap), tw_text_value(score_mod),
                                tw_text_value(mask_mod), tw_tensor_value(mod_f32),
                                tw_tensor_value(mod_i32), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 20, NULL, NULL);
}

/* attention_backward(grad: T[B, S, Hq, Dv], q: T[B, S, Hq, D], k: T[B, L, H, D], v: T[B, L, H, Dv],
 * output: T[B, S, Hq, Dv], lse: f32[B, Hq, S], kv_lens: i32[B]?, scale: f32 = 0, causal: bool =
 * false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) -> q_grad: T[B, S, Hq,
 * D], k_grad: T[B, L, H, D], v_grad: T[B, L, H, Dv] */
static inline tw_status tw_attention_backward(tw_context* context, const tw_tensor* grad,
                                              const tw_tensor* q, const tw_tensor* k,
                                              const tw_tensor* v, const tw_tensor* output,
                                              const tw_tensor* lse, const tw_tensor* kv_lens,
                                              double scale, int64_t causal, int64_t window_left,
                                              int64_t window_right, double softcap,
                                              tw_tensor* q_grad, tw_tensor* k_grad,
                                              tw_tensor* v_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(q), tw_tensor_value(k),
                                tw_tensor_value(v), tw_tensor_value(output), tw_tensor_value(lse),
                                tw_tensor_value(kv_lens), tw_float_value(scale),
                                tw_int_value(causal), tw_int_value(window_left),
                                tw_int_value(window_right), tw_float_value(softcap),
                                tw_tensor_value(q_grad), tw_tensor_value(k_grad),
                                tw_tensor_value(v_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 15, NULL, NULL);
}

/* attention_fp8(q: f8_e4m3fn[N, Hq, D], k: f8_e4m3fn[M, H, D], v: f8_e4m3fn[M, H, Dv],
 * cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], q_scale: f32[R, H]?, k_scale: f32[R, H]?, v_scale:
 * f32[R, H]?, sinks: f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1,
 * window_right: i64 = -1, softcap: f32 = 0) -> out: bf16[N, Hq, Dv], lse: f32[Hq, N]? */
static inline tw_status tw_attention_fp8(tw_context* context, const tw_tensor* q,
                                         const tw_tensor* k, const tw_tensor* v,
                                         const tw_tensor* cu_seqlens_q,
                                         const tw_tensor* cu_seqlens_kv, const tw_tensor* q_scale,
                                         const tw_tensor* k_scale, const tw_tensor* v_scale,
                                         const tw_tensor* sinks, double scale, int64_t causal,
                                         int64_t window_left, int64_t window_right, double softcap,
                                         tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q), tw_tensor_value(k), tw_tensor_value(v),
                                tw_tensor_value(cu_seqlens_q), tw_tensor_value(cu_seqlens_kv),
                                tw_tensor_value(q_scale), tw_tensor_value(k_scale),
                                tw_tensor_value(v_scale), tw_tensor_value(sinks),
                                tw_float_value(scale), tw_int_value(causal),
                                tw_int_value(window_left), tw_int_value(window_right),
                                tw_float_value(softcap), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_fp8", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 16, NULL, NULL);
}

/* attention_paged(q: T[N, Hq, D], k_pages: U[P, S, H, D], v_pages: U[P, S, H, Dv], block_table:
 * i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, sinks: f32[Hq]?, k_scale: f32[P, S, H]?,
 * v_scale: f32[P, S, H]?, alibi_slopes: f32[Hq]?, scale: f32 = 0, causal: bool = false,
 * window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0, score_mod: text = "", mask_mod:
 * text = "", mod_f32: f32[F]?, mod_i32: i32[I]?) -> out: T[N, Hq, Dv], lse: f32[Hq, N]? */
static inline tw_status tw_attention_paged(tw_context* context, const tw_tensor* q,
                                           const tw_tensor* k_pages, const tw_tensor* v_pages,
                                           const tw_tensor* block_table, const tw_tensor* kv_lens,
                                           const tw_tensor* cu_seqlens_q, const tw_tensor* sinks,
                                           const tw_tensor* k_scale, const tw_tensor* v_scale,
                                           const tw_tensor* alibi_slopes, double scale,
                                           int64_t causal, int64_t window_left,
                                           int64_t window_right, double softcap,
                                           const char* score_mod, const char* mask_mod,
                                           const tw_tensor* mod_f32, const tw_tensor* mod_i32,
                                           tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q), tw_tensor_value(k_pages),
                                tw_tensor_value(v_pages), tw_tensor_value(block_table),
                                tw_tensor_value(kv_lens), tw_tensor_value(cu_seqlens_q),
                                tw_tensor_value(sinks), tw_tensor_value(k_scale),
                                tw_tensor_value(v_scale), tw_tensor_value(alibi_slopes),
                                tw_float_value(scale), tw_int_value(causal),
                                tw_int_value(window_left), tw_int_value(window_right),
                                tw_float_value(softcap), tw_text_value(score_mod),
                                tw_text_value(mask_mod), tw_tensor_value(mod_f32),
                                tw_tensor_value(mod_i32), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_paged", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 21, NULL, NULL);
}

/* attention_varlen(q: T[N, Hq, D], k: U[M, H, D], v: U[M, H, Dv], cu_seqlens_q: i32[C],
 * cu_seqlens_kv: i32[C], sinks: f32[Hq]?, k_scale: f32[M, H]?, v_scale: f32[M, H]?, alibi_slopes:
 * f32[Hq]?, scale: f32 = 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1,
 * softcap: f32 = 0, score_mod: text = "", mask_mod: text = "", mod_f32: f32[F]?, mod_i32: i32[I]?)
 * -> out: T[N, Hq, Dv], lse: f32[Hq, N]? */
static inline tw_status tw_attention_varlen(tw_context* context, const tw_tensor* q,
                                            const tw_tensor* k, const tw_tensor* v,
                                            const tw_tensor* cu_seqlens_q,
                                            const tw_tensor* cu_seqlens_kv, const tw_tensor* sinks,
                                            const tw_tensor* k_scale, const tw_tensor* v_scale,
                                            const tw_tensor* alibi_slopes, double scale,
                                            int64_t causal, int64_t window_left,
                                            int64_t window_right, double softcap,
                                            const char* score_mod, const char* mask_mod,
                                            const tw_tensor* mod_f32, const tw_tensor* mod_i32,
                                            tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q), tw_tensor_value(k), tw_tensor_value(v),
                                tw_tensor_value(cu_seqlens_q), tw_tensor_value(cu_seqlens_kv),
                                tw_tensor_value(sinks), tw_tensor_value(k_scale),
                                tw_tensor_value(v_scale), tw_tensor_value(alibi_slopes),
                                tw_float_value(scale), tw_int_value(causal),
                                tw_int_value(window_left), tw_int_value(window_right),
                                tw_float_value(softcap), tw_text_value(score_mod),
                                tw_text_value(mask_mod), tw_tensor_value(mod_f32),
                                tw_tensor_value(mod_i32), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_varlen", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 20, NULL, NULL);
}

/* attention_varlen_backward(grad: T[N, Hq, Dv], q: T[N, Hq, D], k: T[M, H, D], v: T[M, H, Dv],
 * output: T[N, Hq, Dv], lse: f32[Hq, N], cu_seqlens_q: i32[C], cu_seqlens_kv: i32[C], scale: f32 =
 * 0, causal: bool = false, window_left: i64 = -1, window_right: i64 = -1, softcap: f32 = 0) ->
 * q_grad: T[N, Hq, D], k_grad: T[M, H, D], v_grad: T[M, H, Dv] */
static inline tw_status tw_attention_varlen_backward(tw_context* context, const tw_tensor* grad,
                                                     const tw_tensor* q, const tw_tensor* k,
                                                     const tw_tensor* v, const tw_tensor* output,
                                                     const tw_tensor* lse,
                                                     const tw_tensor* cu_seqlens_q,
                                                     const tw_tensor* cu_seqlens_kv, double scale,
                                                     int64_t causal, int64_t window_left,
                                                     int64_t window_right, double softcap,
                                                     tw_tensor* q_grad, tw_tensor* k_grad,
                                                     tw_tensor* v_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(q), tw_tensor_value(k),
                                tw_tensor_value(v), tw_tensor_value(output), tw_tensor_value(lse),
                                tw_tensor_value(cu_seqlens_q), tw_tensor_value(cu_seqlens_kv),
                                tw_float_value(scale), tw_int_value(causal),
                                tw_int_value(window_left), tw_int_value(window_right),
                                tw_float_value(softcap), tw_tensor_value(q_grad),
                                tw_tensor_value(k_grad), tw_tensor_value(v_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("attention_varlen_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 16, NULL, NULL);
}

/* binary(x: T[...], other: T[...], function: div|trunc_divide|floor_divide|remainder|pow|prelu) ->
 * out: T[...] */
static inline tw_status tw_binary(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                                  const char* function, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_text_value(function),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("binary", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* binary_backward(grad: T[...], x: T[...], other: T[...], function:
 * div|trunc_divide|floor_divide|remainder|pow|prelu|maximum|minimum) -> x_grad: T[...], other_grad:
 * T[...]? */
static inline tw_status tw_binary_backward(tw_context* context, const tw_tensor* grad,
                                           const tw_tensor* x, const tw_tensor* other,
                                           const char* function, tw_tensor* x_grad,
                                           tw_tensor* other_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(other),
                                tw_text_value(function), tw_tensor_value(x_grad),
                                tw_tensor_value(other_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("binary_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* bitwise(x: T[...], other: T[...], function: and|or|xor) -> out: T[...] */
static inline tw_status tw_bitwise(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                                   const char* function, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_text_value(function),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("bitwise", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* compare(x: T[...], other: T[...], relation: eq|ne|lt|le|gt|ge|and|or) -> out: bool[...] */
static inline tw_status tw_compare(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                                   const char* relation, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_text_value(relation),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("compare", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* copy(x: T[...]) -> out: T[...] */
static inline tw_status tw_copy(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("copy", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* count_nonzero(x: T[*, C], dim: i64 = -1) -> out: i64[*] */
static inline tw_status tw_count_nonzero(tw_context* context, const tw_tensor* x, int64_t dim,
                                         tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("count_nonzero", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* cross_entropy(x: T[N, V], target: I[N], ignore_index: i64 = -100, reduction: mean|sum|none =
 * mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[*], lse: f32[N]? */
static inline tw_status tw_cross_entropy(tw_context* context, const tw_tensor* x,
                                         const tw_tensor* target, int64_t ignore_index,
                                         const char* reduction, double label_smoothing,
                                         double z_loss, tw_tensor* loss, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(target),
                                tw_int_value(ignore_index), tw_text_value(reduction),
                                tw_float_value(label_smoothing), tw_float_value(z_loss),
                                tw_tensor_value(loss), tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("cross_entropy", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 8, NULL, NULL);
}

/* cross_entropy_backward(grad: T[*], x: T[N, V], target: I[N], lse: f32[N], ignore_index: i64 =
 * -100, reduction: mean|sum|none = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> x_grad: T[N,
 * V] */
static inline tw_status tw_cross_entropy_backward(tw_context* context, const tw_tensor* grad,
                                                  const tw_tensor* x, const tw_tensor* target,
                                                  const tw_tensor* lse, int64_t ignore_index,
                                                  const char* reduction, double label_smoothing,
                                                  double z_loss, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(target),
                                tw_tensor_value(lse), tw_int_value(ignore_index),
                                tw_text_value(reduction), tw_float_value(label_smoothing),
                                tw_float_value(z_loss), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("cross_entropy_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 9, NULL, NULL);
}

/* delta_rule_transform(k: T[B, L, Hv, D], beta: U[B, L, Hv], g: U[B, L, Hv]?, chunk_size: i64 = 64)
 * -> out: U[B, L, Hv, chunk_size] */
static inline tw_status tw_delta_rule_transform(tw_context* context, const tw_tensor* k,
                                                const tw_tensor* beta, const tw_tensor* g,
                                                int64_t chunk_size, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(k), tw_tensor_value(beta), tw_tensor_value(g),
                                tw_int_value(chunk_size), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("delta_rule_transform", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* dequantize(x: Q[M, N], scale: f32[A, B], block_m: i64 = 128, block_n: i64 = 128) -> out: f32[M,
 * N] */
static inline tw_status tw_dequantize(tw_context* context, const tw_tensor* x,
                                      const tw_tensor* scale, int64_t block_m, int64_t block_n,
                                      tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(scale), tw_int_value(block_m),
                                tw_int_value(block_n), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("dequantize", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* dequantize_int4(x: i8[N, P], scale: T[N, G], zero: i8[N, G], group_size: i64 = 128) -> out: T[N,
 * 2*P] */
static inline tw_status tw_dequantize_int4(tw_context* context, const tw_tensor* x,
                                           const tw_tensor* scale, const tw_tensor* zero,
                                           int64_t group_size, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(scale), tw_tensor_value(zero),
                                tw_int_value(group_size), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("dequantize_int4", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* dropout(x: T[...], p: f32 = 0.5, seed: i64 = 0) -> out: T[...] */
static inline tw_status tw_dropout(tw_context* context, const tw_tensor* x, double p, int64_t seed,
                                   tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_float_value(p), tw_int_value(seed),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("dropout", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
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

/* embedding_backward(grad: T[*, C], indices: I[*], weight: T[V, C]) -> weight_grad: T[V, C] */
static inline tw_status tw_embedding_backward(tw_context* context, const tw_tensor* grad,
                                              const tw_tensor* indices, const tw_tensor* weight,
                                              tw_tensor* weight_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(indices),
                                tw_tensor_value(weight), tw_tensor_value(weight_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("embedding_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* erf(x: T[...]) -> out: T[...] */
static inline tw_status tw_erf(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("erf", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* erf_backward(grad: T[...], x: T[...]) -> x_grad: T[...] */
static inline tw_status tw_erf_backward(tw_context* context, const tw_tensor* grad,
                                        const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("erf_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* exp(x: T[...]) -> out: T[...] */
static inline tw_status tw_exp(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("exp", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* extremum(x: T[...], other: T[...], function: maximum|minimum) -> out: T[...] */
static inline tw_status tw_extremum(tw_context* context, const tw_tensor* x, const tw_tensor* other,
                                    const char* function, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(other), tw_text_value(function),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("extremum", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* fft(x: T[B, N, 2], inverse: bool = false) -> out: T[B, N, 2] */
static inline tw_status tw_fft(tw_context* context, const tw_tensor* x, int64_t inverse,
                               tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(inverse), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("fft", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* fused_add_rms_norm(x: T[*, C], residual: T[*, C], weight: T[C], eps: f32 = 1e-6) -> out: T[*, C],
 * residual_out: T[*, C] */
static inline tw_status tw_fused_add_rms_norm(tw_context* context, const tw_tensor* x,
                                              const tw_tensor* residual, const tw_tensor* weight,
                                              double eps, tw_tensor* out, tw_tensor* residual_out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(residual),
                                tw_tensor_value(weight), tw_float_value(eps), tw_tensor_value(out),
                                tw_tensor_value(residual_out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("fused_add_rms_norm", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* fused_experts(x: T[N, H], gate_up_proj: T[E, 2*F, H], down_proj: T[E, H, F], topk_weights: f32[N,
 * K], topk_ids: i32[N, K], activation: silu|gelu|gelu_tanh = silu, scale: f32 = 1) -> out: T[N,
 * H] */
static inline tw_status tw_fused_experts(tw_context* context, const tw_tensor* x,
                                         const tw_tensor* gate_up_proj, const tw_tensor* down_proj,
                                         const tw_tensor* topk_weights, const tw_tensor* topk_ids,
                                         const char* activation, double scale, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(gate_up_proj),
                                tw_tensor_value(down_proj), tw_tensor_value(topk_weights),
                                tw_tensor_value(topk_ids), tw_text_value(activation),
                                tw_float_value(scale), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("fused_experts", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 8, NULL, NULL);
}

/* fused_linear_cross_entropy(x: T[N, H], weight: T[V, H], target: I[N], ignore_index: i64 = -100,
 * reduction: mean|sum = mean, label_smoothing: f32 = 0, z_loss: f32 = 0) -> loss: T[], x_grad: T[N,
 * H]?, weight_grad: T[V, H]? */
static inline tw_status tw_fused_linear_cross_entropy(tw_context* context, const tw_tensor* x,
                                                      const tw_tensor* weight,
                                                      const tw_tensor* target, int64_t ignore_index,
                                                      const char* reduction, double label_smoothing,
                                                      double z_loss, tw_tensor* loss,
                                                      tw_tensor* x_grad, tw_tensor* weight_grad) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight),
                                tw_tensor_value(target), tw_int_value(ignore_index),
                                tw_text_value(reduction), tw_float_value(label_smoothing),
                                tw_float_value(z_loss), tw_tensor_value(loss),
                                tw_tensor_value(x_grad), tw_tensor_value(weight_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("fused_linear_cross_entropy", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 10, NULL, NULL);
}

/* gated_linear(x: T[*, K], weight: T[2*N, K], bias: T[2*N]?, activation: silu|gelu|gelu_tanh =
 * silu) -> out: T[*, N] */
static inline tw_status tw_gated_linear(tw_context* context, const tw_tensor* x,
                                        const tw_tensor* weight, const tw_tensor* bias,
                                        const char* activation, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_tensor_value(bias),
                                tw_text_value(activation), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gated_linear", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
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

/* gelu_and_mul(x: T[*, 2*H]) -> out: T[*, H] */
static inline tw_status tw_gelu_and_mul(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu_and_mul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* gelu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H] */
static inline tw_status tw_gelu_and_mul_backward(tw_context* context, const tw_tensor* grad,
                                                 const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu_and_mul_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* gelu_backward(grad: T[...], x: T[...], approximate: none|tanh = none) -> x_grad: T[...] */
static inline tw_status tw_gelu_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* x, const char* approximate,
                                         tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x),
                                tw_text_value(approximate), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
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

/* gelu_tanh_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H] */
static inline tw_status tw_gelu_tanh_and_mul_backward(tw_context* context, const tw_tensor* grad,
                                                      const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("gelu_tanh_and_mul_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* grouped_gated_matmul(a: T[A, K], b: T[G, K, 2*N], offsets: i32[G], starts: i32[G]?, rows:
 * i32[M]?, activation: silu|gelu|gelu_tanh = silu) -> out: T[M, N] */
static inline tw_status tw_grouped_gated_matmul(tw_context* context, const tw_tensor* a,
                                                const tw_tensor* b, const tw_tensor* offsets,
                                                const tw_tensor* starts, const tw_tensor* rows,
                                                const char* activation, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(rows),
                                tw_text_value(activation), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("grouped_gated_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* grouped_matmul(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?) -> out: T[M, N] */
static inline tw_status tw_grouped_matmul(tw_context* context, const tw_tensor* a,
                                          const tw_tensor* b, const tw_tensor* offsets,
                                          const tw_tensor* starts, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("grouped_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* grouped_matmul_unpermute(a: T[M, K], b: T[G, K, N], offsets: i32[G], starts: i32[G]?, to_rows:
 * i32[M]?, weights: f32[R]?, out_rows: i64 = -1) -> out: T[R, N] */
static inline tw_status tw_grouped_matmul_unpermute(tw_context* context, const tw_tensor* a,
                                                    const tw_tensor* b, const tw_tensor* offsets,
                                                    const tw_tensor* starts,
                                                    const tw_tensor* to_rows,
                                                    const tw_tensor* weights, int64_t out_rows,
                                                    tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(to_rows),
                                tw_tensor_value(weights), tw_int_value(out_rows),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("grouped_matmul_unpermute", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 8, NULL, NULL);
}

/* int_matmul(a: i8[B, M, K], b: i8[B, K, N]) -> out: i32[B, M, N] */
static inline tw_status tw_int_matmul(tw_context* context, const tw_tensor* a, const tw_tensor* b,
                                      tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("int_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* k_grouped_matmul(a: T[M, K], b: T[K, N], offsets: i32[G], starts: i32[G]?) -> out: T[G, M, N] */
static inline tw_status tw_k_grouped_matmul(tw_context* context, const tw_tensor* a,
                                            const tw_tensor* b, const tw_tensor* offsets,
                                            const tw_tensor* starts, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("k_grouped_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* layer_norm(x: T[*, C], weight: T[C]?, bias: T[C]?, eps: f32 = 1e-5) -> out: T[*, C] */
static inline tw_status tw_layer_norm(tw_context* context, const tw_tensor* x,
                                      const tw_tensor* weight, const tw_tensor* bias, double eps,
                                      tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_tensor_value(bias),
                                tw_float_value(eps), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("layer_norm", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* layer_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C]?, eps: f32 = 1e-5) -> x_grad: T[*,
 * C], weight_grad: T[C]?, bias_grad: T[C]? */
static inline tw_status tw_layer_norm_backward(tw_context* context, const tw_tensor* grad,
                                               const tw_tensor* x, const tw_tensor* weight,
                                               double eps, tw_tensor* x_grad,
                                               tw_tensor* weight_grad, tw_tensor* bias_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(weight),
                                tw_float_value(eps), tw_tensor_value(x_grad),
                                tw_tensor_value(weight_grad), tw_tensor_value(bias_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("layer_norm_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* lerp(x: T[...], end: T[...], weight: T[...]?, amount: f32 = 0.5) -> out: T[...] */
static inline tw_status tw_lerp(tw_context* context, const tw_tensor* x, const tw_tensor* end,
                                const tw_tensor* weight, double amount, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(end), tw_tensor_value(weight),
                                tw_float_value(amount), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("lerp", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* linear(x: T[*, K], weight: T[N, K], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu = none, row_scale: f32[*]?, column_scale: f32[N]?) -> out: T[*,
 * N] */
static inline tw_status tw_linear(tw_context* context, const tw_tensor* x, const tw_tensor* weight,
                                  const tw_tensor* bias, const tw_tensor* residual,
                                  const char* activation, const tw_tensor* row_scale,
                                  const tw_tensor* column_scale, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_tensor_value(bias),
                                tw_tensor_value(residual), tw_text_value(activation),
                                tw_tensor_value(row_scale), tw_tensor_value(column_scale),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 8, NULL, NULL);
}

/* linear_attention(q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L, Hv, Dv], g: U[B, L, Hv, D], beta:
 * U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, scale: f32 = 0, chunk_size: i64 = 64) -> out: T[B,
 * L, Hv, Dv], final_state: U[B, Hv, D, Dv], states: U[B, Hv, L/chunk_size+1, D, Dv]? */
static inline tw_status tw_linear_attention(tw_context* context, const tw_tensor* q,
                                            const tw_tensor* k, const tw_tensor* v,
                                            const tw_tensor* g, const tw_tensor* beta,
                                            const tw_tensor* initial_state, double scale,
                                            int64_t chunk_size, tw_tensor* out,
                                            tw_tensor* final_state, tw_tensor* states) {
  const tw_value arguments[] = {tw_tensor_value(q), tw_tensor_value(k), tw_tensor_value(v),
                                tw_tensor_value(g), tw_tensor_value(beta),
                                tw_tensor_value(initial_state), tw_float_value(scale),
                                tw_int_value(chunk_size), tw_tensor_value(out),
                                tw_tensor_value(final_state), tw_tensor_value(states)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_attention", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 11, NULL, NULL);
}

/* linear_attention_backward(grad: T[B, L, Hv, Dv], q: T[B, L, H, D], k: T[B, L, H, D], v: T[B, L,
 * Hv, Dv], g: U[B, L, Hv, D], beta: U[B, L, Hv]?, initial_state: U[B, Hv, D, Dv]?, final_grad: U[B,
 * Hv, D, Dv]?, scale: f32 = 0) -> q_grad: T[B, L, H, D], k_grad: T[B, L, H, D], v_grad: T[B, L, Hv,
 * Dv], g_grad: U[B, L, Hv, D], beta_grad: U[B, L, Hv]?, initial_grad: U[B, Hv, D, Dv]? */
static inline tw_status tw_linear_attention_backward(tw_context* context, const tw_tensor* grad,
                                                     const tw_tensor* q, const tw_tensor* k,
                                                     const tw_tensor* v, const tw_tensor* g,
                                                     const tw_tensor* beta,
                                                     const tw_tensor* initial_state,
                                                     const tw_tensor* final_grad, double scale,
                                                     tw_tensor* q_grad, tw_tensor* k_grad,
                                                     tw_tensor* v_grad, tw_tensor* g_grad,
                                                     tw_tensor* beta_grad,
                                                     tw_tensor* initial_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(q), tw_tensor_value(k),
                                tw_tensor_value(v), tw_tensor_value(g), tw_tensor_value(beta),
                                tw_tensor_value(initial_state), tw_tensor_value(final_grad),
                                tw_float_value(scale), tw_tensor_value(q_grad),
                                tw_tensor_value(k_grad), tw_tensor_value(v_grad),
                                tw_tensor_value(g_grad), tw_tensor_value(beta_grad),
                                tw_tensor_value(initial_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_attention_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 15, NULL, NULL);
}

/* linear_int4(x: T[*, 2*P], weight: i8[N, P], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?,
 * group_size: i64 = 128) -> out: T[*, N] */
static inline tw_status tw_linear_int4(tw_context* context, const tw_tensor* x,
                                       const tw_tensor* weight, const tw_tensor* scale,
                                       const tw_tensor* zero, const tw_tensor* bias,
                                       int64_t group_size, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_tensor_value(scale),
                                tw_tensor_value(zero), tw_tensor_value(bias),
                                tw_int_value(group_size), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_int4", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* linear_int8(x: T[*, K], weight: i8[N, K], scale: T[N, G], zero: i8[N, G]?, bias: T[N]?,
 * group_size: i64 = 128) -> out: T[*, N] */
static inline tw_status tw_linear_int8(tw_context* context, const tw_tensor* x,
                                       const tw_tensor* weight, const tw_tensor* scale,
                                       const tw_tensor* zero, const tw_tensor* bias,
                                       int64_t group_size, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(weight), tw_tensor_value(scale),
                                tw_tensor_value(zero), tw_tensor_value(bias),
                                tw_int_value(group_size), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_int8", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* linear_packed(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu = none) -> out: T[*, N] */
static inline tw_status tw_linear_packed(tw_context* context, const tw_tensor* x,
                                         const tw_tensor* packed, const tw_tensor* bias,
                                         const tw_tensor* residual, const char* activation,
                                         tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(packed), tw_tensor_value(bias),
                                tw_tensor_value(residual), tw_text_value(activation),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_packed", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* linear_quantized(x: T[*, K], packed: u8[P], bias: T[N]?, residual: T[*, N]?, activation:
 * none|relu|gelu|gelu_tanh|silu|silu_and_mul|gelu_tanh_and_mul = none, compute: int8|bf16|f32|int16
 * = int8, out_features: i64 = -1) -> out: T[*, N] */
static inline tw_status tw_linear_quantized(tw_context* context, const tw_tensor* x,
                                            const tw_tensor* packed, const tw_tensor* bias,
                                            const tw_tensor* residual, const char* activation,
                                            const char* compute, int64_t out_features,
                                            tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(packed), tw_tensor_value(bias),
                                tw_tensor_value(residual), tw_text_value(activation),
                                tw_text_value(compute), tw_int_value(out_features),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("linear_quantized", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 8, NULL, NULL);
}

/* log(x: T[...]) -> out: T[...] */
static inline tw_status tw_log(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("log", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* log_backward(grad: T[...], x: T[...]) -> x_grad: T[...] */
static inline tw_status tw_log_backward(tw_context* context, const tw_tensor* grad,
                                        const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("log_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* log_softmax(x: T[*, C], dim: i64 = -1) -> out: T[*, C] */
static inline tw_status tw_log_softmax(tw_context* context, const tw_tensor* x, int64_t dim,
                                       tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("log_softmax", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* log_softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_log_softmax_backward(tw_context* context, const tw_tensor* grad,
                                                const tw_tensor* output, int64_t dim,
                                                tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(output), tw_int_value(dim),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("log_softmax_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* matmul(a: T[B, M, K], b: T[B, K, N], alpha: f32 = 1, addend: T[B, M, N]?, beta: f32 = 1) -> out:
 * T[B, M, N] */
static inline tw_status tw_matmul(tw_context* context, const tw_tensor* a, const tw_tensor* b,
                                  double alpha, const tw_tensor* addend, double beta,
                                  tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_float_value(alpha),
                                tw_tensor_value(addend), tw_float_value(beta),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* mean(x: T[*, C], dim: i64 = -1) -> out: T[*] */
static inline tw_status tw_mean(tw_context* context, const tw_tensor* x, int64_t dim,
                                tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("mean", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* mean_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_mean_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* x, int64_t dim, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_int_value(dim),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("mean_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* mla(q_nope: T[B, S, Hq, D], q_pe: T[B, S, Hq, R], ckv: U[B, L, H, D], kpe: T[B, L, H, R],
 * kv_lens: i32[B]?, ckv_scale: f32[B, L, H, G]?, scale: f32 = 0, causal: bool = false) -> out: T[B,
 * S, Hq, D], lse: f32[B, Hq, S]? */
static inline tw_status tw_mla(tw_context* context, const tw_tensor* q_nope, const tw_tensor* q_pe,
                               const tw_tensor* ckv, const tw_tensor* kpe, const tw_tensor* kv_lens,
                               const tw_tensor* ckv_scale, double scale, int64_t causal,
                               tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q_nope), tw_tensor_value(q_pe),
                                tw_tensor_value(ckv), tw_tensor_value(kpe),
                                tw_tensor_value(kv_lens), tw_tensor_value(ckv_scale),
                                tw_float_value(scale), tw_int_value(causal), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("mla", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 10, NULL, NULL);
}

/* mla_paged(q_nope: T[N, Hq, D], q_pe: T[N, Hq, R], ckv_pages: U[P, S, H, D], kpe_pages: T[P, S, H,
 * R], block_table: i32[B, W], kv_lens: i32[B], cu_seqlens_q: i32[C]?, ckv_scale: f32[P, S, H, G]?,
 * scale: f32 = 0, causal: bool = false) -> out: T[N, Hq, D], lse: f32[Hq, N]? */
static inline tw_status tw_mla_paged(tw_context* context, const tw_tensor* q_nope,
                                     const tw_tensor* q_pe, const tw_tensor* ckv_pages,
                                     const tw_tensor* kpe_pages, const tw_tensor* block_table,
                                     const tw_tensor* kv_lens, const tw_tensor* cu_seqlens_q,
                                     const tw_tensor* ckv_scale, double scale, int64_t causal,
                                     tw_tensor* out, tw_tensor* lse) {
  const tw_value arguments[] = {tw_tensor_value(q_nope), tw_tensor_value(q_pe),
                                tw_tensor_value(ckv_pages), tw_tensor_value(kpe_pages),
                                tw_tensor_value(block_table), tw_tensor_value(kv_lens),
                                tw_tensor_value(cu_seqlens_q), tw_tensor_value(ckv_scale),
                                tw_float_value(scale), tw_int_value(causal), tw_tensor_value(out),
                                tw_tensor_value(lse)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("mla_paged", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 12, NULL, NULL);
}

/* moe_align(ids: i32[*], experts: i64, block_size: i64 = 1) -> counts: i32[experts], offsets:
 * i32[experts], order: i32[S], positions: i32[*] */
static inline tw_status tw_moe_align(tw_context* context, const tw_tensor* ids, int64_t experts,
                                     int64_t block_size, tw_tensor* counts, tw_tensor* offsets,
                                     tw_tensor* order, tw_tensor* positions) {
  const tw_value arguments[] = {tw_tensor_value(ids), tw_int_value(experts),
                                tw_int_value(block_size), tw_tensor_value(counts),
                                tw_tensor_value(offsets), tw_tensor_value(order),
                                tw_tensor_value(positions)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("moe_align", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* moe_combine(x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale: f32 = 1) -> out: T[N,
 * C] */
static inline tw_status tw_moe_combine(tw_context* context, const tw_tensor* x,
                                       const tw_tensor* positions, const tw_tensor* weights,
                                       double scale, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(positions),
                                tw_tensor_value(weights), tw_float_value(scale),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("moe_combine", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* moe_combine_backward(grad: T[N, C], x: T[S, C], positions: i32[N, K], weights: f32[N, K]?, scale:
 * f32 = 1) -> x_grad: T[S, C], weights_grad: f32[N, K]? */
static inline tw_status tw_moe_combine_backward(tw_context* context, const tw_tensor* grad,
                                                const tw_tensor* x, const tw_tensor* positions,
                                                const tw_tensor* weights, double scale,
                                                tw_tensor* x_grad, tw_tensor* weights_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x),
                                tw_tensor_value(positions), tw_tensor_value(weights),
                                tw_float_value(scale), tw_tensor_value(x_grad),
                                tw_tensor_value(weights_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("moe_combine_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* moe_topk(gating: T[N, E], top_k: i64, bias: f32[E]?, scoring: softmax|sigmoid = softmax,
 * renormalize: bool = false) -> weights: f32[N, top_k], ids: i32[N, top_k] */
static inline tw_status tw_moe_topk(tw_context* context, const tw_tensor* gating, int64_t top_k,
                                    const tw_tensor* bias, const char* scoring, int64_t renormalize,
                                    tw_tensor* weights, tw_tensor* ids) {
  const tw_value arguments[] = {tw_tensor_value(gating), tw_int_value(top_k), tw_tensor_value(bias),
                                tw_text_value(scoring), tw_int_value(renormalize),
                                tw_tensor_value(weights), tw_tensor_value(ids)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("moe_topk", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* moe_topk_backward(grad: f32[N, K], gating: T[N, E], ids: i32[N, K], scoring: softmax|sigmoid =
 * softmax, renormalize: bool = false) -> gating_grad: T[N, E] */
static inline tw_status tw_moe_topk_backward(tw_context* context, const tw_tensor* grad,
                                             const tw_tensor* gating, const tw_tensor* ids,
                                             const char* scoring, int64_t renormalize,
                                             tw_tensor* gating_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(gating),
                                tw_tensor_value(ids), tw_text_value(scoring),
                                tw_int_value(renormalize), tw_tensor_value(gating_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("moe_topk_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
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

/* pack_quantized(blocks: u8[N, B], up: u8[N, B]?, format:
 * q4_0|q4_1|q5_0|q5_1|q8_0|q2_k|q3_k|q4_k|q5_k|q6_k|iq4_nl|iq4_xs|mxfp4 = q4_0) -> packed: u8[P] */
static inline tw_status tw_pack_quantized(tw_context* context, const tw_tensor* blocks,
                                          const tw_tensor* up, const char* format,
                                          tw_tensor* packed) {
  const tw_value arguments[] = {tw_tensor_value(blocks), tw_tensor_value(up), tw_text_value(format),
                                tw_tensor_value(packed)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("pack_quantized", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* pack_weight(weight: T[N, K]) -> packed: u8[P] */
static inline tw_status tw_pack_weight(tw_context* context, const tw_tensor* weight,
                                       tw_tensor* packed) {
  const tw_value arguments[] = {tw_tensor_value(weight), tw_tensor_value(packed)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("pack_weight", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
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

/* quantize_fp8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = false) ->
 * out: f8_e4m3fn[*, C], scale: f32[*, C/group_size] */
static inline tw_status tw_quantize_fp8(tw_context* context, const tw_tensor* x, int64_t group_size,
                                        double eps, int64_t power_of_two, tw_tensor* out,
                                        tw_tensor* scale) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(group_size), tw_float_value(eps),
                                tw_int_value(power_of_two), tw_tensor_value(out),
                                tw_tensor_value(scale)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("quantize_fp8", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* quantize_int8(x: T[*, C], group_size: i64 = 128, eps: f32 = 1e-10, power_of_two: bool = false,
 * truncate: bool = false) -> out: i8[*, C], scale: f32[*, C/group_size] */
static inline tw_status tw_quantize_int8(tw_context* context, const tw_tensor* x,
                                         int64_t group_size, double eps, int64_t power_of_two,
                                         int64_t truncate, tw_tensor* out, tw_tensor* scale) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(group_size), tw_float_value(eps),
                                tw_int_value(power_of_two), tw_int_value(truncate),
                                tw_tensor_value(out), tw_tensor_value(scale)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("quantize_int8", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* reduce(x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim: i64 = -1) -> out:
 * T[*] */
static inline tw_status tw_reduce(tw_context* context, const tw_tensor* x, const char* function,
                                  int64_t dim, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_text_value(function), tw_int_value(dim),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("reduce", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* reduce_backward(grad: T[*], x: T[*, C], function: amin|prod|norm1|norm2|norm_inf|logsumexp, dim:
 * i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_reduce_backward(tw_context* context, const tw_tensor* grad,
                                           const tw_tensor* x, const char* function, int64_t dim,
                                           tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_text_value(function),
                                tw_int_value(dim), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("reduce_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* relu(x: T[...]) -> out: T[...] */
static inline tw_status tw_relu(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("relu", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* relu_backward(grad: T[...], output: T[...]) -> x_grad: T[...] */
static inline tw_status tw_relu_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* output, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(output),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("relu_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
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

/* rms_norm_backward(grad: T[*, C], x: T[*, C], weight: T[C], residual_grad: T[*, C]?, eps: f32 =
 * 1e-6) -> x_grad: T[*, C], weight_grad: T[C]? */
static inline tw_status tw_rms_norm_backward(tw_context* context, const tw_tensor* grad,
                                             const tw_tensor* x, const tw_tensor* weight,
                                             const tw_tensor* residual_grad, double eps,
                                             tw_tensor* x_grad, tw_tensor* weight_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(weight),
                                tw_tensor_value(residual_grad), tw_float_value(eps),
                                tw_tensor_value(x_grad), tw_tensor_value(weight_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("rms_norm_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* rope(x: T[B, S, H, D], cos: f32[P, R], sin: f32[P, R], positions: i32[B, S]?, interleaved: bool =
 * false, inverse: bool = false) -> out: T[B, S, H, D] */
static inline tw_status tw_rope(tw_context* context, const tw_tensor* x, const tw_tensor* cos,
                                const tw_tensor* sin, const tw_tensor* positions,
                                int64_t interleaved, int64_t inverse, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(cos), tw_tensor_value(sin),
                                tw_tensor_value(positions), tw_int_value(interleaved),
                                tw_int_value(inverse), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("rope", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* sample(logits: f32[*, V], history: i32[*, L]?, temperature: f32 = 1, top_k: i64 = 0, top_p: f32 =
 * 1, min_p: f32 = 0, repetition_penalty: f32 = 1, frequency_penalty: f32 = 0, presence_penalty: f32
 * = 0, seed: i64 = 0, offset: i64 = 0) -> out: i32[*] */
static inline tw_status tw_sample(tw_context* context, const tw_tensor* logits,
                                  const tw_tensor* history, double temperature, int64_t top_k,
                                  double top_p, double min_p, double repetition_penalty,
                                  double frequency_penalty, double presence_penalty, int64_t seed,
                                  int64_t offset, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(logits), tw_tensor_value(history),
                                tw_float_value(temperature), tw_int_value(top_k),
                                tw_float_value(top_p), tw_float_value(min_p),
                                tw_float_value(repetition_penalty),
                                tw_float_value(frequency_penalty), tw_float_value(presence_penalty),
                                tw_int_value(seed), tw_int_value(offset), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sample", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 12, NULL, NULL);
}

/* scale(x: T[...], factor: f64 = 1) -> out: T[...] */
static inline tw_status tw_scale(tw_context* context, const tw_tensor* x, double factor,
                                 tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_float_value(factor), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scale", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* scaled_grouped_gated_matmul(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, 2*N, K], a_scale: f32[M, A],
 * b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, rows: i32[R]?, activation:
 * silu|gelu|gelu_tanh = silu, block_n: i64 = 128, block_k: i64 = 128) -> out: bf16[R, N] */
static inline tw_status tw_scaled_grouped_gated_matmul(tw_context* context, const tw_tensor* a,
                                                       const tw_tensor* b, const tw_tensor* a_scale,
                                                       const tw_tensor* b_scale,
                                                       const tw_tensor* offsets,
                                                       const tw_tensor* starts,
                                                       const tw_tensor* rows,
                                                       const char* activation, int64_t block_n,
                                                       int64_t block_k, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(a_scale),
                                tw_tensor_value(b_scale), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(rows),
                                tw_text_value(activation), tw_int_value(block_n),
                                tw_int_value(block_k), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scaled_grouped_gated_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 11, NULL, NULL);
}

/* scaled_grouped_matmul(a: Q[M, K], b: Q[G, N, K], a_scale: f32[M, A], b_scale: f32[G, B, A],
 * offsets: i32[G]?, block_n: i64 = 128, block_k: i64 = 128, starts: i32[G]?, rows: i32[R]?) -> out:
 * f32[R, N] */
static inline tw_status tw_scaled_grouped_matmul(tw_context* context, const tw_tensor* a,
                                                 const tw_tensor* b, const tw_tensor* a_scale,
                                                 const tw_tensor* b_scale, const tw_tensor* offsets,
                                                 int64_t block_n, int64_t block_k,
                                                 const tw_tensor* starts, const tw_tensor* rows,
                                                 tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(a_scale),
                                tw_tensor_value(b_scale), tw_tensor_value(offsets),
                                tw_int_value(block_n), tw_int_value(block_k),
                                tw_tensor_value(starts), tw_tensor_value(rows),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scaled_grouped_matmul", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 10, NULL, NULL);
}

/* scaled_grouped_matmul_unpermute(a: f8_e4m3fn[M, K], b: f8_e4m3fn[G, N, K], a_scale: f32[M, A],
 * b_scale: f32[G, B, A], offsets: i32[G]?, starts: i32[G]?, to_rows: i32[M]?, weights: f32[R]?,
 * out_rows: i64 = -1, block_n: i64 = 128, block_k: i64 = 128) -> out: bf16[R, N] */
static inline tw_status tw_scaled_grouped_matmul_unpermute(tw_context* context, const tw_tensor* a,
                                                           const tw_tensor* b,
                                                           const tw_tensor* a_scale,
                                                           const tw_tensor* b_scale,
                                                           const tw_tensor* offsets,
                                                           const tw_tensor* starts,
                                                           const tw_tensor* to_rows,
                                                           const tw_tensor* weights,
                                                           int64_t out_rows, int64_t block_n,
                                                           int64_t block_k, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(a), tw_tensor_value(b), tw_tensor_value(a_scale),
                                tw_tensor_value(b_scale), tw_tensor_value(offsets),
                                tw_tensor_value(starts), tw_tensor_value(to_rows),
                                tw_tensor_value(weights), tw_int_value(out_rows),
                                tw_int_value(block_n), tw_int_value(block_k), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scaled_grouped_matmul_unpermute", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 12, NULL, NULL);
}

/* scan(x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> out: T[*, C] */
static inline tw_status tw_scan(tw_context* context, const tw_tensor* x, const char* function,
                                int64_t dim, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_text_value(function), tw_int_value(dim),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scan", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* scan_backward(grad: T[*, C], x: T[*, C], function: sum|prod = sum, dim: i64 = -1) -> x_grad: T[*,
 * C] */
static inline tw_status tw_scan_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* x, const char* function, int64_t dim,
                                         tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_text_value(function),
                                tw_int_value(dim), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("scan_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* segment_mean(x: T[B, L, C], starts: I[N], ends: I[N]) -> out: T[B, N, C] */
static inline tw_status tw_segment_mean(tw_context* context, const tw_tensor* x,
                                        const tw_tensor* starts, const tw_tensor* ends,
                                        tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(starts), tw_tensor_value(ends),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("segment_mean", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* segment_mean_backward(grad: T[B, N, C], x: T[B, L, C], starts: I[N], ends: I[N]) -> x_grad: T[B,
 * L, C] */
static inline tw_status tw_segment_mean_backward(tw_context* context, const tw_tensor* grad,
                                                 const tw_tensor* x, const tw_tensor* starts,
                                                 const tw_tensor* ends, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(starts),
                                tw_tensor_value(ends), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("segment_mean_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* sigmoid(x: T[...]) -> out: T[...] */
static inline tw_status tw_sigmoid(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sigmoid", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* sigmoid_backward(grad: T[...], output: T[...]) -> x_grad: T[...] */
static inline tw_status tw_sigmoid_backward(tw_context* context, const tw_tensor* grad,
                                            const tw_tensor* output, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(output),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sigmoid_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
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

/* silu_and_mul_backward(grad: T[*, H], x: T[*, 2*H]) -> x_grad: T[*, 2*H] */
static inline tw_status tw_silu_and_mul_backward(tw_context* context, const tw_tensor* grad,
                                                 const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("silu_and_mul_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* silu_backward(grad: T[...], x: T[...]) -> x_grad: T[...] */
static inline tw_status tw_silu_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* x, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("silu_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* sinkhorn(x: T[B, M, N], iterations: i64 = 20, eps: f32 = 0) -> out: T[B, M, N] */
static inline tw_status tw_sinkhorn(tw_context* context, const tw_tensor* x, int64_t iterations,
                                    double eps, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(iterations), tw_float_value(eps),
                                tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sinkhorn", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
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

/* softmax_backward(grad: T[*, C], output: T[*, C], dim: i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_softmax_backward(tw_context* context, const tw_tensor* grad,
                                            const tw_tensor* output, int64_t dim,
                                            tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(output), tw_int_value(dim),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("softmax_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
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

/* sum_backward(grad: T[*], x: T[*, C], dim: i64 = -1) -> x_grad: T[*, C] */
static inline tw_status tw_sum_backward(tw_context* context, const tw_tensor* grad,
                                        const tw_tensor* x, int64_t dim, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_int_value(dim),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("sum_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* swiglu(gate: T[...], up: T[...]) -> out: T[...] */
static inline tw_status tw_swiglu(tw_context* context, const tw_tensor* gate, const tw_tensor* up,
                                  tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(gate), tw_tensor_value(up), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("swiglu", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* swiglu_backward(grad: T[...], gate: T[...], up: T[...]) -> gate_grad: T[...], up_grad: T[...] */
static inline tw_status tw_swiglu_backward(tw_context* context, const tw_tensor* grad,
                                           const tw_tensor* gate, const tw_tensor* up,
                                           tw_tensor* gate_grad, tw_tensor* up_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(gate), tw_tensor_value(up),
                                tw_tensor_value(gate_grad), tw_tensor_value(up_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("swiglu_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 5, NULL, NULL);
}

/* tanh(x: T[...]) -> out: T[...] */
static inline tw_status tw_tanh(tw_context* context, const tw_tensor* x, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("tanh", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 2, NULL, NULL);
}

/* tanh_backward(grad: T[...], output: T[...]) -> x_grad: T[...] */
static inline tw_status tw_tanh_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* output, tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(output),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("tanh_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* topk(x: T[*, C], k: i64, starts: i32[*]?, ends: i32[*]?) -> values: T[*, k], indices: i32[*,
 * k] */
static inline tw_status tw_topk(tw_context* context, const tw_tensor* x, int64_t k,
                                const tw_tensor* starts, const tw_tensor* ends, tw_tensor* values,
                                tw_tensor* indices) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(k), tw_tensor_value(starts),
                                tw_tensor_value(ends), tw_tensor_value(values),
                                tw_tensor_value(indices)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("topk", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* topk_backward(grad: T[*, K], indices: i32[*, K], x: T[*, C]) -> x_grad: T[*, C] */
static inline tw_status tw_topk_backward(tw_context* context, const tw_tensor* grad,
                                         const tw_tensor* indices, const tw_tensor* x,
                                         tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(indices), tw_tensor_value(x),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("topk_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
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

/* unary(x: T[...], function:
 * abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> out: T[...] */
static inline tw_status tw_unary(tw_context* context, const tw_tensor* x, const char* function,
                                 tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_text_value(function), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("unary", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 3, NULL, NULL);
}

/* unary_backward(grad: T[...], x: T[...], function:
 * abs|neg|sign|reciprocal|sqrt|rsqrt|floor|ceil|trunc|round|sin|cos|expm1|log1p) -> x_grad:
 * T[...] */
static inline tw_status tw_unary_backward(tw_context* context, const tw_tensor* grad,
                                          const tw_tensor* x, const char* function,
                                          tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(grad), tw_tensor_value(x), tw_text_value(function),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("unary_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

/* var_mean(x: T[*, C], dim: i64 = -1, correction: f32 = 1, root: bool = false) -> var: T[*], mean:
 * T[*] */
static inline tw_status tw_var_mean(tw_context* context, const tw_tensor* x, int64_t dim,
                                    double correction, int64_t root, tw_tensor* var,
                                    tw_tensor* mean) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_int_value(dim), tw_float_value(correction),
                                tw_int_value(root), tw_tensor_value(var), tw_tensor_value(mean)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("var_mean", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 6, NULL, NULL);
}

/* var_mean_backward(x: T[*, C], var_grad: T[*]?, mean_grad: T[*]?, dim: i64 = -1, correction: f32 =
 * 1, root: bool = false) -> x_grad: T[*, C] */
static inline tw_status tw_var_mean_backward(tw_context* context, const tw_tensor* x,
                                             const tw_tensor* var_grad, const tw_tensor* mean_grad,
                                             int64_t dim, double correction, int64_t root,
                                             tw_tensor* x_grad) {
  const tw_value arguments[] = {tw_tensor_value(x), tw_tensor_value(var_grad),
                                tw_tensor_value(mean_grad), tw_int_value(dim),
                                tw_float_value(correction), tw_int_value(root),
                                tw_tensor_value(x_grad)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("var_mean_backward", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 7, NULL, NULL);
}

/* where(condition: bool[...], x: T[...], other: T[...]) -> out: T[...] */
static inline tw_status tw_where(tw_context* context, const tw_tensor* condition,
                                 const tw_tensor* x, const tw_tensor* other, tw_tensor* out) {
  const tw_value arguments[] = {tw_tensor_value(condition), tw_tensor_value(x),
                                tw_tensor_value(other), tw_tensor_value(out)};
  const tw_operator* op = NULL;
  const tw_status status = tw_operator_find("where", &op);
  if (status != TW_OK) return status;
  return tw_call(context, op, arguments, 4, NULL, NULL);
}

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_C_OPERATORS_H_ */
