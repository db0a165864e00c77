"""String literals and f-string fields, as both Pythons must see them."""

import pytest

from tests.bench_rebase.literals import UnclosedError, fields, literals


def bodies(text: str) -> list[str]:
    data = text.encode()
    return [data[slice(*literal.body)].decode() for literal in literals(data)]


def expressions(text: str) -> list[str]:
    data = text.encode()
    return [
        data[start:end].decode()
        for literal in literals(data)
        if literal.formatted
        for start, end in fields(data, literal)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 'x' # 'not'\nb = \"y\"", ["x", "y"]),
        ('"""one "two" \\""" three"""', ['one "two" \\""" three']),
        (r"'\\' + '\''", [r"\\", r"\'"]),
        ("rb'a' Rb\"b\" br'c' f'd'", ["a", "b", "c", "d"]),
        ("'a' \"b'c\"", ["a", "b'c"]),
        ("x = buf['k']", ["k"]),
        ("'a\\\nb'", ["a\\\nb"]),
    ],
)
def test_literals_are_found_whatever_their_quotes_and_prefixes(text, expected):
    assert bodies(text) == expected


def test_a_literal_without_an_end_is_an_error():
    with pytest.raises(UnclosedError, match="literal at byte 5 has no end"):
        list(literals(b"a = 'b\nc'"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f'{a} {b.c}'", ["a", "b.c"]),
        ("f'{{a}} {b}'", ["b"]),
        ("f'{a!r:>{width}} {c:.2f}'", ["a", "width", "c"]),
        ("f'{a=} {b = !r}'", ["a", "b "]),
        ("f'{a != b} {c == d} {e <= f}'", ["a != b", "c == d", "e <= f"]),
        ("f'{d[\"k:}\"]:5}'", ['d["k:}"]']),
        ("f'{(lambda x: x)(1)}'", ["(lambda x: x)(1)"]),
        ("f'{ {1: a}[1] }'", [" {1: a}[1] "]),
        (r"f'\N{EM DASH} {a}'", ["a"]),
        (r"rf'\N{a}'", ["a"]),
        ("'{a}' f'{b}' \"{c}\"", ["b"]),
        ("f'''{\na\n}'''", ["\na\n"]),
    ],
)
def test_fields_of_an_f_string(text, expected):
    assert expressions(text) == expected
