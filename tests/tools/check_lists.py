# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the build's list of tests with the files on disk, both ways.

check_lists.py ROOT --tests x_test.cpp …
"""
import argparse
import sys
from pathlib import Path


def compare(what: str, listed: list[str], folder: Path, patterns: list[str], where: str) -> list[str]:
    on_disk = {str(path.relative_to(folder)) for pattern in patterns for path in folder.rglob(pattern)}
    wrong = [f"{what} {name} is on disk, but not listed in {where}" for name in sorted(on_disk - set(listed))]
    wrong += [f"{what} {name} is listed in {where}, but not on disk" for name in sorted(set(listed) - on_disk)]
    wrong += [f"{what} {name} is listed twice in {where}" for name in sorted(set(listed)) if listed.count(name) > 1]
    return wrong


args = argparse.ArgumentParser()
args.add_argument("root", type=Path)
args.add_argument("--tests", nargs="*", default=[])
args = args.parse_args()
if not args.tests:
    sys.exit("check_lists.py: the list is empty")
problems = compare("test", args.tests, args.root / "tests", ["*_test.cpp", "*_test.cu", "*_model.cpp"], "tests/meson.build")
print("\n".join(problems) or f"{len(args.tests)} tests are as listed")
sys.exit(bool(problems))
