# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 21_pack packs numbers of each kind, finds each damaged byte, and refuses what it cannot pack."""
import random
import struct
from pathlib import Path

from made_files import safetensors_file
from running import refused, run


def check(program: str, folder: Path):
    numbers = random.Random(1)
    cases = {
        "uint32": ("bits", struct.pack("<70000I", *(numbers.randrange(90_000, 131_072) for _ in range(70_000)))),
        "uint16": ("ranked", struct.pack("<70000H", *(int(numbers.paretovariate(0.4)) % 65_536 for _ in range(70_000)))),
        "bfloat16": ("float16", b"".join(struct.pack("<f", numbers.gauss(0, 0.02))[2:] for _ in range(70_000))),
        "float32": ("raw", struct.pack("<70000f", *(numbers.gauss(0, 1) for _ in range(70_000)))),
        "int64": ("bits", b""),
    }
    values, packed = folder / "values", folder / "values.packed"
    for kind, (codec, data) in cases.items():
        values.write_bytes(data)
        said = run(program, "--check", "--type", kind, values, packed)
        assert f"values: {kind}" in said and (not data or f", {codec}, {len(data)} bytes" in said), said
        assert f"all {len(data)} bytes are the same" in said, said
        assert run(program, "--info", packed).split(", ratio")[0] == said.split(", ratio")[0], said
    before = packed.read_bytes()
    refused(program, "--type", "uint128", values, packed, says=["uint128"])
    refused(program, values, packed, says=[values])
    refused(program, "--wrong", says=["usage"])
    assert packed.read_bytes() == before and sorted(folder.iterdir()) == [values, packed], list(folder.iterdir())
    weights = cases["bfloat16"][1]
    model = {"h.0.w": ("BF16", [7, 10_000], weights), "none": ("BF16", [0], b""), "b": ("F32", [1], bytes(4))}
    values.write_bytes(safetensors_file(model, {"format": "pt"}))
    said = run(program, "--check", values, packed)
    assert f"h.0.w: bfloat16 (V2), float16, {len(weights)} bytes" in said and f"all {len(weights) + 4} bytes of tensors" in said, said
    assert run(program, "--info", packed).split(", ratio")[0] == said.split(", ratio")[0], said
    refused(program, packed, values, says=["is packed already"])
    packed.write_bytes(before[:-1])
    refused(program, "--info", packed, says=[packed])
