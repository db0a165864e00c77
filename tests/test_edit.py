"""Typed edits: each change is named as a person would name it, and no byte is lost either way."""

from __future__ import annotations

import sysconfig
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.syntax.build import parse_module, try_module
from patchkit.syntax.edit import Change, Edit, InexactError, apply_edits, lift, splice, undo_edits

STDLIB = Path(sysconfig.get_paths()["stdlib"])


def changes(old: bytes, new: bytes) -> list[Change]:
    """The changed lines as byte spans."""
    left, right = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts, news = [0], [0]
    for line in left:
        starts.append(starts[-1] + len(line))
    for line in right:
        news.append(news[-1] + len(line))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return [
        Change(starts[a], starts[b], news[c], news[d])
        for tag, a, b, c, d in blocks
        if tag != "equal"
    ]


def lifted(old: str, new: str) -> tuple[Edit, ...]:
    before, after = old.encode(), new.encode()
    return lift(parse_module(before), parse_module(after), changes(before, after))


def only(old: str, new: str) -> Edit:
    (edit,) = lifted(old, new)
    return edit


# Names of edits ----------------------------------------------------------------------------------

ENUM = "import enum\n\n\nclass Kind(enum.Enum):\n    A = 1\n    B = 2\n"
CALL = "def f(a):\n    return g(\n        a,\n        k=1,\n    )\n"
CHAIN = "def f(k):\n    if k == 1:\n        a()\n    elif k == 2:\n        b()\n"
TRY = "try:\n    a()\nexcept E:\n    b()\n"
MATCH = "match x:\n    case 1:\n        a()\n    case 2:\n        b()\n"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("x = [\n    1,\n    2,\n]\n", "x = [\n    1,\n    3,\n    2,\n]\n", "element added"),
        ("x = [1, 2]\n", "x = [1]\n", "element removed"),
        ("x = {1, 2}\n", "x = {1, 3}\n", "element replaced"),
        (ENUM, ENUM + "    C = 3\n", "enum member added"),
        (ENUM, ENUM.replace("    B = 2\n", ""), "enum member removed"),
        ("class K:\n    a: int\n", "class K:\n    a: int\n    b: int\n", "class member added"),
        ("x = {1: a}\n", "x = {1: a, 2: b}\n", "entry added"),
        ("x = {1: a, 2: b}\n", "x = {1: a}\n", "entry removed"),
        (CHAIN, CHAIN + "    elif k == 3:\n        c()\n", "branch added"),
        (CHAIN, CHAIN.replace("    elif k == 2:\n        b()\n", ""), "branch removed"),
        ("import os\n", "import os\nimport re\n", "import added"),
        ("from a import b\n", "from a import b, c\n", "import added"),
        ("from a import b, c\n", "from a import b\n", "import removed"),
        ("def f(a):\n    pass\n", "def f(a, b=1):\n    pass\n", "parameter added"),
        ("def f(a, b):\n    pass\n", "def f(a):\n    pass\n", "parameter removed"),
        (CALL, CALL.replace("k=1,\n", "k=1,\n        j=2,\n"), "argument added"),
        (CALL, CALL.replace("        k=1,\n", ""), "argument removed"),
        ("g(1)\n", "g(2)\n", "argument replaced"),
        ("def f():\n    a()\n", "def f():\n    a()\n    b()\n", "statement added"),
        ("def f():\n    a()\n    b()\n", "def f():\n    a()\n", "statement removed"),
        ("def f():\n    a()\n", "def f():\n    return 1\n", "statement replaced"),
        ("x = a\n", "x = b\n", "expression replaced"),
        ("x = a.b\n", "x = a.c\n", "token replaced"),
        ("x = a < b\n", "x = a <= b\n", "token replaced"),
        ("async def f():\n    pass\n", "def f():\n    pass\n", "token replaced"),
        ("def f():\n    pass\n", "def g():\n    pass\n", "definition renamed"),
        ("def f():\n    pass\n", "def g(a):\n    return a\n", "definition replaced"),
        ("a()\n", "a()\n\n\ndef f():\n    pass\n", "definition added"),
        ("a()\n\n\ndef f():\n    pass\n", "a()\n", "definition removed"),
        ("def f():\n    pass\n", "@x\ndef f():\n    pass\n", "decorator added"),
        ("class K(A):\n    pass\n", "class K(A, B):\n    pass\n", "base class added"),
        (TRY, TRY + "except F:\n    c()\n", "handler added"),
        (MATCH, MATCH + "    case 3:\n        c()\n", "case added"),
        ("with a:\n    pass\n", "with a, b:\n    pass\n", "item added"),
        ("x = a + b\n", "x = a + b + c\n", "operand added"),
        ("x = a and b\n", "x = a and b and c\n", "operand added"),
        ("x = [a for a in b]\n", "x = [a for a in b for c in d]\n", "generator added"),
        ("a()  # one\n", "a()  # two\n", "comment changed"),
        ("a()\nb()\n", "a()\n# why\nb()\n", "comment added"),
        ("a()\n# why\nb()\n", "a()\nb()\n", "comment removed"),
        ("f(a, b)\n", "f(\n    a,\n    b,\n)\n", None),
        ("a()\nb()\n", "a()\n\nb()\n", "layout"),
        ("x = a\n", "x = (a)\n", None),
    ],
)  # fmt: skip
def test_a_change_is_named_as_a_person_would(old: str, new: str, kind: str | None) -> None:
    edits = lifted(old, new)
    if kind is None:
        assert edits
        assert all(edit.is_layout for edit in edits)
    else:
        assert [edit.kind for edit in edits] == [kind]


