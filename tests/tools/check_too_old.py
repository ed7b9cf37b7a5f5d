# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles as if penstock did not support the compiler, toolkit, standard, library or system: there must be one #error
and nothing after it. A build without RTTI, which is rare but supported, must compile.

check_too_old.py ROOT COMPILER…     g++, clang++ or nvcc; the exit code is 77 if one is missing
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT, COMPILERS = Path(sys.argv[1]), sys.argv[2:]
INCLUDE = ROOT / "include"
LIMIT = 100
MOST_LINES = 7  # besides those that tell which file includes which
CXX17 = "penstock needs C++20, and this is older: compile with -std=c++20 (Meson: cpp_std=c++20)."
SYSTEM = "penstock needs Linux on x86-64 or Arm64, and this is another system: build for one of them."
NO_CUDA = "penstock: a header that ends in .cuh needs nvcc or clang for CUDA: name your file .cu."
TOOLKIT = "penstock needs CUDA 12.4 or later, and these are headers of an older one: install CUDA 13."
# What is defined differently from here, and what penstock then says.
OLD = {
    "g++": [("__GNUC__", "11", "penstock needs g++ 12 or later, and this is g++ 11 or older: take g++-12.")],
    "clang++": [("__clang_major__", "16",
                 "penstock needs clang 17 or later, and this is clang 16 or older: take clang++-19.")],
    "nvcc": [("__CUDACC_VER_MAJOR__", "11",
              "penstock needs nvcc 12.4 or later, and this is an older one: install CUDA 13.")],
}
NO_EXCEPTIONS = "penstock needs exceptions, and this build has none: compile without -fno-exceptions."
# libc++ has stop tokens only in its experimental part.
NO_TOKENS = "penstock needs std::stop_token: take libstdc++, or give libc++ -fexperimental-library."
WITHOUT_TOKENS = "#include <version>\n#undef __cpp_lib_jthread\n"
# Code that once needed RTTI: exceptions of a device while it captures.
WITHOUT_RTTI = """#include <penstock/penstock.hpp>

#include <vector>
namespace ps = penstock;
void run(ps::HostDevice& device, const std::vector<int>& from) {
  auto pipeline = ps::Reader{ps::memory(from), ps::to_pinned} | ps::AsyncCopier{device} |
                  ps::Consumer{ps::replayed([](ps::FrozenBatch<const int>, ps::HostStream&) {})};
  pipeline.run();
}
int main() {}
"""
ELSEWHERE = [("__linux__", None, SYSTEM), ("__x86_64__", None, SYSTEM)]


def compiled(compiler: str, folder: Path, text: str, standard: str, flag="") -> subprocess.CompletedProcess:
    nvcc = Path(compiler).name.startswith("nvcc")
    source = folder / ("old.cu" if nvcc else "old.cpp")
    source.write_text(text)
    how = ["-c", "-o", folder / "old.o"] if nvcc else ["-fsyntax-only"]
    if flag:
        how.append(f"-Xcompiler={flag}" if nvcc else flag)
    return subprocess.run([compiler, f"-std={standard}", *how, f"-I{folder}", f"-I{INCLUDE}", source],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)


def stops(compiler: str, folder: Path, header: str, message: str, before="", standard="c++20", flag=""):
    done = compiled(compiler, folder, f"{before}#include <{header}>\nint main() {{ return penstock::none(); }}\n", standard, flag)
    said = [line for line in done.stdout.splitlines() if not re.match("In file included from | +from ", line)]
    errors = [line for line in said if re.search(": (fatal )?error: ", line)]
    what = f"{compiler} -std={standard} {flag} of {before!r} {header}: exit code {done.returncode}\n{done.stdout}"
    assert done.returncode != 0 and len(errors) == 2 and len(said) <= MOST_LINES, what
    assert message in errors[0] and "fatal error: " in errors[1] and "see the error above" in errors[1], what


def check(compiler: str, folder: Path):
    name = Path(compiler).name
    kind = "nvcc" if "nvcc" in name else "clang++" if "clang" in name else "g++"
    control = compiled(compiler, folder, "#include <penstock/config.hpp>\nint main() {}\n", "c++20")
    assert control.returncode == 0 and not control.stdout, f"{compiler} as it is:\n{control.stdout}"
    for macro, value, message in [*OLD[kind], *ELSEWHERE]:
        before = f"#undef {macro}\n" + (f"#define {macro} {value}\n" if value else "")
        stops(compiler, folder, "penstock/penstock.hpp", message, before)
    stops(compiler, folder, "penstock/penstock.hpp", NO_EXCEPTIONS, flag="-fno-exceptions")
    stops(compiler, folder, "penstock/penstock.hpp", NO_TOKENS, WITHOUT_TOKENS)
    plain = compiled(compiler, folder, WITHOUT_RTTI, "c++20", "-fno-rtti")
    assert plain.returncode == 0 and not plain.stdout, f"{compiler} -fno-rtti:\n{plain.stdout}"
    # A user may include any header first. version.hpp is left out: any compiler may ask for the version.
    headers = {str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.*") if path.suffix in (".hpp", ".cuh")}
    public = sorted(name for name in headers if "/detail/" not in name and name != "penstock/version.hpp")
    for header in public if kind == "g++" else ["penstock/penstock.hpp", "penstock/cuda.hpp", "penstock/cuda/algorithm.cuh"]:
        stops(compiler, folder, header, CXX17, standard="c++17")
    if kind != "nvcc":
        for header in ["penstock/cuda/algorithm.cuh", "penstock/cuda/convert.cuh", "penstock/cuda/normalize.cuh"]:
            stops(compiler, folder, header, NO_CUDA)
        toolkit = folder / "cuda_runtime_api.h"
        toolkit.write_text("#define CUDART_VERSION 12030\n")
        stops(compiler, folder, "penstock/cuda.hpp", TOOLKIT)
        toolkit.unlink()


missing = [compiler for compiler in COMPILERS if not shutil.which(compiler)]
with tempfile.TemporaryDirectory() as folder:
    try:
        for compiler in COMPILERS:
            if compiler not in missing:
                check(compiler, Path(folder))
    except (AssertionError, subprocess.TimeoutExpired) as error:
        sys.exit(f"check_too_old.py: {error}")
if missing:
    print(f"there is no {' and no '.join(missing)}")
    sys.exit(77)
