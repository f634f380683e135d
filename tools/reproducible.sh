#!/usr/bin/env bash
# Builds the program twice from the sources of a commit, in two folders, and compares the two as they
# are installed and packaged: without symbols.
#
#   bash tools/reproducible.sh [COMMIT]      HEAD
#
# 25 CPU minutes and 3 GB in a folder of TMPDIR, which is removed. What differs between machines is
# given to the compiler under one name: the folder of the clone and that of cargo. A wrapper of the
# compiler does that: cargo makes names of files from RUSTFLAGS, and they would differ. The same
# compiler, C compiler, linker and Node.js are needed for the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One commit for both: a branch may move on while the first is built.
COMMIT=$(git rev-parse --verify "${1:-HEAD}^{commit}")
readonly COMMIT
readonly CARGO_FOLDER=${CARGO_HOME:-$HOME/.cargo}
export CARGO_FOLDER
export PATH="$PATH:$CARGO_FOLDER/bin"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf 'reproducible: %s\n' "$*" >&2; }

cat >"$scratch/rustc" <<'WRAPPER'
#!/bin/sh
exec "$@" --remap-path-prefix="$CLONE"=/wirelens --remap-path-prefix="$CARGO_FOLDER"=/cargo
WRAPPER
chmod +x "$scratch/rustc"

# build FOLDER NAME: there, as the program NAME; both folders differ in name and length.
build() {
  mkdir -p "$1"
  git archive "$COMMIT" | tar -x -C "$1"
  say "building in $1"
  (
    cd "$1"
    bash tools/page.sh
    CLONE="$1" RUSTC_WRAPPER="$scratch/rustc" \
      cargo build --release --locked --quiet --package wirelens --bin wirelens
  )
  strip --strip-all -o "$scratch/$2" "$1/target/release/wirelens"
  rm -rf "$1"
}

build "$scratch/one" first
build "$scratch/elsewhere/the-other" second
sha256sum "$scratch/first" | sed "s|$scratch/first|wirelens of $(git rev-parse --short "$COMMIT")|"
if cmp "$scratch/first" "$scratch/second"; then
  say 'both are the same, byte for byte'
else
  differing=$(cmp -l "$scratch/first" "$scratch/second" | wc -l || true)
  say "they differ in $differing bytes; the first texts that only one of them holds:"
  diff <(strings "$scratch/first") <(strings "$scratch/second") | head -n 20 >&2 || true
  exit 1
fi
