# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that a compiler refuses each mistake in tests/compile_fail, and says what is wrong and how to mend it.

check_refusals.py COMPILER ROOT --work FOLDER [NAME…]; exits with 77 (skipped) if there is no such compiler.

Each file there holds small programs, and first what these share. A program begins with a line `// refused NAME: …` and
ends before the next. It is wrong if PENSTOCK_REFUSED is defined and right if not. The right one must compile without a
word. The wrong one must not; its first error must be penstock's own, or that of a deleted function, and match the
regular expression behind NAME; and all that the compiler says must be a few lines. g++ and clang++ leave out the .cu
file if there is no nvcc, whose headers it needs. Many programs are compiled at once, each in a namespace of its own
beside what it shares, and the messages are sorted by program: a program whose messages are not as they should be is
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
REFUSED = re.compile(r"^// refused (\w+): (.+(?:\n// .+)*)$", re.MULTILINE)
INCLUDE = re.compile(r"^#include .+$", re.MULTILINE)
OURS = re.compile(r"error: .*(penstock: |deleted (member )?function|deleted constructor)")
# Lines that tell where an error is come before it; lines after an error belong to it, up to the next.
PLACE = re.compile(r"^(In file included from| +from )|: (In .+|At global scope):$|:   (recursively )?required ")
# A line of a file, as g++, clang++ and nvcc tell it, and as nvcc tells where it instantiates.
PLACES = re.compile(r"compile_fail/(?P<file>\w+\.\w+)[:(](?P<line>\d+)|line (?P<at>\d+) of .*?compile_fail/(?P<of>\w+\.\w+)")
CRASH = re.compile(r"internal (compiler )?error|PLEASE submit a bug report")


@dataclass
class Program:
    """A refusal: what its file has above all refusals, its own lines, and the number of the first of these."""
    name: str
    wanted: str
    path: Path
    shared: str
    text: str
    first: int

    @property
    def last(self) -> int:
        return self.first + self.text.count("\n")

    def source(self) -> str:
        """Returns what to compile, whose messages tell lines of the file in the tree."""
        return f'#line 1 "{self.path}"\n{self.shared}\n#line {self.first} "{self.path}"\n{self.text}'


def programs_in(path: Path) -> list[Program]:
    text = path.read_text()
    found = list(REFUSED.finditer(text))
    if not found or len(found) != text.count("// refused"):
        sys.exit(f"{path}: not every `// refused` is a line `// refused NAME: …`, or there is none")
    ends = [each.start() for each in found[1:]] + [len(text)]
    return [Program(each[1], each[2].replace("\n// ", " "), path.resolve(), text[:found[0].start()], text[each.start():end],
                    text.count("\n", 0, each.start()) + 1) for each, end in zip(found, ends)]


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

    def compile(self, name: str, source: str, *args) -> Said:
        path = self.work / f"{name}.cpp"
        path.write_text(source)
        return self.run(*args, *(["-x", "cu"] if self.nvcc else ["-fsyntax-only", "-x", "c++"]), path)

    def compile_many(self, name: str, programs: list[Program], *args) -> Said:
        return self.compile(name, as_one(programs), *self.many, *args)


def wrong_with(program: Program, said: Said) -> list[str]:
    """Returns what is wrong with a compiler's messages on a refused program."""
    if said.code == 0:
        return ["it compiles"]
    errors = [line for line in said.text.splitlines() if "error: " in line]
    wrong = []
    if said.code not in (1, 2) or CRASH.search(said.text):
        wrong.append(f"the compiler broke down, exit code {said.code}")
    if not errors or not OURS.search(errors[0]):
        wrong.append("the first error is not penstock's")
    if errors and not re.search(program.wanted, errors[0]):
        wrong.append(f"the first error does not match {program.wanted!r}")
    if said.lines > MOST_LINES:
        wrong.append(f"more than {MOST_LINES} lines")
    return wrong


def as_one(programs: list[Program]) -> str:
    """Joins programs into one, each in a namespace of its own, so that a compiler reads the headers once."""
    includes = sorted({line for program in programs for line in INCLUDE.findall(program.shared)})
    return "\n".join([*includes, *(f"namespace {program.name} {{\n{program.source()}\n}}" for program in programs), ""])


def sorted_out(said: Said, programs: list[Program]) -> dict[str, Said]:
    """Sorts the messages by program: every error, with its lines, goes to the program whose lines it names first."""
    owner = {(program.path.name, line): program.name for program in programs for line in range(program.first, program.last + 1)}
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
    said_of: dict[str, Said] = {}
    for lines in errors[1:]:
        places_in = [(at["file"] or at["of"], int(at["line"] or at["at"])) for at in PLACES.finditer("\n".join(lines))]
        named = next((owner[at] for at in places_in if at in owner), "")
        said_of.setdefault(named, Said(said.code, "")).text += "\n".join(lines) + "\n"
    return said_of


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
    files = [path for path in sorted((args.root / "tests" / "compile_fail").iterdir()) if path.suffix in kinds]
    programs = [program for path in files for program in programs_in(path) if not args.names or program.name in args.names]
    if not programs:
        sys.exit("there is nothing of that name in tests/compile_fail")
    twice = {program.name for program in programs if [each.name for each in programs].count(program.name) > 1}
    if twice:
        sys.exit(f"two refusals have one name: {', '.join(sorted(twice))}")
    alone = bool(args.names) or os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")
    sixths = range(6) if alone else [5] if compiler.nvcc else [1, 2, 4] if "clang" in args.compiler else [0, 3]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        right = pool.submit(compiler.compile_many, "right_ones", [each for i, each in enumerate(programs) if i % 6 in sixths])
        said_of: dict[str, Said] = {}
        if not alone:
            parts = [programs[i:i + AT_ONCE] for i in range(0, len(programs), AT_ONCE)]
            compiled = pool.map(lambda i: compiler.compile_many(f"wrong_ones_{i}", parts[i], "-DPENSTOCK_REFUSED"), range(len(parts)))
            for part, said in zip(parts, compiled):
                said_of |= sorted_out(said, part)
        doubtful = [each for each in programs if each.name not in said_of or wrong_with(each, said_of[each.name])]
        header = compiler.header if doubtful else []
        compiled = pool.map(lambda each: compiler.compile(each.name, each.source(), *header, "-DPENSTOCK_REFUSED"), doubtful)
        for each, said in zip(doubtful, compiled):
            said_of[each.name] = said
        for each in programs:
            said = said_of[each.name]
            wrong = wrong_with(each, said)
            failed += bool(wrong)
            print(f"{each.name}: {said.lines} lines" + "".join(f"\nFAILED  {each.path.name}:{each.first}: {what}" for what in wrong))
            if wrong:
                print(said.quoted())
        said = right.result()
        if said.code != 0 or said.text:
            failed += 1
            print(f"FAILED  without PENSTOCK_REFUSED these do not all compile quietly:\n{said.quoted()}")
    print(f"{len(programs)} refusals, {len(doubtful)} of them compiled alone, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
