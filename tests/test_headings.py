"""Definitions read off a module's lines are those of its outline."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from patchkit.syntax.headings import Heading, headings_of
from patchkit.syntax.outline import name_of, outline_or_none

ROOT = Path(__file__).parents[1]


def of_outline(source: bytes) -> tuple[Heading, ...]:
    outline = outline_or_none(source)
    assert outline is not None
    return tuple(Heading(name_of(n), name, n.line) for n, name in outline.names.items())


def test_a_heading_says_name_and_first_line() -> None:
    source = b"import a\n\nclass A(B):\n    @a.b(\n        1)\n    # why\n    def f(self): ...\n"
    assert headings_of(source) == (Heading("A", "A", 3), Heading("f", "A.f", 4))


@pytest.mark.parametrize("path", sorted((ROOT / "patchkit").rglob("*.py")), ids=lambda p: p.stem)
def test_own_modules_have_the_headings_of_their_outlines(path: Path) -> None:
    source = path.read_bytes()
    assert headings_of(source) == of_outline(source)


@pytest.mark.parametrize(
    "code",
    [
        "def f(): ...\ndef f(): ...\nclass f:\n    def f(self): ...\n",
        "if x:\n    def f(): ...\nelse:\n    def f(): ...\n",
        "class A:\n    x = 1\nif x:\n    def f(): ...\n",
        "class A:\n    '''\ndef no(): ...\n    '''\n    def f(self): ...\n",
        "class A:\n    x = (\n1, 2,\n)\n    def f(self): ...\n",
        "class A:\n    x = 1 + \\\n2\n    def f(self): ...\n",
        "class A:\n# aside\n\n    def f(self): ...\n",
        "class A:\n    x = '#'; y = \"'\"\n    def f(self, a=')'): ...\n",
        "class A:\n    x = {'a': (1, [2])}\n    def f(self): ...\n",
        "@a\n\n# why\n@b\nasync def f():\n  class A: pass\n  def g(): pass\n",
        "try:\n    def f(): ...\nexcept E:\n    def f(): ...\nfinally:\n    class f: ...\n",
        "match x:\n    case 1:\n        def f(): ...\n",
        "class A:\r\n    def f(self): ...\r\n",
        "class A:\n\tx = 1\n\tdef f(self): ...\n",
        "\ufeffdef f(): ...\n",
        "x = 1\n\fdef f(): ...\n",
        "defined = classes = 1\ndefy(1)\n",
        "",
    ],
)
def test_whatever_the_layout(code: str) -> None:
    source = textwrap.dedent(code).encode()
    assert headings_of(source) == of_outline(source)


def test_what_is_no_text_has_none() -> None:
    assert headings_of(b"def \xff\xfe(): ...\n") == ()
    assert headings_of(b"\xef\xbb\xbfdef f(:\n") == ()
