"""The story of one patch: what it holds on to, what needs it, how it got to each release, and what
would become of it on another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.config import Config
from patchkit.diff import Hunk, parse_patch
from patchkit.diff.header import Header
from patchkit.errors import PatchkitError
from patchkit.knowing.anchored import HunkAnchor, anchors_of
from patchkit.knowing.registry import KnownVerdict, known_verdicts
from patchkit.knowing.shown import Shown, moved_shown, tried_shown
from patchkit.knowing.survival import Reason, Step, survival
from patchkit.outcome import HunkOutcome
from patchkit.repository import session
from patchkit.repository.log import read_log
from patchkit.repository.move import OpenTree, Request
from patchkit.repository.needs import Planned, plan_stored
from patchkit.repository.store import Stored, nearest_base, read_stored, stored_releases
from patchkit.repository.verdicts import read_verdicts
from patchkit.series.contents import FileContents, PatchContents, read_contents
from patchkit.series.graph import Graph, Link
from patchkit.series.verdict import Verdict
from patchkit.stacking.rebase import Progress
from patchkit.upstream.pins import normalise_version


@dataclass(frozen=True)
class Asked:
    """What is to be told: a patch of a series folder, one hunk of it or all, from the view of a
    stored release.
    """

    folder: str
    patch: str
    release: str
    hunk: int | None = None


@dataclass(frozen=True)
class Passage:
    """One stored release: how the patch got there.

    `files` are what the patch holds there, `reasons` what people and tests said of it or of the
    asked hunk. `outcomes` are those of the move from `base`, made again; `differences` say where
    what is stored is not what that makes. `unknown` says why the move could not be made again.
    """

    step: Step
    reasons: tuple[Reason, ...] = ()
    files: tuple[FileContents, ...] = ()
    base: str | None = None
    outcomes: tuple[HunkOutcome, ...] = ()
    differences: tuple[str, ...] = ()
    unknown: str | None = None


@dataclass(frozen=True)
class Trial:
    """What a move onto a release or tree that does not have the patch would make of it.

    `target` is a release with its v, or the spelling of a tree; `is_stored` says whether something
    is stored for it. `in_range` says whether the header
    means the patch for it; None where it is no release, or there is no range. `verdict` is what the
    patch's tests say there.
    """

    target: str
    is_release: bool
    is_stored: bool
    base: str
    outcomes: tuple[HunkOutcome, ...]
    in_range: bool | None = None
    verdict: KnownVerdict | None = None

    @property
    def lands(self) -> bool:
        """Whether every hunk is there or goes in, on ground that held."""
        return all(outcome.landed and not outcome.drifted for outcome in self.outcomes)

    @property
    def superseded(self) -> bool:
        """Whether its tests, as they are now, pass there without it: a rebase leaves it out."""
        known = self.verdict
        return known is not None and known.fresh and known.verdict.verdict is Verdict.SUPERSEDED


@dataclass(frozen=True)
class Story:
    """All that is known of a patch, or of one hunk of it.

    `stopped` is the target of a rebase that waits for a person, spelt as a trial's is.
    """

    asked: Asked
    contents: PatchContents
    anchors: tuple[HunkAnchor, ...]
    needs: tuple[Link, ...]
    needed_by: tuple[Link, ...]
    passages: tuple[Passage, ...]
    verdicts: tuple[KnownVerdict, ...]
    trial: Trial | None = None
    stopped: str | None = None


class Teller:
    """What stories are made from: a repository, and what opens trees."""

    def __init__(
        self, config: Config, open_tree: OpenTree, progress: Progress | None = None
    ) -> None:
        self._config = config
        self._open = open_tree
        self._progress = progress

    def tell(self, asked: Asked, *, only: str | None = None, target: str | None = None) -> Story:
        """Return the story of a patch.

        With `only` the way to that one stored release alone; `target` is a release or tree to try.
        Raises PatchkitError where the release that the patch is told from cannot be opened.
        """
        releases = [
            read_stored(self._config.root, asked.folder, release)
            for release in stored_releases(self._config.root, asked.folder)
        ]
        home = next(stored for stored in releases if stored.release == asked.release)
        data = home.series.patches[asked.patch]
        anchors = home.series.anchors.get(asked.patch)
        contents = read_contents(asked.patch, data, anchors, place=home.place)
        _check_hunk(asked, contents)
        planned = plan_stored(self._config.root, self._beside(home), self._open(f"v{home.release}"))
        called, graph = planned.names[asked.folder, asked.patch], planned.graph()
        found = read_verdicts(self._config.root, asked.folder)
        verdicts = known_verdicts(self._config, releases, asked.patch, found)
        log = read_log(self._config.root, asked.folder)
        steps = survival(asked.patch, releases, found, log)
        return Story(
            asked,
            _only_hunk(contents, asked.hunk),
            tuple(a for a in _anchors(planned, called) if asked.hunk in (None, a.number)),
            _links(graph, called, asked.hunk, later=True),
            _links(graph, called, asked.hunk, later=False),
            tuple(
                self._passage(asked, step, home, releases)
                for step in steps
                if only in (None, step.release)
            ),
            verdicts if only is None else tuple(v for v in verdicts if v.verdict.release == only),
            self._trial(asked, home, releases, contents.header, verdicts, target)
            if target
            else None,
            _stopped(self._config),
        )

    def _beside(self, home: Stored) -> list[Stored]:
        """Return all series of a release, in the order in which they compose."""
        root = self._config.root
        held = [f for f in self._config.series if home.release in stored_releases(root, f)]
        return [read_stored(root, folder, home.release) for folder in held]

    def _passage(
        self, asked: Asked, step: Step, home: Stored, releases: Sequence[Stored]
    ) -> Passage:
        base = nearest_base([stored.release for stored in releases], step.release)
        there = next(stored for stored in releases if stored.release == step.release)
        files = self._files(asked, home, there)
        before = next((stored for stored in releases if stored.release == base), None)
        reasons = self._reasons(asked, home, before, step)
        if base is None or before is None or not step.is_there:
            return Passage(step, reasons, files, base)
        try:
            shown = moved_shown(
                self._config, (asked.folder,), step.release, None, self._open, self._progress
            )
        except PatchkitError as error:
            return Passage(step, reasons, files, base, unknown=str(error))
        outcomes = self._outcomes(asked, shown, home, before)
        own = f"{asked.patch}: "
        differences = tuple(
            text for entry in shown for text in entry.differences or () if text.startswith(own)
        )
        return Passage(step, reasons, files, base, outcomes, differences)

    def _reasons(
        self, asked: Asked, home: Stored, before: Stored | None, step: Step
    ) -> tuple[Reason, ...]:
        """Return what was said of the patch, or of what the asked hunk is in the moved release."""
        if asked.hunk is None or before is None or asked.patch not in before.series.patches:
            return step.reasons
        data = before.series.patches[asked.patch]
        number = counterpart(home.series.patches[asked.patch], asked.hunk, data)
        return tuple(r for r in step.reasons if not r.hunks or number in r.hunks)

    def _files(self, asked: Asked, home: Stored, there: Stored) -> tuple[FileContents, ...]:
        """Return what the patch, or what is there of the asked hunk, holds in a release."""
        data = there.series.patches.get(asked.patch)
        if data is None:
            return ()
        anchors = there.series.anchors.get(asked.patch)
        contents = read_contents(asked.patch, data, anchors, place=there.place)
        if asked.hunk is None:
            return contents.files
        number = counterpart(home.series.patches[asked.patch], asked.hunk, data)
        return _only_hunk(contents, number).files if number is not None else ()

    def _trial(
        self,
        asked: Asked,
        home: Stored,
        releases: Sequence[Stored],
        header: Header,
        verdicts: Sequence[KnownVerdict],
        target: str,
    ) -> Trial:
        request = Request(target, is_release=False, base=home.release)
        shown = tried_shown(self._config, (asked.folder,), request, self._open, self._progress)
        version = self._open(target).version
        known = header.applies_to is not None and version is not None
        return Trial(
            target,
            is_release(target),
            any(f"v{stored.release}" == target for stored in releases),
            home.release,
            self._outcomes(asked, shown, home, home),
            header.covers(version or "") if known else None,
            next((v for v in verdicts if v.verdict.release == version), None),
        )

    def _outcomes(
        self, asked: Asked, shown: Sequence[Shown], home: Stored, before: Stored
    ) -> tuple[HunkOutcome, ...]:
        """Return what became of the patch, or of the hunk that the asked one is in that release."""
        outcomes = [
            outcome
            for entry in shown
            for (patch, _), outcome in entry.outcomes.items()
            if patch == asked.patch
        ]
        if asked.hunk is not None and asked.patch in before.series.patches:
            wanted = counterpart(
                home.series.patches[asked.patch], asked.hunk, before.series.patches[asked.patch]
            )
            outcomes = [outcome for outcome in outcomes if outcome.hunk == wanted]
        return tuple(outcomes)


def counterpart(data: bytes, number: int, other: bytes) -> int | None:
    """Return which hunk of another version of a patch has the most lines of one; None if none."""
    wanted = _lines(_hunks(data)[number - 1])
    shares = [((wanted & _lines(hunk)).total(), -at) for at, hunk in enumerate(_hunks(other), 1)]
    if not wanted:  # a mode or a name: the section counts as its only hunk
        return number if number <= len(shares) else None
    best = max(shares, default=(0, 0))
    return -best[1] if best[0] else None


def _hunks(data: bytes) -> list[Hunk | None]:
    """The hunks as they are numbered: a section without any counts as one."""
    found: list[Hunk | None] = []
    for file in parse_patch(data, "patch").files:
        found += file.hunks or (None,)
    return found


def _lines(hunk: Hunk | None) -> Counter[tuple[str, bytes]]:
    lines = hunk.lines if hunk is not None else ()
    return Counter((line.kind, line.text) for line in lines if line.kind != " ")


def _stopped(config: Config) -> str | None:
    """The target of a rebase that waits for a person."""
    state = session.read_state(config.state_folder / "rebase")
    if state is None:
        return None
    return f"v{normalise_version(state.target)}" if state.is_release else state.target


def is_release(text: str) -> bool:
    """Return whether the spelling of a tree is that of a release."""
    try:
        normalise_version(text)
    except PatchkitError:
        return False
    return True


def _check_hunk(asked: Asked, contents: PatchContents) -> None:
    if asked.hunk is not None and not 1 <= asked.hunk <= len(contents.hunks):
        raise PatchkitError(
            f"there is no hunk {asked.hunk}",
            place=f"{asked.folder}/v{asked.release}/{asked.patch}",
            expected=f"one of 1 to {len(contents.hunks)}",
        )


def _only_hunk(contents: PatchContents, number: int | None) -> PatchContents:
    files = (
        replace(file, hunks=tuple(h for h in file.hunks if number in (None, h.number)))
        for file in contents.files
    )
    return replace(contents, files=tuple(file for file in files if file.hunks))


def _anchors(planned: Planned, called: str) -> tuple[HunkAnchor, ...]:
    return anchors_of(next(plan for plan in planned.plans if plan.patch.name == called))


def _links(graph: Graph, called: str, hunk: int | None, *, later: bool) -> tuple[Link, ...]:
    """Return what a patch needs, or what needs it, with the reasons that concern a hunk."""
    found = []
    for link in graph.links:
        if (link.later if later else link.earlier) != called:
            continue
        ends = [(r, r.later.number if later else r.earlier.number) for r in link.reasons]
        reasons = tuple(r for r, number in ends if hunk in (None, number))
        if reasons or (hunk is None and link.declared):
            found.append(replace(link, reasons=reasons))
    return tuple(found)
