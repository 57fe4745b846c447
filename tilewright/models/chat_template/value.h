// The values of the template language, as Python has them. Strings, lists and dicts never change
// once made (the sandbox forbids it), so values share them freely; only namespaces are written to.
// Objects belong to the Sandbox of one rendering and live until it ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tw::models::chat_template {

struct Dict;
struct Function;
struct Loop;
struct Macro;
struct Namespace;
struct Range;
struct Sequence;
struct String;
struct Undefined;

enum class Type : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,  // dict.items() and its two relatives
  kRange,
  kIterator,  // what lazy filters give: can be walked once
  kNamespace,
  kMacro,
  kFunction,
  kLoop,
};

/// One value: a scalar, or a pointer to a shared object. Cheap to copy.
class Value {
 public:
  /// "Not given": differs from every value a template can make.
  Value() = default;

  static Value none() { return Value(Type::kNone); }
  static Value boolean(bool x) { return integral(Type::kBool, x ? 1 : 0); }
  static Value integer(int64_t x) { return integral(Type::kInt, x); }
  static Value real(double x) {
    Value out(Type::kFloat);
    out.real_ = x;
    return out;
  }
  static Value of(const Undefined* x) { return object(Type::kUndefined, x); }
  static Value of(const String* x) { return object(Type::kString, x); }
  static Value of(const Dict* x) { return object(Type::kDict, x); }
  static Value of(const Range* x) { return object(Type::kRange, x); }
  static Value of(const Function* x) { return object(Type::kFunction, x); }
  static Value of(const Macro* x) { return object(Type::kMacro, x); }
  static Value of(Namespace* x) { return object(Type::kNamespace, x); }
  static Value of(Loop* x) { return object(Type::kLoop, x); }
  /// `type` is kList, kTuple, kDictView or kIterator.
  static Value of(Type type, Sequence* x) { return object(type, x); }

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_given() const { return type_ != Type::kUndefined || object_ != nullptr; }
  bool is_undefined() const { return type_ == Type::kUndefined; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_string() const { return type_ == Type::kString; }
  /// Python's bool is a kind of int.
  bool is_integral() const { return type_ == Type::kInt || type_ == Type::kBool; }
  bool is_number() const { return is_integral() || type_ == Type::kFloat; }
  /// A list or tuple.
  bool is_sequence() const { return type_ == Type::kList || type_ == Type::kTuple; }

  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double real() const { return real_; }
  /// Any number as a double.
  double as_double() const { return type_ == Type::kFloat ? real_ : double(integer_); }
  const void* object() const { return object_; }

  const Undefined& undefined() const { return *static_cast<const Undefined*>(object_); }
  const String& string() const { return *static_cast<const String*>(object_); }
  const Dict& dict() const { return *static_cast<const Dict*>(object_); }
  const Range& range() const { return *static_cast<const Range*>(object_); }
  const Function& function() const { return *static_cast<const Function*>(object_); }
  const Macro& macro() const { return *static_cast<const Macro*>(object_); }
  Namespace& name_space() const { return *static_cast<Namespace*>(mutable_object()); }
  Loop& loop() const { return *static_cast<Loop*>(mutable_object()); }
  Sequence& sequence() const { return *static_cast<Sequence*>(mutable_object()); }
  /// The text of a string value.
  std::string_view text() const;

 private:
  explicit Value(Type type) : type_(type) {}
  static Value integral(Type type, int64_t x) {
    Value out(type);
    out.integer_ = x;
    return out;
  }
  static Value object(Type type, const void* x) {
    Value out(type);
    out.object_ = x;
    return out;
  }
  // Every object is created non-const by the Sandbox.
  void* mutable_object() const { return const_cast<void*>(object_); }

  Type type_ = Type::kUndefined;
  union {
    const void* object_ = nullptr;
    int64_t integer_;
    double real_;
  };
};

/// A missing variable or element, and what to say when it is used.
struct Undefined {
  std::string_view owner;  // Python's name for the object's type; empty for a variable
  std::string_view name;
  std::string_view hint;  // replaces the message made of the two above
};

struct String {
  explicit String(std::string content);
  bool safe = false;  // Markup: text that is joined to it is escaped
  std::string text;   // valid UTF-8
  int64_t length;     // code points
};

struct Sequence {
  std::vector<Value> items;
  int depth = 1;          // containers nested below, this one included
  size_t position = 0;    // of an iterator: the next item
  const char* name = "";  // of a dict view: "dict_items" and the like
};

/// Order of dict keys. Equal numbers of different types are the same key, as in Python.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

/// Keeps insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;

  /// The key must be hashable.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, const Value& value);

 private:
  size_t position(const Value& key) const;
  std::map<Value, size_t, KeyLess> index_;  // filled once the dict is large
};

struct Range {
  int64_t start = 0, stop = 0, step = 1, length = 0;
  int64_t at(int64_t i) const { return start + i * step; }
};

struct Namespace {
  std::vector<std::pair<std::string_view, Value>> attributes;
};

/// The arguments of a call. After binding to a signature `positional` has one entry for each
/// parameter, not given where the caller left an optional one out.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;

  const Value& operator[](size_t i) const { return positional[i]; }
};

class Sandbox;

/// A filter, test, method or global function of the language.
struct Builtin {
  std::string_view name;
  /// Parameter names, optional ones marked with '?'. A leading "/" makes all of them positional
  /// only; "*" alone passes the arguments on unbound.
  std::string_view parameters;
  Value (*call)(Sandbox& sandbox, const Value& self, const Arguments& arguments);
};

struct Function {
  const Builtin* builtin;
  Value self;
};

}  // namespace tw::models::chat_template
