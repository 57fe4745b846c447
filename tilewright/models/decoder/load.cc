// From a GGUF file to packed weights.
#include <cstring>
#include <unordered_set>

#include "tilewright/core/block_formats.h"
#include "tilewright/models/decoder/weights.h"

namespace tw::models {
namespace {

class Loader {
 public:
  Loader(const GgufFile& file, const DecoderConfig& config, runtime::ThreadPool& pool)
      : file_(file), config_(config), loading_{file, pool} {
    if (file.find_tensor("rope_freqs.weight")) used("rope_freqs.weight");  // by the configuration
  }

  LayerWeights layer(int64_t index) {
    const DecoderConfig& c = config_;
    const std::string prefix = "blk." + std::to_string(index) + ".";
    LayerWeights out;
    if (c.pre_norms) {
      out.attention_norm = vector(prefix + "attn_norm.weight", c.hidden);
      out.mlp_norm = vector(prefix + "ffn_norm.weight", c.hidden);
    }
    if (c.post_norms) {
      out.attention_post_norm = vector(prefix + "post_attention_norm.weight", c.hidden);
      out.mlp_post_norm = vector(prefix + "post_ffw_norm.weight", c.hidden);
    }
    if (c.qk_norm) {
      const int64_t q_heads = c.qk_norm_wide ? c.heads : 1,
                    k_heads = c.qk_norm_wide ? c.kv_heads : 1;
      out.q_norm = vector(prefix + "attn_q_norm.weight", q_heads * c.head_dim);
      out.k_norm = vector(prefix + "attn_k_norm.weight", k_heads * c.head_dim);
    }
    load_qkv(prefix, out);
    out.attention_out = projection(prefix + "attn_output", c.hidden, c.heads * c.head_dim);
    load_gate_up(prefix, out);
    out.down = projection(prefix + "ffn_down", c.hidden, c.intermediate);
    return out;
  }

  void load_qkv(const std::string& prefix, LayerWeights& out) {
    const DecoderConfig& c = config_;
    if (!c.rope_interleaved && file_.find_tensor(prefix + "attn_qkv.weight")) {
      const int64_t rows = (c.heads + 2 * c.kv_heads) * c.head_dim;
      out.qkv = projections({{prefix + "attn_qkv", rows}}, c.hidden);
      return;
    }
    // Rotary pairs are undone where the whole head turns; then halves are contiguous.
    const int64_t head = c.rope_interleaved && c.rope_dim == c.head_dim ? c.head_dim : 0;
    out.qkv = projections({{prefix + "attn_q", c.heads * c.head_dim, head},
                           {prefix + "attn_k", c.kv_heads * c.head_dim, head},
                           {prefix + "attn_v", c.kv_heads * c.head_dim}},
                          c.hidden);
  }

  Vector vector(const std::string& name, int64_t size) {
    const GgufTensor tensor = used(name);
    if (tensor.elements != size || is_block(tensor.dtype))
      throw file_.tensor_error(name, "it must hold " + std::to_string(size) + " floats");
    Vector out(static_cast<size_t>(size));
    dequantize(tensor.dtype, tensor.data, out.data(), size);
    return out;
  }

  /// Throws kUnsupported when the file has tensors that nothing asked for: the model computes
  /// something that this one does not.
  void check_all_used() const {
    for (const GgufTensor& tensor : file_.tensors())
      if (!used_.contains(tensor.header_offset))
        throw Error(ErrorKind::kUnsupported,
                    file_
                        .tensor_error(tensor.name, "it has no place in the architecture '" +
                                                       config_.architecture + "'")
                        .what());
  }

  LinearWeight matrix(const std::string& name, int64_t rows, int64_t cols) {
    const MatrixSource source{checked(name, rows, cols)};
    return LinearWeight::load(loading_, {&source, 1});
  }

 private:
  GgufTensor used(const std::string& name) {
    const GgufTensor tensor = file_.require_tensor(name);
    used_.insert(tensor.header_offset);
    return tensor;
  }

  GgufTensor checked(const std::string& name, int64_t rows, int64_t cols) {
    const GgufTensor tensor = used(name);
    if (tensor.rank != 2 || tensor.shape()[0] != rows || tensor.shape()[1] != cols)
      throw file_.tensor_error(
          name, "its shape must be [" + std::to_string(rows) + ", " + std::to_string(cols) + "]");
    return tensor;
  }

  /// One linear layer of the file: NAME.weight [rows, cols] and perhaps NAME.bias [rows].
  struct Part {
    std::string name;
    int64_t rows;
    int64_t interleaved_head = 0;
  };

  Projection projection(const std::string& name, int64_t rows, int64_t cols) {
    return std::move(projections({{name, rows}}, cols)[0]);
  }

