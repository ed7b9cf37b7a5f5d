# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the pages and the public reference; every warning is an error.

check_doxygen.py DOXYFILE FOLDER; exits with 77 (skipped) if there is no doxygen.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

HEADERS = Path(__file__).resolve().parents[2] / "include" / "penstock"
DETAIL = re.compile(r"^namespace (penstock::)?detail \{$.*?^\} // namespace (penstock::)?detail$", re.MULTILINE | re.DOTALL)

if not shutil.which("doxygen"):
    print("there is no doxygen")
    sys.exit(77)
folder = Path(sys.argv[2])
for old in folder.glob("*.html"):
    old.unlink()
run = subprocess.run(["doxygen", sys.argv[1]], capture_output=True, text=True)
print(run.stdout + run.stderr, end="")
# No warnings mean nothing if nothing was read. Doxygen 1.9 never warns of concepts.
pages = {"index.html": "penstock", "stages.html": "value_bytes", "namespacepenstock.html": "with_device"}
pages["classpenstock_1_1Pipeline.html"] = "prepare"
for path in HEADERS.rglob("*.hpp"):
    pages |= {f"conceptpenstock_1_1{name}.html": name for name in re.findall(r"^concept (\w+)", DETAIL.sub("", path.read_text()), re.M)}
missing = [f"{page} is not there, or says nothing of {words}" for page, words in pages.items()
           if not (folder / page).exists() or words not in (folder / page).read_text()]
print("\n".join(missing) or f"{len(list(folder.glob('*.html')))} pages were made")
sys.exit(run.returncode or bool(missing))
