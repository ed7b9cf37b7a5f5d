# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Writes headers of penstock, and all headers of penstock that they include, as one file: for a release, or to try
penstock where a program may have one file alone.

amalgamate.py [--out FILE] [HEADER…]

Without a HEADER it takes penstock/penstock.hpp. For a GPU take penstock/cuda.hpp, which has the former in it. You may
name more: penstock/cuda.hpp penstock/cuda/algorithm.cuh penstock/formats/tar.hpp. The same tree gives the same file.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = re.compile(r"#include <(penstock/[^>]+)>")
# What the file has once, at its top.
ONCE = re.compile(r"#pragma once|// SPDX-|// IWYU pragma: (?:begin|end)_exports")
TOP = """// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// penstock {version}, {commit}: in one file
//   {headers}
// and the headers of penstock that are included there. Take this file instead of the folder
// penstock/. amalgamate.py made it: changes belong into the headers themselves.
#pragma once

// They would define all twice. An #error alone would let compilers go on; a missing file does not.
#if defined(PENSTOCK_VERSION)
#error "penstock: this file has all in one, and another header of penstock came before: include one."
#include "penstock: see the error above" // no such file
#endif
"""


class Amalgam:
    """The text of headers, each after those that it includes."""

    def __init__(self, include: Path):
        self.include = include
        self.parts: list[str] = []
        self.done: set[str] = set()
        self.conditional: dict[str, str] = {}  # which header brought it, only if a condition holds

    def add(self, name: str):
        if name in self.conditional:
            # A second copy would be defined twice where the condition holds.
            sys.exit(f"amalgamate: {self.conditional[name]} includes {name} under a condition, and a later header without one: "
                     "name that one first")
        if name not in self.done:
            self.done.add(name)
            self.parts.append(self.text(name))

    def text(self, name: str, condition="") -> str:
        """Returns what a header has besides includes of others, which it adds. Under a condition they become part of the text."""
        lines, depth = [], 0
        for line in (self.include / name).read_text().splitlines():
            depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
            if not (ours := OURS.match(line)):
                lines += [] if ONCE.match(line) else [line]
            elif not condition and not depth:
                self.add(ours[1])
            elif self.conditional.get(ours[1], condition or name) != (condition or name):
                sys.exit(f"amalgamate: {self.conditional[ours[1]]} and {name} include {ours[1]} under conditions, and of two copies one "
                         "would be too many: name that one first")
            elif ours[1] not in self.done | self.conditional.keys():
                self.conditional[ours[1]] = condition or name
                lines.append(self.text(ours[1], condition or name))
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        return f"// {name}\n\n{text}\n"


def commit() -> str:
    """Returns the commit of the headers, as far as git knows it."""
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "include/penstock/version.hpp")  # else another repository lies around this folder
        changed = git("status", "--porcelain", "--", "include")
        return f"commit {git('rev-parse', 'HEAD')}" + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "of no known commit"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("headers", metavar="HEADER", nargs="*", default=["penstock/penstock.hpp"])
    args.add_argument("--out", type=Path)
    args = args.parse_args()
    amalgam = Amalgam(ROOT / "include")
    try:
        for header in ["penstock/version.hpp", *args.headers]:  # the version first: a second file looks for it
            amalgam.add(header)
    except (FileNotFoundError, IsADirectoryError) as error:
        sys.exit(f"amalgamate: there is no header {error.filename}: write it as an #include does, penstock/cuda.hpp")
    version = re.search(r'PENSTOCK_VERSION "(.+)"', amalgam.parts[0])[1]
    top = TOP.format(version=version, commit=commit(), headers="\n//   ".join(args.headers))
    # config.hpp, which each header of penstock includes first, refuses to come after this file.
    text = "\n".join([top, *amalgam.parts, "#define PENSTOCK_IN_ONE_FILE\n"])
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text)
    else:
        sys.stdout.write(text)


main()
