"""Patch files into values: strict where counts disagree, tolerant only with a note."""

from __future__ import annotations

import re
from dataclasses import replace

from patchkit.diff.hunk import at_hunk, parse_hunk, refuse_stray_lines, stray_hunk_error
from patchkit.diff.mail import Letter, decode_text, split_letters
from patchkit.diff.model import EMPTY_BLOB, FileChange, FilePatch, Hunk, Line, Note, Patch
from patchkit.diff.paths import (
    DEV_NULL,
    BadNameError,
    clean_path,
    is_epoch,
    split_name,
    strip_prefixes,
)
from patchkit.diff.reader import PatchReader
from patchkit.diff.section import GitHeader, parse_git_header
from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR

# What diff programs write between sections; it says nothing that the section does not say again.
_NOISE = re.compile(rb"diff |Index: |={20,}$|Only in |Prereq: ")
_CONTEXT_DIFF = re.compile(rb"^\*{15}", re.MULTILINE)
_BINARY = re.compile(rb"Binary files .+ and .+ differ$")
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")

_Names = tuple[tuple[str, str], tuple[str, str]]


def parse_patch(data: bytes, name: str) -> Patch:
    """Return the patch in a file.

    Raises PatchkitError with place `name:line` for damage, and for a mailbox of several patches.
    """
    patches = parse_mbox(data, name)
    if len(patches) > 1:
        raise PatchkitError(
            f"file holds {len(patches)} mails with a patch each",
            place=f"{name}:{patches[1].files[0].lineno}",
            expected="one patch",
            hint="read it as a mailbox, which gives one patch a mail",
        )
    return patches[0]


def parse_mbox(data: bytes, name: str) -> tuple[Patch, ...]:
    """Return one patch a mail, in order; a plain patch file gives one.

    A mail without a patch (a cover letter) is passed over with a note on a patch. Several patches
    are named `name#1`, `name#2` and so on; their lines are counted in the whole file.
    """
    text, notes = decode_text(data, name)
    patches: list[Patch] = []
    for letter in split_letters(text, name):
        patch = _parse_letter(letter, name)
        if patch.files:
            patches.append(replace(patch, notes=(*notes, *patch.notes)))
            notes = ()
        elif any(line.strip() for line in letter.lines):
            notes = (*notes, Note(letter.first, "text without a patch passed over"))
    if not patches:
        raise _no_patch_error(data, text, name)
    if notes:
        patches[-1] = replace(patches[-1], notes=(*patches[-1].notes, *notes))
    if len(patches) == 1:
        return (patches[0],)
    return tuple(replace(p, name=f"{name}#{n}") for n, p in enumerate(patches, start=1))


def _no_patch_error(data: bytes, text: bytes, name: str) -> PatchkitError:
    hint = None
    if not data.strip():
        return PatchkitError("file is empty", place=f"{name}:1", expected="a unified diff")
    if data.startswith(_COMPRESSED):
        hint = "it is compressed"
    elif b"\0" in text[:200]:
        hint = "it looks like UTF-16 without a byte order mark, or like no text at all"
    elif _CONTEXT_DIFF.search(text):
        hint = "it is a context diff; make it with diff -u"
    return PatchkitError("no patch found", place=f"{name}:1", expected="a unified diff", hint=hint)


def _parse_letter(letter: Letter, name: str) -> Patch:
    reader = PatchReader(letter.lines, name, letter.first)
    reader.pos = letter.start
    files: list[FilePatch] = []
    preamble = b""
    text_from = 0
    while _seek_section(reader):
        text = b"".join(_without_noise(reader, text_from, reader.pos))
        file = _parse_section(reader)
        if files:
            file = replace(file, lead=text)
        else:
            preamble = text
        files.append(file)
        text_from = reader.pos
    trailer = b"".join(letter.lines[text_from:])
    sections = _strip_carriage_returns(reader, files)
    _note_repeated(reader, sections)
    notes = (*letter.notes, *sorted(reader.notes, key=lambda note: note.lineno))
    return Patch(name, preamble, sections, trailer, notes)


