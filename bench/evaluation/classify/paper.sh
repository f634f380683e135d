#!/usr/bin/env bash
# Counterparts of ServeFlow's Tables 1, 2, 3, 5 and Figures 2, 3, 5, 9, 10, 12 (paper_tables.py):
#   bash bench/evaluation/classify/paper.sh TASK           with the recipe that the kept rows were made with:
#                                               recipes/ beside this file, or one of models/recipes
#   bash bench/evaluation/classify/paper.sh headers TASK   as the paper: header bits and nothing else, 50/10/40;
#                                               but LightGBM of 40 rounds of 15 leaves, since a model
#                                               of 200 of 128 takes minutes to train
#   bash bench/evaluation/classify/paper.sh frame-rate     seconds of the testbed's calls, by call (qoe.py)
# TASK is testbed, services or devices. Options of `wirelens train classify`, such as --seed 2, may
# follow. Models are kept in bench/data/paper, tables go to bench/data/paper/NAME, or to $RESULTS/NAME.
# RUNS=DIR are the testbed's runs, of services or of calls; captures lie beside the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

readonly PYTHON=${PYTHON:-.venv/bin/python} DATA=../shared/data WORK=${WORK:-bench/data/paper}
readonly RESULTS=${RESULTS:-$WORK}
is_headers=
if [ "${1-}" = headers ]; then is_headers=headers- && shift; fi
[ $# -ge 1 ] || { sed -n '2,12p' "$0" >&2; exit 2; }
task=$1
shift
mkdir -p "$WORK"

if [ "$task" = frame-rate ]; then
  runs=${RUNS:-../data/calls/calls}
  mkdir -p "$WORK/frame-rate.work"
  for step in train leaky; do "$PYTHON" bench/evaluation/classify/qoe.py $step "$runs" "$WORK/frame-rate.work"; done
  exec "$PYTHON" bench/evaluation/classify/qoe.py report "$runs" "$WORK/frame-rate.work" "$RESULTS/frame-rate"
fi
stages=(--fastest decision-tree/1 --fast lightgbm/1 --slow lightgbm/10)
case $task in
  testbed)
    source=(--testbed "${RUNS:-../data/services/services}")
    recipe=models/recipes/services-testbed.toml
    if [ -z "$is_headers" ]; then stages=(--fast lightgbm/1 --slow lightgbm/10); fi
    ;;
  services)
    source=(-r "$DATA/services" --flows "$DATA/services/flows.tsv" --label class)
    source+=(--manifest "$DATA/services/MANIFEST.tsv")
    recipe=models/recipes/services-ndpi.toml
    if [ -z "$is_headers" ]; then
      stages=(--fast boosted-ports/1 --slow boosted-ports/3)
    fi
    ;;
  devices)
    bash models/make.sh labels "$DATA/devices/sentinel" > "$WORK/devices.tsv"
    source=(-r "$DATA/devices/sentinel" --flows "$WORK/devices.tsv")
    recipe=bench/evaluation/classify/recipes/devices.toml
    if [ -z "$is_headers" ]; then stages=(--fast lightgbm/1 --slow lightgbm/10); fi
    ;;
  *) echo "$task: no task; wanted: testbed, services or devices" >&2; exit 2 ;;
esac
if [ -n "$is_headers" ]; then
  options=(--blocks "ipv4,tcp,udp" --numbers none --depths "1,5,10" --flows-min 10)
  options+=(--families "decision-tree,random-forest,lightgbm,xgboost,cnn")
  for setting in num_boost_round=40 learning_rate=0.15 num_leaves=15 feature_fraction=0.3 \
    min_data_in_leaf=5 lambda_l2=1.0; do
    options+=(--set "lightgbm.$setting")
  done
else
  options=(--recipe "$recipe")
fi
name=$is_headers$task
# Which pictures: those of the stages.
models=()
for word in "${stages[@]}"; do [[ $word == --* ]] || models+=("$word"); done
last=$((${#models[@]} - 1))
for first in "${models[@]:0:$last}"; do stages+=(--draw "$first:${models[$last]}"); done
exec "$PYTHON" bench/evaluation/classify/paper_tables.py "$RESULTS/$name" "${stages[@]}" -- \
  "${source[@]}" "${options[@]}" -o "$WORK/none" --work "$WORK/$name.work" "$@"
