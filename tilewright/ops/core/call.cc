#include "tilewright/ops/core/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "tilewright/ops/core/overlap.h"

namespace tw::ops {

int64_t Bindings::operator[](std::string_view name) const {
  const int64_t* size = dims.find(name);
  if (size == nullptr)
    throw Error(ErrorKind::kInternal, "dimension " + std::string(name) + " is not bound");
  return *size;
}

const Scalar& Bindings::scalar(std::string_view name) const {
  const Scalar* value = scalars.find(name);
  if (value == nullptr)
    throw Error(ErrorKind::kInternal, "no scalar argument " + std::string(name));
  return *value;
}

Call::Call(const Schema& schema) : schema_(&schema), slots_(static_cast<size_t>(schema.size())) {}

const TensorRef& Call::given(const Slot& slot) const {
  if (given_ == nullptr) return slot.tensor;
  return (*given_)[static_cast<int>(&slot - slots_.data())].tensor;
}

void Call::fail(const Arg& arg, const Slot& slot, const std::string& rule) const {
  fail(std::string(arg.name) + " is " + given(slot).describe() + ", " + rule);
}

void Call::fail(const std::string& message) const {
  throw Error(ErrorKind::kInvalidArgument, std::string(schema_->name()) + ": " + message +
                                               "\n  in " + std::string(schema_->text()));
}

Slot& Call::find(std::string_view name, bool tensor) {
  for (int i = 0; i < schema_->size(); ++i) {
    if ((*schema_)[i].name != name) continue;
    if (((*schema_)[i].kind == ArgKind::kTensor) != tensor)
      fail(std::string(name) +
           (tensor ? " is a scalar, not a tensor" : " is a tensor, not a scalar"));
    return (*this)[i];
  }
  fail("there is no argument " + std::string(name));
}

Call& Call::set(std::string_view name, const TensorRef& tensor) {
  Slot& slot = find(name, true);
  slot.present = true;
  slot.tensor = tensor;
  return *this;
}

Call& Call::set(std::string_view name, double number) {
  Slot& slot = find(name, false);
  const Arg& arg = (*schema_)[static_cast<int>(&slot - slots_.data())];
  if (arg.kind == ArgKind::kText) fail(std::string(name) + " is a text, not a number");
  constexpr double kMost = 9.2e18;  // less than 2^63
  if (arg.kind != ArgKind::kFloat && !(std::abs(number) < kMost && number == std::floor(number)))
    fail(std::string(name) + " = " + std::to_string(number) + " must be an integer of 64 bits");
  slot.present = true;
  slot.number = number;
  if (arg.kind != ArgKind::kFloat) slot.integer = static_cast<int64_t>(number);
  return *this;
}

Call& Call::set_integer(std::string_view name, int64_t integer) {
  Slot& slot = find(name, false);
  if ((*schema_)[static_cast<int>(&slot - slots_.data())].kind == ArgKind::kText)
    fail(std::string(name) + " is a text, not a number");
  slot.present = true;
  slot.number = static_cast<double>(integer);
  slot.integer = integer;
  return *this;
}

Call& Call::set_choice(std::string_view name, std::string_view choice) {
  for (const Arg& arg : *schema_) {
    if (arg.name != name || arg.kind != ArgKind::kChoice) continue;
    const int index = choice_index(arg.type, choice);
    if (index < 0)
      fail(std::string(name) + " = " + std::string(choice) + " is not one of " +
           std::string(arg.type));
    return set(name, index);
  }
  fail("there is no choice argument " + std::string(name));
}

Call& Call::set_text(std::string_view name, std::string_view text) {
  for (int i = 0; i < schema_->size(); ++i) {
    if ((*schema_)[i].name != name || (*schema_)[i].kind != ArgKind::kText) continue;
    (*this)[i].present = true;
    (*this)[i].text = text;
    return *this;
  }
  return set_choice(name, text);
}

DType Call::dtype_of_arg(int i) const {
  const Arg& arg = (*schema_)[i];
  if (!arg.is_type_variable()) return arg.dtype;
  for (int j = 0; j < schema_->size(); ++j) {
    const Arg& in = (*schema_)[j];
    if (!in.output && in.variable == arg.variable && (*this)[j].present)
      return (*this)[j].tensor.dtype;
  }
  fail("the dtype " + std::string(arg.type) + " of " + std::string(arg.name) +
       " is given by no argument");
}

Device Call::device() const {
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& arg = (*schema_)[i];
    if (arg.kind == ArgKind::kTensor && !arg.is_host_list() && (*this)[i].present)
      return (*this)[i].tensor.device;
  }
  return {};
}

