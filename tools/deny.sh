#!/usr/bin/env bash
# Checks the crates that others wrote: licences, crates and versions that are not wanted, where they
# come from (tools/deny.toml); and, with a database of advisories, whether one has a known fault.
#
#   bash tools/deny.sh                        part of make test
#   bash tools/deny.sh --advisories FOLDER    also with this clone of RustSec's advisory-db
#   CONFIG=FILE bash tools/deny.sh            by other rules
#
# cargo-deny is compiled once into target/tools, which takes two minutes and a half of a processor.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly DENY_VERSION=0.20.2
readonly DENY=target/tools/bin/cargo-deny
readonly CONFIG=${CONFIG:-tools/deny.toml}
# Where cargo-deny looks for its database: the name is that of its address, with a hash of it.
readonly DATABASE=advisory-db-3157b0e258782691
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

say() { printf 'deny: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Not optimised: it reads for seconds, and compiles in half the time.
install_deny() {
  if [ "$("$DENY" --version 2>/dev/null)" = "cargo-deny $DENY_VERSION" ]; then return; fi
  say "compiling cargo-deny $DENY_VERSION into target/tools; two minutes and a half of a processor"
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=target/tools/build-deny cargo install cargo-deny \
    --version "$DENY_VERSION" --locked --quiet --debug --root target/tools --force
  rm -rf target/tools/build-deny
}

# The database is only read. cargo-deny takes none from anywhere but a folder of its own choice.
check_advisories() {
  git -C "$1" rev-parse --verify --quiet HEAD >/dev/null ||
    fail "$1: not a clone of a database of advisories; try: git clone of RustSec's advisory-db"
  local scratch status=0
  scratch=$(mktemp -d)
  ln -s "$(realpath "$1")" "$scratch/$DATABASE"
  sed "s|^\[advisories\]|&\ndb-path = \"$scratch\"|" "$CONFIG" >"$scratch/deny.toml"
  "$DENY" --locked --offline --config "$scratch/deny.toml" check --hide-inclusion-graph advisories ||
    status=$?
  rm -r "$scratch"
  return $status
}

install_deny
# An exception that is no longer needed is removed.
"$DENY" --locked --config "$CONFIG" check --hide-inclusion-graph --deny unmatched-skip \
  --deny unnecessary-skip --deny license-exception-not-encountered licenses bans sources
case "${1:-}" in
  --advisories) check_advisories "${2:?usage: bash tools/deny.sh --advisories FOLDER}" ;;
  '') say 'advisories: not checked, no database given; try: make deny ADVISORIES=FOLDER' ;;
  *) fail "$1: not known; give --advisories FOLDER" ;;
esac
