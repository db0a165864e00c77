"""What a verdict was made from, as digests that change only where the result could.

A patch that merely moves to other lines is the same patch, and a better description does not
ask for new runs; another line in a hunk, in what the patch depends on or in a new file does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from patchkit.diff.parse import parse_patch
from patchkit.series.overlay import Overlay


def digest_patches(patches: Iterable[tuple[str, bytes]], overlay: Overlay | None = None) -> str:
    """Return the digest of patches in order, each (name, bytes): what they change, not where.

    The first ones are what the last depends on. The new files of an overlay are in the tree that is
    tested: where each goes and the digest of its text count, not where its source is kept.
    """
    total = sha256()
    for name, data in patches:
        for file in parse_patch(data, name).files if data else ():
            head = (file.old_path, file.new_path, file.change.value, file.new_mode)
            total.update(f"file {head}\n".encode())
            for hunk in file.hunks:
                total.update(b"hunk\n")
                for line in hunk.lines:
                    total.update(line.kind.encode() + line.text + b"\0")
            total.update(b"binary\n" + file.binary if file.binary is not None else b"")
        total.update(b"end\n")
    for entry in sorted(overlay.entries if overlay else (), key=lambda entry: entry.path):
        total.update(f"overlay {entry.path} {entry.sha256}\n".encode())
    return total.hexdigest()


def digest_tests(names: Iterable[str], files: Mapping[str, bytes]) -> str:
    """Return the digest of named tests, in order, and of the files that they are in."""
    total = sha256()
    for name in names:
        total.update(f"test {name}\n".encode())
    for path in sorted(files):
        total.update(f"file {path} {len(files[path])}\n".encode() + files[path])
    return total.hexdigest()
