"""Patches onto contents: exact lines or nothing. No fuzz, no repository, no disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.diff.model import (
    FileChange,
    FilePatch,
    Hunk,
    Line,
    Note,
    Patch,
    blob_id,
    split_lines,
)
from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR, SourceTree

_ELLIPSIS = re.compile(rb"\s*(#|//)?\s*(\.\.\.|\xe2\x80\xa6)")
_ELLIPSIS_HINT = "a line that is only '...' stands for itself; write out what it leaves out"


@dataclass(frozen=True)
class HunkRange:
    """Where a hunk landed: line ranges in the old and in the new content, 0-based, half-open."""

    old: tuple[int, int]
    new: tuple[int, int]
    offset: int = 0


@dataclass(frozen=True)
class Applied:
    """A file after its section: None where it was deleted; one range a hunk, in order."""

    content: bytes | None
    hunk_ranges: tuple[HunkRange, ...]
    notes: tuple[Note, ...] = ()


def apply_exact(
    file_patch: FilePatch, content: bytes | None, *, allow_offset: bool = False
) -> Applied:
    """Return the content after the section; `content` is the old file's, None where there is none.

    A hunk lands where its header says. With `allow_offset` it may land elsewhere if its old lines
    occur exactly once in the file. Raises PatchkitError, naming the hunk, for anything else, and
    for a section that changes nothing.
    """
    _check_presence(file_patch, content)
    file_patch, notes = fit_line_endings(file_patch, content or b"")
    lines = split_lines(content or b"")
    ranges: list[HunkRange] = []
    result: list[bytes] = []
    done = 0
    for number, hunk in enumerate(file_patch.hunks, start=1):
        at, hunk_notes = _find(file_patch, number, lines, allow_offset=allow_offset)
        if at < done:
            raise _error(file_patch, number, at, "overlaps the hunk above it")
        result += lines[done:at]
        done = at + hunk.old_count
        ranges.append(
            HunkRange((at, done), (len(result), len(result) + hunk.new_count), at - _stated(hunk))
        )
        result += hunk.new_lines
        notes += hunk_notes
        _check_last_line(file_patch, number, lines, result, done)
    result += lines[done:]
    new_content = b"".join(result)
    _check_result(file_patch, content, new_content)
    gone = file_patch.change is FileChange.DELETE
    return Applied(None if gone else new_content, tuple(ranges), notes)


def apply_patch(patch: Patch, tree: SourceTree, *, allow_offset: bool = False) -> SourceTree:
    """Return the tree after every section, in order; raises PatchkitError as `apply_exact` does."""
    for file in patch.files:
        source = file.path if file.old_path is None else file.old_path
        applied = apply_exact(file, tree.files.get(source), allow_offset=allow_offset)
        if file.new_path not in (None, source) and file.new_path in tree.files:
            raise PatchkitError("file is there already", place=file.path)
        mode = file.new_mode or (tree.mode(source) if source in tree.files else REGULAR)
        changes: dict[str, bytes | None] = {file.path: applied.content}
        if file.change is not FileChange.COPY and source != file.path:
            changes[source] = None
        modes = {file.path: mode} if mode != REGULAR and applied.content is not None else {}
        kept = {path: m for path, m in tree.modes.items() if path not in changes or path == source}
        if file.change is not FileChange.COPY:
            kept.pop(source, None)
        tree = replace(tree.with_changes(changes), modes={**kept, **modes})
    return tree


def verify_blob_ids(patch: Patch, tree: SourceTree) -> tuple[Note, ...]:
    """Return a note for each section whose old id is not that of the tree's file: trust it not."""
    notes = []
    for file in patch.files:
        if file.old_path is None or file.old_id is None or file.old_path not in tree.files:
            continue
        found = blob_id(tree.files[file.old_path])
        if not found.startswith(file.old_id):
            text = f"{file.old_path} is not blob {file.old_id} but {found[: len(file.old_id)]}"
            notes.append(Note(file.lineno, f"{text}: ids not trusted"))
    return tuple(notes)


def find_lines(lines: Sequence[bytes], wanted: Sequence[bytes]) -> list[int]:
    """Return every index at which the wanted lines occur one after the other."""
    if not wanted:
        return []
    count, first, whole = len(wanted), wanted[0], list(wanted)
    last = len(lines) - count
    return [
        at
        for at, line in enumerate(lines)
        if at <= last and line == first and list(lines[at : at + count]) == whole
    ]


def fit_line_endings(file_patch: FilePatch, content: bytes) -> tuple[FilePatch, tuple[Note, ...]]:
    """Return the section with the line endings of the file, noted where that changes it.

    Only where it cannot be meant otherwise: no line of the section has a carriage return, and
    every line of the file has one.
    """
    texts = [line.text for hunk in file_patch.hunks for line in hunk.lines]
    ends = [line for line in split_lines(content) if line.endswith(b"\n")]
    if not ends or not all(line.endswith(b"\r\n") for line in ends):
        return file_patch, ()
    if not texts or any(text.endswith((b"\r\n", b"\r")) for text in texts):
        return file_patch, ()
    hunks = tuple(
        replace(hunk, lines=tuple(Line(line.kind, _to_crlf(line.text)) for line in hunk.lines))
        for hunk in file_patch.hunks
    )
    note = Note(
        file_patch.lineno, f"{file_patch.path} has CRLF line endings; its hunks were given them"
    )
    return replace(file_patch, hunks=hunks, crlf=False), (note,)


