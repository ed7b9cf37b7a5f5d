# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs all tests and compares what ran with tests/expected.txt, both ways.

The last line is "N passed, N failed, N skipped". A test is one test case in one build. It has failed if it says so, if
it is listed and did not run, and if it ran and is not listed; so has a program that fails though its test cases pass.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = ROOT / "tests" / "expected.txt"
IN_CI = os.environ.get("CI", "") not in ("", "0", "false")
MESON = os.environ.get("MESON", "meson")
RELACY = Path("/usr/include/relacy/relacy.hpp")
# Read also by the tests that take minutes: without it they do a part of their work.
THOROUGH = os.environ.get("PENSTOCK_THOROUGH", "") not in ("", "0")
BUILD_LIMIT, TEST_LIMIT = 1800, 1800  # seconds, for a whole build; each test has its own limit in tests/meson.build

SUITES = ["host", "headers", "refused", "tree", "example", "model", "spin", "fiu", "install", "bench", "event", "cuda", "gpu"]
# What a whole suite waits for, where it is not there; a test of it that is missing though its tool is there has failed.
NEEDS = {"model": "relacy", "spin": "spin", "fiu": "fiu-run", "bench": "Google Benchmark", "event": "Google Benchmark", "cuda": "nvcc", "gpu": "nvcc"}
HEAD = """\
# Every test, as `suite test: test case`: ./tests/run fails if one of them does not run, or if one runs that is not
# here. `./tests/run --update` writes this file. A gpu test may be skipped where there is no GPU. With CI=true nothing
# else may; else tests are skipped too for want of a tool: nvcc (cuda, gpu), relacy (model), spin (spin),
# fiu-run (fiu), Google Benchmark (bench, event), clang++-19 or nvcc (refused), clang++-19, cmake or nvcc (install),
# clang-format-19, doxygen (tree).
"""


@dataclass
class Build:
    name: str
    compiler: str
    suites: list[str]
    options: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)

    def has(self, suite: str, test: str) -> bool:
        return suite in self.suites and test not in self.without

    @property
    def folder(self) -> Path:
        return ROOT / "build" / "tests" / self.name


# Some versions of Meson break off where there is an nvcc that does not run.
NVCC_RUNS = shutil.which("nvcc") and subprocess.run(["nvcc", "--version"], capture_output=True).returncode == 0
HOST_ONLY = ["--native-file", str(ROOT / "tests/tools/without_nvcc.ini")]
# Most of the time goes into compiling.
QUICK = ["-Ddebug=false"]
SANITIZED = [*HOST_ONLY, *QUICK, "-Dcpp_args=-g1", "-Db_lundef=false"]
# What the plain build has no warning for, g++ warns of in what a sanitizer adds.
UNWARNED = ["-Dwarning_level=0", "-Dwerror=false"]
# Where no GPU runs what nvcc makes, it need not come to the GPU's own code. For Hopper, whose tensor cores some of it is for.
PTX = ["-Dcuda_args=-gencode=arch=compute_90,code=compute_90"] if NVCC_RUNS and not (THOROUGH or shutil.which("nvidia-smi")) else []
GXX, CLANG = os.environ.get("CXX", "g++"), "clang++-19"
# What has no threads, or none of its own; what takes long and fails one thing after the other; what the sanitizer is in
# the way of.
PLAIN = ["activity_summary", "algorithm", "columns", "convert", "device_array", "docs", "faults", "faults_files", "faults_memory",
         "fetcher", "io_file", "mapping", "odr", "ragged", "schema", "select", "sort", "sources", "steady", "transformer", "usable",
         "version", "windows", "wiring", "with_device", "zero_cost", "zip"]
# Suites that are there for a GPU too, and that the sanitizers run.
SUITES_OF_NVCC = ["columns", "decoded", "loop", "pipeline", "ragged", "replayed"]
# What takes long to compile or to run, and both of the big sanitizer builds run.
LONG = ["both_ways", "control", "copier", "faults_calls", "faults_stop", "host_device", "io_direct", "io_new_file", "observe",
        "observer", "on_error", "process", "ring", "shutdown", "writer"]
# What else is left to other builds unless everything is asked for: to AddressSanitizer's alone; to ThreadSanitizer's; to
# g++'s plain one, what is about types, counts what is called, or has plain loops only; and to machines with a GPU, what is
# tested on the host too. Each example is compiled by one.
ADDRESS_ONLY = [] if THOROUGH else [
    "counted", "decoded", "deferred", "faults", "faults_both_ways", "faults_calls", "faults_files", "faults_memory", "fetcher",
    "io_direct", "io_file", "io_new_file", "on_error", "poison", "replayed", "scratch", "sources", "trace", "windows", "zip"]
