#include "tilewright/models/chat_template/chat_template.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/interpreter.h"
#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/syntax.h"
#include "tilewright/models/chat_template/text.h"

namespace tw::models {
namespace {

chat_template::Syntax parse_checked(std::string_view source, const std::string& name,
                                    const ChatTemplateLimits& limits) {
  const auto size = int64_t(source.size());
  if (size > limits.source_bytes) {
    throw Error(ErrorKind::kInvalidArgument, name + ": " + std::to_string(size) +
                                                 " bytes of template exceed the limit of " +
                                                 std::to_string(limits.source_bytes));
  }
  const size_t bad = chat_template::find_invalid_utf8(source);
  if (bad != std::string_view::npos) {
    throw Error(ErrorKind::kInvalidArgument,
                name + ": not valid UTF-8 at byte " + std::to_string(bad));
  }
  return chat_template::parse(source, name);
}

}  // namespace

struct ChatTemplate::Impl {
  std::string name;
  ChatTemplateLimits limits;
  chat_template::Syntax syntax;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name,
                           const ChatTemplateLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->syntax = parse_checked(source, name, limits);
  impl_->name = std::move(name);
  impl_->limits = limits;
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const nlohmann::ordered_json& variables) const {
  chat_template::Sandbox sandbox(impl_->name, impl_->limits);
  return chat_template::Interpreter(impl_->syntax, sandbox).run(variables);
}

std::string apply_chat_template(const ChatTemplate& chat_template,
                                const std::vector<Message>& messages, bool add_generation_prompt,
                                std::string_view bos_token, std::string_view eos_token,
                                const nlohmann::ordered_json* extra_variables) {
  nlohmann::ordered_json variables = {
      {"messages", nlohmann::ordered_json::array()},
      {"tools", nullptr},
      {"documents", nullptr},
      {"add_generation_prompt", add_generation_prompt},
      {"bos_token", bos_token},
      {"eos_token", eos_token},
  };
  for (const Message& message : messages) {
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (extra_variables != nullptr && !extra_variables->is_null()) {
    if (!extra_variables->is_object()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "chat template: the extra variables are not a JSON object");
    }
    variables.update(*extra_variables);
  }
  return chat_template.render(variables);
}

}  // namespace tw::models
