// From exceptions to the statuses and messages of the C interface.
#pragma once

#include <exception>
#include <new>

#include "tilewright/c/tilewright.h"
#include "tilewright/core/error.h"

namespace tw::c {

tw_status status_of(ErrorKind kind);

/// Keeps the message for this thread's tw_last_error().
tw_status fail(tw_status status, const char* message);

/// Runs `body`; what it throws becomes a status and a message.
template <class F>
tw_status guarded(F&& body) noexcept {
  try {
    body();
    return TW_OK;
  } catch (const Error& error) {
    return fail(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(TW_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(TW_INTERNAL, error.what());
  }
}

}  // namespace tw::c
