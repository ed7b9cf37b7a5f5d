# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the Python module of examples/python/: python_test.py FOLDER, where the module lies.

Exits with 77 (skipped) without NumPy.
"""
import gc
import sys
import tempfile
import threading
import time
import weakref
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


def error_of(call) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def file_of(array) -> str:
    path = folder / f"{array.dtype}.npy"
    np.save(path, array)
    return str(path)


def check_arrays():
    for kind in "float32", "int64", "uint8", "float16", "bool":
        array = np.arange(1000 * 6).reshape(1000, 2, 3).astype(kind)
        path = file_of(array)
        got = [np.from_dlpack(rows).copy() for rows in penstock.arrays(path, batch=64)]
        assert [len(rows) for rows in got] == [64] * 15 + [40], got
        assert got[0].dtype == array.dtype and np.array_equal(np.concatenate(got), array), kind
    values = np.arange(1000)  # of one dimension, shuffled, in two epochs
    path = file_of(values)
    got = np.concatenate([np.from_dlpack(rows).copy() for rows in penstock.arrays(path, batch=50, shuffle=7, epochs=2)])
    assert not np.array_equal(got[:1000], values) and not np.array_equal(got[:1000], got[1000:])
    assert all(np.array_equal(np.sort(epoch), values) for epoch in np.split(got, 2))
    return path


def check_protocol(path: str):
    loader = penstock.arrays(path, batch=10)
    rows = next(loader)
    assert rows.__dlpack_device__() == (1, 0)
    for version, name in (None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"):
        assert f'"{name}"' in repr(rows.__dlpack__(max_version=version)), name  # a capsule that nobody uses
    assert not np.from_dlpack(rows).flags.writeable
    assert "has no stream" in error_of(lambda: rows.__dlpack__(stream=1))
    assert "BufferError" in error_of(lambda: rows.__dlpack__(copy=True))
    assert "BufferError" in error_of(lambda: rows.__dlpack__(dl_device=(2, 0)))
    assert "records" in loader.report


def check_arguments(path: str):
    first = np.arange(10)
    rows = next(penstock.arrays(Path(path), batch=10))
    assert rows.shape == (10,) and repr(rows) == "penstock.Tensor(shape=(10,))", repr(rows)
    assert np.array_equal(np.asarray(rows), first) and not np.asarray(rows).flags.writeable
    assert np.array(rows).flags.writeable and np.asarray(rows, dtype="float32").dtype == np.float32
    assert rows.__array__(copy=True).flags.writeable
    assert "ValueError" in error_of(lambda: rows.__array__("float32", copy=False))
    for shuffle in True, False, -1, "7":
        text = error_of(lambda: penstock.arrays(path, shuffle=shuffle))
        assert "TypeError: penstock: shuffle is a seed" in text, text
    assert "ValueError: penstock: lease_wait is nan" in error_of(lambda: penstock.arrays(path, lease_wait=float("nan")))
    for wait in -1.0, float("-inf"):
        assert "held" in error_of(lambda: list(penstock.arrays(path, batch=10, lease_wait=wait))), wait
    for wait in float("inf"), 1e300:
        loader = penstock.arrays(path, batch=500, lease_wait=wait)
        assert sum(rows.shape[0] for rows in loader) == 1000, wait


def check_first_batch(path: str):
    """Of several threads that ask for it at once, one has the run, and the others an error."""
    for _ in range(50):
        loader = penstock.arrays(path, batch=10, depth=64)
        together = threading.Barrier(4)
        got = []

        def ask():
            together.wait()
            text = error_of(lambda: got.append(next(loader).shape[0]))
            together.wait()  # the run is not over before all have asked
            got.append(text or sum(rows.shape[0] for rows in loader))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got.count(10) == 1 and got.count(990) == 1, got
        assert sum("this run began on another thread" in str(text) for text in got) == 3, got


def check_lives(path: str):
    loader = penstock.arrays(path, batch=10)
    rows = np.from_dlpack(next(loader))
    del loader
    gc.collect()
    assert rows.tolist() == list(range(10))  # outlives its loader

    def later(kept):
        time.sleep(0.002)
        kept.clear()

    threads = []
    got = 0
    for rows in penstock.arrays(path, batch=10):
        kept = [np.from_dlpack(rows)]
        got += len(kept[0])
        threads.append(threading.Thread(target=later, args=(kept,)))
        threads[-1].start()
        del rows, kept
    for thread in threads:
        thread.join()
    assert got == 1000


def check_cycles(path: str):
    """A loader whose `into` leads back to it ends with them, and its threads too."""

    class Trainer:
        def __init__(self):
            self.loader = penstock.arrays(path, batch=10, into=self.take)

        def take(self, rows):
            return np.from_dlpack(rows)

    trainer = Trainer()
    assert next(trainer.loader).tolist() == list(range(10))
    left = weakref.ref(trainer)
    threads = Path("/proc/self/task")
    running = len(list(threads.iterdir()))
    del trainer
    gc.collect()
    assert left() is None and len(list(threads.iterdir())) < running


def check_errors(path: str):
    kept = error_of(lambda: list(penstock.arrays(path, batch=10, lease_wait=0.02)))
    assert "RuntimeError: penstock: " in kept and "held" in kept, kept
    missing = error_of(lambda: next(penstock.arrays(str(folder / "none.npy"))))
    assert "RuntimeError: penstock: " in missing and "none.npy" in missing, missing
    loader = penstock.arrays(path, batch=10)
    next(loader)
    texts = []
    thread = threading.Thread(target=lambda: texts.append(error_of(lambda: next(loader))))
    thread.start()
    thread.join()
    assert "this run began on another thread" in texts[0], texts


def check_tokens():
    (folder / "tokens.bin").write_bytes(np.arange(10_000, dtype=np.uint16).tobytes())
    windows = [np.from_dlpack(rows).copy() for rows in penstock.tokens([folder / "tokens.bin"], length=9, batch=16)]
    assert windows[0].shape == (16, 9) and windows[0].dtype == np.uint16
    assert windows[3][2].tolist() == list(range(400, 409))


def check_images():
    """Needs Pillow, to make files; and TurboJPEG, or there is no images()."""
    try:
        from PIL import Image
    except ImportError:
        return
    for name in "cat", "dog":
        (folder / "pictures" / name).mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (40, 30), (40 * i, 100, 7)).save(folder / "pictures" / name / f"{i}.jpg")
    labels_seen = []
    for images, labels in penstock.images(folder / "pictures", size=16, batch=4, shuffle=1):
        pixels = np.from_dlpack(images)
        assert pixels.shape[1:] == (3, 16, 16) and pixels.dtype == np.uint8, pixels.shape
        assert abs(int(pixels[0, 1, 8, 8]) - 100) < 8
        labels_seen += np.from_dlpack(labels).tolist()
        del images, labels, pixels
    assert sorted(labels_seen) == [0] * 5 + [1] * 5, labels_seen


path = check_arrays()
check_protocol(path)
check_arguments(path)
check_first_batch(path)
check_lives(path)
check_cycles(path)
check_errors(path)
check_tokens()
if hasattr(penstock, "images"):
    check_images()
print("the module of examples/python/ does what it should")
