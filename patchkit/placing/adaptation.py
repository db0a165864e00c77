"""A stored adaptation: what a person decided that a hunk becomes in one release, and until when.

It is a diff on the target as it was when the person decided, with fingerprints of the authored
hunks and of the target definitions that it changes. While both are the same it is placed; when
either changes, its hunks are in conflict again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchkit.diff import diff_files, format_hunk, parse_patch
from patchkit.diff.apply import apply_exact
from patchkit.diff.model import FilePatch, Hunk
from patchkit.errors import PatchkitError
from patchkit.outcome import Evidence, Replayed
from patchkit.placing.fingerprint import (
    FINGERPRINT_FORMAT,
    fingerprint_hunk,
    fingerprint_text,
)
from patchkit.placing.propose import Lines, runs_of
from patchkit.syntax.outline import MODULE, Outline, outline_or_none


@dataclass(frozen=True)
class Adaptation:
    """The text to land in `path` of `release` instead of some hunks of the patch.

    `base_hunks` are the fingerprints of the authored hunks in the order of `hunks`;
    `target_definitions` map qualified names to fingerprints; `diff` holds the hunks of a unified
    diff on the target with all other hunks of the patch landed.
    """

    release: str
    path: str
    hunks: tuple[int, ...]
    reason: str
    base_hunks: tuple[str, ...]
    target_definitions: Mapping[str, str]
    diff: str

    @property
    def written_on(self) -> tuple[str, str]:
        """The release and the file that a person wrote it for."""
        return self.release, self.path

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What speaks for it while it holds."""
        return (
            Evidence("adaptation", f"stored for {self.release}: {self.reason}"),
            Evidence("fingerprints", "the hunk and the target definitions are as they were then"),
        )


@dataclass(frozen=True)
class Replay(Adaptation):
    """An adaptation to this very target that comes from a remembered resolution, with its proof."""

    replayed: Replayed
    proof: tuple[Evidence, ...]
    resolved_in: str

    @property
    def written_on(self) -> tuple[str, str]:
        """The release and the file that it was resolved in."""
        return self.replayed.release, self.resolved_in

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Which resolution it is, and why it may be used here."""
        made = f"resolved for {self.replayed.release}: {self.replayed.reason}"
        return (Evidence("resolution", made), *self.proof)


def key_of(patch: str, made: Adaptation) -> str:
    """Return what tells an adaptation, and the resolution that it is, apart from others."""
    said = "\0".join((patch, made.release, made.path, *made.base_hunks))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def fingerprint_definition(content: bytes, name: str) -> str | None:
    """Return the fingerprint of a definition, layout and comments left out; None where it is gone.

    The name `<module>` stands for the file as a whole.
    """
    outline = outline_or_none(content)
    if name == MODULE or outline is None:
        return fingerprint_text(content)
    node = outline.by_name.get(name)
    return None if node is None else f"{FINGERPRINT_FORMAT}:{node.digest.hex()}"


def make_adaptation(
    *,
    release: str,
    path: str,
    hunks: Sequence[tuple[int, Hunk]],
    before: bytes,
    after: bytes,
    reason: str,
    authored_in: Iterable[str] = (),
) -> Adaptation:
    """Return the adaptation that turns `before` into `after` in place of the given hunks.

    `before` is the target file with everything else of the patch landed, `after` what a person
    made of it. `authored_in` are the definitions that the hunks change where they were authored:
    the person saw them as well, and may have found that nothing is to be done there. Raises
    PatchkitError where nothing changed or no reason is given.
    """
    if before == after:
        raise PatchkitError("the file was not changed", place=path, expected="an edited file")
    if not reason.strip():
        raise PatchkitError("an adaptation has no reason", place=path, hint="give --reason TEXT")
    try:
        after.decode("utf-8"), before.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PatchkitError(
            "an adaptation is stored as text, and the file is not UTF-8",
            place=path,
            hint="leave the hunk out with --skip, and change the file by a patch of its own",
        ) from error
    section = diff_files({path: before}, {path: after})[0]
    names = sorted({*_definitions_changed(before, section), *authored_in})
    return Adaptation(
        release=release,
        path=path,
        hunks=tuple(number for number, _ in hunks),
        reason=reason.strip(),
        base_hunks=tuple(fingerprint_hunk(hunk) for _, hunk in hunks),
        target_definitions={n: fingerprint_definition(before, n) or "" for n in names},
        diff=b"".join(format_hunk(h) for h in section.hunks).decode("utf-8"),
    )


def _definitions_changed(before: bytes, section: FilePatch) -> list[str]:
    """The innermost definitions that a diff changes; the whole file where it changes none."""
    outline = outline_or_none(before)
    if outline is None:
        return [MODULE]
    lines = Lines(before)
    names: set[str] = set()
    for hunk in section.hunks:
        for run in runs_of(hunk, max(hunk.old_start - 1, 0)):
            low, high = lines.starts[run.start], lines.starts[run.end]
            inside = [
                (node.end - node.start, name)
                for name, node in outline.by_name.items()
                if node.start < max(high, low + 1) and low < node.end
            ]
            names.update(name for _, name in sorted(inside)[:1])
    return sorted(names) or [MODULE]


@dataclass(frozen=True)
class Mismatch:
    """Why an adaptation does not hold any more."""

    text: str


def check_adaptation(
    adaptation: Adaptation, hunks: Mapping[int, Hunk], content: bytes | None
) -> Mismatch | None:
    """Return why an adaptation may not be placed, None while both fingerprints hold."""
    for number, known in zip(adaptation.hunks, adaptation.base_hunks, strict=True):
        hunk = hunks.get(number)
        if hunk is None or fingerprint_hunk(hunk) != known:
            return Mismatch(f"hunk {number} is not the one that the adaptation was made for")
    if content is None:
        return Mismatch(f"{adaptation.path} is gone from the target")
    for name, known in adaptation.target_definitions.items():
        if (fingerprint_definition(content, name) or "") != known:
            what = "the file" if name == MODULE else f"`{name}`"
            return Mismatch(f"{what} in the target is not as it was when the adaptation was made")
    return None


def apply_adaptation(adaptation: Adaptation, content: bytes) -> bytes:
    """Return the target file adapted; raises PatchkitError where the diff does not fit."""
    text = f"--- a/{adaptation.path}\n+++ b/{adaptation.path}\n{adaptation.diff}"
    patch = parse_patch(text.encode(), f"adaptation of {adaptation.path}")
    applied = apply_exact(patch.files[0], content, allow_offset=True)
    assert applied.content is not None
    return applied.content


def definitions_around(
    before: bytes,
    after: bytes,
    removed: Sequence[tuple[int, int]],
    added: Sequence[tuple[int, int]],
) -> str | None:
    """Return the innermost definitions of `before` that a change is made in; None if not Python.

    `removed` are lines of `before`, `added` lines of `after`: first and last, 1-based. A definition
    that is added is in the one around it.
    """
    old, new = outline_or_none(before), outline_or_none(after)
    if old is None or new is None:
        return None
    found = [_innermost(old, lines, old) for lines in removed]
    found += [_innermost(new, lines, old) for lines in added]
    return ", ".join(dict.fromkeys(found)) or None


def _innermost(outline: Outline, lines: tuple[int, int], known: Outline) -> str:
    module = outline.module
    around = [
        (node.end - node.start, name)
        for name, node in outline.by_name.items()
        if name in known.by_name
        and node.line <= lines[0]
        and lines[1] <= module.line_at(max(node.start, node.end - 1))
    ]
    return min(around)[1] if around else MODULE
