"""What is there twice after a change, kind by kind, and what only looks like it."""

from __future__ import annotations

import textwrap

import pytest

from patchkit.names.doubled import Doubled, doubled, doubled_beyond


def source(text: str) -> bytes:
    return textwrap.dedent(text).encode()


def found(before: str, after: str) -> list[str]:
    return [f"{d.kind} {d.scope} {d.name} {d.line}" for d in doubled(source(before), source(after))]


def test_a_definition_that_lands_twice_is_named():
    before = "class C:\n    def f(self): ...\n"
    after = "class C:\n    def f(self): ...\n    def g(self): ...\n    def f(self): ...\n"
    result = doubled(before.encode(), after.encode())
    assert result == (Doubled("definition", "C", "f", 4),)
    assert str(result[0]) == "definition `f` is doubled in C (line 4)"


def test_an_import_of_a_name_that_is_imported_already():
    assert found("from a import x\n", "from a import x\nfrom a import y, x\n") == [
        "import <module> x 2"
    ]


@pytest.mark.parametrize(
    ("before", "after", "element"),
    [
        ('D = ["a", "b"]', 'D = ["a", "x", "b", "x"]', "'x'"),
        ('D = ["a", "x"]', 'D = ["a", "x", "x"]', "'x'"),
        ('D = Literal["a", "x"]', 'D = Literal["x", "a", "x"]', "'x'"),
        ("D = {A.X, A.Y}", "D = {A.X, A.Y, A.X}", "A.X"),
        ("D = (f, g)", "D = (f, h, g, h)", "h"),
        ("D = [16, 32]", "D = [16, 32, 32]", "32"),
    ],
)
def test_an_element_that_a_literal_holds_twice_since_it_grew(before, after, element):
    assert found(before, after) == [f"element <module> {element} 1"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f((n, m))", "x = f((n, n))"),  # replaced, not grown
        ("x = 1", 'x = ["a", "a"]'),  # new: its author chose so
        ('x = ["a", "a"]', 'x = ["a", "b", "a"]'),  # it was so before
        ("x = [None, a]", "x = [None, a, None]"),
        ("x: tuple[int, str]", "x: tuple[int, str, int]"),
        ("y = x[a, b]", "y = x[a, b, b]"),
        ("a, b = f()", "a, b, a = f()"),
        ("x = [f(a), g]", "x = [f(a), g, f(a)]"),
        ("x = [a, b, b]", "x = [a, a, b]"),
        ("x = [a]", "x = [a, a]"),
        ("x = (a, b)", "x = [a, b, a]"),
        ("x = [a, b]", "def f():\n    return [a, b, a]"),
    ],
)
def test_an_element_that_is_repeated_for_a_reason(before, after):
    assert found(before, after) == []


def test_a_key_that_a_dictionary_holds_twice():
    before = 'D = {"a": 1, T.X: 2}'
    assert found(before, 'D = {"a": 1, T.X: 2, "b": 3, "a": 4}') == ["key <module> 'a' 1"]
    assert found(before, "D = {'a': 1, T.X: 2, T.X: 5}") == ["key <module> T.X 1"]
    assert found(before, "D = {'a': 1, T.X: 2, **D2, f(): 3, f(): 4}") == []


ENUM = """
    class Mode(IntEnum):
        NONE = 0
        TURBO = 6
        TURBO_4 = 7
"""


def test_an_enum_member_that_takes_the_value_of_another():
    after = ENUM + "        KVARN = 7\n"
    assert found(ENUM, after) == ["enum value Mode 7 (TURBO_4, KVARN) 6"]
    assert found(after, after.replace("KVARN", "KVARN2")) == [
        "enum value Mode 7 (TURBO_4, KVARN2) 6"
    ]
    assert found(ENUM, ENUM + "        KVARN = 8\n        Z = auto()\n        Y = auto()\n") == []


def test_an_enum_member_that_is_there_twice():
    assert found(ENUM, ENUM + "        TURBO = 9\n") == ["enum member Mode TURBO 6"]


def test_equal_values_of_a_plain_class_are_nobodys_business():
    plain = ENUM.replace("IntEnum", "object")
    assert found(plain, plain + "        KVARN = 7\n") == []


def test_values_that_cannot_be_compared_are_not_equal():
    lists = "class Mode(Enum):\n    A = [1]\n    B = [1]\n    C: int\n    D = f(1)\n    E = f(1)\n"
    assert found("", lists) == []


def test_a_class_inside_a_function_is_looked_into():
    text = """
        def f():
            class C(Enum):
                A = 1
                A = 2
                g()
                g()
                def h(self):
                    return lambda x, x: {"k": 1, "k": 2}
    """
    assert found("", text) == [
        "enum member f.C A 5",
        "statement f.C g() 7",
        "key f.C.h 'k' 9",
        "parameter f.C.h x 9",
    ]


def test_an_attribute_or_field_that_a_class_assigns_twice():
    before = "class C:\n    a: int = 1\n    b = 2\n"
    assert found(before, before + "    a: int = 1\n") == ["attribute C a 4"]
    assert found(before, before + "    b = property(c)\n") == ["attribute C b 4"]
    assert found(before, before + "    b = property(b)\n") == []


def test_a_keyword_or_parameter_that_is_there_twice():
    assert found("f(a=1)", "f(a=1, a=1)") == ["keyword <module> a 1"]
    assert found("def f(a): ...", "def f(a, b, a=1): ...") == ["parameter f a 1"]
    assert found("f(a=1)", "f(a=1, **x, **x)") == []


