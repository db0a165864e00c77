"""A remembered resolution: what a person made of a conflict, kept for the next time it comes up.

Beside the adaptation itself it holds the definitions that the person changed, whole and with what
stands next to them: from there the change can be placed, and proven, on definitions that upstream
has changed since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.diff import Hunk, diff_files, format_hunk, parse_patch
from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import split_lines
from patchkit.placing.adaptation import Adaptation, fingerprint_definition, key_of
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.placing.plan import PatchPlan
from patchkit.syntax.build import try_module
from patchkit.tree import PYTHON


@dataclass(frozen=True)
class Resolution:
    """What a person made of some hunks of a patch in one release.

    `adaptation` is the edit with the fingerprints of hunks and definitions before it,
    `resolved_definitions` those of the definitions after it, empty where it took one away.
    `definitions` is one unified hunk from the changed definitions as they were to as they are
    resolved, with whatever stands beside the changes; empty where the file is no Python. `used_on`
    lists the releases whose stored series it is in.
    """

    patch: str
    adaptation: Adaptation
    resolved_definitions: Mapping[str, str]
    definitions: str
    used_on: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells it apart: which hunks of which patch, for which release and file."""
        return key_of(self.patch, self.adaptation)

    @property
    def texts(self) -> tuple[bytes, bytes] | None:
        """The definitions before and after it as modules, None where none are kept."""
        if not self.definitions:
            return None
        hunk = _hunks(self.adaptation.path, self.definitions)[0]
        return b"".join(hunk.old_lines), b"".join(hunk.new_lines)

    @property
    def sections(self) -> tuple[Hunk, ...]:
        """The hunks of its diff on the target."""
        return _hunks(self.adaptation.path, self.adaptation.diff)

    def numbers_in(self, plan: PatchPlan) -> tuple[int, ...] | None:
        """Return which hunks of a patch it is for, None where the patch does not have them.

        They are told by their lines. Where the patch has a hunk more than once, which of them is
        meant would be a guess.
        """
        found: list[int] = []
        known = [(j.number, fingerprint_hunk(j.hunk)) for f in plan.files for j in f.jobs]
        for fingerprint in dict.fromkeys(self.adaptation.base_hunks):
            same = [number for number, other in known if other == fingerprint]
            if len(same) != self.adaptation.base_hunks.count(fingerprint):
                return None
            found += same
        return tuple(found)


def _hunks(path: str, text: str) -> tuple[Hunk, ...]:
    patch = parse_patch(f"--- a/{path}\n+++ b/{path}\n{text}".encode(), "resolution")
    return patch.files[0].hunks


def make_resolution(patch: str, adaptation: Adaptation, before: bytes, after: bytes) -> Resolution:
    """Return the resolution that an adaptation from `before` to `after` is."""
    names = adaptation.target_definitions
    return Resolution(
        patch,
        adaptation,
        {name: fingerprint_definition(after, name) or "" for name in names},
        _definitions(adaptation.path, before, after),
    )


def _definitions(path: str, before: bytes, after: bytes) -> str:
    """The definitions that change, as one hunk with all of their lines; empty for no Python."""
    if not path.endswith(PYTHON) or try_module(before) is None or try_module(after) is None:
        return ""
    old, new = split_lines(before), split_lines(after)
    changes = diff_lines(old, new)
    kept = _lines_around(before, len(old), changes)
    texts = _narrowed(old, new, changes, kept)
    context = max(text.count(b"\n") for text in texts) + 1
    section = diff_files({path: texts[0]}, {path: texts[1]}, context=context)[0]
    return b"".join(format_hunk(hunk) for hunk in section.hunks).decode("utf-8")


def _narrowed(
    old: Sequence[bytes], new: Sequence[bytes], changes: Sequence[Change], kept: set[int]
) -> tuple[bytes, bytes]:
    """Both texts with none but the kept lines of the old one, and the changes."""
    starts = {change.old_start: change for change in changes}
    before: list[bytes] = []
    after: list[bytes] = []
    gone = {line for change in changes for line in range(change.old_start, change.old_end)}
    for number in range(len(old) + 1):
        if number in starts:
            after += new[starts[number].new_start : starts[number].new_end]
        if number in gone or (number in kept and number < len(old)):
            before.append(old[number])
            after += [] if number in gone else [old[number]]
    return b"".join(before), b"".join(after)


def _lines_around(source: bytes, count: int, changes: Sequence[Change]) -> set[int]:
    """The lines, 0-based, of the statements that changes are in, and of those next to them."""
    body = ast.parse(source).body
    kept: set[int] = set()
    for change in changes:
        kept.update(_in_block(body, 0, count, change))
    return kept


def _in_block(body: Sequence[ast.stmt], start: int, end: int, change: Change) -> Iterator[int]:
    """The lines of a block, which fills [start, end), that tell where a change in it belongs."""
    spans = [_span(statement) for statement in body]
    before = max((high for _, high in spans if high <= change.old_start), default=start)
    after = min((low for low, _ in spans if low >= change.old_end), default=end)
    last = max(change.old_end, change.old_start + 1)
    around = [n for n, (low, high) in enumerate(spans) if change.old_start <= high and low < last]
    # what is added behind a definition may belong to it, blank lines between or not
    around = around or [n for n, (_, high) in enumerate(spans) if high == before]
    for number, (statement, (low, high)) in enumerate(zip(body, spans, strict=True)):
        if number in around:
            yield from _touched(statement, change)
        elif before in (low, high) or after in (low, high):
            yield from _head(statement)
    inside = {line for low, high in spans for line in range(low, high)}
    yield from (line for line in range(before, after) if line not in inside)


def _touched(statement: ast.stmt, change: Change) -> Iterator[int]:
    """The lines of a statement that a change is in or ends at: of a class what is near to it."""
    low, high = _span(statement)
    first = _span(statement.body[0])[0] if isinstance(statement, ast.ClassDef) else low
    if not isinstance(statement, ast.ClassDef) or not low < first <= change.old_start:
        yield from range(low, high)
        return
    yield from range(low, first)
    yield from _in_block(statement.body, first, high, change)


def _head(statement: ast.stmt) -> range:
    """The lines by which a statement is known: of a definition its head and what comes first."""
    low, high = _span(statement)
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return range(low, _span(statement.body[0])[1])
    return range(low, high)


def _span(statement: ast.stmt) -> tuple[int, int]:
    """The lines of a statement, 0-based and half-open, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    low = min([statement.lineno, *(d.lineno for d in decorators)])
    assert statement.end_lineno is not None
    return low - 1, statement.end_lineno
