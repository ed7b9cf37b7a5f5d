# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Installs penstock and uses it from other projects (tests/install), whose sources know nothing of this one.

check_install.py stage --work FOLDER --stamp FILE     copies the project, installs the copy below FOLDER and deletes it
check_install.py WAY --work FOLDER --cxx COMPILER     pkg_config, meson, subproject, cmake, cmake_folder, cmake_fetch,
                                                      meson_nvcc or cmake_nvcc

The exit code is 77 if a tool is missing.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tree_files import tree_files

ROOT = Path(__file__).resolve().parents[2]
MESON = os.environ.get("MESON", "meson")
PREFIX = "opt/penstock"  # where no compiler and no tool looks by default
LIMIT = 280
NO_NVCC = ["--native-file", ROOT / "tests/tools/without_nvcc.ini"]


def run(*command, fails=False, **environment) -> str:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT, env=os.environ | {name: str(value) for name, value in environment.items()})
    print(f"$ {' '.join(map(str, command))}\n{done.stdout}")
    assert (done.returncode != 0) == fails, f"{command[0]} ended with exit code {done.returncode}"
    return done.stdout


def runs(tool: str) -> bool:
    return shutil.which(tool) is not None and subprocess.run([tool, "--version"], capture_output=True).returncode == 0


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def copy_project(to: Path):
    for path in tree_files(ROOT):
        where = to / path.relative_to(ROOT)
        where.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, where)


