"""Renames: of the definition around the edit, and of a local beside it."""

from __future__ import annotations

import ast
from collections import Counter
from random import Random

from patchkit.names.unresolved import unresolved
from tests.bench_rebase.bindings import Member, Scope, Use, module_scope, scope_of, uses_of
from tests.bench_rebase.draw import pick, shuffled
from tests.bench_rebase.refactors.ground import (
    DroppedError,
    Ground,
    InapplicableError,
    function_pair,
    pair,
)
from tests.bench_rebase.source import (
    FUNCTIONS,
    Definition,
    Key,
    Source,
    definitions,
    spliced,
)

_BESIDE = 3  # lines around the change in which a local counts as beside it
_SUFFIXES = ("_value", "_item", "_local", "_now")
_REFLECTIVE = frozenset({"locals", "eval", "exec", "vars", "dir"})


def rename_definition(ground: Ground, rng: Random) -> Ground:
    """Give the definition around the edit another name, its callers in the module too."""
    usable = [key for key in ground.chain if not _is_special(key)]
    if not usable:
        raise InapplicableError("no definition with a name of its own around the edit")
    for key in shuffled(rng, usable):
        old = key[0].rpartition(".")[2]
        pair(ground, key)
        new = ground.fresh(f"{old}Renamed" if old[:1].isupper() else f"{old}_renamed")
        target, truth = (renamed_definition(source, key, new) for source in ground.sources)
        if _undefined(target) - _undefined(ground.target[ground.path]):
            continue  # a quoted annotation names it, and strings never follow
        chain = renamed_chain(ground.chain, key, new)
        return ground.with_texts(target, truth, f"rename {key[0]} to {new}", chain)
    raise DroppedError("refactoring leaves a name undefined")


def _undefined(text: bytes) -> Counter[str]:
    """Count the undefined names without their scopes, since the renamed scope is one of them."""
    return Counter(gap.name for gap in unresolved(text))


def _is_special(key: Key) -> bool:
    return key[0].rpartition(".")[2].startswith("__")


def renamed_chain(chain: tuple[Key, ...], key: Key, new: str) -> tuple[Key, ...]:
    """Return the keys of a chain after one of its definitions got another last name."""
    depth = key[0].count(".")
    result = []
    for name, ordinal in chain:
        parts = name.split(".")
        if name == key[0] or name.startswith(key[0] + "."):
            parts[depth] = new
        result.append((".".join(parts), ordinal))
    return tuple(result)


def renamed_definition(source: Source, key: Key, new: str) -> bytes:
    """Return the text with a definition renamed wherever Python's scopes say that it is meant."""
    node = definitions(source)[key]
    module = module_scope(source)
    parent = scope_of(module, node).parent
    assert parent is not None
    owner = parent.owner(node.name)
    assert owner is not None
    places = [_place(use) for use in uses_of(owner, node.name)]
    _refuse_shadowing_classes(owner, node.name)
    if owner.kind == "class":
        places += [member.place for member in _members_meant(module, owner, node.name)]
    return spliced(source.text, [(*place, new.encode()) for place in places])


def _place(use: Use) -> tuple[int, int]:
    if use.place is None:
        raise InapplicableError(f"{use.name} is bound where it cannot be renamed")
    return use.place


def _refuse_shadowing_classes(owner: Scope, name: str) -> None:
    """A class body that reads a name before it binds it reads the outer one."""
    for scope in owner.within():
        if scope.kind != "class" or scope is owner or name not in scope.bound:
            continue
        if any(use.name == name and use.how == "read" for use in scope.uses):
            raise InapplicableError(f"a class body reads and binds {name}")


def _members_meant(module: Scope, owner: Scope, name: str) -> list[Member]:
    """Return `self.name` and the like that mean the class's own member."""
    family = [owner, *_subclasses(module, owner)]
    if any(name in scope.bound for scope in family[1:]):
        raise InapplicableError(f"{name} is overridden in the module")
    if any(name in base.bound for base in _bases(owner)):
        raise InapplicableError(f"{name} overrides another one in the module")
    return [
        member
        for scope in module.within()
        for member in scope.members
        if member.name == name and _is_instance(member, family)
    ]


def _subclasses(module: Scope, owner: Scope) -> list[Scope]:
    found: list[Scope] = []
    known = [owner]
    for scope in module.within():  # in the order of the text: bases come first
        if scope.kind != "class" or scope in known:
            continue
        if any(base in known for base in _direct_bases(scope)):
            found.append(scope)
            known.append(scope)
    return found


