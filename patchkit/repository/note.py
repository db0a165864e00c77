"""The note beside the files of a stopped rebase: each open hunk, and why it is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchkit.outcome import Clash, HunkOutcome
from patchkit.report import counted
from patchkit.syntax.outline import MODULE, outline_or_none
from patchkit.tree import SourceTree

LONGEST_EXCERPT_LINES = 200


def conflict_note(
    patch: str,
    outcomes: Sequence[HunkOutcome],
    hunks: Mapping[int, bytes],
    base: SourceTree,
    target: SourceTree,
) -> str:
    """Return the note as Markdown; `hunks` are the texts of the open hunks in the patch."""
    count = counted(len(outcomes), "open hunk")
    parts = [f"# {patch}: {count}, from {base.version} to {target.version or target.name}"]
    for outcome in outcomes:
        parts += _section(outcome, hunks[outcome.hunk], base, target)
    return "\n\n".join(parts) + "\n"


def _section(outcome: HunkOutcome, hunk: bytes, base: SourceTree, target: SourceTree) -> list[str]:
    status = "drifted" if outcome.landed else outcome.status.value.replace("_", " ")
    name = outcome.definition_before
    place = f"{outcome.path_before} {name}" if name else outcome.path_before
    lines = [f"{drift.text}; read at {drift.read_at}" for drift in outcome.drifts]
    lines += [outcome.reason] if outcome.reason else []
    lines += [str(evidence) for evidence in outcome.evidence]
    lines += [f"candidate: {candidate}" for candidate in outcome.candidates]
    parts = [f"## Hunk {outcome.hunk}: {status}", f"{place}"]
    parts += ["\n".join(f"- {line}" for line in lines)] if lines else []
    if outcome.clash is not None:
        parts += _clash(outcome.clash)
    parts.append("As authored:\n\n" + _block("diff", hunk.decode("utf-8", "replace")))
    parts += _excerpt(base, outcome.path_before, name, "In the base")
    path = outcome.path_after or outcome.path_before
    parts += _excerpt(target, path, outcome.definition_after or name, "In the target")
    return parts


def _clash(clash: Clash) -> list[str]:
    """What base, target and patch have in the place that both changed."""
    if clash.kind == "same file":
        return [f"{clash}:\n\n" + _block("diff", clash.patch)]
    texts = (("base", clash.base), ("target", clash.target), ("patch", clash.patch))
    said = [f"{side}:\n\n" + _block("python", text or "(nothing)") for side, text in texts]
    return [f"{clash}", *said]


def _excerpt(tree: SourceTree, path: str, name: str | None, title: str) -> list[str]:
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
    lines = node.text.decode("utf-8", "replace").splitlines()
    if len(lines) > LONGEST_EXCERPT_LINES:
        lines = [*lines[:LONGEST_EXCERPT_LINES], "…"]
    return [f"{where}:{node.line}, `{name}`:\n\n" + _block("python", "\n".join(lines))]


def _block(language: str, text: str) -> str:
    """Return a fenced block; the fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
