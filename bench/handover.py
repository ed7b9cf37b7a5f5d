#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""How much sooner does PyTorch have its batches on the GPU by the module of examples/python/ than by DataLoader?

bench/handover.py MODULE_FOLDER [--work FOLDER] [--small] [--rows ROW…] [--out JSON]

  images    JPEG files of 500 x 375, made here, to normalised float32 tensors of 256 x 3 x 224 x 224
  tokens    64 windows of 1025 tokens of 16 bits, shuffled, to 64-bit inputs and targets
  records   256 shuffled records of 150,528 bytes
  training  a ResNet-18 in bfloat16 on the images: the share of the time in which the GPU does not compute, by a step's
            time alone
  hand-over microseconds for a tensor by torch.from_dlpack()

DataLoader reads by the best of several ways and numbers of workers, which one epoch of each picks; workers persist, and
memory is page-locked. Then five epochs of each are interleaved, of which the median counts. --small is for a machine
without a GPU, to see whether the script runs.
"""
import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

SIDE, RECORD, WINDOW = 224, 3 * 224 * 224, 1025
GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
HOST_MEAN, HOST_DEVIATION = (torch.tensor(of).view(3, 1, 1) for of in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
MEAN, DEVIATION = (of.to(DEVICE).unsqueeze(0) for of in (HOST_MEAN, HOST_DEVIATION))


def sync():
    if GPU:
        torch.cuda.synchronize()


def normalized(pixels):
    return pixels.to(torch.float32).div_(255).sub_(MEAN).div_(DEVIATION)


def sent(*tensors):
    return [tensor.to(DEVICE, non_blocking=True) for tensor in tensors]


def make_pictures(folder: Path, first: int, count: int):
    from PIL import Image
    for i in range(first, first + count):
        random = np.random.default_rng(i)
        coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375), 3)
        pixels = np.asarray(coarse, np.int16) + random.integers(-12, 13, (375, 500, 3), dtype=np.int16)
        target = folder / f"{i % 16:02}"
        target.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(target / f"{i:05}.jpg", quality=90)


# What workers do to a picture: the middle, made small, as penstock does it.
def small_by_pillow(picture):
    width, height = picture.size
    least = min(width, height)
    left, top = (width - least) // 2, (height - least) // 2
    return picture.resize((SIDE, SIDE), 2, (left, top, left + least, top + least))


def bytes_by_pillow(picture):
    return torch.from_numpy(np.asarray(small_by_pillow(picture)).transpose(2, 0, 1).copy())


def floats_by_pillow(picture):  # ToTensor and Normalize, as most programs have it
    return bytes_by_pillow(picture).to(torch.float32).div_(255).sub_(HOST_MEAN).div_(HOST_DEVIATION)


def bytes_by_torchvision(path: str):
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms.functional import InterpolationMode, resized_crop
    picture = decode_image(path, ImageReadMode.RGB)
    _, height, width = picture.shape
    least = min(width, height)
    return resized_crop(picture, (height - least) // 2, (width - least) // 2, least, least, [SIDE, SIDE],
                        InterpolationMode.BILINEAR, antialias=True)


class Windows(Dataset):
    def __init__(self, path: str, length: int = WINDOW):
        self.data, self.length = np.memmap(path, np.uint16, "r"), length

    def __len__(self):
        return (len(self.data) - 1) // (self.length - 1)

    def __getitem__(self, i: int):
        at = i * (self.length - 1)
        return torch.from_numpy(self.data[at:at + self.length].astype(np.int64))


class Records(Dataset):
    def __init__(self, path: str):
        self.data = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i: int):
        return torch.from_numpy(np.array(self.data[i]))


def endless(loader):
    while True:
        yield from loader


class Contest:
    """Times DataLoaders and penstock over batches, `use(batch)` each, and keeps what came out."""

    def __init__(self, small: bool):
        self.results, self.repetitions = {}, 2 if small else 5
        self.workers = (0, 2) if small else (8, 16)

    def loader(self, dataset, batch: int, workers: int):
        return DataLoader(dataset, batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0, pin_memory=GPU,
                          prefetch_factor=4 if workers else None, drop_last=True)

    @staticmethod
    def rate(batches, use, most: int = 0) -> float:
        """Returns the batches a second of an epoch, or of the next `most`."""
        sync()
        begin = time.perf_counter()
        count = 0
        for batch in batches:
            use(batch)
            count += 1
            if count == most:
                break
        sync()
        return count / (time.perf_counter() - begin)

    def best_loader(self, datasets: dict, batch: int, uses: dict, most: int = 0):
        """With `most`, of batches, a loader goes on where it was, and has fetched ahead: else each time is an epoch."""
        found = []
        for name, dataset in datasets.items():
            for workers in self.workers:
                loader = self.loader(dataset, batch, workers)
                loader = endless(loader) if most else loader
                self.rate(loader, uses[name], most)  # starts the workers
                found.append((self.rate(loader, uses[name], most), f"{name}, {workers} workers", loader, uses[name]))
        print("   DataLoader: " + "; ".join(f"{how} {rate * batch:.0f}" for rate, how, _, _ in found), flush=True)
        return max(found, key=lambda one: one[0])[1:]

    def run(self, name: str, batch: int, how: str, old, new):
        rates = {"DataLoader": [], "penstock": []}
        for _ in range(self.repetitions):
            rates["DataLoader"].append(old() * batch)
            rates["penstock"].append(new() * batch)
        median = {who: statistics.median(all_of) for who, all_of in rates.items()}
        ratio = median["penstock"] / median["DataLoader"]
        self.results[name] = {"dataloader_by": how, "items_a_second": rates, "ratio": ratio}
        print(f"{name}: DataLoader ({how}) {median['DataLoader']:.0f}, penstock {median['penstock']:.0f} a second: {ratio:.1f} times; "
              + " | ".join(" ".join(f"{rate:.0f}" for rate in all_of) for all_of in rates.values()), flush=True)


def images(contest: Contest, penstock, folder: Path, small: bool):
    from torchvision.datasets import ImageFolder
    count = 64 if small else 4096
    with ProcessPoolExecutor() as pool:
        each = count // 16
        list(pool.map(make_pictures, [folder] * 16, range(0, count, each), [each] * 16))
    batch = 16 if small else 256
    ways = {"Pillow to floats": ImageFolder(folder, floats_by_pillow), "Pillow to bytes": ImageFolder(folder, bytes_by_pillow),
            "torchvision to bytes": ImageFolder(folder, bytes_by_torchvision, loader=str)}
    uses = {name: (lambda one: sent(*one)) if "floats" in name else (lambda one: (normalized(sent(one[0])[0]), sent(one[1])))
            for name in ways}
    how, loader, use = contest.best_loader(ways, batch, uses)

    def ours(epochs: int):
        for pixels, labels in penstock.images(folder, batch=batch, size=SIDE, shuffle=7, epochs=epochs, drop_last=True,
                                              device=DEVICE, into=torch.from_dlpack):
            yield normalized(pixels), labels

    contest.run("images", batch, how, lambda: contest.rate(loader, use), lambda: contest.rate(ours(2), lambda one: None))
    return loader, use, ours, batch


def training(contest: Contest, loader, use, ours, batch: int, small: bool):
    from torchvision.models import resnet18
    model = resnet18(num_classes=16).to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(pixels, labels):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE.split(":")[0], torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(pixels.contiguous(memory_format=torch.channels_last)), labels.long())
        loss.backward()
        optimizer.step()

    def alone(steps: int) -> float:
        pixels, labels = torch.randn(batch, 3, SIDE, SIDE, device=DEVICE), torch.zeros(batch, dtype=torch.int64, device=DEVICE)
        return 1 / contest.rate(((pixels, labels) for _ in range(steps)), lambda one: step(*one))

    def theirs():
        for one in loader:
            pixels, labels = use(one)
            yield pixels, labels[0] if isinstance(labels, list) else labels

    steps = 2 if small else 30
    alone(steps)
    idle = {"DataLoader": [], "penstock": []}
    compute = []
    for _ in range(2 if small else 3):
        compute.append(alone(steps))
        for name, batches in ("DataLoader", theirs()), ("penstock", ours(2)):
            idle[name].append(max(0.0, 1 - compute[-1] * contest.rate(batches, lambda one: step(*one))))
    contest.results["training"] = {"step_alone_s": compute, "idle": idle}
    print(f"training: a step alone takes {statistics.median(compute) * 1e3:.1f} ms; the GPU idles "
          + ", ".join(f"{100 * statistics.median(of):.1f} % with {name} ({' '.join(f'{100 * one:.1f}' for one in of)})"
                      for name, of in idle.items()), flush=True)


def tokens(contest: Contest, penstock, work: Path, small: bool):
    path, batch = str(work / "tokens.bin"), 64
    np.random.default_rng(1).integers(0, 50257, (1 << 20) if small else (1 << 27), dtype=np.uint16).tofile(path)

    def use(windows):
        windows, = sent(windows)
        return windows[:, :-1], windows[:, 1:]

    most = 10 if small else 500
    how, loader, use = contest.best_loader({"windows": Windows(path)}, batch, {"windows": use}, most)

    def ours(wide: bool):
        for windows in penstock.tokens([path], batch=batch, length=WINDOW, shuffle=7, drop_last=True, device=DEVICE, depth=16,
                                       into=torch.from_dlpack):
            if wide:
                windows = windows.long()
                yield windows[:, :-1], windows[:, 1:]
            else:
                yield windows

    for name, wide in ("tokens", True), ("tokens as they lie", False):
        contest.run(name, batch, how, lambda: contest.rate(loader, use, most),
                    lambda wide=wide: contest.rate(ours(wide), lambda one: None, 4 * most))


def records(contest: Contest, penstock, work: Path, small: bool):
    path, batch = str(work / "records.npy"), 256
    file = np.lib.format.open_memmap(path, "w+", np.uint8, (512 if small else 16384, RECORD))
    block = np.random.default_rng(2).integers(0, 256, (256, RECORD), dtype=np.uint8)
    for at in range(0, len(file), 256):
        file[at:at + 256] = block
    del file
    how, loader, use = contest.best_loader({"records": Records(path)}, batch, {"records": lambda one: sent(one)})

    def ours():
        return penstock.arrays(path, batch=batch, shuffle=7, epochs=4, drop_last=True, device=DEVICE, into=torch.from_dlpack)

    contest.run("records", batch, how, lambda: contest.rate(loader, use), lambda: contest.rate(ours(), lambda one: None))


def hand_over(contest: Contest, penstock, work: Path):
    np.save(work / "small.npy", np.zeros((256_000, 256), np.float32))
    times = []
    for batch in penstock.arrays(work / "small.npy", batch=64, device=DEVICE, depth=64):
        begin = time.perf_counter_ns()
        tensor = torch.from_dlpack(batch)
        times.append((time.perf_counter_ns() - begin) / 1e3)
        del tensor
    a_batch = 1e6 / contest.rate(penstock.arrays(work / "small.npy", batch=64, device=DEVICE, depth=64, into=torch.from_dlpack),
                                 lambda one: None)
    contest.results["hand_over"] = {"us_a_tensor": statistics.median(times), "us_a_batch": a_batch}
    print(f"hand-over: {statistics.median(times):.2f} us a tensor (torch.from_dlpack), {a_batch:.1f} us a batch of 64 KiB in all",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("module")
    parser.add_argument("--work", type=Path, default=Path("/tmp/penstock-handover"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rows", nargs="+", default=["hand-over", "tokens", "records", "images", "training"],
                        help="of these; training needs images")
    parser.add_argument("--out")
    args = parser.parse_args()
    sys.path.insert(0, args.module)
    import penstock
    args.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name() if GPU else 'no GPU'}, {os.cpu_count()} processors", flush=True)
    contest = Contest(args.small)
    if "hand-over" in args.rows:
        hand_over(contest, penstock, args.work)
    if "tokens" in args.rows:
        tokens(contest, penstock, args.work, args.small)
    if "records" in args.rows:
        records(contest, penstock, args.work, args.small)
    if "images" in args.rows:
        loaders = images(contest, penstock, args.work / "images", args.small)
        if "training" in args.rows:
            training(contest, *loaders, args.small)
    if args.out:
        context = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name() if GPU else "", "num_cpus": os.cpu_count(),
                   "commit": os.environ.get("PENSTOCK_COMMIT", "unknown")}
        Path(args.out).write_text(json.dumps({"context": context, "results": contest.results}, indent=1))


if __name__ == "__main__":
    main()
