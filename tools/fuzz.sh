#!/usr/bin/env bash
# Runs every libFuzzer target of a build, as many at a time as there are cores.
#
#   tools/fuzz.sh BUILD_DIR SECONDS
#
# tests/fuzz/NAME_fuzz.cc starts from tests/fuzz/corpus/NAME, which is only read; what the run finds
# goes to BUILD_DIR/corpus/NAME, an input that fails to BUILD_DIR/NAME-crash-*.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
seconds=$2

# fuzz_one NAME: the log is shown only if it fails.
fuzz_one() {
  local name=$1 log=$build/$1.log
  mkdir -p "$build/corpus/$name"
  if "$build/fuzz/${name}_fuzz" "$build/corpus/$name" "tests/fuzz/corpus/$name" \
    -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/$name-" >"$log" 2>&1; then
    awk -v name="$name" '/number_of_executed_units/ {print "fuzz: " name ": " $2 " runs, no failure"}' \
      "$log"
  else
    tail -n 60 "$log"
    printf 'fuzz: %s FAILED\n' "$name"
    return 1
  fi
}
export -f fuzz_one
export build seconds

find tests/fuzz -maxdepth 1 -name '*_fuzz.cc' -printf '%f\n' | sed 's/_fuzz\.cc$//' | sort |
  xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
