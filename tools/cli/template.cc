// tilewright template: the prompt that a chat template makes of a conversation.
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/chat_template/chat_template.h"
#include "tilewright/models/gguf.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"

namespace tw::cli {
namespace {

using models::ChatTemplate;
using models::GgufFile;
using nlohmann::ordered_json;

struct RenderOptions {
  std::string file;
  std::string messages;
  std::string variables;
  bool add_generation_prompt = false;
  bool batch = false;
};

constexpr int kMaxJsonDepth = 1000;  // copying a value recurses

ordered_json parse_json(const std::string& text, const std::string& name) {
  const auto check_depth = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kMaxJsonDepth)
      throw Error(ErrorKind::kBadFile, printable(name) + ": JSON nested deeper than " +
                                           std::to_string(kMaxJsonDepth) + " levels");
    return true;
  };
  try {
    return ordered_json::parse(text, check_depth);
  } catch (const ordered_json::exception& error) {
    throw Error(ErrorKind::kBadFile, printable(name) + ": " + printable(error.what(), 400));
  }
}

/// The token whose number stands under `key`, or nothing.
void add_token(const GgufFile& file, const char* key, const char* variable, ordered_json& out) {
  const auto id = file.find_u32(key);
  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!id.has_value() || !tokens.has_value()) return;
  if (int64_t(*id) >= tokens->size()) {
    throw file.metadata_error(key, "there is no token " + std::to_string(*id));
  }
  out[variable] = std::string(*std::next(tokens->begin(), std::ptrdiff_t(*id)));
}

/// Whether `path` is a file that begins as GGUF files do. What is read only once, a pipe or a
/// device, is left alone: its text is a template.
bool is_gguf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

/// The template in `path`: a text file, or a GGUF file that holds one beside its special tokens.
ChatTemplate load_template(const std::string& path, ordered_json& variables) {
  if (path == "-" || !is_gguf(path)) return parse_template(read_text(path), printable(path));
  const GgufFile file = GgufFile::open(path);
  add_token(file, "tokenizer.ggml.bos_token_id", "bos_token", variables);
  add_token(file, "tokenizer.ggml.eos_token_id", "eos_token", variables);
  return template_of(file);
}

ordered_json read_messages(const std::string& path) {
  ordered_json messages = parse_json(read_text(path), path);
  if (!messages.is_array()) throw Error(ErrorKind::kBadFile, printable(path) + ": no JSON array");
  for (size_t i = 0; i < messages.size(); ++i) {
    // The content may be missing, beside calls of tools.
    const bool valid = messages[i].is_object() && messages[i].contains("role");
    if (!valid)
      throw Error(ErrorKind::kBadFile, printable(path) + ": message " + std::to_string(i + 1) +
                                           " is no object with a role");
  }
  return messages;
}

void render_one(const RenderOptions& options) {
  ordered_json variables = {{"messages", ordered_json::array()},
                            {"tools", nullptr},
                            {"documents", nullptr},
                            {"add_generation_prompt", options.add_generation_prompt}};
  const ChatTemplate chat_template = load_template(options.file, variables);
  if (!options.messages.empty()) variables["messages"] = read_messages(options.messages);
  if (!options.variables.empty()) {
    const ordered_json more = parse_json(read_text(options.variables), options.variables);
    if (!more.is_object()) {
      throw Error(ErrorKind::kBadFile, printable(options.variables) + ": not a JSON object");
    }
    variables.update(more);
  }
  std::cout << chat_template.render(variables);
}

/// The answer to one line of a batch.
ordered_json render_line(const ordered_json& job, const std::string& name) {
  const bool valid = job.is_object() && job.contains("template") && job["template"].is_string();
  if (!valid) throw Error(ErrorKind::kBadFile, name + ": not an object with a template");
  try {
    const ChatTemplate parsed(job["template"].get<std::string>());
    return {{"text", parsed.render(job.value("variables", ordered_json::object()))}};
  } catch (const Error& error) {
    return {{"error", error.what()}, {"unsupported", error.kind() == ErrorKind::kUnsupported}};
  }
}

void render_batch(const RenderOptions& options) {
  const std::string jobs = read_text(options.file);
  int64_t number = 0;
  for (size_t pos = 0; pos < jobs.size();) {
    const size_t end = std::min(jobs.find('\n', pos), jobs.size());
    const std::string name = printable(options.file) + ", line " + std::to_string(++number);
    const ordered_json job = parse_json(jobs.substr(pos, end - pos), name);
    std::cout << render_line(job, name).dump() << "\n";
    pos = end + 1;
  }
}

}  // namespace

void add_template(CLI::App& app) {
  auto options = std::make_shared<RenderOptions>();
  CLI::App* command = app.add_subcommand("template", "Try chat templates");
  command->require_subcommand(1);
  CLI::App* render =
      command->add_subcommand("render", "Print the prompt that a template makes of a conversation");
  render->add_option("FILE", options->file, "Jinja template or GGUF file; - is standard input")
      ->required();
  auto* messages =
      render->add_option("--messages", options->messages,
                         "JSON file with an array of messages, each with role and content");
  auto* variables =
      render->add_option("--vars", options->variables,
                         "JSON file with an object of more variables, such as tools or bos_token");
  auto* prompt = render->add_flag("--add-generation-prompt", options->add_generation_prompt,
                                  "End the prompt where the assistant's answer begins");
  auto* batch = render->add_flag(
      "--batch", options->batch,
      "FILE has a JSON object {\"template\", \"variables\"} on each line; print one "
      "{\"text\"} or {\"error\"} for each");
  for (CLI::Option* of_one : {messages, variables, prompt}) batch->excludes(of_one);
  const char* example =
      "Example: echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' > messages.json\n"
      "         tilewright template render model.gguf --messages messages.json "
      "--add-generation-prompt";
  command->footer(example);
  render->footer(example);
  render->callback([options] { options->batch ? render_batch(*options) : render_one(*options); });
}

}  // namespace tw::cli
