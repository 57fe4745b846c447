#include "tilewright/ops/core/call.h"

#include <algorithm>
#include <charconv>

namespace tw::ops {
namespace {

/// Index of `choice` in "a|b|c", or -1.
int choice_index(std::string_view choices, std::string_view choice) {
  int index = 0;
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    std::string_view one = choices.substr(0, bar);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
    if (one == choice) return index;
    ++index;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return -1;
}

double parse_default(const Arg& arg) {
  if (arg.kind == ArgKind::kChoice) return choice_index(arg.type, arg.default_text);
  if (arg.default_text == "true") return 1;
  if (arg.default_text == "false") return 0;
  return std::stod(std::string(arg.default_text));
}

}  // namespace

int64_t Bindings::operator[](std::string_view name) const {
  const auto it = dims.find(name);
  if (it == dims.end())
    throw Error(ErrorKind::kInternal, "dimension " + std::string(name) + " is not bound");
  return it->second;
}

double Bindings::scalar(std::string_view name) const {
  const auto it = scalars.find(name);
  if (it == scalars.end())
    throw Error(ErrorKind::kInternal, "no scalar argument " + std::string(name));
  return it->second;
}

Call::Call(const Schema& schema) : schema_(&schema), slots_(static_cast<size_t>(schema.size())) {}

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
  slot.present = true;
  slot.number = number;
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

DType Call::dtype_of_arg(int i) const {
  const Arg& arg = (*schema_)[i];
  DType out = DType::kF32;
  if (!arg.is_type_variable()) {
    find_dtype(arg.type, out);
    return out;
  }
  for (int j = 0; j < schema_->size(); ++j)
    if ((*schema_)[j].type == arg.type && slots_[static_cast<size_t>(j)].present)
      return slots_[static_cast<size_t>(j)].tensor.dtype;
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

void Call::check_device(const Arg& arg, const Slot& slot) const {
  const Device there = slot.tensor.device;
  if (arg.is_host_list()) {
    if (there.is_cuda())
      fail(std::string(arg.name) + " is " + slot.tensor.describe() +
           ", but it decides the result's shape and must be on the cpu");
    return;
  }
  if (there == device()) return;
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& first = (*schema_)[i];
    if (first.kind != ArgKind::kTensor || first.is_host_list() || !(*this)[i].present) continue;
    fail(std::string(arg.name) + " is " + slot.tensor.describe() + ", but " +
         std::string(first.name) + " is " + (*this)[i].tensor.describe() +
         "; all must be on one device");
  }
}

void Call::bind_tensor(const Arg& arg, const Slot& slot, Bindings& bindings,
                       std::vector<int64_t>& broadcast) const {
  const TensorRef& tensor = slot.tensor;
  check_device(arg, slot);
  // Only failures say it: this runs in every call.
  const auto what = [&] { return std::string(arg.name) + " is " + tensor.describe(); };
  for (int64_t size : tensor.shape())
    if (size < 0) fail(what() + ", but sizes cannot be negative");
  if (tensor.data == nullptr && tensor.count() != 0)
    fail(what() + ", but its data pointer is null");

  if (arg.is_broadcast()) {
    const size_t rank = static_cast<size_t>(tensor.rank);
    if (broadcast.size() < rank) broadcast.insert(broadcast.begin(), rank - broadcast.size(), 1);
    for (size_t d = 0; d < rank; ++d) {
      int64_t& common = broadcast[broadcast.size() - rank + d];
      const int64_t size = tensor.sizes[d];
      if (size == common || size == 1) continue;
      if (common != 1) fail(what() + ", which does not broadcast to " + shape_to_string(broadcast));
      common = size;
    }
    return;
  }

  const int lead = arg.has_lead() ? 1 : 0;
  const int fixed = arg.rank - lead;
  if (lead ? tensor.rank < fixed : tensor.rank != fixed)
    fail(what() + ", but " + (lead ? "at least " : "") + std::to_string(fixed) +
         (fixed == 1 ? " dimension is" : " dimensions are") + " needed");
  const size_t extra = static_cast<size_t>(tensor.rank - fixed);
  if (lead) {
    const std::vector<int64_t> sizes(tensor.sizes.begin(),
                                     tensor.sizes.begin() + static_cast<std::ptrdiff_t>(extra));
    if (bindings.dims.emplace("*", 0).second)
      bindings.lead = sizes;
    else if (bindings.lead != sizes)
      fail(what() + ", but the leading dimensions are " + shape_to_string(bindings.lead));
  }
  for (int d = 0; d < fixed; ++d) {
    const Dim& dim = arg.dims[d + lead];
    const int64_t size = tensor.sizes[extra + static_cast<size_t>(d)];
    if (dim.kind == Dim::Kind::kFixed) {
      if (size != dim.factor)
        fail(what() + ", but dimension " + std::to_string(extra + static_cast<size_t>(d)) +
             " must be " + std::to_string(dim.factor));
      continue;
    }
    const std::string dim_name(dim.name);
    if (size % dim.factor != 0)
      fail(what() + ", but its size " + std::to_string(size) + " must be a multiple of " +
           std::to_string(dim.factor));
    const auto [it, inserted] = bindings.dims.emplace(dim_name, size / dim.factor);
    if (!inserted && it->second * dim.factor != size)
      fail(what() + ", but " + dim_name + " = " + std::to_string(it->second));
  }
}

Bindings Call::bind_inputs() {
  Bindings bindings;
  broadcast_.clear();
  std::map<std::string_view, std::pair<DType, std::string_view>> types;
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& arg = (*schema_)[i];
    Slot& slot = (*this)[i];
    if (arg.output) continue;
    if (arg.kind != ArgKind::kTensor) {
      if (!slot.present) {
        if (arg.default_text.empty()) fail(std::string(arg.name) + " is missing");
        slot.number = parse_default(arg);
      }
      bindings.scalars[std::string(arg.name)] = slot.number;
      continue;
    }
    if (!slot.present) {
      if (!arg.optional) fail(std::string(arg.name) + " is missing");
      continue;
    }
    if (arg.is_type_variable()) {
      const auto [it, inserted] = types.emplace(arg.type, std::pair{slot.tensor.dtype, arg.name});
      if (!inserted && it->second.first != slot.tensor.dtype)
        fail(std::string(arg.name) + " is " + slot.tensor.describe() + ", but " +
             std::string(it->second.second) + " is " + std::string(name(it->second.first)));
    } else if (name(slot.tensor.dtype) != arg.type) {
      fail(std::string(arg.name) + " is " + slot.tensor.describe() + ", but its dtype must be " +
           std::string(arg.type));
    }
    bind_tensor(arg, slot, bindings, broadcast_);
  }
  return bindings;
}

