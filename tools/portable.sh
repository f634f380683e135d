#!/usr/bin/env bash
# Builds the program and the Python wheel for machines with an old glibc.
#
#   bash tools/portable.sh program    target/portable/ARCHITECTURE/wirelens
#   bash tools/portable.sh wheel      and a wheel that carries it, beside it
#
# TARGET is x86_64 or aarch64 (the machine's own where it is not set), GLIBC the oldest glibc that
# the result runs on. C is compiled and everything linked by zig, which knows the symbols of each
# glibc. The tools are installed into target/portable/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

readonly TARGET=${TARGET:-$(uname -m)}
readonly GLIBC=${GLIBC:-2.17}
readonly TRIPLE=$TARGET-unknown-linux-gnu
readonly TOOLS=$PWD/target/portable/tools
readonly OUT=target/portable/$TARGET

say() { printf 'portable: %s\n' "$*" >&2; }

fail() {
  say "$@"
  exit 1
}

install_tools() {
  local list=tools/requirements-portable.txt stamp=$TOOLS/requirements.sha256
  if [ -f "$stamp" ] && sha256sum --check --status "$stamp"; then return; fi
  say "installing the packages of $list into ${TOOLS#"$PWD"/}"
  rm -rf "$TOOLS"
  python3 -m venv "$TOOLS"
  "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --only-binary :all: --requirement "$list"
  sha256sum "$list" >"$stamp"
}

check_target() {
  case $TARGET in
    x86_64 | aarch64) ;;
    *) fail "TARGET=$TARGET: wanted x86_64 or aarch64" ;;
  esac
  [ -d "$(rustc --print sysroot)/lib/rustlib/$TRIPLE" ] ||
    fail "Rust has no standard library for $TRIPLE; try: rustup target add $TRIPLE"
}

# The same compiler and linker for cargo and for maturin. It is named by its glibc: another one is
# another linker, for which cargo builds again.
set_compiler() {
  local name=$TOOLS/zig-$TARGET-$GLIBC tool
  for tool in cc c++ ar; do
    local flags=()
    [ $tool = ar ] || flags=(-- -fno-sanitize=all -target "$TARGET-linux-gnu.$GLIBC")
    [ $tool != ar ] || flags=(--)
    printf '#!/bin/sh\nPATH=%q:$PATH exec cargo-zigbuild zig %s %s "$@"\n' \
      "$TOOLS/bin" "$tool" "${flags[*]}" >"$name-$tool.new"
    chmod +x "$name-$tool.new"
    cmp --silent "$name-$tool.new" "$name-$tool" || mv "$name-$tool.new" "$name-$tool"
    rm -f "$name-$tool.new"
  done
  local lower=${TRIPLE//-/_}
  local upper=${lower^^}
  export "CC_$lower=$name-cc" "CXX_$lower=$name-c++" "AR_$lower=$name-ar"
  export "CARGO_TARGET_${upper}_LINKER=$name-cc" "CARGO_TARGET_${upper}_RUSTFLAGS=-Cstrip=symbols"
}

# The extension with it, so that what both need compiles once, with the features that both ask for.
build() {
  local packages=(--package wirelens --bin wirelens)
  [ "$1" = program ] || packages+=(--package wirelens-python)
  cargo build --release --locked --target "$TRIPLE" "${packages[@]}"
  # Renamed when it is whole: it may be running.
  mkdir -p "$OUT"
  cp "target/$TRIPLE/release/wirelens" "$OUT/wirelens.partial"
  mv -f "$OUT/wirelens.partial" "$OUT/wirelens"
  say "$OUT/wirelens: $(stat -c %s "$OUT/wirelens") bytes"
}

# The sum is that of the sources before anything was built of them.
pack_wheel() {
  rm -f "$OUT"/wirelens-*.whl "$OUT"/wirelens-*.whl.sources
  mkdir -p python/wirelens/bin
  cp "$OUT/wirelens" python/wirelens/bin/wirelens.partial
  mv -f python/wirelens/bin/wirelens.partial python/wirelens/bin/wirelens
  # maturin warns of a build backend that is not itself.
  "$TOOLS/bin/maturin" build --quiet --release --locked --target "$TRIPLE" \
    --compatibility "manylinux_${GLIBC/./_}" --out "$OUT" \
    2> >(grep -v '`build-backend` in pyproject.toml' >&2)
  local wheel
  wheel=$(compgen -G "$OUT/wirelens-*.whl")
  printf '%s\n' "$1" >"$wheel.sources"
  say "$wheel: $(stat -c %s "$wheel") bytes"
}

task=${1:-}
case $task in
  program | wheel) ;;
  *) fail "usage: bash tools/portable.sh program|wheel (seen: ${task:-nothing})" ;;
esac
check_target
install_tools
set_compiler
bash tools/page.sh
[ -f page/dist/index.html ] || fail "no page; wanted: Node.js and npm, as for make page"
sum=$(python3 tools/prebuilt.py)
build "$task"
if [ "$task" = wheel ]; then pack_wheel "$sum"; fi
