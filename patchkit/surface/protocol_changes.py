"""What a method refuses of that which its protocol lets callers pass: two signatures compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from patchkit.surface.protocol_calls import Passed, binds
from patchkit.surface.protocol_members import Member, Parameter, Signature

# How a member is asked for: values are read, methods are called.
_VALUES = frozenset({"attribute", "property"})


class Refusal(NamedTuple):
    """Something that the protocol lets callers pass and a method does not take.

    `key` tells refusals apart whatever the protocol calls the parameter; `text` is the end of a
    sentence.
    """

    key: str
    text: str


def refusals(protocol: Signature, override: Signature) -> tuple[Refusal, ...]:
    """Return what of a call by the protocol the override does not take."""
    found = [*_by_position(protocol, override), *_by_keyword(protocol, override)]
    found += _required(protocol, override)
    if protocol.any_position and not override.any_position:
        found.append(_refusal("takes no `*args`"))
    if protocol.any_keyword and not override.any_keyword:
        found.append(_refusal("takes no `**kwargs`"))
    return tuple(dict.fromkeys(found))


def _refusal(text: str) -> Refusal:
    return Refusal(text, text)


def _by_position(protocol: Signature, override: Signature) -> Iterator[Refusal]:
    ours = override.positional
    for place, theirs in enumerate(protocol.positional):
        if place < len(ours):
            yield from _at_place(theirs, ours[place])
        elif not override.any_position:
            own = override.by_name(theirs.name)
            if own is None and not override.any_keyword:
                yield _refusal(f"takes no `{theirs.name}`")
            elif own is None or own.by == "keyword":
                yield _refusal(f"takes `{theirs.name}` by keyword alone")
        elif theirs.by == "both" and not override.any_keyword:
            yield _refusal(f"takes `{theirs.name}` by position alone")


def _at_place(theirs: Parameter, ours: Parameter) -> Iterator[Refusal]:
    """What stands in one place of both: the name matters where it may be passed by that.

    A parameter that never had the protocol's name is as little of a fit under the next one.
    """
    if theirs.by == "both" and theirs.name != ours.name:
        text = f"takes `{ours.name}` where `{theirs.name}` is"
        yield Refusal(f"misnamed {ours.name}", text)
    elif theirs.by == "both" and ours.by == "position":
        yield _refusal(f"takes `{theirs.name}` by position alone")
    if theirs.default is not None and ours.default is None:
        yield _refusal(f"requires `{ours.name}`")


def _by_keyword(protocol: Signature, override: Signature) -> Iterator[Refusal]:
    for theirs in protocol.parameters:
        if theirs.by != "keyword":
            continue
        ours = override.by_name(theirs.name)
        if ours is None and not override.any_keyword:
            yield _refusal(f"takes no `{theirs.name}`")
        elif ours is not None and ours.default is None and theirs.default is not None:
            yield _refusal(f"requires `{theirs.name}`")


def _required(protocol: Signature, override: Signature) -> Iterator[Refusal]:
    """What the override cannot be called without and the protocol does not know."""
    places = len(protocol.positional)
    for place, ours in enumerate(override.positional):
        unknown = place >= places and protocol.by_name(ours.name) is None
        if unknown and ours.default is None and not protocol.any_position:
            yield _refusal(f"requires `{ours.name}`")
    for ours in override.parameters:
        if ours.by == "keyword" and ours.default is None and protocol.by_name(ours.name) is None:
            yield _refusal(f"requires `{ours.name}`")


def is_served(passed: Passed, protocol: Signature, override: Signature) -> bool:
    """Return whether a call by the protocol reaches the override with each argument in its place.

    A call that the protocol itself does not take by name or place is of another method of that
    name: what `*args` takes is no sign that it is this one.
    """
    if not binds(Signature(protocol.parameters), passed):
        return True
    if not binds(override, passed):
        return False
    if passed.open:
        return True
    theirs, ours = protocol.positional, override.positional
    names = {parameter.name for parameter in theirs}
    pairs = zip(theirs[: passed.positions], ours, strict=False)
    return not any(one.name != other.name and other.name in names for one, other in pairs)


def stale_defaults(
    before: Signature, after: Signature, override: Signature
) -> tuple[tuple[Parameter, Parameter], ...]:
    """Return each parameter whose default changed while the override has the old one."""
    pairs = []
    for new in after.parameters:
        old = next((p for p in before.parameters if p.name == new.name), None)
        own = next((p for p in override.parameters if p.name == new.name), None)
        if old is None or own is None or None in (old.default, new.default):
            continue
        if old.default != new.default and own.default == old.default:
            pairs.append((old, new))
    return tuple(pairs)


def kind_is_left(before: Member, after: Member, override: Member) -> bool:
    """Return whether the override is of the kind that the protocol was of and is no more."""
    return _asked(before) == _asked(override) != _asked(after) != ""


def _asked(member: Member) -> str:
    """What is done with a member; nothing where an attribute may hold a function."""
    if member.kind == "attribute" and member.value is None:
        return ""
    return "value" if member.kind in _VALUES else member.kind
