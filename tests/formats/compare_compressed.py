#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Has 15_inspect read what other programs compressed, by each option that changes how the data are framed; and
use_frames read by many frames what can be read so. Others read what use_frames writes.

compare_compressed.py 15_INSPECT USE_FRAMES

Each row has a name, the codec, and a text that is refused, or none if all lines come. Rows of a program or a module
that is not there are left out, and named.
"""
import gzip
import importlib.util
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

LINES = 40_000
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\0\0\0abc"


def text() -> bytes:
    dice = random.Random(53)
    words = [b"".join(bytes([dice.randrange(97, 123)]) for _ in range(dice.randrange(2, 9))) for _ in range(500)]
    return b"".join(b" ".join(dice.choice(words) for _ in range(dice.randrange(12))) + b"\n" for _ in range(LINES))


def by(program: str, data: bytes, *options: str) -> bytes:
    """Returns what a program makes of its standard input."""
    return subprocess.run([program, *options, "-c"], input=data, capture_output=True, check=True).stdout


def bgzf(data: bytes) -> bytes:
    """Returns the blocks that bgzip writes, each with its size in an extra field, and the empty one behind."""
    blocks = []
    for at in range(0, len(data) + 0xFF00, 0xFF00):
        part = data[at:at + 0xFF00]
        deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = deflate.compress(part) + deflate.flush()
        head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<HBBHH", 6, 66, 67, 2, len(body) + 25)
        blocks.append(head + body + struct.pack("<II", zlib.crc32(part), len(part)))
    return b"".join(blocks)


def by_dictionary(data: bytes, folder: Path) -> bytes:
    samples = folder / "samples"
    samples.mkdir()
    for i in range(1000):
        (samples / str(i)).write_bytes(data[i * 300:i * 300 + 300])
    subprocess.run(["zstd", "-q", "--train", "-r", samples, "-o", folder / "dictionary"], check=True, capture_output=True)
    return by("zstd", data, "-D", str(folder / "dictionary"))


def rows(data: bytes, folder: Path):
    """Yields name, what it needs, how the bytes are made, and why they are refused."""
    half = len(data) // 2
    for options in [], ["-1"], ["-9"], ["-n"], ["--rsyncable"]:
        yield f"gzip {options}", "gzip", lambda options=options: by("gzip", data, *options), None
    yield "gzip members", "", lambda: gzip.compress(data[:half]) + gzip.compress(b"") + gzip.compress(data[half:]), None
    yield "bgzf", "", lambda: bgzf(data), None
    yield "bgzip", "bgzip", lambda: by("bgzip", data), None
    yield "gzip and zeros", "", lambda: gzip.compress(data) + bytes(512), "begin no gzip member"
    yield "gzip and garbage", "", lambda: gzip.compress(data) + b"garbage", "begin no gzip member"
    yield "gzip, cut", "", lambda: gzip.compress(data)[:-1], "it was cut"
    yield "gzip, another size", "", lambda: gzip.compress(data)[:-1] + b"\1", "a checksum or a size that does not fit"
    for options in ([], ["-1"], ["-19"], ["--fast=5"], ["--no-check"], ["--long=27"], ["-T2", "-B1MiB"], ["--rsyncable"],
                    ["--no-compress-literals"], [f"--stream-size={len(data)}"]):
        yield f"zstd {options}", "zstd", lambda options=options: by("zstd", data, *options), None
    frames = lambda: by("zstd", data[:half]) + SKIPPABLE + by("zstd", b"") + by("zstd", data[half:])
    yield "zstd frames", "zstd", frames, None
    yield "zstd and garbage", "zstd", lambda: by("zstd", data) + b"garbage", "begin no zstd frame"
    yield "zstd, cut", "zstd", lambda: by("zstd", data)[:-1], "it was cut"
    yield "zstd --long=31", "zstd", lambda: by("zstd", data, "--long=31"), ".window_log"
    yield "zstd -D", "zstd", lambda: by_dictionary(data, folder), "needs a dictionary"
    yield "zstandard", "zstandard module", lambda: module("zstandard").ZstdCompressor().compress(data), None
    for options in [], ["-9"], ["-BD"], ["-B4"], ["-B7", "-BX"], ["--content-size"], ["--no-frame-crc"], ["-BI"]:
        yield f"lz4 {options}", "lz4", lambda options=options: by("lz4", data, *options), None
    frames = lambda: by("lz4", data[:half]) + SKIPPABLE + by("lz4", b"") + by("lz4", data[half:])
    yield "lz4 frames", "lz4", frames, None
    yield "lz4 and garbage", "lz4", lambda: by("lz4", data) + b"garbage", "begin no LZ4 frame"
    yield "lz4, cut", "lz4", lambda: by("lz4", data)[:-1], "it was cut"
    yield "lz4.frame", "lz4 module", lambda: module("lz4.frame").compress(data), None


def seekable_zstd(data: bytes, each: int) -> bytes:
    """Returns zstd's seekable format, of frames by the zstd program, which do not say their sizes."""
    parts = [data[at:at + each] for at in range(0, len(data), each)]
    frames = [by("zstd", part) for part in parts]
    entries = b"".join(struct.pack("<II", len(frame), len(part)) for frame, part in zip(frames, parts))
    foot = struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, len(entries + foot)) + entries + foot


def by_pyzstd(data: bytes, folder: Path) -> bytes:
    with module("pyzstd").SeekableZstdFile(folder / "seekable", "w", max_frame_content_size=99_000) as file:
        file.write(data)
    return (folder / "seekable").read_bytes()


