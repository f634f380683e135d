#!/usr/bin/env bash
# Recorders on an interface side by side, packets of many flows and of few; root, a quarter of an hour.
#
#   bash bench/packetlog/live.sh [OUT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:-bench/data/packetlog-live}
cargo build --release --locked --package wirelens
cargo build --release --locked --package wirelens-capture --example live_send
for flows in 16384 500; do
  .venv/bin/python bench/packetlog/live_beside.py --flows "$flows" --output "$out/flows-$flows"
done
