#!/usr/bin/env bash
# Judges the model `categories` on flows that trained nothing, and keeps the figures as rows:
#   bash bench/evaluation/classify/categories.sh CAPTURES RUNS FOLDER
# CAPTURES has the captures that trained it, RUNS runs of the testbed's services, which trained nothing.
# Into FOLDER sealed.jsonl, the families that are sealed by a hash of their names, and testbed.jsonl.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../../.." && pwd)
captures=$(realpath "$1") runs=$(realpath "$2") folder=$(realpath "$3")
python=${PYTHON:-$here/.venv/bin/python}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Names of captures are those of the training, since a family is sealed by its name.
ln -s "$captures" "$place/data"
cd "$place"
judge() {
  "$python" -m wirelens.classify eval -q --model "$here/models/categories" \
    --known-ports "$here/models/recipes/known-ports.tsv" -o report.md "$@"
}
judge -r data --flows data/flows.tsv --label class --manifest data/MANIFEST.tsv --sealed 0.2 \
  --rows "$folder/sealed.jsonl"
judge --testbed "$runs" --classes "$here/models/recipes/categories-testbed.tsv" \
  --rows "$folder/testbed.jsonl"
