#!/usr/bin/env python3
# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What images_bench does, by PyTorch: ImageFolder and a DataLoader, the middle of each picture, 224 x 224, as bytes.

bench/images.py FOLDER WORKERS

FOLDER has folders of files. "pillow" decodes and resizes by Pillow, "torchvision" by torchvision.io and its antialiased
resize. Workers persist; the first epoch warms up, and five follow, whose median is printed in images a second.
"""
import statistics
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.functional import InterpolationMode, resized_crop

SIDE = 224


def by_pillow(picture) -> torch.Tensor:
    width, height = picture.size
    least = min(width, height)
    left, top = (width - least) // 2, (height - least) // 2
    small = picture.resize((SIDE, SIDE), 2, (left, top, left + least, top + least))
    return torch.from_numpy(np.asarray(small).transpose(2, 0, 1).copy())


def by_torchvision(path: str) -> torch.Tensor:
    picture = decode_image(path, ImageReadMode.RGB)
    _, height, width = picture.shape
    least = min(width, height)
    return resized_crop(picture, (height - least) // 2, (width - least) // 2, least, least, [SIDE, SIDE],
                        InterpolationMode.BILINEAR, antialias=True)


def main() -> None:
    folder, workers = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    ways = {"pillow": ImageFolder(folder, by_pillow), "torchvision": ImageFolder(folder, by_torchvision, loader=str)}
    for name, pictures in ways.items():
        loader = DataLoader(pictures, batch_size=256, shuffle=True, num_workers=workers, persistent_workers=True, pin_memory=True)
        rates = []
        for _ in range(6):
            begin = time.perf_counter()
            count = sum(len(labels) for _, labels in loader)
            rates.append(count / (time.perf_counter() - begin))
        print(f"{name}: {statistics.median(rates[1:]):.0f} images a second, {workers} workers: "
              + " ".join(f"{rate:.0f}" for rate in rates[1:]), flush=True)


if __name__ == "__main__":
    main()
