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

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"16KiB": 16 << 10, "64KiB": 64 << 10, "256KiB": 256 << 10, "1MiB": 1 << 20, "37.6MB": 38_535_168,
         "256MB": 256_000_000}
# Name, pattern of the results, colour on light and on dark, shape of the points.
LINES = [
    ("penstock", "feed/run/{size}", "#1d4ed8", "#6ea8fe", "circle"),
    ("penstock, replayed", "feed/replayed/{size}", "#0f766e", "#2dd4bf", "square"),
    ("by hand, three grains", "feed/three_grains*/{size}", "#b45309", "#fbbf24", "up"),
    ("by hand, one grain", "feed/one_grain_*/{size}", "#7e22ce", "#c4a1ff", "diamond"),
    ("PyTorch DataLoader", "loader/*_light/{size}", "#be123c", "#fb7185", "cross"),
]
WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 92, 56
GREATEST = 60  # GB/s


def x_of(size: int) -> float:
    low, high = math.log(min(SIZES.values())), math.log(max(SIZES.values()))
    return LEFT + 16 + (math.log(size) - low) / (high - low) * (WIDTH - LEFT - RIGHT - 32)


def y_of(rate: float) -> float:
    return HEIGHT - BOTTOM - rate / GREATEST * (HEIGHT - TOP - BOTTOM)


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


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_kind}>{words}</text>'


def style() -> str:
    """Returns the style, without CSS variables, which not every viewer knows."""
    def colours(ink: str, soft: str, grid: str, column: int) -> str:
        lines = "".join(f"\n  .s{i} .line {{ stroke: {line[column]} }} .s{i} .points {{ fill: {line[column]}; "
                        f"stroke: {line[column]} }}" for i, line in enumerate(LINES))
        return (f"  text {{ fill: {ink} }} .soft {{ fill: {soft} }} .grid {{ stroke: {grid} }} "
                f".link {{ stroke: {soft} }}{lines}")
    return f"""<style>
  text {{ font: 13px system-ui, sans-serif }} .title {{ font-size: 15px; font-weight: 600 }}
  .link {{ stroke-width: 1.5; stroke-dasharray: 6 4 }}
  .line {{ fill: none; stroke-width: 2.2 }} .points {{ stroke-width: 1.5 }}
{colours("#1f2328", "#59636e", "#d1d9e0", 2)}
  @media (prefers-color-scheme: dark) {{
{colours("#f0f6fc", "#9198a1", "#3d444d", 3)}
  }}
</style>"""


def draw(results: Results) -> str:
    link = results.median("feed/link/256MiB")
    if link is None:
        sys.exit("plot.py: there are no results of feed_bench in that folder")
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             'aria-label="GB/s from a file in the page cache to a light kernel on the GPU, over the size of a batch">',
             style(),
             text(LEFT, 24, "A file in the page cache to a light kernel on the GPU", "start", "title"),
             text(LEFT, HEIGHT - 10, "bytes a batch", "start", "soft"), text(LEFT - 8, TOP - 10, "GB/s", "end", "soft")]
    for rate in range(0, GREATEST + 1, 10):
        parts.append(f'<path class="grid" d="M{LEFT},{y_of(rate):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(text(LEFT - 8, y_of(rate) + 4, str(rate), "end", "soft"))
    for name, size in SIZES.items():
        parts.append(text(x_of(size), HEIGHT - BOTTOM + 20, name, kind="soft"))
    parts.append(f'<path class="link" d="M{LEFT},{y_of(link / 1e9):.1f}H{WIDTH - RIGHT}"/>')

    entries = [("link", f"the link, {link / 1e9:.1f} GB/s", None)]
    for i, (name, pattern, _, _, shape) in enumerate(LINES):
        found = [(x_of(size), y_of(rate / 1e9)) for label, size in SIZES.items()
                 if (rate := results.best(pattern.format(size=label))) is not None]
        if not found:
            continue
        entries.append((f"s{i}", name, shape))
        way = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in found)
        parts.append(f'<g class="s{i}"><path class="line" d="{way}"/><g class="points">'
                     + "".join(point(shape, x, y) for x, y in found) + "</g></g>")
    for i, (kind, name, shape) in enumerate(entries):
        x, y = LEFT + i % 3 * 225, 48 + i // 3 * 22
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
