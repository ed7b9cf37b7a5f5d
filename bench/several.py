# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What bench/run does around several_bench: 18_load_weights and GPT's training on 1, 2, 4 ... GPUs, and one table of all."""
import array
import json
import os
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TURNS = 5
SHARD = 8_000_000_000
VOCABULARY = 50257
PROGRAMS = ["examples/18_load_weights", "examples/train"]
GPT = ["--config", "124M", "--device", "cuda", "--batch", "64", "--steps", "40", "--warmup", "10", "--eval-every", "0", "--json"]


def worlds(gpus: int) -> list[int]:
    """Returns how many GPUs to take: 1, 2, 4 ... and all."""
    return sorted({count for count in (1, 2, 4, 8, 16) if count < gpus} | {gpus})


def write_shard(path: Path, number: int, size: int, noise: bytes):
    """Writes a safetensors file: tensors of 64 to 512 MiB and some small ones, of random bytes that are repeated."""
    sizes, left = [], size
    while left:
        sizes.append(min(left, [(128 << 20) + 2, 512 << 20, 8192, (64 << 20) + 256, 2][len(sizes) % 5]))
        left -= sizes[-1]
    tensors, at = {}, 0
    for i, of_one in enumerate(sizes):
        tensors[f"model.{number}.{i}"] = {"dtype": "U8", "shape": [of_one], "data_offsets": [at, at + of_one]}
        at += of_one
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb", buffering=0) as file:
        file.write(len(header).to_bytes(8, "little") + header)
        while size:
            size -= file.write(memoryview(noise)[:min(size, len(noise))])


def make_weights(folder: Path, shard: int) -> list[str]:
    """Makes two files, in the page cache, and returns their paths."""
    noise = os.urandom(64 << 20)
    paths = [folder / f"model-{number}.safetensors" for number in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: write_shard(paths[number], number, shard, noise), range(2)))
    os.sync()  # or the disk is written to meanwhile
    return [str(path) for path in paths]


def make_tokens(folder: Path) -> str:
    """Makes a file of random tokens: how fast a model trains does not depend on them."""
    drawn = array.array("H", os.urandom(2 * 8_000_000))
    path = folder / "tokens.bin"
    path.write_bytes(array.array("H", (one % VOCABULARY for one in drawn)).tobytes())
    return str(path)


