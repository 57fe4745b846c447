// The filters, tests, methods and global functions of the language.
#pragma once

#include <span>
#include <string_view>

#include "tilewright/models/chat_template/sandbox.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

/// nullptr when there is no such filter (test, global function).
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);

/// The method or property `name` of `value`, as Python's getattr finds it; not given when there is
/// none. Methods that would change the value give undefined, as the immutable sandbox has it.
Value find_method(Sandbox& sandbox, const Value& value, std::string_view name);

/// Calls a builtin: binds the arguments to its parameters first. Throws when they do not fit.
Value call_builtin(Sandbox& sandbox, const Builtin& builtin, const Value& self,
                   Arguments arguments);

/// str.replace whose result is paid for before it is built; limit < 0 means all.
Value replace_checked(Sandbox& sandbox, std::string_view text, std::string_view from,
                      std::string_view to, int64_t limit);

/// What the sequence of a group of the groupby filter is called.
inline constexpr std::string_view kGroupName = "group";

/// The tables behind the above, each in a file of its own.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> part_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> string_methods();

}  // namespace tw::models::chat_template
