"""File names as patches write them: quotes, prefixes, timestamps, remarks."""

from __future__ import annotations

import re

_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_UNSAFE = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
# A timestamp set off by blanks: what is left when a tab was turned into spaces on the way.
_STAMP = re.compile(
    rb"[ \t]+(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[ \t]*[+-]\d\d:?\d\d|Z)?)$"
)
_EPOCH = re.compile(r"(1970-01-01|1969-12-31)[ T]")
_MARKS = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r"}
_MARKS |= {34: b'\\"', 92: b"\\\\"}

DEV_NULL = "/dev/null"


class BadNameError(ValueError):
    """A file name that cannot be read; the parser turns it into an error with its line."""


def decode_path(raw: bytes) -> str:
    """Return a path as text; bytes that are not UTF-8 are kept as surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """Return the bytes of a path made by `decode_path`."""
    return path.encode("utf-8", "surrogateescape")


def quote_name(raw: bytes) -> bytes:
    """Return a name as git writes it by default: quoted where a byte is unsafe in a header."""
    if not _UNSAFE.search(raw):
        return raw
    return b'"' + _UNSAFE.sub(lambda m: _MARKS.get(m[0][0]) or b"\\%03o" % m[0][0], raw) + b'"'


def split_name(raw: bytes) -> tuple[str, str]:
    """Return the name in the rest of a `---` or `+++` line, and the remark after it (or '').

    Raises BadNameError for a quoted name that does not end.
    """
    if raw.startswith(b'"'):
        name, rest = _unquote(raw)
        return name, decode_path(rest.strip())
    name_bytes, _, remark = raw.partition(b"\t")
    if not remark and (stamp := _STAMP.search(raw)):
        return decode_path(raw[: stamp.start()]), decode_path(stamp[1])
    if b"\t" not in raw:  # before a tab, a blank at the end is part of the name
        name_bytes = name_bytes.rstrip(b" ")
    return decode_path(name_bytes), decode_path(remark.strip())


def parse_plain_name(raw: bytes) -> str:
    """Return the name in the rest of a `rename from` line: quoted, or all of it."""
    return _unquote(raw)[0] if raw.startswith(b'"') else decode_path(raw)


def split_git_names(raw: bytes) -> tuple[str, str] | None:
    """Return both names in the rest of a `diff --git` line, or None where it is not clear.

    Names that are not quoted may hold spaces; then the two must agree but for their prefix.
    """
    if raw.startswith(b'"'):
        old, rest = _unquote(raw)
        return old, parse_plain_name(rest[1:])
    if raw.endswith(b'"') and b' "' in raw:
        at = raw.index(b' "')
        return decode_path(raw[:at]), parse_plain_name(raw[at + 1 :])
    if raw.count(b" ") == 1:
        old_raw, new_raw = raw.split(b" ")
        return decode_path(old_raw), decode_path(new_raw)
    for at in (m.start() for m in re.finditer(rb" ", raw)):
        old_raw, new_raw = raw[:at], raw[at + 1 :]
        if old_raw == new_raw or _rest(old_raw) == _rest(new_raw) != b"":
            return decode_path(old_raw), decode_path(new_raw)
    return None


def strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Return both names less the first folder, where only that differs (a/ b/, old/ new/)."""
    if old.startswith("a/") and new.startswith("b/"):
        return old[2:], new[2:]
    old_top, _, old_rest = old.partition("/")
    new_top, _, new_rest = new.partition("/")
    if old_rest and old_rest == new_rest and old_top != new_top and old_top and new_top:
        return old_rest, new_rest
    return old, new


def clean_path(path: str) -> str:
    """Return the path less `./` and doubled slashes; BadNameError for one that no tree can hold."""
    if "\0" in path:
        raise BadNameError("file name holds a NUL byte")
    root = "/" if path.startswith("/") else ""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadNameError(f"file name {path!r} leads out of its tree")
    if not parts:
        raise BadNameError("file name is empty")
    return root + "/".join(parts)


def is_epoch(remark: str) -> bool:
    """Return whether a timestamp is the one that stands for a file that is not there."""
    return bool(_EPOCH.match(remark))


def _rest(raw: bytes) -> bytes:
    return raw.partition(b"/")[2]


def _unquote(raw: bytes) -> tuple[str, bytes]:
    match = _QUOTED.match(raw)
    if not match:
        raise BadNameError("quoted file name does not end")
    body = match[1]
    if b"\\" in _ESCAPE.sub(b"", body):
        raise BadNameError(f"quoted file name {decode_path(body)!r} has an unknown escape")
    plain = _ESCAPE.sub(lambda m: bytes([_ESCAPES.get(m[1]) or int(m[1], 8)]), body)
    return decode_path(plain), raw[match.end() :]
