"""What the arguments of a call bind to, in base and target."""

from __future__ import annotations

import pytest

from patchkit.outcome import Drift
from tests.drift.trees import HOST, found, said

CALL = "from vllm.a import f\n\n\ndef g(x):\n    return f(x, 2)\n"
WAS = "in 0.28.0 (vllm/a.py:1)"
NOW = "in 0.29.0 (vllm/a.py:1)"


def test_an_argument_binds_to_a_parameter_that_was_put_in() -> None:
    base = {"vllm/a.py": "def f(a, b=1): ...\n"}
    target = {"vllm/a.py": "def f(a, c=0, b=1): ...\n"}
    assert found(base, target, CALL) == [
        Drift(
            "call",
            "f",
            f"{HOST}:10",
            f"argument 2 of `f` binds to `b` {WAS} and to `c` {NOW}",
            "function f(a, b=1)",
            "function f(a, c=0, b=1)",
        )
    ]


@pytest.mark.parametrize(
    ("target", "texts"),
    [
        (
            "def f(b, a): ...",
            [
                f"argument 1 of `f` binds to `a` {WAS} and to `b` {NOW}; "
                f"argument 2 of `f` binds to `b` {WAS} and to `a` {NOW}"
            ],
        ),
        (
            "def f(a, *, b): ...",
            [f"argument 2 of `f` binds to `b` {WAS} and by keyword alone {NOW}"],
        ),
        ("def f(a): ...", [f"argument 2 of `f` binds to `b` {WAS} and to nothing {NOW}"]),
        (
            "def f(a, b, c): ...",
            [f"`c` of `f`, which the call does not pass, is required {NOW} and not {WAS}"],
        ),
        (
            "def f(a, b, *, c): ...",
            [f"`c` of `f`, which the call does not pass, is required {NOW} and not {WAS}"],
        ),
        ("async def f(a, b): ...", [f"`f` is a function {WAS} and an async function {NOW}"]),
        (
            "class f:\n    def __init__(self, a, b): ...",
            [f"`f` is a function {WAS} and a class {NOW}"],
        ),
        (
            "@contextmanager\ndef f(a, b): ...",
            [f"`f` is a function {WAS} and a context manager in 0.29.0 (vllm/a.py:2)"],
        ),
    ],
)
def test_what_a_call_feels(target: str, texts: list[str]) -> None:
    assert said("def f(a, b): ...\n", f"{target}\n", CALL) == texts


@pytest.mark.parametrize(
    "target",
    [
        "def f(a, b, c=1): ...",
        "def f(a, b, *, c=1): ...",
        "def f(a, b, *rest, **options): ...",
        "def f(a, b=2): ...",
        "def f(a: int, b: int) -> int: ...",
        "def f(*arguments): ...",
        "def f(a, *rest): ...",
        "@wrapped\ndef f(b, a): ...",
        "def f(a, b):\n    return a\n\n\nclass f: ...",
    ],
)
def test_what_a_call_does_not_feel_or_nobody_can_tell(target: str) -> None:
    assert said("def f(a, b): ...\n", f"{target}\n", CALL) == []


def test_a_keyword_that_is_no_longer_accepted() -> None:
    code = "from vllm.a import f\nX = f(1, b=2)\n"
    base = {"vllm/a.py": "def f(a, b): ...\n"}
    (drift,) = found(base, {"vllm/a.py": "def f(a): ...\n"}, code)
    assert drift == Drift(
        "keyword",
        "b",
        f"{HOST}:7",
        f"keyword `b` is accepted by `f` {WAS} and not {NOW}",
        "function f(a, b)",
        "function f(a)",
    )
    assert found(base, {"vllm/a.py": "def f(a, **more): ...\n"}, code) == []


def test_the_default_of_a_parameter_that_is_not_passed() -> None:
    base, target = "def f(a, b, c=1): ...\n", "def f(a, b, c=2): ...\n"
    assert said(base, target, CALL) == [
        f"`c` of `f`, which the call does not pass, is `1` {WAS} and `2` {NOW}"
    ]
    passed = "from vllm.a import f\nX = f(1, 2, c=3)\n"
    assert said(base, target, passed) == []
    assert said("def f(a, b, c=m.X): ...\n", "def f(a, b, c=n.X): ...\n", CALL) == []


