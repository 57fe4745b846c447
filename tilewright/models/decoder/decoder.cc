#include "tilewright/models/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "tilewright/core/checked.h"
#include "tilewright/models/decoder/weights.h"
#include "tilewright/ops/add.h"
#include "tilewright/ops/attention_paged.h"
#include "tilewright/ops/gelu_tanh_and_mul.h"
#include "tilewright/ops/rms_norm.h"
#include "tilewright/ops/rope.h"
#include "tilewright/ops/silu_and_mul.h"
#include "tilewright/ops/type_as.h"
#include "tilewright/runtime/launch.h"

namespace tw::models {
namespace {

/// Activations [tokens, cols].
struct Buffer {
  float* data = nullptr;
  int64_t tokens = 0, cols = 0;

  float* row(int64_t token) const { return data + token * cols; }
  Rows<float> all() const { return rows(data, tokens, cols); }
  Rows<const float> in() const { return rows<const float>(data, tokens, cols); }
  /// `heads` heads of `dim` from column `column` on, as [1, tokens, heads, dim].
  View<float, 4> heads(int64_t column, int64_t count, int64_t dim) const {
    View<float, 4> out = view(data + column, int64_t{1}, tokens, count, dim);
    out.strides[1] = cols;
    out.strides[0] = tokens * cols;
    return out;
  }
  /// Columns [column, column + count) of every token.
  Rows<float> columns(int64_t column, int64_t count) const {
    Rows<float> out = rows(data + column, tokens, count);
    out.lead_strides[0] = cols;
    return out;
  }
};

template <class T, int kRank>
View<const T, kRank> as_const(const View<T, kRank>& v) {
  View<const T, kRank> out;
  out.data = v.data;
  for (int d = 0; d < kRank; ++d) {
    out.sizes[d] = v.sizes[d];
    out.strides[d] = v.strides[d];
  }
  return out;
}

/// Absent when empty.
View<const float, 1> view_of(const Vector& v) {
  return view<const float>(v.empty() ? nullptr : v.data(), v.size());
}

/// The heads of every token as rows: [tokens, heads] leading, dim last.
Rows<float> head_rows(const View<float, 4>& x) {
  Rows<float> out = rows(x.data, x.size(1) * x.size(2), x.size(3));
  out.lead = 2;
  out.lead_sizes[0] = x.size(1);
  out.lead_sizes[1] = x.size(2);
  out.lead_strides[0] = x.stride(1);
  out.lead_strides[1] = x.stride(2);
  return out;
}
Rows<const float> head_rows_in(const View<float, 4>& x) {
  const Rows<float> r = head_rows(x);
  Rows<const float> out = rows<const float>(r.data, r.rows, r.cols);
  out.lead = 2;
  std::copy_n(r.lead_sizes, 2, out.lead_sizes);
  std::copy_n(r.lead_strides, 2, out.lead_strides);
  return out;
}

}  // namespace

/// One forward pass over the stacked tokens of all sequences.
struct Decoder::Pass {
  const Weights& w;
  const DecoderConfig& c = w.config;
  runtime::Context& context;
  kernels::QuantizedCompute compute;
  std::span<const SequenceTokens> batch;
  LogitRows wanted;
  int64_t tokens = 0;
  ops::RopeTables rope{}, rope_local{};
  Buffer x{}, normed{}, qkv{}, attended{}, rounded{}, hidden{}, wide{}, branch{};

  void prepare() {
    std::vector<int64_t> positions;
    for (const SequenceTokens& s : batch)
      for (size_t i = 0; i < s.tokens.size(); ++i)
        positions.push_back(s.cache->length() + int64_t(i));
    tokens = int64_t(positions.size());
    rope = ops::make_rope_tables(w.rope_frequencies, positions, w.rope_attention_factor);
    if (!w.rope_local_frequencies.empty())
      rope_local = ops::make_rope_tables(w.rope_local_frequencies, positions);
    const bool all_gated =
        std::all_of(w.layers.begin(), w.layers.end(), [](const auto& l) { return l.is_gated; });
    place({{&x, c.hidden},
           {&normed, c.hidden},
           {&qkv, (c.heads + 2 * c.kv_heads) * c.head_dim},
           {&attended, c.heads * c.head_dim},
           {&rounded, rounds_queries() ? c.heads * c.head_dim : 0},
           {&hidden, c.intermediate},
           {&wide, all_gated ? 0 : 2 * c.intermediate},
           {&branch, c.post_norms || c.residual_scale != 1 ? c.hidden : 0}});
  }