Bindings Call::bind() {
  Bindings bindings = bind_inputs();
  for (int i = 0; i < schema_->size(); ++i) {
    const Arg& arg = (*schema_)[i];
    const Slot& slot = (*this)[i];
    if (!arg.output) continue;
    if (!slot.present) {
      if (!arg.optional) fail(std::string(arg.name) + " is missing");
      continue;
    }
    if (slot.tensor.dtype != dtype_of_arg(i))
      fail(std::string(arg.name) + " is " + slot.tensor.describe() + ", but its dtype must be " +
           std::string(name(dtype_of_arg(i))));
    if (arg.is_broadcast()) {
      const auto shape = slot.tensor.shape();
      if (!std::equal(shape.begin(), shape.end(), broadcast_.begin(), broadcast_.end()))
        fail(std::string(arg.name) + " is " + slot.tensor.describe() +
             ", but the inputs broadcast to " + shape_to_string(broadcast_));
    }
    bind_tensor(arg, slot, bindings, broadcast_);
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
    else
      shape.push_back(checked_mul(bindings[dim.name], dim.factor));
  }
  return shape;
}

void broadcast_and_merge(Call& call) {
  const std::vector<int64_t> common = call.broadcast_;
  const size_t rank = common.size();
  if (rank > static_cast<size_t>(kMaxRank)) call.fail("too many dimensions to broadcast");
  std::vector<TensorRef*> tensors;
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
    tensors.push_back(&tensor);
  }
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