def test_a_parameter_that_only_has_another_name() -> None:
    base = "def f(a, size: int):\n    check(size)\n    return a[:size]\n"
    renamed = "def f(a, length: int):\n    check(length)\n    return a[:length]\n"
    assert said(base, renamed, CALL) == []
    partly = "def f(a, length: int):\n    check(length)\n    return a[0:length]\n"
    assert said(base, partly, CALL) == []
    replaced = "def f(a, stride: int):\n    return a[::stride]\n"
    text = f"argument 2 of `f` binds to `size` {WAS} and to `stride` {NOW}"
    assert said(base, replaced, CALL) == [text]
    retyped = "def f(a, size_: str):\n    check(size_)\n    return a[:size_]\n"
    assert said(base, retyped, CALL) == [text.replace("stride", "size_")]
    kept = "def f(a, length: int, size: int = 0):\n    check(length)\n    return a[:length]\n"
    assert said(base, kept, CALL) == [text.replace("stride", "length")]


def test_arguments_that_are_not_seen_are_not_judged() -> None:
    base, target = "def f(a, b=1): ...\n", "def f(a, c=0, b=1, *, d=2): ...\n"
    assert said(base, target, "from vllm.a import f\nX = f(*Y)\n") == []
    assert said(base, target, "from vllm.a import f\nX = f(0, **Y)\n") == []
    required = "def f(a, b=1, *, d): ...\n"
    assert said(base, required, "from vllm.a import f\nX = f(0, **Y)\n") == []
    assert said(base, target, "from vllm.a import f\nX = f(0, 1, *Y)\n") == [
        f"argument 2 of `f` binds to `b` {WAS} and to `c` {NOW}"
    ]


def test_a_call_that_the_base_would_refuse_is_of_something_else() -> None:
    code = "from vllm.a import f\nX = f(1, 2, 3)\n"
    assert said("def f(a, b): ...\n", "def f(b): ...\n", code) == []


def test_decorators_that_fill_parameters_in() -> None:
    base = "@tuned('X=1')\ndef f(a, b, X): ...\n"
    more = "@tuned('X=1, Y=2')\ndef f(a, b, X, Y): ...\n"
    assert said(base, more, CALL) == []
    inserted = "@tuned('X=1')\ndef f(a, n, b, X): ...\n"
    assert said(base, inserted, CALL) == [
        "argument 2 of `f` binds to `b` in 0.28.0 (vllm/a.py:2) and to `n` in 0.29.0 (vllm/a.py:2)"
    ]


def test_a_kernel_with_its_grid() -> None:
    base = "@triton.jit\ndef kernel(x_ptr, n, BLOCK: tl.constexpr): ...\n"
    target = "@triton.jit\ndef kernel(x_ptr, stride, n, BLOCK: tl.constexpr): ...\n"
    code = """
        from vllm.a import kernel


        def launch(x, n):
            kernel[(n,)](x, n, BLOCK=16, num_warps=4)
    """
    assert said(base, target, code) == [
        "argument 2 of `kernel` binds to `n` in 0.28.0 (vllm/a.py:2) "
        "and to `stride` in 0.29.0 (vllm/a.py:2)"
    ]


# Classes


def test_a_constructor() -> None:
    base = "class C:\n    def __init__(self, a, b): ...\n"
    target = "class C:\n    def __init__(self, b, a): ...\n"
    code = "from vllm.a import C\nX = C(1, 2)\n"
    assert said(base, target, code) == [
        f"argument 1 of `C` binds to `a` {WAS} and to `b` {NOW}; "
        f"argument 2 of `C` binds to `b` {WAS} and to `a` {NOW}"
    ]
    inherited = {"vllm/a.py": "from vllm.b import B\nclass C(B): ...\n", "vllm/b.py": ""}
    assert said(
        inherited | {"vllm/b.py": "class B:\n    def __init__(self, a, b): ...\n"},
        inherited | {"vllm/b.py": "class B:\n    def __init__(self, a): ...\n"},
        code,
    ) == [
        "argument 2 of `C` binds to `b` in 0.28.0 (vllm/a.py:2) "
        "and to nothing in 0.29.0 (vllm/a.py:2)"
    ]


FIELDS = "@dataclass\nclass Base:\n    a: int\n\n\n@dataclass\nclass C(Base):\n    b: int = 1\n"


