# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that torchrun's ranks share the records: python_ranks_test.py FOLDER, where the module lies.

Starts two by torchrun. Each takes a GPU of its own if there are as many, else host memory. Exits with 77 (skipped)
without PyTorch.
"""
import os
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    import torch.distributed as dist
except ImportError:
    print("there is no PyTorch")
    sys.exit(77)
if "LOCAL_RANK" not in os.environ:
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *sys.argv])
sys.path.insert(0, sys.argv[1])
import penstock  # noqa: E402

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
gpus = torch.cuda.is_available() and torch.cuda.device_count() >= world
device = f"cuda:{rank}" if gpus else "cpu"
if gpus:
    torch.cuda.set_device(rank)
dist.init_process_group("nccl" if gpus else "gloo")
path = str(Path(tempfile.gettempdir()) / f"penstock-ranks-{os.getppid()}.npy")
if rank == 0:
    np.save(path, np.arange(10_000))
dist.barrier()
loader = penstock.arrays(path, batch=100, shuffle=7, device=device, into=torch.from_dlpack)
mine = torch.cat([rows.clone() for rows in loader])
assert mine.device == torch.device(device) and len(mine) == 10_000 // world, mine
everyone = [torch.empty_like(mine) for _ in range(world)]
dist.all_gather(everyone, mine)
assert torch.equal(torch.cat(everyone).sort().values.cpu(), torch.arange(10_000))
dist.barrier()
if rank == 0:
    os.unlink(path)
    print(f"{world} ranks on {'GPUs' if gpus else 'the host'} shared all records")
dist.destroy_process_group()
