#include "tilewright/models/generator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tilewright/ops/core/bind.h"
#include "tilewright/ops/sample.h"
#include "tilewright/runtime/launch.h"

namespace tw::models {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Generator::Generator(const Decoder& decoder, runtime::Context& context)
    : decoder_(&decoder), context_(&context), cache_(decoder.make_cache()) {}

int32_t Generator::sample(const std::vector<int32_t>& text, const GenerateOptions& options,
                          int64_t draw) {
  const Sampling& s = options.sampling;
  int32_t token = 0;
  if (options.vocabulary > 0 && size_t(options.vocabulary) < logits_.size())
    std::fill(logits_.begin() + options.vocabulary, logits_.end(),
              -std::numeric_limits<float>::infinity());
  const int64_t held = int64_t(text.size());
  const int64_t back = s.penalty_tokens < 0 ? held : std::min(s.penalty_tokens, held);
  const kernels::Sample kernel{rows<const float>(logits_.data(), 1, int64_t(logits_.size())),
                               rows<const int32_t>(text.data() + (held - back), 1, back),
                               s.temperature,
                               s.top_k,
                               s.top_p,
                               s.min_p,
                               s.repetition_penalty,
                               s.frequency_penalty,
                               s.presence_penalty,
                               s.seed,
                               draw,
                               rows<int32_t>(&token, 1, 1)};
  ops::check_support<ops::Sample>(kernel, Device{});
  runtime::launch<ops::Sample>(*context_, kernel);
  if (std::isnan(logits_[size_t(token)]))  // only where nothing else is left to choose
    throw Error(ErrorKind::kBadFile, "the model's outputs are not numbers");
  return token;
}

GenerateResult Generator::run(std::span<const int32_t> prompt, const GenerateOptions& options,
                              const std::function<bool(int32_t)>& on_token) {
  if (prompt.empty()) throw Error(ErrorKind::kInvalidArgument, "the prompt is empty");
  const int64_t context_length = decoder_->config().context_length;
  if (int64_t(prompt.size()) > context_length)
    throw Error(ErrorKind::kInvalidArgument, "the prompt has " + std::to_string(prompt.size()) +
                                                 " tokens, the model's context " +
                                                 std::to_string(context_length));
  GenerateResult result;
  result.prompt_tokens = int64_t(prompt.size());

  const auto read_with = prompt_compute(context_->machine(), options.exact);
  const auto write_with = answer_compute(options.exact);
  if (cache_.dtype() != kv_dtype(context_->machine(), options.exact)) cached_.clear();
  // At least one token must run to give logits.
  const auto limit = prompt.first(prompt.size() - 1);
  const auto [mine, theirs] =
      std::mismatch(limit.begin(), limit.end(), cached_.begin(), cached_.end());
  result.reused_tokens = mine - limit.begin();
  cached_.resize(size_t(result.reused_tokens));
  cache_.truncate(result.reused_tokens);

  const auto start = Clock::now();
  decoder_->prefill(*context_, cache_, prompt.subspan(size_t(result.reused_tokens)), read_with,
                    options.prefill_chunk, logits_, options.on_prompt);
  result.prefill_seconds = seconds_since(start);
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  cached_ = text;

  const auto decode_start = Clock::now();
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const int32_t token = sample(text, options, i);
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token) !=
        options.stop_tokens.end()) {
      result.stopped = true;
      break;
    }
    result.tokens.push_back(token);
    text.push_back(token);
    if (on_token && !on_token(token)) break;
    if (i + 1 == options.max_tokens || int64_t(text.size()) > context_length) break;
    const SequenceTokens step{&cache_, {&token, 1}};
    decoder_->forward(*context_, {&step, 1}, write_with, LogitRows::kLast, logits_);
    // As a part of the next prompt it would have other bits, and a text depends on nothing else.
    if (write_with == read_with) cached_.push_back(token);
  }
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

}  // namespace tw::models
