// The tokenizer of a GGUF file.
#pragma once

#include "tilewright/models/gguf.h"
#include "tilewright/models/tokenizer/tokenizer.h"
#include "tilewright/models/tokenizer/tokenizer_data.h"

namespace tw::models {

/// The metadata "tokenizer.ggml.*" of `file`, not validated beyond types. Throws kBadFile naming
/// file, key and offset when one is missing that every tokenizer needs, or has another type.
TokenizerData tokenizer_data_from_gguf(const GgufFile& file);

/// The tokenizer of `file`, which it keeps mapped; the bytes given to GgufFile::parse() must
/// outlive it. Throws kBadFile or kUnsupported naming file, key and offset.
Tokenizer tokenizer_from_gguf(const GgufFile& file);

}  // namespace tw::models
