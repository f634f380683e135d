#!/usr/bin/env bash
# Builds the BPF objects, which are committed so that running Wirelens needs no clang.
#
#   bash tools/bpf.sh          build all; takes clang, llvm-strip and libbpf-dev
#   bash tools/bpf.sh check    fail if an object was not built with its sources; takes none of them
#   bash tools/bpf.sh compare  fail if an object is another than its sources give, built elsewhere
#
# Every NAME.bpf.c of the folders below becomes NAME.bpf.o beside it. SHA256SUMS in each folder
# lists sources, headers and objects as they were built together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly FOLDERS=(crates/capture/bpf testbed/bpf)
readonly SUMS=SHA256SUMS
# Of the objects that are committed. Another version gives others, so all are built by one.
readonly CLANG_VERSION=14.0.6
# Sources with atomic exchanges, which the oldest instruction set does not have: Linux 5.12.
readonly OF_V3=' cut.bpf.c '

fail() {
  printf 'bpf: %s\n' "$*" >&2
  exit 1
}

# What an object is made of, and the objects, in one order on every machine.
contents() { find . -maxdepth 1 -name '*.h' -o -maxdepth 1 -name '*.bpf.[co]' | LC_ALL=C sort; }

# In the folder itself: the object keeps the names of its sources, and these must be the same
# wherever the repository lies.
build_here() {
  local source object cpu
  rm -f -- *.bpf.o
  for source in *.bpf.c; do
    object=${source%.c}.o
    cpu=generic
    [[ $OF_V3 != *" $source "* ]] || cpu=v3
    # The same object wherever the checkout lies: line information holds the path of the source.
    # clang for BPF looks for no headers of the machine, though <linux/types.h> leads there.
    clang -O2 -g -target bpf -mcpu="$cpu" -Wall -Wextra -Werror -Wno-unused-parameter \
      -ffile-prefix-map="$PWD=." \
      -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object"
    llvm-strip -g "$object"
  done
  contents | xargs sha256sum >"$SUMS"
}

want_compiler() {
  local program seen
  for program in clang llvm-strip; do
    command -v "$program" >/dev/null ||
      fail "$program: not found; try apt-get install clang llvm libbpf-dev"
  done
  seen=$(clang -dumpversion)
  [ "$seen" = "$CLANG_VERSION" ] ||
    fail "clang: version $seen found, $CLANG_VERSION wanted, that of Debian 12: all objects are built" \
      "by one; to move to another, change CLANG_VERSION in tools/bpf.sh and build"
}

build() {
  want_compiler
  for folder in "${FOLDERS[@]}"; do
    compgen -G "$folder/*.bpf.c" >/dev/null || continue
    (cd "$folder" && build_here)
    printf 'bpf: %s: %s objects\n' "$folder" "$(compgen -G "$folder/*.bpf.o" | wc -l)"
  done
}

is_fresh_here() {
  [ -f "$SUMS" ] && sha256sum --check --strict --status "$SUMS" 2>/dev/null &&
    [ "$(contents)" = "$(sed 's/^[^ ]*  //' "$SUMS")" ]
}

check() {
  for folder in "${FOLDERS[@]}"; do
    compgen -G "$folder/*.bpf.c" >/dev/null || continue
    (cd "$folder" && is_fresh_here) ||
      fail "$folder: an object is not that of its sources, or a file is missing; try: make bpf"
  done
}

# Built in another folder, so that what is committed stays as it is.
compare() {
  want_compiler
  local scratch folder object status=0
  scratch=$(mktemp -d)
  for folder in "${FOLDERS[@]}"; do
    mkdir -p "$scratch/$folder"
    cp "$folder"/*.h "$folder"/*.bpf.c "$scratch/$folder"
    (cd "$scratch/$folder" && build_here)
    for object in "$scratch/$folder"/*.bpf.o; do
      object=$folder/${object##*/}
      cmp --quiet "$scratch/$object" "$object" && continue
      printf 'bpf: %s: another than its sources give; try: make bpf\n' "$object" >&2
      status=1
    done
  done
  rm -r "$scratch"
  return $status
}

case "${1:-build}" in
  build) build ;;
  check) check ;;
  compare) compare ;;
  *) fail "$1: not known; give build, check or compare" ;;
esac