def _seek_section(reader: PatchReader) -> bool:
    """Move to the next line that starts a file section; False at the end of the text."""
    while reader.pos < len(reader.lines):
        line = reader.line()
        if line.startswith((b"diff --cc ", b"diff --combined ", b"@@@ ")):
            raise reader.error("combined diff of a merge", expected="a diff against one parent")
        if line.startswith(b"@@ -"):
            raise stray_hunk_error(reader)
        if reader.starts_section():
            return True
        if _BINARY.match(line):
            reader.note("binary change without its content passed over: " + _shown(line))
        reader.pos += 1
    return False


def _without_noise(reader: PatchReader, start: int, end: int) -> list[bytes]:
    """Return the lines less those of a diff program that lead up to a section, noted."""
    while end > start and _NOISE.match(reader.lines[end - 1].rstrip(b"\r\n")):
        end -= 1
        alone = reader.lines[end].startswith(b"Only in ")
        what = "file that has no content here" if alone else "line of a diff program"
        reader.note(f"{what} dropped: {_shown(reader.lines[end])}", at=end)
    return reader.lines[start:end]


def _shown(line: bytes) -> str:
    return repr(line.rstrip(b"\r\n").decode("utf-8", "replace")[:60])


def _parse_section(reader: PatchReader) -> FilePatch:
    start = reader.pos
    git = parse_git_header(reader)
    names = _parse_names(reader, git)
    if names is None and at_hunk(reader):
        raise stray_hunk_error(reader)
    try:
        hunks = _parse_hunks(reader, _label(git, names), git=git is not None)
        file = _build(reader, start, git or GitHeader(), names, hunks)
    except BadNameError as err:
        raise reader.error(str(err), at=start) from None
    says_nothing = file.change is FileChange.MODIFY and file.old_mode == file.new_mode
    if not hunks and file.binary is None and (names or says_nothing):
        raise reader.error(f"section for {file.path} has no hunks", at=start)
    return file


def _label(git: GitHeader | None, names: _Names | None) -> str:
    pair = (names[0][0], names[1][0]) if names else git.names if git else None
    if pair is None:
        return "a file without a clear name"
    old, new = strip_prefixes(*pair)
    return old if new == DEV_NULL else new


def _parse_names(reader: PatchReader, git: GitHeader | None) -> _Names | None:
    """Return name and remark of the `---` and of the `+++` line, or None where there are none."""
    if not reader.at_names():
        return None
    try:
        old, new = split_name(reader.line()[4:]), split_name(reader.line(1)[4:])
    except BadNameError as err:
        raise reader.error(str(err)) from None
    plain = _plain_names(git or GitHeader(), (old, new))
    if git and git.stands_alone and plain and _odd_name(git, plain):
        return None  # these are of the next section, one without a `diff --git` line
    for _, remark in (old, new):
        if remark:
            reader.note(f"remark after the file name dropped: {remark!r}")
        reader.take_header()
    return old, new


def _parse_hunks(reader: PatchReader, label: str, *, git: bool) -> tuple[Hunk, ...]:
    hunks: list[Hunk] = []
    while at_hunk(reader):
        start, title = reader.pos, f"hunk {len(hunks) + 1} of {label}"
        hunks.append(parse_hunk(reader, title, git=git, before=hunks))
        refuse_stray_lines(reader, start, title, git=git)
    return tuple(hunks)


def _build(
    reader: PatchReader,
    start: int,
    header: GitHeader,
    names: _Names | None,
    hunks: tuple[Hunk, ...],
) -> FilePatch:
    change, old, new = _change_and_paths(reader, start, header, names, hunks)
    old_mode, new_mode = header.old_mode, header.new_mode
    if change is FileChange.ADD:
        old_mode = None
        if not header.is_new:  # None where only the count says that the file is new
            new_mode = REGULAR if old is None else None
        old = None
    elif change is FileChange.DELETE:
        old_mode, new_mode = old_mode or REGULAR, None
    file = FilePatch(
        old_path=None if old is None else clean_path(old),
        new_path=None if new is None else clean_path(new),
        change=change,
        hunks=hunks,
        old_mode=old_mode,
        new_mode=new_mode,
        old_id=header.old_id,
        new_id=header.new_id,
        similarity=header.similarity,
        lineno=reader.lineno(start),
        binary=header.binary,
    )
    if change is FileChange.ADD and (len(hunks) > 1 or any(hunk.old_count for hunk in hunks)):
        raise reader.error(f"new file {file.path} has old lines", at=start)
    if change is FileChange.DELETE and any(hunk.new_count for hunk in hunks):
        raise reader.error(f"deleted file {file.path} keeps lines", at=start)
    return file


