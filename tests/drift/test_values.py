"""Members, constants, fields and imports that new code reads."""

from __future__ import annotations

import pytest

from patchkit.outcome import Drift
from tests.drift.trees import HOST, found, said

MODES = """
class Mode(IntEnum):
    NONE = 0
    INT8 = 1
    FP4 = 2
"""
READ = "from vllm.a import Mode\n\n\ndef g(mode):\n    return mode == Mode.FP4\n"


def test_a_member_with_another_value() -> None:
    base = {"vllm/a.py": MODES}
    target = {"vllm/a.py": MODES.replace("    FP4 = 2", "    INT4 = 2\n    FP4 = 3")}
    assert found(base, target, READ) == [
        Drift(
            "value",
            "FP4",
            f"{HOST}:10",
            "`Mode.FP4` is `2` in 0.28.0 (vllm/a.py:4) and `3` in 0.29.0 (vllm/a.py:5)",
            "2",
            "3",
        )
    ]


@pytest.mark.parametrize(
    ("target", "texts"),
    [
        (
            MODES.replace("    FP4 = 2\n", ""),
            [
                "`Mode.FP4` is defined in 0.28.0 (vllm/a.py:4) "
                "and `Mode` has no `FP4` in 0.29.0 (vllm/a.py:1)"
            ],
        ),
        (
            MODES.replace("FP4 = 2", "FP4 = 1"),
            [
                "`Mode.FP4` is `2` in 0.28.0 (vllm/a.py:4) "
                "and `1`, which is `INT8` in 0.29.0 (vllm/a.py:4)"
            ],
        ),
        (
            MODES.replace("    FP4", "    INT4 = 2\n    FP4"),
            [
                "`Mode.FP4` is `2` in 0.28.0 (vllm/a.py:4) "
                "and `2`, which is `INT4` in 0.29.0 (vllm/a.py:5)"
            ],
        ),
        (MODES + "    INT4 = 3\n", []),
        (MODES.replace("    NONE = 0\n", ""), []),
        ("from vllm.b import Mode\n", []),
        ("from elsewhere import Mode\n", []),
    ],
)
def test_what_a_read_of_a_member_feels(target: str, texts: list[str]) -> None:
    files = {"vllm/b.py": MODES}
    assert said(files | {"vllm/a.py": MODES}, files | {"vllm/a.py": target}, READ) == texts


@pytest.mark.parametrize(
    ("kind", "read", "drifts"),
    [
        ("IntEnum", "Mode.FP4", ["`2`", "`3`"]),
        ("Flag", "Mode.FP4", ["`2`", "`4`"]),
        ("Enum", "Mode.FP4", []),
        ("Enum", "Mode.FP4.value", ["`2`", "`3`"]),
        ("StrEnum", "Mode.FP4.value", []),
    ],
)
def test_members_that_are_numbered_by_position(kind: str, read: str, drifts: list[str]) -> None:
    base = f"class Mode({kind}):\n    NONE = auto()\n    FP4 = auto()\n"
    target = base.replace("    FP4", "    INT4 = auto()\n    FP4")
    texts = said(base, target, f"from vllm.a import Mode\nX = {read}\n")
    places = "0.28.0 (vllm/a.py:3)", "0.29.0 (vllm/a.py:4)"
    joined = " and ".join(f"{d} in {p}" for d, p in zip(drifts, places, strict=False))
    assert texts == ([f"`Mode.FP4` is {joined}"] if drifts else [])


def test_a_member_that_names_what_moved() -> None:
    base = "class Backend(Enum):\n    FLASH = 'vllm.v1.flash.Backend'\n"
    code = "from vllm.a import Backend\nX = Backend.FLASH\n"
    assert said(base, base.replace("v1.flash", "v2.flash"), code) == []
    assert said(base, base.replace("flash.Backend", "flash.Other"), code) == [
        "`Backend.FLASH` is `'vllm.v1.flash.Backend'` in 0.28.0 (vllm/a.py:2) "
        "and `'vllm.v1.flash.Other'` in 0.29.0 (vllm/a.py:2)"
    ]