void Call::check_device(const Arg& arg, const Slot& slot, Device device) const {
  if (arg.is_host_list()) {
    if (slot.tensor.device.is_cuda())
      fail(arg, slot, "but it decides the result's shape and must be on the cpu");
    return;
  }
  if (slot.tensor.device == device) return;
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& first = (*schema_)[i];
    if (first.kind != ArgKind::kTensor || first.is_host_list() || !(*this)[i].present) continue;
    fail(arg, slot,
         "but " + std::string(first.name) + " is " + given((*this)[i]).describe() +
             "; all must be on one device");
  }
}

void Call::bind_type(const Arg& arg, const Slot& slot) const {
  if (!arg.is_type_variable()) {
    if (slot.tensor.dtype != arg.dtype)
      fail(arg, slot, "but its dtype must be " + std::string(arg.type));
    return;
  }
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& first = (*schema_)[i];
    if (first.variable != arg.variable || !(*this)[i].present) continue;
    const DType dtype = (*this)[i].tensor.dtype;
    if (slot.tensor.dtype != dtype)
      fail(arg, slot, "but " + std::string(first.name) + " is " + std::string(name(dtype)));
    return;
  }
}

void Call::bind_broadcast(const Arg& arg, const Slot& slot) {
  const TensorRef& tensor = slot.tensor;
  const auto rank = static_cast<size_t>(tensor.rank);
  if (broadcast_.size() < rank) broadcast_.insert(broadcast_.begin(), rank - broadcast_.size(), 1);
  for (size_t d = 0; d < rank; ++d) {
    int64_t& common = broadcast_[broadcast_.size() - rank + d];
    const int64_t size = tensor.sizes[d];
    if (size == common || size == 1) continue;
    if (common != 1) fail(arg, slot, "which does not broadcast to " + shape_to_string(broadcast_));
    common = size;
  }
}

void Call::bind_lead(const Arg& arg, const Slot& slot, Bindings& bindings) const {
  const TensorRef& tensor = slot.tensor;
  const auto sizes = tensor.shape().first(static_cast<size_t>(tensor.rank - (arg.rank - 1)));
  if (bindings.dims.emplace("*", 0).second)
    bindings.lead.assign(sizes.begin(), sizes.end());
  else if (!std::equal(sizes.begin(), sizes.end(), bindings.lead.begin(), bindings.lead.end()))
    fail(arg, slot,
         (given_ == nullptr ? "but the leading dimensions are " : "but * = ") +
             shape_to_string(bindings.lead));
}

void Call::bind_tensor(const Arg& arg, const Slot& slot, Device device, Bindings& bindings) {
  const TensorRef& tensor = slot.tensor;
  check_device(arg, slot, device);
  for (int64_t size : tensor.shape())
    if (size < 0) fail(arg, slot, "but sizes cannot be negative");
  if (tensor.data == nullptr && tensor.count() != 0)
    fail(arg, slot, "but its data pointer is null");
  if (arg.is_broadcast()) return bind_broadcast(arg, slot);

  const int lead = arg.has_lead() ? 1 : 0;
  const int fixed = arg.rank - lead;
  if (lead ? tensor.rank < fixed : tensor.rank != fixed)
    fail(arg, slot,
         std::string("but ") + (lead ? "at least " : "") + std::to_string(fixed) +
             (fixed == 1 ? " dimension is" : " dimensions are") + " needed");
  if (lead) bind_lead(arg, slot, bindings);
  const auto extra = static_cast<size_t>(tensor.rank - fixed);
  for (int d = 0; d < fixed; ++d) {
    const Dim& dim = arg.dims[d + lead];
    const size_t at = extra + static_cast<size_t>(d);
    const int64_t size = tensor.sizes[at];
    if (dim.kind == Dim::Kind::kFixed) {
      if (size != dim.factor)
        fail(arg, slot,
             "but dimension " + std::to_string(at) + " must be " + std::to_string(dim.factor));
      continue;
    }
    if (schema_->is_computed(dim)) {
      if (const int64_t wanted = computed_size(dim, bindings); size != wanted)
        fail(arg, slot, "but " + std::string(dim.text) + " = " + std::to_string(wanted));
      continue;
    }
    if (size % dim.factor != 0)
      fail(arg, slot,
           "but its size " + std::to_string(size) + " must be a multiple of " +
               std::to_string(dim.factor));
    const auto [bound, inserted] = bindings.dims.emplace(dim.name, size / dim.factor);
    if (!inserted && bound * dim.factor != size)
      fail(arg, slot, "but " + std::string(dim.name) + " = " + std::to_string(bound));
  }
}

int64_t Call::computed_size(const Dim& dim, const Bindings& bindings) const {
  const auto number = [&](std::string_view name, int64_t least) {
    const int64_t value = bindings.integer(name);
    if (value < least)
      fail(std::string(name) + " = " + std::to_string(value) + " must be at least " +
           std::to_string(least));
    return value;
  };
  const int64_t size = schema_->is_int(dim.name) ? number(dim.name, 0) : bindings[dim.name];
  if (dim.divisor.empty()) return size;
  const int64_t divisor = number(dim.divisor, 1);
  return size / divisor + (size % divisor != 0) + dim.addend;
}

