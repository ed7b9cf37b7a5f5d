# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compares README.md, examples/README.md and the pages of docs/ with the tree.

check_docs.py ROOT

Each block of C++ or of a build file stands in a file that is compiled or built, up to blanks and line breaks; `…` in a
block stands for any text. Links lead somewhere; files and members that are named exist; stages.md, sources.md, loop.md and images.md
of docs/ have every option of stages, sources, runs and of the objects that callables use, in its order and with its default; a stage
that refuses misspelt options lists all.
"""
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from tree_files import tree_files

root = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(root / "docs"))
from for_doxygen import anchor, headings  # noqa: E402

names = [str(path.relative_to(root)) for path in tree_files(root)]
pages = {name: (root / name).read_text() for name in names if fnmatch(name, "docs/*.md") or name in ("README.md", "examples/README.md")}
headers = {name: (root / name).read_text() for name in names if fnmatch(name, "include/*.hpp") or fnmatch(name, "include/*.cuh")}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
problems = []
counts = dict.fromkeys(["blocks", "links", "files", "members", "options"], 0)


# Blocks. A comment may be wrapped differently in a file, and then has its // more than once. Of programs that must not
# compile, many in a file, the pages show the refused part of one.
COMPILED = {
    "cpp": ["examples/*.cpp", "tests/docs_test.cpp", "tests/formats/docs_test.cpp", "tests/cuda/docs_test.cu", "tests/cuda/activity_test.cu",
            "tests/cuda/watch_test.cu", "tests/cuda/nccl_test.cpp", "tests/cookbook/*",
            "bench/blocking_events/*.cu", "tests/compile_fail/*.cpp"],
    "python": ["tests/examples/*.py"],
    "meson": ["tests/*/meson.build"],
    "cmake": ["tests/*/CMakeLists.txt"],
}


REFUSED = re.compile(r"^#ifdef PENSTOCK_REFUSED$(.*?)^#else$.*?^#endif$", re.MULTILINE | re.DOTALL)


def programs_in(name: str) -> list[str]:
    return re.split("^// refused ", (root / name).read_text(), flags=re.MULTILINE)


def squeezed(text: str) -> str:
    return re.sub(r"\s|//", "", REFUSED.sub(r"\1", text))


def check_block(page: str, language: str, block: str):
    if language == "console":
        for name in re.findall(r"(?<![\w/.-])(?:\./)?((?:examples|tests|bench|include)/[\w./+-]+)", block):
            if not any(path == name or path.startswith(name + "/") or path.rsplit(".", 1)[0] == name for path in names):
                problems.append(f"{page}: a block of console names {name}, which is not there")
    elif language in COMPILED:
        pattern = re.compile(".*?".join(re.escape(squeezed(part)) for part in block.split("…")), re.DOTALL)
        files = [name for name in names if any(fnmatch(name, glob) for glob in COMPILED[language])]
        if not any(pattern.search(squeezed(part)) for name in files for part in programs_in(name)):
            problems.append(f"{page}: this stands in none of {', '.join(COMPILED[language])}:\n{block}")
    elif language == "text" and "static assertion failed: " in block:
        said = block.split("static assertion failed: ")[1]
        if not any(squeezed(said) in re.sub(r'""', "", squeezed(text)) for text in headers.values()):
            problems.append(f"{page}: no header says this:\n{said}")
    elif language != "text":
        problems.append(f"{page}: a block of {language or 'no language'}, which nothing checks")
    counts["blocks"] += language != "text"


# Links.
def check_link(page: str, target: str):
    path, _, section = target.partition("#")
    name = str((root / page).parent.joinpath(path).resolve().relative_to(root)) if path else page
    if not any(known == name or known.startswith(name + "/") for known in names):
        problems.append(f"{page}: the link to {target} leads to no file")
    elif section and section not in map(anchor, headings(pages[name])):
        problems.append(f"{page}: the link to {target} leads to no heading")
    counts["links"] += 1


# Files and members, in `code`.
FOLDERS = ["", "include/penstock/", "include/", "tests/", "tests/suite/", "tests/model/", "examples/", "examples/gpt/",
           "bench/", "bench/blocking_events/", "tests/cookbook/"]
FILE = re.compile(r"(?<![\w./<*-])[\w./*-]+\.(?:hpp|cuh|cpp|cu|py)\b")
MEMBER = re.compile(r"(?<![\w:])([A-Z]\w*|detail)::(\w+)")


def files_named(name: str) -> list[str]:
    return [path for path in names for folder in FOLDERS if fnmatch(path, folder + name)]


def declares(text: str, owner: str, member: str) -> bool:
    declared = owner == "detail" or re.search(rf"\b(?:class|struct|concept|enum class) {owner}\b", text)
    return bool(declared and re.search(rf"\b{member}\b", text))


def check_names(page: str, line: str):
    code = " ".join(re.findall(r"`([^`]+)`", line))
    files = FILE.findall(code)
    for name in files:
        counts["files"] += 1
        # The changelog also names files that are gone.
        if not files_named(name) and not page.endswith("changelog.md"):
            problems.append(f"{page}: there is no file {name}")
    for owner, member in MEMBER.findall(code):
        counts["members"] += 1
        # A name in a row of a table belongs to the file named beside it.
        among = [path for name in files for path in files_named(name) if path in headers] if line.startswith("|") else []
        if not any(declares(headers[path], owner, member) for path in among or headers):
            problems.append(f"{page}: there is no {owner}::{member}" + (f" in {', '.join(among)}" if among else ""))


# Options, by the heading under which they stand.
OPTIONS = {
    "Reader": ["ReaderOptions"],
    "Options of sources": ["RecordsOptions", "ArrayOptions", "NpzOptions", "TokensOptions", "LinesOptions", "SafetensorsOptions", "MemoryOptions",
                           "WindowsOptions"],
    "Folders of files": ["FilesOptions"],
    "Tar archives": ["TarOptions"],
    "Compressed files": ["InterleavedOptions", "ZstdOptions", "Lz4BlockOptions", "DecompressedOptions"],
    "Files of many frames": ["SeekableOptions", "ZstdOutputOptions"],
    "Decoder": ["DecoderOptions"],
    "on_error": ["OnError"],
    "JPEG and PNG": ["ImageOptions"],
    "PinnedStager": ["PinnedStagerOptions"],
    "AsyncCopier": ["CopierOptions"],
    "Kernel": ["KernelOptions"],
    "The way back": ["CopierOptions"],
    "Consumer": ["ConsumerOptions", "ReplayOptions"],
    "Writer": ["WriterOptions"],
    "Scratch memory for callables": ["ScratchOptions"],
    "Deferred results": ["DeferredOptions"],
    "Live data": ["ChannelOptions"],
    "What can you tell a run?": ["RunOptions"],
    "What can you tell prepare()?": ["PrepareOptions"],
}
WHERE = re.compile(r"include/penstock/((stages|sources|formats)/\w+|run/options|callables/(replayed|scratch|deferred))\.hpp")
# How a page writes a default that C++ writes differently.
WRITTEN = {"{}": ["none", "`{}`"], "std::uint64_t{64} << 20": ["64 MiB"], "std::uint64_t{1} << 20": ["1 MiB"], "100": ["100 ms"], "500": ["500 ms"], "10'000": ["10 s"], "false": ["no"],
           "nullptr": ["none", "nullptr"]}


def options_in_headers() -> dict[str, dict[str, str]]:
    found = {}
    for name, text in headers.items():
        for struct, body in re.findall(r"^struct (\w*Options|OnError) \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL):
            if WHERE.fullmatch(name):
                fields = re.findall(r"^  [\w:<>(), &*]+? (\w+)(?: = ([^;]+)|\{([^;]*)\});", body, re.MULTILINE)
                found[struct] = {field: assigned or given for field, assigned, given in fields}
    return found


def check_options():
    page = "".join(pages[f"docs/{name}.md"] for name in ("stages", "sources", "loop", "images"))
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    structs = options_in_headers()
    for struct in structs.keys() - {struct for listed in OPTIONS.values() for struct in listed}:
        problems.append(f"docs: nothing is said of {struct}")
    for heading, listed in OPTIONS.items():
        rows = dict(re.findall(r"^\| `\.(\w+)` \| (.+?) \|", sections.get(heading, ""), re.MULTILINE))
        known = {}
        for struct in listed:
            known |= structs.get(struct, {})
        for option in sorted(known.keys() ^ rows.keys()):
            problems.append(f"docs: .{option} stands " + ("in a header, and not" if option in known else "only")
                            + f" under {heading}")
        for table in re.findall(r"(?:^\| `\.\w+` \|.*\n)+", sections.get(heading, ""), re.MULTILINE):
            names = re.findall(r"^\| `\.(\w+)`", table, re.MULTILINE)
            for struct in listed:
                fields = [field for field in structs.get(struct, {}) if field in names]
                if [name for name in names if name in fields] != fields:
                    problems.append(f"docs: a table under {heading} has the options of {struct} in another order than the header")
        for option in known.keys() & rows.keys():
            counts["options"] += 1
            said = rows[option]
            wanted = [*WRITTEN.get(known[option], [known[option]]), f"`{known[option]}`"]
            if not any(re.match(rf"{re.escape(default)}(?!\w)", said) for default in wanted):
                problems.append(f"docs: .{option} of {heading} is {known[option]} by default, and not {said}")


def check_misspelt():
    """Checks that a stage's message for options that fit no list has all their names."""
    said = "".join(re.sub(r'"\s*"', "", text) for name, text in headers.items() if name.startswith("include/penstock/stages/"))
    found = re.findall(r"these are no (\w+)\. By name(?:, in this order)?: (.+?)\.\"", said)
    structs = options_in_headers()
    for struct, listed in found:
        if listed != (names_of := ", ".join(f".{option}" for option in structs.get(struct, {}))):
            problems.append(f"include/penstock/stages: of {struct} stands {listed}, and not {names_of}")
    for struct in re.findall(r"^struct (\w+Options) \{", said, re.MULTILINE):
        if struct not in dict(found):
            problems.append(f"include/penstock/stages: nothing is said to options that are no {struct}")


for page, text in pages.items():
    for language, block in FENCE.findall(text):
        check_block(page, language, block)
    prose = FENCE.sub("", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" not in target:
            check_link(page, target)
    for paragraph in re.split(r"\n\n|\n(?=\|)", prose):
        check_names(page, paragraph.replace("\n", " ") if not paragraph.startswith("|") else paragraph)
check_options()
check_misspelt()
for build in re.findall(r'^    Build\("([^"]+)"', (root / "tests/tools/run_tests.py").read_text(), re.MULTILINE):
    if not re.search(rf"--build .*[ ,:]{re.escape(build)}(?=,|$)", pages["docs/CONTRIBUTING.md"], re.MULTILINE):
        problems.append(f"docs/CONTRIBUTING.md: nothing is said of the build {build}")
problems += [f"no {what} were found: this looks at nothing" for what, count in counts.items() if not count]
print("\n".join(problems) or ", ".join(f"{count} {what}" for what, count in counts.items()) + " are as the tree has them")
sys.exit(bool(problems))