def test_the_fields_of_a_dataclass_and_its_bases() -> None:
    code = "from vllm.a import C\nX = C(1, 2)\n"
    inserted = FIELDS.replace("    a: int\n", "    a: int\n    n: int = 0\n")
    assert said(FIELDS, inserted, code) == [
        "argument 2 of `C` binds to `b` in 0.28.0 (vllm/a.py:7) and to `n` in 0.29.0 (vllm/a.py:8)"
    ]
    by_keyword = FIELDS.replace("@dataclass\nclass C", "@dataclass(kw_only=True)\nclass C")
    assert said(FIELDS, by_keyword, code) == [
        "argument 2 of `C` binds to `b` in 0.28.0 (vllm/a.py:7) "
        "and by keyword alone in 0.29.0 (vllm/a.py:7)"
    ]
    for harmless in (
        "    n: ClassVar[int] = 0\n",
        "    n: int = field(init=False)\n",
        "    n = 0\n",
    ):
        same = FIELDS.replace("    a: int\n", f"{harmless}    a: int\n")
        assert said(FIELDS, same, code) == []
    assert said(FIELDS, FIELDS.replace("(Base)", "(Elsewhere)"), code) == []


def test_the_default_of_a_field_is_that_of_a_parameter() -> None:
    code = "from vllm.a import C\nX = C(1)\n"
    target = FIELDS.replace("b: int = 1", "b: int = field(default=2)")
    assert said(FIELDS, target, code) == [
        "`b` of `C`, which the call does not pass, is `1` in 0.28.0 (vllm/a.py:7) "
        "and `2` in 0.29.0 (vllm/a.py:7)"
    ]
    assert said(FIELDS, target.replace("=2", "=1"), code) == []
    required = FIELDS.replace("b: int = 1", "b: int = field(repr=False)")
    assert said(FIELDS, required, code) == [
        "`b` of `C`, which the call does not pass, is required in 0.29.0 (vllm/a.py:7) "
        "and not in 0.28.0 (vllm/a.py:7)"
    ]


def test_the_fields_of_a_named_tuple() -> None:
    base = "class C(NamedTuple):\n    a: int\n    b: int = 1\n"
    code = "from vllm.a import C\nX = C(1, 2)\n"
    assert said(base, base.replace("    b", "    n: int = 0\n    b"), code) == [
        f"argument 2 of `C` binds to `b` {WAS} and to `n` {NOW}"
    ]
    plain = base.replace("(NamedTuple)", "")
    assert said(plain, plain.replace("    b", "    n: int = 0\n    b"), code) == []


def test_a_field_that_says_itself_that_it_is_required() -> None:
    code = "from vllm.a import C\nX = C(1)\n"
    required = FIELDS.replace("b: int = 1", "b: int = Field(..., gt=0)")
    assert len(said(FIELDS, required, code)) == 1
    given = FIELDS.replace("b: int = 1", "b: int = Field(1, gt=0)")
    assert said(FIELDS, given, code) == []
    made = FIELDS.replace("b: int = 1", "b: int = field(default_factory=int)")
    assert said(FIELDS, made, code) == [
        "`b` of `C`, which the call does not pass, is `1` in 0.28.0 (vllm/a.py:7) "
        "and `int()` in 0.29.0 (vllm/a.py:7)"
    ]


def test_a_decorator_of_the_package_that_makes_dataclasses() -> None:
    maker = "@dataclass_transform()\ndef config(cls): ...\n\n\n@config\nclass C:\n    a: int\n"
    code = "from vllm.a import C\nX = C(a=1)\n"
    assert said(maker, maker.replace("a: int", "b: int"), code) == [
        "keyword `a` is accepted by `C` in 0.28.0 (vllm/a.py:6) and not in 0.29.0 (vllm/a.py:6)",
        "`b` of `C`, which the call does not pass, is required in 0.29.0 (vllm/a.py:6) "
        "and not in 0.28.0 (vllm/a.py:6)",
    ]


METHODS = """
class C:
    def m(self, a, b): ...

    @classmethod
    def c(cls, a, b): ...

    @staticmethod
    def s(a, b): ...
"""


@pytest.mark.parametrize(
    ("call", "name", "line"),
    [
        ("C.c(1, 2)", "c", 5),
        ("C.s(1, 2)", "s", 8),
        ("C().m(1, 2)", "m", 2),
        ("C.m(0, 1, 2)", "m", 2),
    ],
)
def test_methods(call: str, name: str, line: int) -> None:
    target = METHODS.replace("a, b", "n, a, b")
    at = f"(vllm/a.py:{line})"
    first = 1 if not call.startswith("C.m") else 2
    (text,) = said(METHODS, target, f"from vllm.a import C\nX = {call}\n")
    assert text.startswith(
        f"argument {first} of `C.{name}` binds to `a` in 0.28.0 {at} and to `n` in 0.29.0 {at}"
    )
    same = METHODS.replace("a, b", "a, b, n=0")
    assert said(METHODS, same, f"from vllm.a import C\nX = {call}\n") == []


