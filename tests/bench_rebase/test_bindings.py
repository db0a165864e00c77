"""Names belong to scopes as Python has them."""

import argparse
import ast
import dataclasses
import inspect
import symtable
import tarfile
from pathlib import Path
from textwrap import dedent

import pytest

from tests.bench_rebase.bindings import module_scope, scope_of, uses_of
from tests.bench_rebase.source import definitions, first_line, read_source


def marked(text: str, name: str, definition: str | None = None) -> str:
    """Return the text with every use of a scope's name in brackets."""
    data = dedent(text).encode()
    source = read_source(data)
    scope = module_scope(source)
    if definition is not None:
        scope = scope_of(scope, definitions(source)[definition, 0])
    for use in sorted(uses_of(scope, name), key=lambda use: use.place or (0, 0), reverse=True):
        assert use.place is not None
        start, end = use.place
        data = data[:start] + b"[" + data[start:end] + b"]" + data[end:]
    return data.decode()


def test_a_keyword_an_attribute_and_a_string_are_not_the_local():
    text = """
        def f(g, other):
            x = 1
            g(x=x, y=other.x)
            return "x", other.x, {"x": x}
    """
    assert marked(text, "x", "f") == dedent("""
        def f(g, other):
            [x] = 1
            g(x=[x], y=other.x)
            return "x", other.x, {"x": [x]}
    """)


def test_nested_functions_share_a_local_unless_they_bind_it():
    text = """
        def f():
            x = 1
            def reads(): return x
            def binds(): x = 2; return x
            def takes(x): return x
            def sets():
                nonlocal x
                x = 3
            def declares():
                global x
                x = 4
            return lambda x=x: x
    """
    assert marked(text, "x", "f") == dedent("""
        def f():
            [x] = 1
            def reads(): return [x]
            def binds(): x = 2; return x
            def takes(x): return x
            def sets():
                nonlocal [x]
                [x] = 3
            def declares():
                global x
                x = 4
            return lambda x=[x]: x
    """)


def test_a_comprehension_has_a_scope_but_for_its_first_iterable():
    text = """
        def f(rows):
            x = rows
            a = [x for x in x if x]
            b = {y: x for y in rows for z in x}
            c = [(x := y) for y in rows]
            return x
    """
    assert marked(text, "x", "f") == dedent("""
        def f(rows):
            [x] = rows
            a = [x for x in [x] if x]
            b = {y: [x] for y in rows for z in [x]}
            c = [([x] := y) for y in rows]
            return [x]
    """)


def test_a_class_body_hides_its_names_from_its_methods():
    text = """
        x = 0
        class A:
            x = 1
            y = x
            z = [x for _ in "ab"]
            def m(self, default=x, *, key=x):
                return x, self.x, A.x
    """
    assert marked(text, "x") == dedent("""
        [x] = 0
        class A:
            x = 1
            y = x
            z = [[x] for _ in "ab"]
            def m(self, default=x, *, key=x):
                return [x], self.x, A.x
    """)
    assert marked(text, "x", "A") == dedent("""
        x = 0
        class A:
            [x] = 1
            y = [x]
            z = [x for _ in "ab"]
            def m(self, default=[x], *, key=[x]):
                return x, self.x, A.x
    """)


def test_names_inside_f_strings_are_found_where_they_stand():
    text = '''
        def f(x, w):
            """x"""
            return f"x {x} {{x}} {x!r:>{x}} {o.x} {g(x=x)}" "{x}" f\'\'\'
        {x} {f"{x}"} é {[x for x in w]}\'\'\'
    '''
    assert marked(text, "x", "f") == dedent('''
        def f([x], w):
            """x"""
            return f"x {[x]} {{x}} {[x]!r:>{[x]}} {o.x} {g(x=[x])}" "{x}" f\'\'\'
        {[x]} {f"{[x]}"} é {[x for x in w]}\'\'\'
    ''')


def test_everything_that_binds_a_name_is_found():
    text = """
        def f(v):
            for x, *y in v: pass
            with v as x: pass
            try: pass
            except (ValueError, TypeError) as x: del x
            import os.path as x
            from os import path as x
            x += 1
            x: int = 2
            match v:
                case [x, *y]: pass
                case {"k": x}: pass
                case str() as x: pass
                case v.x: pass
            def x(): pass
    """
    assert marked(text, "x", "f") == dedent("""
        def f(v):
            for [x], *y in v: pass
            with v as [x]: pass
            try: pass
            except (ValueError, TypeError) as [x]: del [x]
            import os.path as [x]
            from os import path as [x]
            [x] += 1
            [x]: int = 2
            match v:
                case [[x], *y]: pass
                case {"k": [x]}: pass
                case str() as [x]: pass
                case v.x: pass
            def [x](): pass
    """)


def test_a_name_in_global_is_the_modules():
    text = """
        def f():
            global x
            x = 1
            def g(): return x
        def h(): return x
    """
    assert marked(text, "x") == dedent("""
        def f():
            global [x]
            [x] = 1
            def g(): return [x]
        def h(): return [x]
    """)


@pytest.mark.parametrize("module", [argparse, dataclasses, inspect, tarfile])
def test_locals_of_real_modules_are_those_of_the_compiler(module):
    """The compiler's own symbol tables are the oracle."""
    data = Path(module.__file__).read_bytes()
    compared = 0
    for scope, table in same_functions(module_scope(read_source(data)), data):
        compared += 1
        own = scope.bound - scope.globals - scope.nonlocals
        inner = {n for c in scope.children if c.kind == "comprehension" for n in inlined(c)}
        assert own <= set(table.get_locals()) <= own | inner, table.get_name()
        owners = {(use.name, scope.owner(use.name)) for use in scope.uses}
        outer = {n for n, owner in owners if owner is not None and owner.kind == "function"}
        assert outer - own == {n for n, _ in owners} & set(table.get_frees()), table.get_name()
        beyond = {n for n, owner in owners if owner is None or owner.kind == "module"}
        assert beyond == {n for n, _ in owners} & set(table.get_globals()), table.get_name()
    assert compared >= 40


def inlined(comprehension):
    """Return what Python 3.12 counts among the locals of the function around a comprehension."""
    inner = (n for c in comprehension.children if c.kind == "comprehension" for n in inlined(c))
    return comprehension.bound.union(inner)


def same_functions(module, data):
    """Yield our scope and the compiler's table for each function that both have once."""
    tables: dict[tuple[str, int], list] = {}
    work = [symtable.symtable(data.decode(), "module.py", "exec")]
    while work:
        table = work.pop()
        work += table.get_children()
        if table.get_type() == "function":
            tables.setdefault((table.get_name(), table.get_lineno()), []).append(table)
    for scope in module.within():
        if isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line = first_line(scope.node) + 1
            found = tables.get((scope.node.name, line), [])
            if len(found) == 1:
                yield scope, found[0]
