#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""The bars for penstock's speed, and the figures that result files have for them. Every figure is a ratio of medians
over the repetitions of one run; of several settings of a contender the best counts.

bench/bars.py [FOLDER]
"""
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

RATE = "bytes_per_second"
ITEMS = "items_per_second"


class Results:
    """The repetitions of every benchmark in result files of Google Benchmark's form, by question/contender/size."""

    def __init__(self, files: Iterable[Path] = ()):
        self.rows: dict[str, list[dict]] = {}
        for file in files:
            self.read(file)

    def read(self, file: Path):
        """Adds a file's benchmarks, and replaces those that are here already."""
        found: dict[str, list[dict]] = {}
        for row in json.loads(file.read_text(encoding="utf-8")).get("benchmarks", []):
            if row.get("run_type", "iteration") == "iteration" and not row.get("error_occurred"):
                # Google Benchmark appends to the name how it was run.
                name = "/".join((row.get("name") or row["run_name"]).split("/")[:3])
                found.setdefault(name, []).append(row)
        self.rows.update(found)

    def median(self, name: str, metric: str = RATE) -> float | None:
        """Returns the median over the repetitions; None if there are none."""
        values = [row[metric] for row in self.rows.get(name, []) if metric in row]
        return statistics.median(values) if values else None

    def best(self, pattern: str, metric: str = RATE, least: bool = False) -> float | None:
        """Returns the best median of all benchmarks whose name fits: the greatest, or the least if `least`."""
        medians = [self.median(name, metric) for name in self.rows if fnmatchcase(name, pattern)]
        known = [median for median in medians if median is not None]
        return (min if least else max)(known) if known else None

    def ratio(self, ours: str, others: str, metric: str = RATE) -> float | None:
        """Returns our best over theirs."""
        a, b = self.best(ours, metric), self.best(others, metric)
        return a / b if a and b else None

    def slope(self, once: str, twice: str) -> float | None:
        """Returns bytes a second between two lengths, and thereby without the fixed cost of a run."""
        known = [(self.median(name), self.median(name, "real_time")) for name in (once, twice)]
        if None in known[0] + known[1]:
            return None
        (rate, time), (rate_twice, time_twice) = known
        return (rate_twice * time_twice - rate * time) / (time_twice - time)


@dataclass
class Bar:
    name: str
    bar: float | None  # None: the figure is only reported
    stretch: float | None
    value: Callable[[Results], float | None]
    most: bool = False  # the figure must not be above the bar, rather than below

    def meets(self, value: float, bar: float) -> bool:
        return value <= bar if self.most else value >= bar


def ratio(name: str, ours: str, others: str, at_least: float | None, stretch: float | None, metric: str = RATE) -> Bar:
    return Bar(name, at_least, stretch, lambda results: results.ratio(ours, others, metric))


def share(name: str, ours: str, others: str, metric: str, at_most: float, stretch: float | None) -> Bar:
    def value(results: Results) -> float | None:
        a, b = results.median(ours, metric), results.median(others, metric)
        return a / b if a and b else None
    return Bar(name, at_most, stretch, value, most=True)


def figure(name: str, benchmark: str, metric: str, bar: float, stretch: float | None, most: bool = False) -> Bar:
    return Bar(name, bar, stretch, lambda results: results.best(benchmark, metric, most), most)


def off(name: str, benchmark: str, metric: str, wanted: float, at_most: float) -> Bar:
    """Returns how far a figure is from the right one, as a share of that."""
    def value(results: Results) -> float | None:
        known = results.median(benchmark, metric)
        return abs(known / wanted - 1) if known is not None else None
    return Bar(name, at_most, None, value, most=True)


LINK = "feed/link/256MiB"


