"""`patchkit show`: what is stored for a release, and with --why how each hunk came to its place.

Nothing of a move is kept on disk, so that no stored evidence can go stale: --why makes the move
again, with the code and the trees of now, and compares its result with what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, series_folders, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.outcome import HunkOutcome
from patchkit.report import outcome_json
from patchkit.repository import session
from patchkit.repository.deliver import plan_deliveries
from patchkit.repository.move import Request, move_all
from patchkit.repository.stop import request_of, sources_of
from patchkit.repository.store import Stored, nearest_base, read_stored, stored_releases
from patchkit.series.contents import FileContents, HunkContents, PatchContents, read_contents
from patchkit.upstream.pins import normalise_version

_RELEASE = re.compile(r"v?\d")
_HUNK = re.compile(r"(.+)[#:](\d+)$")


@dataclass(frozen=True)
class Wanted:
    """What of a series is asked for: all of it, one patch, or one hunk of that."""

    patch: str | None = None
    hunk: int | None = None

    def holds(self, patch: str, hunk: int | None = None) -> bool:
        """Return whether a patch, or one hunk of it, is asked for."""
        named = self.patch in (None, patch, patch.removesuffix(".patch"))
        return named and (hunk is None or self.hunk in (None, hunk))


@dataclass(frozen=True)
class Shown:
    """One release of a series folder: its patches and, where a move was made, what came of it.

    `release` is None for a move onto a tree that is no release; `target` names it either way. With
    a move the patches are those that were moved, and `base` is the release that they are for;
    `outcomes` are by patch and hunk. `differences` say where what is stored is not what the move
    makes; None where nothing was compared. `stopped` says that the move waits for a person;
    `clashes` are overlay files that the target has already.
    """

    folder: str
    release: str | None
    target: str
    same_as: str | None
    patches: tuple[PatchContents, ...]
    base: str | None = None
    stopped: bool = False
    outcomes: Mapping[tuple[str, int], HunkOutcome] = field(default_factory=dict)
    differences: tuple[str, ...] | None = None
    clashes: tuple[str, ...] = ()


@click.command(short_help="Show a stored series, and why each hunk is where it is.")
@click.argument("words", nargs=-1, metavar="[RELEASE] [PATCH[#HUNK]]")
@click.option("--why", is_flag=True, help="Say how each hunk came to its place, with evidence.")
@click.option("--from", "base", metavar="REL", help="With --why: moved from this stored release.")
@click.option("--series", "folder", metavar="DIR", help="Show this series folder only.")
@json_option
def command(
    words: tuple[str, ...], why: bool, base: str | None, folder: str | None, as_json: bool
) -> ExitCode:
    """Show a stored series, and why each hunk is where it is.

    RELEASE is the highest one stored unless given. With --why the move from the nearest lower
    release is made again, nothing is written, and each hunk says which method placed it, from which
    definition to which, what upstream renamed, the evidence, and what was rejected and why; the
    hunks are those of the release that was moved. While a rebase is stopped, it is the one shown.
    The exit status of --why is 3 where a shown hunk is open, or stored otherwise.

    \b
    Examples:
      patchkit show
      patchkit show v0.29.0 --why
      patchkit show v0.29.0 block-promotion#2 --why
      patchkit show v0.29.0 --why --from v0.27.1 --json
    """
    config = here()
    release, wanted = _read_words(words)
    folders = series_folders(config, folder)
    if base is not None and not why:
        raise UsageError("--from is for --why", place="patchkit show")
    shown = _moved(config, folders, release, base) if why else _stored(config, folders, release)
    shown = [_only(entry, wanted) for entry in shown]
    if wanted.patch is not None and not any(entry.patches for entry in shown):
        raise _no_such(wanted, shown)
    document = _document([entry for entry in shown if entry.patches or wanted.patch is None], why)
    if as_json:
        render.show_json(document)
    else:
        render.show_series(document, whole=wanted.patch is not None)
    return ExitCode(document["exit_code"])


def _read_words(words: tuple[str, ...]) -> tuple[str | None, Wanted]:
    """Return the release and the patch or hunk that are meant, in that order."""
    rest = list(words)
    release = None
    if rest and _RELEASE.match(rest[0]) and not rest[0].endswith((".patch", ".diff")):
        release = normalise_version(rest.pop(0))
    if len(rest) > 1:
        raise UsageError(
            f"{rest[1]!r} is one too many",
            place="patchkit show",
            expected="a release, a patch or PATCH#HUNK, in this order",
            hint="`patchkit show --help` has examples",
        )
    if not rest:
        return release, Wanted()
    match = _HUNK.match(rest[0])
    return release, Wanted(match[1], int(match[2])) if match else Wanted(rest[0])


def _stored(config: Config, folders: tuple[str, ...], release: str | None) -> list[Shown]:
    release = release or _highest(config, folders)
    found = []
    for folder in folders:
        if release in stored_releases(config.root, folder):
            stored = read_stored(config.root, folder, release)
            found.append(Shown(folder, release, f"v{release}", stored.same_as, _contents(stored)))
    if not found:
        raise _not_stored(config, folders, release)
    return found


def _moved(
    config: Config, folders: tuple[str, ...], release: str | None, base: str | None
) -> list[Shown]:
    """Return what a move makes of each folder: the one that has stopped, else one made again."""
    state = session.read_state(config.state_folder / "rebase")
    if state is not None and release in (None, request_of(state).release) and base is None:
        request = request_of(state)
    else:
        request = _request(config, folders, release or _highest(config, folders), base)
        state = None
    with render.progress() as progress:
        moves = move_all(config, request, tree_opener(config, progress), progress)
    if state is not None and sources_of(moves) != state.sources:
        raise PatchkitError(
            "the stored series was changed since the rebase stopped",
            place=", ".join(state.sources),
            hint="`patchkit rebase --abort`, and begin again",
        )
    found = []
    for move, delivery in zip(moves, plan_deliveries(config, request, moves), strict=True):
        if move.stored.folder not in folders:
            continue
        compared = state is None and move.is_settled
        found.append(
            Shown(
                move.stored.folder,
                request.release,
                f"v{request.release}" if request.release else request.target,
                move.stored.same_as,
                _contents(move.stored),
                move.stored.release,
                state is not None,
                {(o.patch, o.hunk): o for o in move.result.outcomes},
                delivery.differences if compared else None,
                move.clashes,
            )
        )
    return found


def _request(config: Config, folders: tuple[str, ...], release: str, base: str | None) -> Request:
    """Return the move that led to a stored release; refuse where there was none."""
    holding = [f for f in folders if release in stored_releases(config.root, f)]
    if not holding:
        raise _not_stored(config, folders, release)
    for folder in holding:
        stored = stored_releases(config.root, folder)
        if base is None and nearest_base(stored, release) is None:
            above = next((r for r in stored if r != release), None)
            hint = f"`patchkit show v{release}` shows what is in it"
            hint += f"; `patchkit show v{above} --why` how it was moved on" if above else ""
            raise PatchkitError(
                "was not moved from another release: none below it is stored",
                place=f"{folder}/v{release}",
                hint=hint,
            )
    return Request(target=f"v{release}", is_release=True, base=base)


def _highest(config: Config, folders: tuple[str, ...]) -> str:
    from packaging.version import Version

    return max({r for f in folders for r in stored_releases(config.root, f)}, key=Version)


def _not_stored(config: Config, folders: tuple[str, ...], release: str) -> PatchkitError:
    known = dict.fromkeys(r for f in folders for r in stored_releases(config.root, f))
    return PatchkitError(
        f"nothing is stored for v{release}",
        place=", ".join(folders),
        expected="one of " + ", ".join(f"v{r}" for r in known),
        hint=f"`patchkit rebase v{release}` moves the series there",
    )


def _no_such(wanted: Wanted, shown: list[Shown]) -> PatchkitError:
    places = [f"{s.folder}/{f'v{s.base}' if s.base else s.target}" for s in shown]
    where = ", ".join(places)
    hunk = "" if wanted.hunk is None else f"#{wanted.hunk}"
    hint = f"`patchkit show {places[0].rpartition('/')[2]}` lists the patches and their hunks"
    return PatchkitError(f"there is no {wanted.patch}{hunk}", place=where, hint=hint)


def _contents(stored: Stored) -> tuple[PatchContents, ...]:
    series = stored.series
    return tuple(
        read_contents(name, data, series.anchors.get(name), place=stored.place)
        for name, data in series.patches.items()
    )


def _only(shown: Shown, wanted: Wanted) -> Shown:
    """Return what is asked for of a shown release."""
    patches = []
    for patch in shown.patches:
        files = [
            FileContents(f.path_before, f.path_after, f.change, hunks)
            for f in patch.files
            if (hunks := tuple(h for h in f.hunks if wanted.holds(patch.name, h.number)))
        ]
        if files:
            patches.append(PatchContents(patch.name, patch.header, tuple(files)))
    names = [patch.name for patch in patches]
    differences = shown.differences
    if differences is not None and wanted.patch is not None:
        differences = tuple(d for d in differences if d.split(":")[0] in names)
    return replace(
        shown,
        patches=tuple(patches),
        outcomes={key: o for key, o in shown.outcomes.items() if wanted.holds(*key)},
        differences=differences,
    )


# The document ------------------------------------------------------------------------------------


def _document(shown: list[Shown], why: bool) -> dict[str, Any]:
    """Return what is shown, as docs/schema/show-1.json describes it."""
    outcomes = [o for entry in shown for o in entry.outcomes.values()]
    differ = any(entry.differences or entry.clashes for entry in shown)
    ok = not differ and all(o.landed and not o.drifted for o in outcomes)
    return {
        "schema": "patchkit.show/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "why": why,
        "series": [_series(entry) for entry in shown],
    }


def _series(shown: Shown) -> dict[str, Any]:
    return {
        "folder": shown.folder,
        "release": shown.release,
        "target": shown.target,
        "stopped": shown.stopped,
        "same_as": shown.same_as,
        "base": shown.base,
        "differences": None if shown.differences is None else list(shown.differences),
        "overlay_clashes": list(shown.clashes),
        "patches": [_patch(patch, shown) for patch in shown.patches],
    }


def _patch(patch: PatchContents, shown: Shown) -> dict[str, Any]:
    header = patch.header
    return {
        "name": patch.name,
        "subject": patch.subject,
        "description": header.description,
        "reason": header.reason,
        "origin": header.origin,
        "forwarded": header.forwarded,
        "exit_condition": header.exit_condition,
        "applies_to": header.get("Applies-To"),
        "files": [
            {
                "path_before": file.path_before,
                "path_after": file.path_after,
                "change": file.change,
                "hunks": [_hunk(hunk, shown.outcomes.get((patch.name, hunk.number)))
                          for hunk in file.hunks],
            }
            for file in patch.files
        ],
    }  # fmt: skip


def _hunk(hunk: HunkContents, outcome: HunkOutcome | None) -> dict[str, Any]:
    return {
        "hunk": hunk.number,
        "line": hunk.line,
        "added": hunk.added,
        "removed": hunk.removed,
        "definitions": list(hunk.definitions),
        "edits": list(hunk.edits),
        "outcome": outcome_json(outcome) if outcome is not None else None,
    }