def _to_crlf(text: bytes) -> bytes:
    return text[:-1] + b"\r\n" if text.endswith(b"\n") else text


def _stated(hunk: Hunk) -> int:
    return hunk.old_start - 1 if hunk.old_count else hunk.old_start


def _find(
    file_patch: FilePatch, number: int, lines: list[bytes], *, allow_offset: bool
) -> tuple[int, tuple[Note, ...]]:
    """Return the index at which a hunk lands, or raise."""
    hunk = file_patch.hunks[number - 1]
    stated, wanted = _stated(hunk), hunk.old_lines
    if not wanted:
        if stated > len(lines):
            raise _error(
                file_patch, number, stated, f"goes after line {stated}, which is not there"
            )
        if not lines:
            return stated, ()
        text = f"hunk {number} of {file_patch.path} has no context: taken to go after line {stated}"
        return stated, (Note(hunk.lineno, text),)
    if lines[stated : stated + len(wanted)] == wanted:
        return stated, ()
    found = find_lines(lines, wanted)
    if allow_offset and len(found) == 1:
        text = f"hunk {number} of {file_patch.path} landed {found[0] - stated:+d} lines off"
        return found[0], (Note(hunk.lineno, text),)
    raise _mismatch(file_patch, number, lines, found)


def _mismatch(
    file_patch: FilePatch, number: int, lines: list[bytes], found: list[int]
) -> PatchkitError:
    """Return the error for a hunk whose old lines are not where it says."""
    hunk = file_patch.hunks[number - 1]
    stated = _stated(hunk)
    if found:
        places = ", ".join(str(at + 1) for at in found[:8])
        more = f" and {len(found) - 8} more" if len(found) > 8 else ""
        return _error(
            file_patch,
            number,
            stated,
            f"does not match here; its old lines are at line {places}{more}",
            expected=f"them at line {stated + 1}",
        )
    ahead, wanted = next(
        (ahead, text)
        for ahead, text in enumerate(hunk.old_lines)
        if lines[stated + ahead : stated + ahead + 1] != [text]
    )
    here = lines[stated + ahead] if stated + ahead < len(lines) else None
    fact = "is past the end of the file" if here is None else f"does not match {_shown(here)}"
    return _error(
        file_patch,
        number,
        stated + ahead,
        fact,
        expected=_shown(wanted),
        hint=_hint(hunk, here, wanted),
    )


def _hint(hunk: Hunk, here: bytes | None, wanted: bytes) -> str | None:
    if any(_ELLIPSIS.fullmatch(text.rstrip(b"\r\n")) for text in hunk.old_lines):
        return _ELLIPSIS_HINT
    if here is None:
        return None
    if here.rstrip(b"\r\n") == wanted.rstrip(b"\r\n"):
        return "only the line ending differs"
    if here.split() == wanted.split():
        return "only blanks differ"
    return None


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "backslashreplace"))


def _error(
    file_patch: FilePatch,
    number: int,
    at: int,
    fact: str,
    *,
    expected: str | None = None,
    hint: str | None = None,
) -> PatchkitError:
    path = file_patch.path if file_patch.old_path is None else file_patch.old_path
    return PatchkitError(
        f"hunk {number} {fact}", place=f"{path}:{at + 1}", expected=expected, hint=hint
    )


def _check_presence(file_patch: FilePatch, content: bytes | None) -> None:
    path = file_patch.path if file_patch.old_path is None else file_patch.old_path
    if file_patch.binary is not None:
        raise PatchkitError(
            "binary change cannot be applied",
            place=path,
            hint="put whole binary files in an overlay",
        )
    if file_patch.change is FileChange.ADD and content is not None:
        raise PatchkitError("file to add is there already", place=path)
    if file_patch.change is not FileChange.ADD and content is None:
        raise PatchkitError(f"file to {file_patch.change.value} is not there", place=path)


def _check_last_line(
    file_patch: FilePatch, number: int, lines: list[bytes], result: list[bytes], done: int
) -> None:
    """Raise where a line without a newline would have another line glued to it."""
    start = len(result) - file_patch.hunks[number - 1].new_count
    body = result[max(start - 1, 0) :]
    follows = lines[done : done + 1]
    if any(not text.endswith(b"\n") for text in [*body, *follows][:-1]):
        raise _error(file_patch, number, done, "puts a line after one that has no newline")


def _check_result(file_patch: FilePatch, content: bytes | None, new_content: bytes) -> None:
    if file_patch.change is FileChange.DELETE and new_content:
        raise PatchkitError(
            "file to delete has lines that the patch does not name", place=file_patch.path
        )
    same_mode = file_patch.old_mode == file_patch.new_mode
    if file_patch.change is FileChange.MODIFY and new_content == content and same_mode:
        raise PatchkitError("patch changes nothing", place=file_patch.path)
