"""How the arguments of a call bind otherwise in the target than in the base."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from patchkit.surface.callee import Callee
from patchkit.surface.parameters import Bound, Key, Parameter, arguments_of, bind, shape_of
from patchkit.surface.reads import pieces_of

# The kind of a drift, the name of what drifted, and what is said of it.
Change = tuple[str, str, str]


def binding_changes(
    call: ast.Call, landed: ast.Call, before: Callee, after: Callee, places: tuple[str, str]
) -> Iterator[Change]:
    """Return what changed for a call; nothing where the base would refuse it, or one is unknown.

    `landed` is the call as it landed: an argument that a merge changed is upstream's as well, who
    knows what it binds to, and is not judged.
    """
    if before.parameters is None or after.parameters is None:
        return
    if before.parameters == after.parameters or not after.changed_by <= before.changed_by:
        return
    shapes = shape_of(call), shape_of(landed)
    old, new = bind(shapes[0], before.parameters), bind(shapes[1], after.parameters)
    if any(isinstance(key, int) for key in old.refused):
        return  # not what is called
    said, kept = arguments_of(call), arguments_of(landed)
    if shapes[0].positional != shapes[1].positional:
        kept = {key: value for key, value in kept.items() if isinstance(key, str)}
    same = {k for k in old.arguments if k in kept and ast.dump(kept[k]) == ast.dump(said[k])}
    old_arguments = {key: old.arguments[key] for key in old.arguments if key in same}
    found = list(_arguments(old_arguments, new, before, after, places))
    if before.filled_by == after.filled_by:
        # What is passed and now binds elsewhere is said above.
        passed = {parameter.name for parameter in old_arguments.values()}
        left = _not_passed(old, new, before, after, places)
        found += [change for name, change in left if name not in passed]
    for kind, name in dict.fromkeys(change[:2] for change in found):
        yield kind, name, "; ".join(text for *key, text in found if key == [kind, name])


def _arguments(
    old: Mapping[Key, Parameter], new: Bound, before: Callee, after: Callee, places: tuple[str, str]
) -> Iterator[Change]:
    was, now = places
    names = {p.name for p in after.parameters or ()}
    for key, parameter in old.items():
        other = new.arguments.get(key)
        if isinstance(key, str):
            if other is None and parameter.kind != "options":
                text = f"keyword `{key}` is accepted by `{before.name}` {was} and not {now}"
                yield "keyword", key, text
            continue
        if parameter.kind == "rest" or (other is not None and other.kind == "rest"):
            continue
        head = f"argument {key + 1} of `{before.name}` binds to `{parameter.name}` {was} and"
        if other is None:
            where = "by keyword alone" if parameter.name in names else "to nothing"
            yield "call", after.name, f"{head} {where} {now}"
        elif other.name != parameter.name and not _is_renamed(parameter, other, before, after):
            yield "call", after.name, f"{head} to `{other.name}` {now}"


def _is_renamed(old: Parameter, new: Parameter, before: Callee, after: Callee) -> bool:
    """Whether a parameter only has another name: what the function does with it has to show it.

    A type alone shows little: most parameters are an `int` or a tensor, and one that takes the
    place of another has its type as often as not.
    """
    names = [{p.name for p in c.parameters or ()} for c in (before, after)]
    if old.name in names[1] or new.name in names[0]:
        return False
    if old.annotation != new.annotation or old.required != new.required:
        return False
    was, now = _said_of(old.name, before), _said_of(new.name, after)
    return bool(was) and 2 * len(was & now) >= len(was)


def _said_of(name: str, callee: Callee) -> frozenset[str]:
    """What the body of a function says of a parameter, whatever its name."""
    body = callee.node.body if callee.node is not None else []
    texts = [piece.text for statement in body for piece in pieces_of(statement, "")]
    # a keyword of that name is another function's, which may mean something else by the new one
    return frozenset(text.replace(f"id='{name}'", "id=''") for text in texts if f"'{name}'" in text)


def _not_passed(
    old: Bound, new: Bound, before: Callee, after: Callee, places: tuple[str, str]
) -> Iterator[tuple[str, Change]]:
    """What changed of the parameters that the call does not pass, by their names."""
    was, now = places
    for name in new.missing:
        if name not in old.missing:
            what = f"`{name}` of `{after.name}`, which the call does not pass,"
            yield name, ("call", after.name, f"{what} is required {now} and not {was}")
    defaults = [{p.name: p.default for p in c.parameters or ()} for c in (before, after)]
    for name in old.left:
        values = [d.get(name) for d in defaults]
        if name in new.left and values[0] != values[1] and not _alike(*values):
            what = f"`{name}` of `{after.name}`, which the call does not pass,"
            text = f"{what} is `{values[0]}` {was} and `{values[1]}` {now}"
            yield name, ("default", after.name, text)


def _alike(one: str | None, other: str | None) -> bool:
    """Whether two defaults are one name, from two modules."""
    if one is None or other is None:
        return False
    trees = [ast.parse(text, mode="eval").body for text in (one, other)]
    names = [getattr(tree, "attr", getattr(tree, "id", "")) for tree in trees]
    return bool(names[0]) and names[0] == names[1]
