"""What there is to know of every stored patch without opening a tree: the matter of its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchkit.config import Config
from patchkit.diff.header import Header
from patchkit.knowing.survival import Step, survival
from patchkit.repository.log import LoggedPatch, LoggedRebase, read_log
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.series.contents import PatchContents, read_contents
from patchkit.series.verdict import StoredVerdict


@dataclass(frozen=True)
class KnownVerdict:
    """What a patch's tests said on a release; `fresh` says whether that speaks of what is there."""

    verdict: StoredVerdict
    fresh: bool


@dataclass(frozen=True)
class Cost:
    """What one finished rebase took for one patch."""

    rebase: LoggedRebase
    patch: LoggedPatch


@dataclass(frozen=True)
class Entry:
    """One patch of a series folder: what it is where it was stored last, and how it got there.

    `carried` says whether it is in the highest release that is stored.
    """

    folder: str
    name: str
    contents: PatchContents
    carried: bool
    steps: tuple[Step, ...]
    verdicts: tuple[KnownVerdict, ...] = ()
    costs: tuple[Cost, ...] = ()

    @property
    def header(self) -> Header:
        """Its header, in the highest release that has it."""
        return self.contents.header

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that have it, lowest first."""
        return tuple(step.release for step in self.steps if step.is_there)

    @property
    def touched(self) -> str:
        """When it was last changed: the day that its header names, else the release."""
        day = self.header.last_update
        if day and day.strip():
            return day.strip()
        written = [s.release for s in self.steps if s.how in ("first", "moved", "changed")]
        return f"v{written[-1]}"


def registry(config: Config, folders: Sequence[str]) -> tuple[Entry, ...]:
    """Return an entry for each patch of some series folders: those of the highest release in series
    order, then those that are no longer carried. Raises PatchkitError for what cannot be read.
    """
    return tuple(entry for folder in folders for entry in _folder(config, folder))


def _folder(config: Config, folder: str) -> list[Entry]:
    releases = [
        read_stored(config.root, folder, release)
        for release in stored_releases(config.root, folder)
    ]
    verdicts, log = read_verdicts(config.root, folder), read_log(config.root, folder)
    last: dict[str, Stored] = {}
    for stored in reversed(releases):
        for name in stored.series.patches:
            last.setdefault(name, stored)
    entries = []
    for name, stored in last.items():
        entries.append(
            Entry(
                folder,
                name,
                read_contents(
                    name, stored.series.patches[name], stored.series.anchors.get(name),
                    place=stored.place,
                ),
                stored is releases[-1],
                survival(name, releases, verdicts, log),
                known_verdicts(config, releases, name, verdicts),
                tuple(Cost(entry, patch) for entry in log for patch in entry.patches
                      if patch.name == name),
            )
        )  # fmt: skip
    return entries


def known_verdicts(
    config: Config, releases: Sequence[Stored], name: str, verdicts: Iterable[StoredVerdict]
) -> tuple[KnownVerdict, ...]:
    """Return the verdicts on one patch, each with whether it speaks of what is stored now."""
    stored = {one.release: one for one in releases}
    own = [verdict for verdict in verdicts if verdict.patch == name]
    return tuple(KnownVerdict(verdict, _is_fresh(config, stored, verdict)) for verdict in own)


def _is_fresh(config: Config, stored: Mapping[str, Stored], verdict: StoredVerdict) -> bool:
    """Whether a verdict was made from what is stored now: for its release, or what was moved."""
    sources = {verdict.release, verdict.base} & set(stored)
    return any(is_fresh(config.root, stored[release], verdict) for release in sources)
