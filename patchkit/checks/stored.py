"""Whether a stored series is sound: it applies, is canonical, and its anchors are fresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Literal

from patchkit.config import Config
from patchkit.diff import FilePatch, Patch, format_patch, parse_patch
from patchkit.diff.header import parse_header, validate_header
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.placing.plan import PatchPlan
from patchkit.repository.applied import (
    apply_series,
    apply_shipped,
    canonical_sections,
    with_overlay,
)
from patchkit.repository.log import read_log
from patchkit.repository.needs import plan_stored
from patchkit.repository.overlaid import missing_imports, missing_text
from patchkit.repository.store import Stored, read_stored, release_folder, stored_releases
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.series.anchor import parse_anchors
from patchkit.series.anchoring import renewed
from patchkit.series.exits import Holding, exit_conditions, judge_exit
from patchkit.series.override import contradictions
from patchkit.series.series import SAME_AS, anchors_name
from patchkit.series.verdict import VERDICTS, Verdict
from patchkit.tree import SourceTree

Kind = Literal[
    "apply", "export", "anchors", "header", "same-as", "series", "overlay", "verdict",
    "statement", "depends", "exit", "log",
]  # fmt: skip
OpenTree = Callable[[str], SourceTree]


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it must be: `place` is the file, with a line where one is known."""

    kind: Kind
    place: str
    text: str


@dataclass(frozen=True)
class Checked:
    """One stored release; `renewed` holds what patchkit would write otherwise than it is."""

    folder: str
    release: str
    patches: int = 0
    hunks: int = 0
    same_as: str | None = None
    findings: tuple[Finding, ...] = ()
    renewed: Mapping[str, bytes] = field(default_factory=dict)


def check_stored(
    config: Config, folders: tuple[str, ...], open_tree: OpenTree, *, frozen: bool
) -> Iterator[Checked]:
    """Return what each stored release of the folders is worth.

    Frozen, whatever is not as patchkit would write it is a finding. Otherwise patches that apply
    at an offset or under another root count as sound, and their canonical text and anchors are
    returned to be written. Two patches that edit one statement are found either way, unless the
    later declares that it depends on the other. Frozen too, every need must be declared, and where
    there is a verdict on a stored patch, it must hold still and find the patch needed.
    """
    for folder in folders:
        log = list(_log(config.root, folder))
        for release in stored_releases(config.root, folder):
            told, log = log, []  # once a folder
            try:
                stored = read_stored(config.root, folder, release)
                pristine = open_tree(f"v{release}")
                tree = _ground(config, folder, release, pristine)
            except PatchkitError as error:
                yield Checked(folder, release, findings=(*told, _finding("series", error)))
            else:
                checked = _Check(config.root, stored, frozen).run(tree)
                found: list[Finding] = []
                if not any(f.kind in ("apply", "same-as") for f in checked.findings):
                    found += _needs(config, stored, pristine, frozen=frozen)
                found += _verdicts(config.root, stored) if frozen else ()
                found += _exits(stored, pristine)
                yield replace(checked, findings=(*told, *checked.findings, *found))


def _needs(config: Config, stored: Stored, tree: SourceTree, *, frozen: bool) -> Iterator[Finding]:
    """Return what is wrong between the patches of a release and those that come before them."""
    if stored.same_as is not None:
        return  # found where they are stored
    below = takewhile(lambda folder: folder != stored.folder, config.series)
    held = [name for name in below if stored.release in stored_releases(config.root, name)]
    stack = [*(read_stored(config.root, name, stored.release) for name in held), stored]
    if sum(len(series.series.patches) for series in stack) < 2:
        return
    try:
        planned = plan_stored(config.root, stack, tree)
    except PatchkitError as error:
        folder, _, name = (error.place or "").rpartition("/")
        known = folder == stored.folder and name in stored.series.patches
        found = _finding("depends", error)
        yield replace(found, place=f"{stored.place}/{name}") if known else found
        return
    own = {planned.names[stored.folder, name]: name for name in stored.series.patches}
    told = set()
    for pair in planned.same_statements():
        if pair.later.patch in own:
            told.add((pair.later.patch, pair.earlier.patch))
            place = f"{stored.place}/{own[pair.later.patch]}"
            yield Finding("statement", place, pair.text)
    for link in planned.graph().undeclared if frozen else ():
        if link.later in own and (link.later, link.earlier) not in told:
            reason = next(reason for reason in link.reasons if reason.binds)
            text = f"needs {link.earlier}: {reason.text}; declare `Depends-On: {link.earlier}`"
            yield Finding("depends", f"{stored.place}/{own[link.later]}", text)


