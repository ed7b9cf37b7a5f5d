# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Files of known formats, made without the libraries that others make them with."""
import base64
import io
import json
import struct
import tarfile
import zlib


# 16 pixels wide and 12 high: the left half is red, the right one blue.
RED_AND_BLUE = base64.b85decode(
    "|JeWF01!$>Nk#wx0RR9200961|JwjV00RO70|EjA0|NsD0|NvF2n7WM1O*BQ2L=cX3JeSj3JVJj4iXRz4iOFu3lJ6%5fc;@6%`B*7Z?^47!ni}6#v@*LjeN>"
    "1O)^I2?YfS6b%av6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6cqo!01*fP3;+-V0TBQK5di}c0sq7R6aWDL0000000000"
    "00000000O7!~hf!0RR910000000000000000RO}Q6#)SO000000000000000000RG|HJ?k5di=I0000000000000000095m01N{G00I#M5dc2`1Vst}9My="
    "Uz*H`vb5<gs|Je")

GREY_PIXELS = bytes([0, 50, 100, 150, 200, 250])  # 3 pixels wide and 2 high


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


GREY_PNG = (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 0, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(b"\0" + GREY_PIXELS[:3] + b"\0" + GREY_PIXELS[3:])) + png_chunk(b"IEND", b""))


def tar_file(members: dict[str, bytes]) -> bytes:
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return to.getvalue()


def safetensors_file(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """A twin of the format's own writer: PyPI's safetensors writes these bytes, but for the order of the tensors."""
    header: dict = {"__metadata__": metadata} if metadata is not None else {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def packed_safetensors_file(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A twin of pack_safetensors(), after docs/packed.md, which packs nothing: all chunks are raw."""
    plain = safetensors_file(tensors)
    text = plain[8:8 + struct.unpack("<Q", plain[:8])[0]].decode()
    kinds = {"BF16": (b"V", 2), "F32": (b"f", 4), "U8": (b"u", 1)}
    padded = [data + bytes(-len(data) % 256) for _, _, data in tensors.values()]

    def header(index_bytes: int) -> bytes:
        made: dict = {"__metadata__": {"penstock.packed": f"{len(plain)} {text}"}}
        at = 0
        for name, size in [*zip(tensors, map(len, padded)), (f"penstock.packed.{crc32c(text.encode())}", 64 + index_bytes)]:
            made[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
            at += size
        written = json.dumps(made).encode()
        return written + b" " * (-len(written) % 16 + 8)

    columns, chunks = b"", b""
    for round_ in 1, 2:  # when the index's size is known, it is known where chunks lie
        at = 8 + len(header(len(columns + chunks)))
        columns, chunks = b"", b""
        for (dtype, _, data), filled in zip(tensors.values(), padded):
            kind, size = kinds[dtype]
            if data:
                columns += str(len(columns) // 144).encode().ljust(64, b"\0")
                columns += struct.pack("<cBBBIIIQ56x", kind, size, 0, 1, 16384 // size, 0, 0, len(filled) // size)
            for begin in range(0, len(filled), 16384):
                chunk = filled[begin:begin + 16384]
                chunks += struct.pack("<QIIII", at, len(chunk), 0, crc32c(chunk), crc32c(chunk))
                at += len(chunk)
    index = columns + chunks
    head = b"\x89PSPK\r\n\x1a" + struct.pack("<IIQQQ16xI", 1, len(columns) // 144, 1, at + 64, len(index), crc32c(index))
    outer = header(len(index))
    return struct.pack("<Q", len(outer)) + outer + b"".join(padded) + head + struct.pack("<I", crc32c(head)) + index


def crc32c(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def npy_file(dtype: str, shape: tuple, data: bytes) -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + data


def tfrecord(data: bytes) -> bytes:
    """A record of a TFRecord file: its length, the data, and the masked checksum of each."""
    def masked(of: bytes) -> bytes:
        crc = crc32c(of)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)
