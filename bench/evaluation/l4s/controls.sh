#!/usr/bin/env bash
# Compares controls that learn nothing, with 16 seeds, over networks, routers and axes.
#
#     bash bench/evaluation/l4s/controls.sh bench/results/FOLDER
set -euo pipefail
folder=$1
eval_l4s() { # NAME OPTIONS...
  .venv/bin/wirelens eval l4s --controls --seeds 16 --rows "$folder/$1.jsonl" -o "$folder/$1.md" "${@:2}"
}
routers=dualpi2,ts-fifo,ramp,partitioned-20,partitioned-50
eval_l4s controls --scenarios websearch,hadoop,greedy --routers "$routers" --plots "$folder/plots"
eval_l4s dupacks --scenarios websearch,greedy --routers dualpi2,partitioned-20 --recovery dupacks
for axis in queue=2,5,10,15,20 flows=10,50,100,200,500,1000 delay=20,40,100,150,200; do
  eval_l4s "${axis%%=*}" --scenarios sensitivity --routers dualpi2,partitioned-20 --vary "$axis"
done
