"""The verdict on each patch of a repository for one release: moved there, laid out, and tested."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.proving.judge import TreeRun, explain
from patchkit.proving.run import Runner, lay_out
from patchkit.repository.applied import apply_series, with_overlay
from patchkit.repository.store import Stored, nearest_base, read_stored, stored_releases
from patchkit.repository.verdicts import (
    is_fresh,
    named_tests,
    read_tests,
    read_verdicts,
    source_digest,
    with_dependencies,
)
from patchkit.series.anchoring import series_inputs
from patchkit.series.proof_digest import digest_patches, digest_tests
from patchkit.series.verdict import StoredVerdict, judge
from patchkit.stacking.rebase import RebasedPatch, RebaseResult, rebase_series
from patchkit.tree import SourceTree

OpenTree = Callable[[str], SourceTree]


@dataclass(frozen=True)
class Candidate:
    """A patch to test for a release: `stored` is the release that it is taken from."""

    stored: Stored
    name: str
    tests: tuple[str, ...]

    @property
    def place(self) -> str:
        """The patch file, relative to the repository."""
        return f"{self.stored.place}/{self.name}"


@dataclass(frozen=True)
class Proven:
    """A verdict with the runs that it rests on."""

    folder: str
    verdict: StoredVerdict
    pristine: TreeRun
    patched: TreeRun | None


def patch_sources(config: Config, folder: str, release: str) -> dict[str, Stored]:
    """Return for each patch of a series folder the stored release to take it from for a release.

    That is the release itself where it holds the patch, else the nearest below that does, else the
    nearest above: a patch that is out of one series is still tested there.
    """
    stored = [read_stored(config.root, folder, r) for r in stored_releases(config.root, folder)]
    names = dict.fromkeys(name for entry in stored for name in entry.series.patches)
    found = {}
    for name in names:
        holding = {s.release: s for s in stored if name in s.series.patches}
        nearest = release if release in holding else nearest_base(holding, release)
        found[name] = holding[nearest or next(iter(holding))]
    return found


def candidates(
    config: Config, folders: Sequence[str], release: str, wanted: Sequence[str]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return the patches to test, and the places of those that name no test.

    Raises PatchkitError for a wanted patch that is not there or that names no test, and where
    nothing is left to be tested.
    """
    found, untested = [], []
    known: dict[str, None] = {}
    for folder in folders:
        for name, stored in patch_sources(config, folder, release).items():
            known[name.removesuffix(".patch")] = None
            if wanted and not {name, name.removesuffix(".patch")} & set(wanted):
                continue
            data = stored.series.patches[name]
            tests = named_tests(data, f"{stored.place}/{name}")
            candidate = Candidate(stored, name, tests)
            if tests:
                found.append(candidate)
            else:
                untested.append(candidate.place)
    for text in wanted:
        if text.removesuffix(".patch") not in known:
            raise PatchkitError(
                f"there is no patch {text!r}",
                place=", ".join(folders),
                hint=f"stored are: {', '.join(known) or 'none'}",
            )
    if not found or (wanted and untested):
        raise PatchkitError(
            "names no test",
            place=", ".join(untested) or ", ".join(folders),
            expected="a header field such as Test: tests/test_kv.py::test_pages",
        )
    return tuple(found), tuple(untested)


def is_proven(config: Config, release: str, candidate: Candidate) -> bool:
    """Return whether there is a verdict on a candidate for a release, and it still holds."""
    return any(
        verdict.release == release
        and verdict.patch == candidate.name
        and is_fresh(config.root, candidate.stored, verdict)
        for verdict in read_verdicts(config.root, candidate.stored.folder)
    )


def prove(
    config: Config,
    release: str,
    chosen: Sequence[Candidate],
    open_tree: OpenTree,
    runner: Runner,
    announce: Callable[[str], None] = lambda _: None,
) -> Iterator[Proven]:
    """Return the verdict on each candidate, as soon as it is made.

    Each patch stands alone, with what it depends on: a test of one must not pass or fail by
    another. The tests are found to be there before the first one runs.
    """
    for candidate in chosen:
        read_tests(config.root, candidate.tests, candidate.place)
    with _Ground(runner) as ground:
        for candidate in chosen:
            announce(f"{candidate.name}: testing v{release}")
            yield _prove(config, release, candidate, open_tree, ground)


