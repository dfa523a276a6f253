#!/usr/bin/env python3
"""Checks of the spine on a machine with one NVIDIA GPU and PyTorch: Rung watches real jobs.

usage: run.py [--rung build/release/rung] [--out DIR] [--only CHECK,...] [--ranks 2,4] ...

  doctor     what each rung says it can do here
  healthy    60 s of undisturbed training: no accusation, no stall
  faults     a rank sleeps, sends another size, skips, is stopped, is killed: named within 10 s;
             the agent started before the jobs and after them; recordings are kept
  late       the agent comes 60 s after the fault: right or silent, never wrong
  identical  loss and exit codes with Rung, without it, and with the agent killed in mid-run
  overhead   on/off pairs of the host rung inside one process, with a confidence interval
  cost       CPU and memory of the agent and its vendor workers at 8 ranks

Prints a table, writes results.json and the recordings to --out. Exits 1 if a check failed.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import harness
from harness import ACCUSING, Agent, Gone, Job, Rung, Watch, family, say, wait_for_host_rung
from statistics_of_pairs import bootstrap_interval, relative_differences, step_medians

NAMED_WITHIN_S = 10.0
RECORD_BEFORE_S, RECORD_AFTER_S = 12, 18
FAULTS = ("sleep", "size", "skip", "stop", "kill")
# Which verdict names the culprit of each fault.
EXPECTED = {
    "sleep": ("stall.waiting_for_rank", "hang.rank_not_joined"),
    "size": ("hang.collective_mismatch",),
    "skip": ("hang.collective_mismatch",),
    "stop": ("rank.stopped",),
    "kill": ("rank.dead",),
}
MAX_RECORDING_BYTES = 2_000_000


class Context:
    def __init__(self, args):
        self.args = args
        self.rung = Rung(args.rung)
        self.out = args.out
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="rung-spine-"))
        self.rows = []      # (check, case, passed, text)
        self.details = {}
        self.count = 0

    def row(self, check, case, passed, text):
        self.rows.append((check, case, passed, text))
        say(f"{'ok  ' if passed else 'FAIL'} {check:10} {case:28} {text}")

    def folder(self, name):
        self.count += 1
        path = self.work / f"{self.count:02d}-{name}"
        path.mkdir()
        return path

    @contextlib.contextmanager
    def agent(self, name):
        agent = Agent(self.rung, self.folder(name))
        try:
            yield agent
        finally:
            agent.end()
            self.keep(agent.folder / "agent.log", f"{agent.folder.name}.agent.log")

    @contextlib.contextmanager
    def jobs(self, *jobs):
        try:
            yield jobs
        finally:
            for job in jobs:
                job.end()

    def keep(self, path, name):
        with contextlib.suppress(OSError):
            shutil.copy(path, self.out / name)

    def watch_log(self, name):
        return open(self.out / f"{name}.why.jsonl", "w", encoding="utf-8")


# --- doctor ---------------------------------------------------------------------------------------

def check_doctor(context):
    code, out, err = context.rung.call("doctor", "--json")
    try:
        answer = json.loads(out)
    except ValueError:
        context.row("doctor", "json", False, f"exit {code}: {err.strip()[:200]}")
        return
    context.details["doctor"] = answer
    for entry in answer.get("rungs", []):
        passed = entry["possible"] or entry["rung"] not in ("fleet", "host")
        context.row("doctor", entry["rung"], passed,
                    "possible" if entry["possible"] else f"no: {entry['reason']}")


# --- healthy --------------------------------------------------------------------------------------

def check_healthy(context):
    seconds = context.args.healthy_seconds
    with context.agent("healthy") as agent:
        agent.start()
        jobs = [Job(f"healthy{n}", n, context.folder("job"), ["--seconds", seconds + 25])
                for n in context.args.ranks]
        with context.jobs(*jobs), context.watch_log("healthy") as log:
            watch = Watch(agent, [job.start() for job in jobs], log)
            begun, stepping_since = time.monotonic(), None
            while stepping_since is None or time.monotonic() - stepping_since < seconds:
                watch.poll()
                if stepping_since is None and all(job.progress() > 5 for job in jobs):
                    stepping_since = time.monotonic()
                    say(f"all jobs train after {stepping_since - begun:.0f} s")
                if time.monotonic() - begun > seconds + 120:
                    raise Gone("the jobs do not train")
                time.sleep(1.0)
            context.details["healthy_status"] = agent.status()
            for job in jobs:
                kinds = watch.kinds(job.name)
                wrong = sorted(k for k in kinds if family(k) in ACCUSING | {"stall"})
                good = any(family(kind) == "healthy" for kind in kinds)
                context.details[f"healthy_{job.ranks}_kinds"] = kinds
                context.row("healthy", f"{job.ranks} ranks", not wrong and good and
                            watch.failures == 0,
                            f"{watch.polls} polls, {watch.failures} unanswered, "
                            f"step {job.progress()}, verdicts {kinds or 'none'}")
            for job in jobs:
                ended = job.wait(60)
                context.row("healthy", f"{job.ranks} ranks exit", ended["launcher"] == 0,
                            f"exit codes {ended['ranks']}")


# --- faults ---------------------------------------------------------------------------------------

class Case:
    """One fault in one job, and what was said of it."""

    def __init__(self, context, fault, ranks, mode):
        self.fault, self.ranks, self.mode = fault, ranks, mode
        self.culprit = ranks - 1
        self.name = f"{mode}-{fault}-{ranks}"
        train = ["--seconds", 900, "--fault-rank", self.culprit]
        if fault in ("sleep", "size", "skip"):
            train += ["--fault", fault]
        # A long grace: real launchers differ, and the verdict must not depend on the teardown.
        self.job = Job(self.name, ranks, context.folder("job"), train, grace=120)
        self.begun_ns = None
        self.recording = None

    def inject(self):
        if self.fault == "stop":
            self.begun_ns = self.job.signal_rank(self.culprit, signal.SIGSTOP)
        elif self.fault == "kill":
            self.begun_ns = self.job.signal_rank(self.culprit, signal.SIGKILL)
        else:
            self.job.trigger.touch()

    def fault_ns(self):
        return self.begun_ns or self.job.fault_time_ns()

    def names_culprit(self, verdict):
        return verdict["kind"] in EXPECTED[self.fault] and self.culprit in verdict["ranks"]

    def accuses_another(self, verdict):
        """An accusation or a stall that names ranks, but not the culprit."""
        blames = family(verdict["kind"]) in ACCUSING | {"stall"} and verdict["ranks"]
        return bool(blames) and self.culprit not in verdict["ranks"]

    def judge(self, watch):
        """(seconds to the name or None, verdicts that blame another, verdicts before the fault)."""
        fault = self.fault_ns()
        named, wrong, early = None, [], []
        for now, name, verdict in watch.seen:
            if name != self.name:
                continue
            text = f"{verdict['kind']}{verdict['ranks']}"
            if fault is None or now < fault:
                if family(verdict["kind"]) in ACCUSING | {"stall"}:
                    early.append(text)
            elif self.names_culprit(verdict):
                named = named if named is not None else (now - fault) / 1e9
            elif self.accuses_another(verdict):
                wrong.append(text)
        return named, sorted(set(wrong)), sorted(set(early))


def batches(cases, most_ranks):
    """Cases that run side by side: few enough for the cores and for parallel recordings."""
    most_jobs = 4  # the agent makes no more recordings at a time
    out = []
    for case in cases:
        for batch in out:
            if len(batch) < most_jobs and sum(c.ranks for c in batch) + case.ranks <= most_ranks:
                batch.append(case)
                break
        else:
            out.append([case])
    return out


def start_recordings(context, agent, watch, batch):
    for case in batch:
        job_id = watch.id_of(case.name)
        if job_id is None:
            say(f"{case.name}: the agent knows no such job; no recording")
            continue
        path = context.out / f"{case.name}.rung"
        case.recording = (path, agent.record(path, RECORD_BEFORE_S + RECORD_AFTER_S, job_id))


def report_recordings(context, batch):
    for case in batch:
        if case.recording is None:
            continue
        path, process = case.recording
        process.wait(timeout=60)
        size = path.stat().st_size if path.exists() else 0
        passed = process.returncode == 0 and 0 < size <= MAX_RECORDING_BYTES
        text = f"{size} bytes"
        if process.returncode == 0:
            code, _, err = context.rung.call("replay", "--check", path, timeout=60)
            passed = passed and code == 0
            text += ", replays to the same verdicts" if code == 0 else \
                f", replay --check gives {code}: {err.strip()[:120]}"
        else:
            text += f", {process.stderr.read().strip()[:160]}"
        context.row("recording", case.name, passed, text)


def poll_for(watch, seconds, hertz=2.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        watch.poll()
        time.sleep(max(0.0, 1 / hertz - (time.monotonic() - begun)))


def settle(watch, jobs, seconds):
    """Lets the agent see the jobs move: for `seconds`, and for 30 steps of each (at most 60 s)."""
    targets = [(job, job.progress() + 30) for job in jobs]
    end = time.monotonic() + 60
    poll_for(watch, seconds, hertz=1)
    while any(job.progress() < steps for job, steps in targets) and time.monotonic() < end:
        poll_for(watch, 1, hertz=1)


def run_batch(context, batch, mode, number):
    """Starts the jobs and the agent in the order of `mode`, then injects all faults."""
    say(f"batch {number} ({mode}): {', '.join(case.name for case in batch)}")
    jobs = [case.job for case in batch]
    with context.agent(f"faults-{mode}{number}") as agent, context.jobs(*jobs), \
            context.watch_log(f"faults-{mode}{number}") as log:
        if mode == "before":
            agent.start()
        for job in jobs:
            job.start()
        for job in jobs:
            job.wait_for_steps(40, 120)
        if mode == "after":
            time.sleep(5)
            agent.start()
        wait_for_host_rung(agent, {pid for job in jobs for pid in job.pids()}, 15)
        watch = Watch(agent, jobs, log)
        settle(watch, jobs, context.args.settle_seconds)
        if mode == "before" or context.args.record_after:
            start_recordings(context, agent, watch, batch)
            poll_for(watch, RECORD_BEFORE_S, hertz=1)
        for case in batch:
            case.inject()
        poll_for(watch, NAMED_WITHIN_S + 2)
        if any(case.recording for case in batch):
            poll_for(watch, RECORD_AFTER_S - NAMED_WITHIN_S)
        context.details[f"why_{mode}{number}"] = agent.why()
        report_recordings(context, batch)
        for case in batch:
            report_case(context, case, watch)


def report_case(context, case, watch):
    named, wrong, early = case.judge(watch)
    if case.fault_ns() is None:
        context.row("faults", case.name, False, f"the fault did not happen: {case.job.log_tail()}")
        return
    passed = named is not None and named <= NAMED_WITHIN_S and not wrong and not early
    text = f"named after {named:.1f} s" if named is not None else \
        f"not named; said {watch.kinds(case.name) or 'nothing'}"
    if wrong:
        text += f"; blamed others: {' '.join(wrong)}"
    if early:
        text += f"; before the fault: {' '.join(early)}"
    context.row("faults", case.name, passed, text)
    context.details[f"fault_{case.name}"] = {
        "named_after_s": named, "wrong": wrong, "early": early,
        "kinds": watch.kinds(case.name), "culprit": case.culprit}


def check_faults(context):
    faults = context.args.faults
    for mode in context.args.modes:
        cases = [Case(context, fault, n, mode) for n in context.args.ranks for fault in faults]
        for number, batch in enumerate(batches(cases, context.args.most_ranks), 1):
            run_batch(context, batch, mode, number)


# --- late -----------------------------------------------------------------------------------------

def check_late(context):
    cases = [Case(context, fault, n, "late") for n in context.args.ranks
             for fault in ("stop", "sleep")]
    jobs = [case.job for case in cases]
    with context.agent("late") as agent, context.jobs(*jobs), context.watch_log("late") as log:
        for job in jobs:
            job.start()
        for job in jobs:
            job.wait_for_steps(40, 120)
        for case in cases:
            case.inject()
        say(f"faults are in; the agent comes in {context.args.late_seconds:.0f} s")
        time.sleep(context.args.late_seconds)
        agent.start()
        watch = Watch(agent, jobs, log)
        poll_for(watch, 25)
        context.details["why_late"] = agent.why()
        for case in cases:
            named, wrong, _ = case.judge(watch)
            said = "right" if named is not None else "abstained"
            text = f"{said}; said {watch.kinds(case.name) or 'nothing'}"
            if wrong:
                text += f"; blamed others: {' '.join(wrong)}"
            context.row("late", case.name, not wrong and case.fault_ns() is not None, text)


# --- identical ------------------------------------------------------------------------------------

def plain_run(context, name, ranks, at_half=None):
    """Trains a fixed number of steps; gives what the ranks printed and their exit codes."""
    steps = context.args.identical_steps
    job = Job(name, ranks, context.folder("job"), ["--steps", steps])
    with context.jobs(job):
        job.start()
        if at_half is not None:
            job.wait_for_steps(steps // 2, 120)
            at_half()
        ended = job.wait(300)
    return ended


def check_identical(context):
    ranks = context.args.ranks[0]
    first = plain_run(context, "plain1", ranks)
    second = plain_run(context, "plain2", ranks)
    context.row("identical", "two runs without", first == second and all(first["last_lines"]),
                f"exit {first['ranks']}, {first['last_lines'][0]}")
    with context.agent("identical") as agent:
        agent.start()
        looks = []
        watched = plain_run(context, "watched", ranks, lambda: looks.append(agent.status()))
    links = looks[0]["agent"]["probe_links"] if looks[0] else None
    context.row("identical", "with the agent", watched == first and bool(links),
                f"exit {watched['ranks']}, {links} probe links at half time, "
                f"{watched['last_lines'][0]}")
    with context.agent("identical-killed") as agent:
        agent.start()
        orphaned = plain_run(context, "orphaned", ranks, lambda: agent.end(signal.SIGKILL))
    context.row("identical", "agent killed in mid-run", orphaned == first,
                f"exit {orphaned['ranks']}, {orphaned['last_lines'][0]}")
    context.details["identical"] = {"plain": [first, second], "watched": watched,
                                    "agent_killed": orphaned}


# --- overhead -------------------------------------------------------------------------------------

def check_overhead(context):
    """On/off windows in the order off on, on off, off on, ...: slow drift cancels."""
    args = context.args
    agent = Agent(context.rung, context.folder("overhead"))
    job = Job("overhead", args.overhead_ranks, context.folder("job"),
              ["--seconds", 3000, "--log-steps"])
    windows, attach = [], []
    with context.jobs(job):
        job.start()
        job.wait_for_steps(200, 120)
        pids = set(job.pids())
        try:
            for pair in range(args.pairs):
                order = ("off", "on") if pair % 2 == 0 else ("on", "off")
                for state in order:
                    if state == "on" and not agent.alive():
                        begun = time.monotonic()
                        agent.start()
                        if not wait_for_host_rung(agent, pids, 20):
                            raise Gone("the host rung does not attach")
                        attach.append(time.monotonic() - begun)
                    elif state == "off":
                        agent.end()
                    # Attaching itself, and the governor's first measurement, are not the state that a
                    # job runs beside.
                    time.sleep(1.5 if state == "on" else 0.3)
                    begin = time.monotonic_ns()
                    time.sleep(args.window_seconds)
                    windows.append((state, begin, time.monotonic_ns()))
                if pair % 5 == 4:
                    say(f"{pair + 1} of {args.pairs} pairs")
        finally:
            agent.end()
        time.sleep(1.2)
    medians = step_medians(job.folder / "rank-0.steps", [w[1:] for w in windows])
    if any(median is None for median, _ in medians):
        context.row("overhead", "pairs", False, "a window without a step")
        return
    pairs = []
    for index in range(0, len(windows), 2):
        two = {windows[i][0]: medians[i][0] for i in (index, index + 1)}
        pairs.append((two["off"], two["on"]))
    differences = relative_differences(pairs)
    middle, (low, high) = statistics.median(differences), bootstrap_interval(differences)
    off = statistics.median(p[0] for p in pairs)
    context.details["overhead"] = {
        "ranks": args.overhead_ranks, "pairs_ns": pairs, "steps_per_window":
        [count for _, count in medians], "median": middle, "low": low, "high": high,
        "start_to_attached_s": attach}
    context.row("overhead", f"{len(pairs)} pairs, {args.overhead_ranks} rank(s)", middle <= 0.01,
                f"step {off / 1e6:.3f} ms off; on {middle * 100:+.3f} % "
                f"[{low * 100:+.3f}, {high * 100:+.3f}] (95 %)")


# --- cost -----------------------------------------------------------------------------------------

def check_cost(context):
    ranks, seconds = context.args.cost_ranks, context.args.cost_seconds
    job = Job("cost", ranks, context.folder("job"), ["--seconds", 900])
    with context.agent("cost") as agent, context.jobs(job):
        agent.start()
        job.start()
        job.wait_for_steps(20, 180)
        wait_for_host_rung(agent, set(job.pids()), 20)
        time.sleep(10)
        first, begun = agent.usage(), time.monotonic()
        largest = [0.0, 0.0]
        while time.monotonic() - begun < seconds:
            time.sleep(2)
            now = agent.usage()
            largest = [max(largest[0], now["agent"][1]), max(largest[1], now["workers"][1])]
        wall = time.monotonic() - begun
        share = [(now[who][0] - first[who][0]) / wall for who in ("agent", "workers")]
        context.details["cost"] = {"ranks": ranks, "wall_s": wall, "cpu_share": share,
                                   "rss_mib": largest, "workers": now["worker_count"],
                                   "status": agent.status()}
    context.row("cost", f"agent, {ranks} ranks", share[0] <= 0.01 and largest[0] <= 40,
                f"{share[0] * 100:.2f} % of a core, {largest[0]:.1f} MiB resident")
    context.row("cost", f"{now['worker_count']} vendor worker(s)", True,
                f"{share[1] * 100:.2f} % of a core, {largest[1]:.1f} MiB resident")


# --- all ------------------------------------------------------------------------------------------

CHECKS = {"doctor": check_doctor, "healthy": check_healthy, "faults": check_faults,
          "late": check_late, "identical": check_identical, "overhead": check_overhead,
          "cost": check_cost}


def words(text):
    return [word for word in text.split(",") if word]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rung", default=harness.ROOT / "build/release/rung")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("spine-results"))
    parser.add_argument("--only", type=words, default=list(CHECKS), help="checks, by commas")
    parser.add_argument("--ranks", type=lambda t: [int(w) for w in words(t)], default=[2, 4])
    parser.add_argument("--faults", type=words, default=list(FAULTS))
    parser.add_argument("--modes", type=words, default=["before", "after"])
    parser.add_argument("--record-after", action="store_true",
                        help="also record where the agent came after the job")
    parser.add_argument("--most-ranks", type=int, default=12, help="ranks side by side, in faults")
    parser.add_argument("--settle-seconds", type=float, default=10)
    parser.add_argument("--healthy-seconds", type=float, default=60)
    parser.add_argument("--late-seconds", type=float, default=60)
    parser.add_argument("--identical-steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--window-seconds", type=float, default=4)
    parser.add_argument("--overhead-ranks", type=int, default=1)
    parser.add_argument("--cost-ranks", type=int, default=8)
    parser.add_argument("--cost-seconds", type=float, default=60)
    args = parser.parse_args()
    for name in args.only:
        if name not in CHECKS:
            parser.error(f"no check '{name}'; there are {', '.join(CHECKS)}")
    for fault in args.faults:
        if fault not in FAULTS:
            parser.error(f"no fault '{fault}'; there are {', '.join(FAULTS)}")
    return args


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    context = Context(args)
    for name in args.only:
        say(f"== {name}")
        begun = time.monotonic()
        try:
            CHECKS[name](context)
        except (Gone, OSError, KeyError, subprocess.TimeoutExpired) as trouble:
            context.row(name, "the check itself", False, f"{type(trouble).__name__}: {trouble}")
        context.details[f"{name}_seconds"] = time.monotonic() - begun
        say(f"== {name}: {context.details[f'{name}_seconds']:.0f} s")
        rows = [dict(zip(("check", "case", "passed", "text"), row)) for row in context.rows]
        (args.out / "results.json").write_text(
            json.dumps({"rows": rows, "details": context.details}, indent=1), encoding="utf-8")
    shutil.rmtree(context.work, ignore_errors=True)
    print()
    for check, case, passed, text in context.rows:
        print(f"{'ok  ' if passed else 'FAIL'} {check:10} {case:28} {text}")
    failed = sum(1 for row in context.rows if not row[2])
    print(f"\n{len(context.rows) - failed} passed, {failed} failed; details in {args.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
