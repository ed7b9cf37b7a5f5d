# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 02_histogram counts the bytes of files, in JSON and for readers."""
import json
import math
import random
import subprocess
from collections import Counter
from pathlib import Path

from running import LIMIT, is_number, run


def check(program: str, folder: Path):
    rng = random.Random(1)
    some = bytes(rng.choices(range(256), weights=range(1, 257), k=3_000_001))
    for name, data in {"some": some, "one": b"x", "same": b"\0" * 70_000}.items():
        file = folder / name
        file.write_bytes(data)
        counts = Counter(data)
        result = json.loads(run(program, "--device", "host", "--json", file))
        keys = {"bytes", "counts", "entropy_bits", "seconds", "gb_per_s", "device", "limiting_stage", "stages"}
        assert set(result) == keys, f"{name}: keys {sorted(set(result) ^ keys)} are missing or too many"
        assert result["bytes"] == len(data), f"{name}: {result['bytes']} bytes of {len(data)}"
        assert result["counts"] == [counts[byte] for byte in range(256)], f"{name}: counts"
        entropy = sum(n / len(data) * math.log2(len(data) / n) for n in counts.values())
        assert abs(result["entropy_bits"] - entropy) < 1e-6, f"{name}: {result['entropy_bits']}, not {entropy}"
        assert result["device"] == "host", result["device"]
        assert all(is_number(result[key]) and result[key] > 0 for key in ("seconds", "gb_per_s")), result
        stages = result["stages"]
        wanted = {"name", "records", "bytes", "busy_s", "starved_s", "blocked_s"}
        assert len(stages) >= 3 and all(set(stage) == wanted for stage in stages), f"{name}: {stages}"
        assert all(is_number(stage[key]) and stage[key] >= 0 for stage in stages for key in wanted - {"name"}), stages
        assert all(stage["bytes"] == len(data) for stage in stages), f"{name}: {stages}"
        assert result["limiting_stage"] in {stage["name"] for stage in stages}, result["limiting_stage"]
    said = run(program, "--device=host", "--sequential", folder / "some")
    assert "GB/s" in said and "3000001" in said.replace(",", "").replace("'", "").replace(" ", ""), said
    missing = subprocess.run([program, "--json", folder / "missing"], capture_output=True, text=True, timeout=LIMIT)
    assert missing.returncode != 0 and not missing.stdout and str(folder / "missing") in missing.stderr, missing
