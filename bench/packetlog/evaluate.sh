#!/usr/bin/env bash
# The figures of docs/evaluation/packetlog.md anew: three models and what they do on held-out runs.
#   bash bench/packetlog/evaluate.sh RUNS OUT
# RUNS has attacks, attacks-heldout and services: data sets of `wirelens testbed make`. OUT is
# made: models s1, s2 and s3, heldout.md, heldout.jsonl and plots. Half an hour on two cores.
set -euo pipefail

[ $# -eq 2 ] || { sed -n '3,5p' "$0" >&2; exit 2; }
python=$(cd "$(dirname "$0")/../.." && pwd)/.venv/bin/python
runs=$(realpath "$1")
mkdir -p "$2"
cd "$2"
for data in attacks attacks-heldout services; do
  [ -d "$runs/$data" ] || { echo "$runs/$data: not there" >&2; exit 1; }
  # Names in reports are those of the data, not of the machine.
  ln -sfn "$runs/$data" "$data"
done

train() { "$python" -m wirelens.packetlog train -r attacks -r services "$@"; }

train -o s1 --plots plots --report trained.json
weight=$("$python" -c 'import json; print(json.load(open("s1/model.json"))["training"]["weight"])')
train -o s2 --seed 2 --weight "$weight"
train -o s3 --seed 3 --weight "$weight"
"$python" -m wirelens.packetlog eval -r attacks-heldout --model s1 --model s2 --model s3 \
  --trained-on attacks --trained-on services -o heldout.md --table heldout.jsonl --plots plots
