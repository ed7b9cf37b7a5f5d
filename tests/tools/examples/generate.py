# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether generate continues a prompt, the same for the same seed."""
import random
import struct
from pathlib import Path

from running import check_full, refused, run


def check(program: str, folder: Path):
    rng = random.Random(8)
    context, vocabulary, padded, layers, heads, width = 8, 100, 128, 2, 2, 16
    count = (padded + context) * width + layers * (12 * width * width + 13 * width) + 2 * width
    model = folder / "model"
    model.write_bytes(struct.pack("<8i", 20240326, 3, context, vocabulary, layers, heads, width, padded).ljust(1024, b"\0") +
                      struct.pack(f"<{count}f", *(rng.gauss(0, 0.5) for _ in range(count))))

    def written(*args) -> list[int]:
        return [int(word) for word in run(program, "--checkpoint", model, "--device", "host", "--tokens", "30", *args).split()]

    some = written("--prompt", "3, 99 0")
    assert some[:3] == [3, 99, 0] and len(some) == 33 and all(0 <= token < vocabulary for token in some), some
    assert some == written("--prompt", "3, 99 0") != written("--prompt", "3, 99 0", "--seed", "2")
    assert written("--temperature", "0") == written("--top-k", "1", "--seed", "3"), "the likeliest"
    assert len(written()) == 30 and len(set(written())) > 5, written()
    assert "--temperature X" in run(program, "--help")
    short = folder / "short"
    short.write_bytes(model.read_bytes()[:-4])
    for word, args in {"--checkpoint": [], "missing": ["--checkpoint", folder / "missing"], "it ends there": ["--checkpoint", short],
                       "from 0 to 99": ["--checkpoint", model, "--prompt", "100"]}.items():
        refused(program, "--device", "host", *args, says=[word], by="generate: ")
    check_full(program, "--checkpoint", model, "--device", "host", "--tokens", "30")