def test_wrapped_block_is_one_edit_of_the_list_that_holds_it() -> None:
    old = "def f(x):\n    a(x)\n    b(x)\n    c(x)\n"
    new = "def f(x):\n    a(x)\n    with lock:\n        b(x)\n    c(x)\n"
    edit = only(old, new)
    assert edit.kind == "statement replaced"
    assert [n.kind for n in edit.removed] == ["Expr"]
    assert [n.kind for n in edit.inserted] == ["With"]


def test_insertion_knows_its_list_and_its_neighbours() -> None:
    edit = only("def f():\n    a()\n    c()\n", "def f():\n    a()\n    b()\n    c()\n")
    assert (edit.container.kind, edit.slot) == ("FunctionDef", "body")
    assert edit.prev is not None
    assert edit.next is not None
    assert (edit.prev.text, edit.next.text) == (b"a()", b"c()")
    assert [n.text for n in edit.inserted] == [b"b()"]
    assert edit.removed == ()


def test_one_equal_statement_more_is_inserted_where_the_bytes_say() -> None:
    old = "def f():\n    log()\n    a()\n    log()\n"
    new = "def f():\n    log()\n    a()\n    log()\n    log()\n"
    before, after = old.encode(), new.encode()
    end = len(before)
    edits = lift(parse_module(before), parse_module(after), [Change(end, end, end, len(after))])
    (edit,) = edits
    assert edit.prev is not None
    assert edit.prev.start == old.rindex("log()")
    assert edit.next is None


def test_equal_changes_have_equal_payloads_whatever_the_layout() -> None:
    one = only("g(a)\n", "g(a, k=1)\n")
    two = only("x = 1\ng(  a  )\n", "x = 1\ng(  a,\n  k = 1)\n")
    assert one.payload == two.payload


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("g(a)\n", "g(a, k=2)\n"),
        ("g(a)\n", "g(a, j=1)\n"),
        ("g(a)\n", "g(a, 1)\n"),
        ("g(a, k=1)\n", "g(a)\n"),
        ("g(a)\n", "g(a, k=True)\n"),
        ("g(a)\n", "g(a, k=1.0)\n"),
        ("g(a)\n", "g(a, k=b'1')\n"),
        ("g(a)\n", "g(a, k='1')\n"),
        ("class K(a): pass\n", "class K(a, k=1): pass\n"),
    ],
)
def test_different_changes_have_different_payloads(old: str, new: str) -> None:
    assert only("g(a)\n", "g(a, k=1)\n").payload != only(old, new).payload


