# Writes OUT, the text that device code is compiled of at run time: for each of FILES, paths below
# ROOT, a line `@PATH` and what the file holds, less the lines that are comments. Of the headers of
# operators, host code, it keeps the includes that lead to their kernels; other headers that include
# the C++ library are host code and left out.
#
#   cmake -DROOT=... -DFILES=a,b,... -DOUT=... -P cmake/cuda_text.cmake

string(REPLACE "," ";" files "${FILES}")
set(all "")
foreach(path IN LISTS files)
  if(path MATCHES "^tilewright/ops/")
    file(STRINGS "${ROOT}/${path}" lines
         REGEX "^# *(if|el|endif|include \"tilewright/(ops|kernels)/|pragma once)")
    string(REPLACE ";" "\n" text "${lines}")
    string(APPEND text "\n")
  else()
    file(READ "${ROOT}/${path}" text)
    if(text MATCHES "\n#include <[a-z_]+>")
      continue()
    endif()
    string(PREPEND text "\n")
    string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
    string(REGEX REPLACE "^\n+" "" text "${text}")
  endif()
  string(APPEND all "@${path}\n${text}")
endforeach()
file(WRITE "${OUT}" "${all}")
