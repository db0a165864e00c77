"""A rebase that stopped for a person: its state folder, and what the person's edits in it become.

The folder holds `state.json`, one `NAME.conflict.md` that says what is open and why, and under
`files/` a copy of each target file to edit, with everything in it that landed. That is the work
tree of a small git repository, whose git folder lies beside the state folder; nothing here reads
it. One patch is open at a time: the first of the series that has a hunk to settle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import Adaptation
from patchkit.repository.workspace import read_folder
from patchkit.series.override import Overrides

FORMAT = 2
STATE = "state.json"
FILES = "files/"
GIT = "rebase.git"  # beside the folder, so that what git writes there is no part of the state
_GIT_LINK = FILES + ".git"


@dataclass(frozen=True)
class OpenFile:
    """A file to edit and the hunks that its edit settles; `digest` is that of the copy laid out.

    `path` is None where the target has no such file: then only leaving the hunks out helps.
    """

    path: str | None
    digest: str | None
    hunks: tuple[int, ...]
    path_before: str


@dataclass(frozen=True)
class Skip:
    """What was left out on request: some hunks of a patch, or with None all of it."""

    series: str
    patch: str
    hunks: tuple[int, ...] | None


@dataclass(frozen=True)
class Settled:
    """What a person decided in this rebase; stored only when all of it is done."""

    series: str
    patch: str
    decision: Adaptation | Acceptance

    @property
    def hunks(self) -> tuple[int, ...]:
        """The hunks that the decision is about."""
        if isinstance(self.decision, Acceptance):
            return (self.decision.hunk,)
        return self.decision.hunks


def decided(settled: Iterable[Settled], series: str) -> dict[str, Overrides]:
    """Return what was decided on each patch of a series."""
    found: dict[str, Overrides] = {}
    for item in settled:
        if item.series == series:
            known = found.get(item.patch, Overrides())
            found[item.patch] = known.with_decision(item.decision)
    return found


@dataclass(frozen=True)
class State:
    """A stopped rebase: what was asked for, where it stopped, and what is settled so far."""

    target: str
    is_release: bool
    base: str | None
    output: str | None
    update: bool
    sources: Mapping[str, str]  # series folder of the base -> digest of what it held
    series: str
    release: str
    patch: str
    files: tuple[OpenFile, ...]
    skips: tuple[Skip, ...] = ()
    settled: tuple[Settled, ...] = ()
    outcomes: tuple[Mapping[str, Any], ...] = ()
    stopped_at: float | None = None  # seconds since 1970; absent in a state of an older patchkit

    @property
    def hunks(self) -> tuple[int, ...]:
        """The open hunks of the open patch."""
        return tuple(sorted(hunk for file in self.files for hunk in file.hunks))


@dataclass(frozen=True)
class Edits:
    """What a person did in the folder: the edited files, and those still as they were laid out."""

    edited: Mapping[str, bytes]
    untouched: tuple[OpenFile, ...]
    strays: tuple[str, ...]


def read_state(folder: Path) -> State | None:
    """Return the stopped rebase of a state folder, None where there is none."""
    path = folder / STATE
    if not path.is_file():
        return None
    return parse_state(path.read_bytes(), place=str(path))


def parse_state(data: bytes, *, place: str) -> State:
    """Return the state from its JSON text."""
    try:
        document = json.loads(data)
        found = document.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise _damaged(place) from err
    if found != FORMAT:
        raise PatchkitError(
            f"state of format {found}",
            place=place,
            expected=f"format {FORMAT}",
            hint="finish it with the patchkit that began it, or drop it with `rebase --abort`",
        )
    try:
        _typed(document, _STATE)
        if not all(isinstance(value, str) for value in document["sources"].values()):
            raise TypeError("a digest of `sources` is no text")
        document["files"] = tuple(_open_file(entry) for entry in document["files"])
        document["skips"] = tuple(_skip(entry) for entry in document["skips"])
        document["settled"] = tuple(_settled(entry) for entry in document["settled"])
        document["outcomes"] = tuple(document["outcomes"])
        return State(**document)
    except (KeyError, TypeError, AttributeError) as err:
        raise _damaged(place) from err


def format_state(state: State) -> bytes:
    """Return the JSON text of a state."""
    document = {"format": FORMAT}
    document |= {field.name: getattr(state, field.name) for field in fields(state)}
    text = json.dumps(document, indent=1, ensure_ascii=False, default=asdict)
    return text.encode() + b"\n"


def lay_out(state: State, copies: Mapping[str, bytes], note: str) -> dict[str, bytes]:
    """Return the content of a state folder: the state, the files to edit, what is open and why."""
    content = {STATE: format_state(state), f"{state.patch}.conflict.md": note.encode()}
    content[_GIT_LINK] = f"gitdir: ../../{GIT}\n".encode()
    return content | {FILES + path: data for path, data in copies.items()}


def read_edits(state: State, folder: Path) -> Edits:
    """Return what a person did to the files laid out."""
    found = {
        name.removeprefix(FILES): data
        for name, data in read_folder(folder).items()
        if name.startswith(FILES) and name != _GIT_LINK
    }
    edited: dict[str, bytes] = {}
    untouched: list[OpenFile] = []
    for file in state.files:
        data = found.pop(file.path, None) if file.path else None
        if file.path is None or data is None or digest(data) == file.digest:
            untouched.append(file)
        else:
            edited[file.path] = data
    return Edits(edited, tuple(untouched), tuple(sorted(found)))


def refuse_second(state: State, place: str) -> PatchkitError:
    """Return the refusal of a rebase while another has stopped."""
    return PatchkitError(
        f"a rebase onto {state.target} has stopped at {state.series}/{state.patch}",
        place=place,
        hint="finish it with `patchkit rebase --continue`, leave the patch out with `--skip`, "
        "or drop it with `--abort`",
    )


def refuse_none(place: str) -> PatchkitError:
    """Return the refusal of --continue, --skip and --abort where nothing has stopped."""
    return PatchkitError(
        "no rebase has stopped here",
        place=place,
        hint="start one with `patchkit rebase VERSION`",
    )


def digest(data: bytes) -> str:
    """Return the sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def folder_digest(folder: Mapping[str, bytes]) -> str:
    """Return one sha256 over the names and bytes of a folder."""
    return digest(b"".join(n.encode() + b"\0" + digest(d).encode() for n, d in folder.items()))


