"""The edits that a patch makes to one Python file, and which of its hunks they tie together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from patchkit.diff.lines import changes_between, match_lines
from patchkit.diff.model import split_lines
from patchkit.outcome import Evidence
from patchkit.placing.propose import HunkJob, Lines, Piece
from patchkit.syntax.build import parse_module
from patchkit.syntax.edit import Change, Edit, lift


@dataclass(frozen=True)
class FileJob:
    """One modified file: path and content in the base, content with the patch, and the hunks."""

    path: str
    base: bytes
    authored: bytes
    hunks: tuple[HunkJob, ...]


@dataclass
class Group:
    """Hunks that share an edit and so stand or fall together, with their edits.

    `there` is the evidence for what of them the target has already, where the rest may land alone:
    `edits` are then that rest.
    """

    hunks: list[HunkJob]
    edits: list[Edit] = field(default_factory=list)
    there: tuple[Evidence, ...] = ()


def changes_from_pieces(pieces: Sequence[Piece]) -> list[Change]:
    """Return the changes that splicing the pieces makes."""
    changes, shift = [], 0
    for start, end, text in sorted(pieces, key=lambda p: (p[0], p[1])):
        changes.append(Change(start, end, start + shift, start + shift + len(text)))
        shift += len(text) - (end - start)
    return changes


def finest_changes(source: bytes, pieces: Sequence[Piece]) -> list[Change]:
    """Return the changes of the pieces without the lines that a piece only repeats.

    A piece may replace a whole statement for one line of it: what stays is then known to stay.
    """
    result = []
    order = sorted(pieces, key=lambda p: (p[0], p[1]))
    for (start, end, text), change in zip(order, changes_from_pieces(pieces), strict=True):
        old, new = split_lines(source[start:end]), split_lines(text)
        pairs = match_lines(old, new)
        old_at, new_at = _starts(old, start), _starts(new, change.new_start)
        for part in changes_between(pairs, len(old), len(new)):
            result.append(
                Change(
                    old_at[part.old_start], old_at[part.old_end],
                    new_at[part.new_start], new_at[part.new_end],
                )
            )  # fmt: skip
    return result


def _starts(lines: Sequence[bytes], begin: int) -> list[int]:
    return list(accumulate((len(line) for line in lines), initial=begin))


class FileEdits:
    """The lifted edits of one file; raises `NotPythonError` where base or authored file is not.

    `groups` hold the hunks in order, joined where one edit reaches over several of them.
    """

    def __init__(self, job: FileJob) -> None:
        self.job = job
        self.base = parse_module(job.base)
        self.authored = parse_module(job.authored)
        self.lines = Lines(job.base)
        owners = [(self.lines.piece(r.start, r.end, r.lines), h) for h in job.hunks for r in h.runs]
        changes = changes_from_pieces([piece for piece, _ in owners])
        self._changes = [(c, h.number) for c, (_, h) in zip(changes, owners, strict=True)]
        finest = finest_changes(job.base, [piece for piece, _ in owners])
        self.edits = lift(self.base, self.authored, finest)
        self._owners = {id(e): self._find_owners(e) for e in self.edits}
        self.groups = self._group()

    def _group(self) -> list[Group]:
        owner: dict[int, Group] = {h.number: Group([h]) for h in self.job.hunks}
        for edit in self.edits:
            touched = [owner[h.number] for h in self.job.hunks if self.touches(h.number, edit)]
            merged = touched[0]
            for other in touched[1:]:
                if other is merged:
                    continue
                merged.hunks += other.hunks
                merged.edits += other.edits
                for hunk in other.hunks:
                    owner[hunk.number] = merged
            merged.edits.append(edit)
        unique = {id(g): g for g in owner.values()}
        for group in unique.values():
            group.hunks.sort(key=lambda h: h.number)
            group.edits.sort(key=lambda e: (e.start, e.new_start))
        return list(unique.values())

    def touches(self, number: int, edit: Edit) -> bool:
        """Whether a hunk has a part in an edit."""
        return number in self._owners[id(edit)]

    def _find_owners(self, edit: Edit) -> frozenset[int]:
        """The hunks that share bytes with an edit, of the base or of the authored file.

        A diff may call lines added that close an older block: the edit then lies beside the hunk
        in the base, but not in the authored file. Where no hunk shares a byte (a comment on an
        unchanged line that an indentation further up puts into another block) it is the nearest.
        """
        sharing = frozenset(
            number
            for c, number in self._changes
            if (edit.start <= c.end and c.start <= edit.end)
            or (edit.new_start < c.new_end and c.new_start < edit.new_end)
        )
        gaps = [
            (max(c.new_start - edit.new_end, edit.new_start - c.new_end), number)
            for c, number in self._changes
        ]
        return sharing or frozenset({min(gaps)[1]})

    def edits_of(self, number: int) -> list[Edit]:
        """Return the edits that a hunk has a part in."""
        return [e for e in self.edits if self.touches(number, e)]

    def group_of(self, edits: Iterable[Edit]) -> Group:
        """Return the hunks that touch some edits as one group with all that they touch."""
        wanted = list(edits)
        hunks = [h for h in self.job.hunks if any(self.touches(h.number, e) for e in wanted)]
        return Group(
            hunks, [e for e in self.edits if any(self.touches(h.number, e) for h in hunks)]
        )
