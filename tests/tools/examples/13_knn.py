# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 13_knn finds the nearest vectors that Python finds, on a GPU."""
import math
import random
import struct
import subprocess
from pathlib import Path

from running import LIMIT, run_on_gpu


def check(program: str, folder: Path):
    *report, took, said, first = run_on_gpu(program, "--small").splitlines()
    assert report[0].startswith("524288 records"), report
    assert 0 < float(took.split()[0]) < 256, f"{took}: as much as the file"
    assert said.startswith("the 10 nearest of 524288 vectors, certain for all 256 queries"), said
    assert first.startswith("of vector 0: 0 (0) ") and len(first.split()) == 3 + 20, first
    rng = random.Random(6)
    file = folder / "vectors"
    vectors = [[float(rng.randrange(16)) for _ in range(128)] for _ in range(300)]  # some distances are equal
    file.write_bytes(b"".join(struct.pack("<128f", *vector) for vector in vectors))
    squared = [sum((a - b) ** 2 for a, b in zip(vectors[0], vector)) for vector in vectors]
    *_, first = run_on_gpu(program, file).splitlines()
    found = [(int(i), float(d.strip("()"))) for i, d in zip(first.split()[3::2], first.split()[4::2])]
    wanted = sorted(range(300), key=lambda i: (squared[i], i))[:10]
    assert [i for i, _ in found] == wanted, (found, wanted)
    assert all(abs(d - math.sqrt(squared[i])) < 1e-3 for i, d in found), found
    same = b"".join(struct.pack("<128f", *vectors[0]) for _ in range(300))
    for contents, why in (same, "keep more candidates"), (same[:512 * 9], "9 vectors"), (same[:1000], "left over"):
        file.write_bytes(contents)
        failed = subprocess.run([program, file], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and why in failed.stderr, failed
