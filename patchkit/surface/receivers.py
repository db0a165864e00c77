"""What an expression in some code is: a definition, a module, or an object of a class.

Types are taken from annotations, constructor calls and return annotations alone; whatever has two
answers has none.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchkit.names.builtin_names import BUILTINS
from patchkit.names.definitions import last_name
from patchkit.surface.bound_locals import decorators, locals_of
from patchkit.surface.bound_names import body_of, method_around
from patchkit.surface.program import FOREIGN, Item, Module, Program, absolute

_LISTS = frozenset(
    (
        "Iterable", "Iterator", "List", "Sequence", "Set", "Tuple", "deque", "list", "set", "tuple",
    )
)  # fmt: skip
_DICTS = frozenset(("Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "dict"))
PROPERTIES = frozenset({"property", "cached_property", "classproperty", "lazy_property"})
_DEEPEST = 10


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An object of a class."""

    item: Item


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """An object of which an annotation in some file tells what it is."""

    annotation: ast.expr
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """What a class or an object has by a name; `bound`: a first parameter would be filled."""

    item: Item
    bound: bool
    of_object: bool


@dataclass(frozen=True, slots=True, eq=False)
class Parent:
    """What `super()` gives in a method of a class."""

    item: Item


Thing = Item | Module | Instance | Typed | Member | Parent | None
Around = tuple[ast.AST, ...]


