"""Whether new classes and methods still keep the protocol of the classes that they derive from.

A class is compared by what base and target let its callers do. Only what is asked of it otherwise
than before is told: what an override refused already is its author's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchkit.outcome import Drift
from patchkit.surface.defined import DriftReport
from patchkit.surface.protocol_calls import Use, Uses, header_around, shown
from patchkit.surface.protocol_changes import (
    Refusal,
    is_served,
    kind_is_left,
    refusals,
    stale_defaults,
)
from patchkit.surface.protocol_classes import Classes, Known, Lineage, ModuleShape, module_shape
from patchkit.surface.protocol_inherited import Ground, Heir, inherited_changes
from patchkit.surface.protocol_members import ClassShape, Member, Signature
from patchkit.surface.protocol_siblings import Siblings
from patchkit.tree import SourceTree

Lines = Sequence[tuple[int, int]]
_BINDING = re.compile(rb"[ \t]*(?:(class|(?:async +)?def)(?= )|\w+ *[:=])")
# `load_weights` stands in 324 files of 0.33.0, so that a call of it says nothing of any class.
_FEW_FILES = 30
_CALLED_BY_PYTHON = frozenset({"__init__", "__call__"})


@dataclass(frozen=True, slots=True)
class NewCode:
    """A file with code of a patch's own: its lines, and the file before and after the move.

    `text` holds the new code and `ground` is what it was added to, empty for a new file.
    """

    text: bytes
    ground: bytes
    lines: Lines
    path_before: str
    path_after: str

    def holds(self, line: int) -> bool:
        """Return whether a line is new."""
        return any(first <= line <= last for first, last in self.lines)

    @property
    def may_define(self) -> bool:
        """Whether a new line looks like a class or like a member of one: most hunks have none."""
        at = 0
        for number, line in enumerate(self.text.splitlines(keepends=True), start=1):
            if self.holds(number) and (binding := _BINDING.match(line)):
                if binding[1] == b"class":
                    return True
                if line[:1] == b" " and header_around(self.text, at)[0] == b"class":
                    return True
            at += len(line)
        return False


@dataclass(frozen=True, slots=True)
class Asked:
    """A member and the class of upstream that asks for it."""

    known: Known
    member: Member

    @property
    def name(self) -> str:
        """`Class.member`."""
        return f"{self.known.name}.{self.member.name}"

    @property
    def place(self) -> str:
        """`path:line` of the member."""
        return f"{self.known.path}:{self.member.line}"


@dataclass(frozen=True, slots=True)
class Trees:
    """Base and target, and each with the patch, so that its files can name each other's classes."""

    base: SourceTree
    authored: SourceTree
    target: SourceTree
    landed: SourceTree


