#!/usr/bin/env bash
# Installs a build to a scratch prefix and uses it as a stranger would: through find_package, through
# pkg-config, and by running the tool, which may need the C library and nothing else.
#
#   tools/check_install.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

step() { printf 'check_install: %s\n' "$*"; }

expect() {
  local expected=$1 got
  shift
  got=$("$@")
  [ "$got" = "$expected" ] || {
    printf 'check_install: %s printed "%s", expected "%s"\n' "$1" "$got" "$expected" >&2
    exit 1
  }
}

step "installing to a scratch prefix"
cmake --install "$build" --prefix "$prefix" >"$scratch/install.log"
libdir=$(dirname "$(find "$prefix" -name libtilewright.so -print -quit)")

step "find_package(tilewright)"
cmake -S examples/consumer -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_BUILD_TYPE=Release >"$scratch/configure.log"
cmake --build "$scratch/consumer" >"$scratch/build.log" || {
  cat "$scratch/build.log" >&2
  exit 1
}
expect "1 1 1 1 " "$scratch/consumer/consumer"

step "pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs tilewright)"
"${CXX:-c++}" examples/consumer/main.cc "${flags[@]}" -Wl,-rpath,"$libdir" -o "$scratch/linked"
expect "1 1 1 1 " "$scratch/linked"

step "the tool needs only the C library"
needed=$(ldd "$prefix/bin/tilewright" | awk '{print $1}' |
  grep -vE '^(linux-vdso|libc|libm|libdl|librt|libpthread)\.so|/ld-linux' || true)
[ -z "$needed" ] || {
  printf 'check_install: the tool needs %s\n' "$needed" >&2
  exit 1
}
env -i "$prefix/bin/tilewright" --version
if [ "$(id -u)" -eq 0 ]; then
  step "the tool runs where there is nothing else"
  for file in "$prefix/bin/tilewright" $(ldd "$prefix/bin/tilewright" | grep -o '/[^ ]*'); do
    install -D "$file" "$scratch/bare$file"
  done
  chroot "$scratch/bare" "$prefix/bin/tilewright" ops --json >/dev/null
fi

step "the library shows only its own names"
# Some of namespace tw (_ZN2tw...) nm cannot read: conversions to a type that is deduced.
foreign=$(nm -D --defined-only --demangle "$libdir/libtilewright.so" | awk '$2 ~ /[TWVBDRu]/' |
  grep -vE ' (tw::|tw_|_ZNK?2tw|(vtable|typeinfo|typeinfo name|VTT|guard variable) for tw::|.*\btw::)' || true)
[ -z "$foreign" ] || {
  printf 'check_install: the library shows\n%s\n' "$foreign" | head -20 >&2
  exit 1
}
step "passed"
