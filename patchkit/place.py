"""Placing the hunks of one Python file: propose, prove, and keep what is proven.

All hunks are tried together first, with each hunk's cheapest proposal: one parse of the result and
one proof then cover the file. Where that fails each hunk is tried alone, through all its proposals,
and those that are proven alone must be proven together as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.align import Alignment
from patchkit.correspond import Correspondence, Correspondent
from patchkit.edit import Edit, splice
from patchkit.file_edits import FileEdits, Group, changes_from_pieces
from patchkit.outcome import Evidence, Method, Status
from patchkit.outline import MODULE, name_of, outline_of
from patchkit.presence import find_upstream
from patchkit.proof import Proven, Refuted, prove
from patchkit.propose import Lines, Merger, Piece, Proposal, Region, by_text
from patchkit.syntax import Module, Node


@dataclass(frozen=True)
class Verdict:
    """What became of one hunk in one file; `pieces` are byte spans of the target file at `path`."""

    status: Status
    definition_before: str | None = None
    path: str | None = None
    definition_after: str | None = None
    method: Method | None = None
    evidence: tuple[Evidence, ...] = ()
    pieces: tuple[Piece, ...] = ()
    reason: str | None = None
    candidates: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    whole_file: bool = False


class View:
    """One way of seeing the base in one target file: the alignment and the line merger for it."""

    def __init__(
        self, base: Module, lines: Lines, path: str, target: Module, overrides: Mapping[Node, Node]
    ) -> None:
        self.path = path
        self.target = target
        self.lines = Lines(target.source)
        self.alignment = Alignment(base, target, overrides)
        self.merger = Merger(lines, self.lines)


class PythonPlacer:
    """Places the hunks of one file onto one target."""

    def __init__(self, edits: FileEdits, path: str, correspondence: Correspondence) -> None:
        self.edits = edits
        self.base = edits.base
        self.lines = edits.lines
        self.path = path
        self.correspondence = correspondence
        self._views: dict[tuple[str, tuple[tuple[int, int], ...]], View] = {}

    # The cascade -----------------------------------------------------------------------------

    def place(self, banned: Mapping[int, Verdict]) -> tuple[dict[int, Verdict], dict[str, bytes]]:
        """Return the verdict on each hunk, and the content of each target file that changes."""
        verdicts: dict[int, Verdict] = {}
        open_groups = []
        for group in self.edits.groups:
            stop = next((banned[h.number] for h in group.hunks if h.number in banned), None)
            found = stop or self._upstream(group)
            if found is None:
                open_groups.append(group)
            for hunk in group.hunks if found else ():
                verdicts[hunk.number] = banned.get(hunk.number, found)  # type: ignore[arg-type]
        placed = self._place_together(open_groups) or self._place_singly(open_groups, verdicts)
        contents: dict[str, bytes] = {}
        for group, (view, proposal, proven) in placed:
            verdict = self._placed(group, view, proposal, proven)
            for hunk in group.hunks:
                verdicts[hunk.number] = verdict
        for view, chosen in _by_path(placed).values():
            contents[view.path] = splice(view.target.source, _pieces(chosen))
        return verdicts, contents

    def _place_together(self, groups: list[Group]) -> list[Placed] | None:
        chosen = []
        for group in groups:
            first = next(self._proposals(group), None)
            if first is None:
                return None
            chosen.append((group, first))
        result = []
        for view, members in _by_view(chosen).values():
            outcome = self._prove(view, members)
            if isinstance(outcome, Refuted):
                return None
            result += [(g, (view, p, outcome)) for g, p in members]
        return result

    def _prove(self, view: View, members: list[tuple[Group, Proposal]]) -> Proven | Refuted:
        edits = sorted((e for g, _ in members for e in g.edits), key=lambda e: e.start)
        pieces = [piece for _, p in members for piece in p.pieces]
        if len({(s, e) for s, e, _ in pieces}) != len(pieces):
            return Refuted("overlap", "two hunks replace the same lines of the target")
        result = splice(view.target.source, pieces)
        changes = changes_from_pieces(pieces)
        return prove(edits, view.alignment, view.target, result, changes)

    def _place_singly(self, groups: list[Group], verdicts: dict[int, Verdict]) -> list[Placed]:
        placed: list[Placed] = []
        for group in groups:
            problem = self._place_one(group, placed)
            for hunk in group.hunks if problem else ():
                verdicts[hunk.number] = problem  # type: ignore[assignment]
        return placed

    def _place_one(self, group: Group, placed: list[Placed]) -> Verdict | None:
        """Add a group to what is placed, or return why it cannot be."""
        refusals: list[str] = []
        for view, proposal in self._proposals(group):
            outcome = self._prove(view, [(group, proposal)])
            if isinstance(outcome, Refuted):
                refusals.append(f"{proposal.method}: {outcome.text}")
                continue
            before = [(g, p) for g, (v, p, _) in placed if v.path == view.path]
            together = self._prove(view, [*before, (group, proposal)]) if before else outcome
            if isinstance(together, Refuted):
                refusals.append(f"{proposal.method}, with the hunks before it: {together.text}")
                continue
            placed.append((group, (view, proposal, outcome)))
            return None
        return self._conflict(group, refusals)

    # Proposals -------------------------------------------------------------------------------

    def _proposals(self, group: Group) -> Iterator[tuple[View, Proposal]]:
        for view, method, evidence in self._views_for(group):
            if view.path == self.path and method is None:
                texts = [by_text(h, view.lines, view.path) for h in group.hunks]
                if all(texts):
                    yield view, _joined([t for t in texts if t])
            merged = self._merge(group, view)
            if merged is not None:
                how = evidence or Evidence(
                    "merge3", "its lines and both neighbours are unchanged in the definition"
                )
                yield view, Proposal(view.path, method or Method.MERGE3, merged, how)

    def _views_for(self, group: Group) -> Iterator[tuple[View, Method | None, Evidence | None]]:
        """The plain view of the file, then those with a definition elsewhere or renamed."""
        if self.correspondence.outline(self.path) is not None:
            yield self._view(self.path, {}), None, None
        for correspondents in self._elsewhere(group):
            first = correspondents[0][1]
            overrides = {node: c.node for node, c in correspondents if not self._aligned(node, c)}
            yield self._view(first.path, overrides), first.method, first.evidence

    def _aligned(self, node: Node, correspondent: Correspondent) -> bool:
        plain = self._view(correspondent.path, {})
        return plain.alignment.image(node) is correspondent.node

    def _elsewhere(self, group: Group) -> Iterator[list[tuple[Node, Correspondent]]]:
        """Per file of the target: the group's definitions that were moved there or renamed."""
        found: dict[str, list[tuple[Node, Correspondent]]] = {}
        for definition in self._definitions(group):
            name = outline_of(self.base).names[definition]
            for candidate in self.correspondence.candidates(self.edits.job.path, name, definition):
                if candidate.method is not None or self.path != self.edits.job.path:
                    found.setdefault(candidate.path, []).append((definition, candidate))
        yield from found.values()

    def _definitions(self, group: Group) -> list[Node]:
        """The base definitions whose place decides the group's: those it edits or stands beside."""
        outline = outline_of(self.base)
        nodes: list[Node] = []
        for edit in group.edits:
            around = outline.enclosing(edit.container)
            near = [around] if around else [n for n in (edit.next, edit.prev) if n]
            nodes += [n for n in near if n in outline.names]
        return list(dict.fromkeys(nodes))

    def _view(self, path: str, overrides: Mapping[Node, Node]) -> View:
        key = (path, tuple(sorted((a.start, b.start) for a, b in overrides.items())))
        if key not in self._views:
            outline = self.correspondence.outline(path)
            assert outline is not None
            self._views[key] = View(self.base, self.lines, path, outline.module, overrides)
        return self._views[key]

    def _merge(self, group: Group, view: View) -> tuple[Piece, ...] | None:
        pieces = []
        for hunk in group.hunks:
            for run in hunk.runs:
                region = self._region(group, run.start, run.end, view)
                piece = view.merger.place(run, region) if region else None
                if piece is None:
                    return None
                pieces.append(piece)
        return tuple(pieces)

    def _region(self, group: Group, start: int, end: int, view: View) -> Region | None:
        """The innermost definition around the edits of a run, and its image."""
        low, high = self.lines.starts[start], self.lines.starts[end]
        touched = [e for e in group.edits if e.start <= high and low <= e.end]
        outline = outline_of(self.base)
        around = {outline.enclosing(e.container) for e in touched}
        definition = around.pop() if len(around) == 1 else None
        if definition is None:
            return view.merger.whole()
        image = view.alignment.image(definition)
        if image is None:
            return None
        shift = view.target.column(image.start) - self.base.column(definition.start)
        return Region(_lines_of(self.base, definition), _lines_of(view.target, image), shift)

    # Verdicts --------------------------------------------------------------------------------

    def _upstream(self, group: Group) -> Verdict | None:
        """A verdict where the target has all of a group's edits already, or some of them."""
        for view, _, moved in self._views_for(group):
            authored = Alignment(self.edits.authored, view.target)
            edits = [e for e in group.edits if not e.is_layout]
            found = [find_upstream(e, view.alignment, authored) for e in edits]
            there = [f for f in found if f is not None]
            if not there:
                continue
            evidence = tuple(dict.fromkeys([*there, *([moved] if moved else [])]))
            name = self._name(group)
            if len(there) == len(edits):
                return Verdict(Status.ALREADY_UPSTREAM, name, view.path, name, evidence=evidence)
            missing = [e for e, f in zip(edits, found, strict=True) if f is None]
            if self._is_partly(missing):
                lacking = ", ".join(f"{e.kind} at base line {_line(e)}" for e in missing)
                reason = f"the target has {len(there)} of {len(edits)} edits; missing: {lacking}"
                return Verdict(
                    Status.PARTLY_UPSTREAM, name, view.path, name, evidence=evidence, reason=reason
                )
        return None

    def _is_partly(self, missing: list[Edit]) -> bool:
        """Whether the edits that are there are more than a coincidence: no proposal fits whole."""
        group = self.edits.group_of(missing)
        return not any(
            isinstance(self._prove(v, [(group, p)]), Proven) for v, p in self._proposals(group)
        )

    def _placed(self, group: Group, view: View, proposal: Proposal, proven: Proven) -> Verdict:
        name = self._name(group)
        landed = name
        outline = outline_of(view.target)
        for edit in group.edits:
            image = view.alignment.image(edit.container)
            if image is not None and outline_of(self.base).qualified(edit.container) == name:
                landed = outline.qualified(image)
                break
        evidence = (proposal.evidence, *proven.evidence)
        return Verdict(
            Status.PLACED, name, view.path, landed, proposal.method, evidence, proposal.pieces
        )

    def _conflict(self, group: Group, refusals: list[str]) -> Verdict:
        name = self._name(group)
        bare = [name_of(d) for d in self._definitions(group)]
        places = [p for b in bare for p in self.correspondence.places_of(b, self.path)]
        outline = self.correspondence.outline(self.path)
        gone = outline is None or (name not in (None, MODULE) and name not in outline.by_name)
        if gone and not refusals:
            where = f"`{name}` is" if name != MODULE else f"{self.path} is"
            reason = f"{where} not in the target under its name, nor word for word elsewhere"
            return Verdict(Status.ORPHANED, name, reason=reason, candidates=tuple(places))
        reason = "; ".join(dict.fromkeys(refusals)) or (
            f"the lines that it changes in `{name}`, or those next to them, changed upstream"
        )
        return Verdict(Status.CONFLICTED, name, reason=reason, candidates=tuple(places))

    def _name(self, group: Group) -> str:
        outline = outline_of(self.base)
        names = [outline.qualified(e.container) for e in group.edits if not e.is_layout]
        inner = [n for n in names if n != MODULE]
        return (inner or names or [MODULE])[0]


