# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""How fast does PyTorch feed a language model? nanoGPT's way, beside tokens_bench.cu.

tokens.py [--file PATH] [--tokens N] [--batches N] [--repetitions N] [--out JSON]

A batch is 64 windows of 1024 tokens at random places of a file of uint16 tokens in the page cache, as 64-bit inputs x
and targets y on the GPU. The variants:

  get_batch            as nanoGPT's training script has it: the file is mapped anew for each batch, each window becomes a
                       tensor of 64 bits, they are stacked, page-locked and sent without blocking
  get_batch_mapped     get_batch with one mapping for all batches
  get_batch_in_memory  get_batch from an array in memory
  get_batch_gathered   from memory, with one indexing operation for all windows

Each is checked once against slices of the file, and warmed. Repetitions are interleaved; a repetition is --batches
batches, until the GPU has them all. Results have the form of Google Benchmark's; items_per_second are tokens of x.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import datetime

import numpy as np
import torch

CONTEXT, BATCH = 1024, 64


def offsets(count: int) -> torch.Tensor:
    return torch.randint(count - CONTEXT, (BATCH,))


def to_gpu(x: torch.Tensor, y: torch.Tensor):
    return x.pin_memory().to("cuda", non_blocking=True), y.pin_memory().to("cuda", non_blocking=True)


def stacked(data: np.ndarray, at: torch.Tensor):
    x = torch.stack([torch.from_numpy(data[i:i + CONTEXT].astype(np.int64)) for i in at])
    y = torch.stack([torch.from_numpy(data[i + 1:i + 1 + CONTEXT].astype(np.int64)) for i in at])
    return to_gpu(x, y)


def gathered(data: np.ndarray, at: torch.Tensor):
    windows = torch.from_numpy(data[at.numpy()[:, None] + np.arange(CONTEXT + 1)].astype(np.int64))
    return to_gpu(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


def mapped(path: str) -> np.ndarray:
    return np.memmap(path, dtype=np.uint16, mode="r")


def check(name: str, get_batch, data: np.ndarray):
    at = offsets(len(data))
    x, y = (tensor.cpu().numpy() for tensor in get_batch(at))
    for row, i in enumerate(at.tolist()):
        if not (np.array_equal(x[row], data[i:i + CONTEXT]) and np.array_equal(y[row], data[i + 1:i + 1 + CONTEXT])):
            sys.exit(f"tokens.py: {name}: window {row} is not what lies in the file")


def timed(get_batch, count: int, batches: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(batches):
        get_batch(offsets(count))
    torch.cuda.synchronize()
    return time.perf_counter() - start


def row(name: str, seconds: float, batches: int, **more) -> dict:
    return {"name": name, "run_name": name, "iterations": 1, "real_time": seconds * 1e3, "cpu_time": seconds * 1e3,
            "time_unit": "ms", "items_per_second": batches * BATCH * CONTEXT / seconds,
            "us_a_batch": seconds / batches * 1e6, **more}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--file", default=os.path.join(tempfile.gettempdir(), "penstock-bench-tokens.bin"))
    parser.add_argument("--tokens", type=int, default=512 << 20)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out")
    args = parser.parse_args()
    args.batches = max(args.batches, 1)
    if not torch.cuda.is_available():
        sys.exit("tokens.py: PyTorch sees no GPU")
    if not os.path.exists(args.file) or os.path.getsize(args.file) != 2 * args.tokens:
        np.random.default_rng(1).integers(0, 50257, args.tokens, dtype=np.uint16).tofile(args.file)
    memory = np.fromfile(args.file, dtype=np.uint16)  # and puts the file into the page cache
    kept = mapped(args.file)
    variants = {
        "get_batch": lambda at: stacked(mapped(args.file), at),
        "get_batch_mapped": lambda at: stacked(kept, at),
        "get_batch_in_memory": lambda at: stacked(memory, at),
        "get_batch_gathered": lambda at: gathered(memory, at),
    }
    for name, get_batch in variants.items():
        check(name, get_batch, memory)
        timed(get_batch, args.tokens, max(args.batches // 10, 1))
    seconds = {name: [] for name in variants}
    rows = []
    for repetition in range(args.repetitions):
        for name, get_batch in variants.items():
            seconds[name].append(timed(get_batch, args.tokens, args.batches))
            rows.append(row(f"tokens/{name}/64x1024", seconds[name][-1], args.batches, run_type="iteration",
                            repetitions=args.repetitions, repetition_index=repetition))
    for name, times in seconds.items():
        median = row(f"tokens/{name}/64x1024", statistics.median(times), args.batches, run_type="aggregate",
                     aggregate_name="median", repetitions=args.repetitions)
        median["name"] += "_median"
        rows.append(median)
        print(f"{median['name']:44} {median['us_a_batch']:10.1f} us a batch"
              f"{median['items_per_second'] / 1e6:10.1f} M tokens/s")
    if args.out:
        context = {"date": datetime.now().astimezone().isoformat(timespec="seconds"), "executable": "tokens.py",
                   "num_cpus": os.cpu_count(), "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "cuda_runtime": torch.version.cuda, "commit": os.environ.get("PENSTOCK_COMMIT", "unknown")}
        with open(args.out, "w") as file:
            json.dump({"context": context, "benchmarks": rows}, file, indent=1)


main()