def _bases(owner: Scope) -> list[Scope]:
    found: list[Scope] = []
    work = _direct_bases(owner)
    while work:
        scope = work.pop()
        if scope not in found:
            found.append(scope)
            work += _direct_bases(scope)
    return found


def _direct_bases(scope: Scope) -> list[Scope]:
    bases = getattr(scope.node, "bases", [])
    parent = scope.parent
    assert parent is not None
    found = [_class_named(parent, base) for base in bases]
    return [base for base in found if base is not None]


def _class_named(scope: Scope, node: ast.expr) -> Scope | None:
    """Return the class that an expression names."""
    if not isinstance(node, ast.Name):
        return None
    owner = scope.owner(node.id)
    for child in owner.children if owner is not None else ():
        if child.kind == "class" and getattr(child.node, "name", "") == node.id:
            return child
    return None


def _is_instance(member: Member, family: list[Scope]) -> bool:
    """Return whether the value is known to be an instance of the family, or one of its classes."""
    value = member.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        if value.func.id != "super" or value.args:
            return False
        method = _method_around(member.scope)
        return method is not None and method.parent in family[1:]
    if not isinstance(value, ast.Name):
        return False
    if _class_named(member.scope, value) in family:
        return True
    owner = member.scope.owner(value.id)
    if owner is None or owner.parent not in family or not isinstance(owner.node, FUNCTIONS):
        return False
    return _first_parameter(owner.node) == value.id and not _is_rebound(owner, value.id)


def _method_around(scope: Scope) -> Scope | None:
    current: Scope | None = scope
    while current is not None and current.parent is not None and current.parent.kind != "class":
        current = current.parent
    return current if current is not None and current.parent is not None else None


def _first_parameter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list):
        return None
    positional = [*node.args.posonlyargs, *node.args.args]
    return positional[0].arg if positional else None


def _is_rebound(scope: Scope, name: str) -> bool:
    return any(use.how not in ("read", "parameter") for use in uses_of(scope, name))


def rename_local(ground: Ground, rng: Random) -> Ground:
    """Give a local that is used beside the change another name."""
    key, *_ = function_pair(ground)
    target, truth = ground.sources
    beside = _locals_beside(target, key, [(c.old_start, c.old_end) for c in ground.changes()])
    if not beside:
        raise InapplicableError("no local beside the change")
    old = pick(rng, beside)
    if old not in _locals(truth, key):
        raise DroppedError("patch and refactoring rename the same")
    new = ground.fresh(old + pick(rng, _SUFFIXES))
    texts = [renamed_local(source, key, old, new) for source in (target, truth)]
    return ground.with_texts(texts[0], texts[1], f"rename local {old} of {key[0]} to {new}")


def _function_scope(source: Source, key: Key) -> Scope:
    node: Definition = definitions(source)[key]
    return scope_of(module_scope(source), node)


def _locals(source: Source, key: Key) -> list[str]:
    """Return the names of a function that its own statements bind, sorted."""
    scope = _function_scope(source, key)
    inside = [use.name for inner in scope.within() for use in inner.uses if use.how == "read"]
    if _REFLECTIVE & set(inside):
        return []
    own = sorted(scope.bound - scope.globals - scope.nonlocals)
    return [
        name
        for name in own
        if not name.startswith("_")
        and all(u.place and u.how in ("assign", "read", "declared") for u in uses_of(scope, name))
    ]


def _locals_beside(source: Source, key: Key, ranges: list[tuple[int, int]]) -> list[str]:
    scope = _function_scope(source, key)
    spans = []
    for start, end in ranges:
        first, last = max(start - _BESIDE, 0), min(end + _BESIDE, len(source.lines))
        spans.append((source.starts[first], source.starts[last]))
    return [
        name
        for name in _locals(source, key)
        if any(
            use.place and any(a <= use.place[0] < b for a, b in spans)
            for use in uses_of(scope, name)
        )
    ]


def renamed_local(source: Source, key: Key, old: str, new: str) -> bytes:
    """Return the text with a local of a function renamed, in what is nested in it too."""
    places = [_place(use) for use in uses_of(_function_scope(source, key), old)]
    return spliced(source.text, [(*place, new.encode()) for place in places])