def of_a_file(program: str, data: bytes, folder: Path, *options: str) -> bytes:
    """Returns what a program makes of a file, whose size it knows."""
    plain = folder / "plain"
    plain.write_bytes(data)
    return subprocess.run([program, *options, "-c", plain], capture_output=True, check=True).stdout


def framed_rows(data: bytes, folder: Path):
    """Yields name, codec, what it needs, how the bytes are made, and why they are refused by many frames."""
    half = len(data) // 2
    yield "zstd of a file", "zstd", "zstd", lambda: of_a_file("zstd", data, folder), None
    yield "zstd --no-check", "zstd", "zstd", lambda: of_a_file("zstd", data, folder, "--no-check"), None
    yield "zstd -19 --long", "zstd", "zstd", lambda: of_a_file("zstd", data, folder, "-19", "--long=27"), None
    yield "pzstd", "zstd", "pzstd", lambda: of_a_file("pzstd", data, folder, "-p", "4"), "does not say how many"
    joined = lambda: of_a_file("zstd", data[:half], folder) + SKIPPABLE + of_a_file("zstd", data[half:], folder)
    yield "zstd, joined", "zstd", "zstd", joined, None
    yield "zstd, seekable", "zstd", "zstd", lambda: seekable_zstd(data, 70_000), None
    yield "zstd, seekable, cut", "zstd", "zstd", lambda: seekable_zstd(data, 70_000)[:-1], "no seek table that fits"
    yield "pyzstd, seekable", "zstd", "pyzstd module", lambda: by_pyzstd(data, folder), None
    yield "zstd of a stream", "zstd", "zstd", lambda: by("zstd", data), "does not say how many bytes it holds"
    for options in [], ["-9"], ["-B4"], ["-B5", "-BX"], ["-BI", "--no-frame-crc"], ["--content-size"]:
        yield f"lz4 {options}", "lz4", "lz4", lambda options=options: of_a_file("lz4", data, folder, *options), None
    linked = lambda: of_a_file("lz4", data, folder, "-B4", "-BD", "--content-size")
    yield "lz4 -BD --content-size", "lz4", "lz4", linked, None
    yield "lz4 -BD", "lz4", "lz4", lambda: of_a_file("lz4", data, folder, "-B4", "-BD"), "depend on each other"
    yield "lz4 -l", "lz4", "lz4", lambda: of_a_file("lz4", data, folder, "-l"), "compress it without -l"
    yield "bgzf", "gzip", "", lambda: bgzf(data), None
    yield "bgzip", "gzip", "bgzip", lambda: by("bgzip", data), None
    yield "bgzf, cut", "gzip", "", lambda: bgzf(data)[:-28], "it was cut"
    yield "gzip", "gzip", "", lambda: gzip.compress(data), "does not say how many bytes it has"


def read_by_pyzstd(path: Path) -> bytes:
    with module("pyzstd").SeekableZstdFile(path) as file:
        file.seek(100_001)
        behind = file.read()
        file.seek(0)
        return file.read(100_001) + behind


def readers():
    """Yields who reads a seekable file, what that needs, and how it is done."""
    run = lambda *command: subprocess.run(command, capture_output=True, check=True).stdout
    yield "zstd -d", "zstd", lambda path: run("zstd", "-dc", path)
    yield "pzstd -d", "pzstd", lambda path: run("pzstd", "-dc", path)
    yield "pyzstd", "pyzstd module", read_by_pyzstd


def module(name: str):
    return importlib.import_module(name)


def is_there(needed: str) -> bool:
    if not needed.endswith(" module"):
        return not needed or shutil.which(needed) is not None
    return importlib.util.find_spec(needed.removesuffix(" module")) is not None


def main() -> int:
    program, use_frames = sys.argv[1:3]
    data = text()
    bytes_of_lines = len(data) - LINES
    wrong = 0
    left_out = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "data"
        for row, needed, make, refused in rows(data, folder):
            if not is_there(needed):
                left_out.append(f"{row}: there is no {needed}")
                continue
            path.write_bytes(make())
            done = subprocess.run([program, "--json", path], capture_output=True, text=True)
            said = done.stderr.strip()
            if done.returncode == 2:
                left_out.append(f"{row}: {said}")
                continue
            if refused:
                good = done.returncode == 1 and refused in said and str(path) in said
            else:
                found = json.loads(done.stdout) if done.returncode == 0 else {}
                good = found.get("records") == LINES and found["columns"][0]["bytes"] == bytes_of_lines
            wrong += not good
            print(f"{'good' if good else 'WRONG'}: {row}" + ("" if good else f": {done.stdout} {said}"))
        for row, codec, needed, make, refused in framed_rows(data, folder):
            if not is_there(needed):
                left_out.append(f"{row}, by frames: there is no {needed}")
                continue
            path.write_bytes(make())
            done = subprocess.run([use_frames, codec, path], capture_output=True)
            said = done.stdout[:1000].decode(errors="replace") if done.stdout.startswith(b"refused") else ""
            good = refused in said and str(path) in said if refused else done.stdout == data
            wrong += not good
            print(f"{'good' if good else 'WRONG'}: {row}, by frames" + ("" if good else f": {said}"))
        path.write_bytes(data)
        subprocess.run([use_frames, "pack", path], check=True)
        for reader, needed, read in readers():
            if not is_there(needed):
                left_out.append(f"what penstock writes, by {reader}: there is no {needed}")
                continue
            good = read(Path(f"{path}.zst")) == data
            wrong += not good
            print(f"{'good' if good else 'WRONG'}: what penstock writes, by {reader}")
    print("\n".join(f"left out: {row}" for row in left_out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