class Protocols:
    """The protocols of base and target for the classes of one patch; what was found is kept."""

    def __init__(self, trees: Trees, package: str = "vllm") -> None:
        base, target = trees.base, trees.target
        old = base.version or base.name or "the base"
        new = target.version or target.name or "the target"
        before, after = Classes(trees.authored, package), Classes(trees.landed, package)
        self._before, self._after = before, after
        self._upstream = Classes(base, package), Classes(target, package)
        # Who calls: upstream alone. Who reads: what the patch reads itself is alive as well.
        self._callers = Uses(base), Uses(target)
        self._readers = Uses(trees.landed)
        self._old, self._new = old, new
        self._grounds = (
            Ground(Siblings(base), self._callers[0], old),
            Ground(Siblings(target), self._callers[1], new),
        )

    def drift(self, code: NewCode) -> DriftReport:
        """Return what of the protocols of some new code's classes changed, by line."""
        if not code.may_define:
            return DriftReport()
        found: list[Drift] = []
        doubts: list[str] = []
        module = module_shape(code.text, code.path_before)
        if module is None:
            return DriftReport()
        ground = module_shape(code.ground, code.path_before)
        for shape in module.classes.values():
            known = ground.classes.get(shape.name) if ground else None
            members = [m for m in _added(shape, known) if code.holds(m.line)]
            is_new = known is None and code.holds(shape.line)
            if not (members or is_new):
                continue
            before = self._before.lineage(code.path_before, shape.name)
            after = self._after.lineage(code.path_after, shape.name)
            if before is None or after is None or before.has_own_rules:
                continue
            if doubt := self._doubt(shape, before, after):
                doubts.append(doubt)
                continue
            where = f"{code.path_after}:"
            for member in members:
                own = after.classes[0].shape.members.get(member.name, member)
                found += self._override(before, after, own, f"{where}{member.line}")
            if is_new:
                found += self._class(module, before, after, f"{where}{shape.line}")
        found.sort(key=lambda d: int(d.read_at.rpartition(":")[2]))
        return DriftReport(tuple(found), tuple(doubts))

    def _doubt(self, shape: ClassShape, before: Lineage, after: Lineage) -> str | None:
        """Why a class cannot be judged: the target does not show a base that the base shows."""
        lost = [name for name in after.lost if name not in before.lost]
        if not lost:
            return None
        names = ", ".join(f"`{name}`" for name in lost)
        return f"the protocol of `{shape.name}`: {names}, its base, is not found in {self._new}"

    def _override(
        self, before: Lineage, after: Lineage, own: Member, read_at: str
    ) -> Iterator[Drift]:
        """What of one override's protocol changed."""
        if own.name.startswith("__") and own.name not in _CALLED_BY_PYTHON:
            return
        old, new = self._asking(before, own.name), self._asking(after, own.name)
        name = f"{before.classes[0].name}.{own.name}"
        if old is None:
            said = self._clash(new, own, name)
        elif new is None:
            said = self._gone(before, after, old, name)
        else:
            said = self._changed(old, new, own, name)
        if said is not None:
            text, then, now = said
            yield Drift("protocol", name, read_at, text, then, now)

    def _asking(self, lineage: Lineage, name: str) -> Asked | None:
        """The first class of upstream above one that has a member."""
        for known in lineage.classes[1:]:
            member = known.shape.members.get(name)
            if member is not None and self.is_upstream(known):
                return Asked(known, member)
        return None

    def is_upstream(self, known: Known) -> bool:
        """Return whether base or target have a class without the patch."""
        return any(tree.find(known.path, known.name) is not None for tree in self._upstream)

    def _gone(
        self, before: Lineage, after: Lineage, old: Asked, name: str
    ) -> tuple[str, str, str] | None:
        if not after.foreign <= before.foreign or name.endswith(".__init__"):
            return None  # a base from elsewhere may have it
        here = next((k for k in after.classes[1:] if k.name == old.known.name), None)
        gone = f"no class above `{after.classes[0].name}` has in {self._new}"
        if here is not None:
            gone = f"`{here.name}` of {self._new} ({here.place}) no longer has"
        text = f"`{name}` overrides `{old.name}` of {self._old} ({old.place}), which {gone}"
        return text, f"{old.name} {old.member}", ""

    def _clash(self, new: Asked | None, own: Member, name: str) -> tuple[str, str, str] | None:
        """What the target calls by a name that was the patch's own."""
        if new is None or new.member.signature is None or own.signature is None:
            return None
        found = refusals(new.member.signature, own.signature)
        if not found or own.name in _CALLED_BY_PYTHON or "method" not in own.kind:
            return None
        what = f"`{new.name}{new.member.signature}` is new in {self._new} ({new.place})"
        text = f"{what}, and `{name}{own.signature}` overrides it: it {_joined(found)}"
        return text, "", f"{new.name} {new.member}"

    def _changed(
        self, old: Asked, new: Asked, own: Member, name: str
    ) -> tuple[str, str, str] | None:
        then, now = f"{old.name} {old.member}", f"{new.name} {new.member}"
        if kind_is_left(old.member, new.member, own):
            was = f"{_a(old.member.kind)} in {self._old} ({old.place})"
            what = f"{_a(new.member.kind)} in {self._new} ({new.place})"
            return f"`{name}` overrides `{old.name}`, {was} and {what}", then, now
        said = self._signature(old, new, own, name)
        if said is not None:
            text, calls = said
            return text, then, f"{now}{calls}"
        place = self._dead(old, own)
        if place is None:
            return None
        what = f"which {self._old} reads at {place} and nothing in {self._new} does"
        return f"`{name}` overrides `{old.name}` ({old.place}), {what}", then, f"{now}, unread"

    def _signature(self, old: Asked, new: Asked, own: Member, name: str) -> tuple[str, str] | None:
        """What the override does not take of the target's calls, and those calls."""
        before, after, ours = old.member.signature, new.member.signature, own.signature
        if before is None or after is None or ours is None:
            return None
        refused = {refusal.key for refusal in refusals(before, ours)}
        if refused and own.name == "__init__":
            return None  # a constructor of its own
        added = [r for r in refusals(after, ours) if r.key not in refused]
        if own.name == "__init__":
            # whoever makes the class by hand knows it; what is optional is for others to pass
            needed = {refusal.key for refusal in refusals(_without_optional(after), ours)}
            added = [r for r in added if r.key in needed]
        calls = [] if own.name in _CALLED_BY_PYTHON else self._failing(own.name, after, ours, added)
        head = f"`{name}{ours}` overrides `{new.name}`"
        were = f"`{before}` in {self._old} ({old.place}), `{after}` in {self._new} ({new.place})"
        if added:
            text = f"{head}, {were}: it {_joined(added)}"
            if own.name not in _CALLED_BY_PYTHON:
                text += f"; called so at {calls[0].place}" if calls else "; no call does that yet"
        elif calls and self._is_rare(own.name) and not self._failed_before(own.name, before, ours):
            text = f"{head} ({new.place}) and does not take the call at {calls[0].place}"
        elif stale := stale_defaults(before, after, ours):
            said = [f"`{a}` was the default, `{b}` is" for a, b in stale]
            text = f"{head}, {were}: {', '.join(said)}, and the override has the old one"
            calls = []
        else:
            return None
        ways = shown(use.passed for use in calls if use.passed)
        return text, f", called {ways}" if ways else ""

    def _failing(
        self, name: str, after: Signature, ours: Signature, added: Sequence[Refusal]
    ) -> list[Use]:
        """The target's calls that the override does not take; none are sought where it takes all
        that the protocol allows."""
        if not added and not refusals(after, ours):
            return []
        return list(self._unserved(self._callers[1].uses(name), after, ours))

    def _is_rare(self, name: str) -> bool:
        """Whether a call by a name alone is likely to be of this protocol: few files define it."""
        return len(self._after.tree.python_holding(b"def %b(" % name.encode())) <= _FEW_FILES

    def _failed_before(self, name: str, before: Signature, ours: Signature) -> bool:
        """Whether the base has a call already that the override does not take."""
        return any(True for _ in self._unserved(self._callers[0].uses(name), before, ours))

    def _unserved(self, uses: Iterable[Use], asked: Signature, ours: Signature) -> Iterator[Use]:
        for use in uses:
            if use.passed is not None and not is_served(use.passed, asked, ours):
                yield use

    def _dead(self, old: Asked, own: Member) -> str | None:
        """Where the base reads an override's name that nothing in the target reads."""
        if own.name in _CALLED_BY_PYTHON or self._after.tree.partial:
            return None
        if self._readers.is_read(own.name, old.known.name.rpartition(".")[2]):
            return None
        uses = self._callers[0].uses(own.name)
        return next((use.place for use in uses if not use.handed_on), None)

    def _class(
        self, module: ModuleShape, before: Lineage, after: Lineage, read_at: str
    ) -> Iterator[Drift]:
        """What changed of that which a new class leaves to its bases."""
        name = before.classes[0].name
        lineages = *before.classes, *after.classes
        own = frozenset(known.key for known in lineages if not self.is_upstream(known))
        is_base = any(name in shape.bases for shape in module.classes.values())
        heir = Heir(before, after, own, is_base)
        for change in inherited_changes(heir, *self._grounds):
            full = f"{name}.{change.name}"
            yield Drift("protocol", full, read_at, change.text, change.before, change.after)


def _added(shape: ClassShape, ground: ClassShape | None) -> Iterator[Member]:
    """The members that a class did not have, or had with another signature."""
    for member in shape.members.values():
        known = ground.members.get(member.name) if ground else None
        if known is None or (known.kind, known.signature) != (member.kind, member.signature):
            yield member


def _without_optional(signature: Signature) -> Signature:
    required = tuple(p for p in signature.parameters if p.default is None)
    return Signature(required, signature.any_position, signature.any_keyword)


def _joined(found: Iterable[Refusal]) -> str:
    return " and ".join(refusal.text for refusal in found)


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
