#!/usr/bin/env python3
"""Proves with the compiler that a room cannot include a room that it may not see.

Takes the include path that the build gave each room. For every pair (room, other) a header of
`other` must be found if and only if src/CMakeLists.txt lets `room` see it; and, so that a compiler
that fails for another reason proves nothing, each failure must name the missing file, and a twin
with a permitted header must compile.

usage: forbidden_include.py BUILD_DIR [COMPILER]
"""

import pathlib
import re
import subprocess
import sys

from rooms import folder_of, read_rooms

ROOT = pathlib.Path(__file__).resolve().parents[2]


def headers_of(room):
    return sorted((ROOT / "src" / folder_of(room)).glob("*.h"))


def compile_text(compiler, views, text):
    """(exit code, messages) of a syntax check of `text` with the include path `views`."""
    command = [compiler, "-x", "c++", "-std=c++20", "-fsyntax-only"]
    command += [f"-I{view}" for view in views] + ["-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def check_room(compiler, build, rooms, room):
    """Yields what is wrong with the include path of `room`."""
    views = [build / "rooms" / name for name in (room, *sorted(rooms[room]))]
    lines, expected = [], {}
    for other in rooms:
        for header in headers_of(other)[:1]:
            name = f"{folder_of(other)}/{header.name}"
            expected[name] = other == room or other in rooms[room]
            lines += [f'#if __has_include("{name}")', f'#pragma message("sees {name}")', "#endif"]
    code, messages = compile_text(compiler, views, "\n".join(lines) + "\n")
    if code != 0:
        yield f"room {room}: the probe itself does not compile: {messages.strip()}"
        return
    seen = set(re.findall(r"sees ([\w/.]+)", messages))
    for name, wanted in expected.items():
        if (name in seen) != wanted:
            yield f"room {room}: {name} is {'not ' if wanted else ''}found on its include path"


def check_diagnostic(compiler, build, rooms):
    """One forbidden include really fails, for that reason; its permitted twin compiles."""
    views = [build / "rooms" / name for name in ("diagnose", *sorted(rooms["diagnose"]))]
    forbidden, permitted = "store/recording.h", "model/verdict.h"
    code, messages = compile_text(compiler, views, f'#include "{forbidden}"\n')
    if code == 0 or f"{forbidden}: No such file" not in messages:
        yield f"diagnose may include {forbidden}, or it fails for another reason: {messages}"
    code, messages = compile_text(compiler, views, f'#include "{permitted}"\n')
    if code != 0:
        yield f"diagnose cannot include {permitted}: {messages}"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    compiler = sys.argv[2] if len(sys.argv) > 2 else "g++"
    rooms = read_rooms(ROOT)
    wrong = list(check_diagnostic(compiler, build, rooms))
    for room in rooms:
        wrong += check_room(compiler, build, rooms, room)
    for line in wrong:
        print(line)
    print(f"forbidden_include: {len(rooms)} rooms, {len(wrong)} offence(s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
