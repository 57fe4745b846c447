#include "testing/op_call.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>

#include "testing/random.h"
#include "tilewright/core/printable.h"

namespace tw::testing {
namespace {

[[noreturn]] void bad_case(const ops::Schema& schema, const std::string& token) {
  throw Error(ErrorKind::kInvalidArgument, std::string(schema.name()) + ": case token '" +
                                               printable(token, 80) + "' fits nothing in " +
                                               std::string(schema.text()));
}

/// All of `text` as a number; a token of the case otherwise fits nothing.
template <class T>
T parse_number(const ops::Schema& schema, const std::string& token, std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size())
    bad_case(schema, token);
  return value;
}

/// Sizes with one separator between two; none in an empty text.
std::vector<int64_t> parse_sizes(const ops::Schema& schema, const std::string& token,
                                 std::string_view text, char separator) {
  std::vector<int64_t> out;
  for (size_t from = 0; !text.empty() && from <= text.size();) {
    const size_t end = std::min(text.find(separator, from), text.size());
    out.push_back(parse_number<int64_t>(schema, token, text.substr(from, end - from)));
    if (out.back() < 0) bad_case(schema, token);
    from = end + 1;
  }
  return out;
}

bool has_gaps(Layout layout) {
  return layout == Layout::kStrided || layout == Layout::kPaddedRows;
}

/// The elements from one row of kPaddedRows to the next: 16 to 31 bytes more than a row has.
int64_t padded(int64_t columns, DType dtype) {
  constexpr int64_t kUnit = 16;
  return (columns * element_size(dtype) / kUnit + 2) * kUnit / element_size(dtype);
}

/// Elements after which data repeats: to draw more would take longer than what is done with it.
/// Odd, so that rows differ; and some rows, which then have no number twice because of it, up to a
/// size.
int64_t period_of(std::span<const int64_t> shape) {
  constexpr int64_t kLeast = (1 << 16) + 1, kMost = (1 << 20) + 1;
  return shape.empty() ? kLeast : std::clamp(4 * std::min(shape.back(), kMost) + 1, kLeast, kMost);
}

}  // namespace

CaseSpec CaseSpec::parse(const ops::Schema& schema, std::string_view text) {
  CaseSpec spec;
  std::istringstream in{std::string(text)};
  std::string token;
  while (in >> token) {
    const auto find = [&](std::string_view name) -> const ops::Arg* {
      for (const ops::Arg& arg : schema)
        if (arg.name == name) return &arg;
      return nullptr;
    };
    if (token[0] == '+') {
      const ops::Arg* arg = find(token.substr(1));
      if (arg == nullptr || !arg->optional) bad_case(schema, token);
      spec.optionals.push_back(token.substr(1));
      continue;
    }
    const size_t equals = token.find('=');
    if (equals == std::string::npos) bad_case(schema, token);
    const std::string key = token.substr(0, equals), value = token.substr(equals + 1);
    if (key == "*") {
      spec.lead = parse_sizes(schema, token, value, 'x');
    } else if (const ops::Arg* arg = find(key); arg != nullptr) {
      if (arg->kind != ops::ArgKind::kTensor)
        spec.scalars[key] = value;
      else if (arg->is_broadcast() && value.starts_with('[') && value.ends_with(']'))
        spec.shapes[key] =
            parse_sizes(schema, token, std::string_view(value).substr(1, value.size() - 2), ',');
      else
        bad_case(schema, token);
    } else {
      const auto size = parse_number<int64_t>(schema, token, value);
      if (size < 0 || !spec.dims.emplace(key, size).second) bad_case(schema, token);
    }
  }
  return spec;
}

void CaseSpec::check_numbers(const runtime::OperatorInfo& op) const {
  std::map<std::string, size_t> cases_with;
  for (const auto& cases : {op.edge_cases, op.workloads})
    for (const ops::Case& one : cases)
      for (const auto& [name, number] : parse(*op.schema, one.text).dims) ++cases_with[name];
  for (const auto& [name, number] : dims)
    if (!cases_with.contains(name)) bad_case(*op.schema, name + "=" + std::to_string(number));
  for (const auto& [name, count] : cases_with)
    if (count == op.edge_cases.size() + op.workloads.size() && !dims.contains(name))
      throw Error(ErrorKind::kInvalidArgument, std::string(op.name()) +
                                                   ": the case does not say '" + name + "' of " +
                                                   std::string(op.schema->text()));
}

