// The expressions are those of the public tokenizer.json files of each family, in PCRE2's syntax.
#include "tilewright/models/tokenizer/pre_tokenizer.h"

namespace tw::models {
namespace {

// GPT-2 (Radford et al. 2019): English contractions, words, numbers, other symbols, white space.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// One digit. The reference cuts digits with Rust's char::is_numeric, which knows Unicode 17.
constexpr const char* kDigit = R"(\p{N}|[\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";

constexpr const char* kContraction = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr const char* kWhiteSpace = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// OpenAI's cl100k: contractions in any case, one other character before a word, line ends apart.
// `letters` are the classes that words are made of, `digits` how many make a number.
std::string cl100k(const std::string& letters, const std::string& digits) {
  return kContraction + (R"(|[^\r\n\p{L}\p{N}]?[)" + letters + "]+|" + digits) + R"(| ?[^\s)" +
         letters + R"(\p{N}]+[\r\n]*)" + kWhiteSpace;
}

// OpenAI's o200k: words end also where upper case follows lower case, `suffix` belongs to them.
std::string o200k(const std::string& suffix, const std::string& digits) {
  const std::string start = R"([^\r\n\p{L}\p{N}]?)";
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  const std::string lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return start + upper + "*" + lower + "+" + suffix + "|" + start + upper + "+" + lower + "*" +
         suffix + "|" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + kWhiteSpace;
}

std::vector<PreTokenizerSpec> make_table() {
  const std::string llama3 = cl100k(R"(\p{L})", R"(\p{N}{1,3})");
  const std::string qwen2 = cl100k(R"(\p{L})", R"(\p{N})");
  const std::string contraction = std::string(kContraction) + "?";
  return {
      {.names = {"", "default", "gpt-2", "phi-2", "roberta-bpe", "jais", "gigachat"},
       .patterns = {kGpt2}},
      {.names = {"mpt", "olmo"}, .patterns = {kGpt2}, .nfc = true},
      {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b"},
       .patterns = {kDigit, kGpt2}},
      {.names = {"command-r"}, .patterns = {kDigit, kGpt2}, .nfc = true},
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "midm-2.0", "lfm2"},
       .patterns = {llama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}, .patterns = {llama3}},
      {.names = {"qwen2"}, .patterns = {qwen2}, .nfc = true},
      {.names = {"deepseek-r1-qwen", "stablelm2"}, .patterns = {qwen2}},
      {.names = {"qwen35"}, .patterns = {cl100k(R"(\p{L}\p{M})", R"(\p{N})")}, .nfc = true},
      {.names = {"tekken"},
       .patterns = {o200k("", R"(\p{N})")},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"gpt-4o", "llama4"}, .patterns = {o200k(contraction, R"(\p{N}{1,3})")}},
      {.names = {"deepseek-coder"},
       .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", kDigit}},
      {.names = {"deepseek-v3"},
       .patterns = {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
                    kDeepseek3}},
  };
}

}  // namespace

std::span<const PreTokenizerSpec> pre_tokenizers() {
  static const std::vector<PreTokenizerSpec> table = make_table();
  return table;
}

}  // namespace tw::models
