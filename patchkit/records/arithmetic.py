"""Sums that a text gives: evaluated exactly, and nothing but sums."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from fractions import Fraction

from patchkit.errors import PatchkitError

_EXPECTED = "numbers, + - * / // % **, parentheses, min, max, ceil, floor, round"
_MOST_DIGITS = 400
_FUNCTIONS: dict[str, Callable[..., Fraction | int]] = {
    "min": min, "max": max, "ceil": math.ceil, "floor": math.floor, "round": round,
}  # fmt: skip


def evaluate(expression: str) -> Fraction:
    """Return the value of a sum; thousands may be set apart by a comma without a blank.

    Raises PatchkitError for anything else, and for a number alone, which is no sum.
    """
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", expression).replace("×", "*").replace("−", "-")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise _refused(expression, "cannot be understood") from err
    if not any(isinstance(node, ast.BinOp | ast.Call) for node in ast.walk(tree)):
        raise _refused(expression, "is no sum")
    try:
        return _value(tree, text)
    except (ZeroDivisionError, OverflowError) as err:
        raise _refused(expression, "has no value") from err
    except (KeyError, TypeError, ValueError, RecursionError) as err:
        raise _refused(expression, "cannot be understood") from err


def _refused(expression: str, fact: str) -> PatchkitError:
    return PatchkitError(f"{expression!r} {fact}", expected=_EXPECTED)


def _value(node: ast.expr, text: str) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        # as it is written: 0.1 is a tenth
        return Fraction((ast.get_source_segment(text, node) or "").replace("_", ""))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, text)
    if isinstance(node, ast.BinOp):
        return _combined(node.op, _value(node.left, text), _value(node.right, text))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        values = [_value(argument, text) for argument in node.args]
        return Fraction(_FUNCTIONS[node.func.id](*values))
    raise ValueError(ast.dump(node))


def _combined(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.FloorDiv():
            return Fraction(left // right)
        case ast.Mod():
            return left % right
        case ast.Pow() if right.denominator == 1 and _digits(left) * abs(right) < _MOST_DIGITS:
            return Fraction(left ** int(right))
    raise ValueError(ast.dump(operator))


def _digits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
