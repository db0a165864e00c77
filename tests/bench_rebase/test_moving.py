"""Moves to the end of the file and to another file."""

import pytest

from tests.bench_rebase.conftest import PATH, text
from tests.bench_rebase.draw import seeded
from tests.bench_rebase.refactors.ground import DroppedError, InapplicableError
from tests.bench_rebase.refactors.moving import move_to_end, move_to_file

ANY = seeded(1)


def test_a_definition_moves_to_the_end_with_its_comments(ground):
    before = ground("""
        import a


        # about f
        @a.b
        def f():
            return 1  #-
            return 2  #+


        def g():
            return f()
    """)
    after = move_to_end(before, ANY)
    assert after.truth[PATH] == text("""
        import a


        def g():
            return f()


        # about f
        @a.b
        def f():
            return 2
    """)
    assert after.target[PATH] == after.truth[PATH].replace(b"2", b"1")


@pytest.mark.parametrize(
    ("code", "error", "reason"),
    [
        ("x = 1\ndef f():\n    return 1  #+\n    y\n", InapplicableError, "at the end already"),
        (
            "if x:\n    def f():\n        return 1  #+\n        y\nz\n",
            InapplicableError,
            "in a bran",
        ),
        ("def f():\n    x\n\ny = 1  #+\nz\n", InapplicableError, "in no definition"),
    ],
)
def test_what_cannot_move(ground, code, error, reason):
    with pytest.raises(error, match=reason):
        move_to_end(ground(code), ANY)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    x\n\n\ndef g():  #+\n    pass  #+\n\n\ny = 1\n",
        "def g():  #+\n    pass  #+\n\n\ndef f():\n    x\n\n\ny = 1\n",
        "def f():\n    x\n\n\ny = 1\n\n\nz = 1  #+\n",
    ],
)
def test_what_the_patch_adds_beside_a_moved_definition_or_at_the_end_has_no_order(ground, code):
    before = ground(code)
    inside = before.with_texts(before.target[PATH], before.truth[PATH], "", (("f", 0),))
    with pytest.raises(DroppedError, match="two orders"):
        move_to_end(inside, ANY)


def test_what_the_patch_adds_at_the_end_of_a_class_moves_along(ground):
    before = ground("""
        class A:
            def f(self):
                return 1

            def g(self):  #+
                return 2  #+


        x = 1
    """)
    after = move_to_end(before, ANY)
    assert after.truth[PATH] == text("""
        x = 1


        class A:
            def f(self):
                return 1

            def g(self):
                return 2
    """)


def test_a_moved_definition_does_not_import_what_only_the_patch_defines(ground):
    before = ground("""
        import a
        import b  #+

        def helper():  #+
            pass  #+

        x = 1

        def f():
            return 1  #-
            return helper(b, c)  #+
    """)
    inside = before.with_texts(before.target[PATH], before.truth[PATH], "", (("f", 0),))
    after = move_to_file(inside, ANY)
    assert after.truth["vllm/core/module_f.py"] == text("""
        import b


        def f():
            return helper(b, c)
    """)


def test_a_definition_moves_to_a_file_that_imports_what_it_reads(ground):
    before = ground("""
        # SPDX
        from __future__ import annotations
        import os.path, sys as system
        from . import near
        from vllm.x import (
            used,  # remark
            unused,
        )

        LIMIT = 1


        class A(used):
            x: "near" = LIMIT
            def f(self):
                return helper(A, system)  #-
                return helper(A, os.path)  #+


        def helper(*a):
            return a, A
    """)
    after = move_to_file(before, ANY)
    new = "vllm/core/module_a.py"
    assert after.path == new
    assert after.chain == (("A", 0), ("A.f", 0))
    assert after.truth[new] == text("""
        # SPDX
        from __future__ import annotations
        from . import near
        import os.path
        import sys as system
        from vllm.x import used
        from vllm.core.module import LIMIT, helper


        class A(used):
            x: "near" = LIMIT
            def f(self):
                return helper(A, os.path)
    """)
    assert after.target[new] == after.truth[new].replace(b"A, os.path", b"A, system")
    assert after.target[PATH] == after.truth[PATH]
    assert after.truth[PATH] == text("""
        # SPDX
        from __future__ import annotations
        import os.path, sys as system
        from . import near
        from vllm.x import (
            used,  # remark
            unused,
        )

        LIMIT = 1

        from vllm.core.module_a import A

        def helper(*a):
            return a, A
    """)