# Constants


@pytest.mark.parametrize(
    ("base", "target", "drifts"),
    [
        ("LIMIT = 8", "LIMIT = 16", True),
        ("LIMIT: int = 8", "LIMIT: int = 16", True),
        ("LIMIT = 64 * 1024", "LIMIT = 128 * 1024", True),
        ("LIMIT = -1", "LIMIT = 0", True),
        ("LIMIT = (1, 2)", "LIMIT = (1, 3)", True),
        ("LIMIT = 8", "LIMIT = 8  # bytes", False),
        ("LIMIT = None", "LIMIT = 8", False),
        ("LIMIT = get()", "LIMIT = get(1)", False),
        ("LIMIT = [1]", "LIMIT = [2]", False),
        ("LIMIT, X = 1, 2", "LIMIT, X = 3, 4", False),
    ],
)
def test_a_constant_of_a_module(base: str, target: str, drifts: bool) -> None:
    for code in (
        "from vllm.a import LIMIT\nX = LIMIT\n",
        "import vllm.a\n\n\ndef g():\n    return vllm.a.LIMIT\n",
    ):
        texts = said(base, target, code)
        was, now = (side.partition("= ")[2] for side in (base, target))
        assert texts == (
            [f"`LIMIT` is `{was}` in 0.28.0 (vllm/a.py:1) and `{now}` in 0.29.0 (vllm/a.py:1)"]
            if drifts
            else []
        )


def test_a_constant_of_the_host_itself() -> None:
    base = {HOST: "LIMIT = 8\n\n\ndef f():\n    return LIMIT\n"}
    target = {HOST: base[HOST].replace("8", "9")}
    code = "def g():\n    return LIMIT + 1\n\n\ndef h(LIMIT):\n    return LIMIT + 2\n"
    assert [d.read_at for d in found(base, target, code)] == [f"{HOST}:9"]
    assert found(base, target, "def g():\n    LIMIT, x = 1, 2\n    return LIMIT\n") == []
    assert found(base, target, "def g():\n    global LIMIT\n    LIMIT = 3\n") == []


CLASS = "class C:\n    fast: bool = True\n"


def test_a_constant_of_a_class() -> None:
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.fast\n"
    flipped = CLASS.replace("True", "False")
    assert said(CLASS, flipped, code) == [
        "`C.fast` is `True` in 0.28.0 (vllm/a.py:2) and `False` in 0.29.0 (vllm/a.py:2)"
    ]
    set_later = "\n    def __init__(self):\n        self.fast = guess()\n"
    assert said(CLASS + set_later, flipped + set_later, code) == []
    made = "@dataclass\n"
    assert said(made + CLASS, made + flipped, code) == []
    shared = "    fast: ClassVar[bool] = "
    texts = said(
        made + CLASS.replace("    fast: bool = ", shared),
        made + flipped.replace("    fast: bool = ", shared),
        code,
    )
    assert texts == [
        "`C.fast` is `True` in 0.28.0 (vllm/a.py:3) and `False` in 0.29.0 (vllm/a.py:3)"
    ]


# Fields


@pytest.mark.parametrize(
    ("base", "target", "drifts"),
    [
        ("int", "int | None", True),
        ("int | None", "int", False),
        ("int | None", "Optional[int]", False),
        ("int", "'int'", False),
        ("int", "str", True),
        ("torch.Tensor", "Tensor", False),
        ("List[int]", "list[int]", False),
        ("list[int]", "list[str]", True),
        ("SkipValidation[int]", "int", False),
        ("PretrainedConfig", "PreTrainedConfig", False),
        ("Union[int, str]", "str | int", False),
        ("bool", "bool | Tensor", True),
        ("Iterable['D']", "Iterable[D]", False),
        ("Annotated[int, 'bytes']", "int", False),
    ],
)
def test_the_type_of_a_field(base: str, target: str, drifts: bool) -> None:
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.x\n"
    texts = said(f"class C:\n    x: {base}\n", f"class C:\n    x: {target}\n", code)
    assert bool(texts) is drifts


