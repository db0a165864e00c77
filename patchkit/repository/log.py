"""What each finished rebase came to: one entry a rebase, in a file beside the releases.

It is history: nothing is decided by it. A rebase that changed nothing has no entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError
from patchkit.outcome import Method
from patchkit.repository.workspace import read_file
from patchkit.series.toml_text import quoted, read_toml

LOG = "rebases.toml"
FORMAT = 1
_HEAD = "# Written by `patchkit rebase`: what each that was finished came to, in order.\n"


class Fate(StrEnum):
    """What became of a whole patch."""

    MOVED = "moved"
    UPSTREAM = "upstream"  # nothing is left of it to store
    SKIPPED = "skipped"  # left out by a person
    SUPERSEDED = "superseded"  # left out for its tests


@dataclass(frozen=True)
class LoggedPatch:
    """What became of one patch.

    `methods` counts the hunks that were placed, by method ("adaptation" is one that was stored
    before or made in this rebase), `upstream` those that the release had. `settled`, `accepted` and
    `skipped` are the numbers of the hunks that took a person in this rebase: edited, drifted and
    accepted, left out. `reason` is that of the verdict by which a patch is superseded.
    """

    name: str
    fate: Fate
    methods: Mapping[str, int] = field(default_factory=dict)
    upstream: int = 0
    settled: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    reason: str | None = None

    @property
    def by_hand(self) -> int:
        """How many hunks took a person."""
        return len({*self.settled, *self.accepted, *self.skipped})


@dataclass(frozen=True)
class LoggedRebase:
    """One finished rebase of a series folder, from a stored release to a stored release.

    `seconds` is how long the last run took to move the series; `stopped_seconds` the time from the
    first stop to the end, None where it never stopped. `updated` says that something else had been
    stored for the target.
    """

    date: date
    base: str
    target: str
    seconds: float
    patches: tuple[LoggedPatch, ...]
    stopped_seconds: int | None = None
    updated: bool = False


def log_path(root: Path, folder: str) -> Path:
    """Return the file that holds the log of a series folder."""
    return root / folder / LOG


def read_log(root: Path, folder: str) -> tuple[LoggedRebase, ...]:
    """Return the rebases of a series folder, oldest first; none where there is no file."""
    path = log_path(root, folder)
    return parse_log(read_file(path), f"{folder}/{LOG}") if path.exists() else ()


def format_log(entries: Iterable[LoggedRebase]) -> bytes:
    """Return the file of some rebases, in the given order."""
    parts = [_HEAD, f"format = {FORMAT}\n"]
    for entry in entries:
        parts.append("\n[[rebase]]\n")
        parts += [f"{key} = {_toml(value)}\n" for key, value in _rebase_row(entry).items()]
        for patch in entry.patches:
            parts.append("\n[[rebase.patch]]\n")
            parts += [f"{key} = {_toml(value)}\n" for key, value in _patch_row(patch).items()]
    return "".join(parts).encode()


def _rebase_row(entry: LoggedRebase) -> dict[str, Any]:
    row: dict[str, Any] = {
        "date": entry.date.isoformat(),
        "base": entry.base,
        "target": entry.target,
        "seconds": entry.seconds,
    }
    if entry.stopped_seconds is not None:
        row["stopped_seconds"] = entry.stopped_seconds
    return {**row, "updated": True} if entry.updated else row


def _patch_row(patch: LoggedPatch) -> dict[str, Any]:
    """Return the fields of a patch that say something."""
    row: dict[str, Any] = {"name": patch.name, "fate": patch.fate.value}
    rest = {name: getattr(patch, name) for name in ("methods", "upstream", *_HUNKS, "reason")}
    return row | {name: value for name, value in rest.items() if value}


_HUNKS = ("settled", "accepted", "skipped")
_METHODS = frozenset(method.value for method in Method)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {number}" for key, number in value.items()) + "}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value)


def parse_log(data: bytes, place: str) -> tuple[LoggedRebase, ...]:
    """Return the rebases in a `rebases.toml`; raises PatchkitError for any other content."""
    document = read_toml(data, place, FORMAT)
    rows = _tables(document, "rebase", place)
    return tuple(_parse_rebase(row, f"{place}: rebase {n}") for n, row in enumerate(rows, start=1))


def _parse_rebase(row: dict[str, Any], place: str) -> LoggedRebase:
    row = _checked(row, _REBASE, place)
    patches = enumerate(_tables(row, "patch", place), start=1)
    try:
        for name in ("base", "target"):
            Version(row[name])
        day = date.fromisoformat(row["date"])
    except (ValueError, InvalidVersion) as err:
        raise PatchkitError(str(err), place=place) from err
    return LoggedRebase(
        day,
        row["base"],
        row["target"],
        float(row["seconds"]),
        tuple(_parse_patch(entry, f"{place}, patch {n}") for n, entry in patches),
        row.get("stopped_seconds"),
        row.get("updated", False),
    )


def _parse_patch(row: dict[str, Any], place: str) -> LoggedPatch:
    row = _checked(row, _PATCH, place)
    methods = row.get("methods", {})
    for name, number in methods.items():
        if name not in _METHODS or type(number) is not int:
            raise PatchkitError(
                f"methods has {name} = {number!r}", place=place, expected="how many hunks a method"
            )
    hunks = {name: tuple(row.get(name, ())) for name in _HUNKS}
    for name, numbers in hunks.items():
        if not all(type(number) is int for number in numbers):
            raise PatchkitError(f"{name} is {row[name]!r}", place=place, expected="hunk numbers")
    try:
        fate = Fate(row["fate"])
    except ValueError as err:
        expected = ", ".join(Fate)
        raise PatchkitError(f"fate is {row['fate']!r}", place=place, expected=expected) from err
    return LoggedPatch(
        row["name"], fate, methods, row.get("upstream", 0), **hunks, reason=row.get("reason")
    )


# The type of each field, and whether it has to be there.
_REBASE: Mapping[str, tuple[tuple[type, ...], bool]] = {
    "date": ((str,), True), "base": ((str,), True), "target": ((str,), True),
    "seconds": ((int, float), True), "patch": ((list,), False),
    "stopped_seconds": ((int,), False), "updated": ((bool,), False),
}  # fmt: skip
_PATCH: Mapping[str, tuple[tuple[type, ...], bool]] = {
    "name": ((str,), True), "fate": ((str,), True), "methods": ((dict,), False),
    "upstream": ((int,), False), "settled": ((list,), False), "accepted": ((list,), False),
    "skipped": ((list,), False), "reason": ((str,), False),
}  # fmt: skip


def _tables(document: Mapping[str, Any], name: str, place: str) -> list[dict[str, Any]]:
    rows = document.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise PatchkitError(f"{name} is no list of tables", place=place)
    return rows


def _checked(
    row: dict[str, Any], known: Mapping[str, tuple[tuple[type, ...], bool]], place: str
) -> dict[str, Any]:
    """Return a table with just the known fields, each of its type."""
    for name in row:
        if name not in known:
            raise PatchkitError(f"unknown key {name!r}", place=place, expected=", ".join(known))
    for name, (kinds, needed) in known.items():
        if name not in row:
            if needed:
                raise PatchkitError(f"{name} is missing", place=place)
        elif type(row[name]) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise PatchkitError(f"{name} is {row[name]!r}", place=place, expected=expected)
    return row
