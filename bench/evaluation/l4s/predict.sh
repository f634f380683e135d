#!/usr/bin/env bash
# Compares predictors of latencies on the four traces of testbed/data/latencies, with SEEDS seeds (3 unless set), and
# describes the traces. Rows that are there are not made again. About two hours on two cores.
#
#     bash bench/evaluation/l4s/predict.sh bench/results/FOLDER
set -euo pipefail
folder=$1
traces=testbed/data/latencies
export OMP_NUM_THREADS=1
.venv/bin/python bench/evaluation/l4s/traces.py "$traces"/*.parquet >"$folder/traces.jsonl"
.venv/bin/wirelens eval l4s --predict "$traces"/*.parquet --seeds "${SEEDS:-3}" --steps 1500 \
  --rows "$folder/predict.jsonl" -o "$folder/predict.md"
