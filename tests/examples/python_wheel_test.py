# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of examples/python/, installs it into a fresh environment, and uses it there.

python_wheel_test.py ROOT WORK_FOLDER. Exits with 77 (skipped) if this Python lacks meson-python, nanobind or NumPy.
"""
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

root, work = Path(sys.argv[1]), Path(sys.argv[2])
lacking = [name for name in ("mesonpy", "nanobind", "numpy", "pip", "venv") if find_spec(name) is None]
if lacking:
    print("this Python lacks " + ", ".join(lacking))
    sys.exit(77)

shutil.rmtree(work, ignore_errors=True)
subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", work / "wheels",
                root / "examples/python"], check=True)
wheel, = (work / "wheels").glob("penstock-*.whl")
subprocess.run([sys.executable, "-m", "venv", work / "fresh"], check=True)
python = work / "fresh/bin/python"
subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel], check=True)
used = """
import importlib.metadata, pathlib, penstock
assert importlib.metadata.version("penstock") == penstock.__version__
stubs = pathlib.Path(penstock.__file__).with_name("penstock.pyi").read_text()
assert "def arrays(path: str | os.PathLike, " in stubs and "-> Loader" in stubs
pathlib.Path("tokens.bin").write_bytes(bytes(20_000))
assert sum(windows.shape[0] for windows in penstock.tokens(["tokens.bin"], length=101)) == 99
"""
subprocess.run([python, "-c", used], check=True, cwd=work)
print(f"{wheel.name} is installed, and works")
