"""The state of an open work tree, kept beside it: what it was made from and where it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError

FORMAT = 1


@dataclass(frozen=True)
class EditState:
    """An open work tree.

    `path` is where it lies; `sources` are digests of the release folders that it was made from.
    `folder` and `patch` name the patch that is edited, both None on top of all. `before` is the
    commit below that patch, or below the last one; `commit` the one that the tree was left at;
    `series` the one with every patch. `replaced` is where it stood before the last record; `left`
    and `held` are commit and content that it had before it was last brought to another patch.
    """

    release: str
    path: str
    sources: Mapping[str, str]
    folder: str | None
    patch: str | None
    before: str
    commit: str
    series: str
    replaced: str | None = None
    left: str | None = None
    held: str | None = None


def state_path(state_folder: Path, release: str) -> Path:
    """Return the file that says what work tree of a release is open."""
    return state_folder / "edit" / f"v{release}.json"


def read_state(path: Path) -> EditState | None:
    """Return the state in a file, None where there is none."""
    if not path.is_file():
        return None
    return parse_state(path.read_bytes(), path)


def parse_state(data: bytes, place: Path) -> EditState:
    """Return the state from the JSON text in a file; `place` is the file."""
    hint = "save what you changed in the work tree, and `patchkit edit --close --discard`"
    try:
        document: dict[str, Any] = json.loads(data)
        found = document.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise PatchkitError("damaged state", place=str(place), hint=hint) from err
    if found != FORMAT:
        raise PatchkitError(
            f"state of format {found}", place=str(place), expected=f"format {FORMAT}",
            hint="finish it with the patchkit that began it",
        )  # fmt: skip
    try:
        return EditState(**{**document, "path": str(place.parent / document["path"])})
    except (KeyError, TypeError) as err:
        raise PatchkitError("damaged state", place=str(place), hint=hint) from err


def format_state(state: EditState, place: Path) -> bytes:
    """Return the JSON text of a state; a work tree beside the file is told from there."""
    path = Path(state.path)
    beside = path.is_relative_to(place.parent)
    shown = path.relative_to(place.parent).as_posix() if beside else str(path)
    document = {"format": FORMAT, **asdict(state), "path": shown}
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"
