#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the events in blocking_events/, from result files: a row for each way, the first of which blocks the GPU.

A program's event has the program's name; several events, named PROGRAM-PART, share one table.

bench/events.py [FOLDER]
"""
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results" / "h200"


@dataclass
class Way:
    name: str
    order: int
    values: dict[str, list[float]] = field(default_factory=dict)  # by counter, one for each repetition

    def median(self, counter: str) -> float | None:
        values = self.values.get(counter)
        return statistics.median(values) if values else None


# Every repetition has these, whatever it counts.
NO_COUNTERS = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
               "threads", "iterations", "time_unit", "label", "error_occurred", "error_message", "cpu_time", "aggregate_name",
               "aggregate_unit"}


class Events:
    """The ways of each event, from events/EVENT/WAY and watched/EVENT/WAY; a later file replaces earlier ones."""

    def __init__(self, files: Iterable[Path]):
        self.found: dict[str, dict[str, dict[str, Way]]] = {}  # by event, kind of run, and way
        for file in files:
            self.read(file)

    def read(self, file: Path):
        new: dict[tuple[str, str], dict[str, Way]] = {}
        for row in json.loads(file.read_text(encoding="utf-8"))["benchmarks"]:
            kind, _, rest = row["name"].partition("/")
            if kind not in ("events", "watched") or row.get("run_type") != "iteration" or row.get("error_occurred"):
                continue
            event, name = rest.split("/")[:2]
            ways = new.setdefault((event, kind), {})
            way = ways.setdefault(name, Way(name, row["family_index"]))
            for counter in row.keys() - NO_COUNTERS:
                way.values.setdefault(counter, []).append(row[counter])
        for (event, kind), ways in new.items():
            self.found.setdefault(event, {})[kind] = ways

    def ways(self, event: str) -> list[Way]:
        """Returns the ways in the program's order, with the counters of both runs."""
        runs = self.found.get(event, {})
        ways = sorted(runs.get("events", {}).values(), key=lambda way: way.order)
        return [Way(way.name, way.order,
                    {counter: values for run in ("watched", "events") if way.name in runs.get(run, {})
                     for counter, values in runs[run][way.name].values.items()}) for way in ways]

    def of(self, program: str) -> list[str]:
        """Returns the program's events, in its order."""
        found = [event for event in self.found if event.split("-")[0] == program]
        return sorted(found, key=lambda event: [way.order for way in self.ways(event)])

    def factors(self, event: str) -> dict[str, float]:
        """Returns how many times as fast each way is as the first."""
        rates = {way.name: way.median("items_per_second") for way in self.ways(event)}
        first = next(iter(rates.values()), None)
        return {name: rate / first for name, rate in rates.items() if rate and first}


def figure(value: float) -> str:
    """Writes three digits, or all before the point."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def per_cent(value: float) -> str:
    return f"{100 * max(value, 0):.0f} %" if value > 0.1 else f"{100 * max(value, 0):.1f} %"


def megabytes(value: float) -> str:
    return figure(value / 1e6) if value >= 1e4 or value == 0 else "< 0.01"


TENSOR_PEAK = 989.5e12  # of an H200 with bf16, as in blocking_events/numbers.cuh

COLUMNS: list[tuple[str, str, Callable[[float], str]]] = [
    ("ms", "real_time", figure),
    ("times as fast", "factor", figure),
    ("GPU idle", "idle", per_cent),
    ("kernels busy", "kernels_busy", per_cent),
    ("syncs", "syncs", figure),
    ("allocations", "allocations", figure),
    ("launches", "launches", figure),
    ("copies", "copies", figure),
    ("MB to the GPU", "bytes_to_device", megabytes),
    ("MB back", "bytes_to_host", megabytes),
    # Only some events have these.
    ("kernels", "kernels", figure),
    ("in copy calls", "in_calls", per_cent),
    ("peak of host memory, times the data", "peak", figure),
    ("memory, TB/s", "memory_bytes_per_second", lambda value: figure(value / 1e12)),
    ("TFLOP/s", "flops", lambda value: figure(value / 1e12)),
    ("of the tensor cores' peak", "flops", lambda value: per_cent(value / TENSOR_PEAK)),
    ("MB of activations", "activation_bytes", megabytes),
    ("MB of the GPU", "gpu_bytes", megabytes),
    ("at least, ms", "part_ceiling_ms", figure),
]


def table(events: Events, program: str) -> list[list[str]]:
    """Writes a head and a row for each way; nothing if there are no results."""
    rows = []
    for event in events.of(program):
        factors = events.factors(event)
        part = event.removeprefix(program).removeprefix("-")
        for way in events.ways(event):
            if way.name in factors:
                way.values["factor"] = [factors[way.name]]
            if part:
                way.name = f"{part} {way.name}"
                way.values["part_ceiling_ms"] = way.values.get("ceiling_ms", [])
            rows.append(way)
    # If each launch is of one kernel, their numbers are equal.
    if all(way.median("kernels") == way.median("launches") for way in rows):
        for way in rows:
            way.values.pop("kernels", None)
    columns = [(head, counter, show) for head, counter, show in COLUMNS if any(counter in way.values for way in rows)]
    shown = [[way.name, *("" if way.median(counter) is None else show(way.median(counter)) for _, counter, show in columns)]
             for way in rows]
    return [["", *(head for head, _, _ in columns)], *shown] if shown else []


def ceiling_ms(events: Events, program: str) -> float | None:
    """Returns the ceiling of a program with one event."""
    known = [way.median("ceiling_ms") for way in events.ways(program)]
    return known[0] if known else None


def print_events(events: Events, out=sys.stdout):
    for program in sorted({event.split("-")[0] for event in events.found}):
        ceiling = ceiling_ms(events, program)
        print(f"\n{program}" + (f", at least {figure(ceiling)} ms on the napkin" if ceiling else ""), file=out)
        rows = table(events, program)
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
        for row in rows:
            print("  " + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                                   for i, (cell, width) in enumerate(zip(row, widths))), file=out)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    print_events(Events(sorted(folder.glob("*.json"))))


if __name__ == "__main__":
    main()