  /// Logits err as much as all other layers of int8 do together with a fifth of their weights: two
  /// digits, which cost nothing where weights come from memory.
  kernels::QuantizedCompute head_compute() const {
    using enum kernels::QuantizedCompute;
    return compute == kInt8 ? kInt16 : compute;
  }
  /// To bf16, so that attention multiplies it: in tiles, as the rest of a prompt, or in pairs.
  bool rounds_queries() const {
    return compute == kernels::QuantizedCompute::kBf16 ||
           (compute == kernels::QuantizedCompute::kInt8 && context.machine().prefers_bf16_pairs());
  }

  void place(std::initializer_list<std::pair<Buffer*, int64_t>> buffers) {
    constexpr int64_t kLine = 16;  // floats of a cache line
    int64_t size = 0;
    for (const auto& [buffer, cols] : buffers)
      size = checked_add(size, round_up(checked_mul(tokens, cols), kLine));
    const int64_t bytes = checked_mul(size, int64_t{sizeof(float)});
    auto* next = static_cast<float*>(context.between_launches(bytes));
    for (const auto& [buffer, cols] : buffers) {
      *buffer = {next, tokens, cols};
      next += round_up(tokens * cols, kLine);
    }
  }

  /// Only the last token of each sequence goes on.
  void keep_last_tokens() {
    int64_t row = 0, last = -1;
    for (const SequenceTokens& s : batch) {
      last += int64_t(s.tokens.size());
      for (const Buffer* b : {&x, &attended})
        std::memmove(b->row(row), b->row(last), size_t(b->cols) * sizeof(float));
      ++row;
    }
    tokens = row;
    for (Buffer* b : {&x, &normed, &attended, &hidden, &wide, &branch}) b->tokens = row;
  }

  void embed() {
    int64_t t = 0;
    for (const SequenceTokens& s : batch)
      for (const int32_t token : s.tokens) {
        float* row = x.row(t++);
        w.embedding.read_row(token, row);
        if (c.embedding_scale != 1)
          for (int64_t i = 0; i < c.hidden; ++i) row[i] *= c.embedding_scale;
      }
  }

  /// What a branch reads: x, through its norm where the model has one.
  void enter_branch(const Vector& pre_norm) {
    if (pre_norm.empty())
      std::copy_n(x.data, tokens * c.hidden, normed.data);
    else
      norm(x.in(), pre_norm, normed.all());
  }

  void norm(const Rows<const float>& in, const Vector& weight, const Rows<float>& out) {
    runtime::launch<ops::RmsNorm>(context,
                                  kernels::RmsNorm<float>{in, view_of(weight), c.norm_eps, out});
  }

  /// x += scale * branch(normed x), through the branch's own norm where the model has one.
  void add_branch(const Projection& last, const Buffer& in, const Vector& post_norm) {
    const View<const float, 1> bias = view_of(last.bias);
    if (post_norm.empty() && c.residual_scale == 1) {
      last.weight(context, in.in(), x.all(), compute, {.bias = bias, .residual = x.in()});
      return;
    }
    last.weight(context, in.in(), branch.all(), compute, {.bias = bias});
    if (!post_norm.empty()) norm(branch.in(), post_norm, branch.all());
    runtime::launch<ops::Add>(context,
                              kernels::Add<float>{x.in(), branch.in(), c.residual_scale, x.all()});
  }

  void project(const Projections& projections, const Buffer& out) {
    int64_t column = 0;
    for (const Projection& p : projections) {
      p.weight(context, normed.in(), out.columns(column, p.weight.rows()), compute,
               {.bias = view_of(p.bias)});
      column += p.weight.rows();
    }
  }

  void norm_heads(const LayerWeights& layer) {
    if (!c.qk_norm) return;
    const int64_t q_cols = c.heads * c.head_dim, k_cols = c.kv_heads * c.head_dim;
    const int64_t q_heads = c.qk_norm_wide ? 1 : c.heads, k_heads = c.qk_norm_wide ? 1 : c.kv_heads;
    const View<float, 4> q = qkv.heads(0, q_heads, q_cols / q_heads);
    const View<float, 4> k = qkv.heads(q_cols, k_heads, k_cols / k_heads);
    norm(head_rows_in(q), layer.q_norm, head_rows(q));
    norm(head_rows_in(k), layer.k_norm, head_rows(k));
  }

