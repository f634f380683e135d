#!/usr/bin/env bash
# Measures Wirelens beside its peers: `make bench`, or
#
#   bash bench/speed/run.sh                 everything, five rounds; about half an hour on two cores
#   bash bench/speed/run.sh --quick         a small capture, two rounds; under two minutes
#   bash bench/speed/run.sh --rounds 9      more rounds
#   bash bench/speed/run.sh --jobs 'wirelens|tuned'   some of the programs
#   bash bench/speed/run.sh --only fig3,fig4,crossing,top,flows
#   bash bench/speed/run.sh --only trees    models of trees, trained first, which takes five minutes
#   bash bench/speed/run.sh --only serve    flows of a capture through cascades of them
#   bash bench/speed/run.sh --only own      flows of real captures through cascades that training chose
#   bash bench/speed/run.sh --only live     on an interface; root; a quarter of an hour, not in the others
#   bash bench/speed/run.sh --only serve-loads   flows of the testbed's services on emulated consumers
#   bash bench/speed/run.sh --output DIR    results there
#
# Captures are made once, under bench/data/, which takes about 9 GB there and
# should fit into memory beside the programs. Results go to a new folder
# bench/results/DATE-CPU/; those of --quick to bench/data/quick-results/.
# Peers that are not installed are named and left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly DATA=bench/data YARDSTICKS=../shared/bench REAL=../shared/data/services
readonly PYTHON=.venv/bin/python BENCH=target/release/wirelens-bench

say() { printf 'bench: %s\n' "$*" >&2; }

is_quick() {
  local word
  for word in "$@"; do [ "$word" != --quick ] || return 0; done
  return 1
}

# wants FIGURE ARGUMENT...: whether --only names it.
wants() {
  local figure=$1
  shift
  while [ $# -gt 1 ]; do
    if [ "$1" = --only ]; then case ",$2," in *",$figure,"*) return 0 ;; esac; fi
    shift
  done
  return 1
}

build() {
  cargo build --release --locked --package wirelens --package wirelens-bench \
    --features wirelens-bench/onnx
}

# Models, rows for them and their ONNX form, made once.
make_trees() {
  bash tools/setup.sh onnx
  if [ -e "$DATA/trees/lightgbm-10.onnx" ]; then return; fi
  make --silent python
  say "training models"
  "$PYTHON" bench/speed/train_trees.py --onnx
}

# Cascades of those, and the flows that are sent through them.
make_serve() {
  make_trees
  if [ -e "$DATA/serve/all/SHA256SUMS" ]; then return; fi
  make_input serve-flows make_backbone 300000
  make --silent python
  "$PYTHON" bench/speed/make_serve.py "$DATA/serve-flows/headers.pcap"
}

# Loads of real flows, each with a cascade for them: those that ship, and one placed for speed.
make_own() {
  make_load services models/services testdata/testbed/services
  if [ ! -d "$REAL" ]; then
    say "SKIPPED: services of many places, devices: no $REAL"
    return
  fi
  make_load devices models/devices "$REAL/../devices"
  if [ ! -e "$DATA/many-services/SHA256SUMS" ]; then
    make --silent python
    bash tools/setup.sh train
    "$PYTHON" -m wirelens.classify train -r "$REAL" --flows "$REAL/flows.tsv" \
      --label class --manifest "$REAL/MANIFEST.tsv" --seed 1 \
      --recipe models/recipes/services-ndpi.toml -o "$DATA/many-services" --force \
      --place fastest=port-prior/1 --place slow=boosted-ports/3
  fi
  make_load many-services "$DATA/many-services" "$REAL"
}

make_load() { # NAME MODEL CAPTURES
  make_input "own/$1" draw_load "$3"
  ln -sfn "$(realpath "$2")" "$DATA/own/$1/model"
}

draw_load() { # CAPTURES FOLDER
  "$BENCH" load --read "$1" --flows-per-s 20000 --duration-s 5 --snaplen 256 \
    --flow-packets-max 10 --output "$2/first.pcap"
  "$BENCH" load --read "$1" --flows-per-s 20000 --duration-s 5 --snaplen 256 --flow-packets-max 100 \
    --output "$2/long.pcap"
}