_TEXT, _NONE = (str,), (str, type(None))
_OF_PATCH: dict[str, tuple[type, ...]] = {"series": _TEXT, "patch": _TEXT}
_STATE: dict[str, tuple[type, ...]] = {
    **_OF_PATCH, "target": _TEXT, "release": _TEXT, "base": _NONE, "output": _NONE,
    "is_release": (bool,), "update": (bool,), "sources": (dict,), "files": (list,),
    "skips": (list,), "settled": (list,), "outcomes": (list,),
}  # fmt: skip
_FILE: dict[str, tuple[type, ...]] = {
    "path": _NONE, "digest": _NONE, "hunks": (list,), "path_before": _TEXT,
}  # fmt: skip
_ADAPTATION: dict[str, tuple[type, ...]] = {
    "release": _TEXT, "path": _TEXT, "reason": _TEXT, "diff": _TEXT, "hunks": (list,),
    "base_hunks": (list,), "target_definitions": (dict,),
}  # fmt: skip


def _typed(entry: dict[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise TypeError where a field is of another type than was written, KeyError for none."""
    for name, kinds in types.items():
        if not isinstance(entry[name], kinds):
            raise TypeError(f"`{name}` is {entry[name]!r}")
    for number in entry.get("hunks") or ():
        if type(number) is not int:
            raise TypeError(f"hunk {number!r} is no number")


def _open_file(entry: dict[str, Any]) -> OpenFile:
    _typed(entry, _FILE)
    return OpenFile(**{**entry, "hunks": tuple(entry["hunks"])})


def _skip(entry: dict[str, Any]) -> Skip:
    _typed(entry, _OF_PATCH)
    hunks = entry["hunks"]
    return Skip(**{**entry, "hunks": None if hunks is None else tuple(hunks)})


def _settled(entry: dict[str, Any]) -> Settled:
    _typed(entry, _OF_PATCH)
    stored = entry["decision"]
    if "surface" in stored:
        return Settled(entry["series"], entry["patch"], Acceptance(**stored))
    _typed(stored, _ADAPTATION)
    lists = {key: tuple(stored[key]) for key in ("hunks", "base_hunks")}
    return Settled(entry["series"], entry["patch"], Adaptation(**{**stored, **lists}))


def _damaged(place: str) -> PatchkitError:
    return PatchkitError(
        "damaged state", place=place, hint="drop it with `patchkit rebase --abort`"
    )
