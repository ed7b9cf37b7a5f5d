# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 12_streams has figures for each way that it compares, on a GPU."""
import re
from pathlib import Path

from running import refused, run_on_gpu


def check(program: str, folder: Path):
    pinning, items, head, *rows, last = run_on_gpu(program, "--small").splitlines()
    found = [float(word) for word in pinning.replace(",", "").split() if re.fullmatch(r"\d+\.\d+", word)]
    # Some sandboxes do not tell how much memory a process has.
    assert "nan" in pinning or (len(found) == 2 and abs(found[0] - 1) < 0.2 and abs(found[1] - 2) < 0.2), pinning
    assert items.startswith("64 items of 0.25 MiB on cuda:"), items
    for row, name in zip(rows, ("pinned", "pageable", "pinned, streams", "pipeline")):
        assert row.startswith(name + " ") and len(row.removeprefix(name).split()) == 6, row
        ms, products, gpu, _, locked, faster = map(float, row.removeprefix(name).split())
        assert 0 < products <= ms and gpu > 0 and faster > 0 and (locked > 0) == (name != "pageable"), row
    assert rows[4].startswith("64 records") and any("Kernel" in row for row in rows[5:]), rows
    assert last == "all products are the same, bit by bit", last
    for wrong in ("--size", "100"), ("--items",), ("--items", "0"), ("what",):
        refused(program, *wrong, says=["Usage"])
