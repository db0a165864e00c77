"""How a patch fits a tree as it is, hunk by hunk: by its exact lines, with no placing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from patchkit.diff.apply import apply_exact, find_lines
from patchkit.diff.model import FileChange, FilePatch, Hunk, Note, Patch, blob_id, split_lines
from patchkit.diff.roots import Section, classify, resolve_roots
from patchkit.errors import PatchkitError
from patchkit.placing.plan import Unshipped
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class HunkFit:
    """How one hunk fits; `number` counts from 1 within its patch.

    `offset` is how many lines off it applies, None where it does not, and then there is a `reason`.
    `there` says that the tree holds the hunk's result instead, line for line. `ground` is the blob
    id of a file in which nothing but the line number says where the hunk goes.
    """

    patch: str
    number: int
    path: str
    offset: int | None = None
    there: bool = False
    ground: str | None = None
    reason: str | None = None
    lineno: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """The line of the patch file on which the hunk starts."""
        return f"{self.patch}:{self.lineno}"


@dataclass(frozen=True)
class Fit:
    """How a series of patches fits one tree, each on the result of those before it.

    `proven` counts the sections whose `index` line names the very blob that the tree has, `foreign`
    those whose line names another. `says_nothing` is true where no line of a file is named.
    """

    hunks: tuple[HunkFit, ...] = ()
    proven: int = 0
    foreign: int = 0
    says_nothing: bool = False
    unshipped: tuple[Unshipped, ...] = ()
    notes: tuple[str, ...] = ()
    error: PatchkitError | None = None

    @property
    def applying(self) -> int:
        """How many hunks apply."""
        return sum(hunk.offset is not None for hunk in self.hunks)

    @property
    def present(self) -> int:
        """How many hunks have their result in the tree."""
        return sum(hunk.there for hunk in self.hunks)

    @property
    def fits(self) -> bool:
        """Whether there are hunks, and all apply."""
        return 0 < len(self.hunks) == self.applying

    @property
    def is_proven(self) -> bool:
        """Whether all apply, to files that the patch names by their blob ids."""
        return self.fits and self.proven > 0 and not self.foreign

    @property
    def is_there(self) -> bool:
        """Whether there are hunks, and the tree holds the result of all."""
        return 0 < len(self.hunks) == self.present

    @property
    def lines_off(self) -> int:
        """By how many lines the hunks that apply are off, all together."""
        return sum(abs(hunk.offset or 0) for hunk in self.hunks)


def fit_patches(patches: Sequence[Patch], tree: SourceTree) -> Fit:
    """Return how patches, taken in order, fit a tree.

    It has the `error` that says why, where paths fit several files, or a change is binary.
    """
    hunks: list[HunkFit] = []
    ids: list[bool] = []
    says_nothing = True
    unshipped: list[Unshipped] = []
    notes: list[str] = []
    for patch in patches:
        try:
            resolved, root_notes = resolve_roots(patch, tree)
        except PatchkitError as error:
            return Fit(error=error)
        notes += said_notes(patch.name, [*patch.notes, *root_notes])
        start = tree
        for numbers, section in _numbered(resolved):
            kind = classify(section.path, tree=start)
            old = section.old_path
            if kind is not Section.SHIPPED and (old is None or old not in start.files):
                count = len(numbers)
                unshipped.append(Unshipped(patch.name, section.path, kind, count, section))
                continue
            if section.binary is not None:
                return Fit(error=_binary_error(patch.name, section))
            if (known := _is_blob(section, tree)) is not None:
                ids.append(known)
            adds = section.change is FileChange.ADD
            says_nothing = says_nothing and (adds or not section.hunks)
            fitted, tree = _fit_section(patch.name, section, numbers, tree, sure=bool(known))
            hunks += fitted
    proven = sum(ids)
    found = _worth_saying(notes, unshipped)
    return Fit(tuple(hunks), proven, len(ids) - proven, says_nothing, tuple(unshipped), found)


def _worth_saying(notes: Sequence[str], unshipped: Sequence[Unshipped]) -> tuple[str, ...]:
    """The notes less those that a file is not in the tree of which that is said anyway."""
    known = {f"{u.patch}:{u.file.lineno}: {u.path} is not in the tree" for u in unshipped}
    return tuple(note for note in notes if note not in known)


def said_notes(name: str, notes: Sequence[Note]) -> list[str]:
    """Return notes on a patch as text, each once."""
    return [f"{name}:{note.lineno}: {note.text}" for note in dict.fromkeys(notes)]


def _binary_error(name: str, section: FilePatch) -> PatchkitError:
    return PatchkitError(
        f"binary change of {section.path} cannot be applied",
        place=f"{name}:{section.lineno}",
        hint="put whole binary files in an overlay",
    )


def _numbered(patch: Patch) -> Iterator[tuple[range, FilePatch]]:
    """The sections with the numbers of their hunks; one without hunks counts as one."""
    number = 1
    for section in patch.files:
        count = max(1, len(section.hunks))
        yield range(number, number + count), section
        number += count


def _is_blob(section: FilePatch, tree: SourceTree) -> bool | None:
    """Whether a section's old id is that of the tree's file; None where it has no id of a file."""
    if section.old_path is None or section.old_id is None:
        return None
    content = tree.files.get(section.old_path)
    return content is not None and blob_id(content).startswith(section.old_id)


def _fit_section(
    patch: str, section: FilePatch, numbers: range, tree: SourceTree, *, sure: bool
) -> tuple[list[HunkFit], SourceTree]:
    """How the hunks of a section fit, and the tree with those that do.

    A section that is `sure` was made on the very bytes that the tree has.
    """
    adds = section.change is FileChange.ADD or section.old_path is None
    path = section.path if adds else section.old_path or ""
    content = tree.files.get(path)
    starts = [hunk.lineno for hunk in section.hunks] or [section.lineno]
    fits = [HunkFit(patch, n, path, lineno=at) for n, at in zip(numbers, starts, strict=True)]
    if _is_done(section, content, tree):
        reason = f"{path}: the tree has what the patch makes of it"
        return [replace(fit, there=True, reason=reason) for fit in fits], tree
    if path != section.path and section.path in tree.files and section.new_path is not None:
        reason = f"{section.path}: file is there already"
        return [replace(fit, reason=reason) for fit in fits], tree
    fits = _fit_hunks(section, content, fits)
    if not sure and content is not None:
        lines = split_lines(content)
        for at, hunk in enumerate(section.hunks):
            if _is_there(hunk, lines, fits[at].offset):
                reason = f"{path}: the tree has the hunk's result"
                fits[at] = replace(fits[at], offset=None, there=True, reason=reason)
    return fits, _with_fitting(section, fits, tree, content)


def _is_done(section: FilePatch, content: bytes | None, tree: SourceTree) -> bool:
    """Whether the tree has what a section makes of a whole file: new, gone, renamed, other mode."""
    if section.change is FileChange.ADD:
        return content is not None and apply_exact(section, None).content == content
    if section.change is FileChange.DELETE:
        return content is None
    if section.hunks:
        return False
    if section.change is FileChange.RENAME:
        return content is None and section.path in tree.files
    changes_mode = section.new_mode is not None and section.new_mode != section.old_mode
    there = section.change is FileChange.MODIFY and content is not None
    return there and changes_mode and tree.mode(section.path) == section.new_mode


def _fit_hunks(section: FilePatch, content: bytes | None, fits: Sequence[HunkFit]) -> list[HunkFit]:
    """Each hunk with its offset, or with the reason why it does not apply."""
    try:
        applied = apply_exact(section, content, allow_offset=True)
    except PatchkitError as error:
        return _fit_singly(section, content, fits, error)
    offsets = [place.offset for place in applied.hunk_ranges] or [0]
    # a file that is not there, or empty, needs no context: there is one place for a hunk
    ground = blob_id(content) if content else None
    loose = [not hunk.old_lines for hunk in section.hunks] or [False]
    return [
        replace(fit, offset=offset, ground=ground if by_number else None)
        for fit, offset, by_number in zip(fits, offsets, loose, strict=True)
    ]


def _fit_singly(
    section: FilePatch, content: bytes | None, fits: Sequence[HunkFit], whole: PatchkitError
) -> list[HunkFit]:
    """Each hunk as if it stood alone; `whole` says why all of them together do not apply."""
    said = f"{whole.place}: {whole.fact}" if whole.place else whole.fact
    said += f", expected {whole.expected}" if whole.expected else ""
    if content is None or section.change is FileChange.ADD:
        return [replace(fit, reason=said) for fit in fits]
    found: list[HunkFit] = []
    for fit, hunk in zip(fits, section.hunks, strict=False):
        path = section.old_path
        alone = FilePatch(path, path, FileChange.MODIFY, (hunk,), old_mode=0, new_mode=1)
        try:
            applied = apply_exact(alone, content, allow_offset=True)
        except PatchkitError as error:
            reason = f"{error.place}: {error.fact.removeprefix('hunk 1 ')}"
            reason += f", expected {error.expected}" if error.expected else ""
            found.append(replace(fit, reason=reason))
        else:
            found.append(replace(fit, offset=applied.hunk_ranges[0].offset))
    if all(fit.offset is not None for fit in found):  # they overlap, or leave lines behind
        return [replace(fit, offset=None, reason=said) for fit in fits]
    return found


def _is_there(hunk: Hunk, lines: list[bytes], offset: int | None) -> bool:
    """Whether a file holds the result of a hunk and not its old lines.

    What adds lines at the open end of a hunk still applies to its own result: its old lines then
    stand inside of its new ones.
    """
    old, new = hunk.old_lines, hunk.new_lines
    places = find_lines(lines, new)
    if offset is not None:
        at = hunk.old_start - (1 if hunk.old_count else 0) + offset
        return len(new) > len(old) and any(place <= at < place + len(new) for place in places)
    if any(line.kind == "+" for line in hunk.lines):
        return bool(places) and (len(new) > len(old) or not find_lines(lines, old))
    # Lines that are gone leave only their neighbours: both have to be there, side by side, once.
    closed = hunk.lines[0].kind == " " == hunk.lines[-1].kind
    return closed and len(places) == 1 and not find_lines(lines, old)


def _with_fitting(
    section: FilePatch, fits: Sequence[HunkFit], tree: SourceTree, content: bytes | None
) -> SourceTree:
    """The tree with the hunks of a section that apply, for the patches that come after it."""
    chosen = tuple(h for h, f in zip(section.hunks, fits, strict=False) if f.offset is not None)
    whole = len(chosen) == len(section.hunks)
    if not whole and (section.change is not FileChange.MODIFY or not chosen):
        return tree
    if whole and any(fit.offset is None for fit in fits):
        return tree
    try:
        applied = apply_exact(replace(section, hunks=chosen), content, allow_offset=True)
    except PatchkitError:  # those that apply one by one overlap
        return tree
    changes: dict[str, bytes | None] = {section.path: applied.content}
    if section.change is FileChange.RENAME and section.old_path is not None:
        changes[section.old_path] = None
    return tree.with_changes(changes)
