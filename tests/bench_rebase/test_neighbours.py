"""Statements beside the edit: where they go, and where they would have no order."""

import pytest

from tests.bench_rebase.conftest import PATH, text
from tests.bench_rebase.draw import seeded
from tests.bench_rebase.refactors.ground import DroppedError, InapplicableError
from tests.bench_rebase.refactors.neighbours import surround

ANY = seeded(1)


def test_neighbours_go_directly_beside_a_replaced_statement(ground):
    before = ground("""
        def f(a):
            if a:
                x = a + 1
                y = x * 2  #-
                y = x * 3  #+
                z = y
            return a
    """)
    after = surround(before, seeded(2))
    above, below = (note for note in after.notes[0].split("`")[1::2])
    for side, number in ((after.target, 2), (after.truth, 3)):
        assert side[PATH] == text(f"""
            def f(a):
                if a:
                    x = a + 1
                    {above}
                    y = x * {number}
                    {below}
                    z = y
                return a
        """)
    assert above.startswith("_before")
    assert below.startswith("_after")


def test_neighbours_of_an_insertion_go_around_the_neighbours_of_its_gap(ground):
    before = ground("""
        def f(a):
            # about x
            x = a
            y = 1  #+
            z = g(
                a,
            )
            return a
    """)
    after = surround(before, seeded(2))
    above, below = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        def f(a):
            {above}
            # about x
            x = a
            y = 1
            z = g(
                a,
            )
            {below}
            return a
    """)
    assert after.target[PATH] == after.truth[PATH].replace(b"    y = 1\n", b"")


def test_no_neighbour_before_a_docstring_or_after_a_return(ground):
    before = ground('''
        def f(a):
            """Doc."""
            x = a  #+
            return a
    ''')
    with pytest.raises(InapplicableError, match="no place for a statement beside the edit"):
        surround(before, ANY)


def test_neighbours_stay_in_the_block_of_the_edit(ground):
    before = ground("""
        def f(a):
            if a:
                x = 1
            else:
                y = 2  #+
                z = 3
            return a
    """)
    after = surround(before, seeded(2))
    (below,) = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        def f(a):
            if a:
                x = 1
            else:
                y = 2
                z = 3
                {below}
            return a
    """)


def test_a_neighbour_is_not_taken_from_another_block(ground):
    before = ground("""
        def f(a):
            if a:
                x = 1
                y = 2  #+
            elif x:
                z = 3
            return a
    """)
    after = surround(before, seeded(2))
    (above,) = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        def f(a):
            if a:
                {above}
                x = 1
                y = 2
            elif x:
                z = 3
            return a
    """)


def test_a_neighbour_does_not_part_an_elif_from_its_if(ground):
    before = ground("""
        def f(a):
            if a:
                x = 1
            elif b:  #-
            elif c:  #+
                x = 2
            return a
    """)
    after = surround(before, seeded(2))
    above, below = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        def f(a):
            {above}
            if a:
                x = 1
            elif c:
                x = 2
            {below}
            return a
    """)


def test_a_body_on_the_line_of_its_header_takes_no_neighbour(ground):
    before = ground("""
        class A:
            x = 1
            def f(
                self,
            ) -> int: ...  #-
            ) -> str: ...  #+
            y = 2
    """)
    after = surround(before, seeded(2))
    above, below = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        class A:
            x = 1
            {above}
            def f(
                self,
            ) -> str: ...
            {below}
            y = 2
    """)


def test_neighbours_of_an_expression_are_those_of_its_statement(ground):
    before = ground("""
        def f(a):
            x = g(
                a,
                b,  #+
                c,
            )
            y = x
    """)
    after = surround(before, seeded(2))
    above, below = after.notes[0].split("`")[1::2]
    assert after.truth[PATH] == text(f"""
        def f(a):
            {above}
            x = g(
                a,
                b,
                c,
            )
            {below}
            y = x
    """)


def test_a_definition_added_after_an_edited_one_has_no_order(ground):
    """The added one is even more like the old one: it is the name that counts."""
    before = ground("""
        class A:
            x = 1

            def f(self, a):
                if a:  #-
                    return a  #-
                return self.x  #+

            def g(self, a):  #+
                if a:  #+
                    return a  #+

            y = 2
    """)
    with pytest.raises(DroppedError, match="two orders"):
        surround(before, ANY)


def test_a_definition_added_before_an_edited_one_has_an_order_at_its_end(ground):
    before = ground("""
        class A:
            def g(self, a):  #+
                return a  #+

            def f(self, a):  #-
                return a  #-
            def f(self, b):  #+
                return b  #+

            y = 2
    """)
    with pytest.raises(DroppedError, match="two orders"):
        surround(before, ANY)


def test_a_statement_added_at_the_edge_of_an_edited_one_has_no_order(ground):
    before = ground("""
        def f(a):
            x = g(a, 1, 2)  #-
            x = g(a, 1, 3)  #+
            log()  #+
            y = x
    """)
    with pytest.raises(DroppedError, match="two orders"):
        surround(before, ANY)
