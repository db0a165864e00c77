"""What a finished move writes, and how that compares with what is stored already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.diff.model import Patch
from patchkit.errors import PatchkitError
from patchkit.placing.adaptation import Adaptation, key_of
from patchkit.repository.applied import apply_series
from patchkit.repository.log import format_log, log_path, read_log
from patchkit.repository.logged import logged
from patchkit.repository.move import Request, SeriesMove
from patchkit.repository.session import decided
from patchkit.repository.store import Stored, follow_same_as, release_folder
from patchkit.repository.workspace import Replacement, read_folder
from patchkit.series.anchoring import plan_on, renewed, with_overrides
from patchkit.series.overlay import OverlayEntry, parse_overlay
from patchkit.series.series import (
    ANCHORS_SUFFIX,
    OVERLAY,
    SAME_AS,
    SERIES,
    Series,
    anchors_name,
    format_series,
    read_series,
)


class Storing(StrEnum):
    """What becomes of a moved series on disk."""

    WRITTEN = "written"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DIFFERS = "differs"
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Delivery:
    """One release folder to write, and how what lies there differs; `path` is None for nowhere."""

    storing: Storing
    path: Path | None = None
    content: Mapping[str, bytes] = field(default_factory=dict)
    differences: tuple[str, ...] = ()

    @property
    def is_written(self) -> bool:
        """Whether the folder gets new content."""
        return self.storing in (Storing.WRITTEN, Storing.UPDATED)


def plan_deliveries(
    config: Config, request: Request, moves: Sequence[SeriesMove]
) -> tuple[Delivery, ...]:
    """Return what is to become of each moved series; where one may not be written none is."""
    if not all(move.is_settled for move in moves):
        return tuple(Delivery(Storing.WITHHELD) for _ in moves)
    planned = tuple(_plan(config, request, move, len(moves) > 1) for move in moves)
    if all(delivery.storing is not Storing.DIFFERS for delivery in planned):
        return planned
    quiet = (Storing.DIFFERS, Storing.UNCHANGED)
    return tuple(d if d.storing in quiet else replace(d, storing=Storing.WITHHELD) for d in planned)


def replacements(
    config: Config, request: Request, moves: Sequence[SeriesMove], deliveries: Sequence[Delivery]
) -> list[Replacement]:
    """Return all that is to be written: release folders, and decisions beside their patches."""
    wanted = [
        Replacement(delivery.path, delivery.content)
        for delivery in deliveries
        if delivery.path and delivery.is_written
    ]
    for move in moves:
        stored = move.stored
        folder = config.root / release_folder(stored.folder, stored.same_as or stored.release)
        for patch, added in decided(request.settled, stored.folder).items():
            plan = next(p.plan for p in move.result.patches if p.name == patch)
            name = anchors_name(patch)
            data = with_overrides(stored.series.anchors.get(patch), plan, added, name)
            wanted.append(Replacement(folder / name, data))
    return wanted + list(_log(config, request, moves, deliveries))


def _log(
    config: Config, request: Request, moves: Sequence[SeriesMove], deliveries: Sequence[Delivery]
) -> Iterator[Replacement]:
    """Yield the logs of series folders that hold another release now, each with one entry more."""
    release, now = request.release, datetime.now(UTC)
    if release is None or request.output is not None:
        return
    for move, delivery in zip(moves, deliveries, strict=True):
        if delivery.storing in (Storing.WRITTEN, Storing.UPDATED):
            updated = delivery.storing is Storing.UPDATED
            folder = move.stored.folder
            entry = logged(move, request, release, now, updated=updated)
            data = format_log([*read_log(config.root, folder), entry])
            yield Replacement(log_path(config.root, folder), data)


def resolutions_stored(
    request: Request, moves: Sequence[SeriesMove], deliveries: Sequence[Delivery]
) -> list[tuple[str, str]]:
    """Return the resolutions that are in what is written, by series folder and key."""
    found = []
    for move, delivery in zip(moves, deliveries, strict=True):
        if not delivery.is_written:
            continue
        folder = move.stored.folder
        replayed = (outcome.replayed for outcome in move.result.outcomes)
        found += [(folder, one.key) for one in replayed if one is not None]
        made = (s for s in request.settled if s.series == folder)
        found += [
            (folder, key_of(s.patch, s.decision))
            for s in made
            if isinstance(s.decision, Adaptation)
        ]
    return list(dict.fromkeys(found))


def _plan(config: Config, request: Request, move: SeriesMove, several: bool) -> Delivery:
    path = _destination(config, request, move, several)
    if path is None:
        return Delivery(Storing.WITHHELD)
    there = read_folder(path) if path.is_dir() else {}
    content = {**_strangers(there, path), **_new_folder(move, there)}
    if not there:
        return Delivery(Storing.WRITTEN, path, content)
    differences = _differences(config, move, there, content, path)
    if not differences:
        return Delivery(Storing.UNCHANGED, path)
    storing = Storing.UPDATED if request.update else Storing.DIFFERS
    return Delivery(storing, path, content, differences)


def _destination(config: Config, request: Request, move: SeriesMove, several: bool) -> Path | None:
    if request.output is not None:
        return request.output / move.stored.folder if several else request.output
    if request.release is None:
        return None
    return config.root / release_folder(move.stored.folder, request.release)


def _new_folder(move: SeriesMove, there: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the release folder of a moved series."""
    kept = {patch.name: patch for patch in move.kept}
    entries = tuple(
        replace(entry, strip=1) for entry in move.stored.series.entries if entry.name in kept
    )
    anchors = {
        name: renewed(there.get(anchors_name(name)), plan_on(patch.data, name, patch.before), name)
        for name, patch in kept.items()
    }
    patches = {name: patch.data for name, patch in kept.items()}
    version = move.result.target.version or move.result.target.name
    overlay = move.stored.series.overlay
    if overlay is not None:
        # what was accepted is about moves from the release it lies with
        known = parse_overlay(there[OVERLAY], OVERLAY).accepted if OVERLAY in there else ()
        overlay = replace(overlay, accepted=known)
    return format_series(Series(version, entries, patches, anchors, overlay))


