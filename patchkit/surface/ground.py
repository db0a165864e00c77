"""What new code binds to in base and target: each use resolved in either tree, and compared.

Only what is certain on both sides is judged; a definition that says the same never drifts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchkit.names.builtin_names import ATTRIBUTES
from patchkit.names.definitions import last_name
from patchkit.outcome import Drift
from patchkit.surface.bindings import binding_changes
from patchkit.surface.callee import Callee, callee_of, has_setter, word_of
from patchkit.surface.choices import choices
from patchkit.surface.held_values import (
    annotation_of,
    is_member,
    member_value,
    value_of,
    widened,
)
from patchkit.surface.namesakes import Namesakes
from patchkit.surface.parameters import Parameter, arguments_of, bind, parsed, shape_of
from patchkit.surface.program import FOREIGN, Item, Module, Program, absolute
from patchkit.surface.receivers import Code, Member, Thing, Typed, method_of
from patchkit.surface.uses import Landed, Use, function_of

# What code reads alike.
_READ_ALIKE = frozenset({"variable", "attribute", "property"})


@dataclass(frozen=True, slots=True)
class Ground:
    """A tree as the code in one of its files sees it; `label` is what the tree is called."""

    code: Code
    label: str

    @property
    def program(self) -> Program:
        """The definitions of the tree."""
        return self.code.program


def ground_drifts(
    found: Iterable[Use], landed: Landed, base: Ground, target: Ground, path: str
) -> tuple[Drift, ...]:
    """Return how the definitions differ that some uses reach, by line; each difference once."""
    drifts: dict[object, Drift] = {}
    texts: set[str] = set()
    namesakes = Namesakes(base.program, target.program, path)
    for use in found:
        other = landed.of(use)
        if other is None:
            continue
        pair = _Pair(use, other, base, target, f"{path}:{use.line}", namesakes)
        for drift in pair.drifts():
            key = drift.kind, drift.name, drift.before, drift.after
            if key not in drifts and drift.text not in texts:
                drifts[key] = drift
                texts.add(drift.text)
    return tuple(drifts.values())


@dataclass(frozen=True, slots=True)
class _Pair:
    use: Use
    landed: Use
    base: Ground
    target: Ground
    read_at: str
    namesakes: Namesakes

    def drifts(self) -> Iterator[Drift]:
        if self.use.kind == "call":
            yield from self._call()
        elif self.use.kind == "import":
            yield from self._import()
        elif self.use.kind == "compare":
            yield from self._compare()
        elif self.use.kind == "store":
            yield from self._set(self.use.node, self.landed.node)
        else:
            yield from self._read()

    def _things(self, node: ast.expr, landed: ast.expr) -> tuple[Thing, Thing]:
        old = self.base.code.thing(node, self.use.around)
        if old is None or old is FOREIGN:
            return None, None
        return old, self.target.code.thing(landed, self.landed.around)

    def _call(self) -> Iterator[Drift]:
        assert isinstance(self.use.node, ast.Call)
        assert isinstance(self.landed.node, ast.Call)
        functions = function_of(self.use.node), function_of(self.landed.node)
        yield from self._replaced(self.use.node, self.landed.node)
        old, new = self._things(*functions)
        if old is None:
            old, new = self._namesakes(*functions)
        elif new is None:
            yield from self._gone(*functions, old)
        before = callee_of(old, self.base.program)
        after = callee_of(new, self.target.program)
        if before is None or after is None:
            return
        if before.word != after.word:
            yield self._differs("call", _item(old), _item(new), before.word, after.word)
            return
        calls = self.use.node, self.landed.node
        places = self._labels(before, after)
        for kind, name, text in binding_changes(*calls, before, after, places):
            yield Drift(kind, name, self.read_at, text, before.canonical, after.canonical)
        yield from self._passed_texts(before, after)

    def _passed_texts(self, before: Callee, after: Callee) -> Iterator[Drift]:
        """A text that is passed for a parameter whose `Literal` no longer allows it."""
        assert isinstance(self.use.node, ast.Call)
        said = {key: set(_texts(value)) for key, value in arguments_of(self.use.node).items()}
        if self.use.said != self.landed.said or not any(said.values()):
            return
        shape = shape_of(self.use.node)
        bound = [bind(shape, callee.parameters or ()).arguments for callee in (before, after)]
        for key, texts in said.items():
            old, new = (found.get(key) for found in bound)
            if old is not None and new is not None:
                types = _type_of(old, before), _type_of(new, after)
                yield from self._no_choice(texts, f"`{old.name}` of `{before.name}`", types)

    def _namesakes(self, function: ast.expr, landed: ast.expr) -> tuple[Thing, Thing]:
        """The only methods of a name, where it is called on something unknown."""
        if not isinstance(function, ast.Attribute) or not isinstance(landed, ast.Attribute):
            return None, None
        if function.attr in ATTRIBUTES or self.base.code.thing(function, self.use.around):
            return None, None
        old, new = self.namesakes.callables(function.attr, landed.attr)
        return method_of(old), method_of(new)

    def _labels(self, before: Callee, after: Callee) -> tuple[str, str]:
        return f"in {self.base.label} ({before.place})", f"in {self.target.label} ({after.place})"

    def _import(self) -> Iterator[Drift]:
        assert isinstance(self.use.node, ast.alias)
        assert isinstance(self.landed.node, ast.alias)
        found = []
        for ground, use in ((self.base, self.use), (self.target, self.landed)):
            assert isinstance(use.node, ast.alias)
            module = absolute(use.module, ground.code.path)
            found.append(ground.program.imported(module, use.node.name))
        old, new = found
        if isinstance(old, Item) and isinstance(new, Item):
            words = word_of(old), word_of(new)
            if words[0] != words[1]:
                yield self._differs("import", old, new, *words)

    def _read(self) -> Iterator[Drift]:
        node, landed = self.use.node, self.landed.node
        assert isinstance(node, ast.expr)
        assert isinstance(landed, ast.expr)
        things = self._things(node, landed)
        if things[0] is not None and things[1] is None and isinstance(node, ast.Attribute):
            yield from self._gone(node, landed, things[0])
            return
        if things[0] is None:
            things = self._only_members(node, landed)
        old, new = _item(things[0]), _item(things[1])
        if old is None or new is None:
            return
        words = word_of(old), word_of(new)
        if words[0] != words[1]:
            if not set(words) <= _READ_ALIKE:
                yield self._differs(self.use.kind, old, new, *words)
            return
        yield from self._value(old, new)
        types = annotation_of(old), annotation_of(new)
        extra = widened(*types)
        if not extra or old.owner is None:
            return
        if not self._renamed(old.path, new.path, widened(types[1], types[0]), extra):
            yield self._differs("type", old, new, f"`{types[0]}`", f"`{types[1]}`")

    def _renamed(self, path: str, landed: str, lost: frozenset[str], new: frozenset[str]) -> bool:
        """Whether a class of the package only has another name: one is gone, one was not there."""
        if len(lost) != 1 or len(new) != 1:
            return False
        (old_name,), (new_name,) = lost, new
        before, after = self.base.program, self.target.program
        there = before.find(path, old_name), after.find(landed, new_name)
        left = before.find(path, new_name), after.find(landed, old_name)
        return all(isinstance(item, Item) for item in there) and left == (None, None)

    def _replaced(self, call: ast.Call, landed: ast.Call) -> Iterator[Drift]:
        """The fields that `replace(x, NAME=...)` sets."""
        if last_name(call.func) != "replace" or not call.args or not landed.args:
            return
        for keyword in call.keywords:
            if keyword.arg is not None:
                objects = call.args[0], landed.args[0]
                yield from self._set(*(ast.Attribute(o, keyword.arg, ast.Load()) for o in objects))

    def _set(self, node: ast.AST, landed: ast.AST) -> Iterator[Drift]:
        """A field that the code sets: it has to be there, and to be no property."""
        assert isinstance(node, ast.Attribute)
        assert isinstance(landed, ast.Attribute)
        things = self._things(node, landed)
        old, new = _item(things[0]), _item(things[1])
        if old is None or old.kind not in ("variable", "attribute"):
            return
        if new is None:
            yield from self._gone(node, landed, things[0])
        elif word_of(new) == "property" and not has_setter(new):
            yield self._differs("attribute", old, new, old.kind, "property")

    def _only_members(self, node: ast.expr, landed: ast.expr) -> tuple[Thing, Thing]:
        """The only members of a name, where it is read of something unknown."""
        if not isinstance(node, ast.Attribute) or not isinstance(landed, ast.Attribute):
            return None, None
        if node.attr in ATTRIBUTES or self.base.code.thing(node, self.use.around):
            return None, None
        return self.namesakes.members(node.attr, landed.attr)

    def _value(self, old: Item, new: Item) -> Iterator[Drift]:
        members = is_member(old, self.base.program), is_member(new, self.target.program)
        if all(members):
            asked = self.use.asked
            values = (
                member_value(old, self.base.program, asked=asked),
                member_value(new, self.target.program, asked=asked),
            )
        elif not any(members):
            values = value_of(old, self.base.program), value_of(new, self.target.program)
        else:
            return
        if all(values) and values[0] != values[1] and not _moved(*values):
            yield self._differs("value", old, new, *(_shown(v) for v in values))

    def _gone(self, node: ast.expr, landed: ast.expr, old: Thing) -> Iterator[Drift]:
        """What the class of an object no longer has, nor any base of it."""
        item = _item(old)
        if item is None or not isinstance(landed, ast.Attribute):
            return
        assert isinstance(node, ast.Attribute)
        if item.owner is None:
            yield from self._gone_of_module(node, landed, item)
            return
        was = self.base.code.class_named(node.value, self.use.around)
        holder = self.target.code.class_named(landed.value, self.landed.around)
        if was is None or holder is None or was.name != holder.name or item.kind == "attribute":
            return
        _, complete = self.target.program.lineage(holder)
        if not complete or self.target.program.member(holder, "__getattr__") is not None:
            return
        text = (
            f"`{item.label}` is defined in {self.base.label} ({item.place}) and `{holder.name}` "
            f"has no `{landed.attr}` in {self.target.label} ({holder.place})"
        )
        yield Drift("attribute", item.name, self.read_at, text, f"{word_of(item)} {item.label}")

    def _gone_of_module(
        self, node: ast.Attribute, landed: ast.Attribute, item: Item
    ) -> Iterator[Drift]:
        """What a module no longer says a word of, whoever else has something of that name."""
        was = self.base.code.object(node.value, self.use.around)
        now = self.target.code.object(landed.value, self.landed.around)
        if not isinstance(was, Module) or not isinstance(now, Module) or not now.path:
            return
        source = self.target.program.source(now.path)
        if any(word in source for word in (landed.attr.encode(), b"import *", b"__getattr__")):
            return
        text = (
            f"`{item.label}` is defined in {self.base.label} ({item.place}) and `{now.name}` "
            f"has no `{landed.attr}` in {self.target.label} ({now.path}:1)"
        )
        yield Drift("attribute", item.name, self.read_at, text, f"{word_of(item)} {item.label}")

    def _compare(self) -> Iterator[Drift]:
        """A text that a `Literal` no longer allows, compared with what is of that type."""
        assert isinstance(self.use.node, ast.Compare)
        assert isinstance(self.landed.node, ast.Compare)
        sides = [self.use.node.left, *self.use.node.comparators]
        others = [self.landed.node.left, *self.landed.node.comparators]
        said = {text for side in sides for text in _texts(side)}
        if not said:
            return
        for side, other in zip(sides, others, strict=False):
            old, new = self._things(side, other)
            types = _typed(self.base.code, old), _typed(self.target.code, new)
            yield from self._no_choice(said, f"`{ast.unparse(side)}`", types)

    def _no_choice(
        self, said: Iterable[str], name: str, types: tuple[Typed | None, Typed | None]
    ) -> Iterator[Drift]:
        was, now = types
        if was is None or now is None:
            return
        had = choices(was.annotation, was.path, self.base.program)
        has = choices(now.annotation, now.path, self.target.program)
        for text in sorted(set(said) & (had - has)) if has else ():
            yield Drift(
                "choice", text, self.read_at,
                f"{name} may be `{text!r}` in {self.base.label} and not in {self.target.label}",
                f"{text!r} of {name}",
            )  # fmt: skip

    def _differs(self, kind: str, old: Item | None, new: Item | None, was: str, now: str) -> Drift:
        assert old is not None
        assert new is not None
        said = {"call", "import", "name", "attribute"}
        article = kind in said
        texts = [f"{_article(word)} {word}" if article else word for word in (was, now)]
        text = (
            f"`{new.label}` is {texts[0]} in {self.base.label} ({old.place}) "
            f"and {texts[1]} in {self.target.label} ({new.place})"
        )
        return Drift(kind, new.name, self.read_at, text, was.strip("`"), now.strip("`"))


def _typed(code: Code, thing: Thing) -> Typed | None:
    held = code.held(thing)
    return held if isinstance(held, Typed) else None


def _type_of(parameter: Parameter, callee: Callee) -> Typed | None:
    annotation = parsed(parameter.annotation)
    return Typed(annotation, callee.path) if annotation is not None else None


def _texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression is, or lists."""
    for part in node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _item(thing: Thing) -> Item | None:
    if isinstance(thing, Member):
        return thing.item
    return thing if isinstance(thing, Item) else None


def _article(word: str) -> str:
    return "an" if word[:1] in "aeiou" else "a"


def _shown(value: str) -> str:
    number, comma, rest = value.partition(", which is ")
    return f"`{number}`{comma}{rest}"


def _moved(before: str, after: str) -> bool:
    """Whether two texts name one thing in two places, as `"a.b.C"` and `"a.d.C"`."""
    old, new = (value.strip("'\"") for value in (before, after))
    return "." in old and "." in new and old.rpartition(".")[2] == new.rpartition(".")[2]
