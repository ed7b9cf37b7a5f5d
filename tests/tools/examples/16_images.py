# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Whether 16_images reads folders and archives of pictures, and leaves out what is none."""
import json
import struct
import subprocess
from pathlib import Path

from made_files import RED_AND_BLUE, tar_file
from running import LIMIT, run


def check(program: str, folder: Path):
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
