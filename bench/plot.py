#!/usr/bin/env -S python3 -B
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Draws GB/s over batch size from the results of feed_bench and loader.py, as an SVG for light and dark backgrounds.

bench/plot.py [FOLDER [SVG]]
"""
import math
import sys
from pathlib import Path

from bars import Results
from svg import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, begin, place, rates, style, text, y_of

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"16KiB": 16 << 10, "64KiB": 64 << 10, "256KiB": 256 << 10, "1MiB": 1 << 20, "37.6MB": 38_535_168,
         "256MB": 256_000_000}
# Name, pattern of the results, shape of the points.
LINES = [
    ("penstock", "feed/run/{size}", "circle"),
    ("penstock, replayed", "feed/replayed/{size}", "square"),
    ("by hand, three grains", "feed/three_grains*/{size}", "up"),
    ("by hand, one grain", "feed/one_grain_*/{size}", "diamond"),
    ("PyTorch DataLoader", "loader/*_light/{size}", "cross"),
]
GREATEST = 60  # GB/s
RULES = """.link { stroke-width: 1.5; stroke-dasharray: 6 4 }
  .line { fill: none; stroke-width: 2.2 } .points { stroke-width: 1.5 }"""


def x_of(size: int) -> float:
    low, high = math.log(min(SIZES.values())), math.log(max(SIZES.values()))
    return LEFT + 16 + (math.log(size) - low) / (high - low) * (WIDTH - LEFT - RIGHT - 32)


def point(shape: str, x: float, y: float) -> str:
    r = 5
    paths = {
        "square": f"M{x - r + 1:.1f},{y - r + 1:.1f}h{2 * r - 2}v{2 * r - 2}h{2 - 2 * r}z",
        "up": f"M{x:.1f},{y - r - 1:.1f}l{r + 1},{2 * r}h{-2 * r - 2}z",
        "diamond": f"M{x:.1f},{y - r - 1:.1f}l{r + 1},{r + 1}l{-r - 1},{r + 1}l{-r - 1},{-r - 1}z",
        "cross": f"M{x - r:.1f},{y - r:.1f}l{2 * r},{2 * r}m0,{-2 * r}l{-2 * r},{2 * r}",
    }
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    return f'<path d="{paths[shape]}"/>'


def draw(results: Results) -> str:
    link = results.median("feed/link/256MiB")
    if link is None:
        sys.exit("plot.py: there are no results of feed_bench in that folder")
    series = [f".s{i} .line {{ stroke: COLOUR }} .s{i} .points {{ fill: COLOUR; stroke: COLOUR }}" for i in range(len(LINES))]
    parts = [*begin("A file in the page cache to a light kernel on the GPU", "GB/s over the size of a batch.",
                    style(RULES, series)),
             text(LEFT, HEIGHT - 10, "bytes a batch", "start", "soft"), *rates(GREATEST, 10)]
    for name, size in SIZES.items():
        parts.append(text(x_of(size), HEIGHT - BOTTOM + 20, name, kind="soft"))
    parts.append(f'<path class="link" d="M{LEFT},{y_of(link / 1e9, GREATEST):.1f}H{WIDTH - RIGHT}"/>')

    entries = [("link", f"the link, {link / 1e9:.1f} GB/s", None)]
    for i, (name, pattern, shape) in enumerate(LINES):
        found = [(x_of(size), y_of(rate / 1e9, GREATEST)) for label, size in SIZES.items()
                 if (rate := results.best(pattern.format(size=label))) is not None]
        if not found:
            continue
        entries.append((f"s{i}", name, shape))
        way = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in found)
        parts.append(f'<g class="s{i}"><path class="line" d="{way}"/><g class="points">'
                     + "".join(point(shape, x, y) for x, y in found) + "</g></g>")
    for i, (kind, name, shape) in enumerate(entries):
        x, y = place(i)
        if shape is None:
            parts.append(f'<path class="{kind}" d="M{x},{y - 4}h26"/>')
        else:
            parts.append(f'<g class="{kind}"><path class="line" d="M{x},{y - 4}h26"/><g class="points">'
                         f"{point(shape, x + 13, y - 4)}</g></g>")
        parts.append(text(x + 33, y, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "bench" / "results" / "h200"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "feed.svg"
    # Files of later days come last, and replace the results of earlier ones.
    out.write_text(draw(Results(sorted(folder.glob("*.json")))), encoding="utf-8")


if __name__ == "__main__":
    main()
