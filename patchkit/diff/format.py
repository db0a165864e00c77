"""Patches out of values, in the one canonical form: git headers, names quoted as git does."""

from __future__ import annotations

from patchkit.diff.model import FileChange, FilePatch, Hunk, Patch
from patchkit.diff.paths import encode_path, quote_name

NO_NEWLINE = b"\n\\ No newline at end of file\n"


def format_patch(patch: Patch) -> bytes:
    """Return the patch file: preamble, sections, trailer; LF in headers, bodies as they are."""
    return patch.preamble + format_files(patch.files) + patch.trailer


def format_files(files: tuple[FilePatch, ...]) -> bytes:
    """Return the sections alone."""
    return b"".join(file.lead + format_file(file) for file in files)


def format_file(file: FilePatch) -> bytes:
    """Return one file section."""
    old = _name(b"a/", file.old_path if file.old_path is not None else file.path)
    new = _name(b"b/", file.path)
    parts = [b"diff --git ", old, b" ", new, b"\n", *_mode_lines(file), *_move_lines(file)]
    if file.old_id is not None and file.new_id is not None:
        mode = b" %o" % file.new_mode if _mode_is_on_index(file) and file.new_mode else b""
        parts.append(b"index %s..%s%s\n" % (file.old_id.encode(), file.new_id.encode(), mode))
    if file.binary is not None:
        parts.append(file.binary)
    if file.hunks:
        announced = file.change is FileChange.ADD and file.new_mode is not None
        parts += [b"--- ", b"/dev/null" if announced else _tabbed(old), b"\n"]
        parts += [b"+++ ", b"/dev/null" if file.new_path is None else _tabbed(new), b"\n"]
        parts += [format_hunk(hunk) for hunk in file.hunks]
    return b"".join(parts)


def format_hunk(hunk: Hunk) -> bytes:
    """Return one hunk with its header."""
    old = _format_range(hunk.old_start, hunk.old_count)
    new = _format_range(hunk.new_start, hunk.new_count)
    parts = [b"@@ -%s +%s @@" % (old, new), b" " + hunk.section if hunk.section else b"", b"\n"]
    for line in hunk.lines:
        parts += [line.kind.encode(), line.text]
        if not line.text.endswith(b"\n"):
            parts.append(NO_NEWLINE)
    return b"".join(parts)


def _format_range(start: int, count: int) -> bytes:
    return b"%d" % start if count == 1 else b"%d,%d" % (start, count)


def _name(prefix: bytes, path: str) -> bytes:
    return quote_name(prefix + encode_path(path))


def _tabbed(name: bytes) -> bytes:
    """Return a name with git's tab after one that has blanks: GNU patch would cut it there."""
    return name + b"\t" if b" " in name and not name.startswith(b'"') else name


def _mode_is_on_index(file: FilePatch) -> bool:
    return (
        file.change not in (FileChange.ADD, FileChange.DELETE)
        and file.old_mode == file.new_mode
        and file.old_id is not None
    )


def _mode_lines(file: FilePatch) -> list[bytes]:
    if file.change is FileChange.ADD:
        return [b"new file mode %o\n" % file.new_mode] if file.new_mode is not None else []
    if file.change is FileChange.DELETE:
        return [b"deleted file mode %o\n" % file.old_mode] if file.old_mode is not None else []
    if _mode_is_on_index(file) or file.old_mode is None or file.new_mode is None:
        return []
    return [b"old mode %o\n" % file.old_mode, b"new mode %o\n" % file.new_mode]


def _move_lines(file: FilePatch) -> list[bytes]:
    lines = []
    if file.similarity is not None:
        lines.append(b"similarity index %d%%\n" % file.similarity)
    if file.change in (FileChange.RENAME, FileChange.COPY):
        verb = file.change.value.encode()
        for end, path in ((b"from", file.old_path), (b"to", file.new_path)):
            lines.append(b"%s %s %s\n" % (verb, end, quote_name(encode_path(path or ""))))
    return lines
