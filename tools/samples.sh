#!/usr/bin/env bash
# Makes the samples of the testbed's kinds anew: small runs, captures compressed, into testdata/testbed.
#
#   sudo bash tools/samples.sh          all kinds
#   sudo bash tools/samples.sh calls    one of them
#
# Takes root, the built command, and the programs of the kinds (wirelens testbed check --install).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly WIRELENS=target/release/wirelens
readonly SAMPLES=testdata/testbed

growing=$(mktemp -d)
trap 'rm -rf "$growing"' EXIT

# sample KIND SCENARIO [--set KEY=VALUE]...: runs it, and puts what it left into SAMPLES/KIND.
sample() {
  local kind=$1 scenario=$2 folder
  shift 2
  # A busy machine is no reason to go without: the same run is made again.
  for _ in 1 2 3; do
    if folder=$("$WIRELENS" testbed run "testbed/scenarios/$scenario.toml" -o "$growing" "$@"); then
      break
    fi
    rm -rf "$folder"
  done
  rm -rf "$folder/logs"
  gzip -9n "$folder"/*.pcapng
  rm -rf "${SAMPLES:?}/$kind"
  mkdir -p "$SAMPLES"
  mv "$folder" "$SAMPLES/$kind"
}

for kind in "${@:-all}"; do
  case $kind in
    congestion | all) sample congestion congestion-small --set duration_s=3 --set snaplen=80 ;;&
    services | all)
      sample services services-small --set visit_count=1 --set snaplen=128 --set visits.dash=0 \
        --set visits.bittorrent=0
      ;;&
    attacks | all) sample attacks attacks-small ;;&
    calls | all) sample calls call-small --set snaplen=96 ;;&
    latency | all) sample latency latency-small --set duration_s=6 ;;&
  esac
done
du -sh "$SAMPLES"/*