def _change_and_paths(
    reader: PatchReader,
    start: int,
    header: GitHeader,
    names: _Names | None,
    hunks: tuple[Hunk, ...],
) -> tuple[FileChange, str | None, str | None]:
    """Return what the section does, and its names less prefixes.

    An added file keeps its old name only where nothing but the count announces it.
    """
    plain = _plain_names(header, names)
    if plain and (odd := _odd_name(header, plain)):
        raise reader.error(f"section names another file below its first line: {odd}", at=start)
    if header.move is not None:
        return header.move, header.moved_from, header.moved_to
    if plain is None:
        raise reader.error("`diff --git` line has two names that cannot be told apart", at=start)
    old, new = plain
    if header.is_new or old == DEV_NULL:
        return FileChange.ADD, None, new
    if header.is_deleted or new == DEV_NULL:
        return FileChange.DELETE, old, None
    if names and len(hunks) == 1:
        hunk = hunks[0]
        was_empty = header.old_id is not None and EMPTY_BLOB.startswith(header.old_id)
        if (hunk.old_start, hunk.old_count) == (0, 0) and not was_empty:
            reader.note("new file announced only by the count -0,0", at=start)
            return FileChange.ADD, old, new
        if (hunk.new_start, hunk.new_count) == (0, 0) and is_epoch(names[1][1]):
            reader.note("deleted file announced only by its timestamp", at=start)
            return FileChange.DELETE, old, None
    return FileChange.MODIFY, old, new


def _plain_names(header: GitHeader, names: _Names | None) -> tuple[str, str] | None:
    """Return both names less prefixes; a name beside /dev/null is told by the `diff --git` line."""
    pair = (names[0][0], names[1][0]) if names else header.names
    if pair is None:
        return None
    if DEV_NULL not in pair:
        return strip_prefixes(*pair)
    if header.names:
        told = dict(zip(header.names, strip_prefixes(*header.names), strict=True))
        return told.get(pair[0], pair[0]), told.get(pair[1], pair[1])
    return pair[0].removeprefix("a/"), pair[1].removeprefix("b/")


def _odd_name(header: GitHeader, plain: tuple[str, str]) -> str | None:
    """Return the first name that the `diff --git` line does not have."""
    if header.names is None:
        return None
    told = (*strip_prefixes(*header.names), DEV_NULL)
    return next((name for name in plain if name not in told), None)


def _strip_carriage_returns(reader: PatchReader, files: list[FilePatch]) -> tuple[FilePatch, ...]:
    """Return the sections less one CR a line, where every line of the patch file has one."""
    if not reader.headers_crlf:
        return tuple(files)
    bodies = [line.text for file in files for hunk in file.hunks for line in hunk.lines]
    if not all(text.endswith(b"\r\n") for text in bodies if text.endswith(b"\n")):
        reader.note("headers end in CRLF, hunks do not throughout: hunks kept as they are", at=0)
        return tuple(files)
    reader.note("every line ends in CRLF: one CR taken off each, endings follow the target", at=0)
    return tuple(
        replace(file, crlf=True, hunks=tuple(_strip_hunk(hunk) for hunk in file.hunks))
        for file in files
    )


def _strip_hunk(hunk: Hunk) -> Hunk:
    lines = tuple(Line(line.kind, _strip_text(line.text)) for line in hunk.lines)
    return replace(hunk, lines=lines)


def _strip_text(text: bytes) -> bytes:
    return text[:-2] + b"\n" if text.endswith(b"\r\n") else text.removesuffix(b"\r")


def _note_repeated(reader: PatchReader, files: tuple[FilePatch, ...]) -> None:
    seen: set[str] = set()
    for file in files:
        if file.path in seen:
            text = f"{file.path} has more than one section; each applies after the one before"
            reader.notes.append(Note(file.lineno, text))
        seen.add(file.path)
