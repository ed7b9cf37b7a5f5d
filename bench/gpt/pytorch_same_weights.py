#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Has train the same loss and gradients as PyTorch, from the same weights and tokens?

bench/gpt/pytorch_same_weights.py --train PROGRAM --data FILE [--config NAME] [--batch N] [--steps N]
bench/gpt/pytorch_same_weights.py --checkpoint FILE --gradients FILE [--bf16]

The first way trains for some steps, so that no gradient is zero by chance. Then `train --resume --dump-gradients` goes
one batch further, in floats (--events none) and in bf16 (--events fastest). The second way takes what was written before.

A tensor's error is the length of the difference over the length of PyTorch's gradient, which is computed in floats, or,
for bf16, under autocast. An error beyond 1e-3 in floats, or 2e-2 in bf16, makes the exit code 1. For bf16 two more
columns say how far train and PyTorch's autocast are from PyTorch's gradient in floats: each of them rounds.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import torch

from gpt2 import Gradients, load, load_gradients

LIMITS = {torch.float32: 1e-3, torch.bfloat16: 2e-2}


def pytorch(checkpoint: str, gradients: Gradients, dtype: torch.dtype, device: str) -> tuple[float, dict[str, torch.Tensor]]:
    """Returns the loss and the gradients that PyTorch computes, in floats or under autocast."""
    model = load(checkpoint).to(device)
    if model.config != gradients.config:
        sys.exit(f"pytorch_same_weights.py: {checkpoint} has {model.config}, and the gradients are of {gradients.config}")
    with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = model(gradients.x.to(device), gradients.targets.to(device))
    loss.backward()
    return loss.item(), {name: parameter.grad.float().cpu() for name, parameter in model.in_llm_c_order()}


def errors(found: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]) -> dict[str, float]:
    lengths = {name: tensor.norm().item() for name, tensor in reference.items()}
    return {name: (found[name] - tensor).norm().item() / (lengths[name] or 1) for name, tensor in reference.items()}


def compare(checkpoint: str, gradients: Gradients, dtype: torch.dtype, device: str) -> bool:
    """Prints each tensor's error, and returns whether all are small enough."""
    loss, reference = pytorch(checkpoint, gradients, dtype, device)
    off = errors(gradients.tensors, reference) | {"loss": abs(gradients.loss - loss) / abs(loss)}
    limit = LIMITS[dtype]
    # A comparison with NaN is false, so that one counts as beyond the limit.
    beyond = {name for name, error in off.items() if not error <= limit}
    print(f"{dtype}: loss {gradients.loss:.6f}, by PyTorch {loss:.6f}; limit {limit:g}")
    columns = [off]
    if dtype == torch.bfloat16:
        in_floats, exact = pytorch(checkpoint, gradients, torch.float32, device)
        columns += [errors(gradients.tensors, exact) | {"loss": abs(gradients.loss - in_floats) / abs(in_floats)},
                    errors(reference, exact) | {"loss": abs(loss - in_floats) / abs(in_floats)}]
        print(f"  {'':28} off from PyTorch in bf16; from PyTorch in floats: train, PyTorch in bf16")
        print(f"  {'the worst of each':28}" + "".join(f" {max(column.values()):10.2e}" for column in columns))
    for name in sorted(off, key=lambda name: -off[name])[:10]:
        row = "".join(f" {column[name]:10.2e}" for column in columns)
        print(f"  {name:28}{row}{'  beyond the limit' if name in beyond else ''}")
    print(f"  {len(off) - len(beyond)} of {len(off)} are within the limit")
    return not beyond


def train(program: str, *options: str):
    subprocess.run([program, *options], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train")
    parser.add_argument("--data")
    parser.add_argument("--config", default="124M")
    parser.add_argument("--batch", default="8")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpoint")
    parser.add_argument("--gradients")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    if args.checkpoint and args.gradients:
        dtype = torch.bfloat16 if args.bf16 else torch.float32
        sys.exit(not compare(args.checkpoint, load_gradients(args.gradients), dtype, args.device))
    if not (args.train and args.data):
        parser.error("give --train and --data, or --checkpoint and --gradients")
    same = True
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "checkpoint.bin")
        file = os.path.join(folder, "gradients.bin")
        common = ["--data", args.data, "--config", args.config, "--batch", args.batch, "--dropout", "0", "--eval-every", "0"]
        train(args.train, *common, "--steps", str(args.steps), "--events", "fastest", "--checkpoint", checkpoint)
        for events, dtype in (("none", torch.float32), ("fastest", torch.bfloat16)):
            train(args.train, *common, "--steps", str(args.steps + 1), "--events", events, "--resume", checkpoint,
                  "--dump-gradients", file)
            same = compare(checkpoint, load_gradients(file), dtype, args.device) and same
    sys.exit(not same)


main()
