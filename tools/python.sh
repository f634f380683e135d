#!/usr/bin/env bash
# Builds the Python package and installs it into .venv, where it is older than its sources: each task
# that tests it asks for it, and building a wheel takes most of a minute also where nothing compiles.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly WHEELS=target/wheels STAMP=target/wheels/installed.sha256

# What the package is made of, as one number.
sources() {
  find Cargo.toml Cargo.lock crates python models page/dist pyproject.toml README.md \
    tools/build_package.py tools/prebuilt.py -type f \
    ! -path '*/__pycache__/*' ! -path 'python/wirelens/bin/*' -print0 |
    LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

is_installed() {
  [ -f "$STAMP" ] && [ "$(sources)" = "$(cat "$STAMP")" ] &&
    [ -x python/wirelens/bin/wirelens ] && .venv/bin/python -m pip show --quiet wirelens
}

if is_installed 2>/dev/null; then
  exit 0
fi
rm -rf "$WHEELS"
.venv/bin/python tools/build_package.py
# maturin warns of a build backend that is not itself; tools/build_package.py calls it.
.venv/bin/maturin build --quiet --release --locked --interpreter .venv/bin/python \
  --out "$WHEELS" 2> >(grep -v '`build-backend` in pyproject.toml' >&2)
.venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall \
  --no-deps "$WHEELS"/wirelens-*.whl
sources >"$STAMP" 2>/dev/null || rm -f "$STAMP"