  void rotate(bool windowed) {
    const ops::RopeTables& tables = windowed && rope_local.cos ? rope_local : rope;
    const auto cos = view<const float>(tables.cos.span<float>().data(), tokens, c.rope_dim / 2);
    const auto sin = view<const float>(tables.sin.span<float>().data(), tokens, c.rope_dim / 2);
    const View<float, 4> both = qkv.heads(0, c.heads + c.kv_heads, c.head_dim);
    const bool interleaved = c.rope_interleaved && c.rope_dim != c.head_dim;
    runtime::launch<ops::Rope>(
        context, kernels::Rope<float>{as_const(both), cos, sin, {}, interleaved, false, both});
  }

  void attend(int64_t layer, bool windowed) {
    const int64_t k_column = c.heads * c.head_dim, v_column = k_column + c.kv_heads * c.head_dim;
    int64_t first = 0;
    for (const SequenceTokens& s : batch) {
      const int64_t count = int64_t(s.tokens.size());
      const auto heads = [&](const Buffer& of, int64_t column, int64_t n) {
        return kernels::rows_from(of.heads(column, n, c.head_dim)[0], first, count);
      };
      s.cache->write(context, layer, as_const(heads(qkv, k_column, c.kv_heads)),
                     as_const(heads(qkv, v_column, c.kv_heads)));
      const DType held = s.cache->dtype();
      if (held == DType::kBf16 && rounds_queries()) {
        attend_in_bf16(*s.cache, layer, windowed, first, count);
      } else {
        const View<const float, 3> q = as_const(heads(qkv, 0, c.heads));
        const View<float, 3> out = heads(attended, 0, c.heads);
        if (held == DType::kF32)
          attend_to<float, float>(*s.cache, layer, windowed, q, out);
        else if (held == DType::kF16)
          attend_to<float, f16>(*s.cache, layer, windowed, q, out);
        else
          attend_to<float, bf16>(*s.cache, layer, windowed, q, out);
      }
      first += count;
    }
  }

  /// Queries and results of tokens [first, first + count) rounded; the linear layer that follows
  /// rounds its input anyway.
  void attend_in_bf16(const KvCache& cache, int64_t layer, bool windowed, int64_t first,
                      int64_t count) {
    const int64_t cols = attended.cols;
    bf16* const narrow = reinterpret_cast<bf16*>(rounded.data);
    const auto q = view(narrow, count, c.heads, c.head_dim);
    const auto out = view(narrow + count * cols, count, c.heads, c.head_dim);
    Rows<const float> wide_q = rows<const float>(qkv.row(first), count, cols);
    wide_q.lead_strides[0] = qkv.cols;
    runtime::launch<ops::TypeAs>(
        context, kernels::TypeAs<float, bf16>{wide_q, {}, rows(q.data, count, cols)});
    attend_to<bf16, bf16>(cache, layer, windowed, as_const(q), out);
    runtime::launch<ops::TypeAs>(
        context,
        kernels::TypeAs<bf16, float>{
            rows<const bf16>(out.data, count, cols), {}, rows(attended.row(first), count, cols)});
  }

  template <class T, class U>
  void attend_to(const KvCache& cache, int64_t layer, bool windowed, const View<const T, 3>& q,
                 const View<T, 3>& out) {
    const auto keys = static_cast<int32_t>(cache.length() + q.size(0));
    kernels::AttentionPaged<T, U> kernel{};
    kernel.q = q;
    kernel.k_pages = cache.keys<U>(layer);
    kernel.v_pages = cache.values<U>(layer);
    kernel.block_table = cache.block_table();
    kernel.kv_lens = view(&keys, 1);
    kernel.scale = c.attention_scale;
    kernel.causal = true;
    kernel.window_left = windowed ? c.window - 1 : -1;
    kernel.window_right = -1;
    kernel.softcap = c.attention_softcap;
    kernel.out = out;
    runtime::launch<ops::AttentionPaged>(context, kernel);
  }

  void feed_forward(const LayerWeights& layer) {
    const bool gelu = c.activation == GatedActivation::kGeluTanh;
    if (layer.is_gated) {
      layer.gate_up[0].weight.gated(context, normed.in(), hidden.all(), compute, gelu);
      return;
    }
    project(layer.gate_up, wide);
    if (gelu)
      runtime::launch<ops::GeluTanhAndMul>(
          context, ops::GeluTanhAndMul::Kernel<float>{wide.in(), hidden.all()});
    else
      runtime::launch<ops::SiluAndMul>(context,
                                       ops::SiluAndMul::Kernel<float>{wide.in(), hidden.all()});
  }

