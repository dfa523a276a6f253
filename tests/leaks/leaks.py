#!/usr/bin/env python3
"""Starts and stops a simulated job many times under one agent and looks for what stays behind.

usage: leaks.py --rung PROGRAM [--ranks 64] [--cycles 200] [--json F]

Each cycle runs in a memory cgroup of its own (where this may be made), waits until the agent has
seen every rank and attached its probes, and ends the job. Between cycles, with the agent idle, it
counts the agent's descriptors, BPF links, programs and maps, child processes, resident memory, and
the memory cgroups of the kernel: an agent that keeps a descriptor into a dead process pins its
cgroup. Prints a table; exits 1 if a count does not return to where it was.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Ended jobs answer `why` for an hour, so memory grows until that table (limits::kEndedJobs, 64
# jobs) is full. What one remembered rank may cost, in KiB, and what the allocator may keep.
REMEMBERED_JOBS = 64
KIB_PER_REMEMBERED_RANK = 24
ALLOCATOR_MIB = 8
# The agent keeps the probes of a file that nobody uses for some seconds, in case it is used again.
BASELINE_S, SETTLE_S = 15, 30
# Other programs on the machine make memory cgroups too; an agent that pins those of dead jobs keeps
# every one.
PINNED_SHARE = 0.75


def simulated_nccl():
    """(build id, version) of the simulated NCCL, as the simulator declares them."""
    text = (ROOT / "sim/include/rung_sim/identity.h").read_text(encoding="utf-8")
    return tuple(re.search(rf'{name} = "([^"]+)"', text).group(1)
                 for name in ("kNcclBuildId", "kNcclVersion"))


def write_config(folder, nvml):
    build_id, version = simulated_nccl()
    path = folder / "agent.toml"
    path.write_text(
        f'socket = "{folder}/agent.sock"\nstate_dir = "{folder}/state"\nprometheus_listen = ""\n'
        f'[host]\naccepted_nccl = [{{ build_id = "{build_id}", layout = "{version}" }}]\n'
        f'[nvml]\nlibrary = "{nvml}"\n', encoding="utf-8")
    return path


class MemoryCgroups:
    """Cgroups of the memory controller: one is made per cycle, and all of them are counted."""

    def __init__(self):
        v1 = pathlib.Path("/sys/fs/cgroup/memory")
        v2 = pathlib.Path("/sys/fs/cgroup")
        self.v2 = not v1.is_dir()
        self.root = v2 if self.v2 else v1
        self.works = True
        try:
            if self.v2 and "memory" not in (v2 / "cgroup.subtree_control").read_text():
                raise OSError("the memory controller is not delegated")
            self.make(0).rmdir()
        except OSError as trouble:
            self.works = False
            print(f"memory cgroups: not measured, {trouble}", flush=True)

    def make(self, cycle):
        path = self.root / f"rung-leaks-{os.getpid()}-{cycle}"
        path.mkdir()
        return path

    def count(self):
        """Living and dying ones together; None where they cannot be counted."""
        if not self.works:
            return None
        if self.v2:
            stat = dict(line.split() for line in (self.root / "cgroup.stat").read_text().splitlines())
            return int(stat["nr_descendants"]) + int(stat["nr_dying_descendants"])
        for line in pathlib.Path("/proc/cgroups").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[0] == "memory":
                return int(fields[2])
        return None


def children_of(pid):
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
                out.append(int(entry.name))
    return out


def descriptors(pid):
    """Counts of a process's descriptors: {'fds', 'links', 'programs', 'maps'}."""
    out = {"fds": 0, "links": 0, "programs": 0, "maps": 0}
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            text = entry.read_text(encoding="utf-8", errors="replace")
            out["fds"] += 1
            out["links"] += "\nlink_id:" in text or text.startswith("link_type:")
            out["programs"] += "\nprog_type:" in text
            out["maps"] += "\nmap_type:" in text
    return out


def resident_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1))


class Agent:
    def __init__(self, rung, folder, nvml, run_folder):
        self.rung, self.folder = rung, folder
        config = write_config(folder, nvml)
        log = open(folder / "agent.log", "wb")
        self.process = subprocess.Popen([rung, "agent", "--config", config], stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=log,
                                        env=dict(os.environ, RUNG_SIM_DIR=str(run_folder)))
        deadline = time.monotonic() + 20
        while self.status() is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the agent did not start: " +
                         (folder / "agent.log").read_text(errors="replace")[-500:])
            time.sleep(0.1)

    def status(self):
        done = subprocess.run([self.rung, "status", "--json", "--socket", self.folder / "agent.sock"],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def attached_ranks(self, known):
        """Ranks of jobs not in `known` whose host rung is attached or flows."""
        count = 0
        for job in (self.status() or {}).get("jobs", []):
            if job["job"] in known:
                continue
            for rank in job["ranks"]:
                stages = {c["rung"]: c["stage"] for c in rank["coverage"]}
                count += stages.get("host") in ("attached", "flowing")
        return count

    def jobs(self):
        return {job["job"] for job in (self.status() or {}).get("jobs", [])}

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=30)


