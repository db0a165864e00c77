"""The names that a module reads and nothing binds, and the names that it binds twice.

Whatever binds a name anywhere in the right scope counts (a branch, `if TYPE_CHECKING`, a fallback
import), so that what is reported fails for certain when it runs. In a module with a star import,
names that only the star could bind are not checked: `is_open` says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from patchkit.names.builtin_names import BUILTINS, CLASS_NAMES, MODULE_NAMES
from patchkit.names.scope_rules import scan
from patchkit.names.scopes import Binding, Kind, Path, Read, Scope
from patchkit.names.surplus import beyond, surplus
from patchkit.syntax.build import parse_module
from patchkit.syntax.tree import NotPythonError

UNBOUND = "unbound"
BEFORE_ASSIGNMENT = "read before assignment"
AFTER_DEL = "read after del"

_IMPROPER = frozenset({"del", "augmented"})
_LATER = (Kind.FUNCTION, Kind.GENERATOR)
_REDEFINING = frozenset({"overload", "setter", "getter", "deleter", "register"})


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """One read that finds no binding. `scope` is the definition around it, 1-based `line`."""

    scope: str
    name: str
    line: int
    kind: str = UNBOUND

    def __str__(self) -> str:
        what = "is not bound" if self.kind == UNBOUND else f"is {self.kind}"
        return f"name `{self.name}` {what} in {self.scope} (line {self.line})"


@dataclass(frozen=True, slots=True, order=True)
class Rebinding:
    """A definition or import whose name the same block of the same scope binds already."""

    scope: str
    name: str
    line: int
    kind: str  # "definition" or "import"


@lru_cache(maxsize=64)
def module_scope(source: bytes) -> Scope:
    """Return the scopes of a module; raises `NotPythonError`."""
    try:
        return scan(parse_module(source).tree)
    except RecursionError as error:
        raise NotPythonError("an expression is nested too deeply") from error


def is_open(source: bytes) -> bool:
    """Return whether the module may hold global names that its text does not show."""
    return module_scope(source).open


@lru_cache(maxsize=128)
def unresolved(source: bytes) -> tuple[Unresolved, ...]:
    """Return the reads that find no binding, in the order of their lines."""
    module = module_scope(source)
    found: list[Unresolved] = []
    for scope in scopes(module):
        verdicts: dict[str, str | None] = {}  # of names that the scope does not bind itself
        for read in scope.reads:
            name = read.name
            if name in verdicts:
                kind = verdicts[name]
            else:
                kind = _resolve(scope, read, module)
                if scope.kind in _LATER and name not in scope.bindings:
                    verdicts[name] = kind
            if kind is not None:
                found.append(Unresolved(scope.name, name, read.line, kind))
    return tuple(sorted(set(found), key=lambda u: (u.line, u.name)))


def new_unresolved(before: bytes, after: bytes) -> tuple[Unresolved, ...]:
    """Return what `after` leaves unresolved and `before` did not, by definition and name."""
    return surplus(unresolved(after), unresolved(before), _key)


def unresolved_beyond(
    base: bytes, authored: bytes, target: bytes, result: bytes
) -> tuple[Unresolved, ...]:
    """Return what is newly unresolved from target to result and was not so as authored.

    What the author left unresolved is allowed in the same definition, else once in a renamed one.
    """
    found = new_unresolved(target, result)
    return beyond(found, new_unresolved(base, authored), _key, _loose_key) if found else ()


def rebindings(before: bytes, after: bytes) -> tuple[Rebinding, ...]:
    """Return the definitions and imports that `after` binds twice and `before` did not."""
    return surplus(rebound(after), rebound(before), lambda r: (r.scope, r.name, r.kind))


@lru_cache(maxsize=128)
def rebound(source: bytes) -> tuple[Rebinding, ...]:
    """Return each def, class or import whose name its own block binds once more before it.

    Overloads, property setters and registrations bind a name again by design, as do branches.
    """
    found = []
    for scope in scopes(module_scope(source)):
        for name, bindings in scope.bindings.items():
            if len(bindings) < 2:
                continue
            seen: dict[Path, list[Binding]] = {}
            for binding in bindings:
                if binding.kind == "del":
                    seen.pop(binding.path, None)
                elif binding.kind in ("def", "class", "import"):
                    earlier = seen.setdefault(binding.path, [])
                    if any(not _by_design(e, binding, name) for e in earlier):
                        kind = "import" if binding.kind == "import" else "definition"
                        found.append(Rebinding(scope.name, name, binding.line, kind))
                    earlier.append(binding)
    return tuple(sorted(found, key=lambda r: (r.line, r.name)))


def scopes(scope: Scope) -> Iterable[Scope]:
    """Yield a scope and all scopes inside it, outer ones first."""
    stack = [scope]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


def _key(item: Unresolved) -> tuple[str, ...]:
    return item.scope, item.name, item.kind


def _loose_key(item: Unresolved) -> tuple[str, ...]:
    return item.name, item.kind


def _by_design(earlier: Binding, later: Binding, name: str) -> bool:
    """Whether one name is bound twice on purpose: overloads, setters, `import a.b` and `a.c`."""
    if isinstance(earlier.node, ast.alias) and isinstance(later.node, ast.alias):
        same = earlier.node.name == later.node.name and earlier.node.asname == later.node.asname
        plain = earlier.node.asname is None and later.node.asname is None
        dotted = "." in earlier.node.name or "." in later.node.name
        return plain and dotted and not same
    for node in (earlier.node, later.node):
        for decorator in getattr(node, "decorator_list", ()):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            last = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            if last in _REDEFINING or name == "_":
                return True
    return False


# Resolution ------------------------------------------------------------------------------------


def _resolve(scope: Scope, read: Read, module: Scope) -> str | None:
    """Return why a read fails for certain; None where something may bind it."""
    name = read.name
    immediate = read.evaluated
    sees_class = True  # a class body is visible to itself and to annotation scopes right inside
    current: Scope | None = scope
    while current is not None and current is not module:
        if name in current.globals:
            break
        if name in current.bindings and (sees_class or current.kind is not Kind.CLASS):
            kind = _judge(current, read, immediate)
            if current.kind is not Kind.CLASS:
                return kind
            if kind is None:
                return None
            break  # a class body that has not bound the name yet looks in the module
        if current.kind in _LATER:
            immediate = False
        sees_class = sees_class and current.kind is Kind.TYPE_PARAMETERS
        current = current.parent
    kind = UNBOUND
    if name in module.bindings:
        kind = _judge(module, read, immediate and _runs_at_once(scope))
    if kind is None or module.open or name in BUILTINS or name in MODULE_NAMES:
        return None
    return None if _implicit(scope, name) else kind


def _runs_at_once(scope: Scope) -> bool:
    """Whether code in the scope runs where it stands in the module."""
    current: Scope | None = scope
    while current is not None:
        if current.kind in _LATER:
            return False
        current = current.parent
    return True


def _implicit(scope: Scope, name: str) -> bool:
    """Whether Python binds the name there by itself."""
    if scope.kind is Kind.CLASS and name in CLASS_NAMES:
        return True
    outer = scope.parent if name == "__class__" else None
    while outer is not None:
        if outer.kind is Kind.CLASS:
            return True
        outer = outer.parent
    return False


def _judge(scope: Scope, read: Read, immediate: bool) -> str | None:
    """Return why the scope's own bindings certainly do not serve a read; None where they may."""
    bindings = scope.bindings[read.name]
    if read.name in scope.uncertain:
        return _judge_uncertain(scope, bindings, read, immediate)
    if not immediate or any(_may_precede(b, read) for b in bindings):
        return None
    return BEFORE_ASSIGNMENT


