# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""bench/run peers: one table of penstock's Python module beside the loaders of others that are installed as wheels.

It needs the module (python3 -m pip install ./examples/python), makes the files that it reads, and takes some minutes. A
row is one kind of data; handover.py says how it is measured. What is missing is named. Without a GPU all rows end in
host memory, and the files are small: such a table shows that all runs, and not how fast a GPU is fed.
"""
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Wheels by the module that one imports. Those with rows name them, as handover.py does.
PEERS = {"torch": "PyTorch", "kvikio": "KvikIO", "instanttensor": "InstantTensor", "fastsafetensors": "fastsafetensors",
         "nvidia.dali": "DALI", "spdl": "SPDL"}
ROWS = {"tokens": ["torch"], "records": ["torch"], "images": ["torch", "torchvision", "PIL"]}
KINDS = {"tokens": "shuffled windows of tokens, as 64-bit inputs and targets", "tokens as they lie": "the same, as 16 bits",
         "records": "shuffled records of 150 KB", "images": "a folder of JPEG files, normalised"}


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def table(results: dict) -> list[str]:
    """Returns the lines of a table of what handover.py found."""
    lines = ["| items a second | DataLoader, by | penstock | times |", "| --- | --- | ---: | ---: |"]
    for row, kind in KINDS.items():
        if row in results:
            found = results[row]
            median = {who: statistics.median(rates) for who, rates in found["items_a_second"].items()}
            lines.append(f"| {kind} | {median['DataLoader']:,.0f}, {found['dataloader_by']} | {median['penstock']:,.0f} | "
                         f"{found['ratio']:.1f} |")
    return lines


def run_peers(gpu: bool, out: Path) -> int:
    """Measures what can be measured here, prints the table, and returns an exit code."""
    for module, name in PEERS.items():
        if not installed(module):
            print(f"{name} is not installed (module {module})")
        elif not any(module in needs for needs in ROWS.values()):
            print(f"{name} is installed, and no row measures it yet")
    module = importlib.util.find_spec("penstock")
    if module is None:
        print("penstock's module is not installed: python3 -m pip install ./examples/python")
    missing = {row: [one for one in needs if not installed(one)] for row, needs in ROWS.items()}
    for row, lacks in missing.items():
        if lacks:
            print(f"the row of {row} is left out: there is no {', '.join(lacks)}")
    rows = [row for row, lacks in missing.items() if not lacks]
    if module is None or not rows:
        print("nothing was measured")
        return 1
    if not gpu:
        print("there is no GPU: all rows end in host memory, from small files")
    folder = Path(module.submodule_search_locations[0] if module.submodule_search_locations else module.origin).parent
    found = out / "peers.json"
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, str(Path(__file__).with_name("handover.py")), str(folder), "--work", work, "--rows", *rows,
                   "--out", str(found), *([] if gpu else ["--small"])]
        if subprocess.run(command, check=False).returncode != 0:
            print("handover.py has failed")
            return 1
    print("\n" + "\n".join(table(json.loads(found.read_text(encoding="utf-8"))["results"])))
    return 0
