# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's filter for the pages: writes one with its links as Doxygen knows them.

for_doxygen.py PAGE.md
"""
import re
import sys
from pathlib import Path


def anchor(heading: str) -> str:
    """What the heading's address ends in where Markdown is shown as a page."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(text: str) -> list[str]:
    """Without what looks like one in a block of code."""
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


def label(page: Path) -> str:
    """What Doxygen knows a page by: a letter comes first."""
    return f"page_{page.stem}" if page.stem[0].isdigit() else page.stem


def with_references(page: Path) -> str:
    def reference(link: re.Match) -> str:
        text, target = link.groups()
        if "://" in target:
            return link[0]
        path, _, section = target.partition("#")
        name = label(Path(path)) if path else label(page)
        if path and (not path.endswith(".md") or "examples/" in path):
            return text  # a file that is no page of the reference
        return f"[{text}](@ref {name}{'-' + section if section else ''})"

    parts = re.split(r"(^```.*?^```$)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", reference, parts[i])
        parts[i] = re.sub(r"^(##+ )(.+)$", lambda m: f"{m[0]} {{#{label(page)}-{anchor(m[2])}}}", parts[i], flags=re.MULTILINE)
        if i == 0 and page.stem != "README":
            parts[i] = re.sub(r"\A(# .+)$", rf"\1 {{#{label(page)}}}", parts[i], flags=re.MULTILINE)
    return "".join(parts)


if __name__ == "__main__":
    print(with_references(Path(sys.argv[1])), end="")
