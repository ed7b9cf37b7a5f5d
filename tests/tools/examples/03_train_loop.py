# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 03_train_loop learns as plain Python does, whichever thread comes first."""
from pathlib import Path

from running import noise, run, splitmix


def permutation(size: int, seed: int, epoch: int) -> list[int]:
    """What ps::Permutation is: a network of rounds over a high and a low half."""
    key = splitmix(splitmix(splitmix(seed, 1) ^ epoch, 1) ^ size, 1)
    low_bits = ((size - 1).bit_length() + 1) // 2
    lows, highs = 1 << low_bits, ((size - 1) >> low_bits) + 1
    keys = [(splitmix(key, 1) + i * splitmix(key, 2)) % 2**64 for i in range(6 if size > 2**14 else 24)]

    def of(half: int, round_key: int) -> int:
        x = (half + round_key) * 0x9E3779B97F4A7C15 % 2**64
        return ((x ^ x >> 32) * 0xBF58476D1CE4E5B9 % 2**64) >> 32

    order = []
    for number in range(size):
        while True:
            high, low = divmod(number, lows)
            for i, round_key in enumerate(keys):
                if i % 2 == 0:
                    high = (high + (of(low, round_key) * highs >> 32)) % highs
                else:
                    low = (low + of(high, round_key)) % lows
            number = high * lows + low
            if number < size:
                break
        order.append(number)
    return order


def check(program: str, folder: Path):
    samples = []
    for n in range(0, 131_072 * 5, 5):
        x = [noise(n), noise(n + 1), noise(n + 2), noise(n + 3), 1.0]
        samples.append((x, x[0] - 2 * x[1] + 3 * x[2] + 0.5 * x[3] + 0.25 + 0.1 * noise(n + 4)))
    weights = [0.0] * 5
    losses = []
    for epoch, rate in enumerate((0.5, 0.25)):
        order = permutation(len(samples), 1337, epoch)
        for first in range(0, len(samples), 4096):
            gradient = [0.0] * 5
            loss = 0.0
            for x, y in (samples[i] for i in order[first:first + 4096]):
                error = sum(w * value for w, value in zip(weights, x)) - y
                gradient = [g + error * value for g, value in zip(gradient, x)]
                loss += error * error
            weights = [w - rate * g / 4096 for w, g in zip(weights, gradient)]
            losses.append(loss / 4096)
    for _ in range(3):  # the result must not depend on which thread comes first
        loss, learned, *report = run(program, "--device", "host").splitlines()
        said = [float(word) for word in loss.split() if word[0].isdigit()]
        assert len(said) == 2 and all(abs(a - b) < 2e-4 for a, b in zip(said, [losses[0], losses[-1]])), (loss, losses)
        said = [float(word) for word in learned.split()[1::2]]
        assert len(said) == 5 and all(abs(a - b) < 2e-4 for a, b in zip(said, weights)), (learned, weights)
        assert report and report[0].startswith("262144 records"), report
