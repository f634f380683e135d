#!/usr/bin/env bash
# Makes the models that ship anew, from data sets that do not:
#   bash models/make.sh services CAPTURES RUNS   captures of many places with MANIFEST.tsv and flows.tsv, and
#                                           runs of the testbed (docs/guide/testbed-services.md)
#   bash models/make.sh categories CAPTURES RUNS   the same
#   bash models/make.sh devices CAPTURES FOREIGN   a folder of captures for each device: IoT Sentinel's;
#                                           and a folder with the captures of other places that
#                                           recipes/devices-foreign.txt lists, such as that of services
#   bash models/make.sh labels CAPTURES     prints the labels of these
#   bash models/make.sh packetlog DATA      a folder with runs of the testbed in attacks, attacks-quiet,
#                                           attacks-forged and services, and captures of other places
#                                           in the folders services, devices, latency and attacks of
#                                           captures, of which the benign ones train
#   bash models/make.sh cca SLOTS           slots of runs: testbed/data/congestion
#                                           was trained on earlier runs, which are not kept
#   bash models/make.sh cca-onetap ROWS     rows of models/onetap_traces.py: testbed/data/onetap
#   bash models/make.sh l4s TRACES          traces of models/l4s_traces.py
#   bash models/make.sh video-rate CALLS CAPTURES   runs of the testbed's data set calls; and captures
#                                           without calls, such as those of services; keeps rows in
#                                           ROWS; more folders of captures are judged and train nothing
# More options of `wirelens train classify`, such as --report, may follow. Recipes are beside this.
# WORK=DIR keeps trained models there, for the next run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
[ $# -ge 2 ] || { sed -n '2,20p' "$0" >&2; exit 2; }
kind=$1 data=$2
shift 2

# shellcheck source=models/devices_data.sh
source "$here/devices_data.sh"

# Each capture's label is the name of its folder; two of one device, as in EdnetCam1, are one.
devices_of() {
  printf 'file\tlabel\n'
  (cd "$1" && ls -- */*.pcap) | while read -r file; do
    name=${file%%/*}
    case $name in EdnetCam? | EdimaxCam? | WeMoSwitch2 | WeMoInsightSwitch2) name=${name%?} ;; esac
    printf '%s\t%s\n' "$file" "$name"
  done
}

# The benign captures of CAPTURES/attacks that no other folder of CAPTURES has, with their manifest.
benign_of() {
  mkdir -p "$2"
  awk -F '\t' -v OFS='\t' '
    FNR == 1 { delete at; for (i = 1; i <= NF; i++) at[$i] = i; file++; if (file == 4) print; next }
    file < 4 { seen[$at["sha1_blob"]]; next }
    $at["label"] == "benign" && !($at["sha1_blob"] in seen)
  ' "$1"/{services,devices,latency,attacks}/MANIFEST.tsv >"$2/MANIFEST.tsv"
  tail -n +2 "$2/MANIFEST.tsv" | cut -f 1 | while read -r file; do
    mkdir -p "$2/$(dirname "$file")"
    ln -s "$(realpath "$1/attacks/$file")" "$2/$file"
  done
}

if [ "$kind" = labels ]; then
  devices_of "$data"
  exit
fi

# Names in the card are those of this folder, not of the machine.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
ln -s "$here" "$place/models"
ln -s "$(realpath "$data")" "$place/data"
if [ -n "${WORK:-}" ]; then ln -s "$(realpath "$WORK")" "$place/work"; fi

train() {
  (cd "$place" && "$python" -m wirelens.classify train "$@" -o "models/$kind" --force \
    --recipe "models/recipes/$kind.toml" --work work)
}

case $kind in
  services)
    [ $# -ge 1 ] || { echo "services: wanted: CAPTURES and RUNS" >&2; exit 2; }
    ln -s "$(realpath "$1")" "$place/runs"
    shift
    train -r data --flows data/flows.tsv --label ndpi_proto --manifest data/MANIFEST.tsv --testbed runs "$@"
    ;;
  categories)
    [ $# -ge 1 ] || { echo "categories: wanted: CAPTURES and RUNS" >&2; exit 2; }
    ln -s "$(realpath "$1")" "$place/runs"
    shift
    train -r data --flows data/flows.tsv --manifest data/MANIFEST.tsv --testbed runs "$@"
    ;;
  devices)
    [ $# -ge 1 ] || { echo "devices: wanted: CAPTURES and FOREIGN" >&2; exit 2; }
    foreign=$(realpath "$1")
    shift
    lay_out_devices "$place" "$foreign"
    train -r data -r foreign --flows devices.tsv "$@"
    ;;
  packetlog)
    # Among captures of attacks are benign ones, some of which the other folders have, too.
    mkdir -p "$place/sources/captures"
    for kind in services devices latency; do
      ln -s "$place/data/captures/$kind" "$place/sources/captures/$kind"
    done
    benign_of "$place/data/captures" "$place/sources/captures/benign"
    for kind in attacks attacks-quiet attacks-forged services; do
      ln -s "$place/data/$kind" "$place/sources/$kind"
    done
    cd "$place/sources"
    "$python" -m wirelens.packetlog train -r attacks -r attacks-quiet -r attacks-forged -r services \
      --benign captures/services --benign captures/devices --benign captures/latency \
      --benign captures/benign --sealed 20% --states 65536 --reuse-flows 65536 --trees 10 \
      --depth 10 --weight 1 --rows-max 240000 -o "$place/models/packetlog" --force \
      --note "$(cat "$place/models/recipes/packetlog-note.txt")" "$@"
    ;;
  cca)
    cd "$place"
    "$python" -m wirelens.cca train -r data/train -r data/rates-train -r data/few-train -r data/few-long \
      --evaluate data/heldout --evaluate data/rates-heldout --evaluate data/few-heldout --evaluate data/transfer \
      --levels --inputs cbiq_bytes,ingress_bytes,egress_bytes --durations 10ms,100ms,1s,10s --seed 3 -o models/cca --force \
      --note "$(cat models/recipes/cca-note.txt)" "$@"
    ;;
  cca-onetap)
    # Runs of Linux are few: each counts four times.
    linux=(-r data/linux.xz)
    cd "$place"
    "$python" -m wirelens.cca train --taps 1 -r data/ns3 "${linux[@]}" "${linux[@]}" "${linux[@]}" "${linux[@]}" \
      --epochs 36 -o models/cca-onetap --force --note "$(cat models/recipes/cca-onetap-note.txt)" "$@"
    ;;
  l4s)
    cd "$place"
    mapfile -t traces < <(printf -- '-r\n%s\n' data/network-*.l4s)
    "$python" -m wirelens.l4s train "${traces[@]}" --window 64 --steps 100 --head-steps 10000 -o models/l4s --force \
      --note "$(cat models/recipes/l4s-note.txt)" "$@"
    ;;
  video-rate)
    [ $# -ge 1 ] || { echo "video-rate: wanted: CALLS and CAPTURES" >&2; exit 2; }
    captures=$(realpath "$1")
    shift
    "$python" "$here/../bench/evaluation/classify/qoe.py" artifact "$place/data" "$place/work" \
      "$captures" "$place/video-rate" "${ROWS:-$place/rows}" "$@"
    rm -rf "$here/video-rate"
    cp -r "$place/video-rate" "$here/video-rate"
    ;;
  *) echo "$kind: no model that ships; wanted: services, categories, devices, packetlog, cca, cca-onetap, l4s or video-rate" >&2; exit 2 ;;
esac
