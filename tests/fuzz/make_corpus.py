# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Makes files of every format that penstock reads, by the programs that users have, and by twins of their writers.

make_corpus.py FOLDER

FOLDER/list has a line for each file: its format, its name, and the file with the bytes that must come out, or
"refused" and words of the error. Exits with 77 if NumPy is missing.
"""
import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import sys
import warnings
import zipfile
from pathlib import Path

try:
    import numpy as np
    from numpy.lib import format as npy
except ImportError:
    print("there is no NumPy (Debian: python3-numpy)")
    sys.exit(77)

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
lines: list[str] = []


def expect(kind: str, name: str, data: bytes):
    (folder / f"{name}.raw").write_bytes(data)
    lines.append(f"{kind} {name} {name}.raw")


def refuse(kind: str, name: str, words: str):
    lines.append(f"{kind} {name} refused {words}")


def in_memory(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False).tobytes()


def save(name: str, array: np.ndarray, version=None):
    with open(folder / name, "wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        npy.write_array(file, array, version)


# What np.save() writes: each type in either byte order, each version, several shapes.
for code in ["b1", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8"]:
    for order in "<>":
        dtype = np.dtype(order + code)
        for shape in [(0,), (1,), (7,), (5, 3), (3, 1, 4), (0, 3)]:
            array = (np.arange(int(np.prod(shape))) * 37 % 251).astype(dtype).reshape(shape)
            name = f"{code}_{'big' if order == '>' else 'little'}_{'x'.join(map(str, shape))}.npy"
            save(name, array)
            expect("npy", name, in_memory(array))
for version in [(1, 0), (2, 0), (3, 0)]:
    name = f"version{version[0]}.npy"
    save(name, np.arange(10, dtype="<i4"), version)
    expect("npy", name, in_memory(np.arange(10, dtype="<i4")))
one_dimension = np.asfortranarray(np.arange(6.0))
save("fortran1.npy", one_dimension)
expect("npy", "fortran1.npy", in_memory(one_dimension))

for number, name in enumerate(["float32", "single", "f", "<f", "=f", "|f", "=f4", "f4"]):
    text = f"{{'descr': '{name}', 'fortran_order': False, 'shape': (5,), }}\n".encode()
    data = np.arange(5, dtype="f4").tobytes()
    (folder / f"named{number}.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + data)
    np.testing.assert_array_equal(np.load(folder / f"named{number}.npy"), np.arange(5, dtype="f4"))
    expect("npy", f"named{number}.npy", data)

for name, array, words in [
    ("fortran", np.asfortranarray(np.arange(6.0).reshape(2, 3)), "Fortran order"),
    ("zero_dims", np.array(3.0), "no dimensions"),
    ("no_values", np.zeros((3, 0)), "0 bytes"),
    ("objects", np.array([{}, 1], dtype=object), "Python objects"),
    ("strings", np.array(["a", "bc"]), "strings"),
    ("bytes", np.array([b"a", b"bc"]), "strings"),
    ("structures", np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]), "structures"),
    ("latin", np.zeros(3, dtype=[("é", "i4")]), "structures"),
    ("unicode", np.zeros(3, dtype=[("价", "i4")]), "structures"),
    ("complex", np.zeros(3, dtype="c8"), "complex"),
    ("dates", np.zeros(3, dtype="M8[ns]"), "dates"),
    ("spans", np.zeros(3, dtype="m8[s]"), "dates"),
    ("void", np.zeros(3, dtype="V5"), "not read"),
    ("long_double", np.zeros(3, dtype=np.longdouble), "long doubles"),
]:
    save(f"{name}.npy", array)
    refuse("npy", f"{name}.npy", words)
np.savez(folder / "archive.npz", np.arange(3))
refuse("npy", "archive.npz", "archive")

# Compressed as a whole, by what Python has for it.
for name, packed in {"gzip": gzip.compress(bytes(999)), "bzip2": bz2.compress(bytes(999)), "xz": lzma.compress(bytes(999))}.items():
    (folder / f"packed.{name}").write_bytes(packed)
    for kind in "npy", "npz", "idx", "tokens16", "tokens32", "safetensors":
        refuse(kind, f"packed.{name}", f"is compressed by {name}")


# Archives: what np.savez() and np.savez_compressed() write, and what Python's zipfile writes in other ways.
def archive(name: str, words: str | None = None, **arrays: np.ndarray):
    for how, write in ("stored", np.savez), ("deflated", np.savez_compressed):
        path = folder / f"{name}_{how}.npz"
        write(path, **arrays)
        if words:
            refuse("npz", path.name, words)
        else:
            expect("npz", path.name, in_memory(np.load(path)["a"]))


def in_zip(name: str, words: str | None, method: int = zipfile.ZIP_STORED, to=lambda file: file, before: bytes = b"",
           behind: bytes = b"", comment: bytes = b"", times: int = 1):
    made = io.BytesIO()
    with zipfile.ZipFile(to(made), "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.comment = comment
        archive.writestr("readme.txt", "not an array")
        for _ in range(times):
            archive.writestr("a.npy", (folder / "version1.npy").read_bytes())
    (folder / f"{name}.npz").write_bytes(before + made.getvalue() + behind)
    if words:
        refuse("npz", f"{name}.npz", words)
    else:
        expect("npz", f"{name}.npz", in_memory(np.arange(10, dtype="<i4")))


class Stream(io.RawIOBase):
    """Cannot go back, so that sizes stand behind members."""

    def __init__(self, to):
        self.to = to

    def writable(self):
        return True

    def write(self, data):
        return self.to.write(data)


for code in "b1", "u1", "<i2", ">i2", "<f2", "<f4", ">f4", "<i8", ">f8":
    for shape in (5,), (3, 4):
        array = (np.arange(int(np.prod(shape))) * 37 % 251).astype(code).reshape(shape)
        name = f"npz_{np.dtype(code).name}_{'big' if code[0] == '>' else 'little'}_{len(shape)}"
        archive(name, b=np.arange(3), a=array, **{"../c d": np.ones(2)})
archive("npz_none", a=np.zeros(0))
archive("npz_zeros", a=np.zeros(100_000, "u1"))
archive("npz_many", **{name: np.arange(3) for name in "xyza"})
archive("npz_missing", "None is a.npy", b=np.arange(3))
archive("npz_fortran", "Fortran order", a=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
archive("npz_objects", "Python objects", a=np.array([{}, 1], dtype=object))
archive("npz_structures", "structures", a=np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]))
archive("npz_scalar", "no dimensions", a=np.array(3.0))
in_zip("zip_stored", None)
in_zip("zip_deflated", None, zipfile.ZIP_DEFLATED)
in_zip("zip_stream", None, to=Stream)
in_zip("zip_deflated_stream", None, zipfile.ZIP_DEFLATED, Stream)
in_zip("zip_comment", None, comment=b"c" * 1000)
in_zip("zip_bzip2", "bzip2", zipfile.ZIP_BZIP2)
in_zip("zip_lzma", "LZMA", zipfile.ZIP_LZMA)
in_zip("zip_prefix", "something was put before", before=b"#!/bin/sh\n")
in_zip("zip_suffix", "something was put behind", behind=b"x")
in_zip("zip_twice", "for the second time", times=2)
whole = (folder / "version1.npy").read_bytes()
for name, data, words in [("cut", whole[:-1], "was cut"), ("longer", whole + b"x", "behind the end"),
                          ("head", whole[:40], "was cut"), ("twice", whole + whole, "behind the end")]:
    (folder / f"{name}.npy").write_bytes(data)
    refuse("npy", f"{name}.npy", words)

# NumPy's own test data.
own = Path(np.lib.__file__).parent / "tests" / "data"
for path in sorted([*own.glob("*.npy"), *own.glob("*.npz")]):
    name = f"numpy_{path.name}"
    (folder / name).write_bytes(path.read_bytes())
    if path.suffix == ".npz":
        refuse("npz", name, "None is a.npy")
    elif "objarr" in name:
        refuse("npy", name, "Python objects")
    else:
        expect("npy", name, in_memory(np.load(path)))

# IDX: a twin of what wrote MNIST.
for code, dtype in [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")]:
    for shape in [(0,), (5,), (4, 3, 2)]:
        array = (np.arange(int(np.prod(shape))) * 11 % 101).astype(dtype).reshape(shape)
        name = f"idx{code}_{'x'.join(map(str, shape))}"
        header = bytes([0, 0, code, len(shape)]) + b"".join(struct.pack(">I", extent) for extent in shape)
        (folder / name).write_bytes(header + array.tobytes())
        expect("idx", name, in_memory(array))

# Tokens: alone, a twin of llm.c's write_datafile(), and one of Megatron-Core's IndexedDatasetBuilder.
for bits, magic, version in [(16, 20240520, 1), (32, 20240801, 7)]:
    tokens = (np.arange(1000) * 31 % 50257).astype(f"<u{bits // 8}")
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(tokens)
    for name, data in [("raw", tokens.tobytes()), ("llm_c", header.tobytes() + tokens.tobytes())]:
        (folder / f"{name}{bits}.bin").write_bytes(data)
        expect(f"tokens{bits}", f"{name}{bits}.bin", tokens.tobytes())
    other = 48 - bits
    refuse(f"tokens{other}", f"llm_c{bits}.bin", "the type that the file has")
    documents = [tokens[:10], tokens[10:10], tokens[10:700], tokens[700:]]
    lengths = np.array([len(document) for document in documents], "<i4")
    places = np.concatenate([[0], np.cumsum(lengths[:-1], dtype="<i8") * (bits // 8)]).astype("<i8")
    with open(folder / f"megatron{bits}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8 if bits == 16 else 4, len(lengths), len(documents) + 1))
        file.write(lengths.tobytes() + places.tobytes() + np.arange(len(documents) + 1, dtype="<i8").tobytes())
    (folder / f"megatron{bits}.bin").write_bytes(tokens.tobytes())
    expect(f"tokens{bits}", f"megatron{bits}.bin", tokens.tobytes())
    refuse(f"tokens{other}", f"megatron{bits}.bin", "the type that the file has")
    refuse(f"tokens{bits}", f"megatron{bits}.idx", "name the file of tokens")
# Weights: a twin of what writes safetensors files.
def weights(name: str, tensors: dict, metadata: dict | None = None, pad: int = 0) -> None:
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for key, (dtype, array) in tensors.items():
        header[key] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, ensure_ascii=len(tensors) % 2 == 0).encode() + b" " * pad
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    expect("safetensors", name, data)


weights("one.safetensors", {"a": ("F32", np.arange(6, dtype="<f4").reshape(2, 3))})
weights("two.safetensors", {"a.weight": ("F16", np.ones((4, 4), "<f2")), "b\u00e9\n": ("I64", np.arange(3, dtype="<i8"))}, {"format": "pt"}, 5)
weights("empty.safetensors", {"none": ("U8", np.zeros((0, 7), "u1")), "scalar": ("F64", np.float64(1.5).reshape(()))})
(folder / "cut.safetensors").write_bytes((folder / "one.safetensors").read_bytes()[:-1])
refuse("safetensors", "cut.safetensors", "cut.safetensors")
index = {"metadata": {"total_size": 24, "of": [1.5e3, None, True]}, "weight_map": {"a": "one.safetensors", "a.weight": "two.safetensors"}}
(folder / "model.safetensors.index.json").write_text(json.dumps(index))
refuse("safetensors", "model.safetensors.index.json", "an index of some")



# Packed files: a twin of PackedWriter, after docs/packed.md.
def crc32c(data: bytes) -> int:
    crc = ~0 & 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return ~crc & 0xFFFFFFFF


def rans(steps: list, frequencies: list[int]) -> bytes:
    """Each step has for each lane a symbol, or (bits, width). Symbols count on from one table to the next."""
    first = [sum(frequencies[symbol // 256 * 256:symbol]) for symbol in range(len(frequencies))]
    states, words = [1 << 16] * 32, []
    for step in reversed(steps):
        for lane in reversed(range(32)):
            what = step[lane]
            bits, width = what if isinstance(what, tuple) else (0, 0)
            most = 1 << (32 - width) if isinstance(what, tuple) else frequencies[what] << 20
            if states[lane] >= most:
                words.append(states[lane] & 0xFFFF)
                states[lane] >>= 16
            x = states[lane]
            states[lane] = x << width | bits if isinstance(what, tuple) else \
                (x // frequencies[what] << 12) + x % frequencies[what] + first[what]
    return struct.pack("<32I", *states) + struct.pack(f"<{len(words)}H", *reversed(words))


def frequencies_of(symbols: list[int]) -> list[int]:
    parts = [symbols.count(symbol) * 4096 // len(symbols) or int(symbol in symbols) for symbol in range(256)]
    parts[parts.index(max(parts))] += 4096 - sum(parts)
    return parts


def by_classes(values: list[int], rows: list) -> tuple:
    """Returns the stream, frequencies, symbols and ranks, with odd and even values as the classes 1 and 2."""
    symbols, ranked, coded = [], [], {}
    for its_class in 1, 2:
        its = sorted({value for value in values if value % 2 == its_class % 2}, key=lambda value: -values.count(value))
        while its:
            bits = 0 if len(ranked) % 64 < 40 or max(values) < 256 else len(its).bit_length() - 1
            for i, value in enumerate(its[:1 << bits]):
                coded[value] = len(symbols), (i, bits), its_class
            symbols.append(len(ranked) | bits << 20 | its_class << 24)
            ranked += its[:1 << bits]
            its = its[1 << bits:]
    put = [[coded[value][0] + (256 * coded[rows[i - 1][lane]][2] if i % 16 else 0) for lane, value in enumerate(row)]
           for i, row in enumerate(rows)]
    frequencies = []
    for table in range(3):
        here = [symbol % 256 for row in put for symbol in row if symbol // 256 == table]
        frequencies += frequencies_of(here + list(range(len(symbols))))
    steps = [step for symbols_, row in zip(put, rows) for step in
             ([symbols_] if max(values) < 256 else [symbols_, [coded[value][1] for value in row]])]
    return rans(steps, frequencies), frequencies, symbols + [0] * (256 - len(symbols)), ranked


def packed(kind: str, name: str, code: int, array: np.ndarray, letter: str = "") -> None:
    values = [int(value) for value in array.view(f"u{array.itemsize}")]
    rows = [[values[min(b * 512 + lane * 16 + k, len(values) - 1)] for lane in range(32)]
            for b in range(-(-len(values) // 512)) for k in range(16)]
    bytes_, ranked, frequencies, symbols = array.tobytes(), [], [], []
    if code == 1:
        base, width = min(values), int(max(values) - min(values)).bit_length()
        number = sum((value - base) << i * width for i, value in enumerate(values))
        bytes_ = struct.pack("<QII", base, width, 0) + number.to_bytes(-(-len(values) * width // 32) * 4, "little")
    elif code == 2:
        frequencies = frequencies_of(values)
        bytes_ = rans(rows, frequencies)
    elif code == 3:
        turned = [(value << 1 & 0xFFFF | value >> 15) if letter == "V" else value for value in values]
        frequencies = frequencies_of([value >> 8 for value in turned])
        turn = dict(zip(values, turned))
        low = bytes(value & 0xFF for value in turned)
        bytes_ = low + bytes(-len(low) % 512) + rans([[turn[value] >> 8 for value in row] for row in rows], frequencies)
    elif code == 4:
        ranked = sorted(set(values), key=lambda value: -values.count(value))
        coded = {}
        for rank, value in enumerate(ranked):
            k = max(rank.bit_length() - 4, 0)
            coded[value] = (8 * k + (rank >> k) if rank > 15 else rank), (rank & (1 << k) - 1, k)
        frequencies = frequencies_of([coded[value][0] for value in values])
        bytes_ = rans([[coded[value][part] for value in row] for row in rows for part in (0, 1)], frequencies)
    elif code == 5:
        bytes_, frequencies, symbols, ranked = by_classes(values, rows)
    dtype = array.dtype
    index = b"x".ljust(64, b"\0") + struct.pack("<cBBBIII64x", (letter or dtype.kind).encode(), dtype.itemsize, code, 0,
                                                16384 // dtype.itemsize, len(ranked), 3 if symbols else 0)
    index += struct.pack(f"<{len(frequencies)}H", *frequencies) + struct.pack(f"<{len(symbols)}I", *symbols)
    index += struct.pack(f"<{len(ranked)}I", *ranked)
    index += struct.pack("<QIIII", 64, len(bytes_), code, crc32c(bytes_), crc32c(array.tobytes()))
    bytes_ += bytes(-len(bytes_) % 16)
    head = b"\x89PSPK\r\n\x1a" + struct.pack("<IIQQQ16xI", 1, 1, len(values), 64 + len(bytes_), len(index), crc32c(index))
    (folder / name).write_bytes(head + struct.pack("<I", crc32c(head)) + bytes_ + index)
    expect(kind, name, array.tobytes())


random = np.random.default_rng(1)
packed("packed16", "raw.packed", 0, random.integers(0, 65536, 100, dtype="u2"))
packed("packed32", "bits.packed", 1, random.integers(90000, 131072, 600, dtype="u4"))
packed("packed8", "bytes.packed", 2, random.binomial(60, 0.3, 600).astype("u1"))
packed("packedV", "bfloat16.packed", 3, (random.normal(0, 0.02, 900).astype("f4").view("u4") >> 16).astype("u2"), "V")
packed("packedf", "half.packed", 3, random.normal(0, 0.02, 1000).astype("f2"))
packed("packed16", "ranked16.packed", 4, (np.minimum(random.zipf(1.3, 1200), 40000) * 1.5).astype("u2"))
packed("packed32", "ranked32.packed", 4, np.minimum(random.zipf(1.3, 1200), 1048575).astype("u4"))
packed("packed8", "classes8.packed", 5, random.binomial(60, 0.3, 600).astype("u1"))
packed("packed16", "classes16.packed", 5, (np.minimum(random.zipf(1.3, 1200), 40000) * 1.5).astype("u2"))
# What the target takes for a packed safetensors file: a plain header, and the index of its only tensor, which is zeros.
header = b'{"a":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]}}'.ljust(80)
index = b"0".ljust(64, b"\0") + struct.pack("<cBBBIIIQ56x", b"u", 1, 1, 1, 16384, 0, 0, 1024)
index += struct.pack("<QIIII", 128, 16, 1, crc32c(b" " * 16), crc32c(bytes(1024)))
(folder / "tensors.seed").write_bytes(header + b"\n" + index)
(folder / "short.packed").write_bytes((folder / "bytes.packed").read_bytes()[:-1])
refuse("packed8", "short.packed", "short.packed")

# Tar archives of each format.
for form in tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT:
    with tarfile.open(folder / f"{form}.tar", "w", format=form) as tar:
        for name in "a/b.jpg", "a/b.cls", "n" * 90 + "/long.cls", "n" * 120 + "/long\u00e9.PNG":
            member = tarfile.TarInfo(name)
            member.size = 9 if form == tarfile.PAX_FORMAT else 0
            if form != tarfile.USTAR_FORMAT or len(name) < 110:
                tar.addfile(member, io.BytesIO(b"123456789"))

# Pictures, small ones; compare_pictures.py says what must come out of larger ones.
try:
    from PIL import Image
except ImportError:
    print("no pictures, since there is no Pillow (Debian: python3-pil)")
else:
    picture = Image.merge("RGB", [Image.radial_gradient("L").resize((24, 18)).rotate(angle) for angle in (0, 90, 180)])
    for name, options in {"s0": {"subsampling": 0}, "s2": {"subsampling": 2, "restart_marker_blocks": 1}, "progressive": {"progressive": True}}.items():
        picture.save(folder / f"{name}.jpg", **options)
    for mode in "L", "CMYK":
        picture.convert(mode).save(folder / f"{mode}.jpg")
    for mode in "RGB", "L", "RGBA", "LA", "1", "P":
        picture.convert(mode).save(folder / f"{mode}.png")
    for value, kind in (6, "jpg"), (3, "png"):
        said = Image.Exif()
        said[0x112] = value
        picture.save(folder / f"turned.{kind}", exif=said.tobytes())
    (folder / "cut.jpg").write_bytes((folder / "s2.jpg").read_bytes()[:-40])
    # One that is interlaced, which Pillow cannot write.
    suite = Path("/usr/share/go-1.19/src/image/png/testdata/gray-gradient.interlaced.png")
    if suite.exists():
        (folder / "interlaced.png").write_bytes(suite.read_bytes())

(folder / "list").write_text("\n".join(lines) + "\n")
print(f"{len(lines)} files")
