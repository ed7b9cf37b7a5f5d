# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Names the test cases, suites of programs and refusals that a commit has, and the working tree has not.

lost_tests.py [COMMIT]; COMMIT is main unless told. Exits with 1 if there are such, so that none is lost unseen. One that
has another name now is among them.
"""
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tree_files import tree_files

ROOT = Path(__file__).resolve().parents[2]
# A name may be written in several pieces, and a template's types are test cases each.
CASE = re.compile(r'\bTEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)|\bTEMPLATE_TEST_CASE\((.*?)\)\s*\{', re.DOTALL)
SUITE = re.compile(r'^#include "suite/(\w+)\.hpp"', re.MULTILINE)
REFUSED = re.compile(r"^// refused (\w+): ", re.MULTILINE)


def git(*args: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=True).stdout


def names(path: str, text: str) -> list[str]:
    cases = [" ".join(re.sub(r'"\s*"', "", plain or template).split()) for plain, template in CASE.findall(text)]
    suites = [f"{path.split('/')[-1]} with {suite}" for suite in SUITE.findall(text)]
    return [case.strip('"') for case in cases] + suites + REFUSED.findall(text)


def is_test(path: str) -> bool:
    return path.startswith("tests/") and path.endswith((".cpp", ".cu", ".hpp"))


commit = sys.argv[1] if len(sys.argv) > 1 else "main"
old = filter(is_test, git("ls-tree", "-r", "--name-only", commit).splitlines())
new = filter(is_test, (str(path.relative_to(ROOT)) for path in tree_files(ROOT)))
before = Counter(name for path in old for name in names(path, git("show", f"{commit}:{path}")))
now = Counter(name for path in new for name in names(path, (ROOT / path).read_text()))
lost = before - now
for name, count in sorted(lost.items()):
    print(f"gone: {name}" + (f" ({count} of {before[name]})" if before[name] > 1 else ""))
print(f"{before.total()} in {commit}, {now.total()} now, {lost.total()} gone")
sys.exit(bool(lost))