THREAD_ONLY = [] if THOROUGH else ["both_ways", "control", "faults_stop", "observe", "observer", "shutdown", "unwaited"]
BY_GXX = [] if THOROUGH else [
    "convert", "docs", "odr", "schema", "select", "sort", "steady", "transformer", "version", "wiring", "with_device", "zero_cost",
    "03_train_loop", "05_columns", "06_text", "07_ring", "08_tokens", "09_small_batches", "10_file_to_file"]
BY_NVCC = [] if THOROUGH else ["01_hello_pipeline", "02_histogram"]
BY_CLANG = [] if THOROUGH else ["04_own_source_and_stage", "11_transform_file"]
ON_GPU = [] if THOROUGH else ["cuda/" + name for name in [
    "activity", "algorithm", "both_ways", "columns", "control", "convert", "counted", "decoded", "deferred", "docs", "guest_gpu", "loop",
    "pipeline", "poison", "ragged", "replayed", "schema", "scratch", "select", "sort", "transformer", "trap", "zero_cost"]] + [
    "example/12_streams", "example/13_knn"]
# Without an nvcc the examples are built by g++ instead, and the rest is skipped.
BUILDS = [
    Build("g++", GXX, ["host", "headers", "refused", "tree", "example", "model", "spin", "bench", "event"],
          [*HOST_ONLY, *QUICK, "-Doptimization=0"],
          without=[*SUITES_OF_NVCC, *LONG, *ADDRESS_ONLY, *BY_NVCC, *BY_CLANG, "refused/nvcc"]),
    Build("nvcc", GXX, ["refused", "example", "fiu", "install", "cuda", "gpu"],
          [*QUICK, "-Doptimization=0", *PTX] + ([] if NVCC_RUNS else HOST_ONLY),
          without=["refused/g++", "refused/clang++", *BY_GXX, *BY_CLANG, *ON_GPU]),
    # g++ 12 takes five times as long to compile this one, and clang three times if it is to optimise.
    Build("clang++-address", CLANG, ["host", "example"], [*SANITIZED, "-Doptimization=0", "-Db_sanitize=address,undefined"],
          without=[*THREAD_ONLY, *BY_NVCC, *BY_GXX]),
    Build("clang++-thread", CLANG, ["host"], [*SANITIZED, "-Doptimization=1", "-Db_sanitize=thread"],
          without=[*PLAIN, *ADDRESS_ONLY, *BY_GXX]),
    *([Build("g++-thread", GXX, ["host", "example"], [*SANITIZED, *UNWARNED, "-Doptimization=1", "-Db_sanitize=thread"],
             without=PLAIN)] if THOROUGH else []),
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

    def fail(self, what: str, why: str):
        self.failed += 1
        print(f"FAILED  {what}: {why}", flush=True)

    def skip(self, count: int, why: str):
        self.skipped += count
        self.reasons[why] = self.reasons.get(why, 0) + count


def run(command, log: Path, limit: int, **options) -> int:
    """Runs it with all it says in the log, and kills it at the limit."""
    with log.open("wb") as out:
        try:
            return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  timeout=limit, **options).returncode
        except subprocess.TimeoutExpired:
            out.write(f"\nstopped after {limit} s\n".encode())
            return 124


def tail(text: str, lines: int) -> str:
    kept = text.rstrip().splitlines()
    return "\n".join(["        …"] * (len(kept) > lines) + ["        " + line for line in kept[-lines:]])


def meson(*args) -> str:
    return subprocess.run([MESON, *args], capture_output=True, text=True, check=True).stdout


def configure(build: Build) -> int:
    """Sets the build folder up, anew if anything has changed that Meson remembers."""
    tools = [shutil.which(tool) for tool in (MESON, build.compiler, "nvcc", "pkg-config", "cmake", "spin", "fiu-run")]
    made_with = json.dumps([build.options, meson("--version"), tools, RELACY.exists(), str(ROOT)])
    stamp = build.folder / "made-with"
    if stamp.exists() and stamp.read_text() == made_with:
        # A changed meson.build is read now, so that what is asked of the folder below is not out of date.
        if run(["ninja", "build.ninja"], build.folder.with_suffix(".setup.log"), 300, cwd=build.folder) == 0:
            return 0
    shutil.rmtree(build.folder, ignore_errors=True)
    build.folder.mkdir(parents=True)
    code = run([MESON, "setup", build.folder, ROOT, *build.options], build.folder.with_suffix(".setup.log"), 300,
               env=ENVIRONMENT | {"CXX": build.compiler})
    if code == 0:
        stamp.write_text(made_with)
    return code


