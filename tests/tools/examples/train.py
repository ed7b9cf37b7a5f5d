# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether train learns, the same with each cure for waiting, and goes on from a checkpoint."""
import json
import os
import random
import struct
import subprocess
import time
from pathlib import Path

from running import LIMIT, check_full, is_number, refused, run


def check(program: str, folder: Path):
    rng = random.Random(7)
    words = "a pipeline reads some text and trains a small model on what it says to you".split()
    text = folder / "text"
    text.write_text(" ".join(rng.choices(words, k=3_000)))
    names = ["pinned", "prefetch", "workers", "graph", "layout", "tensor_cores", "recompute", "optimiser"]
    keys = {"loss", "val_loss", "tokens_per_s", "idle", "wait_share", "syncs", "launches", "events", "position"}
    sizes = ["--device", "host", "--batch", "2", "--context", "16", "--warmup", "5", "--eval-batches", "3"]

    def trained(steps: int, events: str, *args, data: Path = text) -> dict:
        result = json.loads(run(program, "--data", data, *sizes, "--steps", steps, "--events", events, "--json", *args).splitlines()[-1])
        assert set(result) == keys, sorted(set(result) ^ keys)
        assert all(is_number(number) for number in [*result["loss"], *(result[key] for key in keys - {"loss", "events", "position"})]), result
        assert 0 <= result["wait_share"] <= 1 and 0 <= result["idle"] <= 1 and result["tokens_per_s"] > 0, result
        return result

    whole = trained(80, "fastest", "--csv", folder / "losses.csv", "--eval-every", 30)
    losses = whole["loss"]
    assert len(losses) == 80 and sum(losses[-10:]) < 0.8 * sum(losses[:10]), losses
    assert whole["val_loss"] < 0.8 * losses[0], whole
    rows = [row.split(",") for row in (folder / "losses.csv").read_text().splitlines()[1:]]
    assert all(abs(float(row[1]) - loss) < 1e-6 for row, loss in zip(rows, losses, strict=True)), rows
    assert [int(row[0]) for row in rows if row[2]] == [30, 60, 80] and abs(float(rows[-1][2]) - whole["val_loss"]) < 1e-6, rows

    steps = 14
    first = trained(steps, "none")
    assert first["loss"] == losses[:steps] and first["events"] == [], first
    for events in *names, "all", "fastest":
        result = trained(steps, "pinned,workers" if events == "workers" else events)
        on = names if events == "all" else [name for name in names if name != "recompute"] if events == "fastest" else \
            ["pinned", "workers"] if events == "workers" else [events]
        assert result["events"] == on, (events, result["events"])
        for key in "loss", "val_loss", "position":
            assert result[key] == first[key], f"{events}: {key} is {result[key]}, and without cures {first[key]}"
        timed = steps - steps // 2  # two waits a step in turn, for the copy and for the loss; a copy needs none in a pipeline
        waits = (0 if "pinned" in on else timed) + (0 if "prefetch" in on else timed)
        assert waits <= result["syncs"] <= waits + 2, (events, result)
        assert result["launches"] == 2 * timed if "graph" in on else result["launches"] > 20 * timed, (events, result)
    beside = ["--clip", "0", "--dropout", "0.1", "--micro-batches", "2"]
    assert trained(5, "none", *beside)["loss"] == trained(5, "pinned,optimiser=overlapped,recompute", *beside)["loss"] != losses[:5]

    # In one run or in several, other events or not, killed or not.
    saved = folder / "saved"
    trained(33, "none", "--checkpoint", saved)
    for events in "none", "fastest":
        rest = trained(80, events, "--resume", saved)
        for key, wanted in ("loss", losses[33:]), ("val_loss", whole["val_loss"]), ("position", whole["position"]):
            assert rest[key] == wanted, f"{events}: {key} is {rest[key]}, and in one run {wanted}"
    # Options that a training goes on with need not be given again, and others count.
    anew = ["--dropout", "0.3", "--rate", "0.01", "--clip", "0.1", "--decay", "0.5", "--decay-steps", "9"]
    kept = trained(9, "none", *anew)["loss"]
    trained(6, "none", *anew, "--checkpoint", saved)
    assert trained(9, "none", "--resume", saved)["loss"] == kept[6:]
    assert trained(9, "none", "--resume", saved, "--dropout", "0")["loss"] != kept[6:]
    saved.unlink()
    with subprocess.Popen([program, "--data", text, *sizes, "--steps", "70", "--checkpoint", saved, "--checkpoint-every", "4"],
                          stdout=subprocess.DEVNULL) as killed:
        until = time.monotonic() + LIMIT
        while not saved.exists() and time.monotonic() < until:
            time.sleep(0.001)
        killed.kill()
    rest = trained(80, "fastest", "--resume", saved)["loss"]
    assert 10 <= len(rest) <= 76 and rest == losses[-len(rest):], (rest, losses)

    # An error comes while work is on its way.
    for events in "prefetch", "fastest":
        shrinks = folder / "shrinks"
        shrinks.write_bytes(text.read_bytes())
        with subprocess.Popen([program, "--data", shrinks, *sizes, "--steps", "100000", "--eval-every", "1", "--events", events],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as fails:
            first_line = fails.stdout.readline()
            assert first_line.startswith(f"{shrinks}, a text of {len(set(text.read_text()))} different bytes: ") and first_line.endswith("; on host\n"), first_line
            assert fails.stdout.readline().startswith("step 1: loss "), events
            os.truncate(shrinks, 100)
            said = fails.communicate(timeout=LIMIT)[1]
        assert fails.returncode == 1 and said.startswith("train: ") and "shrank" in said and said.count("\n") == 1, (events, fails.returncode, said)

    tokens = folder / "tokens.bin"
    tokens.write_bytes(struct.pack("<4000H", *(min(int(rng.expovariate(0.05)), 299) for _ in range(4_000))))
    assert trained(5, "none", data=tokens)["loss"] == trained(5, "fastest", data=tokens)["loss"]
    # A model of more tokens than these, with weights alone.
    trained(1, "none", "--checkpoint", saved, data=tokens)
    context, vocabulary, layers, heads, width, padded = struct.unpack("<6i", saved.read_bytes()[8:32])
    assert vocabulary < padded, (vocabulary, padded)
    weights = saved.read_bytes()[:1024 + 4 * ((padded + context) * width + layers * (12 * width * width + 13 * width) + 2 * width)]
    model = folder / "model"
    model.write_bytes(weights[:12] + struct.pack("<i", padded) + weights[16:])
    assert len(trained(2, "none", "--resume", model, data=tokens)["loss"]) == 2
    held_out = folder / "held_out"
    held_out.write_text(" ".join(words * 40))
    assert trained(5, "fastest", "--val", held_out)["val_loss"] != trained(5, "fastest")["val_loss"]
    said = run(program, "--data", text, *sizes, "--steps", 3, "--profile")
    assert "AsyncCopier" in said and "step 3: loss " in said and "tokens a second" in said, said
    assert "--events LIST" in run(program, "--help")

    short = folder / "short"
    short.write_text("too short")
    empty = folder / "empty"
    empty.touch()
    other = folder / "other"
    other.write_text("X" * 1_000)
    wrong = {"--data": [], "missing": ["--data", folder / "missing"], "is empty": ["--data", empty], "--context": ["--data", short],
             "pinned,workers": ["--data", text, "--events", "workers"], "no event": ["--data", text, "--events", "fast"],
             "--clip 0": ["--data", text, "--events", "optimiser=overlapped"], "--steps is 60": ["--data", text, "--resume", saved],
             "--batch 2": ["--data", text, "--resume", saved, "--batch", "4"], "tokens of context": ["--data", text, "--resume", saved, "--context", "8"],
             "cannot create": ["--data", text, "--checkpoint", folder / "none" / "saved"], "--svg": ["--data", text, "--svg", text],
             "has tokens": ["--data", text, "--resume", saved, "--val", tokens], "trained on a text": ["--data", tokens, "--resume", saved],
             "directory": ["--data", folder], "--warmup": ["--data", text, "--decay-steps", "5"], "leave out graph":
             ["--data", text, "--events", "graph,optimiser=overlapped", "--clip", "0"], "byte of value 88": ["--data", other, "--resume", saved], "llm.c's header": ["--data", text, "--resume", short], "what": ["what"], "cuda": ["--data", text, "--device", "cuda"]}
    trained(60, "fastest", "--checkpoint", saved)
    for word, args in wrong.items():
        refused(program, *sizes, "--steps", "60", *args, says=[word], by="train: ")
    check_full(program, "--data", text, *sizes, "--steps", "1", "--json")
