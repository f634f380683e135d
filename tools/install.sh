#!/usr/bin/env bash
# Installs the program with its manual pages, completions and licences, or removes them.
#
#   bash tools/install.sh current PROGRAM    whether a program is newer than all its sources
#   bash tools/install.sh install PROGRAM    copies to $DESTDIR$PREFIX
#   bash tools/install.sh uninstall          removes what install has put there
#
# PREFIX is /usr/local where it is not set. Nothing is compiled, and only folders below PREFIX are
# written. ZSH_FOLDER is where zsh looks for functions, below PREFIX.
set -euo pipefail
# Folders that are made here are open to all users, as what is in them is.
umask 022
here=$(dirname "${BASH_SOURCE[0]}")/..

readonly PREFIX=${PREFIX:-/usr/local}
readonly ROOT=${DESTDIR:-}$PREFIX
readonly ZSH_FOLDER=${ZSH_FOLDER:-share/zsh/site-functions}
readonly BASH_FILE=share/bash-completion/completions/wirelens
readonly ZSH_FILE=$ZSH_FOLDER/_wirelens
readonly FISH_FILE=share/fish/vendor_completions.d/wirelens.fish
readonly MAN=share/man/man1
readonly DOC=share/doc/wirelens

fail() {
  printf 'install: %s\n' "$*" >&2
  exit 1
}

is_current() {
  [ -x "$1" ] || return 1
  local sources=("$here/Cargo.toml" "$here/Cargo.lock" "$here/crates" "$here/models")
  [ ! -d "$here/page/dist" ] || sources+=("$here/page/dist")
  [ -z "$(find "${sources[@]}" -type f ! -name '*.md' ! -path '*/tests/*' -newer "$1" -print -quit)" ]
}

# put FILE MODE: standard input becomes a file of the installation.
put() {
  mkdir -p "$(dirname "$ROOT/$1")" || fail "$ROOT: cannot be written; try PREFIX=\$HOME/.local, or sudo"
  # Renamed when it is complete: the program may be running, and must not change under its feet.
  cat >"$ROOT/$1.partial"
  chmod "$2" "$ROOT/$1.partial"
  mv -f "$ROOT/$1.partial" "$ROOT/$1"
}

install_all() {
  local program
  program=$(realpath "$1")
  [ -x "$program" ] || fail "$1: no such program; build it first: make build"
  case $PREFIX in /*) ;; *) fail "PREFIX=$PREFIX: wanted an absolute path" ;; esac
  local scratch
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$scratch'" EXIT
  strip --strip-all -o "$scratch/wirelens" "$program"
  put bin/wirelens 755 <"$scratch/wirelens"
  "$program" man "$scratch/man"
  local page
  for page in "$scratch"/man/*.1; do put "$MAN/${page##*/}" 644 <"$page"; done
  "$program" completions bash | put "$BASH_FILE" 644
  "$program" completions zsh | put "$ZSH_FILE" 644
  "$program" completions fish | put "$FISH_FILE" 644
  put "$DOC/LICENSE-MIT" 644 <"$here/LICENSE-MIT"
  put "$DOC/LICENSE-APACHE" 644 <"$here/LICENSE-APACHE"
}

# Files alone, and the folder that is ours: the others belong to everybody.
uninstall_all() {
  rm -f "$ROOT/bin/wirelens" "$ROOT/$BASH_FILE" "$ROOT/$ZSH_FILE" "$ROOT/$FISH_FILE" \
    "$ROOT/$MAN/wirelens.1" "$ROOT/$MAN"/wirelens-*.1 "$ROOT/$DOC"/LICENSE-{MIT,APACHE}
  if [ -d "$ROOT/$DOC" ]; then rmdir --ignore-fail-on-non-empty "$ROOT/$DOC"; fi
}

case "${1:-}" in
  current) is_current "${2:?}" ;;
  install) install_all "${2:?}" ;;
  uninstall) uninstall_all ;;
  *) fail "usage: bash tools/install.sh current PROGRAM|install PROGRAM|uninstall (seen: ${1:-nothing})" ;;
esac
