// tilewright tokenize: text to the token ids of a model, and back.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/core/printable.h"
#include "tilewright/models/gguf.h"
#include "tilewright/models/tokenizer/from_gguf.h"
#include "tilewright/models/tokenizer/tokenizer.h"
#include "tools/cli/arguments.h"
#include "tools/cli/commands.h"
#include "tools/cli/model_options.h"

namespace tw::cli {
namespace {

using models::Tokenizer;
using nlohmann::json;

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  std::optional<std::string> file;  // "-": standard input
  std::vector<int32_t> ids;         // to be decoded
  bool no_special = false;
  bool parse_special = false;
  bool skip_special = false;
  bool as_json = false;
  bool as_lines = false;
};

models::EncodeOptions encode_options(const TokenizeOptions& options) {
  return {.add_special = !options.no_special, .parse_special = options.parse_special};
}

std::ifstream open_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // A directory opens, and fails at the first byte.
  if (!in || (in.peek(), in.bad())) {
    throw Error(ErrorKind::kIo, "cannot read '" + printable(path) + "'");
  }
  in.clear();
  return in;
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void print_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool as_json) {
  if (as_json) {
    json pieces = json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer.token_bytes(id));
    std::cout << dump({{"tokens", ids}, {"pieces", pieces}, {"count", ids.size()}}) << "\n";
    return;
  }
  for (const int32_t id : ids) {
    std::cout << id << "\t'" << printable(tokenizer.token_bytes(id)) << "'\n";
  }
}

// One line of the batch mode: a string becomes the array of its ids, an array of ids a string.
json convert(const Tokenizer& tokenizer, const json& value, const TokenizeOptions& options) {
  if (value.is_string()) {
    return tokenizer.encode(value.get_ref<const std::string&>(), encode_options(options));
  }
  std::vector<int32_t> ids;
  bool valid = value.is_array();
  for (size_t i = 0; valid && i < value.size(); ++i) {
    const json& id = value[i];
    valid = id.is_number_integer();
    if (valid) ids.push_back(id.get<int64_t>() == id.get<int32_t>() ? id.get<int32_t>() : -1);
  }
  if (!valid) {
    throw Error(ErrorKind::kInvalidArgument, "neither a JSON string nor an array of token ids");
  }
  return tokenizer.decode(ids, options.skip_special);
}

void run_lines(const Tokenizer& tokenizer, std::istream& in, const TokenizeOptions& options) {
  std::string line;
  for (int64_t number = 1; read_line(in, *options.file, line); ++number) {
    const json value = json::parse(line, nullptr, false);
    try {
      std::cout << dump(convert(tokenizer, value, options)) << "\n";
    } catch (const Error& error) {
      throw Error(error.kind(), printable(*options.file) + ": line " + std::to_string(number) +
                                    ": " + error.what());
    }
  }
}

void run_tokenize(const TokenizeOptions& options) {
  const int inputs =
      int(options.text.has_value()) + int(options.file.has_value()) + int(!options.ids.empty());
  if (inputs != 1) {
    throw Error(ErrorKind::kInvalidArgument, "give one of -p TEXT, -f FILE and --decode IDS");
  }
  const Tokenizer tokenizer = models::tokenizer_from_gguf(models::GgufFile::open(options.model));
  if (!options.ids.empty()) {
    const std::string text = tokenizer.decode(options.ids, options.skip_special);
    std::cout << (options.as_json ? dump({{"text", text}}) : text) << "\n";
    return;
  }
  std::string text = options.text.value_or("");
  if (options.file && !options.as_lines) text = read_text(*options.file);
  if (options.as_lines) {
    std::ifstream file;
    const bool from_stdin = *options.file == "-";
    if (!from_stdin) file = open_file(*options.file);
    return run_lines(tokenizer, from_stdin ? std::cin : file, options);
  }
  print_tokens(tokenizer, tokenizer.encode(text, encode_options(options)), options.as_json);
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into token ids, or back");
  command->add_option("MODEL", options->model, "GGUF file")->required();
  command->add_option("-p,--prompt", options->text, "The text");
  auto* file = command->add_option("-f,--file", options->file,
                                   "Read the text from this file; -: standard input");
  add_numbers(*command, "--decode", options->ids, "Print the text of these token ids", kTokenIds);
  command->add_flag("--no-special", options->no_special, "Add no bos and eos tokens");
  command->add_flag("--parse-special", options->parse_special,
                    "Recognise control tokens, such as <|im_end|>, in the text");
  command->add_flag("--skip-special", options->skip_special,
                    "Leave control tokens out of decoded text");
  command->add_flag("--json", options->as_json, "Print JSON");
  command
      ->add_flag("--jsonl", options->as_lines,
                 "The file has one JSON value in each line: a string to encode, or an array of ids "
                 "to decode; print one line for each")
      ->needs(file);
  command->footer(
      "Example: tilewright tokenize model.gguf -p \"Hello, world\"\n"
      "         tilewright tokenize model.gguf --decode 19556,28,905\n"
      "         tilewright tokenize model.gguf -f strings.jsonl --jsonl > ids.jsonl");
  command->callback([options] { run_tokenize(*options); });
}

}  // namespace tw::cli
