"""Requires: what a patch needs of the environment that it runs in, one need a line.

A line is one of

    package triton>=3.4          a distribution that is installed, as in PEP 508
    module flashinfer.decode     a module that can be found
    python >=3.11                the interpreter's version
    command nvcc                 a program on the search path
    header cuda_fp8.h            a file that a C compiler finds
    option VLLM_CACHE_ROOT       a variable of the environment that is set, with =VALUE to that
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from patchkit.errors import PatchkitError


class Need(StrEnum):
    """What a requirement asks for."""

    PACKAGE = "package"
    MODULE = "module"
    PYTHON = "python"
    COMMAND = "command"
    HEADER = "header"
    OPTION = "option"


_EXAMPLES = {
    Need.PACKAGE: "package triton>=3.4",
    Need.MODULE: "module flashinfer.decode",
    Need.PYTHON: "python >=3.11",
    Need.COMMAND: "command nvcc",
    Need.HEADER: "header cuda_fp8.h",
    Need.OPTION: "option VLLM_CACHE_ROOT=/var/cache",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Required:
    """One requirement: `name` is what is asked for, `range` the versions that will do.

    `value` is what an option has to be set to, None where anything will do.
    """

    need: Need
    name: str
    range: SpecifierSet | None = None
    value: str | None = None

    def __str__(self) -> str:
        if self.need is Need.PYTHON:
            return f"python {self.range}"
        value = f"={self.value}" if self.value is not None else ""
        return f"{self.need.value} {self.name}{self.range or ''}{value}"


def parse_requires(value: str, place: str, lineno: int) -> tuple[Required, ...]:
    """Return the requirements of a Requires field that begins in a line of a patch.

    Raises PatchkitError with place `place:line` for the first that is none.
    """
    return tuple(parse_required(line, f"{place}:{n}") for n, line in _lines(value, lineno))


def requires_problems(value: str, lineno: int) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with a Requires field that begins in a line, each with its line."""
    if not value.strip():
        yield lineno, "Requires is empty"
    for number, line in _lines(value, lineno):
        try:
            parse_required(line, "")
        except PatchkitError as error:
            yield number, str(error)


def parse_required(line: str, place: str) -> Required:
    """Return the requirement that a line states; raises PatchkitError with the place."""
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    try:
        need = Need(word)
    except ValueError as err:
        known = ", ".join(need.value for need in Need)
        fact = f"Requires begins with {word!r}"
        raise PatchkitError(fact, place=place, expected=f"one of {known}") from err
    found = _parsed(need, rest)
    if found is None:
        raise PatchkitError(
            f"Requires names the {need.value} {rest!r}",
            place=place,
            expected=f"one like {_EXAMPLES[need]!r}",
        )
    return found


def _parsed(need: Need, text: str) -> Required | None:
    """Return the requirement that a text states, None where it states none."""
    if need is Need.PACKAGE:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            return None
        is_plain = not (wanted.url or wanted.extras or wanted.marker)
        return Required(need, wanted.name, wanted.specifier) if is_plain else None
    if need is Need.PYTHON:
        try:
            allowed = SpecifierSet(text)
        except InvalidSpecifier:
            return None
        return Required(need, "python", allowed) if list(allowed) else None
    if need is Need.OPTION:
        name, equals, value = text.partition("=")
        known = _VARIABLE.fullmatch(name) is not None
        return Required(need, name, value=value if equals else None) if known else None
    if not text or len(text.split()) > 1:
        return None
    if need is Need.MODULE and not all(part.isidentifier() for part in text.split(".")):
        return None
    is_path = text.startswith(("/", "-")) or ".." in text.split("/") or "\\" in text
    return None if is_path or (need is Need.COMMAND and "/" in text) else Required(need, text)


def _lines(value: str, lineno: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(value.split("\n"), start=lineno):
        if line.strip():
            yield number, line
