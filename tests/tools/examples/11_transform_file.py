# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 11_transform_file gives each byte, and the file again if it is run twice."""
import random
from pathlib import Path

from running import mixed, records_in_words, refused, run


def check(program: str, folder: Path):
    before, after, again = folder / "before", folder / "after", folder / "again"
    rng = random.Random(5)
    for count in 3_000_001, 1, 0:
        data = rng.randbytes(count)
        mask = b"".join(mixed(i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little") for i in range(1, count // 8 + 2))
        before.write_bytes(data)
        *report, said = run(program, "--device", "host", before, after).splitlines()
        assert after.read_bytes() == bytes(a ^ b for a, b in zip(data, mask)), count
        assert said == f"{count} bytes, each as the CPU makes it", said
        assert report[0].startswith(records_in_words(count)) and any("Kernel" in line for line in report), report
        run(program, "--device", "host", after, again)
        assert again.read_bytes() == data, count
    for wrong in (folder / "missing", after), (before, before):
        refused(program, *wrong, says=[wrong[0]])
    assert sorted(folder.iterdir()) == [after, again, before], list(folder.iterdir())
