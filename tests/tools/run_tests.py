# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the tests, in one build or in several, runs them, and compares those that ran with tests/meson.build.

The last line is "N passed, N failed, N skipped". A test is one test case in one build, or a program without test cases,
as is one that was not built or did not run. A test has failed if it says so, or if it is listed and did not run. A
program has failed if it fails although its test cases pass, if it has no test case, or if it does not say how many.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IN_CI = os.environ.get("CI", "") not in ("", "0", "false")
MESON = os.environ.get("MESON", "meson")
# The arguments by which tests/meson.build runs a program of test cases, which says how many it has.
OF_CASES = ["-w", "NoAssertions"]
# Read also by the tests that take minutes: without it they do a part of their work.
THOROUGH = os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")
# Seconds. A whole build has no limit, since the machine may be slow or busy; each test has its own in tests/meson.build.
SETUP_LIMIT, NEWS_EVERY = 300, 30
SLOWEST = 10


# Labels of host tests that say which builds are enough for them, see tests/meson.build.
ABOUT = {"memory", "races", "types"}


@dataclass
class Test:
    name: str
    kind: str  # the first of Meson's suites; the others are labels, see tests/meson.build
    labels: set[str]
    has_cases: bool  # it is a program of test cases, and otherwise one test
    depends: list[str]


@dataclass
class Build:
    """A build by one compiler, and the tests that it runs: those of these kinds, with the label if one is named."""
    name: str
    compiler: str
    kinds: dict[str, str]
    options: list[str]
    never: set[str] = field(default_factory=set)  # labels of tests that never run in it
    spared: set[str] = field(default_factory=set)  # what a test is about that it leaves to the other builds, if those run
    adds: str = ""  # what it tests beyond the first build

    def takes(self, test: Test, all_of_it: bool) -> bool:
        if test.kind not in self.kinds or test.labels & self.never:
            return False
        if not all_of_it:
            return not test.labels & {"ci", "thorough"}
        about = test.labels & ABOUT
        spared = about and about <= self.spared
        return THOROUGH or "thorough" not in test.labels and not spared and self.kinds[test.kind] in {"", *test.labels}

    @property
    def folder(self) -> Path:
        return ROOT / "build" / "tests" / self.name


