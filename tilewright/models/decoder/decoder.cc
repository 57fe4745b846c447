#include "tilewright/models/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tilewright/models/decoder/weights.h"
#include "tilewright/ops/add.h"
#include "tilewright/ops/attention.h"
#include "tilewright/ops/gelu_tanh_and_mul.h"
#include "tilewright/ops/rms_norm.h"
#include "tilewright/ops/rope.h"
#include "tilewright/ops/silu_and_mul.h"
#include "tilewright/runtime/launch.h"

namespace tw::models {
namespace {

/// Activations [tokens, cols], kept between passes: steady state allocates nothing.
class Buffer {
 public:
  void resize(int64_t tokens, int64_t cols) {
    tokens_ = tokens;
    cols_ = cols;
    if (tokens * cols > capacity_) {
      capacity_ = tokens * cols;
      data_ = Tensor::empty({capacity_}, DType::kF32);
    }
  }
  float* row(int64_t token) const { return data() + token * cols_; }
  Rows<float> all() const { return rows(data(), tokens_, cols_); }
  Rows<const float> in() const { return rows<const float>(data(), tokens_, cols_); }
  /// `heads` heads of `dim` from column `column` on, as [1, tokens, heads, dim].
  View<float, 4> heads(int64_t column, int64_t count, int64_t dim) const {
    View<float, 4> out = view(data() + column, int64_t{1}, tokens_, count, dim);
    out.strides[1] = cols_;
    out.strides[0] = tokens_ * cols_;
    return out;
  }
  /// Columns [column, column + count) of every token.
  Rows<float> columns(int64_t column, int64_t count) const {
    Rows<float> out = rows(data() + column, tokens_, count);
    out.lead_strides[0] = cols_;
    return out;
  }

