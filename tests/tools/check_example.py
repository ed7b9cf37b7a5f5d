# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Runs an example and checks what it prints.

check_example.py 01_hello_pipeline|02_histogram|… PROGRAM; exits with 77 (skipped) if the example needs a GPU and
there is none, or if it could not be built: PROGRAM is then empty.

The end of the example's source says what it prints without files of yours, in a comment that begins with `// prints:`,
or with `// prints with OPTIONS:`. There `…` stands for any text in a line, and a line of `…` for any lines. What depends
on files, and what is refused, is in the function check() of examples/NAME.py.
"""
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
sys.path.insert(0, str(HERE / "examples"))
from running import run  # noqa: E402

PRINTS = re.compile(r"^// prints(?: with (.+))?:\n((?://.*\n?)+)", re.MULTILINE)


def pattern(block: str) -> str:
    lines = [line.removeprefix("//").strip() for line in block.splitlines()]
    return "".join("(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + "\n" for line in lines)


def check_prints(program: str, source: Path, folder: Path) -> int:
    blocks = PRINTS.findall(source.read_text())
    for options, block in blocks:
        said = run(program, *options.split(), cwd=folder)
        spaced = re.sub("^ +| +$", "", said, flags=re.MULTILINE)
        assert re.fullmatch(pattern(block), spaced), f"with the options {options!r} it prints not what {source.name} says:\n{said}"
        assert not list(folder.iterdir()), f"it leaves {list(folder.iterdir())}"
    return len(blocks)


def main(name: str, program: str):
    [source] = [path for path in EXAMPLES.rglob(name + ".c*")]
    more = HERE / "examples" / f"{name}.py"
    program = os.path.abspath(program) if program else ""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        checked = check_prints(program, source, Path(one)) if program else 0
        if more.exists():
            runpy.run_path(str(more))["check"](program, Path(other))
        assert checked or more.exists(), f"{source.name} does not say what it prints, and there is no {more.name}"


try:
    main(*sys.argv[1:])
except (AssertionError, subprocess.TimeoutExpired, ValueError) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
