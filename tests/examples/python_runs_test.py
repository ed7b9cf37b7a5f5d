# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what a training program asks of the Python module, on the host: python_runs_test.py FOLDER, where it lies.

Resume, ranks, the Report, Ctrl-C, the GIL, weights and archives; PyTorch and JAX, where they are. Exits with 77
(skipped) without NumPy.
"""
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("there is no NumPy")
    sys.exit(77)
sys.path.insert(0, sys.argv[1])
import penstock  # noqa: E402

work = tempfile.TemporaryDirectory()
folder = Path(work.name)
path = folder / "numbers.npy"
np.save(path, np.arange(1000))


def error_of(call) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def taken(loader) -> list:
    return [np.from_dlpack(rows).tolist() for rows in loader]


def check_position():
    options = {"batch": 64, "shuffle": 7, "epochs": 2}
    whole = taken(penstock.arrays(path, **options))
    loader = penstock.arrays(path, **options)
    assert loader.position.startswith("penstock-position 1 ")
    for i in range(20):
        assert np.from_dlpack(next(loader)).tolist() == whole[i]
    for position in loader.position, loader.position + "\n":  # as a file has it
        rest = penstock.arrays(path, **options)
        rest.position = position
        assert taken(rest) == whole[20:]
    assert "this run has begun" in error_of(lambda: setattr(loader, "position", ""))
    assert "RuntimeError: penstock: " in error_of(lambda: setattr(penstock.arrays(path), "position", "nonsense"))
    other = penstock.arrays(path, batch=64, shuffle=8)
    other.position = loader.position
    assert "RuntimeError: penstock: " in error_of(lambda: next(other))


def check_ranks():
    shares = [sum(taken(penstock.arrays(path, batch=100, shuffle=7, ranks=(rank, 4))), []) for rank in range(4)]
    assert [len(share) for share in shares] == [250] * 4 and sorted(sum(shares, [])) == list(range(1000))
    told = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    os.environ.update(told)  # as torchrun does
    try:
        assert sum(taken(penstock.arrays(path, batch=100, shuffle=7)), []) == shares[1]
        assert len(sum(taken(penstock.arrays(path, ranks=(0, 1))), [])) == 1000
        os.environ["RANK"] = "4"
        assert "RuntimeError: penstock: RANK=4" in error_of(lambda: penstock.arrays(path))
    finally:
        for name in told:
            del os.environ[name]
    assert [len(rows) for rows in taken(penstock.arrays(path, batch=300, drop_last=True))] == [300] * 3


def check_report():
    loader = penstock.arrays(path, batch=100)
    taken(loader)
    report = loader.report_dict
    assert report["records"] == 1000 and [stage["kind"] for stage in report["stages"]] == ["reader", "stager", "loop"], report
    assert "reader" in loader.report.lower()


def check_devices():
    for wrong in "cuda:x", "gpu", True, 1.5, "cuda:", "1":
        assert "ValueError: penstock: device is" in error_of(lambda: penstock.arrays(path, device=wrong)), wrong
    assert len(taken(penstock.arrays(path, device="cpu"))) == 4
    if "this process has no GPU" not in (text := error_of(lambda: penstock.arrays(path, device="cuda"))):
        assert not text or "was built without CUDA" in text, text


def check_ctrl_c():
    """A child waits for a batch that its own held ones keep from coming, and gets the signal there."""
    child = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {sys.argv[1]!r})
import penstock
loader = penstock.arrays({str(path)!r}, batch=10, depth=4, lease_wait=60)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    held = list(loader)
except KeyboardInterrupt:
    assert time.monotonic() - begin < 20
    position = loader.position
    try:
        next(loader)
    except RuntimeError as error:
        assert "Ctrl-C ended this run" in str(error), error
        rest = penstock.arrays({str(path)!r}, batch=10, depth=4)
        rest.position = position
        print("interrupted", position, sum(rows.shape[0] for rows in rest))
"""
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.startswith("interrupted"), done
    assert int(done.stdout.split()[-1]) == 960, done.stdout  # 4 batches were given


def check_gil():
    """While one thread waits for a batch, another goes on."""
    loader = penstock.arrays(path, batch=10, depth=4, lease_wait=0.5)
    counted = []
    done = threading.Event()

    def count():
        while not done.is_set():
            counted.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    assert "held" in error_of(lambda: list(loader))
    done.set()
    thread.join()
    assert sum(begin < at for at in counted) > 50, len(counted)


def check_weights():
    arrays = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7, np.int64),
              "c": np.arange(3, dtype=np.uint8), "empty": np.zeros((0, 2), np.float16),
              "large": np.arange(3_000_000, dtype=np.int32).reshape(3, -1)}
    kinds = {"float32": "F32", "int64": "I64", "uint8": "U8", "float16": "F16", "int32": "I32"}
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()))
    got = penstock.weights(file, into=np.from_dlpack)
    assert got.keys() == arrays.keys()
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype and np.array_equal(got[name], array), name
        assert got[name].ctypes.data % 256 == 0 or array.size == 0, name
    one = got["large"]
    del got
    assert np.array_equal(one, arrays["large"])  # the memory lives with any of them
    file.write_bytes(file.read_bytes()[:-1])
    assert "RuntimeError: penstock: " in error_of(lambda: penstock.weights(file))


def check_tar():
    """Needs Pillow, to make files; and TurboJPEG, or there is no tar()."""
    try:
        from PIL import Image
    except ImportError:
        return
    with tarfile.open(folder / "train.tar", "w") as archive:
        for i in range(10):
            picture = io.BytesIO()
            Image.new("RGB", (40, 30), (20 * i, 100, 7)).save(picture, "jpeg")
            for ending, content in ("jpg", picture.getvalue()), ("cls", str(i).encode()):
                member = tarfile.TarInfo(f"sample{i:03}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    seen = []
    for images, classes in penstock.tar([folder / "train.tar"], size=16, batch=4, shuffle=3, into=np.from_dlpack):
        assert images.shape[1:] == (3, 16, 16)
        assert all(abs(int(image[0, 8, 8]) - 20 * number) < 8 for image, number in zip(images, classes))
        seen += classes.tolist()
        del images, classes
    assert sorted(seen) == list(range(10)) and seen != sorted(seen)


def check_torch():
    try:
        import torch
    except ImportError:
        return print("there is no PyTorch: not checked")
    got = torch.cat([rows.clone() for rows in penstock.arrays(path, batch=64, shuffle=7, into=torch.from_dlpack)])
    assert got.dtype == torch.int64 and torch.equal(got.sort().values, torch.arange(1000))
    floats = folder / "floats.npy"
    np.save(floats, np.arange(640, dtype=np.float32).reshape(64, 10))
    weight = torch.ones(10, requires_grad=True)
    losses = []
    for x in penstock.arrays(floats, batch=8, depth=9, into=torch.from_dlpack):
        losses.append((x * weight).sum())  # the graph keeps the batch
        del x
    torch.stack(losses).sum().backward()
    assert torch.equal(weight.grad, torch.arange(640.0).reshape(64, 10).sum(0))


def check_jax():
    try:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
    except ImportError:
        return print("there is no JAX: not checked")
    got = [jax.numpy.array(jax.dlpack.from_dlpack(rows)) for rows in penstock.arrays(path, batch=100)]
    assert np.array_equal(np.concatenate(got), np.arange(1000))


check_position()
check_ranks()
check_report()
check_devices()
check_ctrl_c()
check_gil()
check_weights()
if hasattr(penstock, "tar"):
    check_tar()
check_torch()
check_jax()
print("runs of the module of examples/python/ do what they should")
