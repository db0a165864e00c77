"""Canonical diffs of trees: what an export holds, a function of the two trees alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from patchkit.diff.apply import find_lines
from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import NO_BLOB, FileChange, FilePatch, Hunk, Line, blob_id, split_lines
from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR

_PYTHON_HEADING = re.compile(rb"[ \t]*(class|def|async[ \t]+def)[ \t]")
_HEADING = re.compile(rb"[A-Za-z_$]")
_HEADING_BYTES = 80  # as git cuts it


def diff_files(
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    modes_old: Mapping[str, int] | None = None,
    modes_new: Mapping[str, int] | None = None,
    context: int = 3,
) -> tuple[FilePatch, ...]:
    """Return one section for each path that differs, in order of path.

    A moved file is a deletion and an addition. Raises PatchkitError for a file with NUL bytes,
    which no text diff can hold.
    """
    sections = []
    for path in sorted(old.keys() | new.keys()):
        mode_old = (modes_old or {}).get(path, REGULAR)
        mode_new = (modes_new or {}).get(path, REGULAR)
        section = _diff_file(path, old.get(path), new.get(path), mode_old, mode_new, context)
        if section is not None:
            sections.append(section)
    return tuple(sections)


def _diff_file(
    path: str, old: bytes | None, new: bytes | None, mode_old: int, mode_new: int, context: int
) -> FilePatch | None:
    if old == new and (old is None or mode_old == mode_new):
        return None
    if b"\0" in (old or b"") or b"\0" in (new or b""):
        raise PatchkitError("file is binary", place=path, expected="text", hint="use an overlay")
    same = old == new
    change = FileChange.MODIFY
    if old is None:
        change = FileChange.ADD
    elif new is None:
        change = FileChange.DELETE
    return FilePatch(
        old_path=None if old is None else path,
        new_path=None if new is None else path,
        change=change,
        hunks=diff_contents(old or b"", new or b"", path, context),
        old_mode=None if old is None else mode_old,
        new_mode=None if new is None else mode_new,
        old_id=None if same else NO_BLOB if old is None else blob_id(old),
        new_id=None if same else NO_BLOB if new is None else blob_id(new),
    )


def diff_contents(old: bytes, new: bytes, path: str, context: int = 3) -> tuple[Hunk, ...]:
    """Return the hunks from old to new content.

    A hunk has as much context above as below, save at the ends of the file, and more than `context`
    only where its old lines would not be the only ones of their kind in the old file.
    """
    old_lines, new_lines = split_lines(old), split_lines(new)
    groups = _group(diff_lines(old_lines, new_lines), old_lines, context)
    return tuple(_hunk(changes, around, old_lines, new_lines, path) for changes, around in groups)


def _group(
    changes: Sequence[Change], old_lines: list[bytes], context: int
) -> list[tuple[list[Change], int]]:
    """Return the changes of each hunk with its lines of context.

    More context may make a hunk meet the next one; the two become one with the larger context, for
    GNU patch ties a hunk with less context on one side to that end of the file.
    """
    groups: list[tuple[list[Change], int]] = []
    for change in changes:
        group, around = [change], context
        while True:
            around = _unique_context(group, around, old_lines)
            if not groups:
                break
            above, above_around = groups[-1]
            if group[0].old_start - above[-1].old_end > above_around + around:
                break
            groups.pop()
            group, around = above + group, max(above_around, around)
        groups.append((group, around))
    return groups


def _unique_context(group: list[Change], around: int, old_lines: list[bytes]) -> int:
    """Return the least context, from `around` on, that makes the hunk's old lines occur once."""
    while True:
        start = max(group[0].old_start - around, 0)
        end = min(group[-1].old_end + around, len(old_lines))
        if start == 0 and end == len(old_lines):
            return around
        if len(find_lines(old_lines, old_lines[start:end])) == 1:
            return around
        around += 1


def _hunk(
    changes: list[Change], around: int, old_lines: list[bytes], new_lines: list[bytes], path: str
) -> Hunk:
    start = max(changes[0].old_start - around, 0)
    end = min(changes[-1].old_end + around, len(old_lines))
    new_start = changes[0].new_start - (changes[0].old_start - start)
    lines: list[Line] = []
    at = start
    for change in changes:
        lines += [Line(" ", text) for text in old_lines[at : change.old_start]]
        lines += [Line("-", text) for text in old_lines[change.old_start : change.old_end]]
        lines += [Line("+", text) for text in new_lines[change.new_start : change.new_end]]
        at = change.old_end
    lines += [Line(" ", text) for text in old_lines[at:end]]
    old_count = sum(line.kind != "+" for line in lines)
    new_count = sum(line.kind != "-" for line in lines)
    return Hunk(
        start + 1 if old_count else start,
        old_count,
        new_start + 1 if new_count else new_start,
        new_count,
        _section_heading(old_lines, start, path),
        tuple(lines),
    )


def _section_heading(old_lines: list[bytes], start: int, path: str) -> bytes:
    """Return the nearest line above a hunk that names a definition, for people to read."""
    pattern = _PYTHON_HEADING if path.endswith((".py", ".pyi")) else _HEADING
    for line in reversed(old_lines[:start]):
        if pattern.match(line):
            head = line.split(b"\r")[0][:_HEADING_BYTES]
            return head.decode("utf-8", "ignore").encode().strip()
    return b""
