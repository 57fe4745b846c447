// One mechanism per question:
//   "you called it wrong, or it failed"  -> throw Error
//   "can this kernel take these inputs?" -> return Support
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "tilewright/core/macros.h"

namespace tw {

/// What kind of failure an Error reports. The doors map it to the host language's exceptions.
enum class ErrorKind {
  kInvalidArgument,  ///< the caller passed something outside the contract (ValueError)
  kUnsupported,      ///< valid, but no kernel or format support exists (NotImplementedError)
  kOutOfMemory,      ///< an allocation failed (MemoryError)
  kBadFile,          ///< a file is malformed; the message names file, field and offset (ValueError)
  kIo,               ///< the operating system refused a read or write (OSError)
  kInternal,         ///< a bug in tilewright (RuntimeError)
};

/// The only exception type the library throws.
class TW_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// Whether a kernel accepts a call: yes, or the reason why not. Never throws.
class Support {
 public:
  static Support yes() { return Support{}; }
  static Support no(std::string reason) { return Support{std::move(reason)}; }

  explicit operator bool() const noexcept { return reason_.empty(); }
  /// Empty when supported.
  const std::string& reason() const noexcept { return reason_; }

 private:
  Support() = default;
  explicit Support(std::string reason) : reason_(std::move(reason)) {}
  std::string reason_;
};

}  // namespace tw
