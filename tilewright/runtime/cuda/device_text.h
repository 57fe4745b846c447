// The source text of the kernels, embedded in the library: what NVRTC compiles where the library
// has no device code for a GPU.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilewright/core/macros.h"

namespace tw::runtime::cuda {

/// All of it: for each file a line `@PATH` and its text (cmake/cuda_text.cmake). Generated.
const char* embedded_text();

/// A program to be compiled: its own text, and the headers that it includes, directly or not.
struct DeviceProgram {
  struct Header {
    std::string path, text;
  };
  std::string text;
  std::vector<Header> headers;  // in the order of their paths
};

/// The program around one way of operator `op`'s kernel of this type (ops::kernel_type), whose one
/// global function is tw::cuda_entry::run.
TW_API DeviceProgram neutral_program(std::string_view op, std::string_view kernel_type, int way);

/// The program with another text in place of the header at `path`, which it includes.
TW_API void replace_header(DeviceProgram& program, std::string_view path, std::string text);

/// tilewright/runtime/cuda/NAME_kernels.cu with these definitions ("NAME VALUE").
TW_API DeviceProgram own_program(std::string_view name,
                                 const std::vector<std::string_view>& definitions);

}  // namespace tw::runtime::cuda
