# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Tells which files belong to the project."""
import os
import subprocess
from pathlib import Path

FOLDERS = [".ci", "bench", "docs", "examples", "include", "tests"]


def tree_files(root: Path) -> list[Path]:
    """Returns the files that git tracks or would add, in order; without git, all in the project's folders."""
    try:
        git = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *FOLDERS, ":(glob)*"],
            capture_output=True, text=True)
        if git.returncode == 0 and git.stdout:
            return sorted({path for name in git.stdout.split("\0") if name and (path := root / name).is_file()})
    except FileNotFoundError:
        pass
    found = [path for path in root.iterdir() if path.is_file()]
    for folder in FOLDERS:
        for where, folders, names in os.walk(root / folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += [Path(where) / name for name in names]
    return sorted(found)
