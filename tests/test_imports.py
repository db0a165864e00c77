"""The imports that a change adds, and whether a tree has what they name."""

from __future__ import annotations

import pytest

from patchkit.names.imports import ImportUse, added_imports, check_import
from patchkit.tree import SourceTree

PATH = "vllm/v1/core/x.py"


def added(before: str, after: str, path: str = PATH) -> list[tuple[str, int, bool]]:
    uses = added_imports(before.encode(), after.encode(), path)
    return [(str(use), use.line, use.guarded) for use in uses]


def use_of(text: str, path: str = PATH) -> ImportUse:
    (use,) = added_imports(b"", text.encode(), path)
    return use


def check(text: str, files: dict[str, str], *, partial: bool = False, path: str = PATH) -> str:
    tree = SourceTree({p: c.encode() for p, c in files.items()}, partial=partial)
    return check_import(use_of(text, path), tree)


def test_only_what_the_change_adds_is_listed():
    before = "import os\nfrom a import b\n"
    after = "import os\nfrom a import b, c\ndef f():\n    import d.e\n"
    assert added(before, after) == [("a.c", 2, False), ("d.e", 4, False)]


def test_an_import_that_moves_is_not_added():
    assert added("import a\nimport b\n", "import b\nimport a\n") == []


@pytest.mark.parametrize(
    ("text", "path", "module"),
    [
        ("from . import y", PATH, "vllm.v1.core"),
        ("from .y import z", PATH, "vllm.v1.core.y"),
        ("from ..y import z", PATH, "vllm.v1.y"),
        ("from .y import z", "vllm/v1/core/__init__.py", "vllm.v1.core.y"),
        ("from .....y import z", PATH, ""),
        ("import a.b as c", PATH, "a.b"),
    ],
)
def test_relative_imports_are_resolved_against_the_file(text, path, module):
    assert use_of(text, path).module == module


def test_imports_that_may_fail_are_guarded():
    text = """
if TYPE_CHECKING:
    import a
else:
    import b
try:
    import c
except ImportError:
    import d
else:
    import e
try:
    import f
except (ValueError, KeyError):
    import g
try:
    import h
except:
    pass
"""
    assert [(n, g) for n, _, g in added("", text)] == [
        ("a", True), ("b", False), ("c", True), ("d", True), ("e", False),
        ("f", False), ("g", False), ("h", True),
    ]  # fmt: skip


def test_a_module_and_a_name_that_are_there():
    files = {
        "vllm/__init__.py": "",
        "vllm/a.py": "import os\nif X:\n    from b import c\ndef f():\n    global g\n    g = 1\n",
    }
    for name in ("os", "c", "f", "g"):
        assert check(f"from vllm.a import {name}", files) == "ok"
    assert check("import vllm.a", files) == "ok"
    assert check("from vllm import a", files) == "ok"


def test_a_name_that_the_module_does_not_bind_is_missing():
    files = {"vllm/a.py": "class A:\n    inner = 1\n"}
    assert check("from vllm.a import inner", files) == "missing"
    assert check("from vllm.a import inner", files, partial=True) == "missing"


def test_a_module_without_a_file_is_missing_from_a_whole_tree_only():
    files = {"vllm/__init__.py": ""}
    assert check("from vllm.gone import f", files) == "missing"
    assert check("import vllm.gone", files) == "missing"
    assert check("from vllm import gone", files) == "missing"
    assert check("from vllm.gone import f", files, partial=True) == "not_checked"
    assert check("from vllm import gone", files, partial=True) == "not_checked"


def test_a_plain_mapping_may_be_partial():
    assert check_import(use_of("import vllm.gone"), {"vllm/__init__.py": b""}) == "not_checked"


def test_what_lies_outside_the_package_is_not_checked():
    assert check("import torch.gone", {}) == "not_checked"
    assert check("from .....gone import x", {}) == "not_checked"


def test_a_package_without_an_init_file():
    files = {"vllm/a/b.py": "x = 1\n"}
    assert check("import vllm.a", files) == "ok"
    assert check("from vllm.a import b", files) == "ok"
    assert check("from vllm.a import c", files) == "missing"


def test_modules_whose_names_the_text_does_not_show():
    star = {"vllm/a.py": "from b import *\n"}
    assert check("from vllm.a import x", star) == "not_checked"
    lazy = {"vllm/a.py": "_LAZY = {'known': 1}\ndef __getattr__(name): ...\n"}
    assert check("from vllm.a import known", lazy) == "ok"
    assert check("from vllm.a import other", lazy) == "not_checked"
    assert check("from vllm.a import x", {"vllm/a.py": "def f(:\n"}) == "not_checked"


def test_star_imports_ask_for_the_module_only():
    assert check("from vllm.a import *", {"vllm/a.py": ""}) == "ok"
    assert check("from vllm.gone import *", {"vllm/a.py": ""}) == "missing"


class Wheel(dict[str, bytes]):
    left_out = frozenset({"vllm/_C.abi3.so", "vllm/fast/_D.abi3.so"})


def test_compiled_modules_are_known_from_what_a_release_leaves_out():
    tree = SourceTree(Wheel({"vllm/__init__.py": b""}))
    assert check_import(use_of("import vllm._C"), tree) == "not_checked"
    assert check_import(use_of("from vllm import _C"), tree) == "ok"
    assert check_import(use_of("from vllm.fast import _D"), tree) == "not_checked"
    assert check_import(use_of("import vllm._E"), tree) == "missing"


def test_what_upstream_itself_imports_without_a_file_is_not_checked():
    upstream = SourceTree({"vllm/a.py": b"from vllm._C import ops\n"})
    patched = upstream.with_changes({PATH: b"import vllm._C\n", "vllm/y.py": b"import vllm.gone\n"})
    assert check_import(use_of("import vllm._C"), patched) == "not_checked"
    assert check_import(use_of("import vllm._C", "vllm/a.py"), patched, relied_on=upstream) == (
        "not_checked"
    )
    text = SourceTree({"vllm/a.txt": b"import vllm._C\n"})
    assert check_import(use_of("import vllm._C"), patched, relied_on=text) == "missing"
    # another file of the same series is no witness
    assert check_import(use_of("import vllm.gone"), patched, relied_on=upstream) == "missing"


def test_a_function_whose_place_is_gone_takes_its_importer_with_it():
    tree = SourceTree({"vllm/a.py": b"def kept(): ...\n", PATH: b"from vllm.a import added\n"})
    assert check_import(use_of("from vllm.a import added"), tree) == "missing"
    landed = tree.with_changes({"vllm/a.py": b"def kept(): ...\ndef added(): ...\n"})
    assert check_import(use_of("from vllm.a import added"), landed) == "ok"


def test_a_file_that_the_patch_deletes_is_missing():
    tree = SourceTree({"vllm/a.py": b"x = 1\n"}).with_changes({"vllm/a.py": None})
    assert check_import(use_of("from vllm.a import x"), tree) == "missing"