def stage(work: Path):
    """Installs, and compares the files found with those that should be there."""
    source, build, root = (fresh(work / name) for name in ("source", "stage-build", "root"))
    copy_project(source)
    run(MESON, "setup", build, source, f"--prefix=/{PREFIX}", *NO_NVCC)
    run(MESON, "install", "-C", build, "--no-rebuild", "--quiet", f"--destdir={root}")
    headers = {path.relative_to(source): path.read_bytes()
               for path in source.glob("include/penstock/**/*") if path.suffix in (".hpp", ".cuh", ".cpp")}
    found = {path.relative_to(root / PREFIX): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    others = {"share/pkgconfig/penstock.pc"}
    if runs("cmake"):
        installs_as_cmake(source, work, found)
        others |= {f"share/cmake/penstock/penstock{name}.cmake" for name in ("Config", "ConfigVersion")}
    wrong = sorted(map(str, set(found) ^ {*headers, *map(Path, others)}))
    assert headers and not wrong, f"installed though they should not be, or the other way round: {wrong}"
    changed = [str(name) for name in headers if found[name] != headers[name]]
    assert not changed, f"not installed as they are: {changed}"
    for name in others:
        text = found[Path(name)].decode()
        assert str(work) not in text, f"{name} names the folder it was built in:\n{text}"
    shutil.rmtree(source)
    shutil.rmtree(build)


def installs_as_cmake(source: Path, work: Path, by_meson: dict[Path, bytes]):
    """Checks that CMake alone installs the same headers, and a package with the same files."""
    build, root = fresh(work / "cmake-build"), fresh(work / "cmake-root")
    run("cmake", "-S", source / "include", "-B", build, f"-DCMAKE_INSTALL_PREFIX=/{PREFIX}", "-DCMAKE_INSTALL_INCLUDEDIR=include")
    run("cmake", "--install", build, DESTDIR=root)
    found = {path.relative_to(root / PREFIX): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    headers = {name: text for name, text in by_meson.items() if name.parts[0] == "include"}
    assert {name: text for name, text in found.items() if name.parts[0] == "include"} == headers, "CMake installs other headers"
    packages = [{str(name) for name in some if name.suffix == ".cmake"} for some in (found, by_meson)]
    assert packages[0] == packages[1], f"the packages differ: {packages}"
    text = found[Path("share/cmake/penstock/penstockConfig.cmake")].decode()
    assert str(work) not in text, f"the package names the folder it was built in:\n{text}"
    shutil.rmtree(build)


def foreign(work: Path, way: str, kind: str) -> Path:
    """Returns a copy of tests/install/host or gpu, alone in a folder."""
    folder = fresh(work / way) / "foreign"
    shutil.copytree(ROOT / "tests/install" / kind, folder)
    return folder


def works(program: Path, version: str, gpu=False):
    """Checks that a program runs, and was compiled with the headers of the version that was found."""
    said = run(program)
    assert f"penstock {version} counted 100000\n" in said or gpu and "this process has no GPU" in said, said


def is_quiet(said: str):
    assert not re.search("warning", said, re.I), "there are warnings"


def finds(build: Path, include: Path):
    """Checks that all compilers look for penstock in `include`."""
    commands = run("ninja", "-C", build, "-t", "commands").splitlines()
    compiled = [line for line in commands if " -c " in line]
    assert len(compiled) == 2, "two files are to be compiled, and nothing else"
    for line in compiled:
        folders = [build / folder for folder in re.findall(r" (?:-I|-isystem[ =]?)(\S+)", line)]
        ours = [os.path.normpath(folder) for folder in folders if (folder / "penstock").exists()]
        assert ours == [str(include)], f"{line}\nfinds penstock in {ours}, not in {include}"


def pkg_config(work: Path, root: Path, cxx: str):
    folder = foreign(work, "pkg_config", "host")
    path = {"PKG_CONFIG_PATH": root / PREFIX / "share/pkgconfig"}
    here = {"PKG_CONFIG_SYSROOT_DIR": root, **path}  # --define-prefix does the same for a prefix that was moved
    cflags, libs = (run("pkg-config", what, "penstock", **here).split() for what in ("--cflags", "--libs"))
    assert cflags == run("pkg-config", "--define-prefix", "--cflags", "penstock", **path).split()
    assert cflags == [f"-I{root / PREFIX / 'include'}", "-pthread"] and libs == ["-pthread"], (cflags, libs)
    run("pkg-config", "--exists", "penstock >= 9", fails=True, **path)
    version = run("pkg-config", "--modversion", "penstock", **path).strip()
    # As for a user who copies the headers: they are no system headers here.
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", *([] if "clang" in cxx else ["-Wuseless-cast"]), "-Werror"]
    run(cxx, "-std=c++20", *warnings,
        folder / "main.cpp", folder / "other.cpp", "-o", folder / "mine", *cflags, *libs)
    works(folder / "mine", version)
    # The compiled part: once beside a source that uses it and one that does not, and not at all.
    compiled = [cxx, "-std=c++20", *warnings, *cflags, "-DPENSTOCK_COMPILED"]
    run(*compiled, "-c", folder / "main.cpp", "-o", folder / "main.o")
    other = [cxx, "-std=c++20", *warnings, *cflags, "-c", folder / "other.cpp", "-o", folder / "other.o"]
    for mixed in (False, True):
        run(*other, *([] if mixed else ["-DPENSTOCK_COMPILED"]))
        run(*compiled, folder / "main.o", folder / "other.o", root / PREFIX / "include/penstock/penstock.cpp", "-o", folder / "mine", *libs)
        works(folder / "mine", version)
    said = run(*compiled, folder / "main.o", "-o", folder / "mine", *libs, fails=True)
    assert "undefined reference" in said, said


def with_meson(work: Path, root: Path, cxx: str, way: str, kind: str):
    folder = foreign(work, way, kind)
    build, include = folder / "build", root / PREFIX / "include"
    environment = {"CXX": cxx, "PKG_CONFIG_SYSROOT_DIR": root, "PKG_CONFIG_PATH": root / PREFIX / "share/pkgconfig"}
    options = ["--buildtype=plain"]
    if way == "subproject":
        options.append("-Dcpp_args=-Weffc++")  # penstock itself is not built with it
        environment |= {"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": ""}
        copy_project(folder / "subprojects/penstock")
        include = folder / "subprojects/penstock/include"
    else:
        options.append("--wrap-mode=nofallback")
    said = run(MESON, "setup", build, folder, *options, **environment)
    assert not re.search("^WARNING", said, re.M), "Meson warns"
    finds(build, include)
    is_quiet(run("ninja", "-C", build))
    version = re.search(r"penstock .*found: YES (\S+)", said)[1]
    works(build / "mine", version, kind == "gpu")
    if way == "subproject":
        project = folder / "meson.build"
        project.write_text(project.read_text().replace("dependency('penstock',", "dependency('penstock-compiled',"))
        is_quiet(run("ninja", "-C", build))
        assert (build / "subprojects/penstock/include/libpenstock.a").exists(), "the part is not compiled"
        works(build / "mine", version)


def compiled_once(folder: Path, cxx: str, version: str, *options: str):
    """Checks that the project of a folder takes the compiled part of the same package."""
    project, build = folder / "CMakeLists.txt", folder / "compiled"
    text = project.read_text()
    project.write_text(text.replace("penstock::penstock", "penstock::compiled"))
    run("cmake", "-G", "Ninja", "-S", folder, "-B", build, *options, CXX=cxx)
    is_quiet(run("ninja", "-C", build))
    assert list(build.rglob("libpenstock_compiled.a")), "the part is not compiled"
    works(build / "mine", version)
    project.write_text(text)


def with_sources(work: Path, cxx: str, way: str):
    """Uses the project's folder from CMake, where nothing is installed."""
    folder = foreign(work, way, "host")
    copy_project(folder / "penstock")
    how = "add_subdirectory(penstock/include)" if way == "cmake_folder" else \
        'include(FetchContent)\nFetchContent_Declare(penstock URL "${CMAKE_SOURCE_DIR}/penstock" SOURCE_SUBDIR include)\n' \
        "FetchContent_MakeAvailable(penstock)"
    project = folder / "CMakeLists.txt"
    project.write_text(project.read_text().replace("find_package(penstock 0.1 REQUIRED)", how))
    said = run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", CXX=cxx)
    where = folder / "penstock" if way == "cmake_folder" else folder / "build/_deps/penstock-src"
    finds(folder / "build", where / "include")
    is_quiet(said + run("ninja", "-C", folder / "build"))
    version = re.search(r'PENSTOCK_VERSION "(.+)"', (ROOT / "include/penstock/version.hpp").read_text())[1]
    works(folder / "build/mine", version)
    compiled_once(folder, cxx, version)


def with_cmake(work: Path, root: Path, cxx: str, way: str, kind: str):
    folder = foreign(work, way, kind)
    build = folder / "build"
    configure = ["cmake", "-G", "Ninja", "-S", folder, f"-DCMAKE_PREFIX_PATH={root / PREFIX}"]
    said = run(*configure, "-B", build, CXX=cxx)
    finds(build, root / PREFIX / "include")
    is_quiet(said + run("ninja", "-C", build))
    package = root / PREFIX / "share/cmake/penstock/penstockConfigVersion.cmake"
    version = re.search(r'set\(PACKAGE_VERSION "(.+)"\)', package.read_text())[1]
    works(build / "mine", version, kind == "gpu")
    if kind == "host":
        compiled_once(folder, cxx, version, f"-DCMAKE_PREFIX_PATH={root / PREFIX}")
        project = folder / "CMakeLists.txt"
        text = project.read_text()
        for wanted in "9", "0.2", "0.0":  # before 1.0 each minor version is another interface
            project.write_text(text.replace("penstock 0.1", f"penstock {wanted}"))
            said = run(*configure, "-B", fresh(folder / "refused"), fails=True, CXX=cxx)
            assert f'requested version "{wanted}"' in " ".join(said.split()) and f"version: {version}" in said, said


args = argparse.ArgumentParser()
args.add_argument("way")
args.add_argument("--work", type=Path, required=True)
args.add_argument("--cxx", default="c++")
args.add_argument("--stamp", type=Path)
args = args.parse_args()
work = args.work.resolve()
root = work / "root"
kind = "gpu" if args.way.endswith("_nvcc") else "host"
missing = [tool for tool in ("cmake", "nvcc") if tool in args.way and not runs(tool)]
if missing:
    print(f"there is no {' and no '.join(missing)} that runs")
    sys.exit(77)
try:
    if args.way == "stage":
        stage(work)
        args.stamp.touch()
    elif args.way == "pkg_config":
        pkg_config(work, root, args.cxx)
    elif args.way in ("cmake_folder", "cmake_fetch"):
        with_sources(work, args.cxx, args.way)
    elif args.way.startswith("cmake"):
        with_cmake(work, root, args.cxx, args.way, kind)
    else:
        with_meson(work, root, args.cxx, args.way, kind)
except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
    sys.exit(f"{args.way}: {error}")
