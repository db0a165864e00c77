"""What a stored patch holds, for people: header facts, files, and each hunk with its definition.

Nothing but the patch and its anchors is read. Anchors that were made for another text of a hunk say
nothing about this one; its definition is then the one that the diff names, if it names any.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchkit.diff import Hunk, parse_patch
from patchkit.diff.header import Header, parse_header
from patchkit.errors import PatchkitError
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.series.anchor import parse_anchors


@dataclass(frozen=True)
class HunkContents:
    """One hunk: its number in the patch, what it changes, and in which definitions.

    `line` is where its old lines begin, 1-based; `edits` are the kinds of its typed edits. A
    section without hunks (a mode, a rename) counts as one, with nothing in it.
    """

    number: int
    line: int | None = None
    added: int = 0
    removed: int = 0
    definitions: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileContents:
    """One section: the path before and after, how the file changes, the hunks."""

    path_before: str
    path_after: str
    change: str
    hunks: tuple[HunkContents, ...]


@dataclass(frozen=True)
class PatchContents:
    """One patch: its name, its header and its files."""

    name: str
    header: Header
    files: tuple[FileContents, ...]

    @property
    def subject(self) -> str:
        """The first line of the description, empty where there is none."""
        return (self.header.description or self.header.text).split("\n")[0].strip()

    @property
    def hunks(self) -> tuple[HunkContents, ...]:
        """The hunks of all files, in order."""
        return tuple(hunk for file in self.files for hunk in file.hunks)


def read_contents(name: str, data: bytes, anchors: bytes | None, *, place: str) -> PatchContents:
    """Return what a patch holds; `place` is the folder that it and its anchors are in."""
    patch = parse_patch(data, f"{place}/{name}")
    known = _anchored(anchors, f"{place}/{name}") if anchors is not None else {}
    files, number = [], 1
    for section in patch.files:
        hunks = [_hunk(n, hunk, known) for n, hunk in enumerate(section.hunks, number)]
        hunks = hunks or [HunkContents(number)]
        number += len(hunks)
        old = section.old_path or section.path
        files.append(FileContents(old, section.path, section.change.value, tuple(hunks)))
    return PatchContents(name, parse_header(patch.preamble, f"{place}/{name}"), tuple(files))


def _anchored(data: bytes, place: str) -> Mapping[int, Mapping[str, Any]]:
    """The generated entries of an anchors file by the number of their hunk."""
    table = tomllib.loads(parse_anchors(data, place).generated)
    try:
        return {entry["number"]: entry for entry in table["generated"]["hunk"]}
    except (KeyError, TypeError) as error:
        raise PatchkitError(
            "the generated part of its anchors is damaged",
            place=place,
            hint="delete the anchors' part above [override]; `patchkit check` writes it again",
        ) from error


def _hunk(number: int, hunk: Hunk, known: Mapping[int, Mapping[str, Any]]) -> HunkContents:
    entry = known.get(number, {})
    if entry.get("hunk") != fingerprint_hunk(hunk):
        entry = {}
    named = hunk.section.decode("utf-8", "replace").strip()
    definitions = tuple(entry.get("definitions", ())) or ((named,) if named else ())
    kinds = tuple(edit["kind"] for edit in entry.get("edits", ()))
    added, removed = (sum(line.kind == kind for line in hunk.lines) for kind in "+-")
    return HunkContents(number, hunk.old_start, added, removed, definitions, kinds)
