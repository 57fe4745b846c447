// A call with arguments known only at run time: what every door (CLI, tests, bindings) produces and
// what is validated against the schema, once, for all operators.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilewright/core/error.h"
#include "tilewright/core/tensor.h"
#include "tilewright/ops/core/schema.h"

namespace tw::kernels {
struct ScoreProgram;
}

namespace tw::ops {

/// A number given for a scalar argument.
struct Scalar {
  double number = 0;    // of any kind; of a choice the index
  int64_t integer = 0;  // the same, exact, where the kind is kInt, kBool or kChoice
};

/// One argument. A tensor is absent when `present` is false; a scalar then takes its default.
struct Slot : Scalar {
  bool present = false;
  TensorRef tensor;
  std::string text;                                      // of a text
  std::shared_ptr<const kernels::ScoreProgram> program;  // that it says, once a kernel is made
};

/// Values by name, for the handful of names in a schema: nothing is allocated, since every call
/// makes one. The names must outlive it.
template <class T>
class NamedValues {
 public:
  /// Null when there is none of this name.
  const T* find(std::string_view name) const {
    for (int i = 0; i < size_; ++i)
      if (names_[static_cast<size_t>(i)] == name) return &values_[static_cast<size_t>(i)];
    return nullptr;
  }
  /// Adds the value unless the name has one. Returns the name's value and whether it was added.
  std::pair<T, bool> emplace(std::string_view name, T value) {
    if (const T* found = find(name)) return {*found, false};
    if (size_ == kMaxNames) throw Error(ErrorKind::kInternal, "a schema has too many names");
    names_[static_cast<size_t>(size_)] = name;
    values_[static_cast<size_t>(size_++)] = value;
    return {value, true};
  }

 private:
  static constexpr int kMaxNames = 32;
  int size_ = 0;
  std::array<std::string_view, kMaxNames> names_;
  std::array<T, kMaxNames> values_;
};

/// Sizes bound to dimension names while validating.
struct Bindings {
  NamedValues<int64_t> dims;
  std::vector<int64_t> lead;  // sizes of `*`
  NamedValues<Scalar> scalars;

  /// The size of a bound dimension. Throws kInternal when nothing bound it.
  int64_t operator[](std::string_view name) const;
  /// A scalar's value. Throws kInternal when there is none of this name.
  double number(std::string_view name) const { return scalar(name).number; }
  /// The same of an integer, boolean or choice.
  int64_t integer(std::string_view name) const { return scalar(name).integer; }

 private:
  const Scalar& scalar(std::string_view name) const;
};

/// Slots of one call, in schema order.
class Call {
 public:
  explicit Call(const Schema& schema);

  const Schema& schema() const { return *schema_; }
  Slot& operator[](int i) { return slots_[static_cast<size_t>(i)]; }
  const Slot& operator[](int i) const { return slots_[static_cast<size_t>(i)]; }

  /// Sets an argument by name. Throws kInvalidArgument for a name the schema does not have, a
  /// tensor where a scalar belongs (or the reverse), or a choice that is not one of the choices.
  Call& set(std::string_view name, const TensorRef& tensor);
  Call& set(std::string_view name, double number);
  /// As above, for integers beyond 2^53.
  Call& set_integer(std::string_view name, int64_t integer);
  Call& set_choice(std::string_view name, std::string_view choice);
  /// A text, or a choice by its name.
  Call& set_text(std::string_view name, std::string_view text);

  /// Checks presence, dtypes, ranks and sizes of the inputs, fills defaults, and returns what the
  /// dimensions are bound to. Throws kInvalidArgument naming the argument and the rule.
  Bindings bind_inputs();
  /// As bind_inputs, and also that the outputs are given, fit and have their memory to themselves:
  /// `in_place` allows them to be the very same view as an input of their type and shape.
  Bindings bind(bool in_place);
  /// The shape of output argument i under these bindings.
  std::vector<int64_t> output_shape(int i, const Bindings& bindings) const;
  /// The dtype of argument i: fixed by the schema, or that of an input of its type variable. The
  /// inputs must have been bound.
  DType dtype_of_arg(int i) const;
  /// Where the call's tensors are: bind() refuses tensors on different devices.
  Device device() const;

  /// From here on messages name the tensors of `given`, which must outlive this call: the caller
  /// does not know those that a rearrangement makes of them.
  void name_tensors_of(const Call& given) { given_ = &given; }

 private:
  Slot& find(std::string_view name, bool tensor);
  void bind_type(const Arg& arg, const Slot& slot) const;
  void bind_broadcast(const Arg& arg, const Slot& slot);
  void bind_lead(const Arg& arg, const Slot& slot, Bindings& bindings) const;
  void bind_tensor(const Arg& arg, const Slot& slot, Device device, Bindings& bindings);
  int64_t computed_size(const Dim& dim, const Bindings& bindings) const;
  void check_device(const Arg& arg, const Slot& slot, Device device) const;
  /// The slot's tensor as the caller gave it.
  const TensorRef& given(const Slot& slot) const;
  [[noreturn]] void fail(const Arg& arg, const Slot& slot, const std::string& rule) const;
  [[noreturn]] void fail(const std::string& message) const;

  const Schema* schema_;
  const Call* given_ = nullptr;  // null: this one is as it was given
  std::vector<Slot> slots_;
  std::vector<int64_t> broadcast_;  // the shape that `...` stands for

  friend void broadcast_and_merge(Call& call);
};

/// Expands the `...` arguments to their common shape and merges dimensions that all of them allow,
/// so that they reach the kernel as Rows of equal shape.
void broadcast_and_merge(Call& call);

}  // namespace tw::ops