def test_a_branch_whose_test_came_before_in_the_chain():
    before = "if a:\n    f()\nelif b:\n    g()\n"
    assert found(before, before + "elif a:\n    h()\n") == ["branch <module> a 5"]
    assert found(before, before + "elif b:\n    h()\n") == ["branch <module> b 5"]
    assert found(before, before + "else:\n    if c:\n        pass\n") == []


def test_a_case_whose_pattern_came_before():
    before = "match x:\n    case 1:\n        f()\n    case 2:\n        g()\n"
    assert found(before, before + "    case 1:\n        h()\n") == ["case <module> 1 6"]
    assert found(before, before + "    case 1 if y:\n        h()\n") == []


def test_a_decorator_that_is_there_twice():
    assert found("@a\n@b\ndef f(): ...\n", "@a\n@b\n@a\ndef f(): ...\n") == ["decorator f a 3"]


def test_what_stands_above_a_class_body():
    plain = "@a\nclass C(B, x=1):\n    @a\n    def f(self): ...\n"
    assert found(plain, plain.replace("@a\nclass", "@a\n@a\nclass")) == ["decorator C a 2"]
    assert found(plain, plain.replace("x=1", "x=1, x=2")) == ["keyword C x 2"]
    assert found(plain, plain.replace("(B,", "(B(y=1, y=2),")) == ["keyword <module> y 2"]
    assert found(plain, plain.replace("    @a", "    @a\n    @a")) == ["decorator C.f a 4"]


def test_an_operand_that_is_there_twice():
    assert found("x = a or b", "x = a or b or a") == ["operand <module> a 1"]


def test_a_statement_that_is_there_twice():
    before = "def f(x):\n    g(x)\n    h(x)\n"
    after = "def f(x):\n    g(x)\n    h(x)\n    g( x )\n"
    assert found(before, after) == ["statement f g(x) 4"]
    twice = "def f(x):\n    if x:\n        g(x)\n    if x:\n        g(x)\n"
    assert found("def f(x): ...\n", twice) == ["statement f if x: 4"]


def test_a_long_statement_is_shown_in_part():
    call = f"register({'a' * 100})"
    (item,) = doubled(b"", f"{call}\n{call}\n".encode())
    assert item.name == f"register({'a' * 70}…"


def test_a_statement_of_the_module_or_a_class_body_that_is_there_twice():
    assert found("register(a)\n", "register(a)\nx = 1\nregister(a)\n") == [
        "statement <module> register(a) 3"
    ]
    assert found("class C:\n    f()\n", "class C:\n    f()\n    f()\n") == ["statement C f() 3"]


@pytest.mark.parametrize(
    "after",
    [
        "def f(x):\n    x += 1\n    x += 1\n",
        "def f(x):\n    if x:\n        g(x)\n    else:\n        g(x)\n",
        "def f(x):\n    '''a'''\n    '''a'''\n    ...\n    ...\n",
        "def f(x):\n    if x:\n        return 1\n    return 1\n",
        "def f(x):\n    def g():\n        h(x)\n    h(x)\n",
    ],
)
def test_a_statement_that_is_repeated_for_a_reason(after):
    assert found("def f(x): ...\n", after) == []


def test_what_was_there_twice_before_is_not_new():
    text = 'f(a=1, a=1)\nD = {"a": 1, "a": 2}\ndef f(x):\n    g(x)\n    g(x)\n'
    assert found(text, "import y\n" + text) == []
    assert found(text, text.replace("g(x)\n    g(x)", "g(x)\n    g(x)\n    g(x)")) == [
        "statement f g(x) 6"
    ]


def test_what_the_author_doubled_is_allowed_where_he_did():
    base, authored = source("def f():\n    g()\n"), source("def f():\n    sync()\n    sync()\n")
    target = source("def f():\n    g(1)\n\ndef h(): ...\n")
    there = source("def f():\n    sync()\n    sync()\n\ndef h(): ...\n")
    more = source("def f():\n    sync()\n    sync()\n    sync()\n\ndef h(): ...\n")
    assert doubled_beyond(base, authored, target, there) == ()
    assert doubled_beyond(base, authored, target, more) == (Doubled("statement", "f", "sync()", 4),)


def test_what_the_author_doubled_is_allowed_once_in_a_renamed_definition():
    base, authored = source("def f(): ...\n"), source("def f():\n    sync()\n    sync()\n")
    target = source("def moved(): ...\ndef other(): ...\n")
    body = "    sync()\n    sync()\n"
    once = source(f"def moved():\n{body}def other(): ...\n")
    twice = source(f"def moved():\n{body}def other():\n{body}")
    assert doubled_beyond(base, authored, target, once) == ()
    assert doubled_beyond(base, authored, target, twice) == (
        Doubled("statement", "other", "sync()", 6),
    )


def test_an_edit_that_upstream_has_already_is_doubled_though_its_author_added_it_once():
    base, authored = source("def f(x):\n    g(x)\n"), source("def f(x):\n    check(x)\n    g(x)\n")
    target = source("def f(x):\n    check(x)\n    y = x\n    g(x)\n")
    result = source("def f(x):\n    check(x)\n    y = x\n    check(x)\n    g(x)\n")
    assert doubled_beyond(base, authored, target, result) == (
        Doubled("statement", "f", "check(x)", 4),
    )


def test_the_same_text_is_never_doubled():
    text = source("f(a=1, a=1)\n")
    assert doubled(text, text) == ()
