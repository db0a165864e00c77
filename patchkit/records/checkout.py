"""The code that is measured: the commit, the sha256 of each source, and that nothing is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchkit.errors import PatchkitError
from patchkit.records.manifest import (
    Manifest,
    dirty,
    file_sha256,
    git,
    has_git,
    is_within,
    manifest_changes,
    tracked_changes,
    walk,
)


@dataclass(frozen=True)
class Checkout:
    """A clean tree: its commit, and each source, a file or folder, with its sha256."""

    commit: str
    sources: Mapping[str, str]


def read_checkout(root: Path, sources: Sequence[str], manifest: Manifest | None) -> Checkout:
    """Return the tree as it is; refuse one that is not what was committed.

    With a manifest every file is held against it: a copy's git may be of another commit. Else git
    is asked.
    """
    for source in sources:
        _check_source(root, source)
    if manifest is not None:
        changed, commit = manifest_changes(root, manifest, sources), manifest.commit
    else:
        head = git(root, "rev-parse", "HEAD") if has_git(root) else None
        if head is None:
            raise PatchkitError(
                "no git checkout and no manifest, so that nothing says what is measured",
                place=str(root),
                hint="`python -m patchkit.records.manifest > FILE` in the checkout, then "
                "--manifest FILE",
            )
        changed, commit = tracked_changes(root, sources), head.strip()
    if changed:
        raise dirty(root, changed)
    for source in sources:
        if not (root / source).is_file() and not any(_files(root, source)):
            raise PatchkitError(
                "holds no file of the project", place=source, expected="the code that is measured"
            )
    return Checkout(commit, {source: source_sha256(root, source) for source in sources})


def _check_source(root: Path, source: str) -> None:
    parts = PurePosixPath(source).parts
    if not parts or ".." in parts or PurePosixPath(source).is_absolute():
        raise PatchkitError(
            f"source {source!r} is no path within the project", place=str(root),
            expected="a file or folder, relative to the project",
        )  # fmt: skip
    if not (root / source).exists():
        raise PatchkitError("no such source", place=source, expected="a file or folder")


def source_sha256(root: Path, source: str) -> str:
    """Return the sha256 of a file; of a folder, that of its `sha256  path` lines in order.

    What git ignores, or without git what Python leaves behind, is no part of a folder.
    """
    if (root / source).is_file():
        return file_sha256(root / source) or ""
    lines = [f"{file_sha256(root / name)}  {name}\n" for name in _files(root, source)]
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def _files(root: Path, source: str) -> Iterable[str]:
    wanted = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", source)
    listed = git(root, *wanted) if has_git(root) else None
    if listed is None:
        return sorted(walk(root, source))
    names = {name for name in listed.split("\0") if name and is_within(name, [source])}
    return sorted(name for name in names if (root / name).is_file())
