"""Qualified names of a module's definitions, with ordinals where names repeat."""

from __future__ import annotations

from patchkit.syntax.build import parse_module
from patchkit.syntax.outline import MODULE, Outline, name_of, outline_or_none

SOURCE = b"""\
import os

if os:
    def go(): pass
else:
    def go(): pass


class K:
    @property
    def size(self): return 1

    @size.setter
    def size(self, value):
        def inner(): pass

    class Inner:
        def run(self): pass


try:
    class E: pass
except ImportError:
    class E: pass

for x in y:
    async def loop(): pass
"""


def test_names_are_qualified_and_repeated_ones_are_numbered_in_source_order() -> None:
    outline = Outline(parse_module(SOURCE))
    assert {name: node.line for name, node in outline.by_name.items()} == {
        "go": 4,
        "go#2": 6,
        "K": 9,
        "K.size": 10,
        "K.size#2": 13,
        "K.size#2.inner": 15,
        "K.Inner": 17,
        "K.Inner.run": 18,
        "E": 22,
        "E#2": 24,
        "loop": 27,
    }


def test_innermost_definition_around_a_node_gives_its_name() -> None:
    outline = Outline(parse_module(SOURCE))
    inner = outline.by_name["K.size#2.inner"]
    body = next(n for n in inner.walk() if n.kind == "Pass")
    assert outline.qualified(body) == "K.size#2.inner"
    assert outline.qualified(inner) == "K.size#2.inner"
    assert outline.qualified(outline.module.root) == MODULE
    assert outline.enclosing(outline.module.root) is None
    assert name_of(inner) == "inner"


def test_definitions_with_one_name_do_not_hide_each_others_contents() -> None:
    source = b"class K:\n    def a(self): pass\n\n\nclass K:\n    def a(self): pass\n"
    assert list(Outline(parse_module(source)).by_name) == ["K", "K.a", "K#2", "K#2.a"]


def test_bytes_that_are_not_python_have_no_outline() -> None:
    assert outline_or_none(b"def f(:\n") is None
