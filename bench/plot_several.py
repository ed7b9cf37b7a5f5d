#!/usr/bin/env -S python3 -B
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Draws GB/s over the number of GPUs from a result of `bench/run several`, as an SVG for light and dark backgrounds.

bench/plot_several.py [RESULT [SVG]]
"""
import math
import sys
from pathlib import Path

from several import DATA, Table, worlds
from svg import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, begin, place, rates, style, text, y_of

ROOT = Path(__file__).resolve().parents[1]
ROWS = {"link": "the links alone", "memory_huge": DATA["memory_huge"], "disk": DATA["disk"],
        "tmpfs": DATA["tmpfs"], "weights, ranks": "18_load_weights as ranks"}
WIDEST = 56  # from bar to bar


def scale(rate: float) -> tuple[int, int]:
    """Returns the greatest rate of the axis, and the step: six of them at most."""
    step = next(step for step in (10, 20, 50, 100, 200, 500) if rate <= 6 * step)
    return math.ceil(rate / step) * step, step


def gpus(count: int) -> str:
    return f"{count} GPU" + "s" * (count > 1)


def draw(table: Table) -> str:
    counts = [count for count in worlds(table.gpus) if table.get("link", count)]
    bars = {count: {row: rate for row in ROWS if (rate := table.get(row, count))} for count in counts}
    if not counts:
        sys.exit("plot_several.py: that file has no rates of the links")
    shown = [row for row in ROWS if any(row in bars[count] for count in counts)]
    greatest, step = scale(max(max(of_count.values()) for of_count in bars.values()))
    wide = (WIDTH - LEFT - RIGHT) / len(counts)
    pitch = min(WIDEST, (wide - 14) / len(shown))
    digits = 3 if pitch > 36 else 2  # or the figures touch each other
    kinds = {row: "soft" if row == "link" else f"s{i - 1}" for i, row in enumerate(ROWS)}

    told = "; ".join(f"{gpus(count)}, {ROWS[row]}: {rate:.1f}" for count, of_count in bars.items() for row, rate in of_count.items())
    parts = [*begin(f"Up to {table.gpus} {table.gpu} of one host: GB/s to all of them together", f"GB/s. {told}.",
                    style(".above { font-size: 11px }", [f".s{i} {{ fill: COLOUR }}" for i in range(len(ROWS) - 1)])),
             text(LEFT, HEIGHT - 10, "above the bars: GB/s of the links, and the share of them that the others reach",
                  "start", "soft"), *rates(greatest, step)]
    for i, (count, of_count) in enumerate(bars.items()):
        middle = LEFT + (i + 0.5) * wide
        parts.append(text(middle, HEIGHT - BOTTOM + 20, gpus(count)))
        for j, (row, rate) in enumerate(of_count.items()):
            x, y = middle + (j - len(of_count) / 2) * pitch, y_of(rate, greatest)
            share = table.get(row, count, "of_links") or rate / of_count["link"]
            parts.append(f'<path class="{kinds[row]}" d="M{x + 2:.1f},{HEIGHT - BOTTOM}V{y:.1f}h{pitch - 4:.1f}V{HEIGHT - BOTTOM}z"/>')
            parts.append(text(x + pitch / 2, y - 4, f"{rate:.{digits - 2}f}" if row == "link" else f"{share:.{digits}f}", kind="above"))
    for i, row in enumerate(shown):
        x, y = place(i)
        parts.append(f'<path class="{kinds[row]}" d="M{x},{y - 10}h12v12h-12z"/>')
        parts.append(text(x + 19, y, ROWS[row], "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    # Names begin with the date: the last is the newest.
    known = sorted((ROOT / "bench" / "results" / "h200").glob("*-several.json"))
    result = Path(sys.argv[1]) if len(sys.argv) > 1 else known[-1]
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "several.svg"
    out.write_text(draw(Table(result)), encoding="utf-8")


if __name__ == "__main__":
    main()
