"""An applied series taken out again: the bytes that were kept, put back in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.errors import PatchkitError
from patchkit.installed.kept import APPLIED, KEPT, Applied
from patchkit.installed.site import Site
from patchkit.installed.transaction import Step, digest_of
from patchkit.wheel.provenance import digest
from patchkit.wheel.record import parse_rows


@dataclass(frozen=True)
class Undo:
    """The steps back, and the folders to remove where nothing is left in them."""

    steps: tuple[Step, ...]
    emptied: tuple[str, ...]


def plan_revert(site: Site, applied: Applied | None) -> Undo:
    """Return what takes a series out of a site.

    Raises PatchkitError where none is in it, where the wheel was patched before it was installed,
    and, naming the file, where one is neither as the series made it nor as it was before.
    """
    if applied is None:
        raise PatchkitError("no series is applied to it", place=site.place)
    if not applied.in_place:
        raise PatchkitError(
            "came out of a patched wheel",
            place=site.place,
            hint="install upstream's wheel; `patchkit unpatch` makes it from the patched one",
        )
    steps = []
    for change in applied.changes:
        found = digest_of(site.root / change.path)
        edited = found not in (change.after, change.before)
        if edited and not change.path.endswith(".pyc"):
            raise PatchkitError(
                "was changed after the series was applied" if found else "is missing",
                place=str(site.root / change.path),
                expected=f"sha256 {change.after}",
                hint=f"`patchkit verify {site.place}` says what was changed; "
                "put the file back, or install anew",
            )
        content = None if change.before is None else _kept(site, applied, change.path)
        step = Step(change.path, found, content, change.mode, change.mtime_ns)
        if found is not None or content is not None:
            steps.append(step)
    steps += _record(site, applied)
    own = [f"{site.state}/{name}" for name in (APPLIED, KEPT)]
    steps += [Step(path, digest_of(site.root / path), None) for path in own]
    return Undo(tuple(steps), (*applied.folders, site.state))


def _kept(site: Site, applied: Applied, path: str) -> bytes:
    """Return a file as it was; `kept.zip` has the sha256 that was noted, so that it is whole."""
    content = applied.before.get(path)
    if content is None:
        raise PatchkitError(f"{path} is not in {KEPT}", place=str(site.root / site.state))
    return content


def _record(site: Site, applied: Applied) -> list[Step]:
    """Return the step that brings RECORD back; its other rows must be as they were."""
    record = site.record
    if record is None:
        return []
    old, now = _kept(site, applied, record), site.read(record) or b""
    place = str(site.root / record)
    ours = {change.path for change in applied.changes}
    ours |= {f"{site.state}/{name}" for name in (KEPT, APPLIED)}
    was, is_now = (
        {row.path: row.text for row in parse_rows(content, place) if row.path not in ours}
        for content in (old, now)
    )
    if was != is_now:
        raise PatchkitError(
            "was changed after the series was applied",
            place=place,
            hint="something else wrote there since; install anew",
        )
    return [Step(record, digest(now), old)]