 private:
  float* data() const { return static_cast<float*>(data_.ref().data); }
  Tensor data_;
  int64_t tokens_ = 0, cols_ = 0, capacity_ = 0;
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

View<const float, 1> view_of(const Vector& v) {
  return view<const float>(v.data(), v.size());
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
  bool exact;
  std::span<const SequenceTokens> batch;
  int64_t tokens = 0;
  ops::RopeTables rope{}, rope_local{};
  Buffer x{}, normed{}, qkv{}, attended{}, hidden{}, wide{}, branch{};

  void prepare() {
    std::vector<int64_t> positions;
    for (const SequenceTokens& s : batch)
      for (size_t i = 0; i < s.tokens.size(); ++i)
        positions.push_back(s.cache->length() + int64_t(i));
    tokens = int64_t(positions.size());
    rope = ops::make_rope_tables(w.rope_frequencies, positions, w.rope_attention_factor);
    if (!w.rope_local_frequencies.empty())
      rope_local = ops::make_rope_tables(w.rope_local_frequencies, positions);
    x.resize(tokens, c.hidden);
    normed.resize(tokens, c.hidden);
    qkv.resize(tokens, (c.heads + 2 * c.kv_heads) * c.head_dim);
    attended.resize(tokens, c.heads * c.head_dim);
    hidden.resize(tokens, c.intermediate);
    if (c.post_norms) branch.resize(tokens, c.hidden);
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

  void norm(const Rows<const float>& in, const Vector& weight, const Rows<float>& out) {
    runtime::launch<ops::RmsNorm>(context,
                                  kernels::RmsNorm<float>{in, view_of(weight), c.norm_eps, out});
  }

  /// x += branch(normed x), through the branch's own norm where the model has one.
  void add_branch(const LinearWeight& weight, const Buffer& in, const Vector& post_norm) {
    if (post_norm.empty()) {
      weight(context, in.in(), x.all(), exact, {.residual = x.in()});
      return;
    }
    weight(context, in.in(), branch.all(), exact);
    norm(branch.in(), post_norm, branch.all());
    runtime::launch<ops::Add>(context, kernels::Add<float>{x.in(), branch.in(), 1, x.all()});
  }

  void project_qkv(const LayerWeights& layer) {
    int64_t column = 0;
    for (size_t i = 0; i < layer.qkv.size(); ++i) {
      LinearWeight::Extras extras;
      if (!layer.qkv_bias.empty()) extras.bias = view_of(layer.qkv_bias[i]);
      layer.qkv[i](context, normed.in(), qkv.columns(column, layer.qkv[i].rows()), exact, extras);
      column += layer.qkv[i].rows();
    }
  }

  void rotate(const LayerWeights& layer, bool windowed) {
    const View<float, 4> q = qkv.heads(0, c.heads, c.head_dim);
    const View<float, 4> k = qkv.heads(c.heads * c.head_dim, c.kv_heads, c.head_dim);
    if (c.qk_norm) {
      norm(head_rows_in(q), layer.q_norm, head_rows(q));
      norm(head_rows_in(k), layer.k_norm, head_rows(k));
    }
    const ops::RopeTables& tables = windowed && rope_local.cos ? rope_local : rope;
    const auto cos = view<const float>(tables.cos.span<float>().data(), tokens, c.rope_dim / 2);
    const auto sin = view<const float>(tables.sin.span<float>().data(), tokens, c.rope_dim / 2);
    const View<float, 4> both = qkv.heads(0, c.heads + c.kv_heads, c.head_dim);
    const bool interleaved = c.rope_interleaved && c.rope_dim != c.head_dim;
    runtime::launch<ops::Rope>(
        context, kernels::Rope<float>{as_const(both), cos, sin, {}, interleaved, both});
  }

  void attend(int64_t layer, bool windowed) {
    const int64_t width = c.kv_heads * c.head_dim, k_column = c.heads * c.head_dim;
    int64_t first = 0;
    for (const SequenceTokens& s : batch) {
      const int64_t count = int64_t(s.tokens.size()), held = s.cache->length();
      View<float, 4> keys = s.cache->keys(layer), values = s.cache->values(layer);
      for (int64_t t = 0; t < count; ++t) {
        const float* from = qkv.row(first + t) + k_column;
        std::memcpy(keys.data + (held + t) * width, from, size_t(width) * sizeof(float));
        std::memcpy(values.data + (held + t) * width, from + width, size_t(width) * sizeof(float));
      }
      keys.sizes[1] = values.sizes[1] = held + count;
      View<float, 4> q = qkv.heads(0, c.heads, c.head_dim);
      View<float, 4> out = attended.heads(0, c.heads, c.head_dim);
      q.data = qkv.row(first);
      out.data = attended.row(first);
      q.sizes[1] = out.sizes[1] = count;
      kernels::Attention<float, float> kernel{};
      kernel.q = as_const(q);
      kernel.k = as_const(keys);
      kernel.v = as_const(values);
      kernel.scale = c.attention_scale;
      kernel.causal = true;
      kernel.window_left = windowed ? c.window - 1 : -1;
      kernel.window_right = -1;
      kernel.softcap = c.attention_softcap;
      kernel.out = out;
      runtime::launch<ops::Attention>(context, kernel);
      first += count;
    }
  }

  void feed_forward(const LayerWeights& layer) {
    const bool gelu = c.activation == GatedActivation::kGeluTanh;
    if (layer.is_gated) {
      layer.gate_up.gated(context, normed.in(), hidden.all(), exact, gelu);
      return;
    }
    wide.resize(tokens, 2 * c.intermediate);
    layer.gate_up(context, normed.in(), wide.all(), exact);
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
      norm(x.in(), layer.attention_norm, normed.all());
      project_qkv(layer);
      rotate(layer, windowed);
      attend(l, windowed);
      add_branch(layer.attention_out, attended, layer.attention_post_norm);
      norm(x.in(), layer.mlp_norm, normed.all());
      feed_forward(layer);
      add_branch(layer.down, hidden, layer.mlp_post_norm);
    }
  }

  void head(LogitRows which, std::vector<float>& logits) {
    if (which == LogitRows::kLast) {  // the last rows move to the front
      int64_t row = 0, last = -1;
      for (const SequenceTokens& s : batch) {
        last += int64_t(s.tokens.size());
        std::memmove(x.row(row++), x.row(last), size_t(c.hidden) * sizeof(float));
      }
      x.resize(row, c.hidden);
      normed.resize(row, c.hidden);
      tokens = row;
    }
    norm(x.in(), w.final_norm, normed.all());
    logits.resize(size_t(tokens * c.vocabulary));
    w.head_weight()(context, normed.in(), rows(logits.data(), tokens, c.vocabulary), exact);
    if (c.logit_softcap > 0)
      for (float& v : logits) v = c.logit_softcap * std::tanh(v / c.logit_softcap);
  }
};

void Decoder::forward(runtime::Context& context, std::span<const SequenceTokens> batch, bool exact,
                      LogitRows rows, std::vector<float>& logits) const {
  const DecoderConfig& c = weights_->config;
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
    s.cache->reserve(length);
  }
  logits.clear();
  if (batch.empty()) return;
  Pass pass{.w = *weights_, .context = context, .exact = exact, .batch = batch};
  pass.prepare();
  pass.embed();
  pass.run_layers();
  pass.head(rows, logits);
  for (const SequenceTokens& s : batch) s.cache->advance(int64_t(s.tokens.size()));
}

void Decoder::prefill(runtime::Context& context, KvCache& cache, std::span<const int32_t> tokens,
                      bool exact, int64_t chunk, std::vector<float>& logits) const {
  if (chunk < 1)
    throw Error(ErrorKind::kInvalidArgument,
                "prefill: a chunk of " + std::to_string(chunk) + " tokens");
  for (size_t i = 0; i < tokens.size(); i += size_t(chunk)) {
    const SequenceTokens part{&cache,
                              tokens.subspan(i, std::min(size_t(chunk), tokens.size() - i))};
    forward(context, {&part, 1}, exact, LogitRows::kLast, logits);
  }
}

}  // namespace tw::models
