// tilewright generate: text from a language model.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tilewright/core/printable.h"
#include "tilewright/models/chat_template/chat_template.h"
#include "tilewright/models/generator.h"
#include "tilewright/models/tokenizer/stream_decoder.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"

namespace tw::cli {
namespace {

struct GenerateCommandOptions {
  ModelOptions model;
  std::optional<std::string> prompt, file, system;
  std::vector<int32_t> tokens;
  bool interactive = false, chat = false, greedy = false, ignore_eos = false;
  models::GenerateOptions generate;
};

/// The prompt format of the model's chat template, for a conversation so far.
class Chat {
 public:
  Chat(const LoadedModel& model, const std::optional<std::string>& system)
      : template_(template_of(model.file)) {
    const auto text = [&](int32_t id) {
      return id < 0 ? std::string() : std::string(model.tokenizer.token_text(id));
    };
    bos_ = text(model.tokenizer.bos_id());
    eos_ = text(model.tokenizer.eos_id());
    if (system) messages_.push_back({"system", *system});
  }
  std::string ask(const std::string& question) {
    messages_.push_back({"user", question});
    return models::apply_chat_template(template_, messages_, true, bos_, eos_);
  }
  void answer(const std::string& text) { messages_.push_back({"assistant", text}); }
  void forget_question() { messages_.pop_back(); }