Bindings Call::bind_inputs() {
  Bindings bindings;
  broadcast_.clear();
  const Device device = this->device();
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& arg = (*schema_)[i];
    Slot& slot = (*this)[i];
    if (arg.output) continue;
    if (!slot.present && !arg.may_be_left_out()) fail(std::string(arg.name) + " is missing");
    if (arg.kind != ArgKind::kTensor) {
      if (!slot.present) {
        slot.number = arg.default_number;
        if (arg.kind != ArgKind::kFloat) slot.integer = static_cast<int64_t>(arg.default_number);
      }
      bindings.scalars.emplace(arg.name, slot);
    } else if (slot.present) {
      bind_type(arg, slot);
      bind_tensor(arg, slot, device, bindings);
    }
  }
  return bindings;
}

Bindings Call::bind(bool in_place) {
  Bindings bindings = bind_inputs();
  const Device device = this->device();
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& arg = (*schema_)[i];
    const Slot& slot = (*this)[i];
    if (!arg.output) continue;
    if (!slot.present) {
      if (!arg.optional) fail(std::string(arg.name) + " is missing");
      continue;
    }
    if (slot.tensor.dtype != dtype_of_arg(i))
      fail(arg, slot, "but its dtype must be " + std::string(name(dtype_of_arg(i))));
    if (arg.is_broadcast()) {
      const auto shape = slot.tensor.shape();
      if (!std::equal(shape.begin(), shape.end(), broadcast_.begin(), broadcast_.end()))
        fail(arg, slot, "but the inputs broadcast to " + shape_to_string(broadcast_));
    }
    bind_tensor(arg, slot, device, bindings);
    const std::string rule = misplaced(*this, i, in_place);
    if (!rule.empty()) fail(arg, slot, rule);
  }
  return bindings;
}

std::vector<int64_t> Call::output_shape(int i, const Bindings& bindings) const {
  const Arg& arg = (*schema_)[i];
  if (arg.is_broadcast()) return broadcast_;
  std::vector<int64_t> shape;
  for (int d = 0; d < arg.rank; ++d) {
    const Dim& dim = arg.dims[d];
    if (dim.kind == Dim::Kind::kLead)
      shape.insert(shape.end(), bindings.lead.begin(), bindings.lead.end());
    else if (dim.kind == Dim::Kind::kFixed)
      shape.push_back(dim.factor);
    else if (schema_->is_computed(dim))
      shape.push_back(computed_size(dim, bindings));
    else
      shape.push_back(checked_mul(bindings[dim.name], dim.factor));
  }
  return shape;
}

void broadcast_and_merge(Call& call) {
  const std::vector<int64_t>& common = call.broadcast_;
  const size_t rank = common.size();
  if (rank > static_cast<size_t>(kMaxRank)) call.fail("too many dimensions to broadcast");
  std::array<TensorRef*, Schema::kMaxArgs> all;
  size_t count = 0;
  for (int i = 0; i < call.schema().size(); ++i) {
    if (!call.schema()[i].is_broadcast() || !call[i].present) continue;
    TensorRef& tensor = call[i].tensor;
    const size_t own = static_cast<size_t>(tensor.rank);
    TensorRef wide = tensor;
    for (size_t d = 0; d < rank; ++d) {
      const bool there = d + own >= rank;
      const size_t from = there ? d + own - rank : 0;
      wide.sizes[d] = common[d];
      wide.strides[d] = there && tensor.sizes[from] == common[d] ? tensor.strides[from] : 0;
    }
    wide.rank = static_cast<int>(rank);
    tensor = wide;
    all[count++] = &tensor;
  }
  const std::span<TensorRef*> tensors(all.data(), count);
  // Merge from the inside: d joins d + 1 where every tensor steps through both as through one.
  for (size_t d = rank; d-- > 1;) {
    const size_t a = d - 1, b = d;
    const bool mergeable = std::all_of(tensors.begin(), tensors.end(), [&](const TensorRef* t) {
      return t->sizes[a] == 1 || t->sizes[b] == 1 || t->strides[a] == t->strides[b] * t->sizes[b];
    });
    if (!mergeable) continue;
    for (TensorRef* t : tensors) {
      if (t->sizes[b] == 1) t->strides[b] = t->strides[a];
      t->sizes[b] *= t->sizes[a];
      for (size_t e = a; e + 1 < static_cast<size_t>(t->rank); ++e) {
        t->sizes[e] = t->sizes[e + 1];
        t->strides[e] = t->strides[e + 1];
      }
      --t->rank;
    }
  }
}

}  // namespace tw::ops
