"""Sums in marks: exact, and nothing else is evaluated."""

from __future__ import annotations

from fractions import Fraction

import pytest

from patchkit.errors import PatchkitError
from patchkit.records.arithmetic import evaluate


@pytest.mark.parametrize(("text", "value"), [
    ("100 * 33792 / 1797120", Fraction(33792 * 100, 1797120)),
    ("1,797,120 − 1", Fraction(1797119)),
    ("2 × (256 + 4)", Fraction(520)),
    ("0.1 + 0.2", Fraction(3, 10)),
    ("-7 // 2 + 7 % 4 + 2 ** 10", Fraction(-4 + 3 + 1024)),
    ("ceil(7 / 2) + floor(7 / 2) + min(1, 2) + max(1, 2)", Fraction(10)),
    ("1e3 / 4", Fraction(250)),
])  # fmt: skip
def test_a_sum_has_its_exact_value(text: str, value: Fraction) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(("text", "said"), [
    ("", "cannot be understood"),
    ("7.4", "is no sum"),
    ("-7.4", "is no sum"),
    ("(1, 2)", "is no sum"),
    ("1 / 0", "has no value"),
    ("0 ** -1", "has no value"),
    ("9 ** 9 ** 9", "cannot be understood"),
    ("2 ** 0.5", "cannot be understood"),
    ("__import__('os').getcwd()", "cannot be understood"),
    ("open('x')", "cannot be understood"),
    ("'a' * 3", "cannot be understood"),
    ("True + 1", "cannot be understood"),
    ("1 + x", "cannot be understood"),
    ("min()", "cannot be understood"),
    ("min(1, 2, key=3)", "cannot be understood"),
    ("1j + 1", "cannot be understood"),
    ("(" * 500 + "1+1" + ")" * 500, "cannot be understood"),
    ("1 if 2 > 1 else 3 + 4", "cannot be understood"),
])  # fmt: skip
def test_anything_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        evaluate(text)
    assert caught.value.fact == f"{text!r} {said}"