bool CaseSpec::passes(std::string_view optional) const {
  return std::find(optionals.begin(), optionals.end(), optional) != optionals.end();
}

TensorRef OpCall::make(std::span<const int64_t> shape, DType dtype, Layout layout, bool output) {
  TensorRef out;
  out.dtype = dtype;
  out.rank = static_cast<int>(shape.size());
  int64_t stride = layout == Layout::kStrided && out.rank > 0 ? 2 : 1;
  int64_t reach = 1;  // elements from the first to one past the last
  bool is_empty = false;
  for (size_t i = shape.size(); i-- > 0;) {
    const bool exchanged = layout == Layout::kTurned && shape.size() > 1 && i + 2 >= shape.size();
    const size_t d = exchanged ? 2 * shape.size() - 3 - i : i;
    out.sizes[d] = shape[d];
    out.strides[d] = stride;
    is_empty = is_empty || shape[d] == 0;
    reach += (shape[d] - 1) * stride;
    stride *= layout == Layout::kStrided ? shape[d] + 1 : shape[d];
    // The last row as well: the buffer's end is aligned, and so the first row is.
    if (layout == Layout::kPaddedRows && d + 1 == shape.size())
      reach = stride = padded(shape[d], dtype);
  }
  const int64_t bytes = is_empty ? 0 : reach * element_size(dtype);
  if (layout == Layout::kAligned) {
    kept_.push_back(Tensor::empty(shape, dtype));
    out.data = kept_.back().ref().data;
    poison(out.data, bytes, dtype);
    if (output) outputs_.push_back(out);
    return out;
  }
  buffers_.emplace_back(bytes);
  out.data = buffers_.back().data();
  poison(out.data, bytes, dtype);
  if (output) {
    outputs_.push_back(out);
    if (has_gaps(layout)) gapped_outputs_.emplace_back(out, buffers_.size() - 1);
  }
  return out;
}

ops::Bindings OpCall::set_scalars(const CaseSpec& spec) {
  ops::Bindings known;
  for (const auto& [name, size] : spec.dims) known.dims.emplace(name, size);
  known.lead = spec.lead;
  for (int i = 0; i < call_.schema().size(); ++i) {
    const ops::Arg& arg = call_.schema()[i];
    if (arg.kind == ops::ArgKind::kTensor) continue;
    const auto it = spec.scalars.find(std::string(arg.name));
    if (it == spec.scalars.end()) continue;
    if (arg.kind == ops::ArgKind::kChoice || arg.kind == ops::ArgKind::kText)
      call_.set_text(arg.name, it->second);
    else if (arg.kind == ops::ArgKind::kInt)
      call_.set_integer(arg.name, parse_number<int64_t>(call_.schema(),
                                                        it->first + "=" + it->second, it->second));
    else
      call_.set(arg.name,
                parse_number<double>(call_.schema(), it->first + "=" + it->second, it->second));
    known.scalars.emplace(it->first, call_[i]);
  }
  return known;
}

TensorRef OpCall::take(const Tensor& made, Layout layout) {
  kept_.push_back(made);
  // Bytes are an opaque object with a header, which stays in one piece.
  const bool lies_so = layout == Layout::kContiguous || layout == Layout::kAligned;
  if (made.dtype() == DType::kU8 || lies_so) return made.ref();
  const TensorRef copy = make(made.ref().shape(), made.dtype(), layout, false);
  const auto* from = static_cast<const std::byte*>(made.ref().data);
  for_each_place(copy, [&, size = element_size(copy.dtype)](int64_t place) {
    std::copy_n(from, size, static_cast<std::byte*>(copy.data) + place);
    from += size;
  });
  return copy;
}

TensorRef OpCall::make_random(std::span<const int64_t> shape, DType dtype, Layout layout,
                              uint64_t seed) {
  const TensorRef tensor = make(shape, dtype, layout, false);
  Random data(seed);
  const bool floating = info(dtype).kind == DTypeKind::kFloat;
  fill(tensor, period_of(shape),
       [&] { return floating ? data.normal() : double(data.below(101) - 50); });
  return tensor;
}

