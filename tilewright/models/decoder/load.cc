// From a GGUF file to packed weights.
#include <cstring>

#include "tilewright/core/block_formats.h"
#include "tilewright/models/decoder/weights.h"

namespace tw::models {
namespace {

class Loader {
 public:
  Loader(const GgufFile& file, const DecoderConfig& config, runtime::ThreadPool& pool)
      : file_(file), config_(config), pool_(pool) {}

  LayerWeights layer(int64_t index) const {
    const DecoderConfig& c = config_;
    const std::string prefix = "blk." + std::to_string(index) + ".";
    LayerWeights out;
    out.attention_norm = vector(prefix + "attn_norm.weight", c.hidden);
    out.mlp_norm = vector(prefix + "ffn_norm.weight", c.hidden);
    if (c.post_norms) {
      out.attention_post_norm = vector(prefix + "post_attention_norm.weight", c.hidden);
      out.mlp_post_norm = vector(prefix + "post_ffw_norm.weight", c.hidden);
    }
    if (c.qk_norm) {
      out.q_norm = vector(prefix + "attn_q_norm.weight", c.head_dim);
      out.k_norm = vector(prefix + "attn_k_norm.weight", c.head_dim);
    }
    load_qkv(prefix, out);
    out.attention_out = matrix(prefix + "attn_output.weight", c.hidden, c.heads * c.head_dim);
    load_mlp(prefix, out);
    return out;
  }

  Vector vector(const std::string& name, int64_t size) const {
    const GgufTensor& tensor = file_.require_tensor(name);
    if (tensor.elements != size || is_block(tensor.dtype))
      throw file_.tensor_error(name, "it must hold " + std::to_string(size) + " floats");
    Vector out(static_cast<size_t>(size));
    dequantize(tensor.dtype, tensor.data, out.data(), size);
    return out;
  }

  LinearWeight matrix(const std::string& name, int64_t rows, int64_t cols) const {
    const MatrixSource source{&checked(name, rows, cols)};
    return LinearWeight::load(file_, {&source, 1}, pool_);
  }

 private:
  const GgufTensor& checked(const std::string& name, int64_t rows, int64_t cols) const {
    const GgufTensor& tensor = file_.require_tensor(name);
    if (tensor.rank != 2 || tensor.shape()[0] != rows || tensor.shape()[1] != cols)
      throw file_.tensor_error(
          name, "its shape must be [" + std::to_string(rows) + ", " + std::to_string(cols) + "]");
    return tensor;
  }

  /// Stacks neighbours of one dtype, so that most models multiply once.
  void load_qkv(const std::string& prefix, LayerWeights& out) const {
    const DecoderConfig& c = config_;
    // Rotary pairs are undone where the whole head turns; then halves are contiguous.
    const int64_t head = c.rope_interleaved && c.rope_dim == c.head_dim ? c.head_dim : 0;
    struct Part {
      const char* name;
      int64_t heads;
      int64_t interleaved_head;
    };
    const Part parts[] = {
        {"attn_q", c.heads, head}, {"attn_k", c.kv_heads, head}, {"attn_v", c.kv_heads, 0}};
    std::vector<MatrixSource> stack;
    Vector bias;
    const auto flush = [&] {
      out.qkv.push_back(LinearWeight::load(file_, stack, pool_));
      if (c.qkv_bias) out.qkv_bias.push_back(std::move(bias));
      stack.clear();
      bias.clear();
    };
    for (const Part& part : parts) {
      const GgufTensor& tensor =
          checked(prefix + part.name + ".weight", part.heads * c.head_dim, c.hidden);
      if (!stack.empty() && stack[0].tensor->dtype != tensor.dtype) flush();
      stack.push_back({&tensor, part.interleaved_head});
      if (!c.qkv_bias) continue;
      const Vector own = vector(prefix + part.name + ".bias", part.heads * c.head_dim);
      bias.insert(bias.end(), own.begin(), own.end());
    }
    flush();
  }

  void load_mlp(const std::string& prefix, LayerWeights& out) const {
    const DecoderConfig& c = config_;
    const GgufTensor& gate = checked(prefix + "ffn_gate.weight", c.intermediate, c.hidden);
    const GgufTensor& up = checked(prefix + "ffn_up.weight", c.intermediate, c.hidden);
    out.is_gated = LinearWeight::can_gate(gate, up);
    if (out.is_gated) {
      out.gate_up = LinearWeight::load_gated(file_, gate, up, pool_);
    } else {
      const MatrixSource sources[] = {{&gate}, {&up}};
      out.gate_up = LinearWeight::load(file_, sources, pool_);
    }
    out.down = matrix(prefix + "ffn_down.weight", c.hidden, c.intermediate);
  }

  const GgufFile& file_;
  const DecoderConfig& config_;
  runtime::ThreadPool& pool_;
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
  const Loader loader(file, c, pool);
  const auto report = [&](double done) {
    if (progress) progress(done);
  };

  w.embedding = loader.matrix("token_embd.weight", c.vocabulary, c.hidden);
  w.is_tied = file.find_tensor("output.weight") == nullptr;
  if (!w.is_tied) w.head = loader.matrix("output.weight", c.vocabulary, c.hidden);
  w.final_norm = loader.vector("output_norm.weight", c.hidden);
  for (int64_t l = 0; l < c.layers; ++l) {
    report(double(l + 1) / double(c.layers + 1));
    w.layers.push_back(loader.layer(l));
  }
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
