# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 10_file_to_file converts each sample, and leaves the old file if it fails."""
import struct
from pathlib import Path

from running import records_in_words, refused, run


def check(program: str, folder: Path):
    samples, floats = folder / "samples", folder / "floats"
    for count in 1_500_001, 1, 0:
        numbers = [(i * 40503 + 7) % 65536 - 32768 for i in range(count)]
        samples.write_bytes(struct.pack(f"<{count}h", *numbers))
        report = run(program, samples, floats)
        assert struct.unpack(f"<{count}f", floats.read_bytes()) == tuple(n / 32768 for n in numbers), count
        assert report.startswith(records_in_words(count)) and "Writer" in report, report
    before = floats.read_bytes()
    with samples.open("ab") as file:
        file.write(b"x")
    refused(program, samples, floats, says=[samples])
    assert floats.read_bytes() == before and sorted(folder.iterdir()) == [floats, samples], list(folder.iterdir())
