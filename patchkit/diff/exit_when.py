"""Exit-When: the conditions under which a patch may go, one a line, in a form that can be tried.

All of them must hold. A line is one of

    symbol vllm.v1.core.kv_cache_utils:Class.method
    file vllm/v1/core/page_pool.py
    text vllm/v1/core/kv_cache_utils.py "page_budget = shared_page"
    text vllm.v1.core.kv_cache_utils:Class.method "page_budget = shared_page"
    release >=0.30

or, but for the last, its opposite: `no-symbol`, `no-file`, `no-text`. The words of a text may stand
on several lines, with any space between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from patchkit.errors import PatchkitError

NO = "no-"
_FORMS = {
    "symbol": "symbol vllm.config.cache:CacheConfig.block_size",
    "file": "file vllm/config/cache.py",
    "text": 'text vllm/config/cache.py "block_size = 16"',
    "release": "release >=0.30",
}


class Kind(StrEnum):
    """What a condition is about."""

    SYMBOL = "symbol"
    FILE = "file"
    TEXT = "text"
    RELEASE = "release"


@dataclass(frozen=True)
class Condition:
    """One condition; `negated` where it holds when the thing is not there.

    `path` is a file of the tree. `module` and `name` are the two sides of a symbol's colon. `text`
    is what is looked for, in the file or in the symbol's definition; `range` the releases.
    """

    kind: Kind
    negated: bool = False
    path: str | None = None
    module: str | None = None
    name: str | None = None
    text: str | None = None
    range: SpecifierSet | None = None

    def __str__(self) -> str:
        where = self.path or (f"{self.module}:{self.name}" if self.module else str(self.range))
        said = f' "{self.text}"' if self.text is not None else ""
        return f"{NO if self.negated else ''}{self.kind.value} {where}{said}"


def parse_conditions(value: str, place: str, lineno: int) -> tuple[Condition, ...]:
    """Return the conditions of an Exit-When field that begins in a line of a patch.

    Raises PatchkitError with place `place:line` for the first that is none.
    """
    return tuple(
        parse_condition(line, f"{place}:{number}") for number, line in _lines(value, lineno)
    )


def condition_problems(value: str, lineno: int) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with an Exit-When field that begins in a line, each with its line."""
    if not value.strip():
        yield lineno, "Exit-When is empty"
    for number, line in _lines(value, lineno):
        try:
            parse_condition(line, "")
        except PatchkitError as error:
            yield number, str(error)


def parse_condition(line: str, place: str) -> Condition:
    """Return the condition that a line states; raises PatchkitError with the place."""
    word, _, rest = line.strip().partition(" ")
    negated, form, rest = word.startswith(NO), word.removeprefix(NO), rest.strip()
    if form not in _FORMS or (negated and form == "release"):
        words = [*_FORMS, *(f"{NO}{name}" for name in _FORMS if name != "release")]
        raise PatchkitError(
            f"Exit-When begins with {word!r}", place=place, expected="one of " + ", ".join(words)
        )
    expected = f"one like {_FORMS[form]!r}"
    if form == "release":
        return Condition(Kind.RELEASE, range=_range(rest, place, expected))
    text = None
    if form == "text":
        rest, text = _quoted(rest, place, expected)
    if form == "file" or (form == "text" and ":" not in rest):
        return Condition(Kind(form), negated, path=_path(rest, place, expected), text=text)
    module, name = _symbol(rest, place, expected)
    return Condition(Kind(form), negated, module=module, name=name, text=text)


def _lines(value: str, lineno: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(value.split("\n"), start=lineno):
        if line.strip():
            yield number, line


def _range(text: str, place: str, expected: str) -> SpecifierSet:
    try:
        found = SpecifierSet(text)
    except InvalidSpecifier as err:
        fact = f"Exit-When {text!r} is no version range"
        raise PatchkitError(fact, place=place, expected=expected) from err
    if not list(found):
        raise PatchkitError("Exit-When names no release", place=place, expected=expected)
    return found


def _quoted(text: str, place: str, expected: str) -> tuple[str, str]:
    """Return what stands before a quoted text at the end, and the text."""
    where, quote, said = text.partition('"')
    if not quote or not said.endswith('"') or not said[:-1].strip():
        raise PatchkitError("Exit-When has no text in quotes", place=place, expected=expected)
    return where.strip(), said[:-1].strip()


def _path(text: str, place: str, expected: str) -> str:
    odd = "\\" in text or len(text.split()) > 1
    if odd or {"", ".", ".."} & set(text.split("/")):
        fact = f"Exit-When names the file {text!r}"
        raise PatchkitError(fact, place=place, expected=f"a path in the tree, {expected}")
    return text


def _symbol(text: str, place: str, expected: str) -> tuple[str, str]:
    module, colon, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        fact = f"Exit-When names the symbol {text!r}"
        raise PatchkitError(fact, place=place, expected=f"MODULE:NAME, {expected}")
    return module, name