def commands(build: Path, gpus: int, has_gpu: bool, folder: Path) -> list[tuple[str, int, list[str]]]:
    """Returns what is run in each turn: what it is, on how many GPUs, and the command."""
    ranks = str(ROOT / "examples/run_ranks")
    weights = [str(build / PROGRAMS[0]), "--json", *make_weights(folder, SHARD if has_gpu else SHARD // 100)]
    done = []
    for count in worlds(gpus):
        done.append(("weights, one process", count, [weights[0], "--gpus", str(count), *weights[1:]]))
        if count > 1:
            done.append(("weights, ranks", count, [ranks, str(count), *weights]))
    if has_gpu:
        train = [str(build / PROGRAMS[1]), "--data", make_tokens(folder), *GPT]
        done += [("GPT 124M", count, [ranks, str(count), *train]) for count in worlds(gpus)]
    return done


def run_also(build: Path, gpus: int, has_gpu: bool, place: Path, result: Path, limit: int) -> list[str]:
    """Runs them in turn, adds what they say to the result file, and returns what failed."""
    ran, failures = [], []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        try:
            todo = commands(build, gpus, has_gpu, Path(folder))
        except OSError as error:
            return [f"weights and GPT: cannot make their files: {error}. Give bench/run a --file where there is more room."]
        for turn in range(TURNS):
            for what, count, command in todo:
                if what.startswith("GPT") and turn > 1 and gpus > 2:
                    continue  # or all of it would take longer than 8 minutes
                begin = time.monotonic()
                try:
                    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
                    said = json.loads(done.stdout.splitlines()[-1 if what.startswith("GPT") else 0])
                except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
                    failures.append(f"{what} on {count}, turn {turn}: {error} {getattr(error, 'stderr', '') or ''}"[:600])
                    continue
                ran.append({"what": what, "gpus": count, "turn": turn, "seconds": time.monotonic() - begin,
                            "said": {name: value for name, value in said.items() if not isinstance(value, (list, dict))}})
    content = json.loads(result.read_text(encoding="utf-8"))
    content["also"] = ran
    result.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return failures


class Table:
    """The figures of a result file, by row and number of GPUs or threads."""

    def __init__(self, result: Path):
        content = json.loads(result.read_text(encoding="utf-8"))
        self.gpus = int(content["context"]["gpus"])
        self.gpu = content["context"].get("gpu", "devices")
        self.values: dict[tuple[str, int], dict[str, list[float]]] = {}
        for row in content["benchmarks"]:
            if row.get("run_type") != "aggregate" and "bytes_per_second" in row:
                name, size = row["run_name"].split("/")[1:3]
                self.add(name, int(size), gb_per_s=row["bytes_per_second"] / 1e9, processors=row["processors"],
                         links=row.get("link_bytes_per_second", 0) / 1e9)
        for row in content.get("also", []):
            said = row["said"]
            self.add(row["what"], row["gpus"], gb_per_s=said.get("gb_per_s"), tokens_per_s=said.get("tokens_per_s"),
                     of_links=said.get("of_links"))

    def add(self, name: str, size: int, **figures: float | None):
        of_row = self.values.setdefault((name, size), {})
        for figure, value in figures.items():
            if value is not None:
                of_row.setdefault(figure, []).append(value)

    def get(self, name: str, size: int, figure: str = "gb_per_s") -> float | None:
        """Returns the median; None if there is none."""
        values = self.values.get((name, size), {}).get(figure)
        return statistics.median(values) if values else None

    def threads(self, name: str) -> list[int]:
        return sorted(size for row, size in self.values if row == name)


DATA = {"memory_huge": "memory, huge pages", "memory_4k": "memory, 4 KiB pages", "disk": "file in the page cache",
        "tmpfs": "file in tmpfs, 4 KiB pages"}


def print_several(result: Path, to):
    """Prints the table: a column for each number of GPUs, and below it what binds."""
    table = Table(result)
    columns = worlds(table.gpus)

    def line(name: str, cells: list[str]):
        print(f"  {name:42} " + " ".join(f"{cell:>14}" for cell in cells), file=to)

    def share(value: float | None) -> str:  # of links, of which a host device has none
        return "" if value is None else f"{value:.3f}"

    def cells(row: str, text) -> list[str]:
        return [text(count) if table.get(row, count) is not None else "" for count in columns]

    print("\nseveral GPUs: GB/s, share of what their links carry at once, processors in use", file=to)
    line("GPUs", [str(count) for count in columns])
    line("the links alone", cells("link", lambda n: f"{table.get('link', n):.1f}"))
    for row, name in DATA.items():
        line(name, cells(row, lambda n, row=row: f"{table.get(row, n):.1f} {table.get(row, n) / table.get('link', n):.3f} "
                                                 f"{table.get(row, n, 'processors'):3.0f}"))
    for row in ["weights, one process", "weights, ranks"]:
        line(f"{row}, to all", cells(row, lambda n, row=row: f"{table.get(row, n):.1f} {share(table.get(row, n, 'of_links')):5}    "))
    one = table.get("GPT 124M", 1, "tokens_per_s")
    if one:
        line("GPT 124M, tokens/s, times one GPU", [f"{table.get('GPT 124M', n, 'tokens_per_s') or 0:.0f} "
                                                   f"{(table.get('GPT 124M', n, 'tokens_per_s') or 0) / one:.3f}" for n in columns])
    print("  threads that only read, GB/s (and what all links do beside):", file=to)
    for row, name in DATA.items():
        alone = [f"{count}: {table.get(f'read_{row}', count):.0f}" for count in table.threads(f"read_{row}")]
        beside = [f"{count}: {table.get(f'beside_{row}', count):.0f} ({table.get(f'beside_{row}', count, 'links'):.0f})"
                  for count in table.threads(f"beside_{row}")]
        line(name, [", ".join(alone + (["beside links"] + beside if beside else []))])
