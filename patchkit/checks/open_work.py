"""What a person has begun and not finished: a rebase that stopped, work trees that are open."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import PatchkitError


@dataclass(frozen=True)
class StoppedRebase:
    """A rebase that waits for a person."""

    target: str
    series: str
    patch: str
    hunks: tuple[int, ...]


@dataclass(frozen=True)
class OpenEdit:
    """A work tree of a release in which patches are edited."""

    release: str
    path: str | None
    patch: str | None


@dataclass(frozen=True)
class OpenWork:
    """All that is begun; `problems` tell of what cannot be read."""

    rebase: StoppedRebase | None = None
    edits: tuple[OpenEdit, ...] = ()
    problems: tuple[str, ...] = ()


def find_open_work(state_folder: Path, shown: str) -> OpenWork:
    """Return what is begun in a repository; `shown` is the name of its state folder for people."""
    problems: list[str] = []
    rebase = None
    if (state_folder / "rebase" / "state.json").is_file():
        try:
            rebase = _stopped(state_folder / "rebase")
        except PatchkitError as error:
            problems.append(f"{shown}/rebase/state.json: {error.fact}")
    edits = []
    folder = state_folder / "edit"
    for path in sorted(folder.glob("v*.json")) if folder.is_dir() else ():
        try:
            edits.append(_edit(path))
        except (ValueError, AttributeError):
            problems.append(f"{shown}/edit/{path.name}: damaged state")
    return OpenWork(rebase, tuple(edits), tuple(problems))


def _stopped(folder: Path) -> StoppedRebase | None:
    # what reads it loads half of the engine
    from patchkit.repository.session import read_state

    state = read_state(folder)
    if state is None:
        return None
    return StoppedRebase(state.target, state.series, state.patch, state.hunks)


def _edit(path: Path) -> OpenEdit:
    document = json.loads(path.read_bytes())
    return OpenEdit(path.stem.removeprefix("v"), document.get("path"), document.get("patch"))
