#include "tilewright/c/guarded.h"

#include <string>

namespace tw::c {
namespace {

thread_local std::string last_error;
thread_local tw_status last_status = TW_OK;

}  // namespace

tw_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return TW_INVALID_ARGUMENT;
    case ErrorKind::kUnsupported:
      return TW_UNSUPPORTED;
    case ErrorKind::kOutOfMemory:
      return TW_OUT_OF_MEMORY;
    case ErrorKind::kBadFile:
      return TW_BAD_FILE;
    case ErrorKind::kIo:
      return TW_IO;
    case ErrorKind::kInternal:
      break;
  }
  return TW_INTERNAL;
}

tw_status fail(tw_status status, const char* message) {
  last_error = message;
  return last_status = status;
}

}  // namespace tw::c

const char* tw_last_error(void) {
  return tw::c::last_error.c_str();
}
tw_status tw_last_status(void) {
  return tw::c::last_status;
}
