#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Does train reach the validation loss of nanoGPT on characters? The same text, split, model and options.

bench/gpt/nanogpt_char.py --train PROGRAM --nanogpt FOLDER --data TEXT [--steps N] [--seeds N,N,…] [--out FOLDER]

FOLDER is nanoGPT's own, whose train.py runs as it is. It gets the text as it expects it, with train's split: the last
tenth is held out. Its settings are those of its config/train_shakespeare_char.py, which are train's for --config small:
6 layers of 384 values and 6 heads, 64 sequences of 256 characters, a dropout of 0.2, a rate of 1e-3 after 100 steps,
which falls to 1e-4 as a cosine, a decay of 0.1, and a clip of 1. Each seed is a run of both. FOLDER of --out gets the
losses of each run as a CSV file, and the table is of the least and the last validation loss.
"""
import argparse
import csv
import os
import pickle
import re
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

DATASET = "penstock_char"
SETTINGS = {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "batch_size": 64, "gradient_accumulation_steps": 1,
            "dropout": 0.2, "learning_rate": 1e-3, "min_lr": 1e-4, "warmup_iters": 100, "weight_decay": 0.1, "grad_clip": 1.0,
            "eval_interval": 250, "eval_iters": 200, "always_save_checkpoint": False}
STEP = re.compile(r"^step (\d+): train loss ([\d.]+), val loss ([\d.]+)$", re.MULTILINE)


def prepare(nanogpt: Path, text: bytes):
    """Writes nanoGPT's files of a text: a byte is a character, and its number its place among those that occur."""
    folder = nanogpt / "data" / DATASET
    folder.mkdir(parents=True, exist_ok=True)
    characters = sorted(set(text))
    place = np.zeros(256, dtype=np.uint16)
    place[characters] = np.arange(len(characters))
    ids = place[np.frombuffer(text, dtype=np.uint8)]
    trained = len(ids) - len(ids) // 10
    ids[:trained].tofile(folder / "train.bin")
    ids[trained:].tofile(folder / "val.bin")
    names = [chr(byte) for byte in characters]
    with open(folder / "meta.pkl", "wb") as file:
        pickle.dump({"vocab_size": len(names), "itos": dict(enumerate(names)),
                     "stoi": {name: i for i, name in enumerate(names)}}, file)


def run_nanogpt(args: argparse.Namespace, seed: int) -> list[tuple[int, float]]:
    settings = SETTINGS | {"dataset": DATASET, "max_iters": args.steps, "lr_decay_iters": args.steps, "beta2": args.beta2,
                           "out_dir": str(args.out / f"nanogpt_{seed}")}
    # Its seed stands in train.py, and no option changes it: this is the same file with another number.
    script = args.nanogpt / f"train_seed_{seed}.py"
    source = (args.nanogpt / "train.py").read_text(encoding="utf-8")
    changed = source.replace("torch.manual_seed(1337", f"torch.manual_seed({1337 + seed}")
    if changed == source and seed:
        sys.exit(f"nanogpt_char.py: {args.nanogpt}/train.py sets no seed of 1337, so that its runs would all be one")
    script.write_text(changed, encoding="utf-8")
    try:
        done = subprocess.run([sys.executable, script.name, *(f"--{name}={value}" for name, value in settings.items())],
                              cwd=args.nanogpt, capture_output=True, text=True)
    finally:
        script.unlink()
    if done.returncode:
        sys.exit(f"nanogpt_char.py: nanoGPT failed:\n{done.stderr[-2000:]}")
    rows = [(int(step), float(train), float(val)) for step, train, val in STEP.findall(done.stdout)]
    with open(args.out / f"nanogpt_{seed}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("step", "train_loss", "val_loss"), *rows])
    return [(step, val) for step, _, val in rows]


def run_train(args: argparse.Namespace, seed: int) -> list[tuple[int, float]]:
    path = args.out / f"train_{seed}.csv"
    subprocess.run([args.train, "--data", args.data, "--config", "small", "--steps", str(args.steps), "--batch", "64",
                    "--context", "256", "--dropout", "0.2", "--rate", "1e-3", "--warmup", "100", "--clip", "1",
                    "--decay-steps", str(args.steps), "--decay", "0.1", "--eval-every", "250", "--eval-batches", "200", "--seed", str(seed + 1),
                    "--events", "fastest", "--csv", str(path), "--svg", str(path.with_suffix(".svg"))],
                   check=True, stdout=subprocess.DEVNULL)
    with open(path, newline="", encoding="utf-8") as file:
        return [(int(row["step"]), float(row["val_loss"])) for row in csv.DictReader(file) if row["val_loss"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--nanogpt", required=True, type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--beta2", type=float, default=0.99)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("nanogpt_char"))
    args = parser.parse_args()
    args.train = os.path.abspath(args.train)
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    prepare(args.nanogpt, Path(args.data).read_bytes())
    found = {"nanoGPT": [run_nanogpt(args, seed) for seed in args.seeds],
             "train": [run_train(args, seed) for seed in args.seeds]}
    print(f"| | least validation loss, mean of {len(args.seeds)} | each | at step | last |\n| --- | --- | --- | --- | --- |")
    for name, runs in found.items():
        best = [min(run, key=lambda point: point[1]) for run in runs]
        print(f"| {name} | {statistics.mean(loss for _, loss in best):.4f} | {', '.join(f'{loss:.4f}' for _, loss in best)} | "
              f"{', '.join(str(step) for step, _ in best)} | {statistics.mean(run[-1][1] for run in runs):.4f} |")


main()
