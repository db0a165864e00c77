"""Which hunk of a series needs which earlier one, and why: by the lines that it touches, by names.

Two hunks whose lines do not touch commute: made in either order they give one tree. Where they only
stand close to each other, or add lines in one gap, that is said, but neither needs the other. Names
count where the base has no such thing itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.names.mentions import CALLABLE
from patchkit.names.tree_index import TreeIndex
from patchkit.placing.landed import authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.stacking.provided import Provided, module_of, provided_by
from patchkit.stacking.relied import Use, uses_in
from patchkit.stacking.weave import HunkId, Touch, strongest, weave
from patchkit.syntax.build import try_module
from patchkit.tree import PYTHON, SourceTree

# Kinds that say where a hunk stands, and of which it could be without the other one.
CLOSE = ("order", "context")
_MEMBERS = frozenset({"field", "method", "self", "store"})


@dataclass(frozen=True)
class Dependency:
    """A hunk and an earlier one that it needs, with the reason.

    `kind` is "lines", "file", "module", "member", "local", "parameter" or "position". Of kind
    "context" it stands beside the earlier one's lines, of kind "order" in the very gap in which
    that adds lines: there is one order only, but either can be without the other.
    """

    later: HunkId
    earlier: HunkId
    kind: str
    text: str

    @property
    def binds(self) -> bool:
        """Whether the later hunk cannot be without the earlier one."""
        return self.kind not in CLOSE


def dependencies(plans: Sequence[PatchPlan], base: SourceTree) -> tuple[Dependency, ...]:
    """Return what each hunk of a series needs of the patches before its own, in series order.

    `base` is the tree that the first patch is made on.
    """
    followed = Followed(plans, base)
    return tuple(dependency for plan in plans for dependency in followed.follow(plan))


class Followed:
    """A series as far as it has been followed: the lines of its files, and the names it brings."""

    def __init__(self, plans: Sequence[PatchPlan], base: SourceTree) -> None:
        self.weaves = weave(plans)
        self._names = _Names(base)
        self._place = {plan.patch.name: number for number, plan in enumerate(plans)}

    def follow(self, plan: PatchPlan) -> list[Dependency]:
        """Take the next patch in, and return what its hunks need of those before it."""
        found = [*self.by_lines(plan), *self.by_names(plan)]
        self.bring(plan)
        return sorted(_but_context_of_needs(found), key=self._order)

    def by_lines(self, plan: PatchPlan) -> list[Dependency]:
        """Take in what the next patch does to lines, and return what that touches."""
        return [_by_lines(touch) for touch in strongest(self.weaves.follow(plan))]

    def by_names(self, plan: PatchPlan) -> list[Dependency]:
        """Return what a patch uses of the names that were brought in."""
        return self._names.used_by(plan)

    def bring(self, plan: PatchPlan, hunks: Collection[HunkId] | None = None) -> None:
        """Take in the names that a patch brings, or those of some hunks alone."""
        self._names.bring(plan, hunks)

    def _order(self, need: Dependency) -> tuple[int, int, int, int]:
        kind = _KINDS.index(need.kind)
        return need.later.number, self._place[need.earlier.patch], need.earlier.number, kind


_KINDS = ("lines", "file", "module", "member", "local", "parameter", "position", *CLOSE)


def _but_context_of_needs(found: Iterable[Dependency]) -> Iterator[Dependency]:
    """Leave out that two hunks stand close where one needs the other anyway."""
    found = list(found)
    needs = {(d.later, d.earlier) for d in found if d.binds}
    return (d for d in found if d.binds or (d.later, d.earlier) not in needs)


_HOW = {
    "changes": "{later} changes lines that {earlier} adds ({place})",
    "inside": "{later} adds lines inside of those that {earlier} adds ({place})",
    "around": "{later} changes the lines around some that {earlier} removes ({place})",
    "where": "{later} adds lines where {earlier} removes some ({place})",
    "beside": "{later} adds lines where {earlier} adds others ({place}): their order matters; "
    "neither needs the other",
    "made": "{later} changes {path}, which {earlier} adds",
    "moved": "{later} changes {path}, which {earlier} gives that name",
    "removed": "{later} adds {path}, which {earlier} removes",
    "mode": "{later} gives {path} another mode, as {earlier} does",
    "context": "{later} stands beside what {earlier} changes ({place}); neither needs the other",
}


def _by_lines(touch: Touch) -> Dependency:
    place = f"{touch.path}:{touch.line}"
    text = _HOW[touch.how].format(
        later=touch.later, earlier=touch.earlier, place=place, path=touch.path
    )
    return Dependency(touch.later, touch.earlier, touch.kind, text)


class _Names:
    """What the patches so far bring by name, and what of it a later one uses."""

    def __init__(self, base: SourceTree) -> None:
        self.base = base
        self.provided: dict[tuple[str, str], list[tuple[HunkId, Provided]]] = defaultdict(list)
        self._index = TreeIndex(base, "")
        self._has_member: dict[str, bool] = {}
        self._takes: dict[tuple[str, str], bool] = {}

    def bring(self, plan: PatchPlan, hunks: Collection[HunkId] | None) -> None:
        """Take in what the hunks of a patch bring."""
        for hunk, provided in provided_by(plan, hunks):
            self.provided[provided.kind, provided.name].append((hunk, provided))

    def used_by(self, plan: PatchPlan) -> list[Dependency]:
        """Return what the hunks of a patch use of what was brought in."""
        if not self.provided:
            return []
        found: dict[tuple[HunkId, HunkId, Provided], Dependency] = {}
        own: list[frozenset[tuple[str, str]]] = []

        def is_own(use: Use) -> bool:
            if not own:
                own.append(frozenset((p.kind, p.name) for _, p in provided_by(plan)))
            return (use.kind, use.name) in own[0]

        for file in plan.files:
            for later, use in self._uses(plan.patch.name, file):
                for earlier, provided in self._providers(use, file.section.path, is_own):
                    key = later, earlier, provided
                    if key not in found:
                        found[key] = _by_name(later, earlier, use, provided, file.section.path)
        return _one_a_name(found)

    def _uses(self, patch: str, file: PlannedFile) -> Iterator[tuple[HunkId, Use]]:
        path = file.section.path
        if file.authored is None or not path.endswith(PYTHON) or not self._may_use(file):
            return
        module = try_module(file.authored)
        if module is None:
            return
        for number in file.numbers:
            lines = authored_lines(file, number)
            for use in uses_in(module.tree, path, module_of(path), lines) if lines else ():
                yield HunkId(patch, number), use

    def _may_use(self, file: PlannedFile) -> bool:
        """Whether what a section adds holds any of the names: most parses are saved by that."""
        added = b"".join(line for job in file.jobs for run in job.runs for line in run.lines)
        text = (added if file.jobs else file.authored or b"").decode("utf-8", "replace")
        return any(
            all(word.rpartition(".")[2] in text for word in _words(provided))
            for brought in self.provided.values()
            for _, provided in brought
        )

    def _providers(
        self, use: Use, path: str, is_own: Callable[[Use], bool]
    ) -> Iterator[tuple[HunkId, Provided]]:
        if use.kind == "file":
            yield from self._files(use)
            return
        for hunk, provided in self.provided.get((use.kind, use.name), ()):
            if self._is_meant(use, path, provided, is_own):
                yield hunk, provided

    def _files(self, use: Use) -> Iterator[tuple[HunkId, Provided]]:
        name = use.name.partition(":")[0]
        while name:
            yield from self.provided.get(("file", name), ())
            name = name.rpartition(".")[0]

    def _is_meant(
        self, use: Use, path: str, provided: Provided, is_own: Callable[[Use], bool]
    ) -> bool:
        """Whether a use names this very thing, and nothing that the base has as well."""
        if use.kind == "module":
            return use.owner == module_of(provided.path)
        if use.kind == "local":
            return use.owner == provided.owner and path == provided.path
        if use.kind == "member":
            if use.owner and use.owner == provided.owner:
                return True
            if use.how == "overridden":
                return use.owner == provided.owner.rpartition(".")[2]
            return not is_own(use) and not self._base_has_member(use.name)
        if use.owner != provided.owner:
            return False
        if use.kind == "position":
            return not self._is_ambiguous(use.owner)
        return not is_own(use) and not self._base_takes(use.owner, use.name)

    def _base_has_member(self, name: str) -> bool:
        """Whether the base has such a member somewhere, or reads one of what it does not define."""
        if name not in self._has_member:
            there = self._index.anywhere(name, _MEMBERS) is not None
            self._has_member[name] = there or self._index.is_read_beyond(name, "")
        return self._has_member[name]

    def _base_takes(self, callee: str, keyword: str) -> bool:
        """Whether the base has a callable of a name that takes a keyword."""
        key = callee, keyword
        if key not in self._takes:
            there = self._index.everywhere(callee, CALLABLE)
            signatures = [found.definition.signature for found in there]
            self._takes[key] = any(s is not None and keyword in s.keywords for s in signatures)
        return self._takes[key]

    def _is_ambiguous(self, callee: str) -> bool:
        """Whether the base has several callables of a name: an argument may go to any of them."""
        return len(self._index.everywhere(callee, CALLABLE, most=2)) > 1


def _words(provided: Provided) -> tuple[str, ...]:
    """The words without which no line uses something."""
    if provided.kind == "position":
        return (provided.owner,)
    if provided.kind == "parameter":
        return provided.name, provided.owner
    return (provided.name,)


def _one_a_name(found: Mapping[tuple[HunkId, HunkId, Provided], Dependency]) -> list[Dependency]:
    """Return one reason a name; what is in a new file comes with the file."""
    files = {(later, earlier) for later, earlier, p in found if p.kind == "file"}
    kept: dict[tuple[HunkId, HunkId, str], Dependency] = {}
    for (later, earlier, provided), dependency in found.items():
        if provided.kind in ("module", "member") and (later, earlier) in files:
            continue
        kept.setdefault((later, earlier, provided.name), dependency)
    return list(kept.values())


_MADE = {
    "module": "`{name}` is defined by {earlier} ({there})",
    "member": "`{owner}{name}` is defined by {earlier} ({there})",
    "local": "`{name}` of `{owner}` is bound by {earlier} ({there})",
    "parameter": "the parameter `{name}` of `{owner}` is added by {earlier} ({there})",
    "position": "argument {name} of `{owner}` is added by {earlier} ({there})",
    "file": "{path} is added by {earlier}",
}


def _by_name(later: HunkId, earlier: HunkId, use: Use, provided: Provided, path: str) -> Dependency:
    owner = provided.owner
    if provided.kind == "member" and owner:
        owner += "."
    made = _MADE[provided.kind].format(
        name=provided.name, owner=owner, earlier=earlier, path=provided.path,
        there=f"{provided.path}:{provided.line}",
    )  # fmt: skip
    text = f"{made} and {use.how} in {later} ({path}:{use.line})"
    return Dependency(later, earlier, provided.kind, text)
