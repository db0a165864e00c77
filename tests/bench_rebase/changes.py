"""The real changes of a module between two releases: its hunks, and what belongs together.

A unit is an edit plus the hunks that define what it reads and the base does not define.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from patchkit.diff.lines import Change, diff_lines
from patchkit.diff.model import blob_id
from patchkit.names.unresolved import new_unresolved
from tests.bench_rebase.source import Source, enclosing, is_python, read_source, split_lines

CONTEXT = 3
MOST_HUNKS = 8  # of a unit; a larger one is most of the module

Lines = Sequence[bytes]
Hunks = tuple[tuple[Change, ...], ...]
Fact = tuple[str, int, str]  # name, 1-based line, "bound" or "read"


class HunkFacts(NamedTuple):
    """What a hunk does to names: bound with their lines, new in this release, no longer read."""

    bound: frozenset[tuple[str, int]]
    new_bound: frozenset[str]
    new_reads: frozenset[str]
    gone_reads: frozenset[str]


@dataclass(frozen=True, eq=False)
class ModuleChanges:
    """One module in two releases. `hunks` are its changes grouped as a diff groups them."""

    path: str
    old: Source
    new: Source
    hunks: Hunks

    def applied(self, chosen: Collection[int]) -> bytes:
        """Return the old text with some of the hunks."""
        changes = [c for n, hunk in enumerate(self.hunks) if n in chosen for c in hunk]
        return apply_changes(self.old.lines, self.new.lines, changes)

    def without(self, chosen: Collection[int]) -> bytes:
        """Return the old text with all hunks but some."""
        return self.applied([n for n in range(len(self.hunks)) if n not in chosen])

    def regions(self, hunk: int, unit: Collection[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return a hunk's lines in the old text with all but the unit, and in the new text."""
        first, last = self.hunks[hunk][0], self.hunks[hunk][-1]
        shift = sum(
            (c.new_end - c.new_start) - (c.old_end - c.old_start)
            for number, group in enumerate(self.hunks[:hunk])
            if number not in unit
            for c in group
        )
        return (
            (first.old_start + shift, last.old_end + shift), (first.new_start, last.new_end)
        )  # fmt: skip

    @cached_property
    def _facts(self) -> list[HunkFacts]:
        old, new = _facts(self.old.tree), _facts(self.new.tree)
        known = frozenset(name for name, _, kind in old if kind == "bound")
        result = []
        for hunk in self.hunks:
            added = [(c.new_start, c.new_end) for c in hunk]
            removed = [(c.old_start, c.old_end) for c in hunk]
            bound = {(name, line) for name, line in _within(new, added, "bound")}
            result.append(
                HunkFacts(
                    frozenset(bound),
                    frozenset(name for name, _ in bound) - known,
                    frozenset(name for name, _ in _within(new, added, "read")) - known,
                    frozenset(name for name, _ in _within(old, removed, "read")),
                )
            )
        return result

    def unit(self, hunk: int) -> tuple[int, ...]:
        """Return a hunk with those that it cannot be without.

        These define what it reads and the old module does not define, or no longer read what it
        takes away. A unit that would be larger than most is cut short.
        """
        chosen = {hunk}
        while len(chosen) <= MOST_HUNKS:
            more = self._definers(chosen) or self._needed(chosen)
            if not more:
                break
            chosen |= more
        return tuple(sorted(chosen))

    def _definers(self, chosen: set[int]) -> set[int]:
        """Return further hunks that define names which are new in this release."""
        wanted = frozenset[str]().union(*(self._facts[n].new_reads for n in chosen))
        return {n for n, f in enumerate(self._facts) if f.new_bound & wanted} - chosen

    def _needed(self, chosen: set[int]) -> set[int]:
        """Return further hunks without which a name of the old module stays undefined."""
        authored = self.applied(chosen)
        if not is_python(authored):
            return set()
        more: set[int] = set()
        for gap in new_unresolved(self.old.text, authored):
            for number, facts in enumerate(self._facts):
                defines = any(
                    name == gap.name and self._serves(line, gap.scope) for name, line in facts.bound
                )
                if defines or gap.name in facts.gone_reads:
                    more.add(number)
        return more - chosen

    def _serves(self, line: int, scope: str) -> bool:
        """Whether what a line of the new release binds can be seen from a definition."""
        around = enclosing(self.new, line - 1, line)
        return not around or f"{scope}.".startswith(around[-1][0] + ".")


def module_changes(path: str, old: bytes, new: bytes, *, gap: int = 2 * CONTEXT) -> ModuleChanges:
    """Return a module's hunks with its two texts."""
    return ModuleChanges(path, read_source(old), read_source(new), module_hunks(old, new, gap=gap))