class Code:
    """The expressions of one module of a tree; `around` are the definitions around each."""

    def __init__(self, program: Program, path: str, depth: int = 0) -> None:
        self.program = program
        self.path = path
        self._depth = depth
        self._locals: dict[tuple[ast.AST, str], Thing] = {}

    def thing(self, node: ast.expr, around: Around) -> Thing:
        """Return what an expression names; None where that is not certain."""
        if isinstance(node, ast.Name):
            return self._name(node.id, around)
        if isinstance(node, ast.Attribute):
            return self.member(self.thing(node.value, around), node.attr)
        if isinstance(node, ast.Call):
            return self._called(node, around)
        if isinstance(node, ast.Subscript):
            return self._element(self.held(self.thing(node.value, around)))
        if isinstance(node, ast.Await):
            return self.thing(node.value, around)
        return FOREIGN if isinstance(node, (ast.Constant, ast.JoinedStr)) else None

    def member(self, owner: Thing, name: str) -> Thing:
        """Return what an object, a class or a module has by a name."""
        owner = self.held(owner)
        if isinstance(owner, Module):
            return self.program.attribute(owner, name)
        if isinstance(owner, Item):
            found = self.program.member(owner, name) if owner.kind == "class" else None
            return method_of(found, of_object=False)
        if isinstance(owner, Parent):
            return method_of(self.program.member(owner.item, name, skip=True), of_object=True)
        item = self.class_of(owner)
        if item is not None:
            return method_of(self.program.member(item, name), of_object=True)
        return FOREIGN if self.is_foreign(owner) else None

    def class_of(self, thing: Thing) -> Item | None:
        """Return the class of an object; None where it is not certain, or not one class."""
        if isinstance(thing, Instance):
            return thing.item
        if not isinstance(thing, Typed):
            return None
        node = _alone(thing.annotation)
        if node is None or _head(node) in _LISTS | _DICTS:
            return None
        found = self.program.expression(thing.path, node)
        return found if isinstance(found, Item) and found.kind == "class" else None

    def class_named(self, node: ast.expr, around: Around) -> Item | None:
        """Return the class that an expression names, or that its object is of."""
        owner = self.object(node, around)
        if isinstance(owner, Item):
            return owner if owner.kind == "class" else None
        return self.class_of(owner)

    def is_foreign(self, thing: Thing) -> bool:
        """Return whether an object comes from Python or another package for certain."""
        if thing is FOREIGN:
            return True
        node = _alone(thing.annotation) if isinstance(thing, Typed) else None
        while isinstance(node, ast.Subscript):
            node = node.value
        if node is None or not isinstance(thing, Typed):
            return False
        if isinstance(node, ast.Name) and node.id in BUILTINS:
            return True
        return self.program.expression(thing.path, node) is FOREIGN

    def held(self, thing: Thing) -> Thing:
        """Return the object that a variable, a field or a property holds."""
        if self._depth > _DEEPEST:
            return None
        item = thing.item if isinstance(thing, Member) else thing
        if not isinstance(item, Item) or item.kind == "class":
            return thing
        if item.kind == "function":
            if decorators(item.node) & PROPERTIES:
                returns = getattr(item.node, "returns", None)
                return Typed(returns, item.path) if returns is not None else None
            return thing
        if isinstance(item.node, ast.AnnAssign):
            return Typed(item.node.annotation, item.path)
        if not isinstance(item.node, ast.Assign) or isinstance(item.node.targets[0], ast.Tuple):
            return None
        inside = Code(self.program, item.path, self._depth + 1)
        return inside.object(item.node.value, _place_of(item))

    def object(self, node: ast.expr, around: Around) -> Thing:
        """Return the object that an expression gives."""
        thing = self.held(self.thing(node, around))
        return thing if not isinstance(thing, Member) else None

    # Names -----------------------------------------------------------------------------------

    def _name(self, name: str, around: Around) -> Thing:
        for depth in range(len(around) - 1, -1, -1):
            scope = around[depth]
            if isinstance(scope, ast.ClassDef):
                own = body_of(scope).get(name) if depth == len(around) - 1 else None
                if own:
                    return self.program.member(self._own_class(scope), name)
            elif name in locals_of(scope):
                return self._local(name, scope, around[: depth + 1])
        found = self.program.find(self.path, name)
        return FOREIGN if found is None and name in BUILTINS else found

    def _own_class(self, node: ast.ClassDef) -> Item:
        top = self.program.find(self.path, node.name)
        if isinstance(top, Item) and top.kind == "class" and top.path == self.path:
            return top
        return Item("class", self.path, node.name, node)

    def _local(self, name: str, scope: ast.AST, around: Around) -> Thing:
        key = scope, name
        if key not in self._locals:
            self._locals[key] = None  # a variable that is made from itself
            things = [
                self._bound(how, node, scope, around)
                for how, node in locals_of(scope)[name]
                if not (isinstance(node, ast.Constant) and node.value is None)
            ]
            self._locals[key] = self._agreed(things)
        return self._locals[key]

    def _agreed(self, things: list[Thing]) -> Thing:
        """The one answer that all give."""
        if len(things) == 1:
            return things[0]
        if things and all(self.is_foreign(thing) for thing in things):
            return FOREIGN
        classes = [self.class_of(thing) for thing in things]
        places = {item.place if item is not None else "" for item in classes}
        return things[0] if len(places) == 1 and "" not in places else None

    def _bound(self, how: str, node: ast.expr | None, scope: ast.AST, around: Around) -> Thing:
        if how == "self":
            owner = around[-2] if len(around) > 1 else None
            if not isinstance(owner, ast.ClassDef) or "staticmethod" in decorators(scope):
                return None
            item = self._own_class(owner)
            return item if "classmethod" in decorators(scope) else Instance(item)
        if node is None or self._depth > _DEEPEST:
            return None
        if how == "type":
            return Typed(node, self.path)
        if how == "import":
            assert isinstance(node, ast.Constant)
            module, _, name = str(node.value).partition(":")
            return self.program.imported(absolute(module, self.path), name)
        self._depth += 1
        found = self._iterated(node, around) if how == "element" else self.object(node, around)
        self._depth -= 1
        return found

    # What expressions give ---------------------------------------------------------------------

    def _iterated(self, node: ast.expr, around: Around) -> Thing:
        """What a `for` over an expression binds."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "values":
                return self._element(self.object(node.func.value, around))
            if node.func.attr in ("items", "keys"):
                return None
        thing = self.object(node, around)
        if isinstance(thing, Typed) and _head(thing.annotation) in _DICTS:
            return None
        return self._element(thing)

    def _element(self, thing: Thing) -> Thing:
        """What an index into a container gives; a kernel with its grid is the kernel."""
        if not isinstance(thing, Typed):
            return thing if isinstance(thing, (Item, Member)) or thing is FOREIGN else None
        node = _alone(thing.annotation)
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            head = _head(node)
            many = isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
            if head in _LISTS and (len(parts) == 1 or many):
                return Typed(parts[0], thing.path)
            if head in _DICTS and len(parts) == 2:
                return Typed(parts[1], thing.path)
        return FOREIGN if self.is_foreign(thing) else None

    def _called(self, node: ast.Call, around: Around) -> Thing:
        """What a call gives."""
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            owners = [a for a in around if isinstance(a, ast.ClassDef)]
            return Parent(self._own_class(owners[-1])) if owners else None
        if node.args and last_name(node.func) == "cast":
            return Typed(node.args[0], self.path)
        if node.args and last_name(node.func) in ("replace", "copy", "deepcopy"):
            return self.object(node.args[0], around)
        called = self.held(self.thing(node.func, around))
        item = called.item if isinstance(called, Member) else called
        if called is FOREIGN or not isinstance(item, Item):
            return FOREIGN if called is FOREIGN else None
        if item.kind == "class":
            return Instance(item)
        returns = getattr(item.node, "returns", None)
        if returns is None:
            return None
        if last_name(returns) == "Self" and isinstance(node.func, ast.Attribute):
            owner = self.object(node.func.value, around)
            return Instance(owner) if isinstance(owner, Item) else owner
        return Typed(returns, item.path)


def method_of(item: Item | None, *, of_object: bool = True) -> Thing:
    """Return what is found in a class as what is found by a class or an object of it."""
    if item is None:
        return None
    names = decorators(item.node)
    bound = "staticmethod" not in names and (of_object or "classmethod" in names)
    return Member(item, bound, of_object)


def _place_of(item: Item) -> Around:
    """The definitions around an assignment: the class, and the method for `self.x = ...`."""
    if item.owner is None:
        return ()
    owner = item.owner.node
    assert isinstance(owner, ast.ClassDef)
    method = method_around(owner, item.node) if item.kind == "attribute" else None
    return (owner, method) if method is not None else (owner,)


def _alone(annotation: ast.expr) -> ast.expr | None:
    """The one type that an annotation allows besides None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return _alone(ast.parse(annotation.value.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            return None
    if isinstance(annotation, ast.BinOp):
        sides = [annotation.left, annotation.right]
        kept = [s for s in sides if not (isinstance(s, ast.Constant) and s.value is None)]
        return _alone(kept[0]) if len(kept) == 1 else None
    if isinstance(annotation, ast.Subscript) and _head(annotation) in (
        "Optional", "ClassVar", "Final", "InitVar", "Annotated",
    ):  # fmt: skip
        inner = annotation.slice
        return _alone(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
    return annotation


def _head(node: ast.expr) -> str:
    return last_name(node.value) if isinstance(node, ast.Subscript) else last_name(node)
