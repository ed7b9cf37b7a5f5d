# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 17_doctor has figures and advice that fit together, and tells what it cannot look at."""
import json
import os
import random
import re
import subprocess
import time
from pathlib import Path

from running import LIMIT, is_number, refused, run


UNITS = ("_gb_per_s", "_s_per_gib", "_per_s", "_us")


def check(program: str, folder: Path):
    rng = random.Random(9)
    file, small = folder / "file", folder / "small"
    file.write_bytes(rng.randbytes(24_000_000))
    for i in range(300):
        (small / f"{i % 3}").mkdir(parents=True, exist_ok=True)
        (small / f"{i % 3}" / f"{i}.bin").write_bytes(rng.randbytes(10_000 + i))
    # Without a path it makes a file of its own, here in a folder where none may be left.
    made = folder / "made"
    made.mkdir()
    os.environ["TMPDIR"] = str(made)
    for args in ["--kernel-ms", "5", file], []:
        begin = time.monotonic()
        found = json.loads(run(program, "--device", "host", "--json", *args))
        took = time.monotonic() - begin
        assert took < 60, f"{args}: {took} s"
        keys = ["limits", "at_most", "verdict", "worth_it", "stage", "cause", "advice", "settings"]
        assert list(found) == keys, f"{args}: {list(found)}"
        limits = found["limits"]
        for name, figure in limits.items():
            assert name.endswith(UNITS), f"{args}: no unit in {name}"
            assert is_number(figure) and figure > 0, f"{args}: {name} is {figure}"
        for name in "page_cache_1_thread", "host_copy_1_thread", "plain_loop", "pipeline_with_defaults":
            assert 0.0001 < limits[name + "_gb_per_s"] < 1000, f"{args}: {name}"
        assert "disk_cold_1_thread_gb_per_s" in limits or "Not measured: disk" in found["verdict"], f"{args}: {found}"
        assert "Not measured: pinning, bus and launches" in found["verdict"], found["verdict"]
        assert "pipeline reaches" in found["verdict"], found["verdict"]
        # Without a GPU there is no bus, and no second device.
        words = json.dumps([found["verdict"].partition("Not measured:")[0], found["cause"], found["advice"]])
        assert not re.search(r"\b(bus|link|devices)\b", words), words
        assert isinstance(found["worth_it"], bool), found
        at_most = found["at_most"]
        for which in "first_pass", "later_passes":
            assert is_number(at_most[which + "_gb_per_s"]) and at_most[which + "_limit"], at_most
        if "disk_cold_1_thread_gb_per_s" in limits:
            assert limits["first_pass_pipeline_gb_per_s"] <= at_most["first_pass_gb_per_s"], found
            assert limits["first_pass_plain_loop_gb_per_s"] > 0, found
        assert limits["pipeline_with_defaults_gb_per_s"] <= at_most["later_passes_gb_per_s"], found
        assert all(isinstance(found[key], str) for key in ("verdict", "stage", "cause")), found
        for advice in found["advice"]:
            assert set(advice) == {"change", "gain", "next"} and advice["gain"] > 1.09, advice
        settings = found["settings"]
        assert settings["reader_workers"] >= 1 and settings["reader_depth"] >= 2 and settings["batch_bytes"] >= 1, settings
        if file in args:
            # A pipeline cannot be faster than its kernel, which takes 5 ms for 4 MiB.
            assert limits["pipeline_with_defaults_gb_per_s"] < 4 * 2**20 / 5e-3 / 1e9, limits
            assert limits["plain_loop_gb_per_s"] < 4 * 2**20 / 5e-3 / 1e9, limits
            assert settings["batch_bytes"] == 4 * 2**20, settings
        assert not list(made.iterdir()), list(made.iterdir())
        if args and found["cause"] != "unknown":
            assert found["cause"] == "kernel" and found["stage"] == "Consumer", found
    said = run(program, "--device=host", "--batch", "64KiB", small)
    for part in ("300 files", "What this machine allows:", "page cache 1 thread", "files opened and read 1 thread",
                 "batches of 65536 bytes", "a loop without it, measured", "Verdict: ", "Settings to take",
                 "a pipeline, at most", "(each record is a file)"):
        assert part in said, f"{part} is not in {said}"
    # Data that are too few to tell much.
    few = folder / "few"
    few.mkdir()
    for i in range(3):
        (few / f"{i}").write_bytes(rng.randbytes(1000 + i))
    found = json.loads(run(program, "--device", "host", "--json", few))
    assert found["worth_it"] is False and "a single batch" in found["verdict"], found
    assert found["settings"]["batch_bytes"] == 3003 and "bus" not in found["cause"], found
    assert not [name for name in found["limits"] if "disk" in name], found["limits"]
    assert re.search("Not measured: disk: (a sample of 3003 byte|the data lie in memory)", found["verdict"]), found
    tiny = json.loads(run(program, "--device", "host", "--json", "--batch", "1", file))
    assert tiny["settings"]["batch_bytes"] == 1 and tiny["cause"] not in ("kernel", "copies in memory"), tiny
    assert tiny["at_most"]["later_passes_gb_per_s"] < 1, tiny
    for args in ["--help"], ["-h"], [file, "--json", "--help"]:
        said = run(program, *args)
        assert said.startswith("Usage: 17_doctor [FILE_OR_FOLDER]"), said
        assert all(option in said for option in ("--batch", "--kernel-ms", "--json", "--device", "--run")), said

    (folder / "empty").touch()
    (folder / "nothing").mkdir()
    wrong = {"missing": ["missing"], "nothing": ["nothing"], "empty": ["empty"], "/dev/null": ["/dev/null"],
             "--batch": ["--batch", "0", "file"], "smaller": ["--batch", "1000GiB", "file"], "4MiB": ["--batch=4.5", "file"],
             "nan": ["--kernel-ms", "nan", "file"], "-1": ["--kernel-ms=-1"], "1000": ["--kernel-ms", "1001"],
             "--kernel-ms": ["--kernel-ms", "1e9"], "abc": ["--batch", "abc"], "is empty": [""],
             "there is no option --what": ["--what"], "no option -x": ["-x"], "--json=1": ["--json=1"], "one path too many": ["file", "file"], "--device has no value": ["--device"],
             "toaster": ["--device", "toaster"], "--run": ["--run"]}
    for word, args in wrong.items():
        refused(program, "--device", "host", "--json", *args, says=[word], by="17_doctor: ", cwd=folder)
    if os.geteuid() != 0:
        file.chmod(0)
        refused(program, "--device", "host", "--json", file, says=[file, "right to read it"])
    # Results that nobody can have, limits on files and on memory.
    limited = {"standard output": ("> /dev/full", file), "File too large": ("ulimit -f 8;", ""), "ulimit -v": ("ulimit -v 300000;", file)}
    for word, (limit, path) in limited.items():
        before, behind = ("", limit) if limit.startswith(">") else (limit, "")
        failed = subprocess.run(["sh", "-c", f"{before} {program} --device host --json {path} {behind}"], capture_output=True, text=True, timeout=LIMIT)
        if "Sanitizer" in failed.stderr: # they need more memory than any limit
            continue
        assert failed.returncode == 1 and not failed.stdout, (limit, failed)
        assert failed.stderr.startswith("17_doctor: ") and word in failed.stderr, (limit, failed.stderr)
    os.environ["TMPDIR"] = str(folder / "gone")
    failed = subprocess.run([program, "--device", "host"], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and str(folder / "gone") in failed.stderr and "TMPDIR" in failed.stderr, failed
