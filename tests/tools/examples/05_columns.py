# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 05_columns finds the brightness of pictures that are made here."""
import random
import struct
from collections import Counter
from pathlib import Path

from running import records_in_words, refused, run


def check(program: str, folder: Path):
    rng = random.Random(3)
    images, labels = folder / "images", folder / "labels"
    half = struct.unpack("<256e", struct.pack("<256e", *(value / 255 for value in range(256))))
    for count in 9_000, 1:
        pixels = rng.randbytes(784 * count)
        of = rng.choices(range(10), k=count)
        images.write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + pixels)
        labels.write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(of))
        number, total = Counter(of), Counter()
        for i, label in enumerate(of):
            total[label] += sum(map(half.__getitem__, pixels[784 * i:784 * (i + 1)]))
        head, *rows = run(program, "--device", "host", images, labels).splitlines()
        assert head.split() == ["label", "images", "brightness"], head
        for label, row in enumerate(rows[:10]):
            mean = total[label] / 784 / number[label] if number[label] else 0
            found = [float(word) for word in row.split()]
            assert found[:2] == [label, number[label]] and abs(found[2] - mean) < 1e-5, (row, label, number[label], mean)
        assert rows[10].startswith(records_in_words(count)), rows[10]
    with labels.open("ab") as file:
        file.write(b"\0")
    refused(program, "--device", "host", images, labels, says=["records"])