def slope_of_link(size: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        slope, link = results.slope(f"feed/run/{size}", f"feed/run_twice/{size}"), results.median(LINK)
        return slope / link if slope and link else None
    return value


BARS = [
    *[ratio(f"file to light kernel, {size}, {form}: of the link", f"feed/{form}/{size}", LINK, 0.90, 0.96)
      for size in ["256KiB", "1MiB", "37.6MB", "256MB"] for form in ["run", "loop"]],
    *[Bar(f"the same, {size}, between one length and twice that", None, None, slope_of_link(size))
      for size in ["256KiB", "1MiB", "37.6MB", "256MB"]],
    ratio("64KiB replayed, from memory: of the link", "feed/full_ring_replayed/64KiB", LINK, 0.75, 0.90),
    ratio("64KiB replayed, from the file: of the link", "feed/replayed/64KiB", LINK, None, 0.80),
    ratio("16KiB replayed, from memory: of the link", "feed/full_ring_replayed/16KiB", LINK, None, 0.50),
    *[ratio(f"PinnedStager between, {size}: of the link", f"stager/run/{size}", "stager/link/256MiB", 0.60, 0.75)
      for size in ["1MiB", "37.6MB"]],
    *[ratio(f"PinnedStager between, {size}: two hops by hand", f"stager/run*/{size}", f"stager/two_hops_*/{size}",
            0.95, 1.0) for size in ["1MiB", "37.6MB"]],
    *[ratio(f"copier on an always-full ring, {size}: of the link", f"feed/copier/{size}", LINK, 0.97, 0.98)
      for size in ["1MiB", "37.6MB"]],
    ratio("against one grain by hand, 64KiB", "feed/replayed/64KiB", "feed/one_grain_*/64KiB", 4.0, 5.5),
    ratio("against one grain by hand, 1MiB", "feed/run/1MiB", "feed/one_grain_*/1MiB", 1.0, 1.08),
    ratio("against one grain by hand, 37.6MB", "feed/run/37.6MB", "feed/one_grain_*/37.6MB", 1.35, 1.5),
    *[ratio(f"against three grains by hand, {size}", f"feed/run/{size}", f"feed/three_grains/{size}", 1.0, 1.05)
      for size in ["256KiB", "1MiB", "37.6MB"]],
    *[ratio(f"the same, two in flight, {size}", f"feed/run/{size}", f"feed/three_grains_two/{size}", None, None)
      for size in ["256KiB", "1MiB", "37.6MB"]],
    ratio("against PyTorch's DataLoader, light", "feed/run/37.6MB", "loader/*_light/37.6MB", 13, 15),
    ratio("against PyTorch's DataLoader, heavy", "feed/run_heavy/37.6MB", "loader/*_heavy/37.6MB", 6.5, 7.5),
    ratio("bound by transfer: of the stage alone", "binding/transfer_pipe*", "binding/transfer_alone/*", 0.95, 0.98),
    ratio("bound by the kernel: of the stage alone", "binding/kernel_pipeline/*", "binding/kernel_alone/*", 0.95, 0.98),
    ratio("bound by decoding: of the stage alone", "binding/decode_pipeline_*", "binding/decode_alone_*", 0.95, 0.98),
    ratio("the same: of a loop by hand", "binding/decode_pipeline_*", "binding/decode_by_hand_*", None, None),
    ratio("JPEG files: of threads by hand", "images/pipeline/*", "images/hand/*", 0.95, 1.0, ITEMS),
    ratio("bound by a cold disk: of the stage alone", "cold/pipeline*", "cold/direct_*", 0.95, 0.98),
    ratio("balanced: against one after the other", "binding/balanced_pipeline/*", "binding/balanced_sequential/*", 2.2,
          2.6),
    ratio("balanced: against two buffers", "binding/balanced_pipeline/*", "binding/balanced_two_buffers/*", 1.1, 1.3),
    *[ratio(f"there and back, {size}, {form}: of both ways at once", f"both_ways/{form}/{size}",
            "both_ways/duplex/256MiB", 0.85, None)
      for size in ["1MiB", "37.6MB"] for form in ["run", "in_place", "kernel"]],
    *[ratio(f"there, back and into a file, {size}: of the writes alone", f"both_ways/written/{size}", "both_ways/writes_*",
            0.9, None) for size in ["1MiB", "37.6MB"]],
    ratio("3000 values deferred: against one by one", "deferred/deferred/*", "deferred/item/*", None, None, ITEMS),
    ratio("token windows: against nanoGPT's get_batch", "tokens/[lr]*", "tokens/get_batch/*", 50, 200, ITEMS),
    ratio("token windows: against the best of PyTorch's", "tokens/[lr]*", "tokens/get_batch*", None, None, ITEMS),
    figure("64KiB replayed: us in CUDA's calls a batch", "submission/replayed/64KiB", "submit_us", 1.5, 0.8, most=True),
    share("setting up pinned memory, 512MiB: of cudaMallocHost", "pool/penstock/512MiB", "pool/cudaMallocHost/512MiB",
          "real_time", 0.6, 0.3),
    *[ratio(f"ring, {form}, {slots} slots: against {peer}", f"{form}/penstock/{slots}", f"{form}/{peer}/{slots}", *bars)
      for form in ["recycle", "index"] for peer, bars in [("boost", (1.5, 2)), ("moodycamel", (1.2, 1.5))]
      for slots in [64, 1024, 65536]],
    *[ratio(f"ring, {form}, {workers} workers: against {peer}", f"{form}_{workers}/penstock/1024",
            f"{form}_{workers}/{peer}/1024", bar, None)
      for form in ["many_to_one", "one_to_many"] for workers in [2, 4, 8]
      for peer, bar in [("moodycamel", 1.2), ("tbb", 3), ("deque", 3)]],
    *[ratio(f"the limit, {form}: by hand against moodycamel", f"{form}/by_hand/{slots}", f"{form}/moodycamel/{slots}",
            None, None)
      for form, slots in [*((form, slots) for form in ["index", "recycle"] for slots in [64, 1024, 65536]),
                          *((f"many_to_one_{workers}", 1024) for workers in [2, 4, 8])]],
    *[figure(f"GPU busy with kernels, {size}", f"busy/run/{size}", "busy_kernels", 0.97, 0.99)
      for size in ["37.6MB", "1MiB"]],
    *[share(f"CPU seconds a GB, {size}: of pread alone, paced", f"cpu/run/{size}", f"cpu/pread_paced/{size}",
            "cpu_s_per_GB", 1.3, 1.1) for size in ["37.6MB", "1MiB"]],
    *[figure(f"CPU us a slot and hop, {hops}", f"hop/{hops}_hops/1024", "cpu_us", 1, 0.3, most=True)
      for hops in [1, 2, 3]],
    *[figure(f"one bad record in ten of {size} bytes: the rate, of a loop that throws and catches",
             f"skips/left_out/{size}", "rate_ratio", 1 / 3, None) for size in [8, 1]],
    *[figure(f"skips allowed, {workers} workers: CPU time, of that without", f"skips/allowed/{workers}", "cpu_ratio", 1.5,
             None, most=True) for workers in [8, 16, 64]],
    *[share(f"a number of a random order of {size}: of CCCL's time", f"permutation/penstock/{size}",
            f"permutation/cccl/{size}", "ns_a_number", 0.7, 0.35)
      for size in ["2^20-1", "2^20+1", "1281167", "2^22-1", "2^22+1", "2^33+1"]],
    *[ratio(f"two GPUs, {data}: of both links", f"several/{data}/2", "several/link/2", bar, None)
      for data, bar in [("memory_huge", 0.95), ("memory_4k", 0.95), ("disk", 0.95), ("disk_w8", 0.8), ("tmpfs", 0.8),
                        ("ranks_disk", 0.95), ("turns_disk", None)]],
    *[ratio(f"two GPUs, {data}: one ring for both, against a pipeline each", f"several/fan_out_{data}/2",
            f"several/same_{data}/2", None, None) for data in ["memory_huge", "disk"]],
    ratio("event 3: workers, against one thread", "events/03_*/workers_*", "events/03_*/one_thread", 4, None, ITEMS),
    figure("event 3: GPU busy with kernels", "watched/03_*/workers_*", "kernels_busy", 0.95, None),
    ratio("event 4: tiny kernels, against loose launches", "events/04_*/*", "events/04_*/loose", 5, None, ITEMS),
    share("event 5: half the bytes, of the time", "events/05_memory_layout/coalesced_bf16",
          "events/05_memory_layout/coalesced_float", "real_time", 0.55, None),
    ratio("event 6: product in bf16, against floats", "events/06_tensor_cores/bf16", "events/06_tensor_cores/fp32_epilogue",
          4, None, ITEMS),
    ratio("event 6: the same, of cuBLASLt's product alone", "events/06_tensor_cores/bf16",
          "events/06_tensor_cores/bf16_alone", 0.8, None, ITEMS),
    *[ratio(f"event 6: fused attention, {way}, heads of {head}, {tokens} tokens",
            f"events/06_fused_attention-{way}_{head}x{tokens}/fused", f"events/06_fused_attention-{way}_{head}x{tokens}/unfused",
            2 if (way, tokens) == ("forward", 4096) else None, None, ITEMS)
      for way in ["forward", "backward"] for head in [64, 128] for tokens in [1024, 4096]],
    share("event 7: memory of activations, of all", "events/07_kept_activations/recomputed_1",
          "events/07_kept_activations/kept", "activation_bytes", 0.3, None),
    share("event 7: the time for it", "events/07_kept_activations/recomputed_1", "events/07_kept_activations/kept",
          "real_time", 1.4, None),
    *[ratio(f"event 8: one kernel for all tensors, {parameters} parameters", f"events/08_optimizer-step_{parameters}/all",
            f"events/08_optimizer-step_{parameters}/each_tensor", bar, None, ITEMS)
      for parameters, bar in [("10M", 2), ("29M", 2), ("124M", None)]],
    figure("event 10: waits for 3000 items", "watched/10_*/*", "syncs", 1, None, most=True),
    ratio("event 10: against item by item", "events/10_*/*", "events/10_*/item", None, None, ITEMS),
    ratio("event 11: pipeline, against pinned memory on one stream", "events/11_*/pipeline", "events/11_*/pinned", 2.2, None,
          ITEMS),
    off("event 12: host memory for a pinned copy, off 2.0", "events/12_pinning_a_copy/pin_a_copy", "peak", 2, 0.05),
    off("event 12: pinned from the start, off 1.0", "events/12_pinning_a_copy/pinned_from_the_start", "peak", 1, 0.05),
    ratio("event 13: pipeline, against in turn", "events/13_*/pipeline", "events/13_*/in_turn", 4, None, ITEMS),
    figure("event 13: GPU idle", "watched/13_*/pipeline", "idle", 0.05, None, most=True),
]


def print_table(results: Results, out=sys.stdout):
    width = max(len(bar.name) for bar in BARS)
    print(f"{'':{width}} {'bar':>8} {'stretch':>8} {'measured':>9}", file=out)
    for bar in BARS:
        value = bar.value(results)
        if value is None:
            verdict = "not measured"
        elif bar.bar is not None and not bar.meets(value, bar.bar):
            verdict = "MISSED"
        elif bar.stretch is not None and bar.meets(value, bar.stretch):
            verdict = "met, and the stretch"
        else:
            verdict = "met" if bar.bar is not None else "reported"
        shown = ["-" if number is None else f"{number:.3g}" for number in (bar.bar, bar.stretch)]
        measured = "-" if value is None else f"{value:.3f}"
        print(f"{bar.name:{width}} {shown[0]:>8} {shown[1]:>8} {measured:>9}  {verdict}", file=out)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "results" / "h200"
    print_table(Results(sorted(folder.glob("*.json"))))


if __name__ == "__main__":
    main()