def run_cycle(agent, args, cgroups, cycle, run_folder):
    """One job, from start to end; gives how many ranks the agent had attached to."""
    known = agent.jobs()
    cgroup = cgroups.make(cycle) if cgroups.works else None

    def enter():
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    shutil.rmtree(run_folder, ignore_errors=True)
    job = subprocess.Popen([args.rung, "sim", "run", "scale_64", "--ranks", str(args.ranks),
                            "--for", "600", "--folder", run_folder], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter)
    attached, deadline = 0, time.monotonic() + args.attach_seconds
    try:
        while attached < args.ranks and time.monotonic() < deadline:
            time.sleep(0.25)
            attached = agent.attached_ranks(known)
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=60)
    shutil.rmtree(run_folder, ignore_errors=True)
    if cgroup is not None:
        for _ in range(100):
            with contextlib.suppress(OSError):
                cgroup.rmdir()
                break
            time.sleep(0.1)
    return attached


def forget_caches():
    """Clean caches of a dead job keep its cgroup, with or without an agent; an agent's grip stays."""
    os.sync()
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


def measure(agent, cgroups):
    pid = agent.process.pid
    workers = children_of(pid)
    row = descriptors(pid)
    row["children"] = len(workers)
    row["worker fds"] = sum(descriptors(worker)["fds"] for worker in workers)
    forget_caches()
    row["cgroups"] = cgroups.count()
    row["rss KiB"] = resident_kib(pid)
    return row


COUNTS = ("fds", "links", "programs", "maps", "children")


def settled(agent, cgroups, wanted):
    """Measures when the counts are back at `wanted`, or after SETTLE_S (BASELINE_S without)."""
    deadline = time.monotonic() + (SETTLE_S if wanted else BASELINE_S)
    while True:
        row = measure(agent, cgroups)
        back = wanted and all(row[name] <= wanted[name] for name in COUNTS)
        if back or time.monotonic() > deadline:
            return row
        time.sleep(0.5)


def allowed_rss_kib(first, ranks, cycles):
    remembered = min(cycles, REMEMBERED_JOBS) * ranks
    return first + remembered * KIB_PER_REMEMBERED_RANK + ALLOCATOR_MIB * 1024


def print_row(cycle, attached, row):
    cells = [f"{cycle:>5}", f"{attached:>8}"]
    cells += [f"{'-' if value is None else value:>10}" for value in row.values()]
    print(" ".join(cells), flush=True)


def verdict(rows, args):
    """What is wrong with the last row against the first: a list of lines."""
    first, last = rows[0], rows[-1]
    wrong = [f"{name}: {first[name]} at the start, {last[name]} at the end" for name in COUNTS
             if last[name] > first[name]]
    if first["cgroups"] is not None:
        more = last["cgroups"] - first["cgroups"]
        if more > PINNED_SHARE * args.cycles:
            wrong.append(f"memory cgroups: {more} more after {args.cycles} jobs with one each")
    allowed = allowed_rss_kib(first["rss KiB"], args.ranks, args.cycles)
    if last["rss KiB"] > allowed:
        wrong.append(f"resident memory: {last['rss KiB']} KiB, at most {allowed} KiB explained")
    return wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", type=lambda p: str(pathlib.Path(p).resolve()), required=True)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--attach-seconds", type=float, default=30)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    return parser.parse_args()


def main():
    args = arguments()
    if os.geteuid() != 0:
        print("leaks: skipped, needs root for the probes")
        return 77
    nvml = pathlib.Path(args.rung).parent / "sim" / "libnvidia-ml.so.1"
    work = pathlib.Path(tempfile.mkdtemp(prefix="rung-leaks-"))
    run_folder = work / "run"
    cgroups = MemoryCgroups()
    agent = Agent(args.rung, work, nvml, run_folder)
    rows, missed = [], 0
    try:
        # The first two cycles fill caches, pools and the libraries' symbol tables.
        for cycle in (-2, -1):
            run_cycle(agent, args, cgroups, cycle, run_folder)
        first = settled(agent, cgroups, None)
        rows.append(first)
        print(" ".join([f"{'cycle':>5}", f"{'attached':>8}", *(f"{name:>10}" for name in first)]))
        print_row(0, 0, first)
        every = max(1, args.cycles // 10)
        for cycle in range(1, args.cycles + 1):
            attached = run_cycle(agent, args, cgroups, cycle, run_folder)
            missed += attached < args.ranks
            if cycle % every == 0 or cycle == args.cycles:
                rows.append(settled(agent, cgroups, first))
                print_row(cycle, attached, rows[-1])
    finally:
        agent.end()
        shutil.rmtree(work, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps({"ranks": args.ranks, "cycles": args.cycles, "rows": rows},
                                        indent=1), encoding="utf-8")
    wrong = verdict(rows, args)
    if missed:
        wrong.append(f"{missed} of {args.cycles} cycles ended before all ranks were attached")
    for line in wrong:
        print(f"leaks: {line}")
    print(f"leaks: {args.cycles} cycles of {args.ranks} ranks, {len(wrong)} finding(s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
