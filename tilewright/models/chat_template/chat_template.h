// Chat templates: the Jinja programs that come with a model and turn a conversation into its
// prompt.
//
// A subset of Jinja 3.1 with the semantics that Hugging Face transformers gives it: an immutable
// sandbox, trim_blocks and lstrip_blocks on, break and continue, raise_exception, strftime_now,
// a tojson that does not escape HTML, and {% generation %} blocks, which leave no trace. Templates
// and variables are hostile until proven otherwise: time, memory and nesting are limited.
// Outside of the subset: inheritance and imports, autoescape, integers beyond 64 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tilewright/core/macros.h"

namespace tw::models {

/// One turn of a conversation.
struct Message {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

/// What a template may use.
struct ChatTemplateLimits {
  /// Of the template's text. Parsing takes up to 200 bytes for each: 50 MiB, whatever the file.
  int64_t source_bytes = int64_t{1} << 18;
  int64_t steps = 20'000'000;         // expressions evaluated, 64-byte pieces of text read
  int64_t bytes = int64_t{64} << 20;  // allocated by a rendering, what it frees included
};

/// A parsed template. Immutable: several threads may render it at once.
class TW_API ChatTemplate {
 public:
  /// Parses `source`; `name` opens the error messages. Throws Error{kInvalidArgument} with the line
  /// of the first mistake, Error{kUnsupported} for Jinja outside of the subset.
  explicit ChatTemplate(std::string_view source, std::string name = "chat template",
                        const ChatTemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The template's output for `variables`, a JSON object. Throws Error{kInvalidArgument} when the
  /// template raises an error, calls raise_exception or exceeds a limit, Error{kUnsupported} when
  /// it needs something outside of the subset.
  std::string render(const nlohmann::ordered_json& variables) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The prompt for a conversation. The template sees messages, add_generation_prompt, bos_token,
/// eos_token and, as none, tools and documents; then the members of `extra_variables` (an object,
/// or null for none), which replace these. Throws as ChatTemplate::render does.
TW_API std::string apply_chat_template(const ChatTemplate& chat_template,
                                       const std::vector<Message>& messages,
                                       bool add_generation_prompt, std::string_view bos_token,
                                       std::string_view eos_token,
                                       const nlohmann::ordered_json* extra_variables = nullptr);

}  // namespace tw::models
