"""Which commit of upstream's first touched what a hunk stands on, from a repository at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from packaging.version import InvalidVersion, Version

from patchkit.names.definitions import definitions_of
from patchkit.names.tree_index import distance
from patchkit.outcome import Drift, HunkOutcome, Method, Status, UpstreamCommit
from patchkit.placing.adaptation import fingerprint_definition
from patchkit.placing.landing import land_patch
from patchkit.placing.plan import hunk_of
from patchkit.repository.move import SeriesMove
from patchkit.stacking.rebase import RebasedPatch
from patchkit.syntax.headings import headings_of
from patchkit.syntax.outline import MODULE
from patchkit.tree import SourceTree
from patchkit.upstream.githistory import History, Touch

MOST_FILES = 8  # that are looked at for one drifted name
_GIT = "git:"
_BOUND = ("function", "method", "class", "field", "module", "self")

Changed = Callable[[bytes | None, bytes | None], bool]


@dataclass(frozen=True)
class _Span:
    """What lies between the base's tag and the target's."""

    history: History
    old: str
    new: str

    def first(self, path: str, changed: Changed) -> Touch | None:
        """The first commit that changed something of a file, and not back to what it was."""
        before = self.history.file(self.old, path)
        for touch in self.history.touches(self.old, self.new, path):
            old, new = self.history.blob(touch.before), self.history.blob(touch.after)
            if changed(old, new) and changed(before, new):
                return touch
        return None


def with_commits(
    moves: Sequence[SeriesMove], history: History, target: str
) -> tuple[tuple[SeriesMove, ...], tuple[str, ...]]:
    """Return moves with the upstream commit of each conflict, drift and upstream verdict.

    `target` is what was asked for. The notes say what could not be looked up.
    """
    found: list[SeriesMove] = []
    notes: list[str] = []
    for move in moves:
        tags = f"v{move.stored.release}", _tag(move.result.target, target)
        commits = [history.commit(tag) for tag in tags]
        for tag in (tag for tag, commit in zip(tags, commits, strict=True) if commit is None):
            notes.append(f"{history.path} has no {tag}: what upstream changed is not told")
        if commits[0] is None or commits[1] is None:
            found.append(move)
            continue
        span = _Span(history, commits[0], commits[1])
        outcomes = [_with_commit(outcome, move, span) for outcome in move.result.outcomes]
        notes += [
            f"{o.patch}:{o.hunk}: no commit of upstream's was found that touched it"
            for o in outcomes
            if o.upstream_commit is None and _is_told(o)
        ]
        found.append(replace(move, result=replace(move.result, outcomes=tuple(outcomes))))
    return tuple(found), tuple(dict.fromkeys(notes))


def _tag(target: SourceTree, asked: str) -> str:
    """The tag or commit that a target is: a release's, or what a nightly says of itself."""
    if asked.startswith(_GIT):
        return asked.rpartition("@")[2] if "@" in asked else "HEAD"
    try:
        local = Version(target.version or "").local
    except InvalidVersion:
        local = None
    if local is not None and local.startswith("g"):
        return local.partition(".")[0].removeprefix("g")
    return f"v{target.version or target.name}"


def _is_told(outcome: HunkOutcome) -> bool:
    """Whether upstream has done something to what a hunk stands on."""
    return outcome.drifted or outcome.status not in (Status.PLACED, Status.BLOCKED)


def _with_commit(outcome: HunkOutcome, move: SeriesMove, span: _Span) -> HunkOutcome:
    if not _is_told(outcome) and outcome.method is not Method.ADAPTATION:
        return outcome
    patch = next(p for p in move.result.patches if p.name == outcome.patch)
    if outcome.status is Status.ALREADY_UPSTREAM:
        touch, what = _brought(outcome, patch, move.result.target, span)
    elif outcome.drifted:
        touch, what = _drifted(outcome.drifts, outcome.path_before, move.result.base, span)
    else:
        touch, what = _touched(outcome, patch, span)
    if touch is None:
        return outcome
    commit = UpstreamCommit(touch.id, touch.date, touch.subject, f"{touch.path}{what}")
    return replace(outcome, upstream_commit=commit)


