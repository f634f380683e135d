#!/usr/bin/env bash
# Compares the model that ships with rules that learn nothing, with 10 seeds that trained and chose
# nothing, over networks, routers and axes; and a BiLSTM in its place. A quarter of an hour on two cores,
# and half an hour more for the BiLSTM, which TRACES (models/l4s_traces.py) train.
#
#     bash bench/evaluation/l4s/predicted.sh bench/results/FOLDER [TRACES]
set -euo pipefail
folder=$1
eval_l4s() { # NAME OPTIONS...
  [ -e "$folder/$1.jsonl" ] && return
  .venv/bin/wirelens eval l4s --controls --seed 201 --seeds 10 --rows "$folder/$1.jsonl" -o "$folder/$1.md" "${@:2}"
}
networks=websearch,hadoop,video-steady,video-varying,web-steady,web-varying
eval_l4s controls --model models/l4s --scenarios "$networks",greedy --routers dualpi2,ts-fifo,partitioned-20,partitioned-50,tail-drop --plots "$folder/plots"
for axis in queue=2,5,10,20 flows=10,50,100,500 delay=20,40,100,200; do
  eval_l4s "${axis%%=*}" --model models/l4s --scenarios sensitivity --routers dualpi2,partitioned-20 --vary "$axis"
done
[ $# -ge 2 ] || exit 0
# A third of the traces: an LSTM encodes a window for each batch.
mapfile -t read < <(printf -- '-r\n%s\n' "$2"/network-0?.l4s "$2"/network-1[0-5].l4s)
[ -d "$2/bilstm" ] || .venv/bin/wirelens train l4s "${read[@]}" --network bilstm --window 64 --steps 300 -o "$2/bilstm"
eval_l4s bilstm --model "$2/bilstm" --scenarios websearch,hadoop --routers dualpi2,partitioned-20
