"""What a patch changes, free of line numbers and blob ids, and how two versions of that differ.

Two versions of a section are the same change where they remove and add the same lines in the same
order, in the same definitions, and no line of context has got to their other side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from patchkit.diff import FilePatch, Patch, match_lines
from patchkit.diff.lines import changes_between
from patchkit.series.contents import PatchContents


class State(IntEnum):
    """How far two versions of a change are apart, the nearest first."""

    SAME = 0  # but for line numbers and blob ids
    CONTEXT = 1  # other lines around the same edits
    MOVED = 2  # the same lines, in another file or definition, or among their neighbours
    CHANGED = 3

    @property
    def unchanged(self) -> bool:
        """Whether the edits are the same ones."""
        return self <= State.CONTEXT


@dataclass(frozen=True)
class EditLine:
    """One line of a hunk, with the definitions that the hunk stands in."""

    kind: str  # " ", "-" or "+"
    text: bytes
    definitions: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, bytes]:
        """What it does, wherever it stands."""
        return self.kind, self.text


@dataclass(frozen=True)
class Section:
    """What a patch does to one file.

    `nature` is what it does beside lines: the kind of change, modes, a binary body.
    """

    path_before: str
    path: str
    nature: tuple[object, ...]
    lines: tuple[EditLine, ...]

    @property
    def changed(self) -> tuple[EditLine, ...]:
        """The lines that it removes or adds."""
        return tuple(line for line in self.lines if line.kind != " ")


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff of two diffs: `outer` says which version has it (" " both), `inner` what
    that does with it.
    """

    outer: str
    inner: str
    text: str
    definition: str


@dataclass(frozen=True)
class SectionPair:
    """One file in two versions of a patch; a path is None where a version leaves the file alone.

    `notes` say for people what else differs than lines; `lines` are the diff of the two diffs.
    """

    path_before: str | None
    path_after: str | None
    state: State
    notes: tuple[str, ...] = ()
    lines: tuple[DiffLine, ...] = ()


def sections_of(patch: Patch, contents: PatchContents) -> tuple[Section, ...]:
    """Return what a patch changes; `contents` say in which definitions."""
    found = []
    for file, known in zip(patch.files, contents.files, strict=True):
        lines = [
            EditLine(line.kind, line.text, hunk_contents.definitions)
            for hunk, hunk_contents in zip(file.hunks, known.hunks, strict=False)
            for line in hunk.lines
        ]
        nature = (file.change.value, *_modes(file), file.binary)
        found.append(Section(file.old_path or file.path, file.path, nature, tuple(lines)))
    return tuple(found)


def _modes(file: FilePatch) -> tuple[int | None, int | None]:
    """The modes where the section changes them; the one on an index line says nothing of it."""
    return (None, None) if file.old_mode == file.new_mode else (file.old_mode, file.new_mode)


def compare_sections(before: Sequence[Section], after: Sequence[Section]) -> list[SectionPair]:
    """Return the sections of two versions in pairs, in the order of the later one."""
    partners = _partners(before, after)
    taken = {id(old) for old in partners if old is not None}
    pairs = [
        _added(new) if old is None else _compare(old, new)
        for old, new in zip(partners, after, strict=True)
    ]
    return [*(_dropped(old) for old in before if id(old) not in taken), *pairs]


def _partners(before: Sequence[Section], after: Sequence[Section]) -> list[Section | None]:
    """The earlier version of each section: of the same file, else with the very same lines."""
    free = list(before)
    found: list[Section | None] = []
    for new in after:
        old = next((old for old in free if old.path == new.path), None)
        if old is not None:
            free.remove(old)
        found.append(old)
    for at, new in enumerate(after):
        if found[at] is None and new.changed:
            same = [old for old in free if _same_runs(old, new)]
            if same:
                found[at] = same[0]
                free.remove(same[0])
    return found


def _compare(old: Section, new: Section) -> SectionPair:
    notes = []
    if old.path != new.path:
        notes.append(f"{old.path} -> {new.path}")
    if old.nature != new.nature or not _same_runs(old, new):
        if old.nature != new.nature:
            notes.append(_nature(old, new))
        lines = _diff(old.changed, new.changed)
        return SectionPair(old.path, new.path, State.CHANGED, tuple(notes), lines)
    notes += dict.fromkeys(_definition_moves(old, new))
    notes += _crossings(old, new)
    notes += _elsewhere(old, new)
    if notes:
        return SectionPair(old.path, new.path, State.MOVED, tuple(notes))
    same = [line.key for line in old.lines] == [line.key for line in new.lines]
    return SectionPair(old.path, new.path, State.SAME if same else State.CONTEXT)


def _nature(old: Section, new: Section) -> str:
    words = []
    for section in (old, new):
        change, before, after, binary = section.nature
        mode = f" mode {before or 0:o} -> {after or 0:o}" if before != after else ""
        words.append(f"{change}{mode}{' of other bytes' if binary is not None else ''}")
    return f"{words[0]}, now {words[1]}"


def _added(new: Section) -> SectionPair:
    return SectionPair(None, new.path, State.CHANGED, (), _diff((), new.changed))


def _dropped(old: Section) -> SectionPair:
    return SectionPair(old.path, None, State.CHANGED, (), _diff(old.changed, ()))


# The same lines ----------------------------------------------------------------------------------


