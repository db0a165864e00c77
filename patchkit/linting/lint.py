"""What is wrong with the header of one patch, alone or in the series that it is stored in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from packaging.version import Version

from patchkit.diff import parse_mbox, parse_patch
from patchkit.diff.header import TEST_NAME, Field, Header, is_test, parse_header
from patchkit.diff.mail import decode_text
from patchkit.diff.model import Patch
from patchkit.errors import PatchkitError
from patchkit.linting.header_rules import header_findings
from patchkit.linting.rule import Finding, Severity
from patchkit.series.selection import Key, find_patch

# No release will ever have it: a range that holds it has no upper end.
_NEVER = "99999.0.0"


@dataclass(frozen=True)
class InSeries:
    """Where a patch is stored: its key, its release, and all patches of that in order.

    `proven` are the releases for which it is stored or its tests find it needed, `pinned` all that
    there are.
    """

    key: Key
    release: str
    patches: Mapping[Key, bytes]
    proven: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a header is held against: the day, the repository's files, and the series if any."""

    today: date
    has_file: Callable[[str], bool] = field(default=lambda _: True)
    series: InSeries | None = None


def lint_patch(data: bytes, place: str, context: Context) -> tuple[Finding, ...]:
    """Return what is wrong with the header of a patch file, by line; `place` is the file."""
    try:
        patch = _read(data, place)
        header = parse_header(patch.preamble, place)
    except PatchkitError as error:
        return (unreadable(error, place),)
    found = [*_encoding(data, patch, place)]
    found += header_findings(header, patch.preamble, place, context.today)
    if header.fields:
        found += _tests(header, place, context.has_file)
        if context.series is not None:
            found += _range(header, place, context.series)
            found += _depends(header, place, context.series)
    return tuple(sorted((_printable(one) for one in found), key=_order))


def _order(found: Finding) -> tuple[int, bool]:
    return found.lineno, found.severity is Severity.WARNING


def _read(data: bytes, place: str) -> Patch:
    """Return a patch; of a mailbox with several the first, whose lines are the file's."""
    try:
        return parse_patch(data, place)
    except PatchkitError:
        return parse_mbox(data, place)[0]


def unreadable(error: PatchkitError, place: str) -> Finding:
    """Return the finding for what cannot be read, where the error is if it says so."""
    where, _, line = (error.place or place).rpartition(":")
    fact = f"{error.fact}, expected {error.expected}" if error.expected else error.fact
    if where and line.isdecimal():
        return _printable(Finding("unreadable", where, int(line), fact, error.hint))
    return _printable(Finding("unreadable", error.place or place, 1, fact, error.hint))


def _encoding(data: bytes, patch: Patch, place: str) -> Iterator[Finding]:
    if decode_text(data, place)[0] != data:
        yield Finding("not-utf8", place, 1, "the file is not in UTF-8", "save it as UTF-8")
        return
    for lineno, line in enumerate(patch.preamble.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            text = f"byte {line[error.start]:#04x} in column {error.start + 1} is not UTF-8"
            yield Finding("not-utf8", place, lineno, text, "save the header as UTF-8")


def _printable(found: Finding) -> Finding:
    """Return a finding whose text any terminal takes; the header's own bytes may be no text."""
    text = found.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return replace(found, text=text)


def _tests(header: Header, place: str, has_file: Callable[[str], bool]) -> Iterator[Finding]:
    item = header.find("Test")
    for name in header.tests if item is not None else ():
        assert item is not None
        match = TEST_NAME.fullmatch(name)
        if match is not None and is_test(name) and not has_file(match["path"]):
            text = f"there is no file {match['path']}"
            hint = "the path counts from the root of the repository"
            yield Finding("missing-test", place, _line_of(item, name), text, hint)


def _line_of(item: Field, word: str) -> int:
    """The line on which a field has a word."""
    for lineno, line in enumerate(item.value.split("\n"), item.lineno):
        if word in line.replace(",", " ").split():
            return lineno
    return item.lineno


def _range(header: Header, place: str, series: InSeries) -> Iterator[Finding]:
    item = header.find("Applies-To")
    if item is None or header.applies_to is None:
        return
    if not header.covers(series.release):
        text = f"Applies-To {header.applies_to} does not hold {series.release}"
        hint = f"the patch is stored for v{series.release}: widen the range, or leave it out there"
        yield Finding("range-excludes-release", place, item.lineno, text, hint)
    beyond = [r for r in series.pinned if header.covers(r) and r not in series.proven]
    if beyond:
        names = ", ".join(f"v{release}" for release in sorted(beyond, key=Version))
        text = f"Applies-To {header.applies_to} holds {names}, for which it is not stored"
        hint = (
            f"move it there with `patchkit rebase v{max(beyond, key=Version)}`, or narrow the range"
        )
        yield Finding("range-too-wide", place, item.lineno, text, hint)
    elif header.covers(_NEVER):
        text = f"Applies-To {header.applies_to} has no upper end"
        hint = "end it behind the last release that the patch was tried on"
        yield Finding("range-too-wide", place, item.lineno, text, hint)


def _depends(header: Header, place: str, series: InSeries) -> Iterator[Finding]:
    item = header.find("Depends-On")
    order = list(series.patches)
    for word in header.depends_on if item is not None else ():
        assert item is not None
        lineno = _line_of(item, word)
        try:
            need = find_patch(word, series.patches, folder=series.key[0])
        except PatchkitError as error:
            yield Finding("unknown-dependency", place, lineno, error.fact, error.hint)
            continue
        if order.index(need) >= order.index(series.key):
            text = f"{word} does not come before this patch"
            yield Finding("late-dependency", place, lineno, text, "move it up in the series file")
