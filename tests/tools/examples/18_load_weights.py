# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 18_load_weights lists and gathers each tensor, on one device and on several."""
import json
import random
import re
import struct
from pathlib import Path

from made_files import crc32c, packed_safetensors_file, safetensors_file
from running import refused, run


def listed(lines: list[str]) -> dict[str, tuple[str, list[int], int]]:
    tensors = {}
    for line in lines:
        name, at = json.JSONDecoder().raw_decode(line)
        dtype, *shape, _, crc = line[at:].split()
        tensors[name] = dtype, json.loads("".join(shape)), int(crc)
    assert len(tensors) == len(lines), "a name came twice"
    return tensors


def check(program: str, folder: Path):
    rng = random.Random(18)
    sizes = {"wte": 3_000_001, "none": 0, "one": 1, "wpe": 8 << 20, **{f"h.{i}.é\n": 4000 + i for i in range(300)}}
    shards = [folder / f"model-{i}-of-3.safetensors" for i in (1, 2, 3)]
    written = {}
    for i, shard in enumerate(shards):
        tensors = {f"{i}.{name}": ("U8", [size], rng.randbytes(size)) for name, size in sizes.items()}
        shard.write_bytes(safetensors_file(tensors, {"format": "pt"} if i != 1 else None))
        written |= tensors
    total = 3 * sum(sizes.values())
    for files in shards, [folder]:
        result = json.loads(run(program, "--json", "--check", "--device", "host", *files))
        assert set(result) == {"bytes", "seconds", "gb_per_s", "of_link", "of_links", "gpus", "device_seconds", "gathered_by", "memory_s", "open_s"}, result
        assert result["bytes"] == total and result["of_link"] is result["of_links"] is None and result["gpus"] == 0, result
        assert result["device_seconds"] == [result["seconds"]] and result["gathered_by"] is None, result
        assert 0 < result["open_s"] < result["memory_s"] < result["seconds"], result
        assert abs(result["gb_per_s"] - total / result["seconds"] / 1e9) < 1e-9, result
    lines = run(program, "--check", "--device", "host", *shards).splitlines()
    said, checked, *report = lines[len(written):]
    found = listed(lines[:len(written)])
    assert set(found) == set(written), set(found) ^ set(written)
    for name, (dtype, shape, data) in written.items():
        assert found[name][:2] == (dtype, shape), (name, found[name])
        assert len(data) > 10_000 or found[name][2] == crc32c(data), name
    assert said.startswith(f"{3 * len(sizes)} tensors, {total} bytes, in "), said
    assert checked == "every tensor is as in its file", checked
    assert report[0].startswith(f"{total} records"), report
    # Several devices, with rows of pieces that are many, few, or more than there are bytes; and models of no bytes at all.
    nothing = folder / "nothing.safetensors"
    nothing.write_bytes(safetensors_file({"a": ("U8", [0], b""), "b": ("U8", [0], b"")}, None))
    tiny = folder / "tiny.safetensors"
    tiny.write_bytes(safetensors_file({"a": ("U8", [0], b""), "b": ("U8", [1], b"x"), "c": ("U8", [0], b"")}, None))
    for devices in 1, 2, 3, 8:
        for piece, files, size in (100_000, shards, total), (8 << 20, shards, total), (1 << 30, shards, total), (1, [tiny], 1), (7, [nothing], 0):
            how = ["--check", "--device", "host", "--gpus", devices, "--piece", piece, *files]
            result = json.loads(run(program, "--json", *how))
            assert result["bytes"] == size and result["gpus"] == 0, (how, result)
            assert len(result["device_seconds"]) == devices and max(result["device_seconds"]) == result["seconds"], (how, result)
            assert min(result["device_seconds"]) > result["memory_s"] > result["open_s"] > 0, (how, result)
            assert result["gathered_by"] == ("copies on the host" if devices > 1 else None), (how, result)
    several = run(program, "--check", "--device", "host", "--gpus", 3, "--piece", 500_000, *shards).splitlines()
    assert several[:len(written)] == lines[:len(written)], "three devices have other tensors than one"
    assert f"on each of 3 devices, gathered by copies on the host" in several[len(written)], several[len(written)]
    shares = [int(line.split()[0]) for line in several if re.match(r"[0-9]+ records", line)]
    assert len(shares) == 3 and sum(shares) == total and max(shares) < total / 2, shares
    # Packed shards give the same tensors, on one device and on several.
    model = {"w": ("BF16", [300, 70], rng.randbytes(42_000)), "none": ("U8", [0], b""), "b": ("F32", [3], rng.randbytes(12))}
    more = {"c": ("U8", [5], b"12345")}
    packed = [folder / "packed" / name for name in ("a.safetensors", "b.safetensors")]
    packed[0].parent.mkdir()
    for path, tensors in zip(packed, (model, more)):
        path.write_bytes(packed_safetensors_file(tensors))
    for how in ["--piece", 1000, *packed], ["--gpus", 2, packed[0].parent]:
        lines_ = run(program, "--check", "--device", "host", *how).splitlines()
        found = listed(lines_[:4])
        assert found == {name: (dtype, shape, crc32c(data)) for name, (dtype, shape, data) in (model | more).items()}, found
        assert lines_[4].startswith("4 tensors, 42017 bytes, in ") and "gathered" not in lines_[4], lines_[4]
        assert lines_[5] == "every tensor is as in its file", lines_[5]
    packed[0].write_bytes(packed[0].read_bytes()[:-1])
    refused(program, "--device", "host", *packed, says=[packed[0]], by="18_load_weights: ")
    good = shards[0].read_bytes()
    for bad, words in {b"": "has 0 bytes", good[:-1]: "end behind the end of the file", good + b"x": "overlap nor leave gaps",
                       struct.pack("<Q", 1 << 63) + good[8:]: "header has 9223372036854775808 bytes"}.items():
        shards[1].write_bytes(bad)
        for devices in "1", "3":
            refused(program, "--device", "host", "--gpus", devices, *shards, says=[words, shards[1]], by="18_load_weights: ")
    for wrong, words in {("--device",): "--device has nothing behind it: give auto, cuda or host", ("--what",): "Usage",
                         ("--gpus",): "--gpus has nothing behind it: give how many", ("--gpus", "0"): "--gpus takes a number from 1 to 64",
                         ("--device", "gpu"): 'no device "gpu": take "auto", "cuda" or "host"'}.items():
        refused(program, *wrong, says=[words])
