"""What the checks share: the agent and the jobs as processes, and what `rung why` said when.

Every process is started here and ended by its own id. Nothing on the machine is changed.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# Families that make `rung why` exit with 1: each of them accuses someone.
ACCUSING = {"hang", "rank", "init", "device", "slow", "observer"}


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def family(kind):
    return kind.split(".")[0]


class Gone(Exception):
    """A process of ours ended, or did not come up in time."""


class Rung:
    """The program under test."""

    def __init__(self, program, environment=None):
        self.program = pathlib.Path(program).resolve()
        self.environment = dict(os.environ, **(environment or {}))

    def call(self, *args, timeout=30):
        """(exit code, stdout, stderr) of one command; -1 when it did not return in time."""
        try:
            done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=timeout, env=self.environment,
                                  check=False)
        except subprocess.TimeoutExpired:
            return -1, "", f"no answer in {timeout} s"
        return done.returncode, done.stdout, done.stderr


def write_config(folder, **more):
    """An agent config that keeps everything in `folder` and opens no port."""
    values = {"socket": str(folder / "agent.sock"), "state_dir": str(folder / "state"),
              "prometheus_listen": "", **more}
    path = folder / "agent.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()),
                    encoding="utf-8")
    return path


def stat_fields(pid):
    """The fields of /proc/PID/stat after the name; empty when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rsplit(")", 1)[1].split()


