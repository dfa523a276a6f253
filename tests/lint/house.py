#!/usr/bin/env python3
"""Checks of the source tree that need no compiler. Prints one line per offence; exits 1 if any.

usage: house.py [ROOT]
"""

import pathlib
import re
import sys

from rooms import read_rooms, room_of

SOURCE_SUFFIXES = {".h", ".cpp", ".c"}
SOURCE_FOLDERS = ("src", "sim", "tests", "bench")
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".md", ".py", ".sh", ".cmake", ".txt", ".toml", ".json", ".service"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')

# Words that mean unfinished work or belong to the machine a change was made on. The pieces are put
# together here so that this file does not contain them.
FORBIDDEN_WORDS = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "unfinished work"),
    (re.compile(r"/wo" r"rk/|/tmp/br" r"ief|\.\./sha" r"red/|\bsha" r"red/fa" r"cts"), "a path of one machine"),
    (re.compile(r"\bfa" r"cts/[a-z0-9-]+\.md|\bsyst" r"ems §"), "a page that is not in this tree"),
    (re.compile(r"\b(steering re" r"po|this se" r"ssion|previous se" r"ssion)\b", re.I), "how it was made"),
    (re.compile(r"\bissue #?\d+\b", re.I), "a tracker entry"),
]


def tracked_files(root):
    """Files of the tree that are neither built nor hidden by git."""
    skip = {".git", "build", ".cache", "__pycache__"}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_file() and not path.is_symlink() and not skip.intersection(parts):
            yield path


def check_includes(root, path, lines, rooms):
    """Relative includes, and includes of rooms that the including room may not see."""
    room = room_of(path.relative_to(root), rooms)
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        target = found.group(1)
        if ".." in target.split("/"):
            yield number, f'include by a relative path: "{target}"'
        if room is None or path.name == "main.cpp":
            continue
        other = room_of(pathlib.PurePosixPath("src") / target, rooms)
        if other is not None and other != room and other not in rooms[room]:
            yield number, f"room {room} includes {other}, which src/CMakeLists.txt does not let it see"


def cycles(rooms):
    """Rooms from which a chain of SEES leads back to themselves."""

    def reachable(start):
        seen, todo = set(), list(rooms[start])
        while todo:
            room = todo.pop()
            if room not in seen:
                seen.add(room)
                todo.extend(rooms.get(room, ()))
        return seen

    return sorted(room for room in rooms if room in reachable(room))


def offences(root):
    rooms = read_rooms(root)
    if not rooms:
        yield "src/CMakeLists.txt", 0, "no rung_room() found"
    for room in cycles(rooms):
        yield "src/CMakeLists.txt", 0, f"room {room} sees itself through others"
    for room, seen in rooms.items():
        for other in sorted(seen - set(rooms)):
            yield "src/CMakeLists.txt", 0, f"room {room} sees {other}, which is no room"
    for path in tracked_files(root):
        name = path.relative_to(root)
        executable_text = path.suffix == "" and path.name in {"bootstrap", "run"}
        if path.suffix not in TEXT_SUFFIXES and not executable_text:
            continue
        if name.parts[:2] == ("tests", "data") or name.parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            for pattern, meaning in FORBIDDEN_WORDS:
                found = pattern.search(line)
                if found:
                    yield name, number, f"'{found.group(0)}' is {meaning}"
        if path.suffix in SOURCE_SUFFIXES and name.parts[0] in SOURCE_FOLDERS:
            for number, message in check_includes(root, path, lines, rooms):
                yield name, number, message
            if path.suffix == ".h" and "#pragma once" not in lines:
                yield name, 1, "header without #pragma once"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    count = 0
    for name, number, message in offences(root):
        print(f"{name}:{number}: {message}")
        count += 1
    print(f"house: {count} offence(s)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
