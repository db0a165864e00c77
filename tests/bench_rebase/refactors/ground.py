"""What a refactoring works on: target and truth, which differ by the patch alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchkit.diff.lines import Change, diff_lines
from tests.bench_rebase.source import (
    FUNCTIONS,
    Definition,
    Function,
    Key,
    Source,
    definitions,
    first_line,
    read_source,
    with_comments,
)


class InapplicableError(Exception):
    """The change gives the refactoring nothing to work on; another one is drawn."""


class DroppedError(Exception):
    """The case would have no single right answer; the reason is counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Ground:
    """Target and truth by path; `path` is the file of the edit, `chain` the definitions around it.

    `chain` goes from the outermost definition to the innermost and names the same definitions in
    target and truth. `regions` are the edit's lines in target and truth, 0-based and half-open,
    None once a refactoring moved them. `notes` says what was done so far.
    """

    target: Mapping[str, bytes]
    truth: Mapping[str, bytes]
    path: str
    chain: tuple[Key, ...]
    regions: tuple[tuple[int, int], tuple[int, int]] | None = None
    notes: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[Source, Source]:
        """The edited file in target and truth."""
        return read_source(self.target[self.path]), read_source(self.truth[self.path])

    def with_texts(
        self, target: bytes, truth: bytes, note: str, chain: tuple[Key, ...] | None = None
    ) -> Ground:
        """Return the ground with the edited file replaced on both sides."""
        return replace(
            self,
            target={**self.target, self.path: target},
            truth={**self.truth, self.path: truth},
            chain=self.chain if chain is None else chain,
            regions=None,
            notes=(*self.notes, note),
        )

    def changes(self) -> tuple[Change, ...]:
        """Return the runs of lines in which the truth's file differs from the target's."""
        target, truth = self.sources
        return diff_lines(target.lines, truth.lines)

    def fresh(self, name: str) -> str:
        """Return a name made of `name` that occurs on neither side."""
        texts = [*self.target.values(), *self.truth.values()]
        candidate, number = name, 2
        while any(candidate.encode() in text for text in texts):
            candidate, number = f"{name}{number}", number + 1
        return candidate


def pair(ground: Ground, key: Key) -> tuple[Definition, Definition]:
    """Return a definition on both sides; Inapplicable where it is not the same one."""
    both = []
    for source in ground.sources:
        found = definitions(source)
        if key not in found:
            raise InapplicableError(f"{key[0]} is not on both sides")
        both.append((found[key], sum(name == key[0] for name, _ in found)))
    if both[0][1] != both[1][1] or type(both[0][0]) is not type(both[1][0]):
        raise InapplicableError(f"{key[0]} is not the same on both sides")
    return both[0][0], both[1][0]


def function_pair(ground: Ground) -> tuple[Key, Function, Function]:
    """Return the innermost definition around the edit, which must be a function."""
    if not ground.chain:
        raise InapplicableError("the edit is in no function")
    key = ground.chain[-1]
    one, other = pair(ground, key)
    if not isinstance(one, FUNCTIONS) or not isinstance(other, FUNCTIONS):
        raise InapplicableError("the edit is in no function")
    return key, one, other


def refuse_neighbours(ground: Ground, key: Key, *, below: bool = True) -> None:
    """Refuse where the patch inserts right beside a definition that is moved or copied.

    What it inserts could then stand on either side of the one that was moved or copied.
    """
    target, truth = ground.sources
    node, other = definitions(target)[key], definitions(truth)[key]
    start, end = with_comments(target, node), node.end_lineno or 0
    for change in ground.changes():
        if change.old_start < change.old_end:
            continue
        if first_line(other) <= change.new_start and change.new_end <= (other.end_lineno or 0):
            continue  # goes along with the definition
        at = change.old_start
        # Between its comments, its decorators and its name is above it as well.
        above = at < node.lineno and not any(map(bytes.strip, target.lines[at:start]))
        under = at >= end and not any(map(bytes.strip, target.lines[end:at]))
        if above or (under and below):
            raise DroppedError("two orders")