def _runs(lines: Iterable[EditLine]) -> list[tuple[list[bytes], list[bytes]]]:
    """What is removed and added without a line of context between."""
    runs: list[tuple[list[bytes], list[bytes]]] = []
    inside = False
    for line in lines:
        if line.kind == " ":
            inside = False
            continue
        if not inside:
            runs.append(([], []))
            inside = True
        runs[-1][0 if line.kind == "-" else 1].append(line.text)
    return runs


def _same_runs(old: Section, new: Section) -> bool:
    """Whether both change the same lines in the same order.

    Where upstream took the context between two runs away, or put some in, one of the versions has
    one run for several of the other.
    """
    olds, news = _runs(old.lines), _runs(new.lines)
    while olds and news:
        left, right = olds.pop(0), news.pop(0)
        several = [False, False]
        while left != right:
            short = 0 if _size(left) < _size(right) else 1
            rest = (olds, news)[short]
            several[short] = True
            if not rest or all(several):
                return False
            more = rest.pop(0)
            grown = (left, right)[short]
            joined = ([*grown[0], *more[0]], [*grown[1], *more[1]])
            left, right = (joined, right) if short == 0 else (left, joined)
    return not olds and not news


def _size(run: tuple[list[bytes], list[bytes]]) -> int:
    return len(run[0]) + len(run[1])


def _definition_moves(old: Section, new: Section) -> Iterator[str]:
    """Say which lines stand in another definition now; an unknown one is no other."""
    for kind in "-+":
        olds = [line for line in old.lines if line.kind == kind]
        news = [line for line in new.lines if line.kind == kind]
        for one, other in zip(olds, news, strict=True):
            known = one.definitions and other.definitions
            if known and not {*one.definitions} & {*other.definitions}:
                yield f"in {_names(other)}, was in {_names(one)}"


def _names(line: EditLine) -> str:
    return ", ".join(line.definitions)


def _crossings(old: Section, new: Section) -> Iterator[str]:
    """Say which lines of context got to the other side of a change.

    Only a line that both have once can say so: of two equal ones it may be another.
    """
    olds, news = _gaps(old), _gaps(new)
    for text, gap in olds.items():
        if text.strip() and news.get(text, gap) != gap:
            said = text.decode("utf-8", "replace").strip()
            yield f"at another place beside `{said}`"


def _elsewhere(old: Section, new: Section) -> Iterator[str]:
    """Say which changes have none of the lines around them that they had.

    The same line added at the other end of a function is another change; that upstream changed all
    that is around it, nobody can tell from the patches.
    """
    olds, news = _surroundings(old), _surroundings(new)
    if len(olds) != len(news):
        return
    for (_, *before), (line, *after) in zip(olds, news, strict=True):
        kept = any(one & other for one, other in zip(before, after, strict=True))
        if any(before) and any(after) and not kept:
            said = line.text.decode("utf-8", "replace").strip()
            yield f"other lines all around `{said}`"


def _surroundings(section: Section) -> list[tuple[EditLine, set[bytes], set[bytes]]]:
    """The first line of each run of changes, with the lines of context before and after it."""
    found: list[tuple[EditLine, set[bytes], set[bytes]]] = []
    context: set[bytes] = set()
    for last, line in zip((None, *section.lines), section.lines, strict=False):
        if line.kind == " ":
            if last is not None and last.kind != " ":
                context = set()
                found[-1] = (found[-1][0], found[-1][1], context)
            if line.text.strip():
                context.add(line.text)
        elif last is None or last.kind == " ":
            found.append((line, set(context), set()))
    return found


def _gaps(section: Section) -> dict[bytes, tuple[int, int]]:
    """After how many removed and added lines each line of context stands, of those there once."""
    counts = Counter(line.text for line in section.lines if line.kind == " ")
    found = {}
    removed = added = 0
    for line in section.lines:
        removed += line.kind == "-"
        added += line.kind == "+"
        if line.kind == " " and counts[line.text] == 1:
            found[line.text] = (removed, added)
    return found


# Other lines -------------------------------------------------------------------------------------


def _diff(old: Sequence[EditLine], new: Sequence[EditLine]) -> tuple[DiffLine, ...]:
    """Return the diff of two runs of changed lines."""
    pairs = match_lines([line.key for line in old], [line.key for line in new])
    found: list[DiffLine] = []
    at = 0
    for change in changes_between(pairs, len(old), len(new)):
        found += [_line(" ", line) for line in new[at : change.new_start]]
        found += [_line("-", line) for line in old[change.old_start : change.old_end]]
        found += [_line("+", line) for line in new[change.new_start : change.new_end]]
        at = change.new_end
    return (*found, *(_line(" ", line) for line in new[at:]))


def _line(outer: str, line: EditLine) -> DiffLine:
    text = line.text.decode("utf-8", "replace").removesuffix("\n")
    return DiffLine(outer, line.kind, text, ", ".join(line.definitions))


def likeness(before: Sequence[Section], after: Sequence[Section]) -> float:
    """Return what share of their changed lines two patches have in common, from 0 to 1."""
    olds, news = _bag(before), _bag(after)
    total = olds.total() + news.total()
    return 2 * (olds & news).total() / total if total else 0.0


def _bag(sections: Iterable[Section]) -> Counter[tuple[str, bytes]]:
    lines = (line for section in sections for line in section.changed)
    return Counter((line.kind, line.text.strip()) for line in lines if line.text.strip())
