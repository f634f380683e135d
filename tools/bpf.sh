#!/usr/bin/env bash
# Builds the BPF objects, which are committed so that running Wirelens needs no clang.
#
#   bash tools/bpf.sh          build all; takes clang, llvm-strip and libbpf-dev
#   bash tools/bpf.sh check    fail if an object is not that of its sources; takes none of them
#
# Every NAME.bpf.c of the folders below becomes NAME.bpf.o beside it. SHA256SUMS in each folder
# lists sources, headers and objects as they were built together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly FOLDERS=(crates/capture/bpf testbed/bpf)
readonly SUMS=SHA256SUMS

fail() {
  printf 'bpf: %s\n' "$*" >&2
  exit 1
}

# What an object is made of, and the objects, in one order on every machine.
contents() { find . -maxdepth 1 -name '*.h' -o -maxdepth 1 -name '*.bpf.[co]' | LC_ALL=C sort; }

# In the folder itself: the object keeps the names of its sources, and these must be the same
# wherever the repository lies.
build_here() {
  local source object
  rm -f -- *.bpf.o
  for source in *.bpf.c; do
    object=${source%.c}.o
    # The same object wherever the checkout lies: line information holds the path of the source.
    # clang for BPF looks for no headers of the machine, though <linux/types.h> leads there.
    clang -O2 -g -target bpf -Wall -Wextra -Werror -Wno-unused-parameter \
      -ffile-prefix-map="$PWD=." \
      -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object"
    llvm-strip -g "$object"
  done
  contents | xargs sha256sum >"$SUMS"
}

build() {
  local program
  for program in clang llvm-strip; do
    command -v "$program" >/dev/null ||
      fail "$program: not found; try apt-get install clang llvm libbpf-dev"
  done
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

case "${1:-build}" in
  build) build ;;
  check) check ;;
  *) fail "$1: not known; give build or check" ;;
esac
