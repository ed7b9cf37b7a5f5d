# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Has several ranks, or several GPUs, load a model by 18_load_weights, and checks that each has all tensors, and that the launcher ends all if one fails.

check_weights.py run_ranks|mpirun|gpus PROGRAM; exits with 77 (skipped) if there is no such launcher, or if there are fewer than two GPUs.
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 100
RUN_RANKS = str(Path(__file__).resolve().parents[2] / "examples" / "run_ranks")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "TORCHELASTIC_", "OMPI_", "MV2_", "MPI_", "PMI", "SLURM_", "MASTER_", "MEETING")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
# To a file each: mpirun mixes the ranks' output in the middle of lines. Rank 1 has arguments of its own.
EACH = 'rank=${RANK:-$OMPI_COMM_WORLD_RANK}; [ $rank != 1 ] || [ -z "$OTHER" ] || set -- "$@" $OTHER; exec "$0" "$@" >"$FOLDER/$rank"'


def ranks(launcher: str, count: int, out: Path, program: str, *args, other: str = "") -> tuple[int, list[str], str]:
    """Returns the exit code, what each rank has printed, and the errors."""
    mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-n"]
    how = [RUN_RANKS] if launcher == "run_ranks" else mpirun
    out.mkdir()
    done = subprocess.run([*how, str(count), "/bin/sh", "-c", EACH, program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT,
                          env=ENVIRONMENT | {"FOLDER": str(out), "OTHER": other, "MEETING": str(out / "meeting")})
    said = [(out / str(rank)).read_text() if (out / str(rank)).exists() else "" for rank in range(count)]
    shutil.rmtree(out)
    return done.returncode, said, done.stderr


def one(program: str, *args) -> dict:
    done = subprocess.run([program, "--json", "--check", *map(str, args)], capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT)
    assert done.returncode == 0, f"{args}: exit code {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


def make_model(folder: Path) -> int:
    """Makes two shards of some tensors; returns how many bytes these have."""
    rng = random.Random(18)
    total = 0
    for shard, sizes in enumerate([[3_000_001, 0, 1, 40_000_000], [8 << 20, *([4001] * 300), 0]]):
        header, at = {}, 0
        for i, size in enumerate(sizes):
            header[f"{shard}.{i}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        (folder / f"{shard}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + rng.randbytes(at))
        total += at
    return total


def check_host_ranks(launcher: str, program: str, folder: Path, out: Path, total: int):
    """Checks that each rank reads everything: host devices have no NCCL."""
    for count in 1, 3:
        code, said, errors = ranks(launcher, count, out, program, "--json", "--check", "--device", "host", folder)
        assert code == 0 and not errors, (code, errors)
        results = [json.loads(text) for text in said]
        assert all(result["bytes"] == total and result["gathered_by"] is None and len(result["device_seconds"]) == 1 for result in results), results
        numbers = [(result.get("rank"), result.get("world")) for result in results]
        assert numbers == ([(None, None)] if count == 1 else [(rank, count) for rank in range(count)]), numbers
    code, said, errors = ranks(launcher, 2, out, program, "--check", "--device", "host", folder)
    assert code == 0 and all("without NCCL: each of 2 ranks has read everything\nevery tensor is as in its file\n" in text for text in said), (said, errors)
    missing = str(folder / "missing.safetensors")
    code, _, errors = ranks(launcher, 3, out, program, "--device", "host", folder, other=missing)
    lines = [line for line in errors.splitlines() if line.startswith("18_load_weights: ")]
    assert code != 0 and len(lines) == 1 and missing in lines[0], (code, errors)
    for other, what in (folder / "1.safetensors", "the tensors in the files"), ("--piece 77", "the options --device and --piece"):
        code, _, errors = ranks(launcher, 2, out, program, "--device", "host", folder / "0.safetensors", other=str(other))
        assert code != 0 and f"{what} are not those of rank 0: give all ranks the same" in errors, (code, errors)
    code, _, errors = ranks(launcher, 2, out, program, "--gpus", 2, folder)
    assert code != 0 and "--gpus is for one process, and this is one of 2 ranks, which have a GPU each: leave it out" in errors, errors


def check_gpus(program: str, folder: Path, out: Path, total: int, there: int):
    count = min(there, 8)
    for piece in 100_000, 8 << 20, 1 << 30:
        alone = one(program, "--device", "cuda", "--piece", piece, folder)
        assert alone["gpus"] == 1 and alone["gathered_by"] is None and alone["of_link"] == alone["of_links"], alone
        result = one(program, "--device", "cuda", "--gpus", count, "--piece", piece, folder)
        assert result["bytes"] == total and result["gpus"] == count == len(result["device_seconds"]), result
        assert result["gathered_by"] in ("copies between GPUs", "copies between GPUs through the host"), result
        assert 0 < result["of_links"] < result["of_link"], result
        code, said, errors = ranks("run_ranks", count, out, program, "--json", "--check", "--device", "cuda", "--piece", piece, folder)
        assert code == 0, (code, errors)
        if said[1]:  # each speaks for itself: this program has no NCCL
            assert all(json.loads(text)["gathered_by"] is None for text in said), said
            continue
        result = json.loads(said[0])
        assert result["bytes"] == total and result["gpus"] == count == len(result["device_seconds"]) and result["gathered_by"] == "NCCL", result
        assert not any(said[1:]), said
    code, _, errors = ranks("run_ranks", count, out, program, "--device", "cuda", folder, other=str(folder / "missing.safetensors"))
    assert code != 0 and "missing.safetensors" in errors, (code, errors)
    few = subprocess.run([program, "--device", "cuda", "--gpus", "64", folder], capture_output=True, text=True, timeout=LIMIT, env=ENVIRONMENT)
    assert few.returncode == 1 and few.stderr.count("\n") == 1 and f"64 GPUs are asked for, and this process has {there}" in few.stderr, few


def gpus() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=LIMIT)
    except FileNotFoundError:
        return 0
    return listed.stdout.count("\n") if listed.returncode == 0 else 0


def main(how: str, program: str):
    if how == "mpirun" and not shutil.which("mpirun"):
        print("there is no mpirun")
        sys.exit(77)
    there = gpus() if how == "gpus" else 0
    if how == "gpus" and there < 2:
        print(f"it needs two GPUs, and there {'is 1' if there == 1 else 'is none'}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        folder.mkdir()
        total = make_model(folder)
        if how == "gpus":
            check_gpus(program, folder, Path(name) / "out", total, there)
        else:
            check_host_ranks(how, program, folder, Path(name) / "out", total)


try:
    main(sys.argv[1], os.path.realpath(sys.argv[2]))
except (AssertionError, subprocess.TimeoutExpired, ValueError) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
