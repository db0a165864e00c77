"""The memory of resolutions that a repository keeps, one file a series folder.

It is written as soon as a resolution is accepted, in the commit that takes the `--continue`, so
that it outlives a rebase that is given up later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from patchkit.placing.resolution import Resolution
from patchkit.repository.workspace import Replacement, read_file
from patchkit.series.resolutions import (
    RESOLUTIONS,
    format_resolutions,
    parse_resolutions,
    used,
    with_resolutions,
)


def memory_path(root: Path, folder: str) -> Path:
    """Return the file that holds the resolutions of a series folder."""
    return root / folder / RESOLUTIONS


def read_memory(root: Path, folder: str) -> tuple[Resolution, ...]:
    """Return the resolutions of a series folder, the oldest first; none where there is no file."""
    path = memory_path(root, folder)
    if not path.exists():
        return ()
    return parse_resolutions(read_file(path), f"{folder}/{RESOLUTIONS}")


def remembered(
    root: Path,
    made: Iterable[tuple[str, Resolution]],
    stored: Iterable[tuple[str, str]],
    release: str | None,
) -> list[Replacement]:
    """Return what is to be written of the memory of each series folder that is concerned.

    `made` are new resolutions, `stored` the keys of those that a stored release now rests on,
    each with its folder.
    """
    made, stored = list(made), list(stored)
    wanted = []
    for folder in dict.fromkeys(folder for folder, _ in (*made, *stored)):
        known = read_memory(root, folder)
        new = with_resolutions(known, (r for f, r in made if f == folder))
        if release is not None:
            new = used(new, (key for f, key in stored if f == folder), release)
        wanted.append(memory_file(root, folder, new))
    return wanted


def memory_file(root: Path, folder: str, resolutions: Sequence[Resolution]) -> Replacement:
    """Return the memory of a series folder as it is to be written; no file where it is empty."""
    content = format_resolutions(resolutions) if resolutions else None
    return Replacement(memory_path(root, folder), content)
