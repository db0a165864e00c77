"""What the patches that are stored for a release need of each other, over all series folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.diff import parse_patch
from patchkit.diff.roots import resolve_roots
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.repository.applied import with_overlay
from patchkit.repository.store import Stored
from patchkit.series.graph import Graph, closure, make_graph
from patchkit.series.selection import Key, declared_needs
from patchkit.stacking.dependencies import dependencies
from patchkit.stacking.same_statement import SameStatement, same_statements
from patchkit.syntax.tree import at_ease
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Planned:
    """All patches of a release, read against their base; `names` are what each is called here."""

    base: SourceTree
    plans: tuple[PatchPlan, ...]
    names: dict[Key, str]
    declared: dict[str, tuple[str, ...]]

    def graph(self) -> Graph:
        """What they need of each other."""
        with at_ease():
            found = dependencies(self.plans, self.base)
        return make_graph(tuple(self.names.values()), found, self.declared)

    def same_statements(self) -> tuple[SameStatement, ...]:
        """The pairs of hunks that edit one statement, and whose headers do not own to it."""
        declared = closure({name: self.declared.get(name, ()) for name in self.names.values()})
        with at_ease():
            found = same_statements(self.plans)
        return tuple(s for s in found if s.earlier.patch not in declared[s.later.patch])


def plan_stored(root: Path, stored: Sequence[Stored], tree: SourceTree) -> Planned:
    """Return the patches of some series of one release, in the order in which they compose.

    A patch goes by its name, with its folder in front where several folders have any. Raises
    PatchkitError where one does not apply, or declares what is not there before it.
    """
    patches = {(s.folder, name): data for s in stored for name, data in s.series.patches.items()}
    several = len({folder for folder, _ in patches}) > 1
    names = {key: "/".join(key) if several else key[1] for key in patches}
    plans = []
    base = tree
    for series in stored:
        base, _ = with_overlay(root, series, base)
        tree, _ = with_overlay(root, series, tree)
        for name, data in series.series.patches.items():
            patch = resolve_roots(parse_patch(data, f"{series.place}/{name}"), tree)[0]
            plan = plan_patch(patch, tree)
            tree = tree.with_changes(plan.after)
            called = names[series.folder, name]
            plans.append(replace(plan, patch=replace(plan.patch, name=called)))
    declared = {
        names[key]: tuple(names[need] for need in needs)
        for key, needs in declared_needs(patches).items()
    }
    return Planned(base, tuple(plans), names, declared)