def _strangers(there: Mapping[str, bytes], path: Path) -> dict[str, bytes]:
    """Return what lies in a release folder beside the series; refuse a folder that is not one."""
    if there and SERIES not in there and SAME_AS not in there:
        raise PatchkitError(
            "holds files, and is no stored series",
            place=str(path),
            expected="an empty or a new folder",
        )
    ours = (SERIES, SAME_AS, OVERLAY)
    suffixes = (".patch", ".diff", ANCHORS_SUFFIX)
    return {n: d for n, d in there.items() if n not in ours and not n.endswith(suffixes)}


def _differences(
    config: Config,
    move: SeriesMove,
    there: Mapping[str, bytes],
    content: Mapping[str, bytes],
    path: Path,
) -> tuple[str, ...]:
    """Return how a stored series differs from the moved one; anchors follow from the rest."""
    version = move.result.target.version or "0"
    stored = read_series(there, version=version, place=str(path))
    if stored.same_as is not None:
        other = follow_same_as(config.root, move.stored.folder, version, there)
        return _tree_differences(config, move, other)
    new = read_series(content, version=version, place=str(path))
    before, after = [e.name for e in stored.entries], [e.name for e in new.entries]
    found = [f"{name}: stored, and not in the result" for name in before if name not in after]
    found += [f"{name}: not stored" for name in after if name not in before]
    if not found and before != after:
        found.append("series: in another order")
    for name in after:
        if name in stored.patches and stored.patches[name] != new.patches[name]:
            found.append(f"{name}: {_how(stored.patches[name], new.patches[name], name)}")
    if _files(stored) != _files(new):
        found.append("overlay.toml: other files")
    return tuple(found)


def _files(series: Series) -> tuple[OverlayEntry, ...]:
    return series.overlay.entries if series.overlay is not None else ()


def _how(stored: bytes, new: bytes, name: str) -> str:
    old_patch, new_patch = parse_patch(stored, name), parse_patch(new, name)
    parts = ["header"] if old_patch.preamble != new_patch.preamble else []
    old, fresh = _sections(old_patch), _sections(new_patch)
    parts += [path for path in sorted({*old, *fresh}) if old.get(path) != fresh.get(path)]
    return "differs in " + (", ".join(parts) or "layout")


def _sections(patch: Patch) -> dict[str, object]:
    return {file.path: file for file in patch.files}


def _tree_differences(config: Config, move: SeriesMove, stored: Stored) -> tuple[str, ...]:
    """Return the files that a `same-as` series makes different from the moved one."""
    tree = apply_series(config.root, stored, move.result.target)
    paths = {path for patch in move.result.patches for path in patch.after}
    for data in stored.series.patches.values():
        paths |= {file.path for file in parse_patch(data, "patch").files}
    moved = move.result.tree.files
    return tuple(
        f"{path}: not as v{stored.same_as} makes it"
        for path in sorted(paths)
        if tree.files.get(path) != moved.get(path)
    )
