# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Draws which headers include which, floor by floor, and fails if an include runs up or in a circle.

check_includes.py ROOT

A room is a header directly in include/penstock, or a folder there; detail/ is no room, but its folders are. A room
includes rooms on floors below its own, and rooms on its own floor if that makes no circle.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

MOST_LINES = 400
FLOORS = {  # top first
    "everything": ["penstock.hpp", "penstock.cpp", "cuda.hpp"],
    "beside the core": ["formats/", "diagnose/"],
    "what users write": ["pipeline/", "with_device.hpp"],
    "stages": ["stages/"],
    "what | knows": ["detail/chain/"],
    "what threads do": ["detail/reading/", "detail/decoding/", "detail/outputs/", "detail/ends/", "detail/branches/", "detail/device_side/", "detail/workers/"],
    "a run": ["detail/engine/"],
    "between stages": ["detail/links/"],
    "devices": ["host/", "cuda/"],
    "what stages are made of": ["sources/", "callables/", "detail/measure/", "stage.hpp"],
    "files, turns, reports": ["io/", "run/", "detail/turns/", "device/", "detail/lending/", "lease.hpp"],
    "order, rings, the machine": ["order/", "ring/", "machine/"],
    "data": ["detail/base/", "data/"],
    "words": ["error.hpp", "atomics.hpp", "parking.hpp"],
    "the compiler": ["config.hpp", "version.hpp"],
}
# Who wants a pipeline alone compiles nothing of these: nobody else includes them.
BESIDE = ["formats/", "diagnose/"]


def room_of(header: str) -> str:
    parts = header.split("/")
    if len(parts) == 1:
        return header
    return "/".join(parts[:2] if parts[0] == "detail" else parts[:1]) + "/"


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """Returns one circle, from its beginning back to it; empty if there is none."""
    done: set[str] = set()

    def walk(at: str, way: list[str]) -> list[str]:
        if at in way:
            return [*way[way.index(at):], at]
        if at in done:
            return []
        done.add(at)
        return next((found for to in sorted(arrows.get(at, ())) if (found := walk(to, [*way, at]))), [])

    return next((found for start in sorted(arrows) if (found := walk(start, []))), [])


def main(root: Path) -> int:
    include = root / "include" / "penstock"
    headers = {path.relative_to(include).as_posix(): path.read_text() for path in include.rglob("*") if path.is_file()}
    includes = {name: set(re.findall(r"#include <penstock/([^>]+)>", text)) for name, text in headers.items()}
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, targets in includes.items():
        arrows[room_of(name)] |= {room_of(to) for to in targets} - {room_of(name)}
    floor = {room: number for number, rooms in enumerate(FLOORS.values()) for room in rooms}
    rooms = {room_of(name) for name in headers}

    problems = [f"{name}: {lines} lines, where a header has at most {MOST_LINES}"
                for name, text in sorted(headers.items()) if (lines := text.count("\n")) > MOST_LINES]
    problems += [f"{room} stands on no floor: give it one in tests/tools/check_includes.py" for room in sorted(rooms - floor.keys())]
    problems += [f"{room} stands on a floor, and is not there" for room in sorted(floor.keys() - rooms)]
    up = {(a, b) for a in arrows for b in arrows[a] if floor.get(a, 0) > floor.get(b, len(FLOORS))}
    problems += [f"{a} includes {b}, which stands above it" for a, b in sorted(up)]
    problems += [f"{a} includes {b}, which lies beside the core" for a in sorted(arrows) for b in BESIDE if b in arrows[a]
                 and a not in [*BESIDE, *FLOORS["everything"]]]
    compiled, found_in = {"penstock.cpp"}, ["penstock.cpp"]
    for name in found_in:
        found_in += sorted(includes[name] - compiled)
        compiled |= includes[name]
    problems += [f"{name} has bodies, and penstock.cpp does not include it, so a program with a compiled part lacks them"
                 for name, text in sorted(headers.items()) if "#if PENSTOCK_BODIES" in text and name not in compiled]
    for what, graph in ("headers", includes), ("rooms", arrows):
        if found := circle(graph):
            problems.append(f"{what} include each other in a circle: " + " -> ".join(found))

    for name, members in FLOORS.items():
        print(f"{name}:")
        for room in members:
            print(f"    {room} -> " + (" ".join(sorted(arrows.get(room, ()), key=lambda to: (floor.get(to, 0), to))) or "nothing"))
    print(f"{len(headers)} headers in {len(rooms)} rooms, {sum(map(len, arrows.values()))} arrows, {len(up)} of them up")
    print("\n".join(problems))
    return bool(problems)


sys.exit(main(Path(sys.argv[1])))
