# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the members that list_tars finds in tar archives with those that Python's tarfile does.

compare_tars.py PROGRAM

It takes the archives of Debian's packages golang-1.19-src and libpython3.11-testsuite, where they are installed, and in
any case archives that tarfile writes now, in its three formats. Of the packages' archives each has its expected fate
below: those that penstock refuses are refused by name.
"""
import io
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

GO = Path("/usr/share/go-1.19/src/archive/tar/testdata")
PYTHON = Path("/usr/lib/python3.11/test")
# Why an archive is refused; the others are read as tarfile reads them.
REFUSED = {
    "gnu-incremental.tar": "ends without the blocks of zeros",
    "gnu-multi-hdrs.tar": "names one member twice",
    "hdr-only.tar": "a directory that has bytes",
    "issue10968.tar": "its checksum is wrong",
    "issue11169.tar": "record of a pax header whose length is wrong",
    "issue12435.tar": "no number of bytes",
    "neg-size.tar": "no number of bytes, or a negative one",
    "nil-uid.tar": "ends without the blocks of zeros",  # which Go and tarfile do not miss
    "pax-bad-hdr-file.tar": "record of a pax header whose length is wrong",
    "pax-bad-mtime-file.tar": "ends without the blocks of zeros",
    "pax-global-records.tar": "a global pax header that gives all members one name",
    "pax-multi-hdrs.tar": "names one member twice",
    "pax-nul-path.tar": "path has a zero byte",
    "pax-nul-xattrs.tar": "without a key",
    "pax-path-hdr.tar": "ends without the blocks of zeros",
    "pax-pos-size-file.tar": "size is no number of bytes",
    "recursion.tar": "record of a pax header whose length is wrong",
    "testtar.tar": "a directory that has bytes",
    "ustar-file-reg.tar": "ends without the blocks of zeros",
    "writer-big-long.tar": "are there: copy or download",
    "writer-big.tar": "of whose 17179869184 bytes only 0",
}
# An old error of Go's wrote POSIX's prefix behind GNU's magic: GNU's tar, too, takes the name without it.
NAMED = {"invalid-go17.tar": "foo"}


def made(folder: Path) -> list[Path]:
    """Writes archives by tarfile: short names and long, of any bytes, few bytes and many, directories between."""
    dice = random.Random(23)
    paths = []
    for form in tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT:
        for number in range(20):
            path = folder / f"{form}-{number}.tar"
            with tarfile.open(path, "w", format=form, encoding="utf-8", errors="surrogateescape") as archive:
                for i in range(dice.randrange(30)):
                    parts = ["".join(dice.choice("ab .é\udcff-") for _ in range(dice.randrange(1, 40))).strip("/") or "x"
                             for _ in range(dice.randrange(1, 4 if form == tarfile.USTAR_FORMAT else 12))]
                    name = tarfile.TarInfo(f"{i}/" + "/".join(parts))
                    if form == tarfile.PAX_FORMAT:
                        name.mtime, name.uname = dice.random() * 1e9, "é" * dice.randrange(40)
                    if dice.random() < 0.2:
                        name.type = tarfile.DIRTYPE
                        archive.addfile(name)
                        continue
                    data = dice.randbytes(dice.choice([0, 1, 511, 512, 513, 5000, 100_000]))
                    name.size = len(data)
                    try:
                        archive.addfile(name, io.BytesIO(data))
                    except ValueError:  # longer than the oldest format can say
                        continue
            paths.append(path)
    return paths


def expected(path: Path) -> list[tuple[int, int, str]]:
    with tarfile.open(path, "r:") as archive:
        return [(m.offset_data, m.size, m.name.encode("utf-8", "surrogateescape").hex()) for m in archive
                if m.isreg() and not m.issparse()]


def main() -> int:
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        own = made(Path(folder))
        theirs = sorted([*GO.glob("*.tar"), *PYTHON.glob("*.tar")])
        found = subprocess.run([program, *own, *theirs], stdout=subprocess.PIPE, check=True).stdout.decode("utf-8", "replace").splitlines()
        assert len(found) == len(own) + len(theirs), len(found)
        members = 0
        for path, line in zip([*own, *theirs], found):
            why = REFUSED.get(path.name) if path in theirs else None
            if why or line.startswith("refused: "):
                assert why and line.startswith("refused: ") and why in line, f"{path}: {line}, and {why} was expected"
                continue
            members += len(line.split())
            got = [(int(at), int(size), name) for at, size, name in (one.split(":") for one in line.split())]
            wanted = expected(path)
            if path in theirs and path.name in NAMED:
                wanted = [(at, size, NAMED[path.name].encode().hex()) for at, size, _ in wanted]
            assert got == wanted, (path, got, wanted)
        if len(theirs) < 40:
            print(f"of the packages' archives only {len(theirs)} are here (Debian: golang-1.19-src, libpython3.11-testsuite)")
            return 77
    print(f"{members} members of {len(found)} archives, {len(REFUSED)} of which are refused by name")
    return 0


if __name__ == "__main__":
    sys.exit(main())
