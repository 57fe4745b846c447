#include "testing/op_call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
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

/// Calls f with a typed null pointer of the dtype's element type.
template <class F>
auto visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
#define TW_CASE(id, name, kind, type) \
  case DType::id:                     \
    return f(static_cast<type*>(nullptr));
    TW_FOR_EACH_SCALAR_DTYPE(TW_CASE)
#undef TW_CASE
    default:
      throw Error(ErrorKind::kInternal, "not a scalar dtype");
  }
}

int64_t offset_of(const TensorRef& tensor, int64_t i) {
  int64_t offset = 0;
  for (size_t d = static_cast<size_t>(tensor.rank); d-- > 0;) {
    offset += (i % tensor.sizes[d]) * tensor.strides[d];
    i /= tensor.sizes[d];
  }
  return offset;
}

bool has_gaps(Layout layout) {
  return layout == Layout::kStrided || layout == Layout::kPaddedRows;
}

/// The elements from one row of kPaddedRows to the next: 16 to 31 bytes more than a row has.
int64_t padded(int64_t columns, DType dtype) {
  constexpr int64_t kUnit = 16;
  return (columns * element_size(dtype) / kUnit + 2) * kUnit / element_size(dtype);
}

void poison(void* data, int64_t bytes, DType dtype) {
  visit_dtype(dtype, [&]<class T>(T*) {
    T value;
    if constexpr (std::is_integral_v<T>)
      value = std::is_same_v<T, bool> ? T(1) : T(0x5B);
    else
      value = T(std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < bytes / int64_t{sizeof(T)}; ++i)
      std::memcpy(static_cast<T*>(data) + i, &value, sizeof(T));
  });
}

/// The first `count` elements, in order, become draw().
template <class F>
void fill(const TensorRef& tensor, int64_t count, F&& draw) {
  visit_dtype(tensor.dtype, [&]<class T>(T*) {
    std::array<int64_t, kMaxRank> at{};
    T* element = static_cast<T*>(tensor.data);
    for (int64_t i = 0; i < count; ++i) {
      const double value = draw();
      if constexpr (std::is_integral_v<T>)  // integers wrap; a double out of range is undefined
        *element = static_cast<T>(static_cast<int64_t>(value));
      else
        *element = static_cast<T>(value);
      for (auto d = size_t(tensor.rank); i + 1 < count && d-- > 0;) {  // to the next one
        element += tensor.strides[d];
        if (++at[d] < tensor.sizes[d]) break;
        element -= tensor.sizes[d] * tensor.strides[d];
        at[d] = 0;
      }
    }
  });
}

/// Elements after which a benchmark's data may repeat: drawing more would take longer than timing.
constexpr int64_t kPeriod = (1 << 20) + 1;

/// Fills `bytes` with copies of the first `period` of them.
void repeat(void* data, int64_t bytes, int64_t period) {
  auto* const at = static_cast<std::byte*>(data);
  for (int64_t done = period; done < bytes; done += std::min(done, bytes - done))
    std::memcpy(at + done, at, static_cast<size_t>(std::min(done, bytes - done)));
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

double element(const TensorRef& tensor, int64_t i) {
  return visit_dtype(tensor.dtype, [&]<class T>(T*) {
    return static_cast<double>(static_cast<const T*>(tensor.data)[offset_of(tensor, i)]);
  });
}

TensorRef OpCall::make(std::span<const int64_t> shape, DType dtype, Layout layout, bool output) {
  TensorRef out;
  out.dtype = dtype;
  out.rank = static_cast<int>(shape.size());
  int64_t stride = layout == Layout::kStrided && out.rank > 0 ? 2 : 1;
  int64_t reach = 1;  // elements from the first to one past the last
  bool is_empty = false;
  for (size_t d = shape.size(); d-- > 0;) {
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
    poison(out.data, std::min(bytes, kPeriod * element_size(dtype)), dtype);
    repeat(out.data, bytes, kPeriod * element_size(dtype));
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
  if (made.dtype() == DType::kU8 || !has_gaps(layout)) return made.ref();
  const TensorRef copy = make(made.ref().shape(), made.dtype(), layout, false);
  fill(copy, copy.count(), [&, e = int64_t{0}]() mutable { return element(made.ref(), e++); });
  return copy;
}

TensorRef OpCall::make_random(std::span<const int64_t> shape, DType dtype, Layout layout,
                              uint64_t seed) {
  const TensorRef tensor = make(shape, dtype, layout, false);
  Random data(seed);
  const bool floating = info(dtype).kind == DTypeKind::kFloat;
  const int64_t count = tensor.count();
  const int64_t drawn = layout == Layout::kAligned ? std::min(count, kPeriod) : count;
  fill(tensor, drawn, [&] { return floating ? data.normal() : double(data.below(101) - 50); });
  if (drawn < count) repeat(tensor.data, count * element_size(dtype), drawn * element_size(dtype));
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

bool OpCall::padding_intact() const {
  for (const GuardedBuffer& buffer : buffers_)
    if (!buffer.front_intact()) return false;
  for (const auto& [tensor, index] : gapped_outputs_) {
    const GuardedBuffer& buffer = buffers_[index];
    const int64_t size = element_size(tensor.dtype), n = buffer.bytes() / size;
    std::vector<bool> own(static_cast<size_t>(n), false);
    for (int64_t i = 0, count = n > 0 ? tensor.count() : 0; i < count; ++i)
      own[static_cast<size_t>(offset_of(tensor, i))] = true;
    std::vector<std::byte> expected(static_cast<size_t>(buffer.bytes()));
    poison(expected.data(), buffer.bytes(), tensor.dtype);
    for (int64_t i = 0; i < n; ++i)
      if (!own[static_cast<size_t>(i)] &&
          std::memcmp(static_cast<const std::byte*>(buffer.data()) + i * size,
                      expected.data() + i * size, static_cast<size_t>(size)) != 0)
        return false;
  }
  return true;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1e-3;
    case DType::kBf16:
      return 1.6e-2;
    case DType::kF64:
      return 1e-12;
    case DType::kF8E4m3fn:
      return 1e-1;
    case DType::kF8E5m2:
      return 2e-1;
    default:
      return 1e-5;
  }
}

Comparison compare(const TensorRef& got, const TensorRef& want, double tolerance) {
  Comparison out;
  const int64_t n = want.count();
  double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double w = element(want, i);
    if (!std::isfinite(w)) continue;
    squares += w * w;
    ++finite;
  }
  const double rms = finite > 0 ? std::sqrt(squares / double(finite)) : 0;
  const bool exact = info(want.dtype).kind != DTypeKind::kFloat;
  for (int64_t i = 0; i < n; ++i) {
    const double g = element(got, i), w = element(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double allowed = exact ? 0 : tolerance * (std::abs(w) + rms);
    const double error = std::abs(g - w) / allowed;
    if (error <= 1) {
      out.worst = std::max(out.worst, error);
      continue;
    }
    if (out.ok) {
      std::ostringstream text;
      text.precision(9);
      text << "element " << i << " of " << want.describe() << " is " << g << ", expected " << w
           << " (allowed difference " << allowed << ")";
      out.message = text.str();
    }
    out.ok = false;
    out.worst = std::isnan(error) ? INFINITY : std::max(out.worst, error);
  }
  return out;
}

}  // namespace tw::testing
