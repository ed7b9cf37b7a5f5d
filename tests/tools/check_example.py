# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Runs an example on files of its own making and checks what it prints.

check_example.py 01_hello_pipeline|02_histogram|… PROGRAM; exits with 77 (skipped) if the example needs a GPU and
there is none, or if it could not be built: PROGRAM is then empty.
"""
import base64
import io
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from pathlib import Path

LIMIT = 100


def run(program: str, *args, cwd: Path | None = None) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, cwd=cwd)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def hello_pipeline(program: str, folder: Path):
    (folder / "numbers.txt").write_text("a line\n" * 54_321)
    *report, last = run(program, cwd=folder).splitlines()
    assert last == "54321 lines", last
    assert report, "there is no Report"


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def histogram(program: str, folder: Path):
    rng = random.Random(1)
    some = bytes(rng.choices(range(256), weights=range(1, 257), k=3_000_001))
    for name, data in {"some": some, "one": b"x", "same": b"\0" * 70_000}.items():
        file = folder / name
        file.write_bytes(data)
        counts = Counter(data)
        result = json.loads(run(program, "--device", "host", "--json", file))
        keys = {"bytes", "counts", "entropy_bits", "seconds", "gb_per_s", "device", "limiting_stage", "stages"}
        assert set(result) == keys, f"{name}: keys {sorted(set(result) ^ keys)} are missing or too many"
        assert result["bytes"] == len(data), f"{name}: {result['bytes']} bytes of {len(data)}"
        assert result["counts"] == [counts[byte] for byte in range(256)], f"{name}: counts"
        entropy = sum(n / len(data) * math.log2(len(data) / n) for n in counts.values())
        assert abs(result["entropy_bits"] - entropy) < 1e-6, f"{name}: {result['entropy_bits']}, not {entropy}"
        assert result["device"] == "host", result["device"]
        assert all(is_number(result[key]) and result[key] > 0 for key in ("seconds", "gb_per_s")), result
        stages = result["stages"]
        wanted = {"name", "records", "bytes", "busy_s", "starved_s", "blocked_s"}
        assert len(stages) >= 3 and all(set(stage) == wanted for stage in stages), f"{name}: {stages}"
        assert all(is_number(stage[key]) and stage[key] >= 0 for stage in stages for key in wanted - {"name"}), stages
        assert all(stage["bytes"] == len(data) for stage in stages), f"{name}: {stages}"
        assert result["limiting_stage"] in {stage["name"] for stage in stages}, result["limiting_stage"]
    said = run(program, "--device=host", "--sequential", folder / "some")
    assert "GB/s" in said and "3000001" in said.replace(",", "").replace("'", "").replace(" ", ""), said
    missing = subprocess.run([program, "--json", folder / "missing"], capture_output=True, text=True, timeout=LIMIT)
    assert missing.returncode != 0 and not missing.stdout and str(folder / "missing") in missing.stderr, missing


def noise(n: int) -> float:
    n = (n + 1) * 0x9E3779B97F4A7C15 % 2**64
    n = (n ^ n >> 32) * 0xD6E8FEB86659FD93 % 2**64
    return (n >> 40) / 2**23 - 1


def mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def splitmix(seed: int, i: int) -> int:
    return mixed((seed + i * 0x9E3779B97F4A7C15) % 2**64)


def permutation(size: int, seed: int, epoch: int) -> list[int]:
    """What ps::Permutation is: a network of rounds over a high and a low half."""
    key = splitmix(splitmix(splitmix(seed, 1) ^ epoch, 1) ^ size, 1)
    low_bits = ((size - 1).bit_length() + 1) // 2
    lows, highs = 1 << low_bits, ((size - 1) >> low_bits) + 1
    keys = [(splitmix(key, 1) + i * splitmix(key, 2)) % 2**64 for i in range(6 if size > 2**14 else 24)]

    def of(half: int, round_key: int) -> int:
        x = (half + round_key) * 0x9E3779B97F4A7C15 % 2**64
        return ((x ^ x >> 32) * 0xBF58476D1CE4E5B9 % 2**64) >> 32

    order = []
    for number in range(size):
        while True:
            high, low = divmod(number, lows)
            for i, round_key in enumerate(keys):
                if i % 2 == 0:
                    high = (high + (of(low, round_key) * highs >> 32)) % highs
                else:
                    low = (low + of(high, round_key)) % lows
            number = high * lows + low
            if number < size:
                break
        order.append(number)
    return order


def train_loop(program: str, folder: Path):
    samples = []
    for n in range(0, 131_072 * 5, 5):
        x = [noise(n), noise(n + 1), noise(n + 2), noise(n + 3), 1.0]
        samples.append((x, x[0] - 2 * x[1] + 3 * x[2] + 0.5 * x[3] + 0.25 + 0.1 * noise(n + 4)))
    weights = [0.0] * 5
    losses = []
    for epoch, rate in enumerate((0.5, 0.25)):
        order = permutation(len(samples), 1337, epoch)
        for first in range(0, len(samples), 4096):
            gradient = [0.0] * 5
            loss = 0.0
            for x, y in (samples[i] for i in order[first:first + 4096]):
                error = sum(w * value for w, value in zip(weights, x)) - y
                gradient = [g + error * value for g, value in zip(gradient, x)]
                loss += error * error
            weights = [w - rate * g / 4096 for w, g in zip(weights, gradient)]
            losses.append(loss / 4096)
    for _ in range(3):  # the result must not depend on which thread comes first
        loss, learned, *report = run(program, "--device", "host").splitlines()
        said = [float(word) for word in loss.split() if word[0].isdigit()]
        assert len(said) == 2 and all(abs(a - b) < 2e-4 for a, b in zip(said, [losses[0], losses[-1]])), (loss, losses)
        said = [float(word) for word in learned.split()[1::2]]
        assert len(said) == 5 and all(abs(a - b) < 2e-4 for a, b in zip(said, weights)), (learned, weights)
        assert report and report[0].startswith("262144 records"), report


def own_source_and_stage(program: str, folder: Path):
    rng = random.Random(2)
    file = folder / "lines"
    for lines, bad, end in (120_000, 7, "\n"), (1_000, 100, ""), (1, 0, ""), (3, 3, "\n"):
        numbers = [rng.randrange(-500, 500) / 10 for _ in range(lines)]
        wrong = set(rng.sample(range(lines), bad))
        file.write_text("\n".join(f"a, place,{'none' if i in wrong else n}" for i, n in enumerate(numbers)) + end)
        good = [n for i, n in enumerate(numbers) if i not in wrong]
        said, *report = run(program, "--device", "host", file).splitlines()
        if good:
            words = said.replace(",", "").split()
            found = [float(words[i]) for i in (0, 3, 5, 7, 9)]
            wanted = [len(good), min(good), max(good), sum(good) / len(good), bad]
            assert all(abs(a - b) <= 1e-4 * (1 + abs(b)) for a, b in zip(found, wanted)), (said, wanted)
        else:
            assert said.startswith("0 numbers"), said
        skipped = [line for line in report if "skipped by Decoder" in line]
        assert len(skipped) == min(bad, 10) and all('no number ends "a, place,none"' in line for line in skipped), report
        assert all(int(line.split("record ")[1].split(":")[0]) in wrong for line in skipped), report
    for text, words in {"a,1\n" + "no\n" * 101: ["Decoder", "no number"], "a,1\n" + "x" * 61: ["line 1", "61"]}.items():
        file.write_text(text)
        failed = subprocess.run([program, "--device", "host", file], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout and all(w in failed.stderr for w in words), failed


def records_in_words(count: int) -> str:
    """Returns how a Report begins."""
    return f"{count} record" + ("," if count == 1 else "s,")


def columns(program: str, folder: Path):
    rng = random.Random(3)
    images, labels = folder / "images", folder / "labels"
    half = struct.unpack("<256e", struct.pack("<256e", *(value / 255 for value in range(256))))
    for count in 9_000, 1:
        pixels = rng.randbytes(784 * count)
        of = rng.choices(range(10), k=count)
        images.write_bytes(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + pixels)
        labels.write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(of))
        number, total = Counter(of), Counter()
        for i, label in enumerate(of):
            total[label] += sum(map(half.__getitem__, pixels[784 * i:784 * (i + 1)]))
        head, *rows = run(program, "--device", "host", images, labels).splitlines()
        assert head.split() == ["label", "images", "brightness"], head
        for label, row in enumerate(rows[:10]):
            mean = total[label] / 784 / number[label] if number[label] else 0
            found = [float(word) for word in row.split()]
            assert found[:2] == [label, number[label]] and abs(found[2] - mean) < 1e-5, (row, label, number[label], mean)
        assert rows[10].startswith(records_in_words(count)), rows[10]
    with labels.open("ab") as file:
        file.write(b"\0")
    failed = subprocess.run([program, "--device", "host", images, labels], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and not failed.stdout and "records" in failed.stderr, failed
    assert run(program, "--device", "host").startswith("label"), "it makes its own files"


def text(program: str, folder: Path):
    rng = random.Random(4)
    file = folder / "text"
    for lines, end, last in (60_000, "\n", "\n"), (5_000, "\r\n", ""), (9_000, "\r\n", "\r\n"), (1, "\n", "\n"):
        some = ["".join(rng.choices("ab  \t,\v\x00\x1c", k=rng.choice([0, 1, 7, 90]))) for _ in range(lines)]
        some[lines // 2] = "x" * 700_000
        some[-1] += "a"
        file.write_bytes((end.join(some) + last).encode())
        said, *report = run(program, "--device", "host", file).splitlines()
        found = [int(word) for word in said.replace(",", "").split() if word.isdigit()]
        words = sum(len(re.findall(r"[^ \t\v]+", line)) for line in some)
        wanted = [lines, words, sum(map(len, some)), 700_000 + (lines == 1)]
        assert found == wanted, (said, wanted)
        assert report[0].startswith(records_in_words(lines)), report
    file.write_text("a\n" + "x" * 2**20 + "y\n")
    failed = subprocess.run([program, "--device", "host", file], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and not failed.stdout and "line 2 of" in failed.stderr, failed
    assert "has 1048577 bytes" in failed.stderr, failed
    assert " words" in run(program, "--device", "host"), "it makes its own file"


def ring(program: str, folder: Path):
    *rows, last = run(program).splitlines()
    assert rows == [f"{n} is divided by {d}" for n, d in ((2, 2), (3, 3), (4, 2), (5, 5), (6, 2))], rows
    primes = sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(2, 20_002))
    assert last == f"{primes} primes among 20000 numbers, through 16 slots", (last, primes)


def tokens(program: str, folder: Path):
    sequence, state, token = [], 1, 0
    for _ in range(1_000_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        token = (token * 5 + 1) % 50257 if state >> 61 else (state >> 33) % 50257
        sequence.append(token)
    guessed = [0]  # before each token
    for x, y in zip(sequence, sequence[1:]):
        guessed.append(guessed[-1] + ((x * 5 + 1) % 50257 == y))
    windows = (1_000_000 - 1024) // 1024
    shifts = [splitmix(splitmix(1337, 1) ^ epoch, 1) % 1024 for epoch in range(2)]
    wanted = sum(guessed[(i + 1) * 1024 + shift] - guessed[i * 1024 + shift] for shift in shifts for i in range(windows))
    said, position, *report = run(program, "--device", "host").splitlines()
    assert said.startswith(f"{wanted} of {2 * windows * 1024} tokens guessed, 87."), (said, wanted)
    before = 20 * 64 - (-windows % 64)  # in 20 batches, of which the first epoch's last is short
    assert position.startswith(f"went on from penstock-position 1 epoch=1 step={before - windows} "), position
    assert report[0].startswith(f"{2 * windows - before} records"), report


def small_batches(program: str, folder: Path):
    total, state = 0, 1
    for _ in range(4096 * 4000):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        total += (state >> 16) - 32768
    said, loose, replayed = run(program, "--device", "host").splitlines()
    assert said == f"{total} is the sum of 16384000 samples", (said, total)
    for line, how in (loose, "one by one"), (replayed, "replayed in groups"):
        assert line.startswith(f"4000 batches {how}: ") and line.endswith(" ms"), line


def file_to_file(program: str, folder: Path):
    samples, floats = folder / "samples", folder / "floats"
    for count in 1_500_001, 1, 0:
        numbers = [(i * 40503 + 7) % 65536 - 32768 for i in range(count)]
        samples.write_bytes(struct.pack(f"<{count}h", *numbers))
        report = run(program, samples, floats)
        assert struct.unpack(f"<{count}f", floats.read_bytes()) == tuple(n / 32768 for n in numbers), count
        assert report.startswith(records_in_words(count)) and "Writer" in report, report
    before = floats.read_bytes()
    with samples.open("ab") as file:
        file.write(b"x")
    failed = subprocess.run([program, samples, floats], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and not failed.stdout and str(samples) in failed.stderr, failed
    assert floats.read_bytes() == before and sorted(folder.iterdir()) == [floats, samples], list(folder.iterdir())
    assert run(program).startswith("1000000 records"), "it makes its own files"


def transform_file(program: str, folder: Path):
    before, after, again = folder / "before", folder / "after", folder / "again"
    rng = random.Random(5)
    for count in 3_000_001, 1, 0:
        data = rng.randbytes(count)
        mask = b"".join(mixed(i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little") for i in range(1, count // 8 + 2))
        before.write_bytes(data)
        *report, said = run(program, "--device", "host", before, after).splitlines()
        assert after.read_bytes() == bytes(a ^ b for a, b in zip(data, mask)), count
        assert said == f"{count} bytes, each as the CPU makes it", said
        assert report[0].startswith(records_in_words(count)) and any("Kernel" in line for line in report), report
        run(program, "--device", "host", after, again)
        assert again.read_bytes() == data, count
    for wrong in (folder / "missing", after), (before, before):
        failed = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout and str(wrong[0]) in failed.stderr, failed
    assert sorted(folder.iterdir()) == [after, again, before], list(folder.iterdir())
    assert run(program).splitlines()[-1].startswith("8000003 bytes"), "it makes its own file"


def order(program: str, folder: Path):
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


def select_records(program: str, folder: Path):
    before, after = folder / "before", folder / "after"
    rng = random.Random(7)
    for count, bound in (700_001, 1.0), (700_001, 0.8), (1, 1.0), (0, 1.0):
        events = [(n, rng.random() * bound) for n in range(count)]
        packed = [struct.pack("<If", *event) for event in events]
        before.write_bytes(b"".join(packed))
        high = [event for event in packed if struct.unpack("<If", event)[1] > struct.unpack("<f", struct.pack("<f", 0.9))[0]]
        said, *report = run(program, "--device", "host", before, after).splitlines()
        assert after.read_bytes() == b"".join(high), count
        assert said == f"{len(high)} of {count} events are of high energy", said
        assert any("Kernel" in line for line in report), report
    failed = subprocess.run([program, folder / "missing", after], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and not failed.stdout and "missing" in failed.stderr, failed
    assert run(program).splitlines()[0].endswith("of 1000003 events are of high energy"), "it makes its own file"


def several_gpus(program: str, folder: Path):
    file = folder / "numbers"
    rng = random.Random(9)
    for count in 3_000_001, 2, 1, 0:
        numbers = rng.choices(range(2**32), k=count)
        file.write_bytes(struct.pack(f"<{count}I", *numbers))
        for gpus in 1, 2, 3:
            for way in [], ["--one-thread"]:
                *rows, last = run(program, "--device", "host", "--gpus", gpus, *way, file).splitlines()
                found = [row.removeprefix(f"GPU {i}: ").split(", of ") for i, row in enumerate(rows)]
                assert last == f"{sum(numbers)} in all" and len(rows) == gpus, (count, gpus, way, last)
                assert sum(int(total) for total, _ in found) == sum(numbers), (count, gpus, way, rows)
                batches = [int(of.split()[0]) for _, of in found]
                assert count < 3_000_001 or min(batches) > 0 and max(batches) - min(batches) <= 1, (gpus, way, rows)
            rows = run(program, "--device", "host", "--gpus", gpus, "--all", file).splitlines()
            assert rows[-1] == f"{gpus * sum(numbers)} in all" and len(rows) == gpus + 1, (count, gpus, rows)
            assert all(row.startswith(f"GPU {i}: {sum(numbers)}, of ") for i, row in enumerate(rows[:-1])), (count, gpus, rows)
    failed = subprocess.run([program, "--device", "host", folder / "missing"], capture_output=True, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and not failed.stdout and "missing" in failed.stderr, failed
    for wrong in "x", "", "0", "-1", "2x", "65":
        failed = subprocess.run([program, "--device", "host", "--gpus", wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and f'--gpus takes a number from 1 to 64, and "{wrong}" is none.' in failed.stderr, failed
    parts = folder / "parts"
    parts.mkdir()
    for i in range(3):
        (parts / str(i)).write_bytes(struct.pack("<3I", i, 10 * i, 2**32 - 1))
    assert run(program, "--device", "host", parts).splitlines()[-1] == f"{33 + 3 * (2**32 - 1)} in all", "a folder"
    assert run(program, "--device", "host").count("GPU") == 2, "it makes its own file"


# 16 pixels wide and 12 high: the left half is red, the right one blue.
RED_AND_BLUE = base64.b85decode(
    "|JeWF01!$>Nk#wx0RR9200961|JwjV00RO70|EjA0|NsD0|NvF2n7WM1O*BQ2L=cX3JeSj3JVJj4iXRz4iOFu3lJ6%5fc;@6%`B*7Z?^47!ni}6#v@*LjeN>"
    "1O)^I2?YfS6b%av6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6ciK`6cqo!01*fP3;+-V0TBQK5di}c0sq7R6aWDL0000000000"
    "00000000O7!~hf!0RR910000000000000000RO}Q6#)SO000000000000000000RG|HJ?k5di=I0000000000000000095m01N{G00I#M5dc2`1Vst}9My="
    "Uz*H`vb5<gs|Je")


GREY_PIXELS = bytes([0, 50, 100, 150, 200, 250])  # 3 pixels wide and 2 high


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


GREY_PNG = (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 0, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(b"\0" + GREY_PIXELS[:3] + b"\0" + GREY_PIXELS[3:])) + png_chunk(b"IEND", b""))


def tar_file(members: dict[str, bytes]) -> bytes:
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return to.getvalue()


def images(program: str, folder: Path):
    pictures, sheet = folder / "pictures", folder / "sheet.png"
    for i in range(40):
        path = pictures / f"class {i % 3}" / ("deep" if i % 2 else ".") / f"{i}.{'JPG' if i % 4 else 'jpeg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(RED_AND_BLUE if i != 7 else RED_AND_BLUE[100:])
    (pictures / "class 0" / "notes.txt").write_text("none of the pictures")
    said = []
    for more in [], ["--augment"]:
        said.append(json.loads(run(program, pictures, "--device", "host", "--json", "--epochs", "2", "--seed", "3", "--size", "16",
                                   "--sheet", sheet, *more)))
        assert said[-1]["images"] == 78 and said[-1]["classes"] == ["class 0", "class 1", "class 2"], said
        skipped = said[-1]["skipped"]
        report = said[-1]["report"]
        assert report["records"] == 78 and [stage["name"] for stage in report["stages"]][:2] == ["Reader", "Decoder"], report
        assert [item["reason"] for item in report["skips"]] == [item["reason"] for item in skipped], report
        assert [item["file"] for item in skipped] == [str(pictures / "class 1/deep/7.JPG")] * 2, skipped
        assert all("no JPEG file" in item["reason"] for item in skipped), skipped
        header = sheet.read_bytes()[:26]
        assert header == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBB", 8 * 16, 8 * 16, 8, 2), header
    archives = folder / "archives"
    archives.mkdir()
    for shard in range(2):
        members = {}
        for i in range(20 * shard, 20 * shard + 20):
            members |= {f"{i:04}.jpg": RED_AND_BLUE if i != 7 else b"none", f"{i:04}.cls": str(i % 3).encode()}
        members |= {f"{shard}-without-label.jpg": RED_AND_BLUE} if shard else {}
        (archives / f"{shard}.tar").write_bytes(tar_file(members))
    for paths in [archives], sorted(archives.iterdir()):
        of_tars = json.loads(run(program, *paths, "--device", "host", "--json", "--epochs", "2", "--seed", "3", "--size", "16", "--sheet", sheet))
        assert of_tars["images"] == 78 and sorted(item["file"] for item in of_tars["skipped"]) == ["0007"] * 2 + ["1-without-label"] * 2, of_tars
        assert sheet.read_bytes()[:26] == header, "the sheet of archives"
    *_, counted, left_out, _ = run(program, pictures, "--device", "host", "--epochs", "2").splitlines()
    assert counted.startswith("78 images of 3 classes, ") and left_out.startswith("left out: "), counted
    for wrong, why in ([], "which folder"), ([folder / "missing"], "missing"), ([pictures, "--size", "x"], "takes a number"):
        failed = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and why in failed.stderr, failed


def safetensors_file(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """A twin of the format's own writer: PyPI's safetensors writes these bytes, but for the order of the tensors."""
    header: dict = {"__metadata__": metadata} if metadata is not None else {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def crc32c(data: bytes) -> int:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def listed(lines: list[str]) -> dict[str, tuple[str, list[int], int]]:
    tensors = {}
    for line in lines:
        name, at = json.JSONDecoder().raw_decode(line)
        dtype, *shape, _, crc = line[at:].split()
        tensors[name] = dtype, json.loads("".join(shape)), int(crc)
    assert len(tensors) == len(lines), "a name came twice"
    return tensors


def load_weights(program: str, folder: Path):
    rng = random.Random(18)
    sizes = {"wte": 3_000_001, "none": 0, "one": 1, "wpe": 8 << 20, **{f"h.{i}.é\n": 4000 + i for i in range(300)}}
    shards = [folder / f"model-{i}-of-3.safetensors" for i in (1, 2, 3)]
    written = {}
    for i, shard in enumerate(shards):
        tensors = {f"{i}.{name}": ("U8", [size], rng.randbytes(size)) for name, size in sizes.items()}
        shard.write_bytes(safetensors_file(tensors, {"format": "pt"} if i != 1 else None))
        written |= tensors
    total = 3 * sum(sizes.values())
    for files in shards, [folder]:
        result = json.loads(run(program, "--json", "--check", "--device", "host", *files))
        assert set(result) == {"bytes", "seconds", "gb_per_s", "of_link", "of_links", "gpus", "device_seconds", "gathered_by", "memory_s", "open_s"}, result
        assert result["bytes"] == total and result["of_link"] is result["of_links"] is None and result["gpus"] == 0, result
        assert result["device_seconds"] == [result["seconds"]] and result["gathered_by"] is None, result
        assert 0 < result["open_s"] < result["memory_s"] < result["seconds"], result
        assert abs(result["gb_per_s"] - total / result["seconds"] / 1e9) < 1e-9, result
    lines = run(program, "--check", "--device", "host", *shards).splitlines()
    said, checked, *report = lines[len(written):]
    found = listed(lines[:len(written)])
    assert set(found) == set(written), set(found) ^ set(written)
    for name, (dtype, shape, data) in written.items():
        assert found[name][:2] == (dtype, shape), (name, found[name])
        assert len(data) > 10_000 or found[name][2] == crc32c(data), name
    assert said.startswith(f"{3 * len(sizes)} tensors, {total} bytes, in "), said
    assert checked == "every tensor is as in its file", checked
    assert report[0].startswith(f"{total} records"), report
    # Several devices, with rows of pieces that are many, few, or more than there are bytes; and models of no bytes at all.
    nothing = folder / "nothing.safetensors"
    nothing.write_bytes(safetensors_file({"a": ("U8", [0], b""), "b": ("U8", [0], b"")}, None))
    tiny = folder / "tiny.safetensors"
    tiny.write_bytes(safetensors_file({"a": ("U8", [0], b""), "b": ("U8", [1], b"x"), "c": ("U8", [0], b"")}, None))
    for devices in 1, 2, 3, 8:
        for piece, files, size in (100_000, shards, total), (8 << 20, shards, total), (1 << 30, shards, total), (1, [tiny], 1), (7, [nothing], 0):
            how = ["--check", "--device", "host", "--gpus", devices, "--piece", piece, *files]
            result = json.loads(run(program, "--json", *how))
            assert result["bytes"] == size and result["gpus"] == 0, (how, result)
            assert len(result["device_seconds"]) == devices and max(result["device_seconds"]) == result["seconds"], (how, result)
            assert min(result["device_seconds"]) > result["memory_s"] > result["open_s"] > 0, (how, result)
            assert result["gathered_by"] == ("copies on the host" if devices > 1 else None), (how, result)
    several = run(program, "--check", "--device", "host", "--gpus", 3, "--piece", 500_000, *shards).splitlines()
    assert several[:len(written)] == lines[:len(written)], "three devices have other tensors than one"
    assert f"on each of 3 devices, gathered by copies on the host" in several[len(written)], several[len(written)]
    shares = [int(line.split()[0]) for line in several if re.match(r"[0-9]+ records", line)]
    assert len(shares) == 3 and sum(shares) == total and max(shares) < total / 2, shares
    good = shards[0].read_bytes()
    for bad, words in {b"": "has 0 bytes", good[:-1]: "end behind the end of the file", good + b"x": "overlap nor leave gaps",
                       struct.pack("<Q", 1 << 63) + good[8:]: "header has 9223372036854775808 bytes"}.items():
        shards[1].write_bytes(bad)
        for devices in "1", "3":
            failed = subprocess.run([program, "--device", "host", "--gpus", devices, *shards], capture_output=True, text=True, timeout=LIMIT)
            assert failed.returncode == 1 and not failed.stdout and failed.stderr.count("\n") == 1, failed
            assert words in failed.stderr and str(shards[1]) in failed.stderr, failed.stderr
    for wrong, words in {("--device",): "--device has nothing behind it: give auto, cuda or host", ("--what",): "Usage",
                         ("--gpus",): "--gpus has nothing behind it: give how many", ("--gpus", "0"): "--gpus takes a number from 1 to 64",
                         ("--device", "gpu"): 'no device "gpu": take "auto", "cuda" or "host"'}.items():
        failed = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout and words in failed.stderr, failed
    said, checked = run(program, "--check").splitlines()[3:5]
    assert said.startswith("3 tensors, 3270146 bytes") and checked == "every tensor is as in its file", (said, checked)


def npy_file(dtype: str, shape: tuple, data: bytes) -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text + data


def tfrecord(data: bytes) -> bytes:
    """A record of a TFRecord file: its length, the data, and the masked checksum of each."""
    def masked(of: bytes) -> bytes:
        crc = crc32c(of)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def inspect(program: str, folder: Path):
    rng = random.Random(15)

    def write(name: str, data: bytes) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    def archive(name: str, arrays: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
        with zipfile.ZipFile(folder / name, "w", method) as to:
            for array, data in arrays.items():
                to.writestr(array + ".npy", data)
        return folder / name

    def column(name: str, of_type: str, extents: list[int], data: bytes) -> dict:
        return {"name": name, "type": of_type, "extents": extents, "bytes": len(data), "crc32c": crc32c(data)}

    def inspected(*files) -> subprocess.CompletedProcess:
        return subprocess.run([program, *map(str, files)], capture_output=True, text=True, timeout=LIMIT)

    x, y, ids = rng.randbytes(5 * 24), rng.randbytes(5 * 8), rng.randbytes(2000)
    swapped = b"".join(y[i:i + 8][::-1] for i in range(0, len(y), 8))
    arrays = {"x": npy_file("<f4", (5, 2, 3), x), "y": npy_file(">i8", (5,), swapped)}
    columns = [column("x", "float32", [2, 3], x), column("y", "int64", [], y)]
    lines = ["one", "", "ünö", "x" * 700_000, "y" * 700_000]
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, 1, 2) + struct.pack("<iqqq", 1000, 0, 0, 1)
    ids_bin, ids_idx = write("ids.bin", ids), write("ids.idx", index)
    tensors = {"wte": ("F32", [5, 6], x), "none": ("U8", [0], b""), "b\n": ("BF16", [20], y)}
    known = [
        (write("x.npy", arrays["x"]), "npy", 5, [column("array", "float32", [2, 3], x)]),
        (write("y.npy", arrays["y"]), "npy", 5, [column("array", "int64", [], y)]),
        (archive("both.npz", arrays), "npz", 5, columns),
        (archive("apart.npz", arrays | {"x": npy_file("<f4", (0, 2, 3), b"")}), "npz", None,
         [column("x", "float32", [2, 3], b""), columns[1]]),
        (archive("none.npz", {}), "npz", 0, []),
        (write("digits", bytes([0, 0, 8, 2]) + struct.pack(">II", 4, 10) + x[:40]), "idx", 4, [column("array", "uint8", [10], x[:40])]),
        (write("gpt2.bin", struct.pack("<256i", 20240520, 1, 1000, *[0] * 253) + ids), "llm.c", 1000, [column("tokens", "uint16", [], ids)]),
        (write("llama3.bin", struct.pack("<256i", 20240801, 7, 500, *[0] * 253) + ids), "llm.c", 500, [column("tokens", "uint32", [], ids)]),
        (ids_bin, "megatron", 1000, [column("tokens", "uint16", [], ids)]),
        (ids_idx, "megatron", 1000, [column("tokens", "uint16", [], ids)]),
        (write("w.safetensors", safetensors_file(tensors)), "safetensors", 160, [column(name, *of) for name, of in tensors.items()]),
        (write("text", "\n".join(lines).encode()), "lines", 5, [column("text", "text", [], "".join(lines).encode())]),
        (write("train", b"".join(map(tfrecord, [x, b"", ids]))), "tfrecord", 3, [column("bytes", "uint8", [], x + ids)]),
        (write("samples.tar", tar_file({"a/1.JPG": x, "a/1.cls": b"3", "notes": b"none", "a/2.cls": b"4", "a/2.jpg": ids})), "tar", 2,
         [column("jpg", "uint8", [], x + ids), column("cls", "uint8", [], b"34")]),
        (write("none.tar", bytes(10240)), "tar", 0, []),
        (write("empty", b""), "lines", 0, [column("text", "text", [], b"")]),
    ]
    said = [json.loads(line) for line in run(program, "--json", *[file for file, *_ in known]).splitlines()]
    for (file, of_format, records, found), result in zip(known, said, strict=True):
        files = [str(ids_bin), str(ids_idx)] if of_format == "megatron" else [str(file)]
        assert result == {"format": of_format, "records": records, "columns": found, "files": files}, result
    for file, of_format, records, found in known:
        first, *rest = run(program, file).splitlines()
        count = "different numbers of" if records is None else records
        assert first.endswith(f": {of_format}, {count} records") and len(rest) == len(found), first
        assert all(line.endswith(f"{it['bytes']} bytes  crc32c {it['crc32c']}") for line, it in zip(rest, found)), rest

    for name, data, size in ("picture.jpg", RED_AND_BLUE, [3, 12, 16]), ("picture", RED_AND_BLUE, [3, 12, 16]), ("png", GREY_PNG, [1, 2, 3]):
        picture = write(name, data)
        done = inspected("--json", picture)
        if done.returncode == 2:
            assert "was built without" in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, done
            continue
        said = json.loads(done.stdout)
        assert (said["format"], said["records"]) == ("png" if name == "png" else "jpeg", 1), said
        [of_picture] = said["columns"]
        assert (of_picture["name"], of_picture["type"], of_picture["extents"]) == ("image", "uint8", size), said
        assert of_picture["bytes"] == math.prod(size), said
        assert name != "png" or of_picture["crc32c"] == crc32c(GREY_PIXELS), said
        for cut in data[:len(data) // 2], data[:20], b"":
            done = inspected(write(name + "-cut.jpg", cut))
            assert done.returncode == 1 and done.stderr.count("\n") == 1, done

    # JSON whatever bytes a name has, and errors on one line.
    odd = os.fsdecode(b"\xff\xe2\x82\xc3\xa9\x7f\n\x1b\xed\xa0\x80\"")
    said = json.loads(run(program, "--json", write(odd, b"one\n")))
    assert said["files"] == [str(folder / "\ufffd\ufffd\ufffdé\x7f\n\x1b\ufffd\ufffd\ufffd\"")], said
    done = subprocess.run([program, write(odd + ".npy", b"")], capture_output=True, timeout=LIMIT)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"\x1b" not in done.stderr, done

    deflated = archive("deflated.npz", arrays, zipfile.ZIP_DEFLATED)
    done = inspected("--json", deflated)
    if done.returncode == 2:
        assert "was built without zlib" in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, done
    else:
        assert done.returncode == 0 and json.loads(done.stdout)["columns"] == columns, done
    good = archive("good.npz", arrays).read_bytes()
    bad = {write("cut.npy", arrays["x"][:-1]): "was cut", write("cut.npz", good[:-1]): "was cut",
           write("twice.npz", good.replace(b"y.npy", b"x.npy")): "for the second time",
           archive("lzma.npz", arrays, zipfile.ZIP_LZMA): "LZMA", write("cut.tfrecord", tfrecord(x)[:-1]): "only", write("noise", b"\x01\0\xff" * 99): "of no format that",
           write("cut.safetensors", b"\xff" * 7): "has 7 bytes", folder / "missing": "is no file", folder: "is no file"}
    for file, words in bad.items():
        done = inspected("--json", file, known[0][0])
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and len(done.stdout.splitlines()) == 1, done
        assert words in done.stderr and str(file) in done.stderr, done.stderr
    ids_idx.write_bytes(index[:-1])
    assert inspected(ids_bin).returncode == 1
    for wrong in [], ["--json"], ["--what", ids_bin]:
        assert inspected(*wrong).returncode == 1 and "Usage" in inspected(*wrong).stderr, wrong


def run_on_gpu(program: str, *args) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=LIMIT) if program else None
    if not done or (done.returncode == 1 and "this process has no GPU" in done.stderr):
        print(done.stderr if done else "there is no cuBLAS")
        sys.exit(77)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


UNITS = ("_gb_per_s", "_s_per_gib", "_per_s", "_us")


def doctor(program: str, folder: Path):
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
        failed = subprocess.run([program, "--device", "host", "--json", *args], capture_output=True, text=True, timeout=LIMIT, cwd=folder)
        assert failed.returncode == 1 and not failed.stdout, (args, failed)
        assert failed.stderr.startswith("17_doctor: ") and word in failed.stderr, (args, failed.stderr)
        assert failed.stderr.count("\n") == 1, (args, failed.stderr)
    if os.geteuid() != 0:
        one.chmod(0)
        failed = subprocess.run([program, "--device", "host", "--json", one], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout and str(one) in failed.stderr and "right to read it" in failed.stderr, failed
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


def streams(program: str, folder: Path):
    pinning, items, head, *rows, last = run_on_gpu(program, "--small").splitlines()
    found = [float(word) for word in pinning.replace(",", "").split() if re.fullmatch(r"\d+\.\d+", word)]
    # Some sandboxes do not tell how much memory a process has.
    assert "nan" in pinning or (len(found) == 2 and abs(found[0] - 1) < 0.2 and abs(found[1] - 2) < 0.2), pinning
    assert items.startswith("64 items of 0.25 MiB on cuda:"), items
    for row, name in zip(rows, ("pinned", "pageable", "pinned, streams", "pipeline")):
        assert row.startswith(name + " ") and len(row.removeprefix(name).split()) == 6, row
        ms, products, gpu, _, locked, faster = map(float, row.removeprefix(name).split())
        assert 0 < products <= ms and gpu > 0 and faster > 0 and (locked > 0) == (name != "pageable"), row
    assert rows[4].startswith("64 records") and any("Kernel" in row for row in rows[5:]), rows
    assert last == "all products are the same, bit by bit", last
    for wrong in ("--size", "100"), ("--items",), ("--items", "0"), ("what",):
        failed = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout and "Usage" in failed.stderr, failed


def knn(program: str, folder: Path):
    *report, took, said, first = run_on_gpu(program, "--small").splitlines()
    assert report[0].startswith("524288 records"), report
    assert 0 < float(took.split()[0]) < 256, f"{took}: as much as the file"
    assert said.startswith("the 10 nearest of 524288 vectors, certain for all 256 queries"), said
    assert first.startswith("of vector 0: 0 (0) ") and len(first.split()) == 3 + 20, first
    rng = random.Random(6)
    file = folder / "vectors"
    vectors = [[float(rng.randrange(16)) for _ in range(128)] for _ in range(300)]  # some distances are equal
    file.write_bytes(b"".join(struct.pack("<128f", *vector) for vector in vectors))
    squared = [sum((a - b) ** 2 for a, b in zip(vectors[0], vector)) for vector in vectors]
    *_, first = run_on_gpu(program, file).splitlines()
    found = [(int(i), float(d.strip("()"))) for i, d in zip(first.split()[3::2], first.split()[4::2])]
    wanted = sorted(range(300), key=lambda i: (squared[i], i))[:10]
    assert [i for i, _ in found] == wanted, (found, wanted)
    assert all(abs(d - math.sqrt(squared[i])) < 1e-3 for i, d in found), found
    same = b"".join(struct.pack("<128f", *vectors[0]) for _ in range(300))
    for contents, why in (same, "keep more candidates"), (same[:512 * 9], "9 vectors"), (same[:1000], "left over"):
        file.write_bytes(contents)
        failed = subprocess.run([program, file], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and why in failed.stderr, failed


def check_full(program: str, *args):
    """What cannot be written to standard output is an error, not lost."""
    with open("/dev/full", "w", encoding="ascii") as full:
        failed = subprocess.run([program, *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    assert failed.returncode == 1 and "cannot write to standard output" in failed.stderr, failed


def train(program: str, folder: Path):
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
        failed = subprocess.run([program, *sizes, "--steps", "60", *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout, (args, failed)
        assert failed.stderr.startswith("train: ") and word in failed.stderr and failed.stderr.count("\n") == 1, (args, failed.stderr)
    check_full(program, "--data", text, *sizes, "--steps", "1", "--json")


def generate(program: str, folder: Path):
    rng = random.Random(8)
    context, vocabulary, padded, layers, heads, width = 8, 100, 128, 2, 2, 16
    count = (padded + context) * width + layers * (12 * width * width + 13 * width) + 2 * width
    model = folder / "model"
    model.write_bytes(struct.pack("<8i", 20240326, 3, context, vocabulary, layers, heads, width, padded).ljust(1024, b"\0") +
                      struct.pack(f"<{count}f", *(rng.gauss(0, 0.5) for _ in range(count))))

    def written(*args) -> list[int]:
        return [int(word) for word in run(program, "--checkpoint", model, "--device", "host", "--tokens", "30", *args).split()]

    some = written("--prompt", "3, 99 0")
    assert some[:3] == [3, 99, 0] and len(some) == 33 and all(0 <= token < vocabulary for token in some), some
    assert some == written("--prompt", "3, 99 0") != written("--prompt", "3, 99 0", "--seed", "2")
    assert written("--temperature", "0") == written("--top-k", "1", "--seed", "3"), "the likeliest"
    assert len(written()) == 30 and len(set(written())) > 5, written()
    assert "--temperature X" in run(program, "--help")
    short = folder / "short"
    short.write_bytes(model.read_bytes()[:-4])
    for word, args in {"--checkpoint": [], "missing": ["--checkpoint", folder / "missing"], "it ends there": ["--checkpoint", short],
                       "from 0 to 99": ["--checkpoint", model, "--prompt", "100"]}.items():
        failed = subprocess.run([program, "--device", "host", *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
        assert failed.returncode == 1 and not failed.stdout, (args, failed)
        assert failed.stderr.startswith("generate: ") and word in failed.stderr and failed.stderr.count("\n") == 1, (args, failed.stderr)
    check_full(program, "--checkpoint", model, "--device", "host", "--tokens", "30")


EXAMPLES = {"01_hello_pipeline": hello_pipeline, "02_histogram": histogram, "03_train_loop": train_loop,
            "04_own_source_and_stage": own_source_and_stage, "05_columns": columns,
            "06_text": text, "07_ring": ring, "08_tokens": tokens,
            "09_small_batches": small_batches, "10_file_to_file": file_to_file, "11_transform_file": transform_file,
            "12_streams": streams, "13_knn": knn, "14_order": order, "15_inspect": inspect, "16_images": images,
            "17_doctor": doctor, "18_load_weights": load_weights, "19_select_records": select_records,
            "20_several_gpus": several_gpus,
            "train": train, "generate": generate}
with tempfile.TemporaryDirectory() as folder:
    try:
        EXAMPLES[sys.argv[1]](os.path.abspath(sys.argv[2]), Path(folder))
    except (AssertionError, subprocess.TimeoutExpired, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
