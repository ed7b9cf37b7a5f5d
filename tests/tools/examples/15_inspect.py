# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 15_inspect tells what is in files of each format, and what is wrong with damaged ones."""
import contextlib
import http.server
import json
import math
import os
import random
import re
import struct
import subprocess
import threading
import zipfile
from pathlib import Path

from made_files import GREY_PIXELS, GREY_PNG, RED_AND_BLUE, crc32c, npy_file, safetensors_file, tar_file, tfrecord
from running import LIMIT, run


class Ranges(http.server.BaseHTTPRequestHandler):
    """Answers ranges of the files of a folder."""
    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self):
        file = self.folder / self.path.lstrip("/")
        data = file.read_bytes() if file.is_file() else b""
        first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        part = data[first:last + 1]
        self.send_response(404 if not file.is_file() else 206 if part else 416)
        span = f"{first}-{first + len(part) - 1}" if part else "*"
        self.send_header("Content-Range", f"bytes {span}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder: Path):
    """A server of a folder's files, while it is open: gives its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Ranges,), {"folder": folder})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def check(program: str, folder: Path):
    rng = random.Random(15)

    def write(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    def archive(name: str, arrays: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
        with zipfile.ZipFile(folder / name, "w", method) as to:
            for array, data in arrays.items():
                to.writestr(array + ".npy", data)
        return folder / name

    def column(name: str, of_type: str, extents: list[int], data: bytes) -> dict:
        return {"name": name, "type": of_type, "extents": extents, "bytes": len(data), "crc32c": crc32c(data)}

    def inspected(*files) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, files)], capture_output=True, text=True, timeout=LIMIT)

    x, y, ids = rng.randbytes(5 * 24), rng.randbytes(5 * 8), rng.randbytes(2000)
    swapped = b"".join(y[i:i + 8][::-1] for i in range(0, len(y), 8))
    arrays = {"x": npy_file("<f4", (5, 2, 3), x), "y": npy_file(">i8", (5,), swapped)}
    columns = [column("x", "float32", [2, 3], x), column("y", "int64", [], y)]
    lines = ["one", "", "ünö", "x" * 700_000, "y" * 700_000]
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 1, 2) + struct.pack("<iqqq", 1000, 0, 0, 1)
    ids_bin, ids_idx = write("ids.bin", ids), write("ids.idx", index)
    tensors = {"wte": ("F32", [5, 6], x), "none": ("U8", [0], b""), "b\n": ("BF16", [20], y)}
    known = [
        (write("x.npy", arrays["x"]), "npy", 5, [column("array", "float32", [2, 3], x)]),
        (write("y.npy", arrays["y"]), "npy", 5, [column("array", "int64", [], y)]),
        (archive("both.npz", arrays), "npz", 5, columns),
        (archive("apart.npz", arrays | {"x": npy_file("<f4", (0, 2, 3), b"")}), "npz", None,
         [column("x", "float32", [2, 3], b""), columns[1]]),
        (archive("none.npz", {}), "npz", 0, []),
        (write("digits", bytes([0, 0, 8, 2]) + struct.pack(">II", 4, 10) + x[:40]), "idx", 4, [column("array", "uint8", [10], x[:40])]),
        (write("gpt2.bin", struct.pack("<256i", 20240520, 1, 1000, *[0] * 253) + ids), "llm.c", 1000, [column("tokens", "uint16", [], ids)]),
        (write("llama3.bin", struct.pack("<256i", 20240801, 7, 500, *[0] * 253) + ids), "llm.c", 500, [column("tokens", "uint32", [], ids)]),
        (ids_bin, "megatron", 1000, [column("tokens", "uint16", [], ids)]),
        (ids_idx, "megatron", 1000, [column("tokens", "uint16", [], ids)]),
        (write("w.safetensors", safetensors_file(tensors)), "safetensors", 160, [column(name, *of) for name, of in tensors.items()]),
        (write("text", "\n".join(lines).encode()), "lines", 5, [column("text", "text", [], "".join(lines).encode())]),
        (write("train", b"".join(map(tfrecord, [x, b"", ids]))), "tfrecord", 3, [column("bytes", "uint8", [], x + ids)]),
        (write("samples.tar", tar_file({"a/1.JPG": x, "a/1.cls": b"3", "notes": b"none", "a/2.cls": b"4", "a/2.jpg": ids})), "tar", 2,
         [column("jpg", "uint8", [], x + ids), column("cls", "uint8", [], b"34")]),
        (write("none.tar", bytes(10240)), "tar", 0, []),
        (write("empty", b""), "lines", 0, [column("text", "text", [], b"")]),
    ]
    said = [json.loads(line) for line in run(program, "--json", *[file for file, *_ in known]).splitlines()]
    for (file, of_format, records, found), result in zip(known, said, strict=True):
        files = [str(ids_bin), str(ids_idx)] if of_format == "megatron" else [str(file)]
        assert result == {"format": of_format, "records": records, "columns": found, "files": files}, result
    for file, of_format, records, found in known:
        first, *rest = run(program, file).splitlines()
        count = "different numbers of" if records is None else records
        assert first.endswith(f": {of_format}, {count} records") and len(rest) == len(found), first
        assert all(line.endswith(f"{it['bytes']} bytes  crc32c {it['crc32c']}") for line, it in zip(rest, found)), rest

    if "is no file" not in inspected("ftp://none/x").stderr:  # built with libcurl
        with served(folder) as url:
            names = [file.name for file, of_format, *_ in known]
            by_url = [json.loads(line) for line in run(program, "--json", *[url + name for name in names]).splitlines()]
            assert [it | {"files": []} for it in by_url] == [it | {"files": []} for it in said], by_url
            assert inspected(url + "missing").stderr.count("is no file") == 1

    for name, data, size in ("picture.jpg", RED_AND_BLUE, [3, 12, 16]), ("picture", RED_AND_BLUE, [3, 12, 16]), ("png", GREY_PNG, [1, 2, 3]):
        picture = write(name, data)
        done = inspected("--json", picture)
        if done.returncode == 2:
            assert "was built without" in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, done
            continue
        said = json.loads(done.stdout)
        assert (said["format"], said["records"]) == ("png" if name == "png" else "jpeg", 1), said
        [of_picture] = said["columns"]
        assert (of_picture["name"], of_picture["type"], of_picture["extents"]) == ("image", "uint8", size), said
        assert of_picture["bytes"] == math.prod(size), said
        assert name != "png" or of_picture["crc32c"] == crc32c(GREY_PIXELS), said
        for cut in data[:len(data) // 2], data[:20], b"":
            done = inspected(write(name + "-cut.jpg", cut))
            assert done.returncode == 1 and done.stderr.count("\n") == 1, done

    # JSON whatever bytes a name has, and errors on one line.
    odd = os.fsdecode(b"\xff\xe2\x82\xc3\xa9\x7f\n\x1b\xed\xa0\x80\"")
    said = json.loads(run(program, "--json", write(odd, b"one\n")))
    assert said["files"] == [str(folder / "\ufffd\ufffd\ufffdé\x7f\n\x1b\ufffd\ufffd\ufffd\"")], said
    done = subprocess.run([program, write(odd + ".npy", b"")], capture_output=True, timeout=LIMIT)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"\x1b" not in done.stderr, done

    deflated = archive("deflated.npz", arrays, zipfile.ZIP_DEFLATED)
    done = inspected("--json", deflated)
    if done.returncode == 2:
        assert "was built without zlib" in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, done
    else:
        assert done.returncode == 0 and json.loads(done.stdout)["columns"] == columns, done
    good = archive("good.npz", arrays).read_bytes()
    bad = {write("cut.npy", arrays["x"][:-1]): "was cut", write("cut.npz", good[:-1]): "was cut",
           write("twice.npz", good.replace(b"y.npy", b"x.npy")): "for the second time",
           archive("lzma.npz", arrays, zipfile.ZIP_LZMA): "LZMA", write("cut.tfrecord", tfrecord(x)[:-1]): "only", write("noise", b"\x01\0\xff" * 99): "of no format that",
           write("cut.safetensors", b"\xff" * 7): "has 7 bytes", folder / "missing": "is no file", folder: "is no file"}
    for file, words in bad.items():
        done = inspected("--json", file, known[0][0])
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and len(done.stdout.splitlines()) == 1, done
        assert words in done.stderr and str(file) in done.stderr, done.stderr
    ids_idx.write_bytes(index[:-1])
    assert inspected(ids_bin).returncode == 1
    for wrong in [], ["--json"], ["--what", ids_bin]:
        assert inspected(*wrong).returncode == 1 and "Usage" in inspected(*wrong).stderr, wrong
