"""A repository with four small patches on a release of two files, as a tree of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchkit.diff import diff_files, format_files
from patchkit.tree import SourceTree

SIZE, OTHER, NEW = "vllm/size.py", "vllm/other.py", "vllm/new.py"
BASE: dict[str, bytes] = {
    "vllm/__init__.py": b"",
    SIZE: b"""\
import math


def size(blocks):
    return blocks * 16


def area(width, height):
    total = width * height
    return total


def volume(a, b, c):
    return a * b * c


LIMIT = math.pi
""",
    OTHER: b"""\
def first(x):
    y = x
    return y


def second(x):
    y = x
    return y


def third(x):
    y = x
    return y
""",
}


def header(what: str, *more: str) -> bytes:
    """Return a full header."""
    lines = [
        f"Description: {what}", "Reason: it is too small", "Origin: written here",
        "Forwarded: no", "Exit-Condition: it is large enough", "Applies-To: >=0.28,<0.29", *more,
    ]  # fmt: skip
    return "\n".join(lines).encode() + b"\n\n"


def edited(files: Mapping[str, bytes], path: str, old: bytes, new: bytes) -> dict[str, bytes]:
    """Return files with one text in one of them replaced; it has to be there."""
    assert files[path].count(old) == 1
    return {**files, path: files[path].replace(old, new)}


ONE = edited(BASE, SIZE, b"blocks * 16", b"blocks * 32")
TWO = edited(ONE, SIZE, b"def area(", b"def twice(n):\n    return n + n\n\n\ndef area(")
THREE = edited(TWO, SIZE, b"return a * b", b"return twice(a) * b")
FOUR = {**THREE, NEW: b"NEW = 1\n"}
STEPS = (BASE, ONE, TWO, THREE, FOUR)
HEADERS = {
    "one.patch": header("Double the size"),
    "two.patch": header("Bring in twice"),
    "three.patch": header("Double the volume", "Depends-On: two"),
    "four.patch": header("Add a module"),
}
PATCHES = {
    name: head + format_files(diff_files(before, after))
    for (name, head), before, after in zip(HEADERS.items(), STEPS, STEPS[1:], strict=False)
}
SERIES = b"# mine\none.patch\ntwo.patch\n# it uses twice\nthree.patch\nfour.patch\n"


def tree(files: Mapping[str, bytes] = BASE, version: str = "0.28.0") -> SourceTree:
    """Return a release."""
    return SourceTree(files, name=f"vllm {version}", version=version)


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file below a folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read(folder: Path) -> dict[str, bytes]:
    """Return every file of a repository but for what patchkit keeps while it works."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if not n.startswith(".patchkit/")}


def lay_out(folder: Path, release: str = "0.28.0") -> None:
    """Write the patches of a release, without anchors."""
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"patches/v{release}/series", SERIES)
    for name, data in PATCHES.items():
        write(folder, f"patches/v{release}/{name}", data)
