"""What a new class leaves to its bases: defaults, what they ask for, the fields they give it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.surface.protocol_calls import Uses
from patchkit.surface.protocol_classes import Known, Lineage
from patchkit.surface.protocol_members import DataField, Member
from patchkit.surface.protocol_siblings import Sibling, Siblings

_TRUTH = frozenset({"True", "False"})
# How many peers turn a new switch before it is told. Of vLLM's attention backends 7 of 27 turn
# `supports_sliding_window` of 0.26.0, which was taken for granted before; new abilities are turned
# by 3 of 32 (`supports_rswa`), 4 of 13 (`supports_pre_processed_weights`), 2 of 5 or fewer.
_SHARE_TURNED, _FEWEST_TURNED = 0.25, 5
# How many peers give what a base only raises for, and at least half of them.
_FEWEST_GIVING = 2


@dataclass(frozen=True, slots=True)
class Ground:
    """One release: who derives from a class there, who reads a name, and how it is called."""

    siblings: Siblings
    uses: Uses
    label: str


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed for a new class; `before` and `after` are free of places."""

    name: str
    text: str
    before: str
    after: str


@dataclass(frozen=True)
class Heir:
    """A new class as base and target derive it.

    `own` are the keys of the classes in its lineage that the patch adds itself, and `is_base` says
    whether another of them derives from it in turn.
    """

    before: Lineage
    after: Lineage
    own: frozenset[tuple[str, str]]
    is_base: bool

    @property
    def name(self) -> str:
        """The class's qualified name."""
        return self.before.classes[0].name

    @property
    def nearest(self) -> Known:
        """The first class of upstream's that it derives from in the target, else itself."""
        above = (known for known in self.after.classes if known.key not in self.own)
        return next(above, self.after.classes[0])

    def peers(self, old: Ground, new: Ground) -> list[Sibling]:
        """Return the others that derive from that class in both releases, as the target has them.

        Those that came with a change were written for it.
        """
        base = self.nearest.name
        before = {sibling.name for sibling in old.siblings.of(base)}
        return [sibling for sibling in new.siblings.of(base) if sibling.name in before]


def inherited_changes(heir: Heir, old: Ground, new: Ground) -> Iterator[Change]:
    """Yield what changed of that which a class takes from its bases, without naming it."""
    then, now = _effective(heir.before), _effective(heir.after)
    for name, (known, member) in now.items():
        if name in then:
            yield from _default(heir, then[name], (known, member), old, new)
        else:
            yield from _switch(heir, known, member, old, new)
        yield from _demand(heir, then.get(name), (known, member), old, new)
    yield from _fields(heir, old, new)


def _effective(lineage: Lineage) -> dict[str, tuple[Known, Member]]:
    """What each name means on an object of a class."""
    found: dict[str, tuple[Known, Member]] = {}
    for known in lineage.classes:
        for name, member in known.shape.members.items():
            found.setdefault(name, (known, member))
    return found


def _default(
    heir: Heir, then: tuple[Known, Member], now: tuple[Known, Member], old: Ground, new: Ground
) -> Iterator[Change]:
    """A constant that the class does not set and that is another: a switch, or one next to it."""
    (before, was), (after, is_now) = then, now
    if was.value is None or is_now.value is None or was.value == is_now.value:
        return
    switch = {was.value, is_now.value} <= _TRUTH
    if not (switch or after.key == heir.nearest.key) or not new.uses.is_read(was.name, before.name):
        return
    text = (
        f"`{heir.name}` leaves `{was.name}` to `{before.name}`: `{was.value}` in {old.label} "
        f"({before.path}:{was.line}), `{is_now.value}` in {new.label} ({after.path}:{is_now.line})"
    )
    yield Change(was.name, text, f"{before.name} {was.value}", f"{after.name} {is_now.value}")


def _switch(heir: Heir, known: Known, member: Member, old: Ground, new: Ground) -> Iterator[Change]:
    """A new switch that many peers turn the other way: what it is about was taken for granted."""
    if member.value not in _TRUTH or member.name.startswith("_"):
        return
    other = next(iter(_TRUTH - {member.value}))
    peers = heir.peers(old, new)
    turned = [sibling for sibling in peers if sibling.says(member.name, other)]
    if len(turned) < max(_FEWEST_TURNED, _SHARE_TURNED * len(peers)):
        return
    text = (
        f"`{member.name}` is new in `{known.name}` of {new.label} ({known.path}:{member.line}), "
        f"`{member.value}` for `{heir.name}`; {len(turned)} of {len(peers)} others that "
        f"{old.label} has too say `{other}`"
    )
    yield Change(member.name, text, "", f"{known.name} {member.value}")


def _demand(
    heir: Heir,
    then: tuple[Known, Member] | None,
    now: tuple[Known, Member],
    old: Ground,
    new: Ground,
) -> Iterator[Change]:
    """A member that a base asks for, did not ask for before, and nothing gives.

    What only raises is asked for where half of the peers give it: else it belongs to an ability
    that few have.
    """
    known, member = now
    if heir.is_base or not member.demand or (then is not None and then[1].demand):
        return
    if any(m.demand == "abstractmethod" for m in heir.before.classes[0].shape.members.values()):
        return  # it is a base itself
    if member.demand != "abstractmethod":
        peers = heir.peers(old, new)
        giving = sum(sibling.gives(member.name) for sibling in peers)
        if giving < max(_FEWEST_GIVING, len(peers) / 2):
            return
    place = f"{known.path}:{member.line}"
    text = (
        f"`{heir.name}` has no `{member.name}`, which `{known.name}` asks for in {new.label} "
        f"({place}), by {member.demand}"
    )
    was = f"{then[0].name} {then[1]}" if then is not None else ""
    yield Change(member.name, text, was, f"{known.name} {member}, {member.demand}")


def _fields(heir: Heir, old: Ground, new: Ground) -> Iterator[Change]:
    """Fields of a base that the class must now be given, or that its own cannot follow."""
    own = heir.before.classes[0].shape
    if "__init__" in own.members:
        return
    then, now = _given(heir.before), _given(heir.after)
    mine = {field.name for field in own.fields or ()}
    for name, (known, field) in now.items():
        place = f"{known.path}:{field.line}"
        if field.required and name not in then and name not in mine:
            text = (
                f"`{heir.name}` takes the fields of `{known.name}`, which in {new.label} must be "
                f"given `{name}` ({place}) and has none in {old.label}"
            )
            yield Change(name, text, "", f"{known.name}.{name} required")
    first = next((f for f in own.fields or () if _is_strict(f) and f.name not in now), None)
    before = {name for name, (_, field) in then.items() if _is_optional(field)}
    for name, (known, field) in now.items():
        if first is not None and not before and _is_optional(field):
            text = (
                f"`{heir.name}.{first.name}` has no default and follows `{known.name}.{name}`, "
                f"which has one in {new.label} ({known.path}:{field.line})"
            )
            was = f"{known.name}.{name} required" if name in then else ""
            yield Change(name, text, was, f"{known.name}.{name} optional")
            return


def _given(lineage: Lineage) -> dict[str, tuple[Known, DataField]]:
    """The fields that a class takes from its bases, in order."""
    found: dict[str, tuple[Known, DataField]] = {}
    for known in reversed(lineage.classes[1:]):
        for field in known.shape.fields or ():
            found[field.name] = known, field
    return found


def _is_strict(field: DataField) -> bool:
    return field.required and not field.keyword_only


def _is_optional(field: DataField) -> bool:
    return not field.required and not field.keyword_only