def _log(root: Path, folder: str) -> Iterator[Finding]:
    """Return why the log of the rebases cannot be read; it is history, no more is asked of it."""
    try:
        read_log(root, folder)
    except PatchkitError as error:
        yield _finding("log", error)


def _verdicts(root: Path, stored: Stored) -> Iterator[Finding]:
    """Return what the tests of stored patches say against them, and verdicts that are stale."""
    place = f"{stored.folder}/{VERDICTS}"
    try:
        verdicts = read_verdicts(root, stored.folder)
        for verdict in verdicts:
            if verdict.release != stored.release or verdict.patch not in stored.series.patches:
                continue
            what = f"{verdict.patch} on v{stored.release}"
            if not is_fresh(root, stored, verdict):
                again = f"`patchkit test v{stored.release}` makes it anew"
                yield Finding("verdict", place, f"the one on {what} is stale; {again}")
            elif verdict.verdict is not Verdict.NEEDED:
                text = f"{what} is {verdict.verdict.value} and in the series: {verdict.reason}"
                yield Finding("verdict", place, text)
    except PatchkitError as error:
        yield _finding("verdict", error)


def _exits(stored: Stored, pristine: SourceTree) -> Iterator[Finding]:
    """Return the patches that their own exit conditions say are not needed on their release."""
    place = release_folder(stored.folder, stored.same_as or stored.release)
    for name, data in stored.series.patches.items():
        try:
            header = parse_header(parse_patch(data, name).preamble, name)
            found = judge_exit(exit_conditions(header, name), pristine)
        except PatchkitError:
            continue  # found where the header is looked at
        field = header.find("Exit-When")
        if field is not None and found.holding is Holding.HELD:
            text = f"its Exit-When holds on v{stored.release}: {found.text}"
            yield Finding("exit", f"{place}/{name}:{field.lineno}", text)


def _ground(config: Config, folder: str, release: str, tree: SourceTree) -> SourceTree:
    """Return a release with the series applied that come before a folder."""
    for below in config.series:
        if below == folder:
            break
        if release in stored_releases(config.root, below):
            tree = apply_series(config.root, read_stored(config.root, below, release), tree)
    return tree


