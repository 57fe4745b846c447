#include "tilewright/runtime/matmul_precision.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "tilewright/core/error.h"

namespace tw::runtime {
namespace {

constexpr const char* kVariable = "TILEWRIGHT_FLOAT32_MATMUL_PRECISION";

std::atomic<MatmulPrecision>& current() {
  static std::atomic<MatmulPrecision> precision = [] {
    const char* value = std::getenv(kVariable);
    if (value == nullptr || *value == '\0') return MatmulPrecision::kHighest;
    try {
      return matmul_precision_of(value);
    } catch (const Error& error) {
      throw Error(error.kind(), std::string(kVariable) + ": " + error.what());
    }
  }();
  return precision;
}

}  // namespace

MatmulPrecision float32_matmul_precision() {
  return current().load(std::memory_order_relaxed);
}

void set_float32_matmul_precision(MatmulPrecision precision) {
  current().store(precision, std::memory_order_relaxed);
}

MatmulPrecision matmul_precision_of(std::string_view name) {
  for (const MatmulPrecision each : {MatmulPrecision::kHighest, MatmulPrecision::kHigh})
    if (name == runtime::name(each)) return each;
  throw Error(ErrorKind::kInvalidArgument, "precision of float32 products: '" + std::string(name) +
                                               "' is neither 'highest' nor 'high'");
}

std::string_view name(MatmulPrecision precision) {
  return precision == MatmulPrecision::kHigh ? "high" : "highest";
}

}  // namespace tw::runtime
