# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Looks for faults that no compiler finds: notes to self, paths of one machine, files without a licence.

check_tree.py ROOT
"""
import re
import sys
from pathlib import Path

from tree_files import tree_files

SOURCES = {".hpp", ".cuh", ".cpp", ".cu"}
LICENSED = SOURCES | {".py", ".sh", ".build"}
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")

# The reference shows each comment alone, without its neighbours.
SEQUEL = re.compile(r"^\s*///? The same\b")
# Nobody needs to know whose machine it was.
HOME = re.compile(r"(?<![\w.…])/(root|home)/\w")

root = Path(sys.argv[1])
problems = []
files = tree_files(root)
headers = 0
for path in files:
    name = path.relative_to(root)
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        continue
    problems += [f"{name}:{n}: a note to self: {line.strip()}" for n, line in enumerate(lines, 1) if NOTE.search(line)]
    problems += [f"{name}:{n}: a path of one machine: {line.strip()}" for n, line in enumerate(lines, 1) if HOME.search(line)]
    if path.suffix in LICENSED and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
        problems.append(f"{name}:1: no SPDX-License-Identifier in the first three lines")
    if path.suffix in SOURCES:
        problems += [f"{name}:{n}: a blank at the end of the line" for n, line in enumerate(lines, 1) if line != line.rstrip()]
    if name.parts[0] == "include" and path.suffix in {".hpp", ".cuh"}:
        headers += 1
        problems += [f"{name}:{n}: a comment that needs the one above it: {line.strip()}"
                     for n, line in enumerate(lines, 1) if SEQUEL.search(line)]
        if "#pragma once" not in lines:
            problems.append(f"{name}:1: no #pragma once")
if not headers:
    problems.append(f"{root}: no headers found")
print("\n".join(problems) or f"{len(files)} files are in order")
sys.exit(bool(problems))
