"""One hunk of a run with the files that its outcome is about, and these read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchkit.diff import Hunk
from patchkit.outcome import HunkOutcome
from patchkit.stacking.rebase import RebasedPatch, RebaseResult
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Ground:
    """One hunk and the files that it is about; None where there is no file.

    `base` and `authored` are before and after its patch, `target` and `landed` likewise, `final`
    after the whole run. `hunks` are all of its section, `added` the authored lines that it adds.
    """

    outcome: HunkOutcome
    hunk: Hunk | None
    start: int
    hunks: tuple[Hunk, ...]
    added: frozenset[int]
    base: bytes | None
    authored: bytes | None
    target: bytes | None
    landed: bytes | None
    final: bytes | None
    trees: tuple[SourceTree, SourceTree]  # base and target, before the patch

    @property
    def names(self) -> dict[str, str]:
        """What upstream renamed, old to new."""
        return {rename.old: rename.new for rename in self.outcome.renames}

    def renamed(self, tokens: Sequence[str]) -> list[str]:
        """Return words with upstream's renames made."""
        return [self.names.get(word, word) for word in tokens]


def grounds_of(result: RebaseResult) -> Iterator[tuple[RebasedPatch, list[Ground]]]:
    """Yield each patch of a run with its hunks, on the trees as they were before it."""
    target = result.target
    for patch in result.patches:
        base, authored = patch.base, patch.base.with_changes(patch.placed.after)
        landed = target.with_changes(dict(patch.after))
        outcomes = {o.hunk: o for o in result.outcomes if o.patch == patch.name}
        grounds = []
        for file in patch.placed.files:
            jobs = {job.number: job for job in file.jobs}
            shift, added = 0, {}
            for number, job in jobs.items():
                lines: set[int] = set()
                for run in job.runs:
                    first = run.start + shift + 1
                    lines |= set(range(first, first + len(run.lines)))
                    shift += len(run.lines) - (run.end - run.start)
                added[number] = frozenset(lines)
            for number in file.numbers:
                outcome, job = outcomes[number], jobs.get(number)
                path = outcome.path_after or outcome.path_before
                old = path if path in target.files else file.path_before
                grounds.append(
                    Ground(
                        outcome, job.hunk if job else None, job.start if job else 0,
                        tuple(j.hunk for j in file.jobs), added.get(number, frozenset()),
                        base.files.get(file.path_before), authored.files.get(file.section.path),
                        target.files.get(old), landed.files.get(path),
                        result.tree.files.get(path), (base, target),
                    )
                )  # fmt: skip
        yield patch, grounds
        target = landed


def old_texts(ground: Ground, undone: str | None, count: int) -> list[list[str]]:
    """Return the old lines of the section's hunks that have so many."""
    texts = [text_lines(h.old) for h in ground.hunks]
    texts = [[renamed_line(ground, x) if undone else x for x in text] for text in texts]
    return [text for text in texts if len(text) == count]


def renamed_line(ground: Ground, line: str) -> str:
    """Return a line with upstream's renames made."""
    return re.sub(r"\w+", lambda m: ground.names.get(m[0], m[0]), line)


def target_lines(ground: Ground, undone: bool) -> list[str]:
    """Return the target's lines as a patch meets them; old and new names alike where `undone`."""
    content = ground.target or b""
    if b"\r\n" not in (ground.base or b""):
        content = content.replace(b"\r\n", b"\n")  # a patch takes the line ends of its target
    lines = text_lines(content)
    return [renamed_line(ground, line) for line in lines] if undone else lines


def text_lines(content: bytes) -> list[str]:
    """Return the lines of a file with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", content.decode("utf-8", "surrogateescape"))


def places_of(lines: list[str], wanted: list[str]) -> list[int]:
    """Return the 0-based lines at which a run of lines stands."""
    size = len(wanted)
    return [i for i in range(len(lines) - size + 1) if lines[i : i + size] == wanted]


def new_name(ground: Ground, name: str) -> str:
    """Return a qualified name of the base as the target has it, after upstream's renames."""
    parts = name.split(".")
    for rename in ground.outcome.renames:
        at = rename.scope.count(".")
        if rename.kind == "definition" and name.split(".")[: at + 1] == rename.scope.split("."):
            parts[at] = rename.new
    return ".".join(parts)
