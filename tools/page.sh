#!/usr/bin/env bash
# Builds the page, page/dist, which becomes a part of the program.
#
#   bash tools/page.sh          where it is older than its sources
#   bash tools/page.sh test     and tests it, in Chromium as well
#
# Without Node.js nothing is built, and the program says that it has no page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../page"

readonly NODE_MIN=20
readonly STAMP=node_modules/.wirelens

say() { printf 'page: %s\n' "$*" >&2; }

has_node() {
  command -v node >/dev/null && command -v npm >/dev/null &&
    [ "$(node --version | sed 's/^v\([0-9]*\).*/\1/')" -ge "$NODE_MIN" ]
}

# What the built page depends on, as one number.
sources() {
  { cat package.json package-lock.json build.mjs tsconfig.json; find src -type f | LC_ALL=C sort |
    xargs cat; } | sha256sum
}

install() {
  if [ ! -f "$STAMP" ] || ! sha256sum --check --status "$STAMP"; then
    say 'installing what it is built with into page/node_modules'
    npm ci --no-audit --no-fund --loglevel=error
    sha256sum package-lock.json >"$STAMP"
  fi
}

if ! has_node; then
  say "not built: Node.js $NODE_MIN or newer and npm are wanted; the program works without its page"
  if [ "${1:-build}" = test ]; then exit 1; fi
  exit 0
fi
if [ ! -f dist/.sources ] || [ "$(sources)" != "$(cat dist/.sources)" ]; then
  install
  npm run --silent build
  sources >dist/.sources
fi
if [ "${1:-build}" = test ]; then
  install
  npm test --silent
fi