def test_a_static_method_that_became_a_plain_one() -> None:
    target = METHODS.replace("    @staticmethod\n    def s(a", "    def s(self, a")
    assert said(METHODS, target, "from vllm.a import C\nX = C().s(1, 2)\n") == []
    (text,) = said(METHODS, target, "from vllm.a import C\nX = C.s(1, 2)\n")
    assert text.startswith(
        "argument 1 of `C.s` binds to `a` in 0.28.0 (vllm/a.py:8) "
        "and to `self` in 0.29.0 (vllm/a.py:7)"
    )


def test_a_context_manager_by_decorator_or_by_what_it_returns() -> None:
    base = "@contextmanager\ndef f(a, b) -> Iterator[None]: ...\n"
    assert said(base, "def f(a, b) -> AbstractContextManager[None]: ...\n", CALL) == []
    assert said(base, "def f(a, b) -> Iterator[None]: ...\n", CALL) == [
        "`f` is a context manager in 0.28.0 (vllm/a.py:2) and a function in 0.29.0 (vllm/a.py:1)"
    ]


def test_a_method_that_became_a_property() -> None:
    base = "class C:\n    def m(self): ...\n"
    target = "class C:\n    @property\n    def m(self): ...\n"
    assert said(base, target, "from vllm.a import C\nX = C().m()\n") == [
        "`C.m` is a method in 0.28.0 (vllm/a.py:2) and a property in 0.29.0 (vllm/a.py:3)"
    ]
    assert said(target, base, "from vllm.a import C\nX = C().m\n") == [
        "`C.m` is a property in 0.28.0 (vllm/a.py:3) and a method in 0.29.0 (vllm/a.py:2)"
    ]


def test_methods_of_the_class_that_the_code_is_in_and_of_its_bases() -> None:
    host = "from vllm.a import B\n\n\nclass C(B):\n    x = 1\n"
    code = "    def g(self):\n        return self.m(1), super().m(1), self.x\n"
    patched = {HOST: host, "vllm/a.py": "class B:\n    def m(self, a): ...\n"}
    target = {HOST: host, "vllm/a.py": "class B:\n    def m(self, n, a): ...\n"}
    texts = [d.text for d in found(patched, target, f"#\n{code}")]
    assert texts == [
        "argument 1 of `B.m` binds to `a` in 0.28.0 (vllm/a.py:2) "
        "and to `n` in 0.29.0 (vllm/a.py:2)"
    ]


# Where callees are


def test_a_callee_that_only_moved_does_not_drift() -> None:
    base = {"vllm/a.py": "def f(a, b): ...\n"}
    target = {"vllm/a.py": "from .b import f\n", "vllm/b.py": "#\n\ndef f(a, b): ...\n"}
    assert said(base, target, CALL) == []
    moved = target | {"vllm/b.py": "#\n\ndef f(b, a): ...\n"}
    assert said(base, moved, CALL) == [
        f"argument 1 of `f` binds to `a` {WAS} and to `b` in 0.29.0 (vllm/b.py:3); "
        f"argument 2 of `f` binds to `b` {WAS} and to `a` in 0.29.0 (vllm/b.py:3)"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import vllm.a\nX = vllm.a.f(1, 2)\n",
        "import vllm.a as m\nX = m.f(1, 2)\n",
        "from vllm import a\nX = a.f(1, 2)\n",
        "from .a import f as h\nX = h(1, 2)\n",
        "from vllm.a import (  # both\n    e,\n    f,\n)\nX = f(1, 2)\n",
        "def g():\n    from vllm.a import f\n    return f(1, 2)\n",
        "async def g():\n    from vllm.a import f\n    return await f(1, 2)\n",
        "from vllm.a import *\nX = f(1, 2)\n",
    ],
)
def test_the_ways_to_name_a_callee(code: str) -> None:
    files = {"vllm/__init__.py": "", "vllm/c.py": "def f(): ...\n"}
    base = files | {"vllm/a.py": "e = 1\ndef f(a, b): ...\n"}
    target = files | {"vllm/a.py": "e = 1\ndef f(a, n, b=0): ...\n"}
    assert said(base, target, code) == [
        "argument 2 of `f` binds to `b` in 0.28.0 (vllm/a.py:2) and to `n` in 0.29.0 (vllm/a.py:2)"
    ]


def test_a_callee_in_a_branch_or_bound_twice() -> None:
    base, target = "if X:\n    def f(a, b): ...\n", "if X:\n    def f(b, a): ...\n"
    assert len(said(base, target, CALL)) == 1
    twice = "if X:\n    def f(a, b): ...\nelse:\n    def f(b, a): ...\n"
    assert said(twice, target, CALL) == []


