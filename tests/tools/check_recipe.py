# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs a recipe that needs another library: check_recipe.py NAME ROOT COMPILER WORK_FOLDER.

NAME is libtorch or stdexec, of tests/cookbook/NAME.cpp. Libtorch is that of this Python's PyTorch; stdexec is found as any
header, so CPLUS_INCLUDE_PATH may name it. Exits with 77 (skipped) where the library is not.
"""
import subprocess
import sys
from pathlib import Path

name, root, compiler, work = sys.argv[1], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])


def libtorch() -> list[str]:
    try:
        import torch
    except ImportError:
        print("this Python has no PyTorch")
        sys.exit(77)
    home = Path(torch.__file__).parent
    return ["-isystem", str(home / "include"), "-isystem", str(home / "include/torch/csrc/api/include"), f"-L{home / 'lib'}",
            f"-Wl,-rpath,{home / 'lib'}", "-ltorch_cpu", "-lc10", "-ltorch"]


def stdexec() -> list[str]:
    there = subprocess.run([compiler, "-std=c++20", "-x", "c++", "-E", "-"], input="#include <stdexec/stop_token.hpp>", text=True,
                           capture_output=True)
    if there.returncode != 0:
        print("there is no stdexec: CPLUS_INCLUDE_PATH may name its folder include/")
        sys.exit(77)
    return []


needs = {"libtorch": libtorch, "stdexec": stdexec}[name]()
work.mkdir(parents=True, exist_ok=True)
program = work / name
subprocess.run([compiler, "-std=c++20", "-O0", f"-I{root / 'include'}", str(root / f"tests/cookbook/{name}.cpp"), *needs, "-pthread",
                "-o", str(program)], check=True)
subprocess.run([str(program)], check=True)
print(f"the recipe of {name} does what it should")
