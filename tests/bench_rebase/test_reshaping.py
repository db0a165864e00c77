"""Wraps, decoys, parameters and layout: what changes, and what does not."""

import pytest

from tests.bench_rebase.conftest import PATH, text
from tests.bench_rebase.draw import seeded
from tests.bench_rebase.refactors.copying import decoy
from tests.bench_rebase.refactors.formatting import formatted
from tests.bench_rebase.refactors.ground import DroppedError, InapplicableError
from tests.bench_rebase.refactors.parameter import add_parameter, with_parameter
from tests.bench_rebase.refactors.wrapping import wrap
from tests.bench_rebase.source import definitions, is_python, read_source

ANY = seeded(1)


def test_a_wrapped_body_keeps_its_docstring_and_the_content_of_strings(ground):
    before = ground('''
        import torch
        class A:
            def f(self):
                """Doc.

                More.
                """
                # first

                x = """a
        b
                  c"""  # not code
                y = f"""{x
                }
        z"""
                return x  #+
                # last
            # of the class
            def g(self): pass
    ''')
    after = wrap(before, ANY)
    assert after.truth[PATH] == text('''
        import torch
        class A:
            def f(self):
                """Doc.

                More.
                """
                with torch.inference_mode():
                    # first

                    x = """a
        b
                  c"""  # not code
                    y = f"""{x
                }
        z"""
                    return x
                    # last
            # of the class
            def g(self): pass
    ''')
    assert after.target[PATH] == after.truth[PATH].replace(b"            return x\n", b"")


def test_a_wrap_needs_no_import(ground):
    before = ground("""
        def f(a,
              b):
            a()  #+
            return b
    """)
    assert wrap(before, ANY).truth[PATH] == text("""
        def f(a,
              b):
            with memoryview(b""):
                a()
                return b
    """)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def f(a): return a  #-\ndef f(a): return 1  #+\n", "on the line of its header"),
        ('def f(a):\n    """Old."""  #-\n    """New."""  #+\n', "only a docstring"),
        ("class A:\n    x = 1  #+\n    y = 2\n", "in no function"),
    ],
)
def test_what_cannot_be_wrapped(ground, code, reason):
    with pytest.raises(InapplicableError, match=reason):
        wrap(ground(code), ANY)


def test_a_decoy_is_the_unpatched_definition_under_another_name(ground):
    before = ground("""
        # about f
        @g
        def f(x):
            return f(x)  #-
            return f(x, 1)  #+
    """)
    after = decoy(before, ANY)
    copy = text("""
        @g
        def f_legacy(x):
            return f(x)


    """)
    assert after.target[PATH] == copy + before.target[PATH]
    assert after.truth[PATH] == copy + before.truth[PATH]
    assert after.notes == ("decoy f_legacy before f",)


def test_a_decoy_of_a_method_stands_in_its_class(ground):
    before = ground("""
        class A:
            def __init__(self): pass

            def f(self):
                pass  #-
                return 1  #+
    """)
    after = [decoy(before, seeded(seed)) for seed in range(8)]
    notes = {ground.notes[0]: ground for ground in after}
    assert sorted(notes) == ["decoy ALegacy before A", "decoy f_legacy before A.f"]
    assert notes["decoy f_legacy before A.f"].truth[PATH] == text("""
        class A:
            def __init__(self): pass

            def f_legacy(self):
                pass

            def f(self):
                return 1
    """)


def test_a_setter_gets_no_decoy(ground):
    before = ground("""
        @f.setter
        def f(x):
            return 1  #+
    """)
    before = before.with_texts(*(b"@f.setter\ndef f(x):\n    return %d\n" % n for n in (1, 2)), "")
    with pytest.raises(InapplicableError, match="a decorator names the definition"):
        decoy(before, ANY)


def test_what_the_patch_adds_right_before_a_copied_definition_has_no_order(ground):
    before = ground("""
        x = 1
        y = 2  #+

        def f():
            return 1
    """)
    inside = before.with_texts(before.target[PATH], before.truth[PATH], "", (("f", 0),))
    with pytest.raises(DroppedError, match="two orders"):
        decoy(inside, ANY)


def test_what_the_patch_adds_under_the_comments_of_a_copied_definition_has_no_order(ground):
    before = ground("""
        # About f.
        @jit
        def g():  #+
            return 2  #+
          #+
        @jit  #+
        def f():
            return 1
    """)
    inside = before.with_texts(before.target[PATH], before.truth[PATH], "", (("f", 0),))
    with pytest.raises(DroppedError, match="two orders"):
        decoy(inside, ANY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): pass", "def f(new=None): pass"),
        ("def f(a): pass", "def f(a, new=None): pass"),
        ("def f(a, b: int = 1) -> int: pass", "def f(a, b: int = 1, new=None) -> int: pass"),
        ("def f(a, *, b): pass", "def f(a, *, b, new=None): pass"),
        ("def f(a, *b): pass", "def f(a, *b, new=None): pass"),
        ("def f(**k): pass", "def f(new=None, **k): pass"),
        ("def f(a=(1, 2), **k): pass", "def f(a=(1, 2), new=None, **k): pass"),
        ("def f(a, /): pass", "def f(a, new=None, /): pass"),
        ("def f(\n    a,\n    b,\n): pass", "def f(\n    a,\n    b,\n    new=None,\n): pass"),
        ("def f(\n    a, b,\n): pass", "def f(\n    a, b, new=None,\n): pass"),
        ("def f(\n    *b\n): pass", "def f(\n    *b,\n    new=None\n): pass"),
        ("@g(x)\nasync def f(a): pass", "@g(x)\nasync def f(a, new=None): pass"),
        ("def f(a: 'é' = 'é'): pass", "def f(a: 'é' = 'é', new=None): pass"),
    ],
)
def test_a_parameter_is_added_last_with_a_default(before, after):
    source = read_source(before.encode())
    result = with_parameter(source, definitions(source)["f", 0], "new").decode()
    assert result == after
    assert is_python(result.encode())


def test_a_parameter_beside_one_that_the_patch_adds_has_no_order(ground):
    before = ground("def f(a):  #-\ndef f(a, b):  #+\n    return a\n")
    with pytest.raises(DroppedError, match="two orders"):
        add_parameter(before, ANY)


def test_ruff_formats_at_120():
    try:
        result = formatted(b"x = f(\n    a, b)\ny=[1,\n]\n")
    except FileNotFoundError as err:
        pytest.skip(str(err))
    assert result == b"x = f(a, b)\ny = [\n    1,\n]\n"
