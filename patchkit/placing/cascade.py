"""The cascade: what the engines propose for a group of hunks, from cheap and exact to clever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from patchkit.outcome import Evidence, Method, Rejected
from patchkit.placing.file_edits import FileEdits, Group
from patchkit.placing.propose import Piece, Proposal, Region, by_text, text_misfit
from patchkit.placing.typed import place_edits
from patchkit.placing.views import View, Views
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Module, Node


class Cascade:
    """The proposals for the hunks of one file."""

    def __init__(self, edits: FileEdits, path: str, views: Views) -> None:
        self.edits = edits
        self.path = path
        self.views = views

    def of(self, group: Group) -> Iterator[tuple[View, Proposal]]:
        """Yield what may be done with a group, seen from each place that it may have."""
        for view in self.views.of(group):
            yield from self.seen_in(view, group)

    def seen_in(self, view: View, group: Group) -> Iterator[tuple[View, Proposal]]:
        """Yield what may be done with a group as one view sees it, the exact first."""
        lead = view.evidence[0] if view.evidence else None
        if group.there:
            yield from self._typed(view, group)  # the text engines know whole hunks only
            return
        if view.path == self.path and view.method is not Method.MOVED:
            texts = [by_text(h, view.ground.lines, view.path) for h in group.hunks]
            whole = [t for t in texts if t is not None]
            if len(whole) == len(texts):
                joined = _joined(whole)
                if view.evidence:
                    said = f"with upstream's rename taken back, {joined.evidence.text}"
                    fact = Evidence(joined.evidence.kind, said)
                    joined = replace(joined, method=Method.RENAMED, evidence=fact)
                yield view, joined
        merged = self._merge(group, view)
        if merged is not None:
            text = "its lines and both neighbours are unchanged in the definition"
            how = lead or Evidence("merge3", text)
            yield view, Proposal(view.path, view.method or Method.MERGE3, merged, how)
        yield from self._typed(view, group)

    def _typed(self, view: View, group: Group) -> Iterator[tuple[View, Proposal]]:
        lead = view.evidence[0] if view.evidence else None
        typed = place_edits(group.edits, view.alignment)
        if typed is not None:
            how = lead or Evidence("typed", "what it replaces, or its neighbours, are there")
            yield view, Proposal(view.path, view.method or Method.TYPED, typed, how)

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
        base = self.edits.base
        low, high = self.edits.lines.starts[start], self.edits.lines.starts[end]
        touched = [e for e in group.edits if e.start <= high and low <= e.end]
        outline = outline_of(base)
        around = {outline.enclosing(e.container) for e in touched}
        definition = around.pop() if len(around) == 1 else None
        if definition is None:
            return view.merger.whole()
        image = view.alignment.image(definition)
        if image is None:
            return None
        target = view.ground.module
        shift = target.column(image.start) - base.column(definition.start)
        return Region(_line_range(base, definition), _line_range(target, image), shift)

    def silent(self, group: Group, view: View, placed_by: Method | None = None) -> list[Rejected]:
        """The text engines that proposed nothing in a view, and why; none better than what did."""
        found: list[Rejected] = []
        if placed_by in (Method.EXACT, Method.OFFSET):
            return found
        if view.path == self.path and view.method is not Method.MOVED:
            misfits = [text_misfit(hunk, view.ground.lines) for hunk in group.hunks]
            found += [Rejected("method", "offset", m) for m in misfits if m]
        if placed_by is Method.MERGE3 or self._merge(group, view) is not None:
            return found
        for hunk in group.hunks:
            for run in hunk.runs:
                region = self._region(group, run.start, run.end, view)
                nowhere = f"{view.path} has no counterpart of its definition"
                misfit = view.merger.misfit(run, region) if region else nowhere
                found += [Rejected("method", "merge3", misfit)] if misfit else []
        return list(dict.fromkeys(found))


def _line_range(module: Module, node: Node) -> tuple[int, int]:
    return module.line_at(node.start) - 1, module.line_at(max(node.start, node.end - 1))


def _joined(proposals: list[Proposal]) -> Proposal:
    """One proposal for a group: it is as exact as its least exact part."""
    worst = max(proposals, key=lambda p: p.method is Method.OFFSET)
    pieces = tuple(piece for p in proposals for piece in p.pieces)
    return Proposal(worst.path, worst.method, pieces, worst.evidence)
