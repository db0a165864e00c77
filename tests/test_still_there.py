"""What a patch takes away and the target still has, under its name or changed, is not upstream."""

from __future__ import annotations

import pytest

from tests.moves import PATH, move


def method(name: str, value: int) -> str:
    return f"    def {name}(self):\n        return {value}\n"


def of_class(*members: tuple[str, int]) -> str:
    return "class K:\n" + "\n".join(method(*member) for member in members)


CASES = {
    "a method moved and changed": (
        of_class(("a", 1), ("b", 2), ("c", 3)),
        of_class(("a", 1), ("c", 3)),
        of_class(("b", 22), ("a", 1), ("c", 3)),
    ),
    "a keyword": (
        "x = f(\n    1,\n    aa=1,\n    bb=2,\n    cc=3,\n)\n",
        "x = f(\n    1,\n    aa=1,\n    cc=3,\n)\n",
        "x = f(\n    1,\n    aa=1,\n    cc=3,\n    bb=22,\n)\n",
    ),
    "an entry": (
        "x = {\n    'a': 1,\n    'b': 2,\n    'c': 3,\n}\n",
        "x = {\n    'a': 1,\n    'c': 3,\n}\n",
        "x = {\n    'a': 1,\n    'c': 3,\n    'b': 22,\n}\n",
    ),
    "a parameter": (
        "def f(a, b=1, c=2):\n    pass\n",
        "def f(a, c=2):\n    pass\n",
        "def f(a, c=2, *, b=3):\n    pass\n",
    ),
    "a constant": ("A = 1\nB = 2\nC = 3\n", "A = 1\nC = 3\n", "A = 1\nC = 3\nB = 22\n"),
    "a guard that is replaced": (
        "def f(a):\n    s()\n    if a is None:\n        return 1\n    e()\n",
        "def f(a):\n    s()\n    a = a or 1\n    e()\n",
        "def f(a):\n    s()\n    if a is None:\n        return 2\n    a = a or 1\n    e()\n",
    ),
    "a statement that is replaced": (
        "def f(a):\n    s()\n    x = load(a)\n    e()\n",
        "def f(a):\n    s()\n    y = fetch(a)\n    e()\n",
        "def f(a):\n    s()\n    x = load(a, 2)\n    y = fetch(a)\n    e()\n",
    ),
    "an import that binds the name last": (
        "import a\nfrom b import x\nimport c\n",
        "import a\nfrom d import x\nimport c\n",
        "import a\nfrom d import x\nimport c\nfrom b import x, w\n",
    ),
    "a keyword that is replaced": (
        "x = f(\n    1,\n    aa=1,\n    bb=2,\n    cc=3,\n)\n",
        "x = f(\n    1,\n    aa=1,\n    dd=5,\n    cc=3,\n)\n",
        "x = f(\n    1,\n    aa=1,\n    bb=22,\n    dd=5,\n    cc=3,\n)\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_there_in_another_form_is_for_a_person(name: str) -> None:
    base, authored, target = CASES[name]
    (outcome,) = move(base, authored, target).outcomes
    assert str(outcome.status) == "conflicted"


@pytest.mark.parametrize("name", CASES)
def test_the_same_patch_is_upstream_where_the_target_is_its_result(name: str) -> None:
    base, authored, _ = CASES[name]
    result = move(base, authored, authored)
    assert [str(o.status) for o in result.outcomes] == ["already_upstream"]
    assert result.tree.files[PATH].decode() == authored
