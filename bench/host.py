# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""The table of host_bench: the limits of this host, what a pipeline takes of them at its defaults, and what binds."""
from bars import Results

DATA = {"disk": "a file in the page cache", "tmpfs": "a file in memory (tmpfs)"}
NEAR = 0.97  # of another rate: as good as that
AHEAD = 1.05  # of another rate: clearly better than that


def best(results: Results, row: str, data: str) -> tuple[float, str]:
    """Returns the best rate of a row, in GB/s, and with how many threads; 0 if there is none."""
    rates = {name.split("/")[1].split("_")[1]: (results.median(name) or 0) / 1e9
             for name in results.rows if name.startswith(f"host/{row}_") and name.endswith(f"/{data}")}
    threads = max(rates, key=rates.__getitem__, default="0")
    return rates.get(threads, 0.0), threads


def binds(link: float, run: float, rates: dict[str, tuple[float, str]]) -> str:
    """Returns what holds a pipeline at its defaults back, as far as the rates beside it tell."""
    ring, each, workers = rates["ring"], rates["each"], rates["run"]
    read, threads = rates["read"]
    hand = max(ring, each)
    if run >= NEAR * link:
        return "the link binds"
    if not all(rate for rate, _ in rates.values()):
        return "more than the link binds; to know it takes all rows: leave out --quick and --filter"
    if workers[0] >= AHEAD * run and workers[0] >= NEAR * hand[0]:
        return f"the number of workers binds: .workers = {workers[1]} gives {workers[0]:.1f}"
    if hand[0] >= AHEAD * run:
        return f"the pipeline binds: {'a ring' if hand == ring else 'no ring, but copies'} by hand, by {hand[1]} threads, has {hand[0]:.1f}"
    if read < AHEAD * run:
        return f"reading binds: {threads} threads that only read have {read:.1f}"
    return "processors and memory bind: neither a loop by hand nor another number of workers is better"


def print_host(results: Results, to):
    """Prints it, if there are results."""
    link = (results.median("host/link/256MiB") or 0) / 1e9
    if not link:
        return
    print("\nthis host: GB/s, of the link (by how many threads that read)", file=to)
    print(f"  {'the link alone':48}{link:6.1f}", file=to)
    for data, name in DATA.items():
        run = (results.median(f"host/run/{data}") or 0) / 1e9
        if not run:
            continue
        rates = {row: best(results, row, data) for row in ["read", "each", "ring", "run"]}
        print(f"  {name}", file=to)
        for row, what in {"read": "plain threads that only read", "each": "threads that each read and copy, the better",
                          "ring": "a ring by hand, the best", "run": "a pipeline, the best number of workers"}.items():
            rate, threads = rates[row]
            if rate:
                print(f"    {what:46}{rate:6.1f}  {rate / link:.3f}  ({threads})", file=to)
        print(f"    {'a pipeline, at its defaults':46}{run:6.1f}  {run / link:.3f}", file=to)
        print(f"    {binds(link, run, rates)}", file=to)
