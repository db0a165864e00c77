"""The image of a base node in the target, and that a node without a forced image has none."""

from __future__ import annotations

from patchkit.syntax.align import Alignment
from patchkit.syntax.build import parse_module
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Module, Node


def node_at(root: Node, start: int, end: int) -> Node:
    """The smallest node below `root` that encloses a span."""
    inner = next((c for c in root.children if c.start <= start and end <= c.end), None)
    return root if inner is None else node_at(inner, start, end)


def place(module: Module, text: str, nth: int = 1) -> Node:
    """The smallest node that holds the nth occurrence of a text."""
    position = -1
    for _ in range(nth):
        position = module.source.index(text.encode(), position + 1)
    end = position + len(text.encode())
    around = (n for n in module.root.walk() if n.start <= position and end <= n.end)
    return min(around, key=lambda n: n.end - n.start)


def image(old: str, new: str, text: str, nth: int = 1) -> tuple[int, str] | None:
    """Line and text of the image of a node, None where it has none."""
    base, target = parse_module(old.encode()), parse_module(new.encode())
    found = Alignment(base, target).image(place(base, text, nth))
    return None if found is None else (found.line, found.text.decode())


TWINS = "class A:\n    def f(self):\n        go(1)\n\n\nclass B:\n    def f(self):\n        go(1)\n"


def test_image_follows_the_definition_by_its_qualified_name() -> None:
    swapped = (
        "class B:\n    def f(self):\n        go(1)\n\n\nclass A:\n    def f(self):\n        go(1)\n"
    )
    assert image(TWINS, swapped, "go(1)", 1) == (8, "go(1)")
    assert image(TWINS, swapped, "go(1)", 2) == (3, "go(1)")


def test_definition_that_is_gone_has_no_image_in_its_twin() -> None:
    only_b = "class B:\n    def f(self):\n        go(1)\n"
    assert image(TWINS, only_b, "go(1)", 1) is None
    assert image(TWINS, only_b, "go(1)", 2) == (3, "go(1)")


def test_argument_of_a_call_to_another_function_has_no_image() -> None:
    assert image("x = one(a, b)\n", "x = two(a, b)\n", "b") is None
    assert image("x = one(a, b)\n", "x = one(a, c, b)\n", "b") == (1, "b")


def test_statement_under_another_condition_has_no_image() -> None:
    old = "if a:\n    one()\n    two()\n    three()\n"
    assert image(old, old.replace("if a", "if b"), "two()") is None
    assert image(old, old.replace("if a", "if a and b"), "two()") == (3, "two()")


def test_entry_of_another_variables_dict_has_no_image() -> None:
    old = "def f():\n    one = {1: a, 2: b}\n"
    assert image(old, old.replace("one", "two"), "2: b") is None


def test_repeated_statements_have_images_in_order_only_where_none_is_missing() -> None:
    three = "def f():\n    log()\n    log()\n    log()\n"
    two = "def f():\n    log()\n    log()\n"
    assert image(three, "\n" + three, "log()", 2) == (4, "log()")
    assert image(three, two, "log()", 1) is None
    assert image(three, two, "log()", 3) is None


def test_definition_given_as_moved_takes_its_contents_along() -> None:
    old = parse_module(b"def f(x):\n    a(x)\n\n\nclass K: pass\n")
    new = parse_module(b"class K:\n    def f(self, x):\n        a(x)\n")
    before, after = outline_of(old).by_name, outline_of(new).by_name
    assert Alignment(old, new).image(place(old, "a(x)")) is None
    found = Alignment(old, new, {before["f"]: after["K.f"]}).image(place(old, "a(x)"))
    assert found is not None
    assert (found.line, found.text) == (3, b"a(x)")


def test_moved_definition_is_not_also_the_image_of_another() -> None:
    old = parse_module(b"def f(x):\n    a(x)\n\n\ndef g(x):\n    a(x)\n")
    new = parse_module(b"def g(x):\n    a(x)\n")
    before, after = outline_of(old).by_name, outline_of(new).by_name
    alignment = Alignment(old, new, {before["f"]: after["g"]})
    assert alignment.image(before["f"]) is after["g"]
    assert alignment.image(before["g"]) is None


def test_statements_that_a_block_was_put_around_have_their_images_inside() -> None:
    old = "def f(x):\n    one(x)\n    two(x)\n"
    new = "def f(x):\n    with lock:\n        one(x)\n        two(x)\n"
    assert image(old, new, "two(x)") == (4, "two(x)")


def test_a_block_beside_a_statement_that_is_still_there_was_not_put_around_it() -> None:
    old = "def f(ids):\n    log.info('made with ids', name, kind, text, ids, why)\n"
    new = (
        "def f(ids):\n    if debug:\n        log.debug('made with', name, kind, ids)\n"
        "    log.info('made', name, kind, text, why)\n"
    )
    call = "log.info('made', name, kind, text, why)"
    assert image(old, new, "log.info('made with ids', name, kind, text, ids, why)") == (4, call)


def test_statements_that_two_new_blocks_hold_have_no_image() -> None:
    old = "def f(x):\n    one(x)\n    two(x)\n"
    new = (
        "def f(x):\n    with lock:\n        one(x)\n        two(x)\n"
        "    with other:\n        one(x)\n        two(x)\n"
    )
    assert image(old, new, "two(x)") is None