# Some versions of Meson fail if there is an nvcc that does not run.
NVCC_RUNS = shutil.which("nvcc") and subprocess.run(["nvcc", "--version"], capture_output=True).returncode == 0
HOST_ONLY = ["--native-file", str(ROOT / "tests/tools/without_nvcc.ini")]
# Compiling takes most of the time.
QUICK = ["-Ddebug=false", "-Doptimization=0"]
# lld links in a third of the time.
LLD = ["-Dcpp_link_args=-fuse-ld=lld"] if shutil.which("ld.lld-19") else []
SANITIZED = [*HOST_ONLY, *QUICK, "-Dcpp_args=-g1", "-Db_lundef=false"]
# g++ warns of code that a sanitizer adds, though not of the same code in the plain build.
UNWARNED = ["-Dwarning_level=0", "-Dwerror=false"]
# Without a GPU nvcc's output is not run, so it need not become GPU code. For Hopper, since some code uses its tensor
# cores.
PTX = ["-Dcuda_args=-gencode=arch=compute_90,code=compute_90"] if NVCC_RUNS and not (THOROUGH or shutil.which("nvidia-smi")) else []
GXX, CLANG = os.environ.get("CXX", "g++"), "clang++-19"
# Without nvcc, g++ builds the examples instead, and the rest is skipped.
BUILDS = [
    Build("g++", GXX, dict.fromkeys(["host", "headers", "refused", "tree", "example", "model", "spin", "bench", "event"], ""),
          [*HOST_ONLY, *QUICK], spared={"memory", "races"}),
    Build("nvcc", GXX, {"cuda": "", "gpu": "", "fiu": "", "install": "", "example": "nvcc"},
          [*QUICK, *PTX] + ([] if NVCC_RUNS else HOST_ONLY), adds="CUDA, installing, faults of the system"),
    # g++ 12 takes five times as long to compile this build.
    Build("clang++-address", CLANG, {"host": "", "example": "address"}, [*SANITIZED, *LLD, "-Db_sanitize=address,undefined"],
          spared={"races", "types"}, adds="AddressSanitizer, UndefinedBehaviorSanitizer"),
    Build("clang++-thread", CLANG, {"host": ""}, [*SANITIZED, *LLD, "-Db_sanitize=thread"],
          never={"plain", "types"}, spared={"memory"}, adds="ThreadSanitizer"),
    *([Build("g++-thread", GXX, {"host": "", "example": ""}, [*SANITIZED, *UNWARNED, "-Doptimization=1", "-Db_sanitize=thread"],
             never={"plain", "types"})] if THOROUGH else []),
]
ENVIRONMENT = os.environ | {
    "MALLOC_PERTURB_": "85",
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:detect_leaks=1:strict_init_order=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.reasons: dict[str, int] = {}

    def fail(self, what: str, why: str, count=1):
        self.failed += count
        print(f"FAILED  {what}: {why}" + (f" ({count} test cases)" if count > 1 else ""), flush=True)

    def add(self, other: "Tally"):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def skip(self, count: int, why: str):
        self.skipped += count
        self.reasons[why] = self.reasons.get(why, 0) + count


class Commands:
    """Runs the commands of a build, one after the other."""

    def __init__(self):
        # Of the processors: a busy machine takes longer, but no more of this.
        self.seconds = 0.0

    def run(self, command, log: Path, limit: float = math.inf, **options) -> int:
        """Runs a command with all its output in the log, says now and then where that stands, and kills the command at the limit."""
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
            start, done, late = time.monotonic(), threading.Event(), threading.Event()

            def watch():
                while not done.wait(min(NEWS_EVERY, max(start + limit - time.monotonic(), 0))):
                    if time.monotonic() >= start + limit:
                        late.set()
                        process.kill()
                        return
                    print(f"{log.stem}, {time.monotonic() - start:.0f} s: {last_line(log)}", flush=True)

            watcher = threading.Thread(target=watch)
            watcher.start()
            # The process's own: os.times() would count another build's, which runs meanwhile.
            _, status, usage = os.wait4(process.pid, 0)
            done.set()
            watcher.join()
            process.returncode = os.waitstatus_to_exitcode(status)
            self.seconds += usage.ru_utime + usage.ru_stime
            if late.is_set():
                out.write(f"\nstopped after {limit} s\n".encode())
                return 124
            return process.returncode


def last_line(log: Path) -> str:
    with log.open("rb") as text:
        text.seek(max(log.stat().st_size - 4096, 0))
        lines = [line for line in re.split(r"[\r\n]+", text.read().decode(errors="replace")) if line.strip()]
    return lines[-1].strip()[:100] if lines else "…"


def busy() -> float:
    """Returns how many threads wait for each processor, at least 1."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def tail(text: str, lines: int) -> str:
    kept = text.rstrip().splitlines()
    return "\n".join(["        …"] * (len(kept) > lines) + ["        " + line for line in kept[-lines:]])


def meson(*args) -> str:
    return subprocess.run([MESON, *args], capture_output=True, text=True, check=True).stdout


def configure(build: Build, commands: Commands) -> int:
    """Sets the build folder up, anew if anything has changed that Meson remembers."""
    tools = [shutil.which(tool) for tool in (MESON, build.compiler, "nvcc", "pkg-config", "cmake", "spin", "fiu-run")]
    # Meson looks for headers when it sets a folder up.
    headers = sorted(str(path) for path in (ROOT / "include").rglob("*.[hc]*"))
    made_with = json.dumps([build.options, meson("--version"), tools, Path("/usr/include/relacy").exists(), str(ROOT), headers])
    stamp = build.folder / "made-with"
    if stamp.exists() and stamp.read_text() == made_with:
        # Reads a changed meson.build now, so that the queries of the folder below are not out of date.
        if commands.run(["ninja", "build.ninja"], build.folder.with_suffix(".setup.log"), SETUP_LIMIT, cwd=build.folder) == 0:
            return 0
    shutil.rmtree(build.folder, ignore_errors=True)
    build.folder.mkdir(parents=True)
    code = commands.run([MESON, "setup", build.folder, ROOT, *build.options], build.folder.with_suffix(".setup.log"), SETUP_LIMIT,
                        env=ENVIRONMENT | {"CXX": build.compiler})
    if code == 0:
        stamp.write_text(made_with)
    return code


def listed_tests(build: Build) -> list[Test]:
    tests = []
    for test in json.loads(meson("introspect", "--tests", str(build.folder))):
        kind, *labels = [suite.split(":")[-1] for suite in test["suite"]]
        tests.append(Test(test["name"], kind, set(labels), test["cmd"][1:] == OF_CASES, test["depends"]))
    return tests


def compile_tests(build: Build, tests: list[Test], commands: Commands) -> list[Test]:
    """Builds the tests' programs; one that does not compile does not hold back the others. Returns those to run."""
    files = {target["id"]: target["filename"] for target in json.loads(meson("introspect", "--targets", str(build.folder)))}
    needs = {test.name: [name for target in test.depends for name in files.get(target, [])] for test in tests}
    wanted = sorted({os.path.relpath(name, build.folder) for names in needs.values() for name in names})
    log = build.folder.with_suffix(".build.log")
    # The tests of the build before run meanwhile, and some of them look at the time.
    if not wanted or commands.run(["nice", "-n", "15", "ninja", "-k", "0", *wanted], log, cwd=build.folder, env=ENVIRONMENT) == 0:
        return tests
    chunks = re.split(r"^(?=FAILED: |\[\d+/\d+\] )", log.read_text(errors="replace"), flags=re.MULTILINE)
    failures = [chunk for chunk in chunks if chunk.startswith("FAILED: ")] or chunks[-1:]
    for chunk in failures:
        head, *rest = chunk.splitlines()
        # The line after the first is the command.
        print(f"{build.name}: {head}\n" + "\n".join("        " + line for line in rest[1:20]), flush=True)
    # Programs left from an earlier build must not be tested: ninja tells which it would still have to make.
    stale = subprocess.run(["ninja", "-k", "0", "-n", "-v", *wanted], cwd=build.folder, capture_output=True, text=True).stdout
    return [test for test in tests
            if all(os.path.exists(name) and os.path.relpath(name, build.folder) not in stale for name in needs[test.name])]


def run_programs(build: Build, tests: list[Test], commands: Commands) -> dict[str, dict]:
    """Runs them under `meson test`; returns what Meson's log says of each."""
    log = build.folder / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    if not tests:
        return {}
    command = [MESON, "test", "-C", build.folder, "--no-rebuild", *[test.name for test in tests]]
    sanitized = build.options[:len(SANITIZED)] == SANITIZED
    command += ["--timeout-multiplier", str((3 if sanitized else 1) * math.ceil(busy()))]
    if "thread" in build.name:
        # g++ 12's ThreadSanitizer cannot handle address space layout with many random bits.
        if subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0:
            command = ["setarch", "-R", *command]
    commands.run(command, build.folder.with_suffix(".test.log"), env=ENVIRONMENT)
    ran = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        result = json.loads(line)
        # Each version of Meson decorates names differently, but only before the name.
        names = [test.name for test in tests if re.search(f"(^|[ :]){re.escape(test.name)}$", result["name"])]
        ran[max(names, key=len)] = result
    return ran


def judge(build: Build, test: Test, result: dict, tally: Tally):
    """Counts how one test went; shows its output if it failed."""
    what, said = f"{build.name} {test.name}", result.get("stdout", "") + result.get("stderr", "")
    how = {"OK": "passed", "SKIP": "skipped"}.get(result["result"], "failed")
    # The test cases of a Catch2 program (see tests/support/catch_main.cpp), or the program.
    cases, count = [(how, "")], 1
    if test.has_cases:
        cases = re.findall(r"\[(passed|failed|skipped)\] (.+)$", result.get("stdout", ""), re.M)
        count = int((re.findall(r"^\[cases\] (\d+)$", result.get("stdout", ""), re.M) or [0])[0])
    if how == "failed":
        print(f"{what}: {result['result'].lower()}, exit code {result['returncode']}:\n{tail(said, 60)}", flush=True)
    if how == "skipped" and IN_CI and test.kind != "gpu":
        tally.fail(what, f"was skipped: {tail(said, 1).strip()}", len(cases))
        return
    for went, case in cases:
        if went == "passed":
            tally.passed += 1
        elif went == "skipped":
            tally.skip(1, "no GPU" if test.kind == "gpu" else tail(said, 1).strip())
        else:
            tally.fail(what, case.strip() or "failed")
    if count == 0:
        tally.fail(what, "the program says of no test case that it has it")
    elif len(cases) < count:
        tally.fail(what, f"{len(cases)} of {count} test cases ran", count - len(cases))
    elif how == "failed" and all(went != "failed" for went, _ in cases):
        tally.fail(what, "the program failed, though none of its test cases did")


class Round:
    """One build and its tests."""

    def __init__(self, build: Build, all_of_it: bool):
        self.build, self.all_of_it = build, all_of_it
        self.tally, self.commands = Tally(), Commands()
        self.listed: list[Test] = []  # by Meson
        self.tests: list[Test] = []  # those that this build takes
        self.to_run: list[Test] = []  # those of them that could be built
        self.built: dict[str, float] = {}  # seconds
        self.took: dict[str, float] = {}
        self.start = time.monotonic()

    def compile(self):
        build, tally = self.build, self.tally
        print(f"{build.name}: …", flush=True)
        if not shutil.which(build.compiler):
            tally.fail(build.name, f"there is no {build.compiler}") if IN_CI else tally.skip(1, f"no {build.compiler}")
            return
        if configure(build, self.commands) != 0:
            tally.fail(build.name, "meson setup failed:\n" + tail(build.folder.with_suffix(".setup.log").read_text(), 30))
            return
        self.listed = listed_tests(build)
        self.tests = [test for test in self.listed if build.takes(test, self.all_of_it)]
        for kind in build.kinds.keys() - {test.kind for test in self.tests}:
            if self.all_of_it:
                tally.fail(f"{build.name} {kind}", "Meson lists no such test: is Catch2 there, and Meson not older than 1.4?")
        ninja_log = build.folder / ".ninja_log"
        old = set(ninja_log.read_text().splitlines()) if ninja_log.exists() else set()
        self.to_run = compile_tests(build, self.tests, self.commands)
        for line in set(ninja_log.read_text().splitlines()) - old if ninja_log.exists() else []:
            if line[0] != "#":
                begin, end, _, target, _ = line.split("\t")
                self.built[f"{build.name} {target}"] = (int(end) - int(begin)) / 1000

    def test(self):
        build, tally = self.build, self.tally
        ran = run_programs(build, self.to_run, self.commands)
        for test in self.tests:
            if test.name in ran:
                judge(build, test, ran[test.name], tally)
                self.took[f"{build.name} {test.name}"] = ran[test.name]["duration"]
            else:
                tally.fail(f"{build.name} {test.name}", "was not run by Meson" if test in self.to_run else "was not built")
        reasons = f" ({'; '.join(tally.reasons)})" if tally.reasons else ""
        print("{}: {} passed, {} failed, {} skipped{}, {:.0f} s ({:.0f} s of processors)".format(
            build.name, tally.passed, tally.failed, tally.skipped, reasons, time.monotonic() - self.start, self.commands.seconds), flush=True)


def run_rounds(rounds: list[Round]):
    """Compiles one build after the other; the tests of one run while the next one compiles, since some of them wait."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = []
        for this in rounds:
            this.start = time.monotonic()
            this.compile()
            running.append(pool.submit(this.test))
    for future in running:
        future.result()


def print_slowest(what: str, seconds: dict[str, float]):
    print(f"The slowest {what}:")
    for name, time_taken in sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"{time_taken:8.1f} s  {name}")


def main() -> int:
    args = argparse.ArgumentParser(
        prog="tests/run", description="Builds and runs the tests: what g++ builds of them, in a few minutes. PENSTOCK_THOROUGH=1 in "
        "the environment, with --all: all that there is, for twice as long.")
    args.add_argument("--all", action="store_true", help="all builds, and the tests that take long: what CI runs")
    args.add_argument("--build", action="append", default=[], choices=[build.name for build in BUILDS],
                      help="only this build, as with --all (may be given several times)")
    args = args.parse_args()
    all_of_it = args.all or bool(args.build) or THOROUGH
    names = args.build or [build.name for build in BUILDS if all_of_it or build is BUILDS[0]]
    if busy() >= 2:
        print(f"warning: this machine is busy, {busy():.1f} threads want each processor: this takes longer, and each test may", flush=True)
    rounds = [Round(build, all_of_it) for build in BUILDS if build.name in names]
    run_rounds(rounds)
    tally, built, took = Tally(), {}, {}
    listed: dict[str, Test] = {}
    for this in rounds:
        tally.add(this.tally)
        built |= this.built
        took |= this.took
        listed |= {test.name: test for test in this.listed}
    if all_of_it and not args.build:
        # Labels that shut a test out of each build would have it pass unseen.
        for test in listed.values():
            if "thorough" not in test.labels and not any(build.takes(test, True) for build in BUILDS):
                tally.fail(test.name, "no build runs it, with the labels " + " and ".join(sorted(test.labels)))
    if all_of_it:
        print_slowest("to build", built)
        print_slowest("tests", took)
    else:
        print("Not run, but by ./tests/run --all: " + "; ".join(build.adds for build in BUILDS if build.adds)
              + "; and what takes long of g++'s: each header alone, refusals, models of the ring, benchmarks.")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return tally.failed != 0


sys.exit(main())
