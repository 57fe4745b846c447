#include "tilewright/models/tokenizer/from_gguf.h"

namespace tw::models {
namespace {

/// Steps that a file may ask for and that are not done here: its text would be cut otherwise.
void refuse_unsupported_steps(const GgufFile& file) {
  const auto refuse = [&](const std::string& key) {
    throw Error(ErrorKind::kUnsupported,
                file.metadata_error(key, "tokenizers that do this are not supported").what());
  };
  for (const char* key :
       {"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.add_sep_token",
        "tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents"})
    if (file.find_bool(key).value_or(false)) refuse(key);
  for (const char* key : {"tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.suppress_tokens"})
    if (const auto entry = file.find(key); entry && entry->value.size() > 0) refuse(key);
}

}  // namespace

TokenizerData tokenizer_data_from_gguf(const GgufFile& file) {
  refuse_unsupported_steps(file);
  TokenizerData data;
  data.model = file.require_string("tokenizer.ggml.model");
  data.pre = file.find_string("tokenizer.ggml.pre").value_or("");
  data.tokens = file.require_strings("tokenizer.ggml.tokens");
  data.scores = file.find_floats("tokenizer.ggml.scores").value_or(GgufNumbers<float>());
  data.types = file.find_ints("tokenizer.ggml.token_type").value_or(GgufNumbers<int64_t>());
  data.merges = data.model == "gpt2"
                    ? file.require_strings("tokenizer.ggml.merges")
                    : file.find_strings("tokenizer.ggml.merges").value_or(GgufStrings());
  data.owner = file.owner();
  data.bos_token_id = file.find_int("tokenizer.ggml.bos_token_id");
  data.eos_token_id = file.find_int("tokenizer.ggml.eos_token_id");
  data.unknown_token_id = file.find_int("tokenizer.ggml.unknown_token_id");
  data.padding_token_id = file.find_int("tokenizer.ggml.padding_token_id");
  data.eot_token_id = file.find_int("tokenizer.ggml.eot_token_id");
  data.eom_token_id = file.find_int("tokenizer.ggml.eom_token_id");
  data.add_bos_token = file.find_bool("tokenizer.ggml.add_bos_token");
  data.add_eos_token = file.find_bool("tokenizer.ggml.add_eos_token");
  // Phi-3's own tokenizer says so; the file has no key for it.
  data.strips_after_control =
      data.model == "llama" && file.find_string("general.architecture").value_or("") == "phi3";
  data.add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  return data;
}

Tokenizer tokenizer_from_gguf(const GgufFile& file) {
  try {
    return Tokenizer(tokenizer_data_from_gguf(file));
  } catch (const TokenizerDataError& error) {
    // The same message with file and offset, where the file has the key.
    throw Error(error.kind(), file.metadata_error(error.key(), error.problem()).what());
  }
}

}  // namespace tw::models
