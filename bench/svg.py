# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What plot.py and plot_several.py share: an SVG of rates in GB/s, for light and dark backgrounds."""

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 92, 56
# The colour of each series, on light and on dark.
COLOURS = [("#1d4ed8", "#6ea8fe"), ("#0f766e", "#2dd4bf"), ("#b45309", "#fbbf24"), ("#7e22ce", "#c4a1ff"),
           ("#be123c", "#fb7185")]


def text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_kind}>{words}</text>'


def style(rules: str, series: list[str]) -> str:
    """Returns the style, without CSS variables, which not every viewer knows.

    rules are of this picture alone. series has the rules of each series, with COLOUR where its colour belongs.
    """
    def colours(ink: str, soft: str, grid: str, column: int) -> str:
        lines = "".join("\n  " + rule.replace("COLOUR", colour[column]) for rule, colour in zip(series, COLOURS))
        return (f"  text {{ fill: {ink} }} .soft {{ fill: {soft} }} .grid {{ stroke: {grid} }} "
                f".link {{ stroke: {soft} }}{lines}")
    return f"""<style>
  text {{ font: 13px system-ui, sans-serif }} .title {{ font-size: 15px; font-weight: 600 }}
  {rules}
{colours("#1f2328", "#59636e", "#d1d9e0", 0)}
  @media (prefers-color-scheme: dark) {{
{colours("#f0f6fc", "#9198a1", "#3d444d", 1)}
  }}
</style>"""


def y_of(rate: float, greatest: float) -> float:
    return HEIGHT - BOTTOM - rate / greatest * (HEIGHT - TOP - BOTTOM)


def place(entry: int) -> tuple[int, int]:
    """Returns where an entry of the legend begins: three stand in a row."""
    return LEFT + entry % 3 * 225, 48 + entry // 3 * 22


def begin(title: str, told: str, styled: str) -> list[str]:
    """Returns the head of a picture. told says to those who do not see it what it shows."""
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-labelledby="title desc">',
            f'<title id="title">{title}</title>', f'<desc id="desc">{told}</desc>', styled,
            text(LEFT, 24, title, "start", "title")]


def rates(greatest: int, step: int) -> list[str]:
    """Returns the axis of GB/s, and a line across the picture at each step."""
    parts = [text(LEFT - 8, TOP - 10, "GB/s", "end", "soft")]
    for rate in range(0, greatest + 1, step):
        y = y_of(rate, greatest)
        parts.append(f'<path class="grid" d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(text(LEFT - 8, y + 4, str(rate), "end", "soft"))
    return parts
