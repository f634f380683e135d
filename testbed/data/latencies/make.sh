#!/usr/bin/env bash
# Makes the four traces again and packs them here; takes root, and an hour of a quiet machine.
#
#     bash testbed/data/latencies/make.sh
set -euo pipefail
here=$(dirname "$0")
.venv/bin/wirelens testbed make testbed/datasets/latency.toml
.venv/bin/python "$here/pack.py" testbed-runs/latency
