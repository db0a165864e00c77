"""Exit-When: what a line may say, and what is said of one that says something else."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from patchkit.diff.exit_when import Condition, Kind, parse_condition, parse_conditions
from patchkit.diff.header import parse_header, validate_header
from patchkit.errors import PatchkitError

FORMS = {
    "symbol vllm.core.pages:Pool.take": Condition(
        Kind.SYMBOL, module="vllm.core.pages", name="Pool.take"
    ),
    "no-symbol vllm:LLM": Condition(Kind.SYMBOL, negated=True, module="vllm", name="LLM"),
    "file vllm/core/pages.py": Condition(Kind.FILE, path="vllm/core/pages.py"),
    "no-file vllm/x.cu": Condition(Kind.FILE, negated=True, path="vllm/x.cu"),
    'text vllm/x.py "a = b"': Condition(Kind.TEXT, path="vllm/x.py", text="a = b"),
    'no-text vllm.x:f "say "a""': Condition(
        Kind.TEXT, negated=True, module="vllm.x", name="f", text='say "a"'
    ),
    "release >=0.30,<0.40": Condition(Kind.RELEASE, range=SpecifierSet(">=0.30,<0.40")),
}


@pytest.mark.parametrize("line", FORMS)
def test_each_form_is_read(line: str) -> None:
    assert parse_condition(line, "p:1") == FORMS[line]
    assert parse_condition(f"  {line}  ", "p:1") == FORMS[line]
    if "release" not in line:
        assert str(FORMS[line]) == line


def test_a_range_is_said_as_it_is_understood() -> None:
    assert str(parse_condition("release >=0.30", "p:1")) == "release >=0.30"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "when vllm:LLM",
            "p:7: Exit-When begins with 'when', expected one of symbol, file, text, release, "
            "no-symbol, no-file, no-text",
        ),
        (
            "no-release >=0.30",
            "p:7: Exit-When begins with 'no-release', expected one of symbol, file, text, release, "
            "no-symbol, no-file, no-text",
        ),
        (
            "symbol vllm.core.Pool",
            "p:7: Exit-When names the symbol 'vllm.core.Pool', expected MODULE:NAME, one like "
            "'symbol vllm.config.cache:CacheConfig.block_size'",
        ),
        (
            "symbol vllm.core:Pool..take",
            "p:7: Exit-When names the symbol 'vllm.core:Pool..take', expected MODULE:NAME, one "
            "like 'symbol vllm.config.cache:CacheConfig.block_size'",
        ),
        (
            "symbol vllm/core.py:Pool",
            "p:7: Exit-When names the symbol 'vllm/core.py:Pool', expected MODULE:NAME, one like "
            "'symbol vllm.config.cache:CacheConfig.block_size'",
        ),
        (
            "symbol",
            "p:7: Exit-When names the symbol '', expected MODULE:NAME, one like "
            "'symbol vllm.config.cache:CacheConfig.block_size'",
        ),
        (
            "file ../vllm/x.py",
            "p:7: Exit-When names the file '../vllm/x.py', expected a path in the tree, one like "
            "'file vllm/config/cache.py'",
        ),
        (
            "file /vllm/x.py",
            "p:7: Exit-When names the file '/vllm/x.py', expected a path in the tree, one like "
            "'file vllm/config/cache.py'",
        ),
        (
            "file vllm/x.py vllm/y.py",
            "p:7: Exit-When names the file 'vllm/x.py vllm/y.py', expected a path in the tree, one "
            "like 'file vllm/config/cache.py'",
        ),
        (
            "file vllm\\x.py",
            "p:7: Exit-When names the file 'vllm\\\\x.py', expected a path in the tree, one like "
            "'file vllm/config/cache.py'",
        ),
        (
            "text vllm/x.py a = b",
            "p:7: Exit-When has no text in quotes, expected one like "
            "'text vllm/config/cache.py \"block_size = 16\"'",
        ),
        (
            'text vllm/x.py " "',
            "p:7: Exit-When has no text in quotes, expected one like "
            "'text vllm/config/cache.py \"block_size = 16\"'",
        ),
        (
            'text vllm/x.py "a = b',
            "p:7: Exit-When has no text in quotes, expected one like "
            "'text vllm/config/cache.py \"block_size = 16\"'",
        ),
        (
            'text "a = b"',
            "p:7: Exit-When names the file '', expected a path in the tree, one like "
            "'text vllm/config/cache.py \"block_size = 16\"'",
        ),
        (
            "release 0.30",
            "p:7: Exit-When '0.30' is no version range, expected one like 'release >=0.30'",
        ),
        ("release", "p:7: Exit-When names no release, expected one like 'release >=0.30'"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_condition(line, "p:7")
    assert str(caught.value) == message


def test_a_field_has_one_condition_a_line() -> None:
    value = "file vllm/a.py\nno-file vllm/b.py"
    assert [str(one) for one in parse_conditions(value, "p", 3)] == value.split("\n")
    with pytest.raises(PatchkitError) as caught:
        parse_conditions("file vllm/a.py\n\nfile", "p", 3)
    assert caught.value.place == "p:5"


HEADER = """\
Description: one
Reason: one
Origin: here
Forwarded: no
Exit-Condition: none
Applies-To: >=0.28
"""


def test_a_header_tells_each_wrong_line_of_the_field() -> None:
    text = HEADER + "Exit-When: file vllm/a.py\n file\n release >=0.30\n soon\n"
    header = parse_header(text.encode(), "a.patch")
    assert validate_header(header, "a.patch") == (
        "a.patch:8: Exit-When names the file '', expected a path in the tree, one like "
        "'file vllm/config/cache.py'",
        "a.patch:10: Exit-When begins with 'soon', expected one of symbol, file, text, release, "
        "no-symbol, no-file, no-text",
    )


def test_an_empty_field_is_a_problem() -> None:
    header = parse_header((HEADER + "Exit-When:\n").encode(), "a.patch")
    assert validate_header(header, "a.patch") == ("a.patch:7: Exit-When is empty",)
