# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Writes one source of several examples, each in a namespace of its own, so that a slow compiler reads the headers once.

examples_together.py OUT EXAMPLE…     the examples are files; their folder is one that the compiler must look in
"""
import re
import sys
from pathlib import Path

INCLUDES = re.compile(r"^#(?:include|if|el|endif).*$", re.MULTILINE)

out, sources = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
# All includes come first, each under its condition, and do nothing when an example repeats them within its namespace.
includes = [line for source in sources for line in INCLUDES.findall(source.read_text())]
examples = [f'namespace example_{source.stem} {{\n#include "{source.name}"\n}}' for source in sources]
out.write_text("\n".join([*includes, *examples, "int main() {}", ""]))
