#!/usr/bin/env bash
# Judges the model `categories` on flows that trained nothing, and keeps the figures as rows:
#   bash bench/evaluation/classify/categories.sh CAPTURES RUNS FOLDER
# CAPTURES and RUNS are those of models/make.sh categories. Into FOLDER
#   sealed.jsonl     the families that are sealed by a hash of their names
#   testbed-N.jsonl  each run of the testbed, by a model that the others trained
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,7p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../../.." && pwd)
captures=$(realpath "$1") runs=$(realpath "$2") folder=$(realpath "$3")
python=${PYTHON:-$here/.venv/bin/python}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Names of captures are those of the training, since a family is sealed by its name.
ln -s "$captures" "$place/data"
ln -s "$here/models" "$place/models"
cd "$place"
judge() {
  "$python" -m wirelens.classify eval -q --known-ports models/recipes/known-ports.tsv -o report.md "$@"
}
judge --model models/categories -r data --flows data/flows.tsv --label class --manifest data/MANIFEST.tsv \
  --sealed 0.2 --rows "$folder/sealed.jsonl"
for run in "$runs"/*; do
  name=$(basename "$run")
  mkdir -p "without-$name" "only-$name"
  cp -r "$run" "only-$name"
  for other in "$runs"/*; do
    [ "$other" = "$run" ] || cp -r "$other" "without-$name"
  done
  "$python" -m wirelens.classify train -q -r data --flows data/flows.tsv --manifest data/MANIFEST.tsv \
    --testbed "without-$name" -o "model-$name" --name categories --recipe models/recipes/categories.toml --work work
  judge --model "./model-$name" --testbed "only-$name" --classes models/recipes/categories-classes.tsv \
    --rows "$folder/testbed-${name##*-}.jsonl"
done
