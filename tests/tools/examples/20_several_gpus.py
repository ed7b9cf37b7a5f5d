# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 20_several_gpus shares records among devices, each once."""
import random
import struct
import subprocess
from pathlib import Path

from running import LIMIT, refused, run


def check(program: str, folder: Path):
    file = folder / "numbers"
    rng = random.Random(9)
    for count in 3_000_001, 2, 1, 0:
        numbers = rng.choices(range(2**32), k=count)
        file.write_bytes(struct.pack(f"<{count}I", *numbers))
        for gpus in 1, 2, 3:
            for way in [], ["--one-thread"]:
                *rows, last = run(program, "--device", "host", "--gpus", gpus, *way, file).splitlines()
                found = [row.removeprefix(f"GPU {i}: ").split(", of ") for i, row in enumerate(rows)]
                assert last == f"{sum(numbers)} in all" and len(rows) == gpus, (count, gpus, way, last)
                assert sum(int(total) for total, _ in found) == sum(numbers), (count, gpus, way, rows)
                batches = [int(of.split()[0]) for _, of in found]
                assert count < 3_000_001 or min(batches) > 0 and max(batches) - min(batches) <= 1, (gpus, way, rows)
            rows = run(program, "--device", "host", "--gpus", gpus, "--all", file).splitlines()
            assert rows[-1] == f"{gpus * sum(numbers)} in all" and len(rows) == gpus + 1, (count, gpus, rows)
            assert all(row.startswith(f"GPU {i}: {sum(numbers)}, of ") for i, row in enumerate(rows[:-1])), (count, gpus, rows)
    refused(program, "--device", "host", folder / "missing", says=["missing"])
    for wrong in "x", "", "0", "-1", "2x", "65":
        failed = subprocess.run([program, "--device", "host", "--gpus", wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and f'--gpus takes a number from 1 to 64, and "{wrong}" is none.' in failed.stderr, failed
    parts = folder / "parts"
    parts.mkdir()
    for i in range(3):
        (parts / str(i)).write_bytes(struct.pack("<3I", i, 10 * i, 2**32 - 1))
    assert run(program, "--device", "host", parts).splitlines()[-1] == f"{33 + 3 * (2**32 - 1)} in all", "a folder"