def test_a_type_is_shown_in_one_spelling() -> None:
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.x\n"
    assert said("class C:\n    x: int\n", "class C:\n    x: Optional[int]\n", code) == [
        "`C.x` is `int` in 0.28.0 (vllm/a.py:2) and `None | int` in 0.29.0 (vllm/a.py:2)"
    ]


def test_a_type_that_upstream_renamed() -> None:
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.x\n"
    base = "class Old: ...\nclass C:\n    x: Old\n"
    assert said(base, base.replace("Old", "New"), code) == []
    both = "class Old: ...\nclass New: ...\nclass C:\n    x: New\n"
    assert len(said(base, both, code)) == 1
    more = base.replace("x: Old", "x: Old | New").replace("class C", "class New: ...\nclass C")
    assert len(said(base, more, code)) == 1


def test_a_field_that_its_class_no_longer_has() -> None:
    base = {"vllm/a.py": "class C:\n    x: int\n", "vllm/b.py": "class D:\n    x: int\n"}
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.x\n"

    def without(text: str) -> list[str]:
        return said(base, base | {"vllm/a.py": text}, code)

    gone = [
        "`C.x` is defined in 0.28.0 (vllm/a.py:2) "
        "and `C` has no `x` in 0.29.0 (vllm/a.py:1)"
    ]  # fmt: skip
    assert without("class C:\n    y: int\n") == gone
    assert without("class B:\n    x: int\nclass C(B):\n    y: int\n") == []
    assert without("class C(Elsewhere):\n    y: int\n") == []
    assert without("class C:\n    def __getattr__(self, name): ...\n") == []
    assert without("class C:\n    def __init__(self):\n        self.x = 1\n") == []
    assert without("class C:\n    @property\n    def x(self): ...\n") == []


PROPERTY = "class C:\n    @property\n    def x(self): ...\n"


@pytest.mark.parametrize("body", ["c.x = 1", "c.x, y = 1, 2", "return replace(c, x=1)"])
def test_a_field_that_is_set(body: str) -> None:
    code = f"from vllm.a import C\n\n\ndef g(c: C):\n    {body}\n"
    base = "class C:\n    x: int\n"
    assert said(base, "class C:\n    x: int\n    y: int\n", code) == []
    assert said(base, PROPERTY, code) == [
        "`C.x` is a variable in 0.28.0 (vllm/a.py:2) and a property in 0.29.0 (vllm/a.py:3)"
    ]
    assert said(base, PROPERTY + "    @x.setter\n    def x(self, to): ...\n", code) == []
    assert said(PROPERTY, base, code) == []
    elsewhere = "\n\nclass D:\n    x: int\n"
    assert said(base, f"class C: ...{elsewhere}", code) == [
        "`C.x` is defined in 0.28.0 (vllm/a.py:2) and `C` has no `x` in 0.29.0 (vllm/a.py:1)"
    ]


def test_a_field_that_became_a_method() -> None:
    code = "from vllm.a import C\n\n\ndef g(c: C):\n    return c.x\n"
    assert said("class C:\n    x: int\n", "class C:\n    def x(self): ...\n", code) == [
        "`C.x` is a variable in 0.28.0 (vllm/a.py:2) and a method in 0.29.0 (vllm/a.py:2)"
    ]


def test_the_only_member_of_a_name_is_meant_by_whoever_reads_it() -> None:
    base = "class C:\n    wide_pages = 1\n"
    code = "def g(x):\n    return x.y.wide_pages\n"
    assert said(base, base.replace("1", "2"), code) == [
        "`C.wide_pages` is `1` in 0.28.0 (vllm/a.py:2) and `2` in 0.29.0 (vllm/a.py:2)"
    ]
    second = "class B:\n    narrow = 1\nclass D(Elsewhere):\n    narrow = 1\n" + base
    assert len(said(second, second.replace("wide_pages = 1", "wide_pages = 2"), code)) == 1
    two = base + "class D:\n    wide_pages = 1\n"
    assert said(two, base.replace("1", "2"), code) == []
    assert said(base, two.replace("1", "2"), code) == []
    stored = "def f(x):\n    x.wide_pages = 1\n"
    assert said(base + stored, base.replace("1", "2"), code) == []
    built_in = [t.replace("wide_pages", "index") for t in (base, base.replace("1", "2"), code)]
    assert said(*built_in) == []


