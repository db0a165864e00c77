"""The note beside the files of a stopped rebase: each open hunk, why it is open, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchkit.diff import Hunk, format_hunk
from patchkit.diff.lines import match_lines
from patchkit.diff.model import split_lines
from patchkit.outcome import Clash, HunkOutcome
from patchkit.placing.resolution import Resolution
from patchkit.report import counted
from patchkit.syntax.outline import MODULE, outline_or_none
from patchkit.tree import PYTHON, SourceTree

LONGEST_EXCERPT_LINES = 200
LONGEST_CANDIDATE_LINES = 40
MOST_CANDIDATES = 3
AROUND_LINES = 8


@dataclass(frozen=True)
class OpenHunk:
    """A hunk to settle: what became of it, its text if it has one, what is remembered of it."""

    outcome: HunkOutcome
    hunk: Hunk | None
    memory: Sequence[Resolution] = ()


def conflict_note(
    patch: str, hunks: Sequence[OpenHunk], base: SourceTree, target: SourceTree, place: str
) -> str:
    """Return the note as Markdown; `place` is the folder with the files to edit."""
    count = counted(len(hunks), "open hunk")
    parts = [f"# {patch}: {count}, from {base.version} to {target.version or target.name}"]
    for hunk in hunks:
        parts += _section(hunk, base, target)
    parts += _next_steps(hunks, place)
    return "\n\n".join(parts) + "\n"


def next_commands(numbers: Sequence[int], *, drifted: bool) -> tuple[tuple[str, str], ...]:
    """Return the commands by which a stopped rebase goes on, each with what it does."""
    ways = [('patchkit rebase --continue --reason "why"', "goes on with your edit")]
    if drifted:
        accept = 'patchkit rebase --continue --accept-drift --reason "why"'
        ways.append((accept, "takes what drifted as it landed"))
    if len(numbers) > 1:
        one = f"patchkit rebase --skip --hunk {numbers[0]} --yes"
        ways.append((one, f"leaves hunk {numbers[0]} out"))
    ways.append(("patchkit rebase --skip --yes", "leaves the patch out"))
    ways.append(("patchkit rebase --abort", "forgets the attempt"))
    return tuple(ways)


def _next_steps(hunks: Sequence[OpenHunk], place: str) -> list[str]:
    numbers = [hunk.outcome.hunk for hunk in hunks]
    drifted = any(hunk.outcome.drifted for hunk in hunks)
    ways = next_commands(numbers, drifted=drifted)
    longest = max(len(command) for command, _ in ways)
    lines = "\n".join(f"{command:<{longest}}  # {what}" for command, what in ways)
    text = f"Edit the files in {place} until each holds what the patch should be there; `git diff` "
    text += "in that folder shows what you did, `git log -p` what had landed. Then one of:"
    return ["## What next", text, _block("sh", lines)]


def _section(hunk: OpenHunk, base: SourceTree, target: SourceTree) -> list[str]:
    outcome = hunk.outcome
    status = "drifted" if outcome.landed else outcome.status.value.replace("_", " ")
    name = outcome.definition_before
    place = f"{outcome.path_before} {name}" if name else outcome.path_before
    parts = [f"## Hunk {outcome.hunk}: {status}", f"{place}"]
    lines = list(_facts(outcome, target))
    parts += ["\n".join(f"- {line}" for line in lines)] if lines else []
    if outcome.clash is not None:
        parts += _clash(outcome.clash)
    text = format_hunk(hunk.hunk).decode("utf-8", "replace") if hunk.hunk else ""
    parts.append("As authored:\n\n" + _block("diff", text))
    parts += _base_excerpt(hunk, base)
    path = outcome.path_after or outcome.path_before
    landed = outcome.definition_after or name
    parts += _target_excerpt(hunk, path, landed, base, target)
    for candidate in outcome.candidates[:MOST_CANDIDATES]:
        where, _, bare = candidate.partition(" ")
        other = where.partition(":")[0]
        if bare and (other, bare) != (path, landed):
            parts += _definition(
                target, other, bare, "A candidate in the target", LONGEST_CANDIDATE_LINES
            )
    for resolution in hunk.memory:
        made = resolution.adaptation
        head = f"What was made of it for {made.release} ({made.reason}):"
        parts.append(f"{head}\n\n" + _block("diff", made.diff))
    return parts


def _facts(outcome: HunkOutcome, target: SourceTree) -> Iterator[str]:
    """All that is known of an open hunk, a line each."""
    yield from (f"{drift.text}; read at {drift.read_at}" for drift in outcome.drifts)
    if outcome.reason:
        yield outcome.reason
    if outcome.upstream_commit is not None:
        commit = outcome.upstream_commit
        yield f"upstream touched {commit.touched} in {commit}"
    yield from (str(evidence) for evidence in outcome.evidence)
    yield from (f"candidate: {_with_line(candidate, target)}" for candidate in outcome.candidates)


def _with_line(candidate: str, target: SourceTree) -> str:
    """A candidate as path:line and definition, also where it came without its line."""
    where, _, name = candidate.partition(" ")
    outline = outline_or_none(target.files.get(where, b"")) if name else None
    node = outline.by_name.get(name) if outline is not None else None
    return f"{where}:{node.line} {name}" if node is not None else candidate


def _clash(clash: Clash) -> list[str]:
    """What base, target and patch have in the place that both changed."""
    if clash.kind == "same file":
        return [f"{clash}:\n\n" + _block("diff", clash.patch)]
    texts = (("base", clash.base), ("target", clash.target), ("patch", clash.patch))
    said = [f"{side}:\n\n" + _block("python", text or "(nothing)") for side, text in texts]
    return [f"{clash}", *said]


def _base_excerpt(hunk: OpenHunk, base: SourceTree) -> list[str]:
    path, name = hunk.outcome.path_before, hunk.outcome.definition_before
    if name not in (None, MODULE) or path not in base.files or hunk.hunk is None:
        return _definition(base, path, name, "In the base")
    first = max(hunk.hunk.old_start - 1, 0)
    return _lines(base, path, first, first + len(hunk.hunk.old_lines), "In the base")


def _target_excerpt(
    hunk: OpenHunk, path: str, name: str | None, base: SourceTree, target: SourceTree
) -> list[str]:
    """The definition in the target; of a hunk that is in none, the lines where it would belong."""
    before = base.files.get(hunk.outcome.path_before)
    if name not in (None, MODULE) or path not in target.files or not before or hunk.hunk is None:
        return _definition(target, path, name, "In the target")
    pairs = match_lines(split_lines(before), split_lines(target.files[path]))
    first = max(hunk.hunk.old_start - 1, 0)
    last = first + len(hunk.hunk.old_lines)
    low = max((new for old, new in pairs if old <= first), default=0)
    high = min((new for old, new in pairs if old >= max(last - 1, first)), default=low)
    return _lines(target, path, low, max(high + 1, low), "In the target")


def _lines(tree: SourceTree, path: str, first: int, last: int, title: str) -> list[str]:
    """Return lines [first, last) of a file, 0-based, with some around them."""
    lines = tree.files[path].decode("utf-8", "replace").split("\n")
    low = max(first - AROUND_LINES, 0)
    shown = _cut(lines[low : last + AROUND_LINES], LONGEST_EXCERPT_LINES)
    language = "python" if path.endswith(PYTHON) else ""
    return [f"{title}, {path}:{low + 1}:\n\n" + _block(language, shown)]


def _definition(
    tree: SourceTree, path: str, name: str | None, title: str, most: int = LONGEST_EXCERPT_LINES
) -> list[str]:
    """Return a definition's text, or what is there instead."""
    where = f"{title}, {path}"
    if path not in tree.files:
        return [f"{where}: no such file."]
    outline = outline_or_none(tree.files[path])
    if outline is None or name in (None, MODULE):
        return []
    node = outline.by_name.get(name or "")
    if node is None:
        return [f"{where}: no `{name}`."]
    text = _cut(node.text.decode("utf-8", "replace").splitlines(), most)
    return [f"{where}:{node.line}, `{name}`:\n\n" + _block("python", text)]


def _cut(lines: Sequence[str], most: int) -> str:
    return "\n".join([*lines[:most], "…"] if len(lines) > most else lines)


def _block(language: str, text: str) -> str:
    """Return a fenced block; the fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
