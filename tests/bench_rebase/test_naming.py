"""Renames follow Python's scopes, and mean the same on target and truth."""

import pytest

from tests.bench_rebase.conftest import PATH, text
from tests.bench_rebase.draw import seeded
from tests.bench_rebase.refactors.ground import DroppedError, InapplicableError
from tests.bench_rebase.refactors.naming import (
    rename_definition,
    rename_local,
    renamed_chain,
    renamed_definition,
    renamed_local,
)
from tests.bench_rebase.source import read_source


def renamed(code, name, new, ordinal=0):
    return renamed_definition(read_source(text(code)), (name, ordinal), new).decode()


def local(code, function, old, new):
    return renamed_local(read_source(text(code)), (function, 0), old, new).decode()


def test_a_renamed_function_takes_its_callers_along_and_nothing_else():
    code = '''
        """load"""
        from m import other

        def load(load_dtype):
            "load"
            return load(load=load_dtype), f"load {load.__name__}"

        def caller(x, key="load"):
            return [load for load in x], other.load, load, "load"

        def shadowing(load):
            return load

        class A:
            def load(self):
                return load(self.load)
    '''
    assert renamed(code, "load", "fetch").encode() == text('''
        """load"""
        from m import other

        def fetch(load_dtype):
            "load"
            return fetch(load=load_dtype), f"load {fetch.__name__}"

        def caller(x, key="load"):
            return [load for load in x], other.load, fetch, "load"

        def shadowing(load):
            return load

        class A:
            def load(self):
                return fetch(self.load)
    ''')


def test_a_renamed_method_follows_its_own_instances_only():
    code = """
        class A:
            def run(self, run=0):
                return self.run(run=run), self.other.run, run

            @property
            def size(self):
                return [self.run for _ in self.x], (lambda: self.run)

            @classmethod
            def make(cls, self):
                return cls.run, self.run, A.run

            @staticmethod
            def free(self):
                return self.run, run

            def rebinds(self):
                self = other()
                return self.run

            alias = run

        class B(A):
            def more(self):
                return super().run(), self.run()

        class C:
            def run(self):
                return self.run

        def run(a: A):
            return a.run, A.run
    """
    assert renamed(code, "A.run", "go").encode() == text("""
        class A:
            def go(self, run=0):
                return self.go(run=run), self.other.run, run

            @property
            def size(self):
                return [self.go for _ in self.x], (lambda: self.go)

            @classmethod
            def make(cls, self):
                return cls.go, self.run, A.go

            @staticmethod
            def free(self):
                return self.run, run

            def rebinds(self):
                self = other()
                return self.run

            alias = go

        class B(A):
            def more(self):
                return super().go(), self.go()

        class C:
            def run(self):
                return self.run

        def run(a: A):
            return a.run, A.go
    """)


def test_a_property_and_its_setter_are_one_name():
    code = """
        class A:
            @property
            def x(self): return self._x
            @x.setter
            def x(self, x): self._x = x
    """
    assert renamed(code, "A.x", "y", ordinal=1).encode() == text("""
        class A:
            @property
            def y(self): return self._x
            @y.setter
            def y(self, x): self._x = x
    """)


def test_twins_of_an_if_are_one_name():
    code = "if a:\n    def f(): pass\nelse:\n    def f(): return f\n"
    expected = "if a:\n    def g(): pass\nelse:\n    def g(): return g\n"
    assert renamed(code, "f", "g") == expected


def test_a_nested_function_is_renamed_within_its_function():
    code = """
        def outer():
            def inner(): return inner
            return inner
        def inner(): return inner
    """
    assert renamed(code, "outer.inner", "nested").encode() == text("""
        def outer():
            def nested(): return nested
            return nested
        def inner(): return inner
    """)


def test_an_overridden_method_is_not_renamed():
    code = "class A:\n    def f(self): pass\nclass B(A):\n    def f(self): pass\n"
    with pytest.raises(InapplicableError, match="f is overridden in the module"):
        renamed(code, "A.f", "g")
    with pytest.raises(InapplicableError, match="f overrides another one in the module"):
        renamed(code, "B.f", "g")


