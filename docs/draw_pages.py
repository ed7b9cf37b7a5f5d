#!/usr/bin/env -S python3 -B
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Draws into the pages of docs/blocking_events/ what stands elsewhere: code of the programs, and what was measured.

docs/draw_pages.py [--check]

The block behind the first kind of line, and the text between the others and the next `<!-- end -->`, are drawn:

<!-- code: EVENT LABEL -->   the lines between `// page: LABEL` and `// page: end` in bench/blocking_events/EVENT.cu
<!-- measured: EVENT -->     the newest results of bench/results/h200/ that have the program's events
<!-- symptoms -->            a row for each page: its symptom, and the gain of its cure

With --check nothing is written; the exit code says whether the pages are as they would be drawn.
"""
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from events import Events, ceiling_ms, figure, table  # noqa: E402

PAGES = ROOT / "docs" / "blocking_events"
PROGRAMS = ROOT / "bench" / "blocking_events"
RESULTS = ROOT / "bench" / "results" / "h200"
CODE = re.compile(r"^<!-- code: (\S+) (\S+) -->\n```cpp\n.*?^```$", re.MULTILINE | re.DOTALL)
DRAWN = re.compile(r"^<!-- (measured|symptoms)(?:: (.+?))? -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


class Drawing:
    def __init__(self):
        self.problems: list[str] = []
        # By event, the newest of each kind of run: names begin with the date.
        self.files = {(file.name.split("-event-")[1][:-5]): file for file in sorted(RESULTS.glob("*-event-*.json"))}
        self.events = Events(self.files.values())

    def code(self, event: str, label: str) -> list[str]:
        program = PROGRAMS / f"{event}.cu"
        text = program.read_text(encoding="utf-8") if program.exists() else ""
        found = re.findall(rf"^ *// page: {label}\n(.*?)^ *// page: end$", text, re.MULTILINE | re.DOTALL)
        if len(found) != 1:
            self.problems.append(f"{program.relative_to(ROOT)} has {len(found)} parts named \"{label}\"")
            return []
        return ["```cpp", textwrap.dedent(found[0]).rstrip(), "```"]

    def measured(self, program: str) -> list[str]:
        rows = table(self.events, program)
        if not rows:
            return ["Not measured on an H200 yet: `bench/run events` does."]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "| --- |" + " ---: |" * (len(rows[0]) - 1))
        sources = [file for name, file in sorted(self.files.items()) if name in (program, program + "-watched")]
        links = ", ".join(f"[{'what the GPU did' if file.stem.endswith('-watched') else 'times'}](../../bench/results/h200/{file.name})"
                          for file in sources)
        ceiling = ceiling_ms(self.events, program)
        return [*lines, "", f"NVIDIA H200, {sources[0].name[:10]}: {links}."
                + (f" On the napkin: {figure(ceiling)} ms." if ceiling else "")]

    def best(self, program: str) -> str:
        """Of all ways but those named so since they leave out a part of the work, as a limit."""
        factors = [factor for event in self.events.of(program) for way, factor in self.events.factors(event).items()
                   if not way.endswith("_alone")]
        memory = [way.median("activation_bytes") for way in self.events.ways(program)]
        if not factors:
            return "not measured yet"
        if max(factors) == 1 and all(memory):
            return f"{figure(memory[0] / min(memory))} times less memory"
        return f"{figure(max(factors))} times"

    def symptoms(self) -> list[str]:
        lines = ["| symptom | page | gain of the cure |", "| --- | --- | --- |"]
        for page in sorted(PAGES.glob("[0-9]*.md")):
            text = page.read_text(encoding="utf-8")
            title, symptom = re.match(r"# (.+)", text), re.search(r"^\*\*(.+?)\*\*", text, re.MULTILINE | re.DOTALL)
            if not title or not symptom:
                self.problems.append(f"{page.relative_to(ROOT)} has no title, or no line in bold that says what you see")
                continue
            best = self.best(page.stem)
            seen = " ".join(symptom[1].split()).rstrip(".")
            lines.append(f"| {seen} | [{title[1]}]({page.name}) | {best} |")
        return lines

    def draw(self, text: str) -> str:
        def drawn(block: re.Match) -> str:
            kind, arguments = block[1], (block[2] or "").split()
            head = block[0].split("\n", maxsplit=1)[0]
            return "\n".join([head, *getattr(self, kind)(*arguments), "<!-- end -->"])
        text = CODE.sub(lambda block: "\n".join([block[0].split("\n", maxsplit=1)[0], *self.code(block[1], block[2])]), text)
        return DRAWN.sub(drawn, text)


def main() -> int:
    drawing = Drawing()
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        drawn = drawing.draw(text)
        if drawn != text and "--check" in sys.argv[1:]:
            drawing.problems.append(f"{page.relative_to(ROOT)} is not as it would be drawn: run docs/draw_pages.py")
        elif drawn != text:
            page.write_text(drawn, encoding="utf-8")
    for program in sorted(PROGRAMS.glob("*.cu")):
        if not (PAGES / f"{program.stem}.md").exists():
            drawing.problems.append(f"{program.relative_to(ROOT)} has no page")
    print("\n".join(drawing.problems) or f"{len(list(PAGES.glob('*.md')))} pages are as drawn")
    return bool(drawing.problems)


if __name__ == "__main__":
    sys.exit(main())