def cpu_seconds(pid):
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def resident_mib(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


def children_of(pid):
    """Direct children of a process."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat_fields(int(entry.name))
            if fields and int(fields[1]) == pid:
                out.append(int(entry.name))
    return out


class Agent:
    """One `rung agent` with a socket and a state folder of its own."""

    def __init__(self, rung, folder):
        self.rung, self.folder = rung, folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = write_config(folder)
        self.socket = folder / "agent.sock"
        self.process = None

    def start(self, timeout=30):
        log = open(self.folder / "agent.log", "ab")
        self.process = subprocess.Popen([self.rung.program, "agent", "--config", self.config],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env=self.rung.environment)
        log.close()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Gone(f"agent ended with {self.process.returncode}: {self.log_tail()}")
            if self.status() is not None:
                return self
            time.sleep(0.1)
        raise Gone(f"agent does not answer after {timeout} s: {self.log_tail()}")

    def log_tail(self):
        text = (self.folder / "agent.log").read_text(encoding="utf-8", errors="replace")
        return text[-600:].strip()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def end(self, number=signal.SIGTERM):
        """Ends the agent; gives the seconds that took."""
        if not self.alive():
            return 0.0
        begun = time.monotonic()
        self.process.send_signal(number)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            say("agent does not end on SIGTERM within 20 s; killing it")
            self.process.kill()
            self.process.wait()
        return time.monotonic() - begun

    def _ask(self, command):
        _, out, _ = self.rung.call(command, "--socket", self.socket, "--json")
        try:
            return json.loads(out)
        except ValueError:
            return None

    def status(self):
        return self._ask("status")

    def why(self):
        return self._ask("why")

    def record(self, output, seconds, job):
        """Begins `rung record` in the background."""
        return subprocess.Popen([self.rung.program, "record", "-o", output, "--for", str(seconds),
                                 "--socket", self.socket, job], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env=self.rung.environment, text=True)

    def usage(self):
        """{'agent': (cpu seconds, MiB), 'workers': (sum, sum)} now."""
        workers = children_of(self.process.pid)
        cpus = [cpu_seconds(pid) or 0.0 for pid in workers]
        sizes = [resident_mib(pid) or 0.0 for pid in workers]
        return {"agent": (cpu_seconds(self.process.pid), resident_mib(self.process.pid)),
                "workers": (sum(cpus), sum(sizes)), "worker_count": len(workers)}


class Job:
    """One training job: launch.py and its ranks."""

    def __init__(self, name, ranks, folder, train_args, grace=30):
        self.name, self.ranks, self.folder = name, ranks, folder / name
        self.folder.mkdir(parents=True)
        self.trigger = self.folder / "fault.trigger"
        trainer = [sys.executable, HERE / "train.py", "--folder", self.folder,
                   "--fault-trigger", self.trigger, *train_args]
        self.command = [sys.executable, HERE / "launch.py", "--ranks", ranks, "--folder",
                        self.folder, "--grace", grace, "--", *trainer]
        self.process = None

    def start(self):
        self.process = subprocess.Popen([str(part) for part in self.command],
                                        stdin=subprocess.DEVNULL)
        return self

    def pids(self):
        """Process ids by rank; [] until the launcher has written them."""
        try:
            return json.loads((self.folder / "pids.json").read_text(encoding="utf-8"))["ranks"]
        except (OSError, ValueError):
            return []

    def progress(self):
        """The smallest step count over the ranks."""
        steps = []
        for rank in range(self.ranks):
            try:
                text = (self.folder / f"rank-{rank}.progress").read_text(encoding="ascii")
                steps.append(int(text))
            except (OSError, ValueError):
                steps.append(0)
        return min(steps)

    def wait_for_steps(self, steps, timeout):
        deadline = time.monotonic() + timeout
        while self.progress() < steps:
            if self.process.poll() is not None:
                raise Gone(f"job {self.name} ended early: {self.log_tail()}")
            if time.monotonic() > deadline:
                raise Gone(f"job {self.name} is at step {self.progress()} after {timeout:.0f} s: "
                           f"{self.log_tail()}")
            time.sleep(0.2)

    def log_tail(self):
        tails = []
        for rank in range(self.ranks):
            try:
                text = (self.folder / f"rank-{rank}.log").read_text(encoding="utf-8",
                                                                    errors="replace")
                tails.append(f"rank {rank}: {text[-400:].strip()}")
            except OSError:
                pass
        return " | ".join(tails)

    def fault_time_ns(self):
        """When train.py went wrong, or None as long as it has not."""
        try:
            return int((self.folder / "fault.time").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def signal_rank(self, rank, number):
        """Sends a signal to one rank; gives the time just before."""
        now = time.time_ns()
        os.kill(self.pids()[rank], number)
        return now

    def wait(self, timeout):
        """{'launcher': code, 'ranks': [...], 'last_lines': [...]} when the job has ended."""
        self.process.wait(timeout=timeout)
        codes = json.loads((self.folder / "exit.json").read_text(encoding="utf-8"))["codes"]
        lines = []
        for rank in range(self.ranks):
            text = (self.folder / f"rank-{rank}.log").read_text(encoding="utf-8", errors="replace")
            lines.append(next((line for line in text.splitlines() if ", bits " in line), ""))
        return {"launcher": self.process.returncode, "ranks": codes, "last_lines": lines}

    def end(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Watch:
    """Polls `rung why --json` and keeps, per job of ours, what it said and when."""

    def __init__(self, agent, jobs, log):
        self.agent, self.jobs = agent, jobs
        self.ids = {}    # the agent's job id -> our job's name
        self.seen = []   # (unix ns, job name, verdict)
        self.polls = 0
        self.failures = 0
        self.log = log

    def learn_ids(self):
        status = self.agent.status()
        if status is None:
            return
        owner = {pid: job.name for job in self.jobs for pid in job.pids()}
        for entry in status.get("jobs", []):
            for rank in entry.get("ranks", []):
                if rank.get("pid") in owner:
                    self.ids[entry["job"]] = owner[rank["pid"]]

    def id_of(self, name):
        return next((job_id for job_id, known in self.ids.items() if known == name), None)

    def poll(self):
        """One look; the verdicts of our jobs as [(job name, verdict)]."""
        if len(set(self.ids.values())) < len(self.jobs):
            self.learn_ids()
        answer = self.agent.why()
        now = time.time_ns()
        self.polls += 1
        if answer is None:
            self.failures += 1
            return []
        found = []
        for verdict in answer.get("verdicts", []):
            name = self.ids.get(verdict.get("job"), verdict.get("job"))
            found.append((name, verdict))
            self.seen.append((now, name, verdict))
            self.log.write(json.dumps({"unix_ns": now, "name": name, **{
                key: verdict.get(key) for key in
                ("kind", "severity", "ranks", "waiting", "confidence", "summary")}}) + "\n")
        self.log.flush()
        return found

    def kinds(self, name=None):
        """{kind: polls in which it stood}."""
        out = {}
        for _, job, verdict in self.seen:
            if name is None or job == name:
                out[verdict["kind"]] = out.get(verdict["kind"], 0) + 1
        return out


def coverage_of(status, pids, rung_name):
    """The stages of one rung for these processes, as the status says: ['flowing', ...]."""
    stages = []
    for job in (status or {}).get("jobs", []):
        for rank in job.get("ranks", []):
            if rank.get("pid") not in pids:
                continue
            stages += [entry["stage"] for entry in rank.get("coverage", [])
                       if entry["rung"] == rung_name]
    return stages


def wait_for_host_rung(agent, pids, timeout):
    """Until the host rung flows (or is at least attached) for all these processes."""
    deadline = time.monotonic() + timeout
    stages = []
    while time.monotonic() < deadline:
        stages = coverage_of(agent.status(), pids, "host")
        if len(stages) >= len(pids) and all(s in ("attached", "flowing") for s in stages):
            return True
        time.sleep(0.1)
    say(f"host rung not attached after {timeout} s: {stages}")
    return False
