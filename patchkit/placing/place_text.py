"""Placing the hunks of a file that is not Python: the text cascade and the proof's text part.

There are no definitions to go by, so the whole file is the region; a hunk lands where its old text
stands at its line or once in the file, or where its lines and both neighbours are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from patchkit.outcome import Evidence, Method, Status
from patchkit.placing.file_edits import FileJob
from patchkit.placing.landed_lines import lines_of
from patchkit.placing.propose import HunkJob, Lines, Merger, Piece, Proposal, by_text
from patchkit.placing.verdict import Verdict
from patchkit.syntax.edit import splice


def place_text(
    job: FileJob, path: str, target: bytes, banned: Mapping[int, Verdict]
) -> tuple[dict[int, Verdict], dict[str, bytes]]:
    """Return the verdict on each hunk, and the file's new content where it changes."""
    lines = Lines(target)
    merger = Merger(Lines(job.base), lines)
    authored = Merger(Lines(job.authored), lines)
    verdicts: dict[int, Verdict] = {}
    pieces: list[Piece] = []
    owners: list[int] = []
    shift = 0
    for hunk in job.hunks:
        grown = sum(len(r.lines) - (r.end - r.start) for r in hunk.runs)
        if hunk.number in banned:
            verdicts[hunk.number] = banned[hunk.number]
        elif _present(hunk, shift, authored, lines):
            text = "its new lines stand in the target, between the same neighbours"
            verdicts[hunk.number] = Verdict(
                Status.ALREADY_UPSTREAM, path=path, evidence=(Evidence("upstream", text),)
            )
        else:
            verdict, found = _place(hunk, path, lines, merger, pieces)
            pieces += found
            owners += [hunk.number] * len(found)
            verdicts[hunk.number] = verdict
        shift += grown
    content = splice(target, pieces)
    for number, (first, last) in zip(owners, lines_of(target, pieces), strict=True):
        low, high = verdicts[number].lines or (first, last)
        span = (min(low, first), max(high, last))
        verdicts[number] = replace(verdicts[number], lines=span)
    return verdicts, {path: content} if content != target else {}


def _present(hunk: HunkJob, shift: int, authored: Merger, target: Lines) -> bool:
    """Whether the hunk's new text is in the target, aligned with where the patch puts it."""
    new = hunk.hunk.new_lines
    region = authored.whole()
    mapping = authored.mapping(region)
    start = hunk.start + shift
    images = [mapping.get(i) for i in range(start, start + len(new))]
    if not new or None in images or images[0] is None:
        return False
    return images == list(range(images[0], images[0] + len(new))) and bool(target.lines)


def _place(
    hunk: HunkJob, path: str, lines: Lines, merger: Merger, taken: list[Piece]
) -> tuple[Verdict, tuple[Piece, ...]]:
    merged = _merged(hunk, path, merger)
    found = by_text(hunk, lines, path)
    if found is not None and (merged is None or merged.pieces != found.pieces):
        # Where the text stands more than once, its line number says nothing about which is meant.
        old = b"".join(hunk.hunk.old_lines)
        once = merger.base.content.count(old) == 1 and lines.content.count(old) == 1
        found = found if once else None
    proposal = found or merged
    if proposal is None:
        reason = "the lines that it changes, or those next to them, changed upstream"
        return Verdict(Status.CONFLICTED, reason=reason), ()
    if any(a < e and s < b for a, b, _ in taken for s, e, _ in proposal.pieces):
        reason = "another hunk changes the same target lines"
        return Verdict(Status.CONFLICTED, reason=reason), ()
    evidence = (proposal.evidence,)
    verdict = Verdict(Status.PLACED, path=path, method=proposal.method, evidence=evidence)
    return verdict, proposal.pieces


def _is_anchored(start: int, end: int, merger: Merger) -> bool:
    """Whether a line that a run replaces or stands beside is the only one of its kind."""
    lines = merger.base.lines[max(0, start - 1) : end + 1]
    return any(
        line.strip() and merger.base.lines.count(line) == 1 and merger.target.lines.count(line) == 1
        for line in lines
    )


def _merged(hunk: HunkJob, path: str, merger: Merger) -> Proposal | None:
    pieces = [merger.place(run, merger.whole()) for run in hunk.runs]
    if any(piece is None for piece in pieces):
        return None
    if not all(_is_anchored(run.start, run.end, merger) for run in hunk.runs):
        return None  # lines that repeat align with whatever is alike
    evidence = Evidence("merge3", "its lines and both neighbours are unchanged in the file")
    return Proposal(path, Method.MERGE3, tuple(p for p in pieces if p is not None), evidence)
