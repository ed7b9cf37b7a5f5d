# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the Python module's batches on a GPU, with PyTorch: python_gpu_test.py FOLDER, where the module lies.

Exits with 77 (skipped) where PyTorch sees no GPU.
"""
import gc
import os
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError:
    print("there is no PyTorch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("PyTorch sees no GPU")
    sys.exit(77)
sys.path.insert(0, sys.argv[1])
import penstock  # noqa: E402

work = tempfile.TemporaryDirectory()
folder = Path(work.name)
rows = np.random.default_rng(1).standard_normal((4096, 1024), dtype=np.float32)
path = str(folder / "rows.npy")
np.save(path, rows)
on_gpu = torch.from_numpy(rows).cuda()


def loader(batch=64, device="cuda:0", **options):
    return penstock.arrays(path, batch=batch, device=device, **options)


def check_all():
    for options in {}, {"stream": torch.cuda.Stream().cuda_stream}:  # of the default stream, and of another
        got = torch.cat([torch.from_dlpack(rows).clone() for rows in loader(**options)])
        assert got.device == torch.device("cuda:0") and torch.equal(got, on_gpu), options
    got = torch.cat([rows.clone() for rows in loader(shuffle=7, device=0, into=torch.from_dlpack)])
    assert not torch.equal(got, on_gpu) and torch.equal(got.sort(0).values, on_gpu.sort(0).values)
    first = next(loader())
    assert first.__dlpack_device__() == (2, 0) and first.shape == (64, 1024)


def check_kept_by_autograd():
    """Graphs keep their batches past the loop's steps, and gradients come out of them later."""
    weight = torch.ones(1024, device="cuda", requires_grad=True)
    losses = []
    wanted = torch.zeros(1024, device="cuda", dtype=torch.float64)
    for i, x in enumerate(loader(depth=16, into=torch.from_dlpack)):
        if i % 8 == 3:
            losses.append((x * weight).sum())  # the graph has x itself
            wanted += on_gpu[64 * i:64 * i + 64].double().sum(0)
        del x
    torch.stack(losses).sum().backward()
    assert len(losses) == 8 and torch.allclose(weight.grad.double(), wanted, atol=1e-3)


def check_two_streams():
    """A slow consumer on a stream of its own reads what the loop gave it, whatever comes meanwhile."""
    side = torch.cuda.Stream()
    sums = []
    for batch in loader(depth=2):
        with torch.cuda.stream(side):
            x = torch.from_dlpack(batch)
            torch.cuda._sleep(200_000)
            sums.append(x.double().sum())
        y = torch.from_dlpack(batch)  # and the loop's stream reads it, too
        sums.append(y.double().sum())
        del batch, x, y
    torch.cuda.synchronize()
    wanted = on_gpu.double().view(64, -1).sum(1)
    assert torch.allclose(torch.stack(sums[::2]), wanted) and torch.allclose(torch.stack(sums[1::2]), wanted)
    rows = next(loader())
    with torch.cuda.stream(side):
        torch.from_dlpack(rows)
    with torch.cuda.stream(torch.cuda.Stream()):
        try:
            torch.from_dlpack(rows)
            raise AssertionError("a third stream was taken")
        except RuntimeError as error:
            assert "penstock: " in str(error), error


def check_graph():
    """A step is captured once, and replayed for each batch. A batch dies while the capture goes on."""
    weight = torch.randn(1024, 256, device="cuda")
    static = torch.zeros(64, 1024, device="cuda")
    step = lambda: (static @ weight).relu().sum(1)  # noqa: E731
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    batches = loader()
    held = torch.from_dlpack(next(batches))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
        del held
        gc.collect()
    for i, batch in enumerate(batches, 1):
        static.copy_(torch.from_dlpack(batch))
        del batch
        graph.replay()
        assert torch.allclose(result, (on_gpu[64 * i:64 * i + 64] @ weight).relu().sum(1), rtol=1e-3, atol=1e-2), i
    assert i == 63


def check_lives():
    """A tensor outlives its loader, also on another thread's stream; the protocol's streams are as it says."""
    batches = loader()
    batch = next(batches)
    x = torch.from_dlpack(batch)
    for stream in None, 1, -1, 2:
        batch.__dlpack__(stream=stream)
        batch = next(batches)
    try:
        batch.__dlpack__(stream=0)
        raise AssertionError("stream 0 was taken")
    except RuntimeError as error:
        assert "named stream 0" in str(error), error
    del batches, batch
    gc.collect()
    assert torch.equal(x, on_gpu[:64])


def check_page():
    """What docs/handover.md shows."""
    try:
        from PIL import Image
        from safetensors.torch import save_file
    except ImportError:
        print("there is no Pillow, or no safetensors: not checked")
        return
    os.chdir(folder)
    for name in "cat", "dog":
        Path("train", name).mkdir(parents=True)
        for i in range(200):
            Image.new("RGB", (300, 300), (i, 100, 7)).save(f"train/{name}/{i:03}.jpg")
    model = torch.nn.Linear(8, 4).cuda()
    save_file({"weight": torch.ones(4, 8), "bias": torch.zeros(4)}, "model.safetensors")
    seen = []

    def step(images, labels):
        assert images.is_cuda and images.shape[1:] == (3, 224, 224) and images.dtype == torch.uint8
        assert (images[:, 1, 100, 100].int() - 100).abs().max() < 8
        seen.append((images[:, 0, 100, 100].int(), labels.clone()))

    for images, labels in penstock.images("train", batch=256, shuffle=7, device=0, into=torch.from_dlpack):
        step(images, labels)
    model.load_state_dict(penstock.weights("model.safetensors", device=0, into=torch.from_dlpack))
    reds, labels = (torch.cat(of) for of in zip(*seen))
    assert len(labels) == 400 and labels.sum() == 200 and (reds.sort().values - torch.arange(200, device="cuda").repeat_interleave(2)).abs().max() < 8
    assert (model.weight == 1).all() and (model.bias == 0).all()


def check_weights():
    try:
        from safetensors.torch import save_file
    except ImportError:
        print("there is no safetensors")
        return
    model = {f"layer.{i}": torch.randn(1000 + i, 333).to(kind)
             for i, kind in enumerate((torch.float32, torch.bfloat16, torch.float16, torch.int64))}
    save_file(model, folder / "model.safetensors")
    got = penstock.weights(folder / "model.safetensors", device=0, into=torch.from_dlpack)
    assert got.keys() == model.keys()
    for name, tensor in model.items():
        assert got[name].is_cuda and got[name].dtype == tensor.dtype and torch.equal(got[name].cpu(), tensor), name
    got["layer.0"].add_(1)  # they may be written to


for check in check_all, check_kept_by_autograd, check_two_streams, check_graph, check_lives, check_page, check_weights:
    check()
    torch.cuda.synchronize()
    print(f"{check.__name__}: right", flush=True)