def test_an_import_with_something_to_fall_back_on() -> None:
    tried = "try:\n    from vllm.b import f\nexcept ImportError:\n    def f(z): ...\n"
    base = {"vllm/a.py": tried, "vllm/b.py": "def f(a, b): ...\n"}
    target = base | {"vllm/b.py": "def f(a, n, b=0): ...\n"}
    assert said(base, target, CALL) == [
        "argument 2 of `f` binds to `b` in 0.28.0 (vllm/b.py:1) and to `n` in 0.29.0 (vllm/b.py:1)"
    ]


def test_what_is_called_and_is_no_definition() -> None:
    made, plain = "f = partial(g, 1)\n", "def f(a): ...\n"
    code = "import vllm.a\nX = vllm.a.f(1, 2)\n"
    assert said(made, plain, code) == []
    assert said("def f(a, b): ...\n", made, code) == []
    assert said("class f(Enum):\n    X = 1\n", plain, code) == []


def test_overloads_are_not_the_function() -> None:
    base = "@overload\ndef f(b, a): ...\n@overload\ndef f(a): ...\ndef f(a, b): ...\n"
    assert said(base, base.replace("def f(b, a)", "def f(a, b)"), CALL) == []
    assert len(said(base, base.replace("def f(a, b)", "def f(b, a)"), CALL)) == 1


def test_what_the_patch_defines_itself_does_not_drift() -> None:
    code = "def f(a, b): ...\n\n\ndef g():\n    return f(1, 2)\n"
    assert said("def f(b): ...\n", "def f(c): ...\n", code) == []


def test_what_another_package_defines_does_not_drift() -> None:
    code = "import torch\nX = torch.narrow(0, 1, 2), torch.empty(1).narrow(1, 2)\n"
    files = {"torch/__init__.py": "def narrow(x, a, b): ...\n"}
    assert said(files, {"torch/__init__.py": "def narrow(x, b, a): ...\n"}, code) == []


# Calls of which only the name is known


def test_the_only_method_of_a_name() -> None:
    base = "class C:\n    def find_page(self, a, b): ...\n"
    target = "class C:\n    def find_page(self, b, a): ...\n"
    code = "def g(x):\n    return x.y.find_page(1, 2)\n"
    assert said(base, target, code) == [
        "argument 1 of `C.find_page` binds to `a` in 0.28.0 (vllm/a.py:2) "
        "and to `b` in 0.29.0 (vllm/a.py:2); "
        "argument 2 of `C.find_page` binds to `b` in 0.28.0 (vllm/a.py:2) "
        "and to `a` in 0.29.0 (vllm/a.py:2)"
    ]
    two = base + "\n\nclass D:\n    def find_page(self, a): ...\n"
    assert said(two, target, code) == []
    assert said(base, target + two.replace(base, ""), code) == []
    assert said(base, target, "def g(x):\n    return x.find_page(1, 2, 3)\n") == []
    built_in = [t.replace("find_page", "find") for t in (base, target, code)]
    assert said(*built_in) == []


def test_a_name_read_of_a_module_that_no_longer_has_it() -> None:
    base = {"vllm/u.py": "def plan(a):\n    return a\n", "vllm/v.py": ""}
    target = {"vllm/u.py": "", "vllm/v.py": "def plan(a):\n    return a\n"}
    for needs, call in (("from vllm import u", "u"), ("import vllm.u as w", "w")):
        (text,) = said(base, target, f"{needs}\n\n\ndef probe(a):\n    return {call}.plan(a)\n")
        assert "plan" in text
    served = {**target, "vllm/u.py": "from vllm.v import *\n"}
    assert said(base, served, "from vllm import u\n\n\ndef probe(a):\n    return u.plan(a)\n") == []


def test_a_keyword_of_the_new_name_is_no_sign_of_a_rename() -> None:
    before = "class K:\n    def m(self, a, old=1):\n        return super().m(a, old=old)\n"
    after = before.replace("old", "new")
    code = "from vllm.a import K\n\n\ndef probe(k: K):\n    return k.m(1, 2)\n"
    (text,) = said(before, after, code)
    assert "`old`" in text
    assert "`new`" in text


def test_annotations_that_are_no_expressions_are_left_alone() -> None:
    base = "def f(a: 'x y', b=1):\n    return a\n"
    code = "from vllm.a import f\n\n\ndef probe():\n    return f('t')\n"
    assert said(base, base.replace("b=1", "b=1, c=2"), code) == []
