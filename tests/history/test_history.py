"""Real changes of upstream's: a release that has one is seen to have it, and no other is.

`python -m tests.history` asks all pinned releases (docs/bench/README.md has the figures). Here each
change is asked of the release that made it and of the newest one.
"""

from __future__ import annotations

import pytest

from tests.history.changes import HistoryChange, read_table, releases
from tests.history.judge import Found, Judgement, faults, judge

CHANGES = read_table()
# Where a person is asked although upstream has it in a form that proves nothing by itself.
MISSED = {
    ("InklingForCausalLM", "0.33.0"),  # the tuple of an `in` became a named set
    ("deferred frees", "0.33.0"),  # the block was extended
    ("check of the spec registry", "0.33.0"),  # its function moved, and was rewritten around it
    ("allocator settings", "0.31.0"),  # the `finally` of its `try` changed with it
    ("allocator settings", "0.33.0"),
}
# What tests/evidence does not read: a variable's rename whose binding names another renamed one.
UNREAD = {("session_id", "0.33.0")}


@pytest.mark.network
@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c.kind}: {c.name}")
def test_a_release_has_a_change_from_the_one_that_made_it_on(change: HistoryChange) -> None:
    for release in (change.newer, releases()[-1]):
        if (change.name, release) in UNREAD:
            continue
        answer = judge(change, release)
        missed = (change.name, release) in MISSED
        wanted = Judgement.MISSED if missed else Judgement.RIGHT
        assert (answer.release, answer.judgement, answer.remark if not missed else "") == (
            release, wanted, "",
        )  # fmt: skip


@pytest.mark.network
def test_the_release_before_a_change_takes_it_whole() -> None:
    answers = [judge(change, change.older) for change in CHANGES[::6]]
    assert {(a.found, a.judgement) for a in answers} == {(Found.LANDED, Judgement.RIGHT)}


def test_the_table_has_several_changes_of_each_kind() -> None:
    kinds = [change.kind for change in CHANGES]
    assert len(CHANGES) >= 40
    assert {kind for kind in kinds if kinds.count(kind) < 3} <= {"dict entry added"}
    assert len({(c.kind, c.name) for c in CHANGES}) == len(CHANGES)


# The judge ----------------------------------------------------------------------------------------

BASE = b"import os\n\n\ndef f(x):\n    return {'a': os}\n"
AUTHORED = BASE + b"\n\ndef g(y):\n    log(y)\n    return [1, 2]\n"


@pytest.mark.parametrize(
    ("target", "landed", "said"),
    [
        (BASE, AUTHORED, []),
        (BASE, AUTHORED.replace(b"x", b"z"), ["the target lost ['x']"]),
        (AUTHORED, AUTHORED + b"\n\ndef g():\n    pass\n",
         ["p.py holds definition 'g' 2 times in "]),
        (BASE, AUTHORED.replace(b"import os\n", b"import os\nimport os\n"),
         ["p.py holds import ' os None' 2 times in "]),
        (BASE, AUTHORED.replace(b"{'a': os}", b"{'a': os, 'a': os}"),
         ["p.py holds key \"'a'\" 2 times in .f"]),
        (AUTHORED, AUTHORED.replace(b"[1, 2]", b"[1, 2, 2]"),
         ["p.py holds element '2' 2 times in .g"]),
        (AUTHORED, AUTHORED.replace(b"    log(y)\n", b"    log(y)\n    log(y)\n"),
         ["p.py holds statement \"Expr(value=Call(func=Name(id='log', ctx=Load()), "
          "args=[Name(id='y', ctx=Load())], keywords=[]))\" 2 times in .g"]),
    ],
    ids=["whole", "lost", "function", "import", "key", "element", "statement"],
)  # fmt: skip
def test_the_judge_finds_what_is_lost_and_what_is_doubled(
    target: bytes, landed: bytes, said: list[str]
) -> None:
    found = list(faults({"p.py": BASE}, {"p.py": AUTHORED}, {"p.py": target}, {"p.py": landed}))
    assert found == said