class _Ground:
    """Runs of tests, each made once: patches whose tests and tree are the same share it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._folder = tempfile.TemporaryDirectory(prefix="patchkit-tree-")
        self._laid_out: list[tuple[SourceTree, Path]] = []

    def __enter__(self) -> _Ground:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, names: Sequence[str], tree: SourceTree) -> TreeRun:
        """Return what the named tests say of a tree, which is laid out if it is not yet."""
        folder = next((path for laid_out, path in self._laid_out if laid_out is tree), None)
        if folder is None:
            folder = Path(self._folder.name).resolve() / str(len(self._laid_out))
            lay_out(tree, folder)
            self._laid_out.append((tree, folder))
        return self.runner.run(names, folder)


def _prove(
    config: Config, release: str, candidate: Candidate, open_tree: OpenTree, ground: _Ground
) -> Proven:
    stored, name, tests = candidate.stored, candidate.name, candidate.tests
    files = read_tests(config.root, tests, candidate.place)
    moved = _Moved.of(config, release, candidate, open_tree)
    pristine = ground.run(tests, moved.without)
    patched = ground.run(tests, moved.with_it) if moved.with_it is not None else None
    colour = patched.colour if patched else None
    verdict = judge(pristine.colour, colour, lands=moved.lands)
    return Proven(
        stored.folder,
        StoredVerdict(
            release=release,
            patch=name,
            verdict=verdict,
            pristine=pristine.colour,
            patched=colour,
            reason=explain(verdict, pristine, patched, moved.landing),
            base=stored.release,
            tests=tests,
            patch_sha256=source_digest(stored, name),
            moved_sha256=moved.digest,
            test_sha256=digest_tests(tests, files),
            torch=pristine.torch,
        ),
        pristine,
        patched,
    )


@dataclass(frozen=True)
class _Moved:
    """A patch on the release that it is tested on.

    `without` has what it depends on and not the patch; `with_it` is None where the patch does not
    land or changes nothing, and `landing` then says so. `digest` is that of what landed.
    """

    without: SourceTree
    with_it: SourceTree | None
    lands: bool
    landing: str
    digest: str

    @classmethod
    def of(cls, config: Config, release: str, candidate: Candidate, open_tree: OpenTree) -> _Moved:
        """Return a candidate moved to a release."""
        stored, name = candidate.stored, candidate.name
        target = _below(config, stored.folder, release, open_tree)
        base = _below(config, stored.folder, stored.release, open_tree)
        needed = with_dependencies(stored, name)
        result = _rebase(config, stored, needed, base, target)
        without = target
        if len(needed) > 1:
            without = _rebase(config, stored, needed[:-1], base, target).tree
        patch = next(patch for patch in result.patches if patch.name == name)
        after = {p.name: p.data for p in result.patches}
        digest = digest_patches(((n, after[n]) for n in needed), stored.series.overlay)
        landing = _landing(result, patch, needed, release)
        lands = all(outcome.landed for outcome in result.outcomes if outcome.patch in needed)
        with_it = result.tree if lands and patch.data else None
        return cls(without, with_it, lands, landing, digest)


def _below(config: Config, folder: str, release: str, open_tree: OpenTree) -> SourceTree:
    """Return a release with the series applied that come before a folder and are stored for it."""
    tree = open_tree(f"v{release}")
    for below in config.series[: config.series.index(folder)] if folder in config.series else ():
        if release in stored_releases(config.root, below):
            tree = apply_series(config.root, read_stored(config.root, below, release), tree)
    return tree


def _rebase(
    config: Config, stored: Stored, needed: Sequence[str], base: SourceTree, target: SourceTree
) -> RebaseResult:
    base, _ = with_overlay(config.root, stored, base)
    target, _ = with_overlay(config.root, stored, target)
    return rebase_series(series_inputs(stored.series, stored.place, chosen=needed), base, target)


def _landing(result: RebaseResult, patch: RebasedPatch, needed: Sequence[str], release: str) -> str:
    """Return what there is to say of how a patch landed; nothing where all of it simply did."""
    for outcome in result.outcomes:
        if not outcome.landed and outcome.patch in needed:
            status = outcome.status.value.replace("_", " ")
            hunk = f"hunk {outcome.hunk}"
            hunk += "" if outcome.patch == patch.name else f" of {outcome.patch}"
            return f"it does not land on v{release}: {hunk} is {status}"
    if not patch.data:
        return f"v{release} holds it already"
    drifts = [d.text for o in result.outcomes if o.patch == patch.name for d in o.drifts]
    if drifts:
        return f"it lands on changed ground: {drifts[0]}"
    return ""
