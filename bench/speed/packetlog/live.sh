#!/usr/bin/env bash
# Recorders on an interface side by side: datagrams of many flows and of few, and the frames of a
# capture where one is named; root, an hour with three rounds.
#
#   bash bench/speed/packetlog/live.sh [OUT [CAPTURE]]
#   ROUNDS=1 bash bench/speed/packetlog/live.sh    # a third of that time
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
out=${1:-bench/data/packetlog-live}
capture=${2:-}
beside=(.venv/bin/python bench/speed/packetlog/live_beside.py --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-5}")
cargo build --release --locked --package wirelens
cargo build --release --locked --package wirelens-capture --example live_send
if [[ -n $capture ]]; then
  "${beside[@]}" --replay "$capture" --output "$out/$(basename "${capture%.*}")"
fi
for flows in 16384 500; do
  "${beside[@]}" --flows "$flows" --output "$out/flows-$flows"
done