def _judge_uncertain(
    scope: Scope, bindings: list[Binding], read: Read, immediate: bool
) -> str | None:
    bare = scope.kind not in (Kind.MODULE, Kind.CLASS)  # `x: int` alone: a local without a value
    proper = [
        b for b in bindings if b.kind not in _IMPROPER and not (bare and b.kind == "declared")
    ]
    if not proper:
        return UNBOUND
    if not immediate:
        return None
    serving = [b for b in proper if _may_precede(b, read) and _outlives(b, read)]
    if not serving:
        return UNBOUND if all(b.kind == "except" for b in proper) else BEFORE_ASSIGNMENT
    removed = [b.order for b in bindings if b.kind == "del" and _always_precedes(b, read)]
    if removed and all(b.order < max(removed) for b in serving):
        return AFTER_DEL
    return None


def _may_precede(binding: Binding, read: Read) -> bool:
    if binding.loop and binding.loop == read.loop:
        return True
    return binding.order < read.order and not _exclusive(binding.path, read.path)


def _exclusive(one: Path, other: Path) -> bool:
    """Whether two places stand in arms of which one run takes only one."""
    for (number, arm), (other_number, other_arm) in zip(one, other, strict=False):
        if (number, arm) != (other_number, other_arm):
            return number == other_number and arm > 0 and other_arm > 0
    return False


def _outlives(binding: Binding, read: Read) -> bool:
    """Whether the binding still holds at the read: `except ... as e` ends with its clause."""
    if binding.kind != "except" or not isinstance(binding.node, ast.ExceptHandler):
        return True
    return binding.line <= read.line <= (binding.node.end_lineno or 0)


def _always_precedes(binding: Binding, read: Read) -> bool:
    return binding.order < read.order and read.path[: len(binding.path)] == binding.path
