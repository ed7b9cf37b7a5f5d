# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 19_select_records keeps the events that Python keeps."""
import random
import struct
from pathlib import Path

from running import refused, run


def check(program: str, folder: Path):
    before, after = folder / "before", folder / "after"
    rng = random.Random(7)
    for count, bound in (700_001, 1.0), (700_001, 0.8), (1, 1.0), (0, 1.0):
        events = [(n, rng.random() * bound) for n in range(count)]
        packed = [struct.pack("<If", *event) for event in events]
        before.write_bytes(b"".join(packed))
        high = [event for event in packed if struct.unpack("<If", event)[1] > struct.unpack("<f", struct.pack("<f", 0.9))[0]]
        said, *report = run(program, "--device", "host", before, after).splitlines()
        assert after.read_bytes() == b"".join(high), count
        assert said == f"{len(high)} of {count} events are of high energy", said
        assert any("Kernel" in line for line in report), report
    refused(program, folder / "missing", after, says=["missing"])
