"""What the patches of a series need of each other, computed, beside what their headers declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchkit.stacking.dependencies import Dependency


@dataclass(frozen=True)
class Link:
    """A patch and an earlier one: the reasons, and whether the header of the later declares it.

    `implied` says that what it declares declares the earlier one in turn.
    """

    later: str
    earlier: str
    reasons: tuple[Dependency, ...] = ()
    declared: bool = False
    implied: bool = False

    @property
    def binds(self) -> bool:
        """Whether the later patch cannot be without the earlier one."""
        return any(reason.binds for reason in self.reasons)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it binds by, in words."""
        words = [_WORDS.get(reason.kind, "names") for reason in self.reasons if reason.binds]
        return tuple(dict.fromkeys(words))


_WORDS = {"lines": "lines", "file": "files"}


@dataclass(frozen=True)
class Graph:
    """The patches in series order, and the links between them by later and then earlier patch."""

    patches: tuple[str, ...]
    links: tuple[Link, ...]

    @property
    def needs(self) -> tuple[Link, ...]:
        """The links that bind."""
        return tuple(link for link in self.links if link.binds)

    @property
    def undeclared(self) -> tuple[Link, ...]:
        """The needs that no header says: a choice of patches would go wrong by them."""
        return tuple(link for link in self.needs if not (link.declared or link.implied))

    @property
    def unfound(self) -> tuple[Link, ...]:
        """What is declared, and nothing was found that needs it."""
        return tuple(link for link in self.links if link.declared and not link.binds)

    def parents(self, patch: str) -> tuple[str, ...]:
        """The patches that one needs, without those that come with another of them."""
        needed = [link.earlier for link in self.needs if link.later == patch]
        below = {other for one in needed for other in self._all_needed(one)}
        return tuple(one for one in needed if one not in below)

    def _all_needed(self, patch: str) -> set[str]:
        return closure({p: [k.earlier for k in self.needs if k.later == p] for p in self.patches})[
            patch
        ]


def closure(direct: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return what each patch needs, through others as well; patches come in series order."""
    found: dict[str, set[str]] = {}
    for patch, needed in direct.items():
        found[patch] = set(needed)
        for one in needed:
            found[patch] |= found.get(one, set())
    return found


def make_graph(
    patches: Sequence[str],
    dependencies: Iterable[Dependency],
    declared: Mapping[str, Sequence[str]],
) -> Graph:
    """Return the graph of a series; `declared` says of each patch what its header names."""
    reasons: dict[tuple[str, str], list[Dependency]] = {}
    for dependency in dependencies:
        pair = dependency.later.patch, dependency.earlier.patch
        reasons.setdefault(pair, []).append(dependency)
    for later, needed in declared.items():
        for earlier in needed:
            reasons.setdefault((later, earlier), [])
    implied = closure({patch: declared.get(patch, ()) for patch in patches})
    place = {patch: number for number, patch in enumerate(patches)}
    links = [
        Link(
            later, earlier, tuple(why),
            declared=earlier in declared.get(later, ()),
            implied=earlier in implied[later] and earlier not in declared.get(later, ()),
        )
        for (later, earlier), why in reasons.items()
    ]  # fmt: skip
    links.sort(key=lambda link: (place[link.later], place[link.earlier]))
    return Graph(tuple(patches), tuple(links))
