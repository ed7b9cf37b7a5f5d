# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that a compiler refuses each mistake in tests/compile_fail, and says what is wrong and how to mend it.

check_refusals.py COMPILER ROOT --work FOLDER [NAME…]; exits with 77 (skipped) if there is no such compiler.

Each file there is a small program, wrong if PENSTOCK_REFUSED is defined and right if not. The right one must compile
without a word. The wrong one must not; its first error must be penstock's own, or that of a deleted function, and match
the regular expression in the file's line `// refused: …`; and all that the compiler says must be a few lines. g++ and
clang++ leave out the .cu files if there is no nvcc, whose headers these need. Many programs are compiled at once, each
in a namespace of its own, and the messages are sorted by program: a program whose messages are not as they should be is
compiled alone, and that counts. With PENSTOCK_THOROUGH=1 in the environment, or with names, each is compiled alone.
Otherwise the three compilers share the right programs, which take longest: nvcc gets a sixth.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MOST_LINES = 12
AT_ONCE = 60  # nvcc gives up after 100 errors
REFUSED = re.compile(r"^// refused: (.+)$", re.MULTILINE)
OURS = re.compile(r"error: .*(penstock: |deleted (member )?function|deleted constructor)")
# Lines that tell where an error is come before it; lines after an error belong to it, up to the next.
PLACE = re.compile(r"^(In file included from| +from )|: (In .+|At global scope):$|:   (recursively )?required ")
PROGRAM = re.compile(r"compile_fail/(\w+)\.cu?(?:pp)?\b")
CRASH = re.compile(r"internal (compiler )?error|PLEASE submit a bug report")


@dataclass
class Said:
    code: int
    text: str

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def quoted(self) -> str:
        return "".join(f"    {line}\n" for line in self.text.splitlines())