# Single-file C++ programs that say what the machine allows; kept beside the repository.
build_yardsticks() {
  if ! [ -d "$YARDSTICKS" ]; then
    say "SKIPPED: tuned loop, paper's design in C++ and mixed capture: no $YARDSTICKS"
    return
  fi
  local name
  for name in gen tuned paper rec; do
    if [ "$DATA/yardsticks/$name" -nt "$YARDSTICKS/$name.cpp" ]; then continue; fi
    mkdir -p "$DATA/yardsticks"
    g++ -O3 -march=native -std=c++17 -pthread "$YARDSTICKS/$name.cpp" -o "$DATA/yardsticks/$name"
  done
}

# make_input NAME MAKER...: a folder with a capture and its other forms, made once.
make_input() {
  local folder=$DATA/$1
  shift
  if [ -d "$folder" ]; then return; fi
  say "making $folder"
  rm -rf "$folder.partial"
  mkdir -p "$folder.partial"
  "$@" "$folder.partial"
  mv "$folder.partial" "$folder"
}

make_backbone() { # PACKETS FOLDER
  "$BENCH" gen --packets "$1" --output "$2/full.pcap" --headers "$2/headers.pcap" \
    --records "$2/records.bin" --columns "$2"
}

# The yardsticks' own capture, on which the speeds to reach are stated: a fifth real packets.
make_mix() { # FOLDER
  ln -s "$(realpath "$REAL")" "$1/ndpi"
  (cd "$1" && ../yardsticks/gen 1000000 4000000 full.pcap)
  rm "$1/ndpi"
  "$BENCH" convert --read "$1/full.pcap" --headers "$1/headers.pcap" \
    --records "$1/records.bin" --columns "$1"
}

make_inputs() {
  local version
  # What another generator made is another input.
  version=$(cat bench/speed/src/generate/*.rs | sha256sum | cut -c 1-8)
  if is_quick "$@"; then
    make_input "backbone-300k-$version" make_backbone 300000
    inputs=("backbone=$DATA/backbone-300k-$version")
    return
  fi
  make_input "backbone-5m-$version" make_backbone 5000000
  inputs=("backbone=$DATA/backbone-5m-$version")
  if [ -x "$DATA/yardsticks/gen" ] && [ -d "$REAL" ]; then
    make_input "mix-5m" make_mix
    inputs+=("mix=$DATA/mix-5m")
  else
    say "SKIPPED: mixed capture: no $REAL"
  fi
}

# Needs no capture: bench/speed/live.py makes its traffic, in a network of its own.
measure_live() {
  cargo build --release --locked --package wirelens
  cargo build --release --locked --package wirelens-capture --example live_send
  exec "$PYTHON" bench/speed/live.py "$@"
}

# Models of its own, and loads that are emulated with what asking them takes.
measure_loads() {
  bash tools/setup.sh train
  bash tools/setup.sh onnx
  make --silent python
  build
  exec "$PYTHON" bench/speed/classify/loads.py "$@"
}

export PATH="$PATH:/usr/sbin:${CARGO_HOME:-$HOME/.cargo}/bin"
inputs=()
bash tools/setup.sh bench
mkdir -p "$DATA"
if [ "${1-} ${2-}" = '--only live' ]; then measure_live "${@:3}"; fi
if [ "${1-} ${2-}" = '--only serve-loads' ]; then measure_loads "${@:3}"; fi
build
build_yardsticks
if wants trees "$@"; then make_trees; fi
if wants serve "$@"; then make_serve; fi
if wants own "$@"; then make_own; fi
# Models bring rows and flows of their own.
if ! [[ "$*" =~ --only[\ =](trees|serve|own|trees,serve)($|\ ) ]]; then make_inputs "$@"; fi
exec "$PYTHON" bench/speed/run.py "${inputs[@]/#/--input=}" "$@"
