"""Which patches are looked at: files by name, or all that a repository stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.linting.lint import Context, InSeries, lint_patch, unreadable
from patchkit.linting.mend import mend_patch
from patchkit.linting.rule import Finding, Repair
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.repository.verdicts import read_verdicts
from patchkit.repository.workspace import read_file
from patchkit.series.selection import Key
from patchkit.series.verdict import Verdict


@dataclass(frozen=True)
class Subject:
    """One patch file: what it is held against, what was mended, and what is wrong with it then.

    `place` is what people know it by; `mended` are its new bytes where something was mended.
    """

    place: str
    path: Path
    data: bytes
    context: Context
    repairs: tuple[Repair, ...] = ()
    findings: tuple[Finding, ...] = ()
    mended: bytes | None = None

    def linted(self, *, fix: bool) -> Subject:
        """Return it with its findings; with `fix` mended first, in memory."""
        data, repairs = mend_patch(self.data, self.place) if fix else (self.data, ())
        findings = lint_patch(data, self.place, self.context)
        return replace(self, repairs=repairs, findings=findings, mended=data if repairs else None)


class Looking:
    """What a repository says of the patches that are looked at; `pinned` are all releases."""

    def __init__(self, config: Config, pinned: tuple[str, ...], today: date) -> None:
        self._config = config
        self._pinned = pinned
        self._today = today
        self._proven = cache(self._find_proven)

    def at_file(self, name: str) -> Subject:
        """Return a file by its name, with its series where it lies in a stored release."""
        path = Path(name)
        data = read_file(path)
        root, folder = self._config.root, path.resolve().parent
        for series in self._config.series:
            for release in stored_releases(root, series):
                if folder == root / series / f"v{release}":
                    stored = read_stored(root, series, release)
                    if path.name in stored.series.patches:
                        context = self._in_series(stored, path.name, self._patches(release))
                        return Subject(name, path, data, context)
        return self.plain(data, name)

    def plain(self, data: bytes, name: str) -> Subject:
        """Return a patch that is in no series."""
        return Subject(name, Path(name), data, Context(self._today, self._has_file))

    def at_stored(
        self, folders: tuple[str, ...], wanted: str | None
    ) -> tuple[list[Subject], list[Finding]]:
        """Return the patches of stored releases, or of one, and which release cannot be read."""
        found: list[Subject] = []
        broken: list[Finding] = []
        for folder in folders:
            for release in stored_releases(self._config.root, folder):
                if wanted not in (None, release):
                    continue
                try:
                    found += self._of_release(folder, release)
                except PatchkitError as error:
                    broken.append(unreadable(error, f"{folder}/v{release}"))
        return found, broken

    def _of_release(self, folder: str, release: str) -> Iterator[Subject]:
        stored = read_stored(self._config.root, folder, release)
        if stored.same_as is not None:
            return  # looked at where they are stored
        patches = self._patches(release)
        for name, data in stored.series.patches.items():
            place = f"{stored.place}/{name}"
            context = self._in_series(stored, name, patches)
            yield Subject(place, self._config.root / place, data, context)

    def _in_series(self, stored: Stored, name: str, patches: dict[Key, bytes]) -> Context:
        key = stored.folder, name
        series = InSeries(key, stored.release, patches, self._proven(*key), self._pinned)
        return Context(self._today, self._has_file, series)

    def _patches(self, release: str) -> dict[Key, bytes]:
        """Return all patches of a release, over all series folders, in the order they go in."""
        found: dict[Key, bytes] = {}
        for folder in self._config.series:
            if release in stored_releases(self._config.root, folder):
                stored = read_stored(self._config.root, folder, release)
                found |= {(folder, name): data for name, data in stored.series.patches.items()}
        return found

    def _find_proven(self, folder: str, name: str) -> frozenset[str]:
        """Return the releases for which a patch is stored, or found needed by its tests."""
        found = set()
        for release in stored_releases(self._config.root, folder):
            try:
                if name in read_stored(self._config.root, folder, release).series.patches:
                    found.add(release)
            except PatchkitError:  # a finding of its own
                continue
        verdicts = read_verdicts(self._config.root, folder)
        needed = {v.release for v in verdicts if v.patch == name and v.verdict is Verdict.NEEDED}
        return frozenset(found | needed)

    def _has_file(self, path: str) -> bool:
        return (self._config.root / path).is_file()
