#!/usr/bin/env bash
# Runs the fuzz targets: fuzz/Cargo.toml is the one list, each [[bin]] of it, and of the program
# `whole` the names in [package.metadata.targets].
#
#   bash tools/fuzz.sh smoke              each parser for a second, with AddressSanitizer where this
#                                         Rust has it; part of make test. FUZZ_ASAN=1: refused where
#                                         it has not; FUZZ_ASAN=0: without; FUZZ_WHOLE=1: whole
#                                         commands as well
#   bash tools/fuzz.sh long [HOURS]       all of them for so many hours of processor time, 8 if none
#                                         are given; goes on from the inputs of earlier runs
#   bash tools/fuzz.sh list               the names of all targets
#   bash tools/fuzz.sh minimise [TARGET…]  leaves out seeds that reach nothing that others do not
#
# A target's seeds lie in fuzz/seeds/TARGET/. The target `canary` holds a planted
# fault: it must be found, or a silence of the others means nothing.
# Stable Rust suffices: the compiler adds the coverage marks by options of LLVM's. AddressSanitizer
# is an option of nightly compilers. A stable one has the same code, and its library where the
# sanitizer works, and takes the option when it is asked to (RUSTC_BOOTSTRAP).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SMOKE_SECONDS=${FUZZ_SMOKE_SECONDS:-1}
readonly CANARY_SECONDS=60
readonly INPUT_SECONDS_MAX=${FUZZ_INPUT_SECONDS:-10}
readonly MEMORY_MIB_MAX=1024
# AddressSanitizer keeps memory that was freed for a while.
readonly MEMORY_ASAN_MIB_MAX=3072

fail() {
  printf 'fuzz: %s\n' "$*" >&2
  exit 1
}

host() { rustc -vV | sed -n 's/^host: //p'; }

has_asan() {
  compgen -G "$(rustc --print sysroot)/lib/rustlib/$(host)/lib/librustc-*_rt.asan.a" >/dev/null
}

# Whether the smoke run is built with AddressSanitizer: where it is there, unless that is refused.
use_asan() {
  case "${FUZZ_ASAN-auto}" in
    '') ;;
    auto)
      if has_asan; then
        export FUZZ_ASAN=1
      else
        printf 'fuzz: no AddressSanitizer in this Rust: without it\n'
      fi
      ;;
    *) has_asan || fail 'no AddressSanitizer in this Rust; try FUZZ_ASAN=0' ;;
  esac
}

# Where a build is: with AddressSanitizer in a folder of its own.
folder() { printf 'fuzz/target%s' "${FUZZ_ASAN:+/asan}"; }
release() { printf '%s/%s/release' "$(folder)" "$(host)"; }

build() {
  local marks=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cdebug-assertions=on -Ccodegen-units=1
    --cfg=fuzzing
  )
  if [ -n "${FUZZ_ASAN:-}" ]; then
    marks+=(-Zsanitizer=address)
    export RUSTC_BOOTSTRAP=1
  fi
  # With a named target, build scripts stay free of the marks.
  local features=(--features whole) name
  [ -z "${FUZZ_PARSERS:-}" ] || features=()
  RUSTFLAGS="${marks[*]}" cargo build --quiet --release --locked --bins "${features[@]}" \
    --manifest-path fuzz/Cargo.toml --target-dir "$(folder)" --target "$(host)"
  [ -z "${FUZZ_PARSERS:-}" ] || return 0
  for name in $(targets whole); do
    ln -sf whole "$(release)/$name"
  done
}

# The targets of all programs, or of `whole` alone; with FUZZ_PARSERS of all but `whole`, which takes
# all crates and so as long to build as everything else together.
targets() {
  cargo metadata --format-version 1 --no-deps --locked --manifest-path fuzz/Cargo.toml |
    python3 -c 'import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    many = package["metadata"]["targets"]
    bins = [target["name"] for target in package["targets"] if "bin" in target["kind"]]
    parsers = [name for name in bins if name != "whole"]
    chosen = sys.argv[1:] or (parsers if os.environ.get("FUZZ_PARSERS") else bins)
    for name in chosen:
        print("\n".join(many.get(name, [name])))' "$@"
}

