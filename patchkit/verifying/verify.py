"""A tree held against a series: every hunk, every file, all that is missing or was changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from patchkit.diff import split_lines
from patchkit.syntax.headings import headings_of
from patchkit.syntax.tree import at_ease
from patchkit.tree import EXECUTABLE, SourceTree
from patchkit.verifying.expected import Expected, ExpectedFile, Spot
from patchkit.verifying.hunks import FileHoles, find_holes
from patchkit.verifying.meaning import find_faults
from patchkit.wheel.record import digest_text


class State(StrEnum):
    """What a tree is: as upstream made it, as the series makes it, something of both, or edited."""

    PRISTINE = "pristine"
    PATCHED = "patched"
    MIXED = "mixed"
    TAMPERED = "tampered"


@dataclass(frozen=True)
class HunkState:
    """One hunk: `state` is "present", or what is wrong with it, which `text` says.

    `line` is its first line in the tree, 1-based, or where it would be as the series made it.
    """

    spot: Spot
    state: str
    definition: str | None = None
    line: int | None = None
    text: str | None = None

    @property
    def present(self) -> bool:
        """Whether the hunk is there and does what it did."""
        return self.state == "present"


@dataclass(frozen=True)
class FileFinding:
    """One file that is not as it should be, apart from hunks: `kind` says how."""

    path: str
    kind: str
    text: str


@dataclass(frozen=True)
class Verified:
    """What a tree holds of a series."""

    hunks: tuple[HunkState, ...]
    files: tuple[FileFinding, ...]
    state: State

    @property
    def ok(self) -> bool:
        """Whether every hunk is there and nothing else was changed."""
        return self.state is State.PATCHED


# Lines no deeper than a definition that are part of it: the end of its signature, and what follows
# its first decorator.
_HEADER = (b")", b"]", b"}", b"@", b"def ", b"class ", b"async def ")


@dataclass
class _Look:
    """What was found so far."""

    wrong: dict[Spot, tuple[str, str | None]] = field(default_factory=dict)
    holes: dict[str, FileHoles] = field(default_factory=dict)
    edited: list[FileFinding] = field(default_factory=list)


def verify_tree(
    expected: Expected, current: SourceTree, others: tuple[FileFinding, ...] = ()
) -> Verified:
    """Return what a tree holds of a series; `others` was found in files that the series leaves."""
    look = _Look()
    for path, file in expected.files.items():
        _look_at(look, path, file, current)
    for path, (spot, sha256) in expected.overlay.items():
        content = current.files.get(path)
        if content is None:
            look.wrong[spot] = "missing", "the file is missing"
        elif hashlib.sha256(content).hexdigest() != sha256:
            look.wrong[spot] = "changed", "the file is another"
    if look.wrong or look.edited or others:
        present = frozenset(spot for spot in expected.spots if spot not in look.wrong)
        with at_ease():
            for fault in find_faults(expected, current, look.holes, present):
                if fault.spot not in look.wrong:
                    look.wrong[fault.spot] = fault.kind, fault.text
    hunks = tuple(_states(expected, look))
    files = (*look.edited, *others)
    return Verified(hunks, files, _state(expected, current, hunks, files))


def _look_at(look: _Look, path: str, file: ExpectedFile, current: SourceTree) -> None:
    """Note which of a file's hunks are not there."""
    made, content = file.content, current.files.get(path)
    if made is None:
        for spot in file.whole if content is not None else ():
            look.wrong[spot] = "missing", f"{path} is there"
        return
    spots = {line.spot for line in file.lines or () if line.spot is not None}
    spots |= {gap.spot for line in file.lines or () for gap in line.gaps}
    if content is None:
        for spot in (*spots, *file.whole):
            look.wrong[spot] = "missing", f"{path} is missing"
        return
    if file.mode is not None and current.mode(path) != file.mode:
        word = "is not executable" if file.mode == EXECUTABLE else "is executable"
        for spot in file.whole:
            look.wrong[spot] = "missing", f"{path} {word}"
    if content == made:
        return
    found = look.holes[path] = find_holes(file, content)
    for spot in found.missing:
        look.wrong[spot] = "missing", None
    for spot in found.changed:
        look.wrong[spot] = "changed", "its lines were edited"
    if found.edits:
        lines = ", ".join(map(str, found.edits[:8]))
        look.edited.append(
            FileFinding(path, "edited", f"was changed apart from the series, at line {lines}")
        )


def _states(expected: Expected, look: _Look) -> Iterator[HunkState]:
    """Yield the state of every hunk in order, with its definition and line."""
    where: dict[Spot, tuple[str | None, int]] = {}
    for path, file in expected.files.items():
        pairs = look.holes[path].pairs if path in look.holes else None
        back = {old: new for new, old in pairs.items()} if pairs is not None else {}
        first: dict[Spot, int] = {}
        for at, line in enumerate(file.lines or ()):
            for spot in (line.spot, *(gap.spot for gap in line.gaps)):
                if spot is not None:
                    first.setdefault(spot, at)
        content = file.content or b"" if path.endswith(".py") else b""
        for spot, at in first.items():
            where[spot] = (definition_at(content, at), back.get(at, at) + 1)
    for spot in expected.spots:
        state, text = look.wrong.get(spot, ("present", None))
        definition, number = where.get(spot, (None, None))
        yield HunkState(spot, state, definition, number, text)


def definition_at(content: bytes, at: int) -> str | None:
    """Return the definition that a line, 0-based, is in, for people: read off its indentation.

    Forty files would take seconds to parse, and the verdict does not hang on it.
    """
    lines = split_lines(content)
    above = [heading for heading in headings_of(content) if heading.line <= at + 1]
    if not above or at >= len(lines):
        return None
    name, known = above[-1].name, {heading.name: heading.line for heading in above}
    while name:
        start = known.get(name)
        if start is not None:
            column = _indent(lines[start - 1])
            block = (line for line in lines[start : at + 1] if line.strip())
            if all(_indent(line) > column or line.lstrip().startswith(_HEADER) for line in block):
                return name
        name = name.rpartition(".")[0]
    return None


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _state(
    expected: Expected,
    current: SourceTree,
    hunks: tuple[HunkState, ...],
    files: tuple[FileFinding, ...],
) -> State:
    if files or any(hunk.state in ("changed", "shadowed") for hunk in hunks):
        return State.TAMPERED
    if all(hunk.present for hunk in hunks):
        return State.PATCHED
    before = all(current.files.get(p) == file.before for p, file in expected.files.items())
    overlay = any(path in current.files for path in expected.overlay)
    return State.PRISTINE if before and not overlay else State.MIXED


def record_findings(
    digests: Mapping[str, str], current: SourceTree, touched: frozenset[str]
) -> tuple[FileFinding, ...]:
    """Return the text files that are not what RECORD says, of those that a series leaves alone.

    `digests` are the digests of the package's files as RECORD writes them.
    """
    found = []
    for path in current.files:
        if path in touched:
            continue
        if path not in digests:
            if path.endswith(".py"):
                found.append(FileFinding(path, "added", "is not in RECORD"))
        elif digest_text(current.files[path]) != digests[path]:
            found.append(FileFinding(path, "edited", "is not as RECORD says"))
    left_out: frozenset[str] = getattr(current.files, "left_out", frozenset())
    for path in digests:
        if path not in current.files and path not in left_out and path not in touched:
            found.append(FileFinding(path, "missing", "is missing, though RECORD lists it"))
    return tuple(found)
