"""Placing the hunks of one Python file: propose, prove, and keep what is proven.

All hunks are tried together first, with each hunk's cheapest proposal: one parse of the result and
one proof then cover the file. Where that fails each hunk is tried alone, through all its proposals,
and those that are proven alone must be proven together as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.names.occurrences import UnsureError
from patchkit.names.rename import redo, renamed
from patchkit.outcome import Clash, Evidence, Rejected, Status
from patchkit.placing.cascade import Cascade
from patchkit.placing.clash import clash_of, name_clash
from patchkit.placing.correspond import Correspondence
from patchkit.placing.elsewhere import definitions_elsewhere
from patchkit.placing.file_edits import FileEdits, Group, finest_changes
from patchkit.placing.landed_lines import lines_of
from patchkit.placing.presence import find_upstream, find_whole, may_be_left_out
from patchkit.placing.proof import Proven, Refuted, prove
from patchkit.placing.propose import Proposal
from patchkit.placing.verdict import Verdict
from patchkit.placing.views import View, Views
from patchkit.syntax.align import Alignment
from patchkit.syntax.edit import Edit, InexactError, splice
from patchkit.syntax.outline import MODULE, name_of, outline_of
from patchkit.syntax.tree import STATEMENT_LISTS, Module


@dataclass(frozen=True)
class Placed:
    """A group with the proposal that was proven, seen as `view` sees it.

    `refused` are the proposals before it, with what the proof had against them.
    """

    group: Group
    view: View
    proposal: Proposal
    proven: Proven
    refused: tuple[Rejected, ...] = ()


class PythonPlacer:
    """Places the hunks of one file onto one target."""

    def __init__(self, edits: FileEdits, path: str, correspondence: Correspondence) -> None:
        self.edits = edits
        self.path = path
        self.correspondence = correspondence
        self.views = Views(edits, path, correspondence)
        self.cascade = Cascade(edits, path, self.views)
        self._alignments: dict[str, Alignment] = {}
        # by the number of a group's first hunk
        self._there: dict[int, Verdict | None] = {}
        self._rest: dict[int, Group] = {}

    def place(self, banned: Mapping[int, Verdict]) -> tuple[dict[int, Verdict], dict[str, bytes]]:
        """Return the verdict on each hunk, and the content of each target file that changes."""
        verdicts: dict[int, Verdict] = {}
        open_groups = []
        for group in self.edits.groups:
            stop = next((banned[h.number] for h in group.hunks if h.number in banned), None)
            found = stop or self._upstream(group)
            if found is None:
                open_groups.append(self._rest.get(group.hunks[0].number, group))
                continue
            for hunk in group.hunks:
                verdicts[hunk.number] = banned.get(hunk.number, found)
        placed = self._place_together(open_groups) or self._place_singly(open_groups, verdicts)
        contents: dict[str, bytes] = {}
        for path, members in _by_path(placed).items():
            contents[path] = _result(members)
            spans = _spans(members)
            for member in members:
                verdict = replace(self._placed(member), lines=spans[id(member)])
                verdicts.update({h.number: verdict for h in member.group.hunks})
        return verdicts, contents

    # The cascade -----------------------------------------------------------------------------

    def _place_together(self, groups: list[Group]) -> list[Placed] | None:
        chosen: list[tuple[Group, View, Proposal]] = []
        for group in groups:
            first = next(self.cascade.of(group), None)
            if first is None or next(self.views.split(group), None) is not None:
                return None
            chosen.append((group, *first))
        paths: dict[str, list[tuple[Group, View, Proposal]]] = {}
        for entry in chosen:
            paths.setdefault(entry[1].path, []).append(entry)
        result = []
        for entries in paths.values():
            outcome = _prove(entries)
            if isinstance(outcome, Refuted):
                return None
            result += [Placed(g, v, p, outcome) for g, v, p in entries]
        return result

    def _place_singly(self, groups: list[Group], verdicts: dict[int, Verdict]) -> list[Placed]:
        placed: list[Placed] = []
        for group in groups:
            problem = self._place_one(group, placed)
            if problem is not None:
                verdicts.update({h.number: problem for h in group.hunks})
        return placed

    def _place_one(self, group: Group, placed: list[Placed]) -> Verdict | None:
        """Add a group to what is placed, or return why it cannot be."""
        refusals: list[Rejected] = []
        found = self._first_proven(self.cascade.of(group), group, placed, refusals)
        for view in self.views.split(group):
            other = self._first_proven(self.cascade.seen_in(view, group), group, placed, refusals)
            if other is None:
                continue
            if found is not None and _result([found]) != _result([other]):
                return self._two_places(group, found, other)
            found = other
        if found is None:
            return self._conflict(group, refusals)
        placed.append(replace(found, refused=tuple(dict.fromkeys(refusals))))
        return None

    def _first_proven(
        self,
        proposals: Iterator[tuple[View, Proposal]],
        group: Group,
        placed: list[Placed],
        refusals: list[Rejected],
    ) -> Placed | None:
        for view, proposal in proposals:
            outcome = _prove([(group, view, proposal)])
            if isinstance(outcome, Refuted):
                refusals.append(Rejected("method", str(proposal.method), outcome.text))
                continue
            before = [(p.group, p.view, p.proposal) for p in placed if p.view.path == view.path]
            together = _prove([*before, (group, view, proposal)]) if before else outcome
            if isinstance(together, Refuted):
                how = f"{proposal.method}, with the hunks before it"
                refusals.append(Rejected("method", how, together.text))
                continue
            return Placed(group, view, proposal, outcome)
        return None

    # Verdicts --------------------------------------------------------------------------------

    def _upstream(self, group: Group) -> Verdict | None:
        """A verdict where the target has all of a group's edits already, or some of them."""
        number = group.hunks[0].number
        if number not in self._there:
            self._there[number] = self._find_upstream(group)
        return self._there[number]

    def _find_upstream(self, group: Group) -> Verdict | None:
        edits = [e for e in group.edits if not e.is_layout] or group.edits
        for view in self.views.of(group):
            original = view.ground.original
            base = Alignment(self.edits.base, original) if view.ground.renamings else view.alignment
            authored = self._authored(view.path, original)
            found = [find_upstream(e, base, authored) for e in edits]
            whole = None if all(found) else find_whole(edits, base, authored)
            found = [whole] * len(edits) if whole is not None else found
            there = [f for f in found if f is not None]
            if not there:
                continue
            evidence = tuple(dict.fromkeys([*there, *view.evidence]))
            name, landed = self._name(group), self._landed(group, view)
            if len(there) == len(edits):
                return Verdict(
                    Status.ALREADY_UPSTREAM, name, view.path, landed, evidence=evidence,
                    renames=self.views.renames(group, view),
                )  # fmt: skip
            missing = [e for e, f in zip(edits, found, strict=True) if f is None]
            if self._lands_without(group, edits, found):
                return None
            if self._is_partly(missing):
                lacking = ", ".join(f"{e.kind} at base line {_line(e)}" for e in missing)
                reason = f"the target has {len(there)} of {len(edits)} edits; missing: {lacking}"
                return Verdict(
                    Status.PARTLY_UPSTREAM, name, view.path, landed, evidence=evidence,
                    reason=reason, renames=self.views.renames(group, view),
                    clash=self._clash(missing, view),
                )  # fmt: skip
        return self._elsewhere(group, edits)

    def _elsewhere(self, group: Group, edits: Sequence[Edit]) -> Verdict | None:
        """A verdict where another file of the target has the definitions that a group adds."""
        nodes = [n for e in edits for n in e.inserted if n.kind != "Comment"]
        plain = all(e.container.kind == "Module" and not e.removed for e in edits)
        if not nodes or not plain or not all(n.is_definition for n in nodes):
            return None
        base, target = self.correspondence.base, self.correspondence.target
        outline = self.correspondence.outline(self.path)
        if outline is not None and any(name_of(n) in outline.by_name for n in nodes):
            return None
        found = definitions_elsewhere(nodes, self.path, base, target)
        if found is None:
            return None
        path, evidence = found
        return Verdict(Status.ALREADY_UPSTREAM, self._name(group), path, evidence=evidence)

    def _lands_without(
        self, group: Group, edits: Sequence[Edit], found: Sequence[Evidence | None]
    ) -> bool:
        """Whether the rest of a group is proven without what the target has; it is kept then."""
        there = [(e, f) for e, f in zip(edits, found, strict=True) if f is not None]
        if not all(may_be_left_out(edit) for edit, _ in there):
            return False
        known = {id(edit) for edit, _ in there}
        rest = [e for e in group.edits if id(e) not in known]
        facts = tuple(dict.fromkeys(fact for _, fact in there))
        without = Group(group.hunks, rest, facts)
        if not any(
            isinstance(_prove([(without, v, p)]), Proven) for v, p in self.cascade.of(without)
        ):
            return False
        self._rest[group.hunks[0].number] = without
        return True

    def _authored(self, path: str, target: Module) -> Alignment:
        """The alignment of the authored file with a target file as it is, no rename undone."""
        if path not in self._alignments:
            self._alignments[path] = Alignment(self.edits.authored, target)
        return self._alignments[path]

    def _is_partly(self, missing: list[Edit]) -> bool:
        """Whether the edits that are there are more than a coincidence: no proposal fits whole."""
        group = self.edits.group_of(missing)
        return not any(
            isinstance(_prove([(group, v, p)]), Proven) for v, p in self.cascade.of(group)
        )

    def _placed(self, member: Placed) -> Verdict:
        group, view = member.group, member.view
        name = self._name(group)
        landed = self._landed(group, view)
        facts = (
            member.proposal.evidence, *self.views.likeness(group, view), *view.evidence,
            *member.proven.evidence_for(group.edits), *group.there,
        )  # fmt: skip
        silent = self.cascade.silent(group, view, member.proposal.method)
        original = view.ground.original
        names = (name_clash(e, view.alignment, view.path, original) for e in group.edits)
        return Verdict(
            Status.PLACED, name, view.path, landed, member.proposal.method,
            tuple(dict.fromkeys(facts)), adds_statements=any(map(_adds_statement, group.edits)),
            renames=self.views.renames(group, view),
            rejected=(*silent, *member.refused, *self.views.rejected(group)),
            # It may turn out that the result then has the name twice.
            clash=next((c for c in names if c is not None), None),
        )  # fmt: skip

    def _landed(self, group: Group, view: View) -> str:
        """The name that a group's definition has in the target."""
        name = landed = self._name(group)
        base, target = outline_of(self.edits.base), outline_of(view.ground.module)
        for edit in group.edits:
            image = view.alignment.image(edit.container)
            if image is not None and base.qualified(edit.container) == name:
                landed = target.qualified(image)
                break
        return renamed(landed, view.ground.renamings)

    def _two_places(self, group: Group, one: Placed, other: Placed) -> Verdict:
        names = [self._placed(p).definition_after for p in (one, other)]
        reason = f"it fits `{names[0]}` as well as `{names[1]}`, with different results"
        places = [f"{p.view.path} {n}" for p, n in zip((one, other), names, strict=True)]
        return Verdict(
            Status.CONFLICTED, self._name(group), reason=reason, candidates=tuple(places),
            rejected=self.views.rejected(group),
        )  # fmt: skip

    def _conflict(self, group: Group, refusals: list[Rejected]) -> Verdict:
        name = self._name(group)
        view = next(self.views.of(group), None)
        silent = self.cascade.silent(group, view) if view is not None else []
        tried = (*silent, *dict.fromkeys(refusals), *self.views.rejected(group))
        bare = [name_of(d) for d in self.views.definitions(group)]
        places = tuple(p for b in bare for p in self.correspondence.places_of(b, self.path))
        outline = self.correspondence.outline(self.path)
        gone = outline is None or (name != MODULE and name not in outline.by_name)
        if gone and all(
            view.path == self.path and not view.evidence for view in self.views.of(group)
        ):
            where = f"`{name}` is" if name != MODULE else f"{self.path} is"
            reason = f"{where} not in the target under its name, nor clearly elsewhere"
            return Verdict(Status.ORPHANED, name, reason=reason, candidates=places, rejected=tried)
        reason = "; ".join(map(str, dict.fromkeys(refusals))) or (
            f"the lines that it changes in `{name}`, or those next to them, changed upstream"
        )
        return Verdict(
            Status.CONFLICTED, name, reason=reason, candidates=places, rejected=tried,
            clash=self._clash(group.edits, view) if view is not None else None,
        )  # fmt: skip

    def _clash(self, edits: Sequence[Edit], view: View) -> Clash | None:
        return clash_of(edits, view.alignment, view.path, view.ground.original)

    def _name(self, group: Group) -> str:
        outline = outline_of(self.edits.base)
        edits = [e for e in group.edits if not e.is_layout] or group.edits
        names = [outline.qualified(e.container) for e in edits]
        inner = [n for n in names if n != MODULE]
        return (inner or names or [MODULE])[0]


