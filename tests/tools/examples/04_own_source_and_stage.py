# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 04_own_source_and_stage finds the numbers of lines, and names those that it leaves out."""
import random
from pathlib import Path

from running import refused, run


def check(program: str, folder: Path):
    rng = random.Random(2)
    file = folder / "lines"
    for lines, bad, end in (120_000, 7, "\n"), (1_000, 100, ""), (1, 0, ""), (3, 3, "\n"):
        numbers = [rng.randrange(-500, 500) / 10 for _ in range(lines)]
        wrong = set(rng.sample(range(lines), bad))
        file.write_text("\n".join(f"a, place,{'none' if i in wrong else n}" for i, n in enumerate(numbers)) + end)
        good = [n for i, n in enumerate(numbers) if i not in wrong]
        said, *report = run(program, "--device", "host", file).splitlines()
        if good:
            words = said.replace(",", "").split()
            found = [float(words[i]) for i in (0, 3, 5, 7, 9)]
            wanted = [len(good), min(good), max(good), sum(good) / len(good), bad]
            assert all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(found, wanted)), (said, wanted)
        else:
            assert said.startswith("0 numbers"), said
        skipped = [line for line in report if "skipped by Decoder" in line]
        assert len(skipped) == min(bad, 10) and all('no number ends "a, place,none"' in line for line in skipped), report
        assert all(int(line.split("record ")[1].split(":")[0]) in wrong for line in skipped), report
    for text, words in {"a,1\n" + "no\n" * 101: ["Decoder", "no number"], "a,1\n" + "x" * 61: ["line 1", "61"]}.items():
        file.write_text(text)
        refused(program, "--device", "host", file, says=[*words])
