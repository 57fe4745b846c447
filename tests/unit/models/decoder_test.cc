// A small random decoder: what must not change a bit of its logits, and what it refuses.
#include "tilewright/models/decoder/decoder.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/models/gguf_builder.h"
#include "tilewright/core/block_formats.h"
#include "tilewright/models/generator.h"

namespace tw::models {
namespace {

using kernels::QuantizedCompute;

constexpr int64_t kLayers = 2, kHidden = 64, kWide = 96, kHeads = 4, kKvHeads = 2, kDim = 16;
constexpr int64_t kVocabulary = 131, kContext = 200, kWindow = 9;
constexpr uint32_t kF32 = 0, kQ4_0 = 2, kQ8_0 = 8;  // ggml's numbers

struct TensorSpec {
  std::string name;
  std::vector<uint64_t> dims;  // [0] runs fastest
  uint32_t type;
};

std::vector<TensorSpec> tensor_specs(uint32_t type) {
  const auto u = [](int64_t x) { return uint64_t(x); };
  std::vector<TensorSpec> out{{"token_embd.weight", {u(kHidden), u(kVocabulary)}, type},
                              {"output_norm.weight", {u(kHidden)}, kF32}};
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string p = "blk." + std::to_string(l) + ".";
    out.push_back({p + "attn_norm.weight", {u(kHidden)}, kF32});
    out.push_back({p + "ffn_norm.weight", {u(kHidden)}, kF32});
    out.push_back({p + "attn_q.weight", {u(kHidden), u(kHeads * kDim)}, type});
    out.push_back({p + "attn_k.weight", {u(kHidden), u(kKvHeads * kDim)}, type});
    out.push_back({p + "attn_v.weight", {u(kHidden), u(kKvHeads * kDim)}, kQ8_0});
    out.push_back({p + "attn_output.weight", {u(kHeads * kDim), u(kHidden)}, type});
    out.push_back({p + "ffn_gate.weight", {u(kHidden), u(kWide)}, type});
    out.push_back({p + "ffn_up.weight", {u(kHidden), u(kWide)}, type});
    out.push_back({p + "ffn_down.weight", {u(kWide), u(kHidden)}, type});
  }
  return out;
}

DType dtype_of_ggml(uint32_t type) {
  return type == kF32 ? DType::kF32 : type == kQ4_0 ? DType::kQ4_0 : DType::kQ8_0;
}

/// A Mistral-like model, its matrices of ggml's `type`.
std::vector<std::byte> model_bytes(uint32_t type) {
  const std::vector<TensorSpec> specs = tensor_specs(type);
  GgufBuilder file(specs.size(), 9);
  file.string_entry("general.architecture", "llama");
  const auto count = [&](const char* key, int64_t value) {
    file.entry(std::string("llama.") + key, GgufType::kU32, uint32_t(value));
  };
  count("block_count", kLayers);
  count("embedding_length", kHidden);
  count("feed_forward_length", kWide);
  count("attention.head_count", kHeads);
  count("attention.head_count_kv", kKvHeads);
  count("context_length", kContext);
  count("attention.sliding_window", kWindow);
  file.entry("llama.attention.layer_norm_rms_epsilon", GgufType::kF32, 1e-5f);

  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.2f);
  std::vector<std::byte> data;
  std::vector<float> values;
  for (const TensorSpec& spec : specs) {
    file.tensor(spec.name, spec.dims, spec.type, data.size());
    values.assign(spec.dims.size() == 1 ? spec.dims[0] : spec.dims[0] * spec.dims[1], 0);
    for (float& v : values) v = normal(random) + (spec.dims.size() == 1 ? 1.0f : 0.0f);
    const DTypeInfo& format = info(dtype_of_ggml(spec.type));
    const size_t bytes = values.size() / size_t(format.block_elements) * size_t(format.block_bytes);
    const size_t at = data.size();
    data.resize((at + bytes + 31) / 32 * 32);
    if (spec.type == kF32)
      std::memcpy(data.data() + at, values.data(), bytes);
    else
      quantize(dtype_of_ggml(spec.type), values.data(), data.data() + at, int64_t(values.size()));
  }
  file.pad();
  std::vector<std::byte> out = file.bytes();
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

std::vector<int32_t> random_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> out(count);
  for (int32_t& token : out) token = int32_t(random() % kVocabulary);
  return out;
}

