#!/usr/bin/env bash
# Judges the models that ship on flows that trained nothing, and keeps the figures as rows:
#   bash bench/evaluation/classify/strangers.sh DATA SERVICES DEVICES
# DATA has `services`, `devices`, `attacks` and `formats`. Into SERVICES:
#   sealed.jsonl, sealed.md    families of `services` that are sealed by a hash of their names
#   foreign-SET.jsonl          captures of other places, their flows labelled by nDPI
#   labels-SET.tsv             how many flows nDPI gave which label
# Into DEVICES sealed.jsonl, the captures of `devices` that are sealed. NFStream carries nDPI:
# tools/requirements-bench.txt; NFSTREAM=PYTHON names the interpreter that has it.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,10p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../../.." && pwd)
data=$(realpath "$1") services=$(realpath "$2") devices=$(realpath "$3")
python=${PYTHON:-$here/.venv/bin/python}
nfstream=${NFSTREAM:-$python}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# shellcheck source=models/devices_data.sh
source "$here/models/devices_data.sh"

judge() {
  (cd "$place" && "$python" -m wirelens.classify eval -q "$@")
}

as_services=(--model models/services --label ndpi_proto --classes models/recipes/services-classes.tsv
  --known-ports models/recipes/services-ports.tsv)

# Names of captures are those of the training, since a family is sealed by its name.
ln -s "$data/devices/sentinel" "$place/data"
lay_out_devices "$place" "$data/services"
ln -s "$here/models" "$place/models"
ln -s "$data/services" "$place/CAPTURES"
judge "${as_services[@]}" -r CAPTURES --flows CAPTURES/flows.tsv --manifest CAPTURES/MANIFEST.tsv \
  --sealed 0.2 --rows sealed.jsonl -o sealed.md
mv "$place/sealed.jsonl" "$place/sealed.md" "$services"
judge --model models/devices -r data -r foreign --flows devices.tsv \
  --classes models/recipes/devices-classes.tsv --sealed 0.2 --rows "$devices/sealed.jsonl" -o report.md
while read -r name folder; do
  "$nfstream" "$here/bench/evaluation/classify/ndpi_labels.py" "$place/$name.tsv" "$data/$folder" \
    --without "$data/services"
  {
    printf 'ndpi_proto\tflows\n'
    tail -n +2 "$place/$name.tsv" | cut -f7 | sort | uniq -c | awk '{print $2 "\t" $1}'
  } > "$services/labels-$name.tsv"
  judge "${as_services[@]}" -r "$data/$folder" --flows "$name.tsv" -o report.md \
    --rows "$services/foreign-$name.jsonl"
done <<'SETS'
sentinel devices/sentinel
home devices/madea
place devices/tjoconnor
attacks attacks
formats formats
SETS
