#!/usr/bin/env bash
# Makes the recordings of long simulated faults that CI replays:
#   tests/scenarios/record.sh BUILD_DIR OUTPUT_DIR
# 90 s and more of a checkpoint (a pause, never a hang) and of a rank that does not join (a hang after
# a minute). Takes about two minutes; needs root.
set -euo pipefail

build=$(realpath "$1")
out=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

record() (  # record SCENARIO NAME, in a shell of its own that ends what it started
  pids=()
  trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
  folder=$work/$1
  mkdir "$folder"
  cat >"$folder/agent.toml" <<TOML
socket = "$folder/agent.sock"
state_dir = "$folder/state"
prometheus_listen = ""
[host]
accepted_nccl = [{ build_id = "73696d756c617465642d6e63636c322e32382e39", layout = "2.28.9" }]
[nvml]
library = "$build/sim/libnvidia-ml.so.1"
TOML
  RUNG_SIM_DIR=$folder/run "$build/rung" agent --config "$folder/agent.toml" 2>"$folder/agent.log" &
  pids+=($!)
  sleep 3
  "$build/rung" sim run "$1" --folder "$folder/run" --for 130 --fault-for 100 >"$folder/sim.log" 2>&1 &
  pids+=($!)
  sleep 3
  # The launcher of this very job names it; other jobs may run on this machine.
  launcher=$(sed -n 's/.*launcher pid \([0-9]*\),.*/\1/p' "$folder/sim.log")
  job=$("$build/rung" status --json --socket "$folder/agent.sock" |
    python3 -c 'import json,sys
for job in json.load(sys.stdin)["jobs"]:
    if job["job"].startswith("run:" + sys.argv[1] + "-"): print(job["job"])' "$launcher")
  rm -f "$out/$2.rung"
  "$build/rung" record -o "$out/$2.rung" --for 112 --socket "$folder/agent.sock" "$job"
)

record checkpoint_pause simulated_checkpoint_90s &
first=$!
record sleep_before_collective simulated_not_joined_90s &
wait "$first" $!
