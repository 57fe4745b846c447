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

// The letters with case that DeepSeek LLM's expression lists.
constexpr const char* kDeepseekLetters =
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943})";

constexpr const char* kDeepseekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";

constexpr const char* kHan = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kOldHan = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

// BLOOM: everything up to white space, a parenthesis, a bar or a mark that ends sentences.
constexpr const char* kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

constexpr const char* kFalconMarks = R"([\p{P}$+<=>^~|`]+)";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";

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

// A word, with one character before it that is neither letter nor number; `before` is tried first.
std::string words(const std::string& before) {
  return before + R"([^\r\n\p{L}\p{N}]?\p{L}+)";
}

// Jais 2: cl100k, white space in powers of two.
std::string jais2() {
  std::string spaces = R"(|\s*[\r\n]+)";
  for (const char* count : {"512", "256", "128", "64", "32", "16", "8", "4", "1,2"})
    spaces += R"(|\s{)" + std::string(count) + R"(}(?!\S))";
  return words(std::string(kContraction) + "|") + R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" +
         spaces + R"(|\s)";
}

std::vector<PreTokenizerSpec> make_table() {
  const std::string llama3 = cl100k(R"(\p{L})", R"(\p{N}{1,3})");
  const std::string qwen2 = cl100k(R"(\p{L})", R"(\p{N})");
  const std::string contraction = std::string(kContraction) + "?";
  return {
      {.names = {"", "gpt-2", "phi-2", "jais", "gigachat", "a.x-4.0", "mellum", "exaone4",
                 "trillion", "granite-docling"},
       .patterns = {kGpt2}},
      {.names = {"mpt", "olmo"}, .patterns = {kGpt2}, .nfc = true},
      {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .patterns = {kDigit, kGpt2}},
      {.names = {"command-r"}, .patterns = {kDigit, kGpt2}, .nfc = true},
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                 "lfm2"},
       .patterns = {llama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .patterns = {llama3}},
      {.names = {"glm4", "glm5"}, .patterns = {llama3}, .ignore_merges = true},
      {.names = {"qwen2"}, .patterns = {qwen2}, .nfc = true},
      {.names = {"deepseek-r1-qwen", "stablelm2", "hunyuan", "solar-open", "grok-2", "kormo",
                 "megrez"},
       .patterns = {qwen2}},
      {.names = {"qwen35"}, .patterns = {cl100k(R"(\p{L}\p{M})", R"(\p{N})")}, .nfc = true},
      {.names = {"tekken"},
       .patterns = {o200k("", R"(\p{N})")},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
       .patterns = {o200k(contraction, R"(\p{N}{1,3})")}},
      {.names = {"deepseek-coder"},
       .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kOldHan, kDigit}},
      {.names = {"deepseek-llm"},
       .patterns = {R"([\r\n])", R"(\s?[)" + std::string(kDeepseekLetters) + "]+", kDeepseekMarks,
                    R"(\s+$)", kOldHan, R"(\p{N}+)"}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .patterns = {R"(\p{N}{1,3})", kHan, kDeepseek3}},
      {.names = {"default"}, .patterns = {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", kThreeDigits}},
      {.names = {"falcon"}, .patterns = {kFalconMarks, kGpt2, kThreeDigits}},
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .patterns = {kBloom}},
      {.names = {"viking"}, .patterns = {kBloom, R"(\p{N})"}},
      {.names = {"superbpe"}, .patterns = {R"(\p{N}+)"}, .thousands = true},
      {.names = {"jais-2"}, .patterns = {jais2()}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .patterns = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})"
                    R"(| ?[^\s\p{L}\p{N}]++[\r\n]*)"
                    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {.names = {"seed-coder"},
       .patterns = {words(std::string(kContraction) + "|") + R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" +
                    kWhiteSpace}},
      {.names = {"ufakzeka"},
       .patterns = {words("") + R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" + kWhiteSpace}},
      {.names = {"laguna"}, .patterns = {R"([^\n]+|[\n]+)", qwen2}},
      {.names = {"minicpm5"},
       .patterns = {R"(\p{N}{1,3})", cl100k(R"(\p{L})", R"(\p{N}+)")},
       .ignore_merges = true},
  };
}

}  // namespace

std::span<const PreTokenizerSpec> pre_tokenizers() {
  static const std::vector<PreTokenizerSpec> table = make_table();
  return table;
}

}  // namespace tw::models
