"""What is known of an object that new code asks for something."""

from __future__ import annotations

import pytest

from tests.drift.trees import HOST, found, said

FILES = {
    "vllm/spec.py": "class Spec:\n    x: int\n    def m(self) -> 'Spec': ...\n",
    "vllm/other.py": "class Other:\n    x: int\n    def m(self): ...\n",
    "vllm/a.py": """
        from typing import Self

        from vllm.spec import Spec
        from vllm.other import Other
        import torch

        class Config:
            spec: Spec
            maybe: "Spec | None"
            many: list[Spec]
            named: dict[str, Spec]
            pair: tuple[Spec, Other]
            either: Spec | Other
            tensor: torch.Tensor

            @property
            def made(self) -> Spec: ...

            def make(self, deep=False) -> Spec: ...

            def same(self) -> Self: ...

        class Holder:
            def __init__(self, config: Config, spec=None):
                self.config = config
                self.spec = config.spec
                self.own = Spec()
                self.given = spec

        default = Spec()

        def get() -> Config: ...
    """,
}
TARGET = FILES | {"vllm/spec.py": FILES["vllm/spec.py"].replace("x: int", "x: str")}
IMPORTS = "from vllm.a import Config, Holder, default, get\nfrom vllm.spec import Spec\n\n\n"
DRIFT = ["`Spec.x` is `int` in 0.28.0 (vllm/spec.py:2) and `str` in 0.29.0 (vllm/spec.py:2)"]


@pytest.mark.parametrize(
    "body",
    [
        "c.spec.x",
        "c.maybe.x",
        "c.many[0].x",
        "c.named['a'].x",
        "c.made.x",
        "c.make().x",
        "c.same().spec.x",
        "c.spec.m().m().x",
        "get().spec.x",
        "default.x",
        "Spec().x",
        "Holder(c).config.spec.x",
        "Holder(c).spec.x",
        "Holder(c).own.x",
        "cast(Spec, c.tensor).x",
        "replace(c.spec, x=1).x",
        "[s.x for s in c.many]",
        "[s.x for s in c.named.values()]",
        "(await c.make()).x",
    ],
)
def test_objects_whose_class_is_known(body: str) -> None:
    code = f"{IMPORTS}async def g(c: Config):\n    return {body}\n"
    assert said(FILES, TARGET, code) == DRIFT


@pytest.mark.parametrize(
    "body",
    [
        "c.pair[0].x",
        "c.either.x",
        "c.named.x",
        "c.tensor.x",
        "c.unknown.x",
        "Holder(c).given.x",
        "[s.x for s in c.named]",
        "[s.x for s in c.named.items()]",
        "c.make.x",
        "unbound.x",
    ],
)
def test_objects_whose_class_is_not_known(body: str) -> None:
    code = f"{IMPORTS}def g(c: Config):\n    return {body}\n"
    assert said(FILES, TARGET, code) == []


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("s = c.spec\n    return s.x", True),
        ("s: Spec = c.unknown\n    return s.x", True),
        ("s = None\n    s = c.spec\n    return s.x", True),
        ("s = c.spec\n    if c:\n        s = c.made\n    return s.x", True),
        ("for s in c.many:\n        print(s.x)", True),
        ("if (s := c.spec):\n        return s.x", True),
        ("s = c.spec\n    s = c.pair[1]\n    return s.x", False),
        ("s, t = c.spec, 1\n    return s.x", False),
        ("s = s.m()\n    return s.x", False),
        ("with c.spec as s:\n        return s.x", False),
        ("f = lambda c: c.spec.x\n    return f", False),
    ],
)
def test_variables(body: str, known: bool) -> None:
    code = f"{IMPORTS}def g(c: Config):\n    {body}\n"
    assert said(FILES, TARGET, code) == (DRIFT if known else [])


def test_an_object_of_the_class_that_the_code_is_in() -> None:
    host = "from vllm.a import Config, Spec\n\n\nclass C:\n    spec: Spec\n    one = Spec()\n"
    code = """
            def g(self):
                return self.spec.x

            @classmethod
            def h(cls):
                return cls.one.x

            @staticmethod
            def i(self):
                return self.spec.x
    """
    indented = "\n".join(line[8:] for line in code.split("\n"))
    drifts = found({HOST: host} | FILES, {HOST: host} | TARGET, f"#{indented}")
    assert [d.text for d in drifts] == DRIFT


def test_members_are_those_of_the_nearest_class() -> None:
    files = {
        "vllm/a.py": "from vllm.b import B\nclass C(B):\n    x = 1\n",
        "vllm/b.py": "class A:\n    y = 1\n    z = 1\nclass B(A[int]):\n    x = 1\n    y = 1\n",
    }
    code = "from vllm.a import C\nX = C.x, C.y, C.z\n"
    target = files | {"vllm/b.py": files["vllm/b.py"].replace("= 1", "= 2")}
    assert said(files, target, code) == [
        "`B.y` is `1` in 0.28.0 (vllm/b.py:6) and `2` in 0.29.0 (vllm/b.py:6)",
        "`A.z` is `1` in 0.28.0 (vllm/b.py:3) and `2` in 0.29.0 (vllm/b.py:3)",
    ]


def test_classes_and_imports_that_lead_back_to_themselves() -> None:
    files = {"vllm/a.py": "from vllm.b import x\nclass C(C):\n    y = 1\n"}
    files["vllm/b.py"] = "from vllm.a import x\n"
    code = "from vllm.a import C, x\nX = x.w, C.z, C().z\n"
    target = files | {"vllm/a.py": files["vllm/a.py"].replace("1", "2")}
    assert said(files, target, code) == []
