// What one rendering may use. The sandbox makes every object, counts the bytes and the steps, and
// knows the line being executed; whatever goes wrong is reported through fail().
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/models/chat_template/chat_template.h"
#include "tilewright/models/chat_template/syntax.h"
#include "tilewright/models/chat_template/value.h"

namespace tw::models::chat_template {

inline constexpr int64_t kMaxRange = 100000;  // elements of a range()
inline constexpr int kMaxValueDepth = 100;    // lists and dicts inside of each other
inline constexpr int kMaxCallDepth = 400;     // statements, expressions and calls being executed

// What a byte of text may take while a copy of it is made that grows as it goes: in another case,
// and with five bytes, "&#34;", for each.
inline constexpr size_t kChangedBytes = 6;
inline constexpr size_t kEscapedBytes = 15;

inline constexpr char kNamespaceUnderscore[] =
    "attributes of a namespace can't begin with an underscore";

/// A set of variables and the scope around it.
struct Scope {
  const Scope* parent = nullptr;
  std::vector<std::pair<int32_t, Value>> variables;  // by symbol

  const Value* find(int32_t symbol) const;
  void set(int32_t symbol, const Value& value);
};

/// The loop variable inside {% for %}.
struct Loop {
  std::span<const Value> items;
  int64_t index = 0;                // from 0
  std::vector<Value> last_seen;     // arguments of the last loop.changed()
  bool asked_before = false;        // whether there was one
  int depth = 0;                    // of a recursive loop: how often it has called itself
  const Stmt* statement = nullptr;  // of a recursive loop, and the scope around it
  Scope* scope = nullptr;
};

struct Macro {
  const MacroSyntax* syntax;
  const Scope* scope;  // where it was defined
};

class Sandbox {
 public:
  /// Counts what is being executed; throws where the nesting could exhaust the stack.
  class Nesting {
   public:
    explicit Nesting(Sandbox& sandbox) : sandbox_(sandbox) {
      if (++sandbox.depth_ > kMaxCallDepth) sandbox.fail_depth();
    }
    ~Nesting() { --sandbox_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Sandbox& sandbox_;
  };

  Sandbox(std::string_view template_name, const ChatTemplateLimits& limits)
      : name_(template_name), steps_left_(limits.steps), bytes_left_(limits.bytes) {}

  /// Throws an Error that names the template and the current line.
  [[noreturn]] void fail(const std::string& message,
                         ErrorKind kind = ErrorKind::kInvalidArgument) const;
  /// fail() with the reason why `value` is undefined.
  [[noreturn]] void fail_undefined(const Value& value) const;

  /// Accounts for work; throws when the rendering has done too much of it.
  void step(int64_t count = 1) {
    if ((steps_left_ -= count) < 0) fail_steps();
  }
  /// Accounts for a walk over `bytes` bytes of text.
  void scan(size_t bytes) { step(int64_t(bytes / 64)); }
  /// Accounts for memory; throws when the rendering has used too much of it.
  void charge(size_t bytes) {
    if (bytes > size_t(bytes_left_)) fail_bytes();
    bytes_left_ -= int64_t(bytes);
  }
  /// charge(count * bytes), safe from overflow.
  void charge(size_t count, size_t bytes);
  /// Appends to a string that is being built; accounts for each allocation, not for the text alone:
  /// while it grows there are two.
  void append(std::string& out, std::string_view text) {
    if (text.size() > out.capacity() - out.size()) {
      const size_t grown = std::max(out.size() + text.size(), 2 * out.capacity());
      charge(grown);
      out.reserve(grown);
    }
    out += text;
  }
  /// How many items of so many bytes exceed the memory that is left.
  size_t too_many(size_t bytes) const { return size_t(bytes_left_) / bytes + 1; }

  Value string(std::string_view text);
  /// The same for text that was built with append(), whose bytes are paid for.
  Value adopt(std::string text);
  /// The same as text that needs no escaping: what the filters safe and escape give.
  Value safe(std::string_view text);
  /// A string that is safe where `like` is.
  Value string_like(const Value& like, std::string_view text);
  Value list(std::vector<Value> items) { return sequence(Type::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Type::kTuple, std::move(items)); }
  Value iterator(std::vector<Value> items) { return sequence(Type::kIterator, std::move(items)); }
  Value sequence(Type type, std::vector<Value> items, const char* view_name = "");
  Value pair(const Value& first, const Value& second) { return tuple({first, second}); }
  /// The dict must not be changed once it is visible to the template.
  Value dict(Dict entries);
  Value range(const Range& range);
  Value function(const Builtin* builtin, const Value& self);
  Value macro(const MacroSyntax* syntax, const Scope* scope);
  Value make_namespace();
  Value loop(std::span<const Value> items);
  Value undefined(std::string_view owner, std::string_view name, std::string_view hint = {});
  Scope& scope(const Scope* parent);

  /// Checks that a value may be a dict key, and accounts for comparing it.
  void require_hashable(const Value& key);

  void set_line(int32_t line) { line_ = line; }
  int32_t line() const { return line_; }

 private:
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_bytes() const;
  [[noreturn]] void fail_depth() const;
  void check_depth(int depth) const;

  std::string_view name_;
  int64_t steps_left_;
  int64_t bytes_left_;
  int32_t line_ = 1;
  int depth_ = 0;
  std::deque<Undefined> undefineds_;
  std::deque<String> strings_;
  std::deque<Sequence> sequences_;
  std::deque<Dict> dicts_;
  std::deque<Range> ranges_;
  std::deque<Function> functions_;
  std::deque<Macro> macros_;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
  std::deque<Scope> scopes_;
};

}  // namespace tw::models::chat_template
