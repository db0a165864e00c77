"""Which files of an archive or folder belong to a source tree, and under which path and mode."""

from __future__ import annotations

import ast
import stat
from posixpath import basename, splitext

from patchkit.errors import PatchkitError
from patchkit.tree import EXECUTABLE, REGULAR

PACKAGE = "vllm"
VERSION_FILE = f"{PACKAGE}/_version.py"
# Bump when the rule changes: cached trees of an older rule are then not found.
RULE = 1
_BINARY_SUFFIXES = """
    .so .pyd .dll .dylib .a .o .lib .exe .pyc .pyo .whl .zip .gz .xz .zst .npy .npz .pt .bin
    .safetensors .png .jpg .jpeg .gif .ico .webp .pdf .mp3 .mp4 .wav .ttf .woff .woff2
"""
_BINARY = frozenset(_BINARY_SUFFIXES.split())
# A file without a suffix is text (README, LICENSE, Makefile) or an executable; in 0.23.0 to 0.33.0
# the largest of the former has 34 kB, the smallest of the latter (vllm-rs) 21 MB.
_PLAIN_LIMIT_BYTES = 1 << 18


def is_text(path: str, size_bytes: int) -> bool:
    """Return whether a file is one that a patch can touch, by name and size alone."""
    name = basename(path)
    suffix = splitext(name)[1].lower()
    if suffix in _BINARY or ".so." in name:
        return False
    return bool(suffix) or size_bytes <= _PLAIN_LIMIT_BYTES


def is_skipped(path: str) -> bool:
    """Return whether a path is of no source tree at all: repository data, byte code."""
    parts = path.split("/")
    return ".git" in parts or "__pycache__" in parts or path.endswith(".pyc")


def check_path(path: str, place: str) -> str:
    """Return an archive member's path, which must stay inside the archive."""
    parts = path.split("/")
    if "\\" in path or ".." in parts or "" in parts[:-1]:
        raise PatchkitError(f"member {path!r} lies outside the archive", place=place)
    return path


def git_mode(mode: int) -> int:
    """Return the git mode of a regular file of a Unix mode."""
    return EXECUTABLE if mode & stat.S_IXUSR else REGULAR


def parse_version(content: bytes | None) -> str | None:
    """Return the version that a `_version.py` assigns, None where it assigns none; not imported."""
    try:
        module = ast.parse(content or b"")
    except (SyntaxError, ValueError):
        return None
    for statement in module.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if "__version__" in names and isinstance(value, ast.Constant):
            return value.value if isinstance(value.value, str) else None
    return None
