// Assertions for our own bugs. On unless NDEBUG; never for a caller's mistakes (throw Error).
#pragma once

#include <cstdio>
#include <cstdlib>

#if defined(NDEBUG)
#define TW_ASSERT(condition) ((void)0)
#else
#define TW_ASSERT(condition)                                                                   \
  ((condition)                                                                                 \
       ? (void)0                                                                               \
       : (std::fprintf(stderr, "%s:%d: internal error: %s\n", __FILE__, __LINE__, #condition), \
          std::abort()))
#endif
