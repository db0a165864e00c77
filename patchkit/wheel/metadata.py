"""The places where a distribution says its version: METADATA, WHEEL beside it, `_version.py`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from packaging.version import Version

from patchkit.errors import PatchkitError

_VERSION_LINE = re.compile(rb"^Version:[ \t]*(.*?)[ \t]*(\r?\n)", re.MULTILINE | re.IGNORECASE)
_END_OF_HEADERS = re.compile(rb"^\r?\n", re.MULTILINE)


@dataclass(frozen=True)
class Fields:
    """The header fields of METADATA or WHEEL, in order and as written."""

    place: str
    items: tuple[tuple[str, str], ...]

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of a field."""
        return tuple(value for key, value in self.items if key.lower() == name.lower())

    def one(self, name: str) -> str:
        """Return the value of a field; raises PatchkitError unless it is there exactly once."""
        values = self.all(name)
        if len(values) != 1 or not values[0]:
            found = f"{len(values)} times" if len(values) != 1 else "without a value"
            raise PatchkitError(f"{name} is there {found}", place=self.place, expected="one value")
        return values[0]


def parse_fields(content: bytes, place: str) -> Fields:
    """Return the header fields of a METADATA or WHEEL file."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as err:
        raise PatchkitError("is not UTF-8", place=place) from err
    message = BytesHeaderParser().parsebytes(content)
    if message.defects:
        fact = f"is damaged: {type(message.defects[0]).__name__}"
        raise PatchkitError(fact, place=place, expected="header fields")
    items = tuple((key, str(value).strip()) for key, value in message.items())
    return Fields(place, items)


def set_version(metadata: bytes, version: str, place: str) -> bytes:
    """Return a METADATA with another Version; every other byte stays."""
    parse_fields(metadata, place).one("Version")
    end = _END_OF_HEADERS.search(metadata)
    head = metadata[: end.start()] if end else metadata
    match = _VERSION_LINE.search(head)
    assert match is not None
    return metadata[: match.start(1)] + version.encode() + metadata[match.end(1) :]


def set_module_version(content: bytes, old: str, new: str, place: str) -> bytes:
    """Return a `_version.py` that assigns another version, as setuptools-scm would write it.

    Changes the strings and tuples assigned to `__version__`, `version`, `__version_tuple__` and
    `version_tuple`. Raises PatchkitError where `__version__` is not assigned the old version.
    """
    edits = []
    for statement in ast.parse(content).body:
        if isinstance(statement, ast.Assign):
            names = {t.id.strip("_") for t in statement.targets if isinstance(t, ast.Name)}
            wanted: str | tuple[int | str, ...] | None = None
            if "version" in names and _literal(statement.value) == old:
                wanted = new
            elif "version_tuple" in names and _literal(statement.value) == _parts(old):
                wanted = _parts(new)
            if wanted is not None:
                edits.append((*_span(content, statement.value), repr(wanted).encode()))
    if not any(replacement == repr(new).encode() for _, _, replacement in edits):
        raise PatchkitError(
            f"does not assign {old!r} to __version__",
            place=place,
            hint="--keep-module-version leaves the file as it is",
        )
    for start, end, replacement in reversed(edits):
        content = content[:start] + replacement + content[end:]
    return content


def _parts(version: str) -> tuple[int | str, ...]:
    """Return a version as setuptools-scm's tuple: the release, dev, the local label."""
    parsed = Version(version)
    parts: tuple[int | str, ...] = parsed.release
    if parsed.dev is not None:
        parts += (f"dev{parsed.dev}",)
    return (*parts, parsed.local) if parsed.local is not None else parts


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _span(content: bytes, node: ast.expr) -> tuple[int, int]:
    """Return a node's place in the file, in bytes: 0-based and half-open."""
    lines = content.splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    return start, sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
