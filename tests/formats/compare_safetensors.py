# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what show_safetensors makes of safetensors files with what the format's own reader does.

compare_safetensors.py PROGRAM

Files that the format's own writer makes, those that safetensors_test has refused, and damaged copies of a good one. 77
without the package of PyPI, which `./tests/run --all` installs into build/python.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

INSTALLED = Path(__file__).resolve().parents[2] / "build/python/bin/python"

try:
    import numpy
    from safetensors import SafetensorError, deserialize, safe_open
    from safetensors.numpy import save_file
except ImportError:
    if INSTALLED.exists() and Path(sys.prefix) != INSTALLED.parents[1]:
        os.execv(INSTALLED, [str(INSTALLED), "-B", *sys.argv])
    print("there is no safetensors of PyPI's (./tests/run --all installs it)")
    sys.exit(77)

# Words of an error, and why we do not take what its reader takes.
STRICTER = {
    "\" twice in __metadata__": "the format forbids a name that comes twice",
    "\" twice in its safetensors header": "the format forbids a name that comes twice",
}
ROUNDS = 10000


def by_package(path: Path) -> str | None:
    """What show_safetensors says of a file, without the order of its tensors; None if it is refused."""
    data = path.read_bytes()
    said = []
    for read in (lambda: deserialize(data), lambda: safe_open(path, "numpy").keys()):
        try:
            said.append(read())
        except (SafetensorError, ValueError, OSError) as error:  # OSError: it cannot map what is empty
            said.append(error)
    tensors, names = said
    if isinstance(tensors, Exception) or isinstance(names, Exception):
        assert isinstance(tensors, Exception) and isinstance(names, Exception), (path, said)
        return None
    return lines_of({name: (of["dtype"], of["shape"], bytes(of["data"])) for name, of in tensors})


def lines_of(tensors: dict[str, tuple[str, list[int], bytes]]) -> str:
    return " ".join(["has", *sorted(f"{name.encode().hex()},{dtype},{''.join(f'{n}x' for n in shape)},{data.hex()}"
                                    for name, (dtype, shape, data) in tensors.items())])


def by_penstock(program: str, files: list[Path]) -> list[str]:
    done = subprocess.run([program, *files], capture_output=True, timeout=100, check=True)
    lines = done.stdout.decode(errors="replace").splitlines()
    assert len(lines) == len(files), (len(lines), len(files))
    return [" ".join(["has", *sorted(line.split()[1:])]) if line.startswith("has") else line for line in lines]


def written(folder: Path) -> dict[Path, str]:
    """Files of the format's own writer, and what is in them."""
    rng = random.Random(18)
    dtypes = dict(zip("? u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split(), "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 F32 F64".split()))
    arrays = {f"{of}.{n}": numpy.frombuffer(rng.randbytes(n * numpy.dtype(of).itemsize), of if of != "?" else "u1").astype(of, copy=False)
              for of in dtypes for n in range(4)}
    arrays |= {"scalar": numpy.array(1.5), "deep.é\U0001F600\"\n": arrays["f4.3"].reshape(3, 1, 1), "": arrays["i8.2"],
               "none": numpy.empty((3, 0, 1 << 40), "f4"), "one": numpy.ones((1,) * 30, "i4")}
    files = {}
    for i, (some, metadata) in enumerate([(arrays, None), (arrays, {"name": 'a "b" \\ \U0001F600', "": "\0\n"}), ({}, None), ({}, {"a": "b"}),
                                          *(({name: array}, None) for name, array in arrays.items())]):
        path = folder / f"{i}.safetensors"
        save_file(some, path, metadata)
        names = {name: dtypes["?" if array.dtype == bool else array.dtype.str[1:]] for name, array in some.items()}
        files[path] = lines_of({name: (names[name], array.shape, array.tobytes()) for name, array in some.items()})
    return files


def damaged(folder: Path) -> list[Path]:
    """Copies of a good file in which some bytes are others, or missing; mostly with a header's length that fits."""
    rng = random.Random(5)
    header = (b'{"__metadata__":{"f\\u0061":"p\\ud83d\\ude00t"},"layer.0":{"dtype":"F32","shape":[2, 3],"data_offsets":[0,24]},'
              b'"b":{"dtype":"BF16","shape":[ ],"data_offsets":[24,26]},"c":{"dtype":"F4","shape":[4],"data_offsets":[26,28]}}  ')
    data = bytes(range(28))
    files = []
    for i in range(ROUNDS):
        text = bytearray(header)
        for _ in range(1 + rng.randrange(2)):
            at = rng.randrange(len(text))
            match rng.randrange(5):
                case 0:
                    text[at] = rng.randrange(256)
                case 1:
                    text[at] = rng.choice(b'{}[]",:0123456789\\u -+.eEn')
                case 2:
                    del text[at:at + 1 + rng.randrange(4)]
                case 3:
                    other = rng.randrange(len(text))
                    text[at:at] = text[other:other + rng.randrange(30)]
                case _:
                    text[at:at + 1] = rng.choice([b"null", b"0", b"00", b" ", b"\n", b"\\u0000", b"\\udc00", b"-0", b"1e0", b"\xc3\xa9", b"\xc0\x80"])
        length = len(text) if rng.randrange(10) else rng.randrange(2 * len(text))
        files.append(folder / f"damaged{i}")
        files[-1].write_bytes(struct.pack("<Q", length) + text + data)
    return files


def main(program: str, folder: Path) -> int:
    good = written(folder)
    for (path, expected), found in zip(good.items(), by_penstock(program, list(good)), strict=True):
        assert found == expected and by_package(path) == expected, (path, found, expected)
    wrong = folder / "wrong"
    wrong.mkdir()
    subprocess.run([program, "--wrong", wrong], check=True, timeout=100)
    abuses = sorted(wrong.iterdir())
    assert len(abuses) > 60, abuses
    files = abuses + damaged(folder)
    taken, reasons, problems = 0, set(), []
    for path, found in zip(files, by_penstock(program, files), strict=True):
        theirs = by_package(path)
        refused = found.startswith("refused: ")
        words = next((words for words in STRICTER if words in found), None) if refused else None
        taken += not refused
        if path in abuses and not refused:
            problems.append((path, "is taken"))
        elif refused and theirs is not None and words:
            reasons.add(words)
        elif (None if refused else found) != theirs:
            problems.append((path.name, path.read_bytes()[:400], found, theirs))
    for problem in problems[:10]:
        print(*problem, sep="\n  ")
    for words in STRICTER.keys() - reasons:
        problems.append(words)
        print(f"of no file: {words}")
    print(f"{len(good)} files written, {len(abuses)} abuses, {ROUNDS} damaged files of which {taken} are taken, {len(problems)} wrong")
    return bool(problems) or taken < ROUNDS // 100


with tempfile.TemporaryDirectory() as name:
    sys.exit(main(os.path.abspath(sys.argv[1]), Path(name)))