def test_what_a_class_body_reads_before_it_binds_it_is_not_renamed():
    with pytest.raises(InapplicableError, match="a class body reads and binds f"):
        renamed("def f(): pass\nclass A:\n    f = f\n", "f", "g")


def test_the_chain_follows_the_rename():
    chain = (("A", 0), ("A.f", 1), ("A.f.A", 0))
    assert renamed_chain(chain, ("A", 0), "B") == (("B", 0), ("B.f", 1), ("B.f.A", 0))
    assert renamed_chain(chain, ("A.f", 1), "g") == (("A", 0), ("A.g", 1), ("A.g.A", 0))


def test_target_and_truth_get_the_same_new_name(ground):
    before = ground("""
        def load(x):
            y = load(x)  #-
            y = load(x, load=2)  #+
            return y
    """)
    after = rename_definition(before, seeded(1))
    assert after.target[PATH] == text("""
        def load_renamed(x):
            y = load_renamed(x)
            return y
    """)
    assert after.truth[PATH] == text("""
        def load_renamed(x):
            y = load_renamed(x, load=2)
            return y
    """)
    assert after.chain == (("load_renamed", 0),)
    assert after.notes == ("rename load to load_renamed",)


def test_a_new_name_is_one_that_occurs_nowhere(ground):
    before = ground("""
        def load(x):
            y = "load_renamed"  #+
            return x
    """)
    assert rename_definition(before, seeded(1)).chain == (("load_renamed2", 0),)


def test_a_class_in_a_quoted_annotation_would_be_left_undefined(ground):
    before = ground("""
        class A:
            x = 1  #+
            y: "A" = 2
    """)
    with pytest.raises(DroppedError, match="refactoring leaves a name undefined"):
        rename_definition(before, seeded(1))


def test_what_was_undefined_inside_the_renamed_definition_is_no_reason_to_drop(ground):
    before = ground("""
        def load(x):
            y = nowhere  #+
            return nowhere
    """)
    assert rename_definition(before, seeded(1)).chain == (("load_renamed", 0),)


def test_a_special_method_is_not_renamed(ground):
    before = ground("""
        class A:
            def __init__(self):
                self.x = 1  #+
                self.y = 2
    """)
    assert rename_definition(before, seeded(1)).chain == (("ARenamed", 0), ("ARenamed.__init__", 0))


def test_a_renamed_local_is_not_a_keyword_an_attribute_or_a_string():
    code = """
        def f(o, g):
            size = 1
            def inner():
                nonlocal size
                size += 1
            g(size=size, o=o.size, k={"size": size})
            return f"size {size:{size}} {o.size}", [size for size in o], lambda size: size
        size = 2
    """
    assert local(code, "f", "size", "count").encode() == text("""
        def f(o, g):
            count = 1
            def inner():
                nonlocal count
                count += 1
            g(size=count, o=o.size, k={"size": count})
            return f"size {count:{count}} {o.size}", [size for size in o], lambda size: size
        size = 2
    """)


def test_a_local_beside_the_edit_is_renamed_on_both_sides(ground):
    before = ground("""
        def f(a):
            far = a



            rows = a
            g(rows)  #-
            g(rows, rows=1)  #+
            return a
    """)
    after = rename_local(before, seeded(3))
    new = after.notes[0].rpartition(" ")[2]
    assert new.startswith("rows_")
    assert after.target[PATH] == before.target[PATH].replace(b"rows", new.encode())
    assert after.truth[PATH] == before.truth[PATH].replace(b"rows", new.encode()).replace(
        f"{new}=1".encode(), b"rows=1"
    )


def test_parameters_imports_and_functions_that_look_at_locals_are_left_alone(ground):
    none = ground("""
        def f(a):
            import b
            def c(): pass
            a(b, c)  #+
            return a
    """)
    looks = ground("""
        def f(a):
            b = a
            b()  #+
            return locals()
    """)
    for before in (none, looks):
        with pytest.raises(InapplicableError, match="no local beside the change"):
            rename_local(before, seeded(1))


def test_a_local_that_the_patch_renames_is_dropped(ground):
    before = ground("""
        def f(a):
            b = a  #-
            c = a  #+
            return b  #-
            return c  #+
    """)
    with pytest.raises(DroppedError, match="patch and refactoring rename the same"):
        rename_local(before, seeded(1))