def test_change_of_a_string_keeps_its_spaces_in_the_payload() -> None:
    one = only('x = "a"\n', 'x = """b\n  c"""\n')
    two = only('x = "a"\n', 'x = """b\n    c"""\n')
    assert one.payload != two.payload


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a - (b - c)", "a - b - c"),
        ("(a < b) < c", "a < b < c"),
        ("a + b * c", "(a + b) * c"),
        ("not a == b", "(not a) == b"),
        ("-1 ** 2", "(-1) ** 2"),
        ("a if b else (c if d else e)", "(a if b else c) if d else e"),
        ("lambda: (a, b)", "((lambda: a), b)"),
        ("(a,)", "(a)"),
        ("x[a, b]", "x[a][b]"),
        ("x[a:b]", "x[:a:b]"),
        ("f(*a)", "f(**a)"),
        ("f(a)(b)", "f(a, b)"),
        ("a and (b or c)", "a and b or c"),
        ("[a for b in c if d]", "[a for b in (c if d else e)]"),
        ("a @ b @ c", "a @ (b @ c)"),
        ("{**a}", "{a: a}"),
        ("{*a}", "{a}"),
        ("f'{a}'", "'{a}'"),
        ("b'a'", "'a'"),
        ("1", "True"),
        ("0", "0.0"),
        ("await_", "a_wait"),
    ],
)
def test_code_that_means_another_thing_has_another_digest(one: str, two: str) -> None:
    left, right = parse_module(f"x = {one}\n".encode()), parse_module(f"x = {two}\n".encode())
    assert left.root.digest != right.root.digest


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("f(a, b)", "f(\n    a,\n    b,\n)"),
        ("'a'", '"a"'),
        ("(a)", "a"),
        ("{1: 2}", "{\n1:  2,\n}"),
        ("'a' 'b'", "'ab'"),
    ],
)
def test_code_that_is_only_laid_out_otherwise_has_the_same_digest(one: str, two: str) -> None:
    left, right = parse_module(f"x = {one}\n".encode()), parse_module(f"x = {two}\n".encode())
    assert left.root.digest == right.root.digest


def test_overlapping_pieces_are_refused() -> None:
    with pytest.raises(InexactError, match="two edits overlap"):
        splice(b"abcdef", [(0, 3, b"x"), (2, 4, b"y")])


# Exactness ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def corpus() -> tuple[tuple[str, bytes], ...]:
    """Modules of the standard library of a size that one case reads in milliseconds."""
    found = []
    for path in sorted([*STDLIB.glob("*.py"), *STDLIB.glob("asyncio/*.py")]):
        if 2_000 < path.stat().st_size < 12_000:
            content = path.read_bytes()
            if try_module(content) is not None:
                found.append((path.name, content))
    return tuple(found)


def mutate(lines: list[bytes], steps: list[tuple[int, int, int]]) -> list[bytes]:
    """Delete, repeat, swap, re-indent or replace lines."""
    lines = list(lines)
    for what, where, size in steps:
        if not lines:
            break
        at = where % len(lines)
        to = min(len(lines), at + 1 + size % 6)
        if what == 0:
            del lines[at:to]
        elif what == 1:
            lines[at:at] = lines[at:to]
        elif what == 2:
            other = (where * 7 + size) % len(lines)
            lines[at], lines[other] = lines[other], lines[at]
        elif what == 3:
            lines[at:to] = [line if not line.strip() else b"    " + line for line in lines[at:to]]
        elif what == 4:
            lines[at] = lines[at].replace(b"self", b"other").replace(b"1", b"2")
        else:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines.insert(at, indent + b"added(self, k=1)  # why\n")
    return lines


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 10_000), st.integers(0, 50)),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(index=st.integers(0, 10_000), steps=STEPS)
def test_edits_of_real_modules_apply_and_undo_byte_for_byte(
    index: int, steps: list[tuple[int, int, int]]
) -> None:
    _, old = corpus()[index % len(corpus())]
    new = b"".join(mutate(old.splitlines(keepends=True), steps))
    before, after = try_module(old), try_module(new)
    assert before is not None
    if after is None:
        return
    edits = lift(before, after, changes(old, new))
    assert apply_edits(old, edits) == new
    assert undo_edits(new, edits) == old
    assert bool(edits) == (old != new)
    assert all(edit.old_text != edit.new_text for edit in edits)


def test_whole_modules_turn_into_each_other_byte_for_byte() -> None:
    names = dict(corpus())
    pairs = list(zip(sorted(names), sorted(names)[1:], strict=False))[:25]
    assert len(pairs) == 25
    for one, two in pairs:
        old, new = parse_module(names[one]), parse_module(names[two])
        edits = lift(old, new, changes(old.source, new.source))
        assert apply_edits(old.source, edits) == new.source, (one, two)
        assert undo_edits(new.source, edits) == old.source, (one, two)


@pytest.mark.network
def test_changes_between_two_releases_apply_and_undo_byte_for_byte() -> None:
    from patchkit.upstream import open_tree

    base, target = open_tree("v0.28.0"), open_tree("v0.29.0")
    paths = [
        path
        for path in sorted(base.files)
        if path.startswith("vllm/v1/core/") and path.endswith(".py") and path in target.files
    ]
    lifted_files = 0
    for path in paths:
        old, new = base.files[path], target.files[path]
        before, after = try_module(old), try_module(new)
        if old == new or before is None or after is None:
            continue
        edits = lift(before, after, changes(old, new))
        assert apply_edits(old, edits) == new, path
        assert undo_edits(new, edits) == old, path
        lifted_files += 1
    assert lifted_files >= 5
