"""Where the hunks of a patch hold on to a release, with the code that stands there, for people."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.series.anchor import generate_anchors
from patchkit.syntax.build import try_module
from patchkit.syntax.edit import Edit
from patchkit.syntax.tree import Node

_COLUMNS = 66  # of a line of code that names a place


@dataclass(frozen=True)
class AnchoredEdit:
    """One typed edit: its kind, the list or token that it changes, and the code beside it.

    Each text is the first line of a statement or expression; None at the end of a list.
    """

    kind: str
    place: str
    after: str | None
    before: str | None
    removes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HunkAnchor:
    """What one hunk holds on to: definitions with their fingerprints ("" of one that is not there
    before it), typed edits, and the names that its new code relies on.
    """

    number: int
    path: str
    definitions: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[AnchoredEdit, ...] = ()
    relies_on: tuple[str, ...] = ()


def anchors_of(plan: PatchPlan) -> tuple[HunkAnchor, ...]:
    """Return the anchor of each hunk of a patch on its base."""
    table: dict[str, Any] = tomllib.loads(generate_anchors(plan))
    lifted = {file.numbers: _lifted(file) for file in plan.files}
    return tuple(
        HunkAnchor(
            entry["number"],
            entry["path"],
            entry.get("definitions", {}),
            _edits(entry, next(e for n, e in lifted.items() if entry["number"] in n)),
            tuple(
                name for kind in ("names", "attributes", "imports") for name in entry.get(kind, ())
            ),
        )
        for entry in table["generated"].get("hunk", ())
    )


def _lifted(file: PlannedFile) -> FileEdits | None:
    base, authored = file.base, file.authored
    if not file.jobs or base is None or authored is None:
        return None
    if try_module(base) is None or try_module(authored) is None:
        return None
    return FileEdits(FileJob(file.path_before, base, authored, file.jobs))


def _edits(entry: Mapping[str, Any], lifted: FileEdits | None) -> tuple[AnchoredEdit, ...]:
    """The stored edits of a hunk with the code of the same edits, which are in the same order."""
    if lifted is None:
        return ()
    edits: Sequence[Edit] = [e for e in lifted.edits_of(entry["number"]) if not e.is_layout]
    return tuple(
        AnchoredEdit(
            known["kind"],
            known["in"],
            _code(edit.prev),
            _code(edit.next),
            tuple(text for node in edit.removed if (text := _code(node)) is not None),
        )
        for known, edit in zip(entry.get("edits", ()), edits, strict=True)
    )


def _code(node: Node | None) -> str | None:
    """The first line of a piece of code, cut where it is long."""
    if node is None:
        return None
    line = node.text.decode("utf-8", "replace").strip().split("\n")[0].rstrip()
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"
