"""Public names that go where a whole file is replaced: nobody reads them out of such a diff."""

from __future__ import annotations

from collections.abc import Iterator

from patchkit.diff import FilePatch, Patch, apply_exact, split_lines
from patchkit.diff.model import FileChange
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.syntax.outline import outline_or_none
from patchkit.tree import PYTHON, SourceTree

_SHOWN = 12
_DEPTH = 2  # functions, classes, methods: what is inside of a function nobody can name


def lost_names(patch: Patch, tree: SourceTree) -> tuple[str, ...]:
    """Return a sentence for each file of a tree that a patch replaces as a whole.

    It names the public definitions that the new text has no longer. The patch may add the file, or
    remove every line of it; paths are found as the tree has them.
    """
    try:
        resolved, _ = resolve_roots(patch, tree)
    except PatchkitError:
        return ()
    return tuple(_sentences(resolved, tree))


def _sentences(patch: Patch, tree: SourceTree) -> Iterator[str]:
    for file in patch.files:
        old = tree.files.get(file.path)
        new = _new_text(file, old) if old is not None else None
        if old is None or new is None:
            continue
        text = f"{file.path} is replaced as a whole"
        if file.path.endswith(PYTHON):
            gone = [name for name in _public(old) if name not in set(_public(new))]
            more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
            names = ", ".join(gone[:_SHOWN])
            text += f"; public names lost: {names}{more}" if gone else "; no public name is lost"
        yield text


def _new_text(file: FilePatch, old: bytes) -> bytes | None:
    """Return the new text of a file that a section replaces, None where it does not."""
    if file.binary is not None:
        return None
    if file.change is FileChange.ADD:
        return apply_exact(file, None).content
    removed = sum(line.kind == "-" for hunk in file.hunks for line in hunk.lines)
    if file.change is not FileChange.MODIFY or not removed or removed < len(split_lines(old)):
        return None
    return b"".join(text for hunk in file.hunks for text in hunk.new_lines)


def _public(content: bytes) -> list[str]:
    """Return the qualified names of a file's public definitions, in order."""
    outline = outline_or_none(content)
    names = [] if outline is None else [name.split(".") for name in outline.by_name]
    public = [parts for parts in names if not any(part.startswith("_") for part in parts)]
    return [".".join(parts) for parts in public if len(parts) <= _DEPTH]
