#include "testing/elements.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <sstream>
#include <type_traits>

namespace tw::testing {
namespace {

/// Squares of what is finite, and how many there are.
struct Squares {
  double sum = 0;
  int64_t finite = 0;

  template <class T>
  void add(const T* at, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i, at += stride) {
      const auto value = static_cast<double>(*at);
      if (!std::isfinite(value)) continue;
      sum += value * value;
      ++finite;
    }
  }
  double rms() const { return finite > 0 ? std::sqrt(sum / double(finite)) : 0; }
};

}  // namespace

double rms(const TensorRef& tensor) {
  return visit_dtype(tensor.dtype, [&]<class T>(T*) {
    Squares all;
    RowWalk row(tensor);
    for (int64_t left = tensor.count(); left > 0; left -= row.columns(), row.next())
      all.add(static_cast<const T*>(tensor.data) + row.offset(), row.columns(), row.stride());
    return all.rms();
  });
}

namespace {

/// Two numbers of T differ by so much at least.
template <class T>
double smallest() {
  if constexpr (std::is_same_v<T, double>) return std::numeric_limits<double>::denorm_min();
  const int bits = std::is_same_v<T, f16>         ? -24
                   : std::is_same_v<T, f8_e4m3fn> ? -9
                   : std::is_same_v<T, f8_e5m2>   ? -16
                   : std::is_same_v<T, bf16>      ? -133
                                                  : -149;
  return std::ldexp(1.0, bits);
}

std::string message(int64_t i, const TensorRef& want, double g, double w, double allowed) {
  std::ostringstream text;
  text.precision(9);
  text << "element " << i << " of " << want.describe() << " is " << g << ", expected " << w
       << " (allowed difference " << allowed << ")";
  return text.str();
}

/// Fills `bytes` with copies of the first `period` of them.
void repeat(void* data, int64_t bytes, int64_t period) {
  auto* const at = static_cast<std::byte*>(data);
  for (int64_t done = period; done < bytes; done += std::min(done, bytes - done))
    std::memcpy(at + done, at, static_cast<size_t>(std::min(done, bytes - done)));
}

}  // namespace

void poison(void* data, int64_t bytes, DType dtype) {
  visit_dtype(dtype, [&]<class T>(T*) {
    T value;
    if constexpr (std::is_integral_v<T>)
      value = std::is_same_v<T, bool> ? T(1) : T(0x5B);
    else
      value = T(std::numeric_limits<float>::quiet_NaN());
    if (bytes < int64_t{sizeof(T)}) return;
    std::memcpy(data, &value, sizeof(T));
    repeat(data, bytes / int64_t{sizeof(T)} * int64_t{sizeof(T)}, sizeof(T));
  });
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

Comparison compare(const TensorRef& got, const TensorRef& want, double tolerance, double besides) {
  if (got.dtype != want.dtype || !std::ranges::equal(got.shape(), want.shape()))
    throw Error(ErrorKind::kInternal, got.describe() + " is compared with " + want.describe());
  const bool exact = tolerance == 0 || info(want.dtype).kind != DTypeKind::kFloat;
  const double of_all = exact ? 0 : rms(want);
  Comparison out;
  visit_dtype(want.dtype, [&]<class T>(T*) {
    const double least = exact ? 0 : smallest<T>() + besides;
    RowWalk got_row(got), want_row(want);
    for (int64_t done = 0, count = want.count(); done < count;) {
      const T* g_at = static_cast<const T*>(got.data) + got_row.offset();
      const T* w_at = static_cast<const T*>(want.data) + want_row.offset();
      Squares row;
      if (!exact) row.add(w_at, want_row.columns(), want_row.stride());
      const double scale = std::max(of_all, row.rms());
      for (int64_t i = 0; i < want_row.columns();
           ++i, ++done, g_at += got_row.stride(), w_at += want_row.stride()) {
        const auto g = static_cast<double>(*g_at), w = static_cast<double>(*w_at);
        if (g == w || (std::isnan(g) && std::isnan(w))) continue;
        const double allowed = exact ? 0 : tolerance * (std::abs(w) + scale) + least;
        const double error = std::abs(g - w) / allowed;
        if (error <= 1) {
          out.worst = std::max(out.worst, error);
          continue;
        }
        if (out.ok) out.message = message(done, want, g, w, allowed);
        out.ok = false;
        out.worst = std::isnan(error) ? INFINITY : std::max(out.worst, error);
      }
      got_row.next();
      want_row.next();
    }
  });
  return out;
}

}  // namespace tw::testing
