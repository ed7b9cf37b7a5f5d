#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""How many tokens a second does PyTorch train GPT-2 124M on? 64 sequences of 1024 tokens a step.

bench/gpt/pytorch_tokens_per_second.py --data FILE [--compile] [--steps N] [--warmup N] [--batch N]

bf16 by autocast, flash attention by scaled_dot_product_attention, AdamW in one kernel, gradients clipped at 1. A batch
comes from a mapped file of uint16 tokens through page-locked memory, one ahead. The last line is JSON; its time is that
of all steps after the warm-up, with their batches.
"""
import argparse
import json
import os
import time

import numpy as np
import torch

from gpt2 import GPT2_124M, Gpt2


def opened(path: str) -> np.ndarray:
    """Maps the tokens of a file with or without llm.c's header."""
    header = np.fromfile(path, dtype=np.int32, count=1)
    return np.memmap(path, dtype=np.uint16, mode="r", offset=1024 if header[0] == 20240520 else 0)


class Batches:
    def __init__(self, tokens: np.ndarray, batch: int, context: int):
        self.tokens, self.batch, self.context = tokens, batch, context
        self.random = np.random.default_rng(1)

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        at = self.random.integers(0, len(self.tokens) - self.context, self.batch)
        windows = torch.from_numpy(self.tokens[at[:, None] + np.arange(self.context + 1)].astype(np.int64)).pin_memory()
        windows = windows.to("cuda", non_blocking=True)
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2(GPT2_124M).cuda()
    optimizer = torch.optim.AdamW(model.decayed(0.1), lr=3e-4, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model) if args.compile else model
    batches = Batches(opened(args.data), args.batch, GPT2_124M.context)
    x, targets = batches.next()
    losses = []
    start = 0.0
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            torch.cuda.synchronize()
            start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(x, targets, padded=True)
        x, targets = batches.next()  # while the GPU works
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    print(json.dumps({"tokens_per_s": args.steps * args.batch * GPT2_124M.context / seconds,
                      "loss": [value.item() for value in losses], "compiled": args.compile, "torch": torch.__version__,
                      "gpu": torch.cuda.get_device_name(), "cpus": os.cpu_count(),
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


main()
