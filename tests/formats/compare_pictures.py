# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compares what decode_pictures makes of JPEG and PNG files with what Pillow does.

compare_pictures.py PROGRAM [FOLDER…]

Without folders, it takes those of Debian's package golang-1.19-src, where that is installed; and in any case files that
Pillow makes now, among them damaged ones. With PENSTOCK_THOROUGH=1, to more sizes, and more damaged ones. 77 without Pillow.
"""
import functools
import io
import itertools
import os
import re
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

try:
    from PIL import Image, ImageChops, ImageOps
except ImportError:
    if sys.executable != "/usr/bin/python3" and Path("/usr/bin/python3").exists():  # Pillow may be the distribution's, and python3 another
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-B", *sys.argv])
    print("there is no Pillow (Debian: python3-pil)")
    sys.exit(77)

warnings.simplefilter("ignore")
THOROUGH = os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")


def make_files(folder: Path) -> None:
    """Writes files that Pillow can write, whole and damaged."""
    state = 1
    noise = bytearray()
    for _ in range(401 * 300 * 3):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        noise.append(state >> 56)
    smooth = Image.radial_gradient("L").resize((401, 300))
    mixed = Image.merge("RGB", (smooth, smooth.rotate(90), Image.frombytes("L", (401, 300), bytes(noise[: 401 * 300]))))
    picture = Image.blend(mixed, Image.frombytes("RGB", (401, 300), bytes(noise)), 0.3)
    jpegs = {}
    for subsampling, progressive in itertools.product((0, 1, 2), (False, True)):
        jpegs[f"s{subsampling}{'p' if progressive else ''}"] = (picture, {"subsampling": subsampling, "progressive": progressive})
    jpegs |= {"grey": (picture.convert("L"), {}), "cmyk": (picture.convert("CMYK"), {}), "restarts": (picture, {"restart_marker_blocks": 5})}
    for size in (1, 1), (1, 9), (9, 1), (7, 5), (17, 1000), (1000, 17):
        jpegs["x".join(map(str, size))] = (picture.resize(size), {"quality": 95})
    for name, (image, options) in jpegs.items():
        image.save(folder / f"{name}.jpg", **options)
    whole = (folder / "s2.jpg").read_bytes()
    damaged = {"half": whole[: len(whole) // 2], "header": whole[:300], "empty": b"", "two": whole[:2],
               "extra": whole[:-2] + bytes(50) + whole[-2:], "text": b"no picture at all"}
    for at in range(700, len(whole) - 1, len(whole) // (40 if THOROUGH else 20)):
        damaged[f"at{at}"] = whole[:at] + bytes([whole[at] ^ 0x5A, 0xFF, 0x00]) + whole[at + 3:]
    start = re.search(b"\xff\xc0..\x08", whole, re.S).end()
    damaged["huge"] = whole[:start] + b"\xff\xff\xff\xff" + whole[start + 4:]
    damaged["flat"] = whole[:start] + b"\x00\x00\x00\x00" + whole[start + 4:]
    damaged["deep"] = whole[:start - 1] + b"\x0c" + whole[start:]
    for name, data in damaged.items():
        (folder / f"damaged_{name}.jpg").write_bytes(data)

    pngs = {"rgb": picture, "grey": picture.convert("L"), "alpha": picture.convert("RGBA"), "palette": picture.quantize(), "bits": picture.convert("1")}
    alpha = picture.convert("RGBA")
    alpha.putalpha(smooth)
    pngs |= {"see_through": alpha, "grey_alpha": alpha.convert("LA"), "few": picture.quantize(3)}
    for name, image in pngs.items():
        image.save(folder / f"{name}.png")
    pngs["palette"].save(folder / "palette_key.png", transparency=3)
    Image.frombytes("I;16", (150, 100), bytes(noise[: 150 * 100 * 2])).save(folder / "grey16.png")
    whole = (folder / "rgb.png").read_bytes()
    damaged = {"half": whole[: len(whole) // 2], "header": whole[:20], "empty": b"", "noend": whole[:-12], "text": b"no picture at all"}
    for at in range(50, len(whole) - 1, len(whole) // 30):
        damaged[f"at{at}"] = whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1:]

    def resized(width: int, height: int) -> bytes:
        header = b"IHDR" + struct.pack(">II", width, height) + whole[24:29]
        return whole[:12] + header + struct.pack(">I", zlib.crc32(header)) + whole[33:]

    damaged |= {"huge": resized(65535, 65535), "larger": resized(1 << 31, 1), "flat": resized(401, 0), "longer": resized(401, 301), "shorter": resized(401, 299)}
    for name, data in damaged.items():
        (folder / f"damaged_{name}.png").write_bytes(data)
    for name, data in other_pngs().items():
        (folder / f"other_{name}.png").write_bytes(data)


def other_pngs() -> dict[str, bytes]:
    """Returns files that the two treat in another way, as docs/images.md lists them: penstock's way, Pillow's, and a name."""
    def chunk(kind: bytes, data: bytes, wrong: int = 0) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) ^ wrong)

    def file(*chunks: bytes) -> bytes:
        return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")

    def header(kind: int, method: int = 0) -> bytes:
        return struct.pack(">IIBBBBB", 4, 4, 8, kind, method, 0, 0)

    rows = b"".join(b"\0" + bytes(range(y, y + 12)) for y in range(4))
    packed = zlib.compress(rows)
    head, pixels, palette = chunk(b"IHDR", header(2)), chunk(b"IDAT", packed), chunk(b"PLTE", bytes(range(12)))
    indexed, indices = chunk(b"IHDR", header(3)), chunk(b"IDAT", zlib.compress((b"\0" + bytes(range(4))) * 4))
    raw = zlib.compressobj(wbits=-15)
    return {
        "noted_taken_no_checksum": file(head, chunk(b"IDAT", packed[:-4])),
        "noted_taken_more_data": file(head, chunk(b"IDAT", packed + b"more")),
        "noted_taken_more_rows": file(head, chunk(b"IDAT", zlib.compress(rows * 2))),
        "noted_taken_cut": file(head, pixels)[:-14],
        "noted_refused_wrong_checksum": file(head, chunk(b"IDAT", packed[:-1] + bytes([packed[-1] ^ 1]))),
        "refused_taken_rows_lack": file(head, chunk(b"IDAT", zlib.compress(rows[:-13]))),
        "refused_taken_wrong_crc": file(head, chunk(b"IDAT", packed, 1)),
        "noted_refused_text": file(head, chunk(b"tEXt", b"a\0b", 1), pixels),
        "noted_taken_text_behind": file(head, pixels, chunk(b"tEXt", b"a\0b", 1)),
        "noted_refused_transparency": file(head, chunk(b"tRNS", bytes(6), 1), pixels),
        "noted_refused_gamma": file(head, chunk(b"gAMA", b"\0\1\2\3", 1), pixels),
        "kept_refused_short": file(head, chunk(b"pHYs", b"x"), pixels),
        "refused_taken_critical": file(head, chunk(b"ABCD", b"x"), pixels),
        "refused_taken_apple_chunk": file(chunk(b"CgBI", b"four"), head, pixels),
        "refused_refused_apple": file(chunk(b"CgBI", b"four"), head, chunk(b"IDAT", raw.compress(rows) + raw.flush())),
        "refused_taken_no_palette": file(indexed, indices),
        "refused_taken_late_palette": file(indexed, indices, palette),
        "refused_taken_empty_palette": file(indexed, chunk(b"PLTE", b""), indices),
        "refused_taken_two_palettes": file(indexed, palette, palette, indices),
        "refused_taken_odd_palette": file(indexed, chunk(b"PLTE", bytes(13)), indices),
        "refused_taken_two_headers": file(head, head, pixels),
        "refused_taken_long_header": file(chunk(b"IHDR", header(2) + b"x"), pixels),
        "refused_taken_method": file(chunk(b"IHDR", header(2, 1)), pixels),
    }


def exif(order: str, entries: list[tuple[int, int, int, int]], said: int | None = None) -> bytes:
    """Returns EXIF data with these entries: tag, type (3: 16 bits, 4: 32 bits), count and value."""
    data = (b"II" if order == "<" else b"MM") + struct.pack(order + "HIH", 42, 8, len(entries) if said is None else said)
    for tag, kind, count, value in entries:
        data += struct.pack(order + "HHI", tag, kind, count) + struct.pack(order + ("HH" if kind == 3 else "I"), *((value, 0) if kind == 3 else (value,)))
    return data + bytes(4)


def make_oriented(folder: Path) -> None:
    """Writes pictures whose EXIF data say how they are to be turned, or something odd."""
    colours = Image.merge("RGB", [Image.radial_gradient("L").resize((80, 80)).crop((x, y, x + 61, y + 37)) for x, y in ((0, 0), (19, 3), (7, 43))])
    odd = {"none": b"", "text": b"no EXIF data at all", "short": exif("<", [])[:9], "cut": exif(">", [(0x112, 3, 1, 6)])[:19],
           "far": b"MM\0*\xff\xff\xff\xf0", "behind": b"II*\0\x09\0\0\0\x01", "bytes": exif("<", [(0x112, 1, 1, 6)]), "tag": exif("<", [(0x113, 3, 1, 6)])}
    said = {"absent": exif("<", [(0x100, 3, 1, 6)]), "twice": exif(">", [(0x112, 3, 1, 8), (0x112, 3, 1, 6)]), "many": exif("<", [(0x10f, 3, 1, 9), (0x112, 3, 1, 5), (0x213, 3, 1, 3)]),
            "more": exif(">", [(0x112, 3, 1, 7)], 60000), "32": exif("<", [(0x112, 4, 1, 6)]), "large": exif(">", [(0x112, 4, 1, 65542)])}
    for order, name in ("<", "II"), (">", "MM"):
        said |= {f"{name}{value}": exif(order, [(0x112, 3, 1, value)]) for value in range(10)}
    for kind, image, options in [("", colours, {}), ("progressive_", colours, {"progressive": True}), ("grey_", colours.convert("L"), {}), ("cmyk_", colours.convert("CMYK"), {})]:
        made = io.BytesIO()
        image.save(made, "JPEG", quality=95, **options)
        whole = made.getvalue()
        segment = lambda number, data: bytes([0xff, number]) + struct.pack(">H", len(data) + 2) + data
        for name, data in (said | odd).items():
            (folder / f"{kind}{name}.jpg").write_bytes(whole[:2] + segment(0xe1, b"Exif\0\0" + data) + whole[2:])
        six, eight, xmp = (segment(0xe1, data) for data in (b"Exif\0\0" + said["MM6"], b"Exif\0\0" + said["II8"], b"http://ns.adobe.com/xap/1.0/\0<x/>"))
        for name, before in {"xmp_before": xmp + six, "xmp_behind": six + xmp, "two": eight + six, "others": segment(0xfe, b"text") + segment(0xe2, b"ICC_PROFILE\0\1\1x") + six, "fill": b"\xff\xff" + eight}.items():
            (folder / f"{kind}{name}.jpg").write_bytes(whole[:2] + before + whole[2:])
        (folder / f"{kind}late.jpg").write_bytes(whole[: (at := whole.index(b"\xff\xda"))] + six + whole[at:])
        (folder / f"{kind}in_scan.jpg").write_bytes(whole[:-2] + six + whole[-2:])
    for kind, image in ("", colours), ("grey_", colours.convert("L")), ("palette_", colours.quantize()), ("alpha_", colours.convert("RGBA")):
        made = io.BytesIO()
        image.save(made, "PNG")
        whole = made.getvalue()
        for name, data in (said | odd).items():
            chunk = struct.pack(">I", len(data)) + b"eXIf" + data + struct.pack(">I", zlib.crc32(b"eXIf" + data))
            (folder / f"{kind}{name}.png").write_bytes(whole[:33] + chunk + whole[33:])
            (folder / f"{kind}{name}_behind.png").write_bytes(whole[:-12] + chunk + whole[-12:])


def decoded(program: str, channels: int, size: tuple[int, int], crop: str, files: list[Path]) -> tuple[dict, dict, dict]:
    """Returns the pixels, notes and refusals by the files' numbers."""
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as four:  # at once, and not through pipes of 64 KiB
        running = [subprocess.Popen([program, str(channels), str(size[1]), str(size[0]), crop, workers, *map(str, files)], stdout=into)
                   for workers, into in (("1", one), ("4", four))]
        for process in running:
            assert process.wait() == 0, process.args  # with a timeout, Python sleeps and looks again
        outputs = []
        for file in one, four:
            file.seek(0)
            outputs.append(file.read())
    stream = io.BytesIO(outputs[0])
    pixels, notes, refused = {}, {}, {}
    while (number := struct.unpack("<i", stream.read(4))[0]) >= 0:
        pixels[number] = stream.read(channels * size[0] * size[1])
    end = stream.tell()
    lines = stream.read().decode().splitlines()
    assert memoryview(outputs[1])[:end] == memoryview(outputs[0])[:end], "four workers make other pictures than one"
    assert sorted(outputs[1][end:].decode().splitlines()) == sorted(lines), "four workers refuse others than one"
    for line in lines:
        kind, number, said = re.fullmatch(r"(noted|left out) (\d+) (.*)", line).groups()
        (notes if kind == "noted" else refused)[int(number)] = said
    return pixels, notes, refused