OpCall::OpCall(const runtime::OperatorInfo& op, std::span<const DType> combo, const CaseSpec& spec,
               uint64_t seed, Layout layout)
    : call_(*op.schema) {
  const ops::Bindings known = set_scalars(spec);
  Random random(seed);
  for (int i = 0; i < op.schema->size(); ++i) {
    const ops::Arg& arg = (*op.schema)[i];
    const uint64_t arg_seed = random.next();
    if (arg.output || arg.kind != ops::ArgKind::kTensor) continue;
    if (arg.optional && !spec.passes(arg.name)) continue;
    if (const auto made = op.materialize(arg.name, known, combo, arg_seed)) {
      call_.set(arg.name, take(*made, layout));
      continue;
    }
    const DType dtype =
        arg.is_type_variable() ? combo[static_cast<size_t>(arg.variable)] : arg.dtype;
    const auto it = spec.shapes.find(std::string(arg.name));
    if (arg.is_broadcast() && it == spec.shapes.end())
      bad_case(*op.schema, std::string(arg.name) + "=[?]");
    for (const ops::Dim& dim : std::span(arg.dims, size_t(arg.rank)))
      if (dim.kind == ops::Dim::Kind::kNamed && known.dims.find(dim.name) == nullptr)
        bad_case(*op.schema, std::string(dim.name) + "=?");
    call_.set(arg.name, make_random(arg.is_broadcast() ? it->second : call_.output_shape(i, known),
                                    dtype, layout, arg_seed));
  }

  const std::vector<std::vector<int64_t>> shapes = op.infer(call_);
  size_t next = 0;
  for (int i = 0; i < op.schema->size(); ++i) {
    const ops::Arg& arg = (*op.schema)[i];
    if (!arg.output) continue;
    const std::vector<int64_t>& shape = shapes[next++];
    if (arg.optional && !spec.passes(arg.name)) continue;
    call_.set(arg.name, make(shape, call_.dtype_of_arg(i), layout, true));
  }
}

void OpCall::rebase(TensorRef& tensor, const OpCall& other) const {
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (tensor.data == other.buffers_[i].data()) tensor.data = buffers_[i].data();
  for (size_t i = 0; i < kept_.size(); ++i)
    if (tensor.data == other.kept_[i].ref().data) tensor.data = kept_[i].ref().data;
}

OpCall::OpCall(const OpCall& other)
    : call_(other.call_), gapped_outputs_(other.gapped_outputs_), outputs_(other.outputs_) {
  for (const GuardedBuffer& buffer : other.buffers_) {
    const void* const data = buffer.data();
    std::memcpy(buffers_.emplace_back(buffer.bytes()).data(), data, size_t(buffer.bytes()));
  }
  for (const Tensor& tensor : other.kept_) {
    kept_.push_back(Tensor::empty(tensor.ref().shape(), tensor.dtype()));
    std::memcpy(kept_.back().ref().data, tensor.ref().data, size_t(tensor.bytes()));
  }
  for (int i = 0; i < call_.schema().size(); ++i)
    if (call_.schema()[i].kind == ops::ArgKind::kTensor) rebase(call_[i].tensor, other);
  for (TensorRef& output : outputs_) rebase(output, other);
  for (auto& [output, buffer] : gapped_outputs_) rebase(output, other);
}

bool OpCall::padding_intact() const {
  for (const GuardedBuffer& buffer : buffers_)
    if (!buffer.front_intact()) return false;
  for (const auto& [tensor, index] : gapped_outputs_) {
    const GuardedBuffer& buffer = buffers_[index];
    const auto bytes = static_cast<size_t>(buffer.bytes());
    std::vector<std::byte> expected(bytes);  // the elements as they are, poison between them
    poison(expected.data(), buffer.bytes(), tensor.dtype);
    const auto* const got = static_cast<const std::byte*>(buffer.data());
    for_each_place(tensor, [&, size = element_size(tensor.dtype)](int64_t place) {
      std::copy_n(got + place, size, expected.data() + place);
    });
    if (bytes > 0 && std::memcmp(got, expected.data(), bytes) != 0) return false;
  }
  return true;
}

}  // namespace tw::testing