def _touched(outcome: HunkOutcome, patch: RebasedPatch, span: _Span) -> tuple[Touch | None, str]:
    """The first commit after which the definition that a hunk goes into is not the base's."""
    name, hunk = outcome.definition_before, hunk_of(patch.plan, outcome.hunk)
    for one in (name or MODULE).split(", "):
        if one == MODULE:
            lines = b"".join(hunk.old_lines) if hunk is not None else b""
            touch = span.first(outcome.path_before, _lines_changed(lines))
        else:
            touch = span.first(outcome.path_before, _definition_changed(one))
        if touch is not None:
            return touch, "" if one == MODULE else f" {one}"
    return None, ""


def _lines_changed(lines: bytes) -> Changed:
    """Whether some lines stand in one text and not in the other."""

    def changed(old: bytes | None, new: bytes | None) -> bool:
        if not lines or lines not in (old or b""):
            return old != new
        return lines not in (new or b"")

    return changed


def _definition_changed(name: str) -> Changed:
    def changed(old: bytes | None, new: bytes | None) -> bool:
        if old == new or _slice(old, name) == _slice(new, name):
            return False  # no parse is needed to see that
        return _fingerprint(old, name) != _fingerprint(new, name)

    return changed


def _fingerprint(content: bytes | None, name: str) -> str | None:
    return None if content is None else fingerprint_definition(content, name)


def _slice(content: bytes | None, name: str) -> bytes | None:
    """The text from a definition's first line to the next one that is not inside it."""
    if content is None:
        return None
    headings = headings_of(content)
    at = next((n for n, heading in enumerate(headings) if heading.name == name), None)
    if at is None:
        return None
    after = (h.line - 1 for h in headings[at + 1 :] if not h.name.startswith(f"{name}."))
    lines = content.split(b"\n")
    return b"\n".join(lines[headings[at].line - 1 : next(after, len(lines))])


def _drifted(
    drifts: Sequence[Drift], path: str, base: SourceTree, span: _Span
) -> tuple[Touch | None, str]:
    """The first commit that changed how the base binds a name that has drifted."""
    for drift in drifts:
        word = drift.name.rpartition(".")[2]
        if not word.isidentifier():
            continue
        for file in _binding(word, path, base):
            touch = span.first(file, _bindings_changed(word))
            if touch is not None:
                return touch, f" {word}"
    return None, ""


def _binding(word: str, path: str, base: SourceTree) -> Iterator[str]:
    """The files of the base that bind a name, the nearest first."""
    here = PurePosixPath(path).parts
    near = sorted(base.python_holding(word.encode()), key=lambda p: distance(here, p))
    binding = (p for p in near if _bindings(base.files[p], word))
    for _, file in zip(range(MOST_FILES), binding, strict=False):
        yield file


def _bindings_changed(word: str) -> Changed:
    return lambda old, new: old != new and _bindings(old, word) != _bindings(new, word)


def _bindings(content: bytes | None, word: str) -> tuple[bytes, ...]:
    """The heads of the definitions of a name, and the lines that bind it otherwise."""
    if content is None or word.encode() not in content:
        return ()
    lines = content.split(b"\n")
    found = {d.line for d in definitions_of(content, word) if d.kind in _BOUND}
    return tuple(sorted(_statement(lines, line) for line in found))


def _statement(lines: Sequence[bytes], line: int) -> bytes:
    """The text from a line to where its brackets are closed, without layout."""
    text = b""
    for part in lines[line - 1 :]:
        text += part.split(b"#")[0]
        if sum(text.count(sign) for sign in (b"(", b"[", b"{")) <= sum(
            text.count(sign) for sign in (b")", b"]", b"}")
        ):
            break
    return b"".join(text.split())


def _brought(
    outcome: HunkOutcome, patch: RebasedPatch, target: SourceTree, span: _Span
) -> tuple[Touch | None, str]:
    """The first commit whose file has the edit of a hunk already."""
    path = outcome.path_after or outcome.path_before
    name = (outcome.definition_after or MODULE).split(", ")[0]
    differs = _definition_changed(name) if name != MODULE else (lambda old, new: old != new)

    def brings(old: bytes | None, new: bytes | None) -> bool:
        if new is None or not differs(old, new):
            return False
        tree = target.with_changes({path: new})
        landing = land_patch(patch.placed, patch.base, tree)
        return landing.verdicts[outcome.hunk].status is Status.ALREADY_UPSTREAM

    return span.first(path, brings), "" if name == MODULE else f" {name}"
