#!/usr/bin/env bash
# usage: gpu_sanitizer.sh [--tools "NAME..."] [--only REGEX] [--jobs N] [--seconds N] [OUT]
#
# NVIDIA's compute-sanitizer over the edge cases of operators on a GPU, several processes at a time.
# memcheck and racecheck take every operator; synccheck and initcheck, which are about barriers and
# memory between kernels, those with such kernels and a few others. Of types, bfloat16 stands for
# float16, whose kernels have the same text; what has no case in it runs in all its types.
# Reports that gpu_known_hazards.txt explains are counted; any other, a test that fails, or that is
# not finished within --seconds, makes this fail. Logs and sanitizer.json go to OUT (default: results).
set -uo pipefail
cd "$(dirname "$0")" || exit

help() { sed -n '2,/^set/s/^# \{0,1\}//p' gpu_sanitizer.sh; }

tools="memcheck racecheck synccheck initcheck" only=. jobs=$(nproc) seconds=14400 out=results
while [ $# -gt 0 ]; do
  case $1 in
    --tools) tools=$2 && shift ;;
    --only) only=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    --seconds) seconds=$2 && shift ;;
    -h | --help) help && exit ;;
    -*) printf 'gpu_sanitizer: no such option: %s\n' "$1" >&2 && exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
command -v compute-sanitizer >/dev/null || {
  echo "gpu_sanitizer: FAILED: compute-sanitizer is not in PATH; it comes with the CUDA toolkit" >&2
  exit 1
}

# Operators with barriers or memory between kernels of their own, and some of the portable ones.
some='^(attention|mla|matmul|linear|grouped|rms_norm|layer_norm|fused_add|softmax|transpose|rope/'
some+='|argmax|sum/|cross_entropy|dropout)'

# The tests of a tool; those of attention, which take longest, come first.
tests() {
  ./tilewright_tests --gtest_list_tests --gtest_filter='EdgeCases.*/cuda/*' | awk -F/ '
    NF != 3 || $2 != "cuda" { next }
    { sub(/^ +/, ""); all[$1] = all[$1] $0 "\n" }
    $3 ~ /^bf16/ { narrow[$1] = narrow[$1] $0 "\n" }
    $1 ~ /^(matmul|linear)$/ && $3 == "f32" { narrow[$1] = narrow[$1] $0 "\n" }  # kernels of their own
    END { for (op in all) printf "%s", op in narrow ? narrow[op] : all[op] }
  ' | case $1 in
    synccheck | initcheck) grep -E "$some" ;;
    *) cat ;;
  esac | grep -E "$only" | LC_ALL=C sort | awk '/^(attention|mla)/ { print; next } { rest = rest $0 "\n" }
    END { printf "%s", rest }'
}

# one TOOL TEST: its output and exit status; neither when the time is over.
one() {
  local left=$((deadline - $(date +%s))) log="$out/$1/${2//\//.}"
  [ "$left" -gt 0 ] || return 0
  TILEWRIGHT_NUM_THREADS=1 timeout -k 10 "$left" compute-sanitizer --tool "$1" --print-limit 20000 \
    ./tilewright_tests --gtest_brief=1 --gtest_filter="EdgeCases.$2" >"$log.log" 2>&1
  echo $? >"$log.status"
}

# reports TOOL LOG: lines "known|new WHAT COUNT". Reports of unknown form count as new, by the
# number that the tool itself gives.
reports() {
  awk -v tool="$1" '
    function kernel(line) {
      # run<(int)1, tw::kernels::RmsNorm<float>> is named by its program.
      if (match(line, /tw::cuda_entry::run<[^,]*, *[A-Za-z0-9_:]+/) ||
          match(line, /tw::cuda_entry::[A-Za-z0-9_]+/)) {
        line = substr(line, RSTART, RLENGTH)
        sub(/.*[: ]/, "", line)
      }
      gsub(/ +/, "_", line)
      return line
    }
    FNR == NR { if ($1 == tool) known[$2]; next }
    /^=========[^:]*: Race reported between .*[+]0x/ || /^=========  *at .*[+]0x/ {
      ++count[kernel($0)]; ++found
    }
    /SUMMARY: [0-9]+ / && !/not printed/ {
      match($0, /SUMMARY: [0-9]+/); total += substr($0, RSTART + 9, RLENGTH - 9); ended = 1
    }
    END {
      for (name in count) print (name in known ? "known" : "new"), name, count[name]
      if (!ended) print "new", "no_summary", 1
      if (total > found) print "new", "of_unknown_form", total - found
    }' gpu_known_hazards.txt "$2"
}

# judge TOOL TEST: one line of JSON; what is wrong to stderr.
judge() {
  local log="$out/$1/${2//\//.}" status=none known=0 new=0 kind what count
  if [ -f "$log.status" ]; then
    status=$(<"$log.status")
    while read -r kind what count; do
      if [ "$kind" = known ]; then
        known=$((known + count))
      else
        new=$((new + count))
        printf '%s of %s: %d reports, %s\n' "$1" "$2" "$count" "$what" >&2
      fi
    done < <(reports "$1" "$log.log")
  fi
  case $status in
    0) ;;
    none | 124) printf '%s of %s: not finished in time\n' "$1" "$2" >&2 ;;
    *) printf '%s of %s: the test failed, exit status %s\n' "$1" "$2" "$status" >&2 ;;
  esac
  printf '{"tool": "%s", "test": "%s", "status": "%s", "known": %d, "new": %d}' \
    "$1" "$2" "$status" "$known" "$new"
  [ "$status" = 0 ] && [ "$new" = 0 ]
}

deadline=$(($(date +%s) + seconds))
export -f one
export deadline out
mkdir -p "$out"
for tool in $tools; do
  rm -rf "${out:?}/$tool"
  mkdir -p "$out/$tool"
  tests "$tool" | sed "s/^/$tool /"
done >"$out/sanitizer_tests.txt"
if ! [ -s "$out/sanitizer_tests.txt" ]; then
  echo "gpu_sanitizer: FAILED: ./tilewright_tests has no such tests" >&2
  exit 1
fi
xargs -P "$jobs" -L 1 bash -c 'one "$@"' _ <"$out/sanitizer_tests.txt"

failed=0 ran=0 separator=
printf '[\n' >"$out/sanitizer.json"
while read -r tool test; do
  printf '%s' "$separator" >>"$out/sanitizer.json"
  judge "$tool" "$test" >>"$out/sanitizer.json" || failed=$((failed + 1))
  ran=$((ran + 1)) separator=$',\n'
done <"$out/sanitizer_tests.txt"
printf '\n]\n' >>"$out/sanitizer.json"
printf 'gpu_sanitizer: %d runs, %d not clean\n' "$ran" "$failed"
[ "$failed" = 0 ]
