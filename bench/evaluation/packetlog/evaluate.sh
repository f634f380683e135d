#!/usr/bin/env bash
# The figures of docs/evaluation/packetlog.md anew: models and what they do on held-out runs.
#   bash bench/evaluation/packetlog/evaluate.sh RUNS CAPTURES OUT
# RUNS has attacks, attacks-heldout and services: data sets of `wirelens testbed make`. CAPTURES has
# services, devices and attacks: captures of other places with a MANIFEST.tsv. OUT is made: models
# s1, s2 and s3 of the testbed's runs, packetlog of other places as well, heldout.md, wide.md,
# real.md, others-s1.md, wide-real.md, and curve.md by false alarms. Half an hour on two cores.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '3,7p' "$0" >&2; exit 2; }
python=$(cd "$(dirname "$0")/../../.." && pwd)/.venv/bin/python
here=$(cd "$(dirname "$0")" && pwd)
runs=$(realpath "$1") captures=$(realpath "$2")
mkdir -p "$3"
cd "$3"
ln -sfn "$captures" captures
for data in attacks attacks-heldout services; do
  [ -d "$runs/$data" ] || { echo "$runs/$data: not there" >&2; exit 1; }
  # Names in reports are those of the data, not of the machine.
  ln -sfn "$runs/$data" "$data"
done

# A weight of 1 is what folds chose for 8 % of false alarms with the first seed (curve.jsonl).
train() {
  "$python" -m wirelens.packetlog train -r attacks -r services --rows-max 200000 --weight 1 "$@"
}
wide=(--benign captures/services --benign captures/devices --false-alarms 8%)

train -o s1 --report trained.json
train -o s2 --seed 2 --report trained-2.json
train -o s3 --seed 3 --report trained-3.json
train -o packetlog "${wide[@]}" --report wide.json
evaluate() { "$python" -m wirelens.packetlog eval "$@"; }
evaluate -r attacks-heldout --model s1 --model s2 --model s3 --trained-on attacks \
  --trained-on services -o heldout.md --table heldout.jsonl --plots plots
evaluate -r attacks-heldout --model packetlog -o wide.md
evaluate -r captures/attacks --benign captures/services --model s1 -o real.md
evaluate --benign captures/services --benign captures/devices --model s1 -o others-s1.md
# Benign captures among these were not trained on; captures/services were.
evaluate -r captures/attacks --model packetlog -o wide-real.md
"$python" "$here/curve.py" curve.jsonl attacks-heldout attacks services > curve.md
