#!/usr/bin/env python3
"""Runs clang-tidy over the sources of src/ and sim/, several at a time.

A file that passed is not looked at again until it, a header of ours that it includes, the checks or
the linter change: the passes are remembered in a cache folder ($XDG_CACHE_HOME/rung-tidy).

usage: tidy.py BUILD_DIR [--jobs N] [FILE...]
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIDY = "clang-tidy-16"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
INCLUDE_ROOTS = ("src", "sim", "sim/include", ".")


def sources_of(build):
    """Sources of src/ and sim/ that the build compiles as C++, in order."""
    database = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {pathlib.Path(entry["file"]).resolve() for entry in database}
    wanted = (ROOT / "src", ROOT / "sim")
    return sorted(f for f in files if any(w in f.parents for w in wanted) and f.suffix == ".cpp")


def closure(path, seen):
    """`path` and every file of this tree that it includes, directly or not."""
    if path in seen:
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    seen[path] = text
    for name in INCLUDE.findall(text):
        for base in (path.parent, *(ROOT / root for root in INCLUDE_ROOTS)):
            candidate = (base / name).resolve()
            if candidate.is_file():
                closure(candidate, seen)
                break


def key_of(path, tool):
    seen = {}
    closure(path, seen)
    digest = hashlib.sha256(tool)
    for part in sorted(seen):
        digest.update(str(part.relative_to(ROOT) if ROOT in part.parents else part.name).encode())
        digest.update(seen[part].encode())
    return digest.hexdigest()


def check(path, build):
    """(passed, what clang-tidy said)."""
    command = [TIDY, "-p", str(build), "--quiet", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.returncode == 0, done.stdout + ("" if done.returncode == 0 else done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cache = cache / "rung-tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    tool = version + (ROOT / ".clang-tidy").read_bytes()

    started = time.monotonic()
    files = [f.resolve() for f in args.files] or sources_of(build)
    keys = {path: key_of(path, tool) for path in files}
    todo = [path for path in files if not (cache / keys[path]).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        for path, (passed, text) in zip(todo, pool.map(lambda p: check(p, build), todo)):
            if passed:
                (cache / keys[path]).touch()
            else:
                failed += 1
                print(text.strip(), flush=True)
    seconds = time.monotonic() - started
    print(f"tidy: {len(files)} files, {len(files) - len(todo)} unchanged since they passed, "
          f"{failed} with findings, {seconds:.0f} s")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