def compile_tests(build: Build, tests: list[dict]) -> list[dict]:
    """Builds the tests' programs; one that does not compile does not hold back the others. Gives those to run."""
    files = {target["id"]: target["filename"] for target in json.loads(meson("introspect", "--targets", str(build.folder)))}
    needs = {test["name"]: [name for target in test["depends"] for name in files.get(target, [])] for test in tests}
    wanted = sorted({os.path.relpath(name, build.folder) for names in needs.values() for name in names})
    log = build.folder.with_suffix(".build.log")
    if not wanted or run(["ninja", "-k", "0", *wanted], log, BUILD_LIMIT, cwd=build.folder, env=ENVIRONMENT) == 0:
        return tests
    chunks = re.split(r"^(?=FAILED: |\[\d+/\d+\] )", log.read_text(errors="replace"), flags=re.MULTILINE)
    failures = [chunk for chunk in chunks if chunk.startswith("FAILED: ")] or chunks[-1:]
    for chunk in failures:
        head, *rest = chunk.splitlines()
        # The line after the head is the command.
        print(f"{build.name}: {head}\n" + "\n".join("        " + line for line in rest[1:20]), flush=True)
    # What is left of an earlier build is not what is to be tested: ninja says what it would still have to make.
    stale = subprocess.run(["ninja", "-k", "0", "-n", "-v", *wanted], cwd=build.folder, capture_output=True, text=True).stdout
    return [test for test in tests
            if all(os.path.exists(name) and os.path.relpath(name, build.folder) not in stale for name in needs[test["name"]])]


def run_programs(build: Build, tests: list[dict]) -> dict[str, dict]:
    """Runs them under `meson test`; gives what Meson's log says of each."""
    if not tests:
        return {}
    command = [MESON, "test", "-C", build.folder, "--no-rebuild", *[test["name"] for test in tests]]
    if build.options[:len(SANITIZED)] == SANITIZED:
        command += ["--timeout-multiplier", "3"]
    if "thread" in build.name:
        # Address space layout with many random bits is more than g++ 12's ThreadSanitizer can take.
        if subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0:
            command = ["setarch", "-R", *command]
    log = build.folder / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    run(command, build.folder.with_suffix(".test.log"), TEST_LIMIT, env=ENVIRONMENT)
    ran = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        result = json.loads(line)
        # Each version of Meson decorates names in another way, but before the name.
        names = [test["name"] for test in tests if re.search(f"(^|[ :]){re.escape(test['name'])}$", result["name"])]
        ran[max(names, key=len)] = result
    return ran


def cases_of(result: dict) -> dict[str, str]:
    """The test cases of a Catch2 program, and how each went (see tests/support/catch_main.cpp)."""
    return {name.strip(): how for how, name in re.findall(r"\[(passed|failed|skipped)\] (.+)$", result.get("stdout", ""), re.M)}


def outcomes(build: Build, tally: Tally, seen: dict[str, str]) -> set[str]:
    """Builds and runs one build's tests; notes how each went in `seen`. Gives the suites that it has."""
    if not shutil.which(build.compiler):
        return set()
    if configure(build) != 0:
        tally.fail(build.name, "meson setup failed:\n" + tail(build.folder.with_suffix(".setup.log").read_text(), 30))
        return set(build.suites)
    tests = []
    for test in json.loads(meson("introspect", "--tests", str(build.folder))):
        test["suite"] = test["suite"][0].split(":")[-1]
        if build.has(test["suite"], test["name"]):
            tests.append(test)
    built = compile_tests(build, tests)
    ran = run_programs(build, built)
    for test in tests:
        name, result = f"{test['suite']} {test['name']}", ran.get(test["name"])
        if result is None:
            tally.fail(f"{build.name} {name}", "was not built" if test not in built else "was not run by Meson")
            continue
        cases = cases_of(result)
        for case, how in cases.items():
            seen[f"{name}: {case}"] = how
        code, verdict = result["returncode"], result["result"]
        whole = {"OK": "passed", "SKIP": "skipped"}.get(verdict, "failed")
        if not cases:
            seen[name] = whole
        if whole == "failed":
            said = f"{verdict.lower()}, exit code {code}:\n" + tail(result.get("stdout", "") + result.get("stderr", ""), 60)
            if cases and "failed" not in cases.values():
                tally.fail(f"{build.name} {name}", said)
            else:
                print(f"{build.name} {name}: {said}", flush=True)
    return {test["suite"] for test in tests}


