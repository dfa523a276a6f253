"""The rooms of src/ and who may see whom, as src/CMakeLists.txt says it."""

import pathlib
import re

CALL = re.compile(r"\brung_room\(\s*([^)]*)\)", re.S)


def read_rooms(root):
    """{room: set of rooms it may see}, in the order of the file."""
    text = (pathlib.Path(root) / "src" / "CMakeLists.txt").read_text(encoding="utf-8")
    text = re.sub(r"#.*", "", text)
    rooms = {}
    for call in CALL.finditer(text):
        words = call.group(1).split()
        seen, keyword = set(), None
        for word in words[1:]:
            if word.isupper():
                keyword = word
            elif keyword == "SEES":
                seen.add(word)
        rooms[words[0]] = seen
    return rooms


def folder_of(room):
    """"sources_nvml" -> "sources/nvml"."""
    return re.sub(r"^sources_", "sources/", room)


def room_of(path, rooms):
    """The room that a path such as src/sources/nvml/x.h belongs to, or None."""
    parts = pathlib.PurePosixPath(path).parts
    if len(parts) < 3 or parts[0] != "src":
        return None
    for room in rooms:
        folder = folder_of(room).split("/")
        if list(parts[1 : 1 + len(folder)]) == folder:
            return room
    return None
