"""What a patch's own tests said of it on one release, with and without it, and a file of that.

The file holds no times and no paths of a machine, so that the same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError
from patchkit.series.toml_text import quoted, read_toml

VERDICTS = "verdicts.toml"
FORMAT = 1
_HEAD = "# Written by `patchkit test`: what the tests of a patch say with and without it.\n"


class Colour(StrEnum):
    """What the named tests said on one tree.

    Red: all ran, and the own assertion of at least one failed. Green: all ran and passed. Broken:
    anything else, which proves nothing.
    """

    RED = "red"
    GREEN = "green"
    BROKEN = "broken"


class Verdict(StrEnum):
    """What that says of the patch."""

    NEEDED = "needed"  # red, then green
    SUPERSEDED = "superseded"  # green without it, whatever it is with it
    NOT_EFFECTIVE = "not effective"  # red on both
    BROKEN = "broken"


@dataclass(frozen=True)
class StoredVerdict:
    """The verdict on one patch for one release, and what it was made from.

    `patched` is None where there was nothing to run: the patch does not land there, or changes
    nothing. `base` is the release whose stored patch was moved and tested; `patch_sha256` tells
    that one apart from any other that says something else, or comes with other new files, and
    `moved_sha256` what became of it on the release. `reason` is one line. `torch` is the
    version that the tests really imported.
    """

    release: str
    patch: str
    verdict: Verdict
    pristine: Colour
    patched: Colour | None
    reason: str
    base: str
    tests: tuple[str, ...]
    patch_sha256: str
    moved_sha256: str
    test_sha256: str
    torch: str | None = None

    @property
    def key(self) -> tuple[Version, str]:
        """What there is one verdict for, in the order of the file."""
        return Version(self.release), self.patch


def judge(pristine: Colour, patched: Colour | None, *, lands: bool = True) -> Verdict:
    """Return the verdict from the two runs; a patch without a tree of its own changes nothing.

    What is green without the patch needs none, whatever the patch then does to it. Of a patch that
    is wanted and does not land nothing is proven.
    """
    if pristine is Colour.BROKEN:
        return Verdict.BROKEN
    if pristine is Colour.GREEN:
        return Verdict.SUPERSEDED
    if patched is Colour.BROKEN or not lands:
        return Verdict.BROKEN
    return Verdict.NEEDED if patched is Colour.GREEN else Verdict.NOT_EFFECTIVE


def replaced(
    verdicts: Iterable[StoredVerdict], new: Iterable[StoredVerdict]
) -> tuple[StoredVerdict, ...]:
    """Return verdicts with others in the place of those for the same release and patch."""
    merged = {verdict.key: verdict for verdict in (*verdicts, *new)}
    return tuple(merged[key] for key in sorted(merged))


def parse_verdicts(data: bytes, place: str) -> tuple[StoredVerdict, ...]:
    """Return the verdicts in a `verdicts.toml`; raises PatchkitError for any other content."""
    document = read_toml(data, place, FORMAT)
    rows = document.get("verdict", [])
    if not isinstance(rows, list):
        raise PatchkitError("verdict is no list", place=place, expected="[[verdict]] tables")
    found = [_parse_row(row, f"{place}: verdict {n}") for n, row in enumerate(rows, start=1)]
    if len({verdict.key for verdict in found}) < len(found):
        raise PatchkitError("has two verdicts for one release and patch", place=place)
    return tuple(sorted(found, key=lambda verdict: verdict.key))


def format_verdicts(verdicts: Iterable[StoredVerdict]) -> bytes:
    """Return the file, by release and patch."""
    parts = [f"{_HEAD}format = {FORMAT}\n"]
    for verdict in sorted(verdicts, key=lambda verdict: verdict.key):
        parts.append("\n[[verdict]]\n")
        for name in StoredVerdict.__dataclass_fields__:
            value = getattr(verdict, name)
            if value is not None:
                parts.append(f"{name} = {_toml(value)}\n")
    return "".join(parts).encode()


def _toml(value: str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return quoted(str(value))


def _parse_row(row: Any, place: str) -> StoredVerdict:
    fields = StoredVerdict.__dataclass_fields__
    if not isinstance(row, dict):
        raise PatchkitError("is no table", place=place)
    optional = {"torch", "patched"}
    for name in sorted({*row, *fields}):
        if name not in fields:
            raise PatchkitError(f"unknown key {name!r}", place=place, expected=", ".join(fields))
        value = row.get(name)
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (texts if name == "tests" else isinstance(value, str)) and not (
            value is None and name in optional
        ):
            expected = "a list of strings" if name == "tests" else "a string"
            raise PatchkitError(f"{name} is {value!r}", place=place, expected=expected)
    try:
        Version(row["release"])
        patched = Colour(row["patched"]) if "patched" in row else None
        known = {
            "verdict": Verdict(row["verdict"]),
            "pristine": Colour(row["pristine"]),
            "patched": patched,
            "tests": tuple(row["tests"]),
        }
    except (ValueError, InvalidVersion) as err:
        raise PatchkitError(str(err), place=place) from err
    return StoredVerdict(**{"torch": None, **row, **known})
