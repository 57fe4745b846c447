# The instruction sets that each CPU kernel is built for: the only place that lists them.
#
# Per set: the compiler flags, and the /proc/cpuinfo flags that a machine must show to run it.
# Names are those of tilewright/tile/cpu/NAME.h and of the namespaces tw::tile::NAME.

set(TILEWRIGHT_ALL_ISAS avx2 avx512 avx512_vnni avx512_bf16 avx512_fp16 amx)

set(avx2_flags -mavx2 -mfma -mf16c -mbmi2)
set(avx2_needs avx2 fma f16c bmi2)

set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd
                 -mprefer-vector-width=512)
set(avx512_needs ${avx2_needs} avx512f avx512bw avx512dq avx512vl avx512cd)

set(avx512_vnni_flags ${avx512_flags} -mavx512vnni -mavx512vbmi -mavx512vbmi2 -mavx512bitalg
                      -mavx512vpopcntdq -mavx512ifma -mgfni)
set(avx512_vnni_needs ${avx512_needs} avx512_vnni avx512vbmi avx512_vbmi2 avx512_bitalg
                      avx512_vpopcntdq avx512ifma gfni)

set(avx512_bf16_flags ${avx512_vnni_flags} -mavx512bf16)
set(avx512_bf16_needs ${avx512_vnni_needs} avx512_bf16)

set(avx512_fp16_flags ${avx512_bf16_flags} -mavx512fp16)
set(avx512_fp16_needs ${avx512_bf16_needs} avx512_fp16)

set(amx_flags ${avx512_fp16_flags} -mamx-tile -mamx-bf16 -mamx-int8)
set(amx_needs ${avx512_fp16_needs} amx_tile amx_bf16 amx_int8)

# Sets `out` to those of TILEWRIGHT_ALL_ISAS that the machine running CMake can execute.
function(tilewright_native_isas out)
  set(found)
  file(STRINGS /proc/cpuinfo lines REGEX "^flags" LIMIT_COUNT 1)
  string(REGEX MATCHALL "[a-z0-9_]+" have "${lines}")
  foreach(isa IN LISTS TILEWRIGHT_ALL_ISAS)
    set(missing)
    foreach(flag IN LISTS ${isa}_needs)
      if(NOT flag IN_LIST have)
        list(APPEND missing ${flag})
      endif()
    endforeach()
    if(NOT missing)
      list(APPEND found ${isa})
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
