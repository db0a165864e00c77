"""Placing the hunks of a file that is not Python: the text cascade and the proof's text part.

There are no definitions to go by, so the whole file is the region; a hunk lands where its old text
stands at its line or once in the file, or where its lines and both neighbours are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchkit.edit import splice
from patchkit.file_edits import FileJob
from patchkit.outcome import Evidence, Method, Status
from patchkit.place import Verdict
from patchkit.propose import HunkJob, Lines, Merger, Piece, Proposal, by_text


def place_text(
    job: FileJob, path: str, target: bytes, banned: Mapping[int, Verdict]
) -> tuple[dict[int, Verdict], dict[str, bytes]]:
    """Return the verdict on each hunk, and the file's new content where it changes."""
    lines = Lines(target)
    merger = Merger(Lines(job.base), lines)
    authored = Merger(Lines(job.authored), lines)
    verdicts: dict[int, Verdict] = {}
    pieces: list[Piece] = []
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
            verdict = _place(hunk, path, lines, merger, pieces)
            pieces += verdict.pieces
            verdicts[hunk.number] = verdict
        shift += grown
    content = splice(target, pieces)
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


def _place(hunk: HunkJob, path: str, lines: Lines, merger: Merger, taken: list[Piece]) -> Verdict:
    proposal = by_text(hunk, lines, path) or _merged(hunk, path, merger)
    if proposal is None:
        reason = "the lines that it changes, or those next to them, changed upstream"
        return Verdict(Status.CONFLICTED, reason=reason)
    if any(a < e and s < b for a, b, _ in taken for s, e, _ in proposal.pieces):
        return Verdict(Status.CONFLICTED, reason="another hunk changes the same target lines")
    return Verdict(
        Status.PLACED,
        path=path,
        method=proposal.method,
        evidence=(proposal.evidence,),
        pieces=proposal.pieces,
    )


def _merged(hunk: HunkJob, path: str, merger: Merger) -> Proposal | None:
    pieces = [merger.place(run, merger.whole()) for run in hunk.runs]
    if any(piece is None for piece in pieces):
        return None
    evidence = Evidence("merge3", "its lines and both neighbours are unchanged in the file")
    return Proposal(path, Method.MERGE3, tuple(p for p in pieces if p is not None), evidence)
