# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the headers that penstock.hpp and cuda.hpp include, and those that these include in turn, a line each.

brought_headers.py ROOT
"""
import re
import sys
from pathlib import Path

INCLUDE = Path(sys.argv[1]) / "include"
found, left = set(), ["penstock/penstock.hpp", "penstock/cuda.hpp"]
while left:
    for header in re.findall(r"#include <(penstock/[^>]+)>", (INCLUDE / left.pop()).read_text()):
        if header not in found:
            found.add(header)
            left.append(header)
print("\n".join(sorted(found)))
