"""What shows that a file was saved before its edit was done, or by a tool that changed it all."""

from __future__ import annotations

from patchkit.syntax.tree import compile_error
from patchkit.tree import PYTHON

# git's and diff3's; a line of `=======` alone also underlines headings
_MARKERS = (b"<<<<<<< ", b">>>>>>> ", b"||||||| ")
_BOM = b"\xef\xbb\xbf"


def unfinished(path: str, before: bytes | None, after: bytes) -> str | None:
    """Return what is wrong with an edited file that was not before, None where nothing is."""
    known = before or b""
    old = set(known.splitlines())
    for number, line in enumerate(after.splitlines(), start=1):
        if line.startswith(_MARKERS) and line not in old:
            return f"line {number} is a conflict marker: {line.decode('utf-8', 'replace')[:40]}"
    if before is not None and b"\r\n" not in known and b"\r\n" in after:
        return "the lines end in CR LF, and did not before"
    if b"\r\n" in known and b"\n" in after and b"\r\n" not in after:
        return "the lines end in LF, and did in CR LF before"
    if after.startswith(_BOM) and not known.startswith(_BOM):
        return "the file begins with a byte order mark, which it did not have before"
    if path.endswith(PYTHON) and compile_error(known) is None:
        problem = compile_error(after)
        if problem is not None:
            return f"line {problem[0]} does not compile: {problem[1]}"
    return None


def is_layout(before: bytes, after: bytes) -> bool:
    """Return whether two texts differ in blank lines and the ends of lines alone."""
    old, new = ([s for line in t.splitlines() if (s := line.rstrip())] for t in (before, after))
    return old == new