Placed = tuple[Group, tuple[View, Proposal, Proven]]


def _line(edit: Edit) -> int:
    return edit.container.module.line_at(edit.start)


def _lines_of(module: Module, node: Node) -> tuple[int, int]:
    return module.line_at(node.start) - 1, module.line_at(max(node.start, node.end - 1))


def _pieces(chosen: list[tuple[Group, Proposal]]) -> list[Piece]:
    return [piece for _, proposal in chosen for piece in proposal.pieces]


def _joined(proposals: list[Proposal]) -> Proposal:
    """One proposal for a group: it is as exact as its least exact part."""
    worst = max(proposals, key=lambda p: p.method is Method.OFFSET)
    pieces = tuple(piece for p in proposals for piece in p.pieces)
    return Proposal(worst.path, worst.method, pieces, worst.evidence)


def _by_view(
    chosen: Sequence[tuple[Group, tuple[View, Proposal]]],
) -> dict[int, tuple[View, list[tuple[Group, Proposal]]]]:
    views: dict[int, tuple[View, list[tuple[Group, Proposal]]]] = {}
    for group, (view, proposal) in chosen:
        views.setdefault(id(view), (view, []))[1].append((group, proposal))
    return views


def _by_path(placed: Sequence[Placed]) -> dict[str, tuple[View, list[tuple[Group, Proposal]]]]:
    paths: dict[str, tuple[View, list[tuple[Group, Proposal]]]] = {}
    for group, (view, proposal, _) in placed:
        paths.setdefault(view.path, (view, []))[1].append((group, proposal))
    return paths
