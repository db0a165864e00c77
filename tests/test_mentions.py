"""Whether a word may be bound, by the text around it: never no where a parse says yes."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from patchkit.names.definitions import definitions_of
from patchkit.names.mentions import CALLABLE, may_define

ROOT = Path(__file__).parents[1]
OBJECT = frozenset({"field", "method", "self", "store"})
ANYTHING = OBJECT | {"module", "import"}
KINDS = [OBJECT, OBJECT | {"module"}, ANYTHING, CALLABLE, frozenset({"class"}), ANYTHING | {"text"}]


def missed(source: bytes, name: str) -> list[frozenset[str]]:
    """The sets of kinds of which a parse finds one that the text denies."""
    found = {definition.kind for definition in definitions_of(source, name)}
    return [kinds for kinds in KINDS if found & kinds and not may_define(source, name, kinds)]


@pytest.mark.parametrize("path", sorted((ROOT / "patchkit").rglob("*.py")), ids=lambda p: p.stem)
def test_nothing_that_our_own_modules_define_is_denied(path: Path) -> None:
    source = path.read_bytes()
    words = {word.decode() for word in re.findall(rb"[A-Za-z_]\w+", source)}
    assert [word for word in sorted(words) if missed(source, word)] == []


@pytest.mark.parametrize(
    "code",
    [
        "x = 1",
        "x: int = 1",
        "a = x = 1",
        "a, x = 1, 2",
        "(a,\n x\n) = 1, 2",
        "(a, x,  # why\n) = 1, 2",
        "[a, *x] = 1, 2",
        "x += 1",
        "x \\\n  = 1",
        "for x in y: pass",
        "for a, x in y: pass",
        "with f() as x: pass",
        "with f() as (a, x): pass",
        "f(x := 1)",
        "f(a for x in y)",
        "f(a for b, x in y)",
        "f(a for b.x in y)",
        "f(a for b, c.x in y)",
        "import x",
        "import x.y",
        "from a import (b,\n    x,\n)",
        "from a import b as x",
        "def x(): ...",
        "class x: ...",
        "class A:\n    x: int\n    y = 1",
        "class A:\n    def x(self): ...",
        "class A:\n    async  def x(self): ...",
        "def f():\n    class A:\n        x = 1",
        "def f(\n    a,\n):\n    class A:\n        x = 1",
        "def f():\n    class x: ...",
        "def f():\n    if a:\n        b.x = 1",
        "def f(a): a.x: int = 1",
        "if a: a.x: int = 1",
        "a.x, b = 1, 2",
        "(a.x, b) = 1, 2",
        "(a. x, b) = 1, 2",
        "(a.  # why\n x, b) = 1, 2",
        "for (a.x, b) in c: pass",
        "for a.x in c: pass",
        "with f() as a.x: pass",
        "a[b.c], a.x = 1, 2",
        "class A:\n    '''\ndef f(): an example\n    '''\n    x = 1",
        "class A:\n    '''\n    if so\n    '''\n    x = 1",
        "def f():\n    pass\nif a:\n    x = 1",
        "def f():\n    pass\nclass A:\n\n    x = 1",
        "f'{[x for x in y]}'",
        "a = f'{(x := 1)}'",
        "print('#', end='')\nx = 1",
    ],
)
def test_what_binds_is_never_denied(code: str) -> None:
    source = (textwrap.dedent(code) + "\n").encode()
    assert {d.kind for d in definitions_of(source, "x")} - {"text"}
    assert missed(source, "x") == []


@pytest.mark.parametrize(
    "code",
    [
        "y = x",
        "y = x(1)",
        "y = a.x(1)",
        "f(x, a.x)",
        "f(\n    x,\n    a.x,\n    b=a.x,\n)",
        "f(b=[a.x, x])",
        "y[x, a.x] = 1",
        "y = {x: a.x, 'x': x}",
        "if a.x: pass",
        "# x = 1",
        "y = 'x = 1'",
        "def f():\n    x = 1\n    for x in y: pass",
        "def f(x: int, y): pass",
        "def f(\n    a,\n) -> int:\n    if a:\n        x = 1",
        "class A:\n    def f(self):\n        x = 1",
        "def f():\n    def x(): ...",
    ],
)
def test_what_only_reads_or_is_a_functions_own_is_told(code: str) -> None:
    source = (textwrap.dedent(code) + "\n").encode()
    assert not may_define(source, "x", OBJECT | {"module"})


def test_a_string_that_is_the_name_counts_where_text_is_asked_for() -> None:
    source = b"y = ['x']\n"
    assert may_define(source, "x", frozenset({"text"}))
    assert not may_define(source, "x", OBJECT)
