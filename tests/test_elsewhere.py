"""A new file or definition that the target has in other layout or under another path."""

from __future__ import annotations

import pytest

import patchkit
from patchkit import RebaseResult
from tests.moves import PATH, diff, move

NEW = (
    '"""What it is."""\n\nimport os\n\nSIZE = 4\n\n\n'
    'def size(x):\n    """Return\n    it."""\n    return x\n'
)
BASE = "import os\n\n\ndef f(x):\n    return x\n"
G = "\n\ndef g(y):\n    z = y + 1\n    return z\n"


def add(target: dict[str, str], base: dict[str, str] | None = None) -> RebaseResult:
    """Return the new file `vllm/n.py` moved to a target."""
    patch = diff("", NEW, "vllm/n.py").replace(b"--- a/vllm/n.py", b"--- /dev/null")
    files = {path: text.encode() for path, text in {PATH: BASE, **target}.items()}
    old = {path: text.encode() for path, text in {PATH: BASE, **(base or {})}.items()}
    return patchkit.port([patch], old, files)


def said(result: RebaseResult) -> tuple[str, str | None, list[str]]:
    (outcome,) = result.outcomes
    return str(outcome.status), outcome.path_after, [str(e) for e in outcome.evidence]


@pytest.mark.parametrize(
    "text",
    [
        NEW.replace("Return\n    it.", "Return it."),
        NEW.replace("SIZE = 4", "SIZE = 4  # bytes"),
        NEW.replace("(x):", "(\n    x,\n):"),
    ],
    ids=["docstring", "comment", "lines"],
)
def test_the_same_code_in_a_file_of_that_name_is_upstream(text: str) -> None:
    result = add({"vllm/n.py": text})
    fact = "the target has vllm/n.py with the same code, laid out otherwise"
    assert said(result) == ("already_upstream", "vllm/n.py", [fact])
    assert result.tree.files["vllm/n.py"] == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        NEW.replace("SIZE = 4", "SIZE = 5"),
        NEW.replace("Return", "Give"),
        NEW + "\n\ndef more(): pass\n",
        NEW.replace("import os\n", ""),
    ],
    ids=["value", "docstring", "more", "import"],
)
def test_other_code_in_a_file_of_that_name_is_a_conflict(text: str) -> None:
    assert said(add({"vllm/n.py": text}))[0] == "conflicted"


def test_a_new_file_that_upstream_has_under_another_path_is_upstream() -> None:
    moved = NEW.replace("import os", "from . import os") + "\n\ndef more(): pass\n"
    result = add({"vllm/sub/m.py": moved})
    fact = "the target has all 2 statements of vllm/n.py in vllm/sub/m.py"
    assert said(result) == ("already_upstream", "vllm/sub/m.py", [fact])
    assert "vllm/n.py" not in result.tree.files


@pytest.mark.parametrize(
    ("target", "base"),
    [
        ({"vllm/m.py": NEW.replace("return x", "return 2")}, {}),
        ({"vllm/m.py": NEW.replace("SIZE = 4\n", "")}, {}),
        ({"vllm/m.py": NEW, "vllm/k.py": NEW}, {}),
        ({"vllm/m.py": NEW}, {"vllm/m.py": NEW}),
        ({"vllm/m.py": NEW}, {"vllm/k.py": NEW}),
    ],
    ids=["other-body", "one-is-missing", "twice", "in-the-base", "in-the-base-elsewhere"],
)
def test_a_new_file_lands_where_not_all_of_it_is_in_one_new_place(
    target: dict[str, str], base: dict[str, str]
) -> None:
    assert said(add(target, base))[:2] == ("placed", "vllm/n.py")


def test_a_new_function_that_upstream_has_in_another_file_is_upstream() -> None:
    result = move(BASE, BASE + G, {PATH: BASE, "vllm/new.py": "import re\n" + G})
    fact = "definition added: the target has `g` in vllm/new.py, word for word"
    assert said(result) == ("already_upstream", "vllm/new.py", [fact])
    assert result.tree.files[PATH] == BASE.encode()


@pytest.mark.parametrize(
    "target",
    [
        {PATH: BASE, "vllm/new.py": G.replace("+ 1", "+ 2")},
        {PATH: BASE, "vllm/new.py": G, "vllm/more.py": G},
        {PATH: BASE, "vllm/new.py": "class K:\n" + G.replace("\n", "\n    ")},
    ],
    ids=["other-body", "twice", "method"],
)
def test_a_new_function_lands_where_another_file_has_only_one_like_it(
    target: dict[str, str],
) -> None:
    assert said(move(BASE, BASE + G, target))[:2] == ("placed", PATH)


def test_a_function_of_that_name_in_its_own_file_is_a_conflict_whatever_others_have() -> None:
    other = BASE + G.replace("+ 1", "+ 2")
    (hunk,) = move(BASE, BASE + G, {PATH: other, "vllm/new.py": G}).outcomes
    assert (hunk.status, hunk.clash and hunk.clash.kind) == ("conflicted", "same name")


def test_a_new_function_lands_where_the_base_had_it_elsewhere_as_well() -> None:
    base = {PATH: BASE.encode(), "vllm/old.py": G.encode()}
    target = {PATH: BASE.encode(), "vllm/new.py": G.encode()}
    result = patchkit.port([diff(BASE, BASE + G)], base, target)
    assert said(result)[:2] == ("placed", PATH)


# What is there is left out ------------------------------------------------------------------------

USE = "import os\nimport re\n\n\ndef f(x):\n    re.sub(x)\n    return x\n"
IMPORT = "import os\nimport re\n\n\ndef f(x):\n    return x\n"


def test_an_import_that_is_there_does_not_keep_the_rest_of_its_hunk_from_landing() -> None:
    result = move(BASE, USE, {PATH: IMPORT})
    assert said(result) == (
        "placed", PATH,
        [
            "what it replaces, or its neighbours, are there",
            "statement added in `f`, between the same neighbours",
            "import added: the target has it in `<module>`, line 2",
        ],
    )  # fmt: skip
    assert result.tree.files[PATH] == USE.encode()


def test_an_import_of_another_thing_keeps_its_hunk_from_landing() -> None:
    other = IMPORT.replace("import re\n", "import regex as re\n")
    assert said(move(BASE, USE, {PATH: other}))[0] == "conflicted"


def test_a_parameter_that_is_there_keeps_the_rest_of_its_hunk_from_landing() -> None:
    authored = BASE.replace("f(x):\n    return x", "f(x, y=1):\n    return x + y")
    target = BASE.replace("f(x):\n    return x", "f(x, y=1):\n    return x * 2")
    (hunk,) = move(BASE, authored, {PATH: target}).outcomes
    assert (hunk.status, hunk.reason) == (
        "partly_upstream",
        "the target has 1 of 2 edits; missing: expression replaced at base line 5",
    )
    assert hunk.clash is not None
    assert (hunk.clash.base, hunk.clash.target, hunk.clash.patch) == (
        "return x",
        "return x * 2",
        "return x + y",
    )


def test_a_parameter_that_is_there_in_another_place_does_not_let_its_use_land() -> None:
    base = "def f(x):\n    a(x)\n    b(x)\n"
    authored = "def f(x, y=1):\n    a(x)\n    use(y)\n    b(x)\n"
    target = "def f(x, z=0, y=1):\n    a(x)\n    b(x)\n"
    (hunk,) = move(base, authored, {PATH: target}).outcomes
    assert (hunk.status, hunk.reason) == (
        "partly_upstream",
        "the target has 1 of 2 edits; missing: statement added at base line 2",
    )
