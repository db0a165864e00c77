"""Git's extended header: what a section says of its file before the first hunk."""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchkit.diff.model import FileChange
from patchkit.diff.paths import BadNameError, parse_plain_name, split_git_names
from patchkit.diff.reader import PatchReader
from patchkit.tree import EXECUTABLE, REGULAR

_INDEX = re.compile(rb"index ([0-9a-fA-F]{4,64})\.\.([0-9a-fA-F]{4,64})(?: (\S+))?$")
_KNOWN_MODES = (REGULAR, EXECUTABLE, 0o120000, 0o160000)
_MOVES = (
    (b"rename from ", "from", FileChange.RENAME),
    (b"rename to ", "to", FileChange.RENAME),
    (b"rename old ", "from", FileChange.RENAME),
    (b"rename new ", "to", FileChange.RENAME),
    (b"copy from ", "from", FileChange.COPY),
    (b"copy to ", "to", FileChange.COPY),
)


@dataclass
class GitHeader:
    """What the lines from `diff --git` to `---` say; `names` have their prefixes still."""

    names: tuple[str, str] | None = None
    is_new: bool = False
    is_deleted: bool = False
    old_mode: int | None = None
    new_mode: int | None = None
    old_id: str | None = None
    new_id: str | None = None
    similarity: int | None = None
    move: FileChange | None = None
    moved_from: str | None = None
    moved_to: str | None = None
    binary: bytes | None = None

    @property
    def stands_alone(self) -> bool:
        """Return whether the section says something even if no names and hunks follow."""
        mode_change = self.old_mode != self.new_mode
        return self.binary is not None or self.move is not None or mode_change


def parse_git_header(reader: PatchReader) -> GitHeader | None:
    """Return the extended header at the position, or None where there is no `diff --git` line."""
    if not reader.line().startswith(b"diff --git "):
        return None
    start = reader.pos
    header = GitHeader()
    try:
        header.names = split_git_names(reader.line()[len(b"diff --git ") :])
        reader.take_header()
        while _take_mode(reader, header) or _take_move(reader, header) or _take_ids(reader, header):
            reader.take_header()
    except BadNameError as err:
        raise reader.error(str(err)) from None
    _take_binary(reader, header)
    _check(reader, start, header)
    return header


def _take_mode(reader: PatchReader, header: GitHeader) -> bool:
    line = reader.line()
    if line.startswith(b"new file mode "):
        header.is_new, header.new_mode = True, _parse_mode(reader, line)
    elif line.startswith(b"deleted file mode "):
        header.is_deleted, header.old_mode = True, _parse_mode(reader, line)
    elif line.startswith(b"old mode "):
        header.old_mode = _parse_mode(reader, line)
    elif line.startswith(b"new mode "):
        header.new_mode = _parse_mode(reader, line)
    else:
        return False
    return True


def _take_move(reader: PatchReader, header: GitHeader) -> bool:
    line = reader.line()
    for start, end, change in _MOVES:
        if line.startswith(start):
            name = parse_plain_name(line[len(start) :])
            header.move = change
            if end == "from":
                header.moved_from = name
            else:
                header.moved_to = name
            return True
    return False


def _take_ids(reader: PatchReader, header: GitHeader) -> bool:
    line = reader.line()
    if match := re.fullmatch(rb"(similarity|dissimilarity) index (\d{1,3})%", line):
        if match[1] == b"similarity":
            header.similarity = int(match[2])
        else:
            reader.note("dissimilarity index dropped")
        return True
    if not line.startswith(b"index "):
        return False
    found = _INDEX.fullmatch(line)
    if not found:
        text = line.decode("utf-8", "replace")
        reader.note(f"index line with invented ids dropped: {text[:80]!r}")
        return True
    header.old_id, header.new_id = found[1].decode().lower(), found[2].decode().lower()
    if found[3] is not None:
        mode = _parse_mode(reader, line)
        header.old_mode = mode if header.old_mode is None else header.old_mode
        header.new_mode = mode if header.new_mode is None else header.new_mode
    return True


def _parse_mode(reader: PatchReader, line: bytes) -> int:
    text = line.rsplit(b" ", 1)[1]
    if not re.fullmatch(rb"[0-7]{6}", text):
        raise reader.error(
            f"mode is {text.decode('utf-8', 'replace')!r}", expected="six octal digits"
        )
    mode = int(text, 8)
    if mode in _KNOWN_MODES:
        return mode
    if mode & 0o170000 != 0o100000:
        raise reader.error(f"mode {mode:o} is of no file that a tree can hold")
    reader.note(f"mode {mode:o} read as {EXECUTABLE if mode & 0o111 else REGULAR:o}")
    return EXECUTABLE if mode & 0o111 else REGULAR


def _take_binary(reader: PatchReader, header: GitHeader) -> None:
    """Take `Binary files ... differ`, or a literal or delta with its base-85 lines."""
    start = reader.pos
    if re.match(rb"(Binary )?files .* differ$", reader.line(), re.IGNORECASE):
        reader.take_header()
    elif reader.line() == b"GIT binary patch":
        reader.take_header()
        while re.match(rb"(literal|delta) \d+$", reader.line()):
            while reader.line():
                reader.take_header()
            if reader.pos < len(reader.lines):
                reader.take_header()
    else:
        return
    body = b"".join(reader.lines[start : reader.pos])
    header.binary = body.replace(b"\r\n", b"\n") if reader.headers_crlf else body


def _check(reader: PatchReader, start: int, header: GitHeader) -> None:
    if header.move and (header.moved_from is None or header.moved_to is None):
        raise reader.error(
            f"section says only one half of a {header.move.value}", at=start, expected="from and to"
        )
    if header.is_new + header.is_deleted + (header.move is not None) > 1:
        raise reader.error("section says two of: new file, deleted file, moved file", at=start)
    if header.is_new or header.is_deleted:
        return
    if (header.old_mode is None) != (header.new_mode is None):
        raise reader.error(
            "section says only one half of a mode change",
            at=start,
            expected="old mode and new mode",
        )