std::vector<float> row(const std::vector<float>& logits, size_t index) {
  const auto first = logits.begin() + int64_t(index) * kVocabulary;
  return {first, first + kVocabulary};
}

struct Kind {
  uint32_t type;
  QuantizedCompute compute;
};

class DecoderBits : public ::testing::TestWithParam<Kind> {
 protected:
  Decoder load(runtime::ThreadPool& pool) const {
    return Decoder::load(GgufFile::parse(bytes_, "tiny.gguf"), pool);
  }
  /// Logits of every token, run in passes of `chunk` tokens.
  std::vector<float> logits(int threads, size_t chunk, const std::vector<int32_t>& tokens) const {
    runtime::ThreadPool pool(threads);
    runtime::Context context(pool);
    const Decoder decoder = load(pool);
    KvCache cache = decoder.make_cache();
    std::vector<float> out, part;
    for (size_t i = 0; i < tokens.size(); i += chunk) {
      const SequenceTokens step{&cache,
                                std::span(tokens).subspan(i, std::min(chunk, tokens.size() - i))};
      decoder.forward(context, {&step, 1}, GetParam().compute, LogitRows::kAll, part);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

  std::vector<std::byte> bytes_ = model_bytes(GetParam().type);
};

TEST_P(DecoderBits, DoNotDependOnThreadsOrChunks) {
  const std::vector<int32_t> tokens = random_tokens(83, 1);
  const std::vector<float> base = logits(1, tokens.size(), tokens);
  ASSERT_EQ(base.size(), tokens.size() * kVocabulary);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(logits(threads, tokens.size(), tokens), base);
  for (const size_t chunk : {1u, 2u, 7u, 64u})
    EXPECT_EQ(logits(2, chunk, tokens), base) << "chunks of " << chunk;
}

TEST_P(DecoderBits, DoNotDependOnTheBatch) {
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = load(pool);
  const auto compute = GetParam().compute;
  // Sequences that have already run 0, 3, 50 and 0 tokens go on with 37, 1, 5 and 1; then each
  // decodes one more.
  const size_t held[] = {0, 3, 50, 0}, added[] = {37, 1, 5, 1};
  std::vector<KvCache> together, alone;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<float> batched, single, ignored;
  for (uint32_t s = 0; s < 4; ++s) {
    tokens.push_back(random_tokens(held[s] + added[s] + 1, s));
    for (auto* caches : {&together, &alone}) {
      caches->push_back(decoder.make_cache());
      decoder.prefill(context, caches->back(), std::span(tokens[s]).first(held[s]), compute, 16,
                      ignored);
    }
  }
  for (const bool decode : {false, true}) {
    std::vector<SequenceTokens> batch;
    for (size_t s = 0; s < 4; ++s)
      batch.push_back({&together[s], decode ? std::span(tokens[s]).last(1)
                                            : std::span(tokens[s]).subspan(held[s], added[s])});
    decoder.forward(context, batch, compute, LogitRows::kAll, batched);
    size_t at = 0;
    for (size_t s = 0; s < 4; ++s) {
      const SequenceTokens own{&alone[s], batch[s].tokens};
      decoder.forward(context, {&own, 1}, compute, LogitRows::kAll, single);
      for (size_t i = 0; i < own.tokens.size(); ++i)
        EXPECT_EQ(row(batched, at++), row(single, i)) << "sequence " << s << ", token " << i;
    }
  }
}

TEST_P(DecoderBits, DoNotDependOnWhichLogitsAreWanted) {
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = load(pool);
  const auto compute = GetParam().compute;
  const std::vector<int32_t> first = random_tokens(20, 3), second = random_tokens(5, 4);
  std::vector<float> all, last, none{1.0f};
  KvCache a = decoder.make_cache(), b = decoder.make_cache();
  const SequenceTokens whole[] = {{&a, first}, {&b, second}};
  decoder.forward(context, whole, compute, LogitRows::kAll, all);

  KvCache c = decoder.make_cache(), d = decoder.make_cache();
  const SequenceTokens heads[] = {{&c, std::span(first).first(11)},
                                  {&d, std::span(second).first(2)}};
  const SequenceTokens tails[] = {{&c, std::span(first).subspan(11)},
                                  {&d, std::span(second).subspan(2)}};
  decoder.forward(context, heads, compute, LogitRows::kNone, none);
  EXPECT_TRUE(none.empty());
  decoder.forward(context, tails, compute, LogitRows::kLast, last);
  ASSERT_EQ(last.size(), size_t(2 * kVocabulary));
  EXPECT_EQ(row(last, 0), row(all, 19));
  EXPECT_EQ(row(last, 1), row(all, 24));
}

TEST_P(DecoderBits, DoNotDependOnAnyScheduleOfAnyBatch) {
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = load(pool);
  const auto compute = GetParam().compute;
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  for (int round = 0; round < 8; ++round) {
    const size_t count = 1 + below(5);
    std::vector<std::vector<int32_t>> tokens;
    std::vector<std::vector<float>> alone(count);
    std::vector<KvCache> caches;
    for (size_t s = 0; s < count; ++s) {
      tokens.push_back(random_tokens(1 + below(60), uint32_t(random())));
      KvCache cache = decoder.make_cache();
      const SequenceTokens whole{&cache, tokens[s]};
      decoder.forward(context, {&whole, 1}, compute, LogitRows::kAll, alone[s]);
      caches.push_back(decoder.make_cache());
    }
    for (int step = 0; step < 12; ++step) {
      std::vector<SequenceTokens> batch;
      std::vector<size_t> members, starts;
      for (size_t s = 0; s < count; ++s) {
        // What was computed may be given up, to be computed again in other company.
        if (below(3) == 0) caches[s].truncate(int64_t(below(size_t(caches[s].length()) + 1)));
        const size_t held = size_t(caches[s].length()), left = tokens[s].size() - held;
        if (left == 0 || below(4) == 0) continue;
        members.push_back(s);
        starts.push_back(held);
        batch.push_back({&caches[s], std::span(tokens[s]).subspan(held, 1 + below(left))});
      }
      if (batch.empty()) continue;
      std::vector<float> got;
      decoder.forward(context, batch, compute, LogitRows::kAll, got);
      size_t at = 0;
      for (size_t b = 0; b < batch.size(); ++b)
        for (size_t i = 0; i < batch[b].tokens.size(); ++i)
          ASSERT_EQ(row(got, at++), row(alone[members[b]], starts[b] + i))
              << "round " << round << ", step " << step << ", sequence " << members[b];
    }
  }
}

TEST_P(DecoderBits, AreCloseToThoseOfFloat32) {
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = load(pool);
  const std::vector<int32_t> tokens = random_tokens(150, 6);
  std::vector<float> want, got;
  KvCache a = decoder.make_cache(), b = decoder.make_cache();
  const SequenceTokens exact{&a, tokens}, rounded{&b, tokens};
  decoder.forward(context, {&exact, 1}, QuantizedCompute::kF32, LogitRows::kAll, want);
  decoder.forward(context, {&rounded, 1}, GetParam().compute, LogitRows::kAll, got);
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double(got[i]) - double(want[i]), 2);
    size += std::pow(double(want[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / size), GetParam().compute == QuantizedCompute::kF32    ? 0.0
                                     : GetParam().compute == QuantizedCompute::kBf16 ? 0.03
                                                                                     : 0.06);
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& param) {
  const std::string type = param.param.type == kF32 ? "F32" : "Q4";
  const char* const computes[] = {"Int8", "Bf16", "F32"};
  return type + computes[int(param.param.compute)];
}
INSTANTIATE_TEST_SUITE_P(, DecoderBits,
                         ::testing::Values(Kind{kF32, QuantizedCompute::kF32},
                                           Kind{kQ4_0, QuantizedCompute::kF32},
                                           Kind{kQ4_0, QuantizedCompute::kBf16},
                                           Kind{kQ4_0, QuantizedCompute::kInt8}),
                         kind_name);

TEST(Generator, ReusesACommonPrefixWithoutChangingTheText) {
  const std::vector<std::byte> bytes = model_bytes(kQ4_0);
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = Decoder::load(GgufFile::parse(bytes, "tiny.gguf"), pool);
  const std::vector<int32_t> prompt = random_tokens(40, 5);
  std::vector<int32_t> other = prompt;
  other[30] = (other[30] + 1) % kVocabulary;
  GenerateOptions options;
  options.max_tokens = 12;
  options.prefill_chunk = 7;

  Generator warm(decoder, context), cold(decoder, context);
  warm.run(prompt, options);
  const GenerateResult reused = warm.run(other, options);
  const GenerateResult fresh = cold.run(other, options);
  EXPECT_EQ(reused.reused_tokens, 30);
  EXPECT_EQ(fresh.reused_tokens, 0);
  EXPECT_EQ(reused.tokens, fresh.tokens);
  EXPECT_EQ(fresh.tokens.size(), 12u);
}

TEST(Generator, AnyPromptAfterAnyOtherGivesTheTextOfItsOwn) {
  const std::vector<std::byte> bytes = model_bytes(kQ4_0);
  runtime::ThreadPool pool(2);
  runtime::Context context(pool);
  const Decoder decoder = Decoder::load(GgufFile::parse(bytes, "tiny.gguf"), pool);
  Generator warm(decoder, context);
  std::mt19937 random(13);
  std::vector<int32_t> prompt = random_tokens(30, 1);
  int64_t reused = 0;
  for (int run = 0; run < 24; ++run) {
    // The next prompt begins as the last one and its answer do, up to anywhere.
    const auto cached = warm.cached_tokens();
    prompt.assign(cached.begin(), cached.begin() + int64_t(random() % (cached.size() + 1)));
    const auto more = random_tokens(random() % 20 + size_t(prompt.empty()), uint32_t(random()));
    prompt.insert(prompt.end(), more.begin(), more.end());
    if (prompt.size() > 120) prompt.resize(120);
    GenerateOptions options;
    options.exact = random() % 4 == 0;
    options.max_tokens = int64_t(random() % 10);
    options.prefill_chunk = 1 + int64_t(random() % 33);
    options.sampling = {.temperature = run % 2 == 0 ? 0.0f : 1.5f, .seed = run};
    Generator cold(decoder, context);
    const GenerateResult got = warm.run(prompt, options);
    options.prefill_chunk = 512;
    EXPECT_EQ(got.tokens, cold.run(prompt, options).tokens) << "run " << run;
    EXPECT_LT(got.reused_tokens, int64_t(prompt.size()));
    reused += got.reused_tokens;
  }
  EXPECT_GT(reused, 100);
}

TEST(Decoder, RefusesWhatItCannotRun) {
  const std::vector<std::byte> bytes = model_bytes(kQ8_0);
  runtime::ThreadPool pool(1);
  runtime::Context context(pool);
  const Decoder decoder = Decoder::load(GgufFile::parse(bytes, "tiny.gguf"), pool);
  KvCache cache = decoder.make_cache();
  std::vector<float> logits;
  const auto run = [&](const std::vector<int32_t>& tokens) {
    const SequenceTokens part{&cache, tokens};
    decoder.forward(context, {&part, 1}, QuantizedCompute::kInt8, LogitRows::kLast, logits);
  };
  EXPECT_THROW(run({}), Error);
  EXPECT_THROW(run({kVocabulary}), Error);
  EXPECT_THROW(run({-1}), Error);
  EXPECT_THROW(run(random_tokens(kContext + 1, 0)), Error);
  EXPECT_EQ(cache.length(), 0);
  run(random_tokens(kContext, 0));
  EXPECT_THROW(run({1}), Error);
  EXPECT_EQ(cache.length(), kContext);
}

}  // namespace
}  // namespace tw::models