def one_build(build: Build, expected: list[str], tally: Tally):
    start, before = time.monotonic(), (tally.passed, tally.failed, tally.skipped)
    print(f"{build.name}: …", flush=True)
    tally.reasons = {}
    seen: dict[str, str] = {}
    has_compiler = shutil.which(build.compiler) is not None
    suites = outcomes(build, tally, seen)
    listed = [name for name in expected if build.has(*name.split(": ")[0].split(" ", 1))]
    strangers = [name for name in seen if name not in listed]
    if strangers:
        tally.failed += len(strangers)
        print(f"FAILED  {build.name} ran what tests/expected.txt does not list (./tests/run --update writes it):")
        print("\n".join("        " + name for name in strangers), flush=True)
    for name, how in seen.items():
        what = f"{build.name} {name}"
        if name not in listed:
            continue
        if how == "passed":
            tally.passed += 1
        elif how == "skipped" and (name.startswith("gpu ") or not IN_CI):
            tally.skip(1, "no GPU" if name.startswith("gpu ") else "a tool is missing")
        else:
            tally.fail(what, "was skipped, since a tool is missing" if how == "skipped" else "failed")
    absent: dict[str, list[str]] = {}
    for name in listed:
        if name not in seen:
            suite = name.split()[0]
            missing = build.compiler if not has_compiler else NEEDS.get(suite) if suite not in suites else None
            if missing and not IN_CI:
                tally.skip(1, f"no {missing}")
            else:
                why = f"did not run, since there is no {missing}" if missing else "is listed, but did not run"
                absent.setdefault(f"{name.split(': ')[0]}: {why}", []).append(name)
    for why, names in absent.items():
        tally.failed += len(names)
        print(f"FAILED  {build.name} {why}" + (f" ({len(names)} test cases)" if len(names) > 1 else ""), flush=True)
        for name in names[:20] if len(names) > 1 or ": " in names[0] else []:
            print("        " + name.split(": ", 1)[-1])
    counts = [now - then for now, then in zip((tally.passed, tally.failed, tally.skipped), before)]
    reasons = f" ({', '.join(tally.reasons)})" if tally.reasons else ""
    print("{}: {} passed, {} failed, {} skipped{}, {:.0f} s".format(build.name, *counts, reasons, time.monotonic() - start),
          flush=True)


def read_expected() -> list[str]:
    if not EXPECTED.exists():
        return []
    lines = [line.strip() for line in EXPECTED.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def update(expected: list[str]) -> int:
    """Writes the list anew. Suites that this machine cannot run keep their lines."""
    tally, seen, suites = Tally(), {}, set()
    for build in BUILDS[:2]:
        suites |= outcomes(replace(build, without=[]), tally, seen)
    broken = [name for name, how in seen.items() if how == "failed" and not name.startswith("tree ")]
    if broken or tally.failed:
        print("\n".join(["tests/expected.txt is as it was, since these failed and may have held back others:", *broken]))
        return 1
    names = {*seen, *(name for name in expected if name.split()[0] in NEEDS.keys() - suites)}
    EXPECTED.write_text(HEAD + "\n".join(sorted(names, key=lambda name: (SUITES.index(name.split()[0]), name))) + "\n")
    print(f"tests/expected.txt lists {len(names)} tests, {len(expected)} before")
    return 0


def main() -> int:
    args = argparse.ArgumentParser(prog="tests/run", description="Builds and runs all tests.")
    args.add_argument("--build", action="append", choices=[build.name for build in BUILDS],
                      help="only this build (may be given several times)")
    args.add_argument("--update", action="store_true",
                      help="write tests/expected.txt from what runs in the first two builds; look at the difference")
    args = args.parse_args()
    expected = read_expected()
    if args.update:
        return update(expected)
    tally = Tally()
    for name in sorted({name for name in expected if expected.count(name) > 1 or name.split()[0] not in SUITES}):
        tally.fail(name, "stands twice in tests/expected.txt, or in no suite that there is")
    if not expected:
        tally.fail("tests/expected.txt", "lists no tests")
    for build in BUILDS:
        if not args.build or build.name in args.build:
            one_build(build, expected, tally)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return tally.failed != 0


sys.exit(main())
