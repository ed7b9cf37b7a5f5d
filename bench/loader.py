#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""How fast does PyTorch's DataLoader get a file to the GPU? The bytes, batches and operation of feed_bench.cu.

Batches of 256 records of 150,528 bytes (37.6 MB) from a file in the page cache, through DataLoader with pin_memory and
a prefetcher that copies on a stream of its own, to a consumer on the GPU: light, uint8 to bf16, scaled and written;
heavy, light and as many matrix products as make it take 1.5 ms measured alone. Items of the datasets are batches or
records, with 4, 8 and 16 workers. A run is an epoch, from the loader's iterator to torch.cuda.synchronize();
workers stay from one epoch to the next, the first epoch of each contender is checked and not timed, and the epochs of
all contenders are shuffled. Results have the form of Google Benchmark's.

bench/loader.py [--file PATH] [--bytes N] [--repetitions N] [--workers N,N] [--out JSON]
"""
import argparse
import datetime
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

RECORD, RECORDS = 224 * 224 * 3, 256
BATCH = RECORD * RECORDS


class Batches(Dataset):
    """An item is a batch, read by one call."""

    def __init__(self, path: str, count: int):
        self.path, self.count = path, count

    def __len__(self):
        return self.count

    def __getitem__(self, i: int):
        data = numpy.fromfile(self.path, numpy.uint8, BATCH, offset=i * BATCH)
        return torch.from_numpy(data.reshape(RECORDS, RECORD))


class Records(Dataset):
    """An item is a record, of a mapped file; the loader puts batches together."""

    def __init__(self, path: str, count: int):
        self.data = numpy.memmap(path, numpy.uint8, "r", shape=(count * RECORDS, RECORD))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i: int):
        return torch.from_numpy(numpy.array(self.data[i]))


def on_the_gpu(batches, stream):
    """Yields the batches of an iterable on the GPU, each copied on `stream` while the one before is used."""
    def send(host):
        with torch.cuda.stream(stream):
            return host.to("cuda", non_blocking=True)

    source = iter(batches)
    first = next(source, None)
    coming = None if first is None else send(first)
    while coming is not None:
        torch.cuda.current_stream().wait_stream(stream)
        batch = coming
        batch.record_stream(torch.cuda.current_stream())
        host = next(source, None)
        coming = None if host is None else send(host)
        yield batch


def light(batch):
    return batch.to(torch.bfloat16).mul_(1 / 255)


class Heavy:
    """light(), and matrix products that bring it to `seconds`."""

    def __init__(self, seconds: float):
        self.matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.products = 0
        batch = torch.zeros(RECORDS, RECORD, dtype=torch.uint8, device="cuda")
        self.light_alone = seconds_of(lambda: self(batch))
        self.products = 8
        product = (seconds_of(lambda: self(batch)) - self.light_alone) / self.products
        self.products = max(round((seconds - self.light_alone) / product), 1)
        self.alone = seconds_of(lambda: self(batch))

    def __call__(self, batch):
        result = light(batch)
        for _ in range(self.products):
            self.matrix @ self.matrix
        return result


def seconds_of(call, times: int = 30) -> float:
    """Returns the seconds of one of many calls in a row, when the GPU is warm."""
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def check(path: str, index: int, result):
    """Checks the light kernel's output for a batch against the bytes in the file."""
    host = torch.from_numpy(numpy.fromfile(path, numpy.uint8, BATCH, offset=index * BATCH).reshape(RECORDS, RECORD))
    expected = (host.to(torch.float32) * (1 / 255)).to(torch.bfloat16)
    if not torch.equal(result.cpu(), expected):
        sys.exit(f"loader.py: batch {index} is not what the file holds")


def epoch(loader, stream, consumer, checked_path: str = "") -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i, batch in enumerate(on_the_gpu(loader, stream)):
        result = consumer(batch)
        if checked_path and i % 8 == 0:
            check(checked_path, i, result)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def make_file(path: str, size: int):
    if not os.path.exists(path) or os.path.getsize(path) < size:
        with open(path, "wb") as file:
            for _ in range(0, size, BATCH):
                file.write(os.urandom(BATCH))
            os.fsync(file.fileno())
    with open(path, "rb") as file:
        left = size
        while left > 0:
            left -= len(file.read(min(left, 1 << 24)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", default=os.path.join(tempfile.gettempdir(), "penstock-bench.bin"))
    parser.add_argument("--bytes", type=int, default=56 * BATCH, help="of an epoch, cut to whole batches")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--workers", default="4,8,16")
    parser.add_argument("--out", help="where the JSON goes; else to the console")
    options = parser.parse_args()
    count = max(options.bytes // BATCH, 1)
    make_file(options.file, count * BATCH)

    consumers = {"light": light, "heavy": Heavy(1.5e-3)}
    stream = torch.cuda.Stream()
    contenders = {}
    for workers in [int(number) for number in options.workers.split(",")]:
        common = {"num_workers": workers, "pin_memory": True, "prefetch_factor": 4, "persistent_workers": True}
        contenders[f"batches_w{workers}"] = DataLoader(Batches(options.file, count), batch_size=None, **common)
        contenders[f"records_w{workers}"] = DataLoader(Records(options.file, count), batch_size=RECORDS, **common)
    for name, loader in contenders.items():
        print(f"loader/{name}: first epoch {epoch(loader, stream, light, options.file):.2f} s, checked", flush=True)

    runs = [(name, consumer) for name in contenders for consumer in consumers] * options.repetitions
    random.Random(0).shuffle(runs)
    found = {}
    for name, consumer in runs:
        seconds = epoch(contenders[name], stream, consumers[consumer])
        found.setdefault(f"loader/{name}_{consumer}/37.6MB", []).append(seconds)

    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    context = {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
               "executable": "bench/loader.py", "cpu": cpu, "cores": str(os.cpu_count()),
               "gpu": torch.cuda.get_device_name(), "cuda_runtime": torch.version.cuda, "pytorch": torch.__version__,
               "python": sys.version.split()[0], "commit": os.environ.get("PENSTOCK_COMMIT", "unknown"),
               "bytes": count * BATCH, "light_alone_ms": 1e3 * consumers["heavy"].light_alone,
               "heavy_alone_ms": 1e3 * consumers["heavy"].alone}
    benchmarks = [{"name": name, "run_name": name, "run_type": "iteration", "repetitions": len(times),
                   "repetition_index": i, "iterations": 1, "real_time": 1e3 * seconds, "cpu_time": 1e3 * seconds,
                   "time_unit": "ms", "bytes_per_second": count * BATCH / seconds}
                  for name, times in found.items() for i, seconds in enumerate(times)]
    for name, times in found.items():
        print(f"{name:40} {count * BATCH / statistics.median(times) / 1e9:7.2f} GB/s", flush=True)
    text = json.dumps({"context": context, "benchmarks": benchmarks}, indent=2) + "\n"
    if options.out:
        Path(options.out).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