class Compiler:
    def __init__(self, command: str, root: Path, work: Path, cuda: Path | None):
        self.nvcc = "nvcc" in Path(command).name
        self.base = [command, "-std=c++20", f"-I{root / 'include'}"]
        self.work = work
        # A main in a namespace must return something; the real main need not.
        self.many = ["-diag-suppress=940"] if self.nvcc else ["-Wno-return-type"]
        self.many += ["-ferror-limit=0"] if "clang" in command else []
        if self.nvcc:
            # -ptx runs the device pass alone, which reads the whole program, and nothing before it.
            self.base += ["-Xcompiler=-Wall,-Wextra,-Wshadow", "-Werror=all-warnings", "-ptx", "-o", os.devnull]
            return
        self.base += ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow"]
        if cuda:
            self.base += ["-isystem", str(cuda)]

    # The headers take most of the time. Precompiled, they change what compilers say by one line, of clang++.
    @cached_property
    def header(self) -> list[str]:
        if self.nvcc:
            return []
        header = self.work / "precompiled.hpp"
        header.write_text("#include <penstock/penstock.hpp>\n")
        said = self.run("-x", "c++-header", header, "-o", f"{header}.gch")
        if said.code != 0:
            sys.exit(f"penstock/penstock.hpp does not compile:\n{said.text}")
        return ["-include", str(header)]

    def run(self, *args) -> Said:
        done = subprocess.run([*self.base, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=300)
        return Said(done.returncode, done.stdout)

    def compile(self, source: Path, *args) -> Said:
        return self.run(*args, *(["-x", "cu"] if self.nvcc else ["-fsyntax-only", "-x", "c++"]), source)

    def compile_many(self, name: str, files: list[Path], *args) -> Said:
        together = self.work / f"{name}.cpp"
        together.write_text(as_one(files))
        return self.compile(together, *self.many, *args)


def wrong_with(path: Path, said: Said) -> list[str]:
    """Returns what is wrong with a compiler's messages on a refused program."""
    if said.code == 0:
        return ["it compiles"]
    errors = [line for line in said.text.splitlines() if "error: " in line]
    wanted = REFUSED.findall(path.read_text())
    wrong = []
    if said.code not in (1, 2) or CRASH.search(said.text):
        wrong.append(f"the compiler broke down, exit code {said.code}")
    if not errors or not OURS.search(errors[0]):
        wrong.append("the first error is not penstock's")
    if not wanted:
        wrong.append("the file has no line `// refused: …`")
    wrong += [f"the first error does not match {text!r}" for text in wanted if errors and not re.search(text, errors[0])]
    if said.lines > MOST_LINES:
        wrong.append(f"more than {MOST_LINES} lines")
    return wrong


def as_one(files: list[Path]) -> str:
    """Joins programs into one, each in a namespace of its own, so that a compiler reads the headers once."""
    includes = sorted({line for path in files for line in re.findall("^#include .+$", path.read_text(), re.MULTILINE)})
    programs = [f'namespace {path.stem} {{\n#include "{path.resolve()}"\n}}' for path in files]
    return "\n".join([*includes, *programs, ""])


def sorted_out(said: Said) -> dict[str, Said]:
    """Sorts the messages by program: every error, with its lines, goes to the program that it names."""
    errors: list[list[str]] = [[]]
    places: list[str] = []
    for line in said.text.splitlines():
        if PLACE.search(line):
            places.append(line)
            continue
        if "error: " in line:
            errors.append([])
        errors[-1] += [*places, line]
        places = []
    programs: dict[str, Said] = {}
    for lines in errors[1:]:
        named = PROGRAM.search("\n".join(lines))
        program = programs.setdefault(named[1] if named else "", Said(said.code, ""))
        program.text += "\n".join(lines) + "\n"
    return programs


def main() -> int:
    args = argparse.ArgumentParser()
    args.add_argument("compiler")
    args.add_argument("root", type=Path)
    args.add_argument("--work", type=Path, required=True)
    args.add_argument("names", nargs="*", metavar="NAME")
    args = args.parse_intermixed_args()
    if not shutil.which(args.compiler):
        print(f"there is no {args.compiler}")
        return 77
    args.work.mkdir(parents=True, exist_ok=True)
    nvcc = shutil.which("nvcc")
    cuda = Path(nvcc).resolve().parents[1] / "include" if nvcc else None
    compiler = Compiler(args.compiler, args.root, args.work, cuda)
    kinds = {".cpp", ".cu"} if cuda else {".cpp"}
    files = [path for path in sorted((args.root / "tests" / "compile_fail").iterdir())
             if path.suffix in kinds and (not args.names or path.stem in args.names)]
    if not files:
        sys.exit("there is nothing in tests/compile_fail")
    alone = bool(args.names) or os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")
    sixths = range(6) if alone else [5] if compiler.nvcc else [1, 2, 4] if "clang" in args.compiler else [0, 3]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        right = pool.submit(compiler.compile_many, "right_ones", [path for i, path in enumerate(files) if i % 6 in sixths])
        said_of: dict[str, Said] = {}
        if not alone:
            parts = [files[i:i + AT_ONCE] for i in range(0, len(files), AT_ONCE)]
            for said in pool.map(lambda i: compiler.compile_many(f"wrong_ones_{i}", parts[i], "-DPENSTOCK_REFUSED"), range(len(parts))):
                said_of |= sorted_out(said)
        doubtful = [path for path in files if path.stem not in said_of or wrong_with(path, said_of[path.stem])]
        header = compiler.header if doubtful else []
        for path, said in zip(doubtful, pool.map(lambda path: compiler.compile(path, *header, "-DPENSTOCK_REFUSED"), doubtful)):
            said_of[path.stem] = said
        for path in files:
            said = said_of[path.stem]
            wrong = wrong_with(path, said)
            failed += bool(wrong)
            print(f"{path.stem}: {said.lines} lines" + "".join(f"\nFAILED  {path.name}: {what}" for what in wrong))
            if wrong:
                print(said.quoted())
        said = right.result()
        if said.code != 0 or said.text:
            failed += 1
            print(f"FAILED  without PENSTOCK_REFUSED these do not all compile quietly:\n{said.quoted()}")
    print(f"{len(files)} refusals, {len(doubtful)} of them compiled alone, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