class _Check:
    """The check of one stored release: what was found so far."""

    def __init__(self, root: Path, stored: Stored, frozen: bool) -> None:
        self.root = root
        self.stored = stored
        self.frozen = frozen
        self.findings: list[Finding] = []
        self.renewed: dict[str, bytes] = {}
        self.hunks = 0

    def run(self, tree: SourceTree) -> Checked:
        """Return the result, every patch applied in order as far as that goes."""
        before = tree
        try:
            tree, clashes = with_overlay(self.root, self.stored, tree)
        except PatchkitError as error:
            self.findings.append(_finding("overlay", error))
        else:
            place = f"{self.stored.place}/overlay.toml"
            text = "the release has a file of that name"
            self.findings += [Finding("overlay", place, f"{path}: {text}") for path in clashes]
        for name, data in self.stored.series.patches.items():
            try:
                tree = self._patch(name, data, tree)
            except PatchkitError as error:
                self.findings.append(self._failure(name, error))
                break
        else:
            self._imports(tree, before)
        return Checked(
            self.stored.folder,
            self.stored.release,
            len(self.stored.series.patches),
            self.hunks,
            self.stored.same_as,
            tuple(self.findings),
            self.renewed,
        )

    def _imports(self, tree: SourceTree, before: SourceTree) -> None:
        """Note what files of the overlay import and the whole series on its release lacks."""
        place = f"{self.stored.place}/overlay.toml"
        for use in missing_imports(self.stored.series.overlay, tree, before):
            text = f"{use.path}:{use.line} {missing_text(use, 'the release')}"
            self.findings.append(Finding("overlay", place, text))

    def _failure(self, name: str, error: PatchkitError) -> Finding:
        if self.stored.same_as is None:
            return _finding("apply", error, f"{self.stored.place}/{name}")
        found = _finding("same-as", error)
        text = f"{name} of v{self.stored.same_as} does not apply: {found.place}: {found.text}"
        return Finding("same-as", f"{self.stored.place}/{SAME_AS}", text)

    def _patch(self, name: str, data: bytes, tree: SourceTree) -> SourceTree:
        """Return the tree after a patch; raises PatchkitError where it does not apply."""
        place = f"{self.stored.place}/{name}"
        patch = parse_patch(data, place)
        strict = self.frozen or self.stored.same_as is not None
        if not strict:
            patch = resolve_roots(patch, tree)[0]
        after, plan = apply_shipped(patch, tree, allow_offset=not strict)
        self.hunks += sum(max(1, len(file.hunks)) for file in patch.files)
        if self.stored.same_as is None:
            self._header(patch, place)
            others = tuple(section.file for section in plan.unshipped)
            self._export(name, data, patch, (*canonical_sections(tree, after, plan.paths), *others))
            self._anchors(name, plan)
        return after

    def _header(self, patch: Patch, place: str) -> None:
        header = parse_header(patch.preamble, place)
        for problem in validate_header(header, place):
            where, _, text = problem.rpartition(": ")
            self.findings.append(Finding("header", where, text))
        release = self.stored.release
        if header.applies_to is not None and not header.covers(release):
            text = f"Applies-To {header.applies_to} does not hold {release}"
            self.findings.append(Finding("header", place, text))

    def _export(self, name: str, data: bytes, patch: Patch, files: tuple[FilePatch, ...]) -> None:
        exported = format_patch(Patch(name, patch.preamble, files))
        if exported != data:
            self._stale("export", name, exported, "is not in the canonical form")

    def _anchors(self, name: str, plan: PatchPlan) -> None:
        stored = self.stored.series.anchors.get(name)
        file = anchors_name(name)
        fresh = renewed(stored, plan, f"{self.stored.place}/{file}")
        if stored is None:
            self._stale("anchors", file, fresh, "is missing")
        elif fresh != stored:
            self._stale("anchors", file, fresh, "is stale: patch and release give other anchors")
        if stored is not None:
            place = f"{self.stored.place}/{file}"
            for problem in contradictions(parse_anchors(stored, place).overrides, plan, place):
                text = problem.removeprefix(f"{place}: ")
                self.findings.append(Finding("anchors", place, text))

    def _stale(self, kind: Kind, name: str, fresh: bytes, text: str) -> None:
        if self.frozen:
            text += "; `patchkit check` writes it"
            self.findings.append(Finding(kind, f"{self.stored.place}/{name}", text))
        else:
            self.renewed[name] = fresh


def _finding(kind: Kind, error: PatchkitError, patch: str = "") -> Finding:
    """Return a finding; a place in the patched tree is told after the patch's own."""
    fact = f"{error.fact}, expected {error.expected}" if error.expected else error.fact
    place = error.place or ""
    if place.startswith(patch):
        return Finding(kind, place, fact)
    return Finding(kind, patch, f"{place}: {fact}" if place else fact)