 private:
  models::ChatTemplate template_;
  std::vector<models::Message> messages_;
  std::string bos_, eos_;
};

struct Answer {
  models::GenerateResult result;
  std::string text;
};

/// Throws for a text that cannot fit the context, before it is cut into tokens.
void check_length(const LoadedModel& model, const std::string& prompt) {
  const auto context = size_t(model.decoder.config().context_length);
  if (prompt.size() <= context) return;
  size_t longest = 1;  // bytes of a token, as the vocabulary spells it: no fewer than it stands for
  for (int32_t id = 0; id < model.tokenizer.vocab_size(); ++id)
    longest = std::max(longest, model.tokenizer.token_text(id).size());
  constexpr size_t kShrink = 3;  // at most, by composing characters
  if (prompt.size() / kShrink / longest <= context) return;
  throw Error(ErrorKind::kInvalidArgument, "the prompt has " + std::to_string(prompt.size()) +
                                               " bytes, more than the model's context of " +
                                               std::to_string(context) + " tokens can hold");
}

/// A chat template writes the begin-of-text token itself.
std::vector<int32_t> encode(const LoadedModel& model, const std::string& prompt, bool chat) {
  check_length(model, prompt);
  auto tokens = model.tokenizer.encode(prompt, {.add_special = !chat, .parse_special = chat});
  if (tokens.empty() && !prompt.empty())
    throw Error(
        ErrorKind::kInvalidArgument,
        "the model's vocabulary has no token for the prompt '" + printable(prompt, 80) + "'");
  return tokens;
}

Answer answer(LoadedModel& model, models::Generator& generator,
              const GenerateCommandOptions& options, const std::vector<int32_t>& tokens) {
  Answer out;
  models::StreamDecoder decoder(model.tokenizer);
  const auto emit = [&](const std::string& piece) {
    out.text += piece;
    if (options.model.as_json) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      throw Error(ErrorKind::kIo, "cannot write the output");
  };
  std::optional<ProgressBar> bar(std::in_place, "reading the prompt");
  models::GenerateOptions generate = options.generate;
  generate.on_prompt = [&bar](double done) { (*bar)(done); };
  try {
    out.result = generator.run(tokens, generate, [&](int32_t token) {
      bar.reset();
      emit(decoder.push(token));
      return true;
    });
  } catch (const Error& error) {  // the generator knows no file
    if (error.kind() == ErrorKind::kBadFile) throw outputs_are_no_numbers(model.file);
    throw;
  }
  emit(decoder.finish());
  if (!options.model.as_json) std::fputc('\n', stdout);
  return out;
}

/// "1 token", "2 tokens".
std::string counted(int64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

double rate(size_t tokens, double seconds) {
  return seconds > 0 ? double(tokens) / seconds : 0;
}

void report(const LoadedModel& model, const GenerateCommandOptions& options, const Answer& a) {
  const models::GenerateResult& r = a.result;
  const size_t prefilled = size_t(r.prompt_tokens - r.reused_tokens);
  const double prefill = rate(prefilled, r.prefill_seconds);
  // The first token comes from the prompt's own pass.
  const double decode = rate(r.tokens.empty() ? 0 : r.tokens.size() - 1, r.decode_seconds);
  if (options.model.as_json) {
    std::cout << nlohmann::json{{"text", a.text},
                                {"tokens", r.tokens},
                                {"prompt_tokens", r.prompt_tokens},
                                {"reused_tokens", r.reused_tokens},
                                {"stopped", r.stopped},
                                {"load_ms", 1e3 * model.load_seconds},
                                {"prefill_ms", 1e3 * r.prefill_seconds},
                                {"prefill_tok_s", prefill},
                                {"decode_tok_s", decode},
                                {"peak_rss_bytes", peak_rss_bytes()},
                                {"isa", name(model.context.isa())},
                                {"threads", model.context.pool().threads()}}
                     .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
    return;
  }
  std::fflush(stdout);
  std::fprintf(stderr, "\n[load %.0f ms | prompt %s, %.0f tok/s | %s, %.1f tok/s | %s, %s]\n",
               1e3 * model.load_seconds, counted(r.prompt_tokens, "token").c_str(), prefill,
               counted(std::ssize(r.tokens), "token").c_str(), decode, name(model.context.isa()),
               counted(model.context.pool().threads(), "thread").c_str());
}

void converse(LoadedModel& model, models::Generator& generator,
              const GenerateCommandOptions& options) {
  std::optional<Chat> chat;
  if (options.chat) chat.emplace(model, options.system);
  std::string line;
  while (std::fputs("> ", stderr), read_line(std::cin, "-", line)) {
    if (line.empty()) continue;
    try {
      const std::string prompt = chat ? chat->ask(line) : line;
      const Answer a = answer(model, generator, options, encode(model, prompt, options.chat));
      if (chat) chat->answer(a.text);
      report(model, options, a);
    } catch (const Error& error) {  // whoever types may say something else
      if (error.kind() != ErrorKind::kInvalidArgument || isatty(STDIN_FILENO) == 0) throw;
      std::fprintf(stderr, "tilewright generate: %s\n", error.what());
      if (chat) chat->forget_question();
    }
  }
  std::fputc('\n', stderr);  // ends the line of the last "> "
}

void run_generate(GenerateCommandOptions options) {
  std::string prompt = options.prompt.value_or("");
  if (options.file) prompt = read_text(*options.file);  // fails before the model takes its time
  LoadedModel model = load_model(options.model);
  models::Generator generator(model.decoder, model.context);
  const auto ends = model.tokenizer.text_ends();
  if (!options.ignore_eos) options.generate.stop_tokens.assign(ends.begin(), ends.end());
  options.generate.vocabulary = model.tokenizer.vocab_size();
  options.generate.exact = options.model.exact;
  if (options.greedy) options.generate.sampling.temperature = 0;
  if (options.interactive) return converse(model, generator, options);

  check_tokens(model, options.tokens);
  std::vector<int32_t> tokens = options.tokens;
  if (tokens.empty()) {
    if (options.chat) prompt = Chat(model, options.system).ask(prompt);
    tokens = encode(model, prompt, options.chat);
  }
  const Answer a = answer(model, generator, options, tokens);
  report(model, options, a);
}

/// Returns what settles the temperature once all are parsed.
std::function<void()> add_sampling_options(CLI::App& command, models::Sampling& s) {
  const auto group = command.add_option_group("Sampling");
  constexpr Range<float> kFromZero{.least = 0}, kShare{0, 1};
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  const auto temperature = add_number(
      *group, "--temperature", s.temperature,
      "0: always the most likely token, the default unless an option for drawing is given: then 1",
      kFromZero);
  std::vector<CLI::Option*> draws;
  draws.push_back(add_number(*group, "--top-k", s.top_k, "Keep the k most likely tokens; 0: all",
                             {.least = 0}));
  draws.push_back(
      add_number(*group, "--top-p", s.top_p, "Keep the likeliest tokens that sum to p", kShare));
  draws.push_back(add_number(*group, "--min-p", s.min_p,
                             "Drop tokens below this share of the likeliest", kShare));
  draws.push_back(add_number(*group, "--seed", s.seed, "The same seed draws the same text"));
  add_number(*group, "--repetition-penalty", s.repetition_penalty, "1: none", {.least = kSmallest});
  add_number(*group, "--frequency-penalty", s.frequency_penalty, "Per earlier occurrence");
  add_number(*group, "--presence-penalty", s.presence_penalty, "For having occurred");
  add_number(*group, "--penalty-tokens", s.penalty_tokens, "How far back penalties look; -1: all",
             {.least = -1});
  return [temperature, draws, &s] {
    const auto given = [](const CLI::Option* option) { return option->count() > 0; };
    if (!given(temperature) && std::any_of(draws.begin(), draws.end(), given)) s.temperature = 1;
  };
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommandOptions>();
  CLI::App* command = app.add_subcommand("generate", "Write text with a language model");
  add_model_options(*command, options->model);
  auto* source = command->add_option_group("Prompt");
  source->add_option("-p,--prompt", options->prompt, "The prompt");
  source->add_option("-f,--file", options->file, "Read the prompt from a file; - reads stdin");
  auto* tokens =
      add_numbers(*source, "--tokens", options->tokens, "Token ids instead of text", kTokenIds);
  source->add_flag("-i,--interactive", options->interactive, "Ask for prompts, one a line");
  source->require_option(1);
  auto* chat =
      command->add_flag("--chat", options->chat, "Put the prompt into the model's chat template");
  tokens->excludes(chat);
  command->add_option("--system", options->system, "System message, with --chat")->needs(chat);
  add_number(*command, "-n,--max-tokens", options->generate.max_tokens, "Tokens to write at most",
             {0, int64_t{1} << 30});
  add_number(*command, "--prefill-chunk", options->generate.prefill_chunk, "Prompt tokens per pass",
             {1, int64_t{1} << 20});
  command->add_flag("--ignore-eos", options->ignore_eos, "Go on after a token that ends the text");
  command->add_flag("--greedy", options->greedy, "The most likely token, whatever --temperature");
  const auto settle_temperature = add_sampling_options(*command, options->generate.sampling);
  command->footer(
      "Example: tilewright generate model.gguf --chat -p \"Why is the sky blue?\" -n 128\n"
      "         tilewright generate model.gguf -f story.txt --temperature 0.8 --top-p 0.95 --seed "
      "7");
  command->callback([options, settle_temperature] {
    settle_temperature();
    run_generate(*options);
  });
}

}  // namespace tw::cli
