#!/usr/bin/env python3
"""Starts the ranks of one job on one GPU and waits for them, as torchrun would.

usage: launch.py --ranks N --folder DIR [--grace S] -- PROGRAM [ARGS...]

Leaves in DIR: pids.json (who is who), rank-R.log (what a rank printed), exit.json (exit codes; a
rank ended by signal S has -S). When a rank fails, the others get --grace seconds and are then
killed. SIGTERM ends the whole job. Only processes started here are ever signalled.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_json(path, content):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.rename(path)


def environment(rank, world, port):
    env = dict(os.environ)
    env.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), PYTHONUNBUFFERED="1",
        # Each rank on its own "host": NCCL refuses two ranks of one host on one GPU.
        NCCL_HOSTID=f"rung-{port}-{rank}",
        # NVLink multicast stays off on this machine.
        NCCL_NVLS_ENABLE="0",
        OMP_NUM_THREADS="1",
    )
    return env


def kill_all(ranks):
    for process in ranks:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)  # ends a stopped process too


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--grace", type=float, default=30)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program:
        parser.error("no program given after --")
    args.folder.mkdir(parents=True, exist_ok=True)

    asked_to_end = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.append(True))
    signal.signal(signal.SIGINT, lambda *_: asked_to_end.append(True))
    port = free_port()
    ranks = []
    for rank in range(args.ranks):
        with open(args.folder / f"rank-{rank}.log", "wb") as log:
            ranks.append(subprocess.Popen(program, env=environment(rank, args.ranks, port),
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    write_json(args.folder / "pids.json",
               {"launcher": os.getpid(), "ranks": [process.pid for process in ranks]})

    first_failure = None
    while any(process.poll() is None for process in ranks):
        failed = any(process.returncode not in (None, 0) for process in ranks)
        if failed and first_failure is None:
            first_failure = time.monotonic()
        late = first_failure is not None and time.monotonic() - first_failure > args.grace
        if asked_to_end or late:
            kill_all(ranks)
        time.sleep(0.05)
    codes = [process.returncode for process in ranks]
    write_json(args.folder / "exit.json", {"codes": codes})
    return next((1 for code in codes if code != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
