"""What names a vLLM tree: one sha256 of its Python files. `python -m tests.gpu.engine.tree PATH`

A wheel and the folder that it was installed into have the same: compiled parts, empty files (a
stub may take the place of a part that was left out) and what Python leaves behind do not count.
So the hash of a wheel that `patchkit verify` found whole says what a machine without patchkit runs.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path


def tree_sha256(path: Path) -> str:
    """The sha256 of the sorted lines `sha256  vllm/…` of a wheel, or of the folder with `vllm`."""
    files = _of_wheel(path) if path.is_file() else _of_folder(path)
    lines = sorted(f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in files if text)
    if not lines:
        raise ValueError(f"no Python files of vllm in {path}")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _of_wheel(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("vllm/") and name.endswith(".py"):
                yield name, archive.read(name)


def _of_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in (path / "vllm").rglob("*.py"):
        yield file.relative_to(path).as_posix(), file.read_bytes()


if __name__ == "__main__":
    print(tree_sha256(Path(sys.argv[1])))
