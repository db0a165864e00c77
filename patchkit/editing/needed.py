"""What patches need of each other as they are to be stored, and what no header says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchkit.editing.draft import Draft
from patchkit.editing.heading import depending_on
from patchkit.editing.stack import Layer
from patchkit.placing.plan import PatchPlan
from patchkit.series.graph import Graph, closure, make_graph
from patchkit.series.selection import declared_needs
from patchkit.stacking.dependencies import Dependency, dependencies
from patchkit.stacking.same_statement import SameStatement, same_statements
from patchkit.syntax.tree import at_ease
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Needs:
    """What the patches of a release need of each other, by the names that they go by here."""

    graph: Graph
    statements: tuple[SameStatement, ...]

    def undeclared(self) -> list[tuple[str, str, str]]:
        """Return each need that no header says: the later patch, the earlier one, and why."""
        found: dict[tuple[str, str], str] = {}
        for pair in self.statements:
            found.setdefault((pair.later.patch, pair.earlier.patch), pair.text)
        for link in self.graph.undeclared:
            reason = next(reason for reason in link.reasons if reason.binds)
            found.setdefault((link.later, link.earlier), reason.text)
        return [(later, earlier, text) for (later, earlier), text in found.items()]


def needs_of(layers: Sequence[Layer], base: SourceTree) -> Needs:
    """Return what patches need of each other; a patch goes by folder and name where both matter."""
    several = len({layer.folder for layer in layers}) > 1
    keys = [(layer.folder, layer.name) for layer in layers]
    names = {key: "/".join(key) if several else key[1] for key in keys}
    named = declared_needs({(one.folder, one.name): one.data for one in layers})
    declared = {names[key]: tuple(names[n] for n in needed) for key, needed in named.items()}
    plans = [_called(one.plan, names[one.folder, one.name]) for one in layers]
    with at_ease():
        graph = make_graph(tuple(names.values()), dependencies(plans, base), declared)
        pairs = same_statements(plans)
    owned = {(later, one) for later, needed in closure(declared).items() for one in needed}
    left = tuple(p for p in pairs if (p.later.patch, p.earlier.patch) not in owned)
    return Needs(graph, left)


def declaring(
    drafts: Sequence[Draft], folder: str, needs: Iterable[tuple[str, str, str]]
) -> list[Draft]:
    """Return the patches of a folder with needs declared: later patch, earlier one, and why.

    A need of another folder's patch is left to that.
    """
    needs = list(needs)
    found = []
    for draft in drafts:
        for later, earlier, _ in needs:
            if later in (draft.name, f"{folder}/{draft.name}"):
                word = earlier.removeprefix(f"{folder}/").removesuffix(".patch")
                preamble = depending_on(draft.preamble, word, draft.name)
                draft = draft.with_preamble(preamble)
        found.append(draft)
    return found


def binding(plans: Sequence[PatchPlan], base: SourceTree) -> list[Dependency]:
    """Return where a patch cannot be without an earlier one."""
    with at_ease():
        return [need for need in dependencies(plans, base) if need.binds]


def _called(plan: PatchPlan, name: str) -> PatchPlan:
    return replace(plan, patch=replace(plan.patch, name=name))
