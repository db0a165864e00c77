"""Right, wrong and refused, by literal cases."""

import pytest

from tests.bench_rebase.judge import Answer, Judgement, Verdict, judge

TARGET = {"a.py": b"x = 1\n", "b.py": b"y = 1\n"}
TRUTH = {"a.py": b"x = 2  # two\n", "b.py": b"y = 1\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (TRUTH, Judgement(Verdict.RIGHT, exact=True)),
        ({**TRUTH, "a.py": b"x = (2)\n"}, Judgement(Verdict.RIGHT)),
        ({**TRUTH, "a.py": b"x = 2  # type: int\n"}, Judgement(Verdict.RIGHT)),
        (
            TARGET,
            Judgement(Verdict.WRONG, remark="a.py has another tree, the target's"),
        ),
        ({**TRUTH, "a.py": b"x = 3\n"}, Judgement(Verdict.WRONG, remark="a.py has another tree")),
        ({**TRUTH, "a.py": b"x = \n"}, Judgement(Verdict.WRONG, remark="a.py does not parse")),
        (
            {**TRUTH, "b.py": b"y = 1  # touched\n"},
            Judgement(Verdict.WRONG, remark="b.py is changed"),
        ),
        ({"a.py": TRUTH["a.py"]}, Judgement(Verdict.WRONG, remark="b.py is missing")),
        (
            {**TRUTH, "a.py.orig": b""},
            Judgement(Verdict.WRONG, remark="a.py.orig is surplus"),
        ),
        (
            {"a.py": TARGET["a.py"], "b.py": b"x = 2\n"},
            Judgement(Verdict.WRONG, remark="a.py has another tree, the target's"),
        ),
    ],
)
def test_what_a_tool_accepts_is_right_or_wrong(files, expected):
    assert judge(Answer(True, files), TARGET, TRUTH) == expected


def test_what_a_tool_refuses_is_neither_whatever_it_left():
    refused = Judgement(Verdict.REFUSED, remark="why")
    assert judge(Answer(False, TRUTH, "why"), TARGET, TRUTH) == refused
    assert judge(Answer(False, None, "why"), TARGET, TRUTH) == refused