# Choices

DTYPES = "DType = Literal['auto', 'fp8', 'int8']\nclass Config:\n    dtype: DType = 'auto'\n"


@pytest.mark.parametrize(
    "test",
    ["c.dtype == 'fp8'", "'fp8' == c.dtype", "c.dtype in ('fp8', 'x')", "c.dtype not in ['fp8']"],
)
def test_a_text_that_a_type_no_longer_allows(test: str) -> None:
    code = f"from vllm.a import Config\n\n\ndef g(c: Config):\n    return {test}\n"
    assert said(DTYPES, DTYPES.replace("'fp8', ", ""), code) == [
        "`c.dtype` may be `'fp8'` in 0.28.0 and not in 0.29.0"
    ]
    assert said(DTYPES, DTYPES.replace("'int8'", "'int8', 'nvfp4'"), code) == []
    assert said(DTYPES, DTYPES.replace("'int8'", "'int4'"), code) == []
    free = DTYPES.replace("'fp8', ", "").replace(": DType", ": DType | str")
    assert "choice" not in {d.kind for d in found({"vllm/a.py": DTYPES}, {"vllm/a.py": free}, code)}


def test_a_text_that_is_passed() -> None:
    base = "A = Literal['x']\nB = Literal[A, 'y']\ndef f(a: 'B | None' = None): ...\n"
    code = "from vllm.a import f\nX = f('y'), f(a='x')\n"
    assert said(base, base.replace("A, 'y'", "A, 'z'"), code) == [
        "`a` of `f` may be `'y'` in 0.28.0 and not in 0.29.0"
    ]
    assert said(base, base.replace("'x'", "'z'"), code) == [
        "`a` of `f` may be `'x'` in 0.28.0 and not in 0.29.0"
    ]
    takes = base.replace("a: 'B | None' = None", "**more")
    code = "from vllm.a import f\nX = f(b='y')\n"
    assert said(takes, takes.replace("**more", "b: A, **more"), code) == []
    refuses = base.replace("a: 'B | None' = None", "")
    assert said(refuses, refuses.replace("f()", "f(b: A)"), code) == []


# Imports


@pytest.mark.parametrize(
    ("base", "target", "words"),
    [
        ("def x(): ...", "class x: ...", ("a function", "a class")),
        ("x = 1", "def x(): ...", ("a variable", "a function")),
        ("class x: ...", "x = Other", ("a class", "a variable")),
    ],
)
def test_an_import_that_is_something_else(base: str, target: str, words: tuple[str, str]) -> None:
    assert said(base, target, "from vllm.a import x\nY = x\n") == [
        f"`x` is {words[0]} in 0.28.0 (vllm/a.py:1) and {words[1]} in 0.29.0 (vllm/a.py:1)"
    ]


def test_an_import_from_where_it_is_only_handed_on() -> None:
    base = {"vllm/a.py": "class x: ...\n"}
    target = {"vllm/a.py": "from vllm.b import y as x\n", "vllm/b.py": "class y: ...\n"}
    assert said(base, target, "from vllm.a import x\nY = x\n") == []
    target["vllm/a.py"] = "from vllm import b\nx = b.y\n"
    target["vllm/__init__.py"] = ""
    assert said(base, target, "from vllm.a import x\nY = x\n") == []
    other = "from vllm import b\nx = b.y = 1\n"
    assert len(said(base, target | {"vllm/a.py": other}, "from vllm.a import x\nY = x\n")) == 1