  void run_layers() {
    for (int64_t l = 0; l < c.layers; ++l) {
      const LayerWeights& layer = w.layers[size_t(l)];
      const bool windowed = c.is_windowed(l);
      enter_branch(layer.attention_norm);
      project(layer.qkv, qkv);
      norm_heads(layer);
      if (c.is_rotated(l)) rotate(windowed);
      attend(l, windowed);
      if (l + 1 == c.layers) {  // what follows mixes no tokens
        if (wanted == LogitRows::kNone) return;
        if (wanted == LogitRows::kLast) keep_last_tokens();
      }
      add_branch(layer.attention_out, attended, layer.attention_post_norm);
      enter_branch(layer.mlp_norm);
      feed_forward(layer);
      add_branch(layer.down, hidden, layer.mlp_post_norm);
    }
  }

  void head(std::vector<float>& logits) {
    norm(x.in(), w.final_norm, normed.all());
    logits.resize(size_t(tokens * c.vocabulary));
    w.head_weight()(context, normed.in(), rows(logits.data(), tokens, c.vocabulary),
                    head_compute());
    if (c.logit_scale != 1)
      for (float& v : logits) v *= c.logit_scale;
    if (c.logit_softcap > 0)
      for (float& v : logits) v = c.logit_softcap * std::tanh(v / c.logit_softcap);
  }
};

kernels::QuantizedCompute prompt_compute(const Machine& machine, bool exact) {
  if (exact) return kernels::QuantizedCompute::kF32;
  return machine.bf16_tile_gflops > machine.int8_dot_gops ? kernels::QuantizedCompute::kBf16
                                                          : kernels::QuantizedCompute::kInt8;
}

DType kv_dtype(const Machine& machine, bool exact) {
  if (exact) return DType::kF32;
  const bool in_bf16 = prompt_compute(machine, exact) == kernels::QuantizedCompute::kBf16 ||
                       machine.prefers_bf16_pairs();
  return in_bf16 ? DType::kBf16 : DType::kF16;
}

void Decoder::forward(runtime::Context& context, std::span<const SequenceTokens> batch,
                      kernels::QuantizedCompute compute, LogitRows rows,
                      std::vector<float>& logits) const {
  const DecoderConfig& c = weights_->config;
  const bool exact = compute == kernels::QuantizedCompute::kF32;
  const DType held = kv_dtype(context.machine(), exact);
  for (const SequenceTokens& s : batch) {
    if (s.tokens.empty())
      throw Error(ErrorKind::kInvalidArgument, "forward: a sequence has no new token");
    for (const int32_t token : s.tokens)
      if (token < 0 || token >= c.vocabulary)
        throw Error(ErrorKind::kInvalidArgument, "forward: token " + std::to_string(token) +
                                                     " is outside the vocabulary of " +
                                                     std::to_string(c.vocabulary));
    const int64_t length = checked_add(s.cache->length(), int64_t(s.tokens.size()));
    if (length > c.context_length)
      throw Error(ErrorKind::kInvalidArgument, "forward: a sequence of " + std::to_string(length) +
                                                   " tokens exceeds the model's context of " +
                                                   std::to_string(c.context_length));
    s.cache->reserve(length, held);
  }
  const bool any = !batch.empty() && rows != LogitRows::kNone;
  if (!any) logits.clear();
  if (batch.empty()) return;
  Pass pass{.w = *weights_, .context = context, .compute = compute, .batch = batch, .wanted = rows};
  pass.prepare();
  pass.embed();
  pass.run_layers();
  if (any) pass.head(logits);
  for (const SequenceTokens& s : batch) s.cache->advance(int64_t(s.tokens.size()));
}

void Decoder::prefill(runtime::Context& context, KvCache& cache, std::span<const int32_t> tokens,
                      kernels::QuantizedCompute compute, int64_t chunk, std::vector<float>& logits,
                      const std::function<void(double)>& progress) const {
  if (chunk < 1)
    throw Error(ErrorKind::kInvalidArgument,
                "prefill: a chunk of " + std::to_string(chunk) + " tokens");
  for (size_t i = 0; i < tokens.size(); i += size_t(chunk)) {
    const size_t size = std::min(size_t(chunk), tokens.size() - i);
    if (progress) progress(double(i) / double(tokens.size()));
    const SequenceTokens part{&cache, tokens.subspan(i, size)};
    const bool is_last = i + size == tokens.size();
    forward(context, {&part, 1}, compute, is_last ? LogitRows::kLast : LogitRows::kNone, logits);
  }
  if (progress) progress(1);
}

}  // namespace tw::models