def _prove(entries: Sequence[tuple[Group, View, Proposal]]) -> Proven | Refuted:
    """Prove the proposals of several groups on one target file together."""
    ground = entries[0][1].ground
    authored = [(e, v.alignment) for g, v, _ in entries for e in g.edits]
    pieces = [piece for _, _, p in entries for piece in p.pieces]
    try:
        result = splice(ground.module.source, pieces)
    except InexactError:
        return Refuted("overlap", "two hunks replace the same part of the target")
    outcome = prove(authored, ground.module, result, finest_changes(ground.module.source, pieces))
    if isinstance(outcome, Proven) and ground.renamings:
        try:
            redo(result, ground.renamings)
        except UnsureError as error:
            return Refuted("rename", f"upstream's rename cannot be made on the result: {error}")
    return outcome


def _adds_statement(edit: Edit) -> bool:
    """Whether an edit leaves more statements than it found."""
    return edit.slot in STATEMENT_LISTS and len(edit.inserted) > len(edit.removed)


def _line(edit: Edit) -> int:
    return edit.container.module.line_at(edit.start)


def _result(members: Sequence[Placed]) -> bytes:
    """The target file with some groups placed and upstream's renames made again."""
    ground = members[0].view.ground
    pieces = [piece for m in members for piece in m.proposal.pieces]
    return redo(splice(ground.module.source, pieces), ground.renamings)


def _spans(members: Sequence[Placed]) -> dict[int, tuple[int, int]]:
    """The lines that each group takes up in the result; a rename moves no line."""
    pieces = [piece for m in members for piece in m.proposal.pieces]
    owners = [m for m in members for _ in m.proposal.pieces]
    spans: dict[int, tuple[int, int]] = {}
    for member, (first, last) in zip(
        owners, lines_of(members[0].view.ground.module.source, pieces), strict=True
    ):
        low, high = spans.get(id(member), (first, last))
        spans[id(member)] = (min(first, low), max(last, high))
    return spans


def _by_path(placed: Sequence[Placed]) -> dict[str, list[Placed]]:
    paths: dict[str, list[Placed]] = {}
    for member in placed:
        paths.setdefault(member.view.path, []).append(member)
    return paths
