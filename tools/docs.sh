#!/usr/bin/env bash
# Builds the site of the documentation, target/docs/index.html, with mdBook.
#
#   bash tools/docs.sh
#
# mdBook is compiled once into target/tools, which takes two minutes of a processor.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly MDBOOK_VERSION=0.5.4
readonly MDBOOK=target/tools/bin/mdbook
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

say() { printf 'docs: %s\n' "$*" >&2; }

# Little optimisation: the site is built in seconds all the same, mdBook in half the time. And by
# `nice`, as tests of the page run beside it.
install_mdbook() {
  if [ "$("$MDBOOK" --version 2>/dev/null)" = "mdbook v$MDBOOK_VERSION" ]; then return; fi
  say "compiling mdBook $MDBOOK_VERSION into target/tools; two minutes of a processor"
  CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_TARGET_DIR=target/tools/build nice cargo install mdbook --version "$MDBOOK_VERSION" \
    --locked --quiet --no-default-features --features search --root target/tools --force
  rm -rf target/tools/build
}

install_mdbook
rm -rf target/docs
python3 tools/docs_site.py target/docs-src
RUST_LOG=warn "$MDBOOK" build target/docs-src
say 'the site is target/docs/index.html'
