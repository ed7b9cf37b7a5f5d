# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Asks clang-format-19, for which .clang-format is written, whether all sources are as it would write them.

check_format.py ROOT; exits with 77 (skipped) if there is no clang-format-19.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tree_files import tree_files

root = Path(sys.argv[1])
tool = shutil.which("clang-format-19")
if not tool:
    print("there is no clang-format-19")
    sys.exit(77)
sources = [path for path in tree_files(root) if path.suffix in {".hpp", ".cuh", ".cpp", ".cu"}]
if not sources:
    sys.exit(f"{root}: no sources found")
style = f"--style=file:{root / '.clang-format'}"
run = subprocess.run([tool, style, "--dry-run", "-Werror", *sources], capture_output=True, text=True)
wrong = sorted(set(re.findall(r"^(.+?):\d+:\d+: error: ", run.stderr, re.MULTILINE)))
if wrong:
    print(f"not as {tool} writes them:", *wrong, f"Cure: {tool} -i", sep="\n")
print(f"{len(sources)} files looked at" if run.returncode == 0 or wrong else run.stderr)
sys.exit(run.returncode)