@functools.cache
def by_pillow(path: Path, channels: int, upright: bool) -> Image.Image | None:
    """Returns the picture, or None if Pillow refuses it."""
    try:
        image = Image.open(path)
        if channels == 1 and image.format == "JPEG" and image.mode != "CMYK":
            image.draft("L", image.size)  # the luma that the file has; not what RGB makes of it
        image.load()
    except Exception:
        return None
    if upright:
        try:
            image = ImageOps.exif_transpose(image)
        except SyntaxError:  # for what is no EXIF data
            pass
    if image.mode.startswith("I"):  # convert() would cut 16 bits off at 255
        image = Image.frombytes("L", image.size, bytes(value >> 8 for value in image.getdata()))
    image = image.convert("RGB")
    return image.convert("L") if channels == 1 else image


def part_of(image: Image.Image, size: tuple[int, int], crop: str) -> Image.Image:
    width, height = image.size
    if crop.startswith("centre"):
        ratio = size[0] / size[1]
        w, h = (height * ratio, height) if width > height * ratio else (width, width / ratio)
        w, h = max(1, min(width, round(w))), max(1, min(height, round(h)))
        left, top = (width - w) // 2, (height - h) // 2
        image = image.crop((left, top, left + w, top + h))
    return image.resize(size, Image.BILINEAR)