  Projections projections(std::initializer_list<Part> parts, int64_t cols) {
    Projections out;
    std::vector<MatrixSource> stack;
    Vector bias;
    const auto flush = [&] {
      out.push_back({LinearWeight::load(loading_, stack), std::move(bias)});
      stack.clear();
      bias.clear();
    };
    for (const Part& part : parts) {
      const MatrixSource source{checked(part.name + ".weight", part.rows, cols),
                                part.interleaved_head};
      if (!stack.empty() && stack[0].tensor.dtype != source.tensor.dtype) flush();
      add_bias(part, source, stack, bias);
      stack.push_back(source);
    }
    flush();
    return out;
  }

  /// Appends the part's bias to that of the layers before it in the stack; zeros where only one of
  /// them has any.
  void add_bias(const Part& part, const MatrixSource& source,
                const std::vector<MatrixSource>& before, Vector& bias) {
    const std::string name = part.name + ".bias";
    const bool exists = file_.find_tensor(name).has_value();
    if (!exists && bias.empty()) return;
    int64_t rows = 0;
    for (const MatrixSource& s : before) rows += s.tensor.shape()[0];
    bias.resize(size_t(rows + part.rows));
    if (!exists) return;
    const Vector stored = vector(name, part.rows);
    for (int64_t r = 0; r < part.rows; ++r)
      bias[size_t(rows + r)] = stored[size_t(source.stored_row(r))];
  }

  void load_gate_up(const std::string& prefix, LayerWeights& out) {
    const DecoderConfig& c = config_;
    if (!file_.find_tensor(prefix + "ffn_gate.weight")) {  // both are in one, the gate first
      out.gate_up = projections({{prefix + "ffn_up", 2 * c.intermediate}}, c.hidden);
      return;
    }
    const GgufTensor gate = checked(prefix + "ffn_gate.weight", c.intermediate, c.hidden);
    const GgufTensor up = checked(prefix + "ffn_up.weight", c.intermediate, c.hidden);
    const bool has_bias =
        file_.find_tensor(prefix + "ffn_gate.bias") || file_.find_tensor(prefix + "ffn_up.bias");
    out.is_gated = !has_bias && LinearWeight::can_gate(gate, up);
    if (out.is_gated)
      out.gate_up.push_back({LinearWeight::load_gated(loading_, gate, up), {}});
    else
      out.gate_up = projections(
          {{prefix + "ffn_gate", c.intermediate}, {prefix + "ffn_up", c.intermediate}}, c.hidden);
  }

  const GgufFile& file_;
  const DecoderConfig& config_;
  WeightLoading loading_;
  std::unordered_set<int64_t> used_;  // header_offset of the tensors that have a place
};

ops::RopeParameters rope_parameters(const DecoderConfig& c, bool local) {
  ops::RopeParameters p;
  p.dim = c.rope_dim;
  p.base = double(local ? c.rope_local_base : c.rope_base);
  if (local) return p;
  if (c.rope_scaling == RopeScaling::kLinear) p.scaling = ops::RopeScalingKind::kLinear;
  if (c.rope_scaling == RopeScaling::kYarn) p.scaling = ops::RopeScalingKind::kYarn;
  p.factor = double(c.rope_factor);
  p.original_context = c.rope_original_context;
  p.beta_fast = double(c.rope_beta_fast);
  p.beta_slow = double(c.rope_beta_slow);
  p.frequency_divisors = c.rope_frequency_factors;
  return p;
}

}  // namespace

Decoder::Decoder(std::unique_ptr<Weights> weights) : weights_(std::move(weights)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

Decoder Decoder::load(const GgufFile& file, runtime::ThreadPool& pool,
                      const std::function<void(double)>& progress) {
  auto weights = std::make_unique<Weights>();
  Weights& w = *weights;
  w.config = DecoderConfig::from_gguf(file);
  const DecoderConfig& c = w.config;
  Loader loader(file, c, pool);
  const auto report = [&](double done) {
    if (progress) progress(done);
  };

  w.embedding = loader.matrix("token_embd.weight", c.vocabulary, c.hidden);
  w.is_tied = !file.find_tensor("output.weight");
  if (!w.is_tied) w.head = loader.matrix("output.weight", c.vocabulary, c.hidden);
  w.final_norm = loader.vector("output_norm.weight", c.hidden);
  for (int64_t l = 0; l < c.layers; ++l) {
    report(double(l + 1) / double(c.layers + 1));
    w.layers.push_back(loader.layer(l));
  }
  loader.check_all_used();
  const ops::RopeParameters rope = rope_parameters(c, false);
  const double attention_factor =
      ops::rope_attention_factor(rope) * double(c.rope_attention_factor);
  w.rope_frequencies = ops::rope_frequencies(rope);
  w.rope_attention_factor = attention_factor;
  if (c.rope_local_base > 0)
    w.rope_local_frequencies = ops::rope_frequencies(rope_parameters(c, true));
  report(1);
  return Decoder(std::move(weights));
}

const DecoderConfig& Decoder::config() const {
  return weights_->config;
}

KvCache Decoder::make_cache() const {
  const DecoderConfig& c = weights_->config;
  return KvCache(c.layers, c.kv_heads, c.head_dim);
}

}  // namespace tw::models
