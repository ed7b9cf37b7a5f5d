# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 01_hello_pipeline counts the lines of a file."""
from pathlib import Path

from running import run


def check(program: str, folder: Path):
    (folder / "numbers.txt").write_text("a line\n" * 54_321)
    *report, last = run(program, cwd=folder).splitlines()
    assert last == "54321 lines", last
    assert report, "there is no Report"