def difference(got: bytes, expected: bytes) -> int:
    """Returns the largest of two bytes in the same place: loops of Python's own would take most of the test's time."""
    a, b = (Image.frombytes("L", (len(expected), 1), pixels) for pixels in (got, expected))
    return ImageChops.difference(a, b).getextrema()[1]


def main(program: str, folders: list[str]) -> int:
    with tempfile.TemporaryDirectory() as made:
        make_files(Path(made))
        go = next(iter(sorted(Path("/usr/share").glob("go-*/src/image"))), Path("none"))
        given = [*(map(Path, folders) if folders else (go / "testdata", go / "png/testdata", go / "png/testdata/pngsuite")), Path(made)]
        oriented = Path(made) / "oriented"
        oriented.mkdir()
        make_oriented(oriented)
        wrong = compared = 0
        most = kept = refused_here = 0
        for endings in (".jpg", ".jpeg"), (".png",):
            all_files = sorted(path for folder in given if folder.is_dir() for path in folder.iterdir() if path.suffix in endings)
            assert all_files
            turned = sorted(path for path in oriented.iterdir() if path.suffix in endings)
            large = [(3, (150, 103), "none"), (1, (401, 300), "none"), (1, (224, 224), "centre"), (3, (1000, 800), "none")]
            for channels, size, crop in [(3, (61, 37), "none upright"), (3, (37, 61), "none upright"), (1, (20, 30), "none upright"), (3, (24, 24), "centre upright"),
                                         (3, (30, 12), "centre upright"), (1, (12, 30), "centre upright"), (3, (61, 37), "none"),
                                         (3, (401, 300), "none"), (3, (224, 224), "centre"), (3, (32, 32), "centre"), (3, (7, 61), "none"),
                                         (3, (640, 100), "centre"), (3, (1, 1), "none"), *(large if THOROUGH else [])]:
                files = turned if size in ((61, 37), (37, 61)) or "upright" in crop else all_files
                pixels, notes, refused = decoded(program, channels, size, crop, files)
                assert sorted([*pixels, *refused]) == list(range(len(files))), "each is kept or left out"
                kept, refused_here = len(notes), len(refused)
                for number, path in enumerate(files):
                    image = by_pillow(path, channels, "upright" in crop)
                    ways = ("refused" if number in refused else "noted" if number in notes else "kept", "refused" if image is None else "taken")
                    if path.name.startswith("other_"):
                        if tuple(path.name.split("_")[1:3]) != ways:
                            print(f"{path.name}: {' here, and by Pillow '.join(ways)}")
                            wrong += 1
                        if "refused" in ways:
                            continue
                    if number in refused:
                        if image is not None and not path.name.startswith(("damaged_", "invalid-")):
                            print(f"{path.name}: left out, and Pillow takes it: {refused[number]}")
                            wrong += 1
                        continue
                    if image is None:  # kept in part: only with a note
                        if number not in notes:
                            print(f"{path.name}: kept without a note, and Pillow refuses it")
                            wrong += 1
                        continue
                    if path.name == "invalid-palette.png":
                        continue  # a colour beyond the palette is any colour
                    expected = b"".join(band.tobytes() for band in part_of(image, size, crop).split())
                    apart = difference(pixels[number], expected)
                    compared += 1
                    most = max(most, apart)
                    if apart > (0 if image.size == size else 1):
                        print(f"{path.name}: {channels} channels, {size}, {crop}: {apart} of 255 apart")
                        wrong += 1
            print(f"{endings[-1]}: {len(all_files)} files and {len(turned)} with EXIF data, {kept} noted, {refused_here} left out")
        print(f"{compared} pictures compared, at most {most} of 255 apart, {wrong} wrong")
        return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