# A parser that no target names is one that nobody throws bytes at.
check_parsers() {
  local file parser
  for file in crates/packet/src/wire/*.rs; do
    parser=$(basename "$file" .rs)
    [ "$parser" = mod ] || grep -q "wire::$parser\b" fuzz/targets/wire_*.rs ||
      fail "$file: no fuzz target reads it; add it to its family's, fuzz/targets/wire_*.rs"
  done
}

# run_target NAME SECONDS: new inputs go to fuzz/corpus, a failing one to fuzz/artifacts.
run_target() {
  local name=$1 seconds=$2 seeds=() memory=$MEMORY_MIB_MAX
  [ -n "${FUZZ_ASAN:-}" ] && memory=$MEMORY_ASAN_MIB_MAX
  mkdir -p "fuzz/corpus/$name" "fuzz/artifacts/$name"
  [ -d "fuzz/seeds/$name" ] && seeds=("fuzz/seeds/$name")
  # Leaks are none of AddressSanitizer's: schemas live as long as the process.
  ASAN_OPTIONS=detect_leaks=0 "$(release)/$name" -max_total_time="$seconds" \
    -timeout="$INPUT_SECONDS_MAX" -rss_limit_mb="$memory" -detect_leaks=0 \
    -artifact_prefix="fuzz/artifacts/$name/" -print_final_stats=1 \
    "fuzz/corpus/$name" "${seeds[@]}"
}

# The fault must be found as one: a canary that cannot even start has found nothing.
check_canary() {
  rm -rf fuzz/corpus/canary fuzz/artifacts/canary
  if run_target canary "$CANARY_SECONDS" >fuzz/target/canary.log 2>&1; then
    fail "the canary lives: its planted fault was not found in $CANARY_SECONDS s; see fuzz/target/canary.log"
  fi
  compgen -G 'fuzz/artifacts/canary/crash-*' >/dev/null ||
    fail "the canary died of something else than its fault; see fuzz/target/canary.log"
  printf 'fuzz: canary: planted fault found, as it should be\n'
}

# fuzz_one NAME SECONDS: one target; its log ends with the seconds of processor time.
fuzz_one() {
  local name=$1 seconds=$2 log run_count
  log=fuzz/target/$name.log
  local TIMEFORMAT='stat::processor_seconds: %U %S'
  if ! { time run_target "$name" "$seconds"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "$name failed; the input lies in fuzz/artifacts/$name/, the whole log in $log"
  fi
  if grep -m 1 '^skipped: ' "$log" | sed "s/^/fuzz: $name: /"; then return; fi
  run_count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf 'fuzz: %s: %s inputs, no fault\n' "$name" "$run_count"
}

# All targets, as many at a time as there are cores.
fuzz_all() {
  targets | grep -vx canary |
    xargs -P "$(nproc)" -I NAME bash tools/fuzz.sh one NAME "$1" ||
    fail "a target failed; what it said is above"
}

# Seeds without a name of their own stay where they reach something that no other seed reaches:
# together they reach what they did before. Those with a name say what they are for, and stay.
minimise() {
  local name seeds kept seed before
  for name in "$@"; do
    seeds=fuzz/seeds/$name
    compgen -G "$seeds/*" >/dev/null || continue
    kept=$(mktemp -d)
    before=$(find "$seeds" -type f | wc -l)
    for seed in "$seeds"/*; do
      [[ $(basename "$seed") =~ ^[0-9a-f]{40}$ ]] || cp "$seed" "$kept"
    done
    # A merge misses what a run reaches by chance, such as the order of a hash map: once more.
    for _ in 1 2 3; do
      "$(release)/$name" -merge=1 -timeout="$INPUT_SECONDS_MAX" \
        -rss_limit_mb="$MEMORY_MIB_MAX" "$kept" "$seeds" >"fuzz/target/$name.merge.log" 2>&1 ||
        fail "$name: seeds cannot be merged; see fuzz/target/$name.merge.log"
    done
    for seed in "$seeds"/*; do
      if [[ $(basename "$seed") =~ ^[0-9a-f]{40}$ ]] && [ ! -e "$kept/$(basename "$seed")" ]; then
        rm "$seed"
      fi
    done
    rm -rf "$kept"
    printf 'fuzz: %s: %s of %s seeds kept\n' "$name" "$(find "$seeds" -type f | wc -l)" "$before"
  done
}

usage() {
  fail "usage: bash tools/fuzz.sh smoke|long [HOURS]|list|minimise [TARGET…] (seen: $*)"
}

# Elsewhere it is either empty or asks for it.
if [ "${FUZZ_ASAN-}" = 0 ]; then export FUZZ_ASAN=; fi
[ -f fuzz/Cargo.toml ] || fail "fuzz/Cargo.toml: not found; the list of targets is wanted there"
case "${1:-nothing}" in
  smoke)
    if [ -z "${FUZZ_WHOLE:-}" ]; then export FUZZ_PARSERS=1; fi
    use_asan
    check_parsers
    build
    check_canary
    fuzz_all "$SMOKE_SECONDS"
    ;;
  long)
    count=$(targets | wc -l)
    seconds=$(python3 -c 'import sys; print(max(1, int(float(sys.argv[1]) * 3600 / int(sys.argv[2]))))' \
      "${2:-8}" "$count") || usage "$@"
    check_parsers
    build
    check_canary
    printf 'fuzz: %s targets, each for %s s, %s at a time\n' "$count" "$seconds" "$(nproc)"
    fuzz_all "$seconds"
    ;;
  list) targets ;;
  one) fuzz_one "$2" "$3" ;;
  minimise)
    shift
    build
    mapfile -t all < <(targets)
    if [ $# -eq 0 ]; then set -- "${all[@]}"; fi
    minimise "$@"
    ;;
  *) usage "$@" ;;
esac
