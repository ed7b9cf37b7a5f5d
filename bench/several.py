# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""What bench/run does around several_bench: a tmpfs of huge pages while it runs, and other programs on the same GPUs after it."""
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ALSO = ["{build}/examples/18_load_weights --json --gpus {gpus}"]


@contextmanager
def huge_tmpfs() -> Iterator[str]:
    """Gives a folder in a tmpfs of huge pages; empty if none can be mounted, as where this is not root."""
    with tempfile.TemporaryDirectory(prefix="penstock-huge-") as folder:
        mounted = False
        if os.geteuid() == 0 and shutil.which("mount"):
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always", "penstock", folder], capture_output=True,
                                     check=False).returncode == 0
        try:
            yield folder if mounted else ""
        finally:
            if mounted:
                subprocess.run(["umount", folder], check=False)


def commands(asked: list[str]) -> list[str]:
    """Returns what is to be run after the benchmark: what always is, and what was asked for."""
    return ALSO + asked


def run_also(asked: list[str], names: dict[str, str], result: Path, limit: int) -> list[str]:
    """Runs them, adds their times and what they print to the result file, and returns what failed."""
    done, failures = [], []
    for template in commands(asked):
        words = [word.format(**names) for word in shlex.split(template)]
        begin = time.monotonic()
        try:
            ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=limit)
            code, said, error = ran.returncode, ran.stdout, ran.stderr
        except (OSError, subprocess.TimeoutExpired) as why:
            code, said, error = -1, "", str(why)
        done.append({"command": shlex.join(words), "seconds": time.monotonic() - begin, "exit_code": code, "stdout": said[-20000:],
                     "stderr": error[-4000:]})
        if code != 0:
            failures.append(f"{shlex.join(words)}: {error.strip()[-400:] or f'exit code {code}'}")
    if done and result.exists():
        content = json.loads(result.read_text(encoding="utf-8"))
        content["also"] = done
        result.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return failures