def module_hunks(old: bytes, new: bytes, *, gap: int = 2 * CONTEXT) -> Hunks:
    """Return the hunks between two texts; changes with at most `gap` lines between them are one."""
    groups: list[list[Change]] = []
    for change in diff_lines(split_lines(old), split_lines(new)):
        if groups and change.old_start - groups[-1][-1].old_end <= gap:
            groups[-1].append(change)
        else:
            groups.append([change])
    return tuple(map(tuple, groups))


def apply_changes(old: Lines, new: Lines, changes: Iterable[Change]) -> bytes:
    """Return the old lines with some changes towards the new ones."""
    pieces: list[bytes] = []
    at = 0
    for change in sorted(changes, key=lambda c: (c.old_start, c.new_start)):
        pieces += [*old[at : change.old_start], *new[change.new_start : change.new_end]]
        at = change.old_end
    return b"".join([*pieces, *old[at:]])


def cut_patch(path: str, old: Source, authored: bytes, changes: Sequence[Change]) -> bytes:
    """Return a git patch of one file with three lines of context.

    `authored` is the old text with these changes alone.
    """
    lines = split_lines(authored)
    groups: list[list[Change]] = []
    for change in _renumbered(changes):
        if groups and change.old_start - groups[-1][-1].old_end <= 2 * CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    head = (
        f"diff --git a/{path} b/{path}\n"
        f"index {blob_id(old.text)}..{blob_id(authored)} 100644\n"
        f"--- a/{path}\n+++ b/{path}\n"
    )
    return head.encode() + b"".join(_hunk(old, lines, group) for group in groups)


def _renumbered(changes: Sequence[Change]) -> list[Change]:
    """Return changes with their place in the new text where there are no others."""
    shift, result = 0, []
    for change in sorted(changes, key=lambda c: (c.old_start, c.new_start)):
        added = change.new_end - change.new_start
        start = change.old_start + shift
        result.append(Change(change.old_start, change.old_end, start, start + added))
        shift += added - (change.old_end - change.old_start)
    return result


def _hunk(old: Source, new: Lines, group: list[Change]) -> bytes:
    start = max(group[0].old_start - CONTEXT, 0)
    end = min(group[-1].old_end + CONTEXT, len(old.lines))
    body: list[bytes] = []
    at = start
    for change in group:
        body += [b" " + line for line in old.lines[at : change.old_start]]
        body += [b"-" + line for line in old.lines[change.old_start : change.old_end]]
        body += [b"+" + line for line in new[change.new_start : change.new_end]]
        at = change.old_end
    body += [b" " + line for line in old.lines[at:end]]
    body = [line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
            for line in body]  # fmt: skip
    new_start = group[0].new_start - (group[0].old_start - start)
    old_count = sum(line[:1] != b"+" for line in body)
    new_count = sum(line[:1] != b"-" for line in body)
    header = (
        f"@@ -{start + bool(old_count)},{old_count} +{new_start + bool(new_count)},{new_count} @@"
    )
    return header.encode() + _heading(old.lines[:start]) + b"\n" + b"".join(body)


def _heading(above: Lines) -> bytes:
    """Return the last line above that begins with a letter, as git shows it."""
    for line in reversed(above):
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return b" " + line.rstrip()[:80]
    return b""


def _facts(tree: ast.Module) -> set[Fact]:
    """Return what the module binds and reads: names, members, parameters, keywords."""
    found: set[Fact] = set()
    work: list[tuple[ast.AST, int | None]] = [(tree, None)]
    while work:
        node, line = work.pop()
        if isinstance(node, ast.JoinedStr) and line is None:
            line = node.lineno  # positions inside an f-string depend on the Python
        found.update((name, line or at, kind) for name, at, kind in _own_facts(node))
        work += [(child, line) for child in ast.iter_child_nodes(node)]
    return found


def _own_facts(node: ast.AST) -> Iterator[Fact]:
    if isinstance(node, ast.Name):
        yield node.id, node.lineno, "read" if isinstance(node.ctx, ast.Load) else "bound"
    elif isinstance(node, ast.Attribute):
        kind = "read" if isinstance(node.ctx, ast.Load) else "bound"
        yield node.attr, node.end_lineno or 0, kind
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, node.lineno, "bound"
    elif isinstance(node, ast.arg):
        yield node.arg, node.lineno, "bound"
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg, node.lineno, "read"
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.split(".")[0], node.lineno, "bound"


def _within(
    facts: Iterable[Fact], ranges: Sequence[tuple[int, int]], wanted: str
) -> set[tuple[str, int]]:
    return {
        (name, line)
        for name, line, kind in facts
        if kind == wanted and any(start < line <= end for start, end in ranges)
    }
