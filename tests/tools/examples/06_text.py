# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 06_text counts as Python does, with either end of line."""
import random
import re
from pathlib import Path

from running import records_in_words, refused, run


def check(program: str, folder: Path):
    rng = random.Random(4)
    file = folder / "text"
    for lines, end, last in (60_000, "\n", "\n"), (5_000, "\r\n", ""), (9_000, "\r\n", "\r\n"), (1, "\n", "\n"):
        some = ["".join(rng.choices("ab  \t,\v\x00\x1c", k=rng.choice([0, 1, 7, 90]))) for _ in range(lines)]
        some[lines // 2] = "x" * 700_000
        some[-1] += "a"
        file.write_bytes((end.join(some) + last).encode())
        said, *report = run(program, "--device", "host", file).splitlines()
        found = [int(word) for word in said.replace(",", "").split() if word.isdigit()]
        words = sum(len(re.findall(r"[^ \t\v]+", line)) for line in some)
        wanted = [lines, words, sum(map(len, some)), 700_000 + (lines == 1)]
        assert found == wanted, (said, wanted)
        assert report[0].startswith(records_in_words(lines)), report
    file.write_text("a\n" + "x" * 2**20 + "y\n")
    refused(program, "--device", "host", file, says=["line 2 of", "has 1048577 bytes"])
