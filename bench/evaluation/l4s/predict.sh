#!/usr/bin/env bash
# Compares predictors of latencies on the four traces of testbed/data/latencies, with SEEDS seeds (3 unless set), and
# ours by how often it is fine-tuned and by how many packets share a prediction, on two of them. Rows that are there are
# not made again. About an hour on one core.
#
#     bash bench/evaluation/l4s/predict.sh bench/results/FOLDER
set -euo pipefail
folder=$1
traces=testbed/data/latencies
web=$traces/web-varying.parquet
video=$traces/video-varying.parquet
export OMP_NUM_THREADS=1
compare() {
  local name=$1
  shift
  .venv/bin/python -m wirelens.l4s eval --predict "$@" --seeds "${SEEDS:-3}" --window 64 --steps 100 \
    --rows "$folder/$name.jsonl" >/dev/null
}
compare predict "$web" "$video" "$traces"/web-steady.parquet "$traces"/video-steady.parquet \
  --predictors last-of-flow,last-of-queue,littles-law,xgboost,bilstm,causal,causal-mse
compare every "$web" "$video" --predictors causal --every 0,60,600
for batch in 1 4 16 32; do
  compare batch "$web" "$video" --predictors causal --batch "$batch"
done
