# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 14_order goes on from a position as if it had not been killed, also with other ranks."""
import os
import random
import subprocess
from pathlib import Path

from running import LIMIT, refused


def check(program: str, folder: Path):
    def log(*args) -> tuple[list[str], str]:
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("position: "), last
        return done.stdout.splitlines(), last.removeprefix("position: ")

    # Killed at any moment, a run goes on behind the last line that says where it stood.
    rng = random.Random(21)
    kills = int(os.environ.get("PENSTOCK_KILLS", "25"))
    for kill in range(kills):
        workers = rng.randrange(1, 9)
        asked = ["--records", 30_000, "--seed", rng.randrange(1000), "--epochs", 3, "--batch", rng.choice([7, 100, 1000]),
                 "--workers", workers, *(["--bad-every", rng.randrange(2, 30)] if kill % 2 else []),
                 *(["--block", 16, "--window", 4] if kill % 3 == 0 else [])]
        whole, _ = log(*asked)
        file = folder / f"positions{kill}"
        out = folder / f"log{kill}"
        with out.open("w") as to:
            running = subprocess.Popen([program, *map(str, asked), "--positions", str(file)], stdout=to,
                                       stderr=subprocess.DEVNULL)
            try:
                running.wait(rng.uniform(0, 0.12))
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        printed, position = lines[-1].split(" ", 1) if lines else ("0", "")
        rest, _ = log(*asked, "--workers", rng.randrange(1, 9), *(["--from", position] if position else []))
        first = out.read_text().splitlines()[:int(printed)]
        assert first + rest == whole, f"kill {kill}: {len(first)} lines and {len(rest)}, not {len(whole)}"

    # Four ranks go on as three, and these as eight.
    steps = []
    position = []
    for world in 4, 3, 8:
        stop = ["--stop-after", 20] if world != 8 else []
        ranks = [log("--records", 10_007, "--seed", 5, "--epochs", 1, "--batch", 32, "--uneven", "keep", "--world", world,
                     "--rank", rank, *stop, *position) for rank in range(world)]
        assert len({text for _, text in ranks}) == 1, "ranks say different positions"
        position = ["--from", ranks[0][1]]
        steps += [int(line) for lines, _ in ranks for line in lines]
    assert sorted(steps) == list(range(10_007)), f"{len(steps)} steps, {len(set(steps))} different"
    refused = subprocess.run([program, "--records", "10006", "--seed", "5", *position], capture_output=True, text=True)
    assert refused.returncode != 0 and "of another order" in refused.stderr, refused.stderr
