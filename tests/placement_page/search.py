"""The search for the page's examples: a line of ours put into real code, then moved a release on.

Small definitions that upstream changed, moved, renamed or split are tried with one inserted
statement at every place in them. Of what each method placed, the example that takes the fewest
lines to tell is kept. Nothing is drawn by chance, so that the same trees give the same examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit import SourceTree, port
from patchkit.diff import diff_files, format_files
from patchkit.outcome import HunkOutcome
from tests.evidence import code
from tests.placement_page.page import SECTIONS, Case, changed_lines

_NO_CHANGE_TO_TELL = ("offset", "moved", "like, but not the same")
OpenTree = Callable[[str], SourceTree]

SKIPPED = "vllm/third_party/"
STATEMENT = 'print("patched")'
MOST_BYTES = 150_000
MOST_LINES = 24
MOST_PLACES = 24
MOST_CHANGED = 20
# Tried of each pair of releases: enough to meet every method, few enough to take minutes.
MOST_TRIED = 700
LONGEST = 10**9


@dataclass(frozen=True)
class Place:
    """A definition of the base that upstream touched, with the path of its file."""

    path: str
    name: str
    lines: int


def shortest_cases(
    known: Sequence[Case], pairs: Sequence[tuple[str, str]], open_tree: OpenTree
) -> list[Case]:
    """Return the shortest case of each section: of the known ones, and of pairs of releases."""
    best: dict[str, tuple[int, Case]] = {}
    for case in known:
        base, target = open_tree(f"v{case.base}"), open_tree(f"v{case.target}")
        best[case.kind] = (_length(case, base, target), case)
    for old, new in pairs:
        base, target = open_tree(f"v{old}"), open_tree(f"v{new}")
        for case in _cases_of(base, target, old, new):
            length = _length(case, base, target)
            shorter = case.kind not in best or length < best[case.kind][0]
            shorter = shorter and length < LONGEST
            if case.kind in SECTIONS and shorter and _holds_in_whole_trees(case, base, target):
                best[case.kind] = (length, case)
    return [best[kind][1] for kind in SECTIONS if kind in best]


def _holds_in_whole_trees(case: Case, base: SourceTree, target: SourceTree) -> bool:
    """Whether an outcome that was found with a few files is that of the whole trees."""
    outcomes = port([case.patch.encode()], base, target).outcomes
    return len(outcomes) == 1 and not outcomes[0].drifted and _kind(outcomes[0]) == case.kind


def _length(case: Case, base: SourceTree, target: SourceTree) -> int:
    told = changed_lines(case, base.files, target.files)
    if case.kind == "renamed variable" and not _only_renames(told):
        return LONGEST
    if not told and case.kind not in _NO_CHANGE_TO_TELL:
        return LONGEST
    return len(told) * 1000 + sum(len(line) for line in told) + len(case.path)


def _only_renames(told: list[str]) -> bool:
    """Whether upstream changed nothing but one name."""
    lost, won = (re.findall(r"\w+", " ".join(x[1:] for x in told if x[0] == kind)) for kind in "-+")
    pairs = {(a, b) for a, b in zip(lost, won, strict=False) if a != b}
    return len(lost) == len(won) and len(pairs) == 1


def _cases_of(base: SourceTree, target: SourceTree, old: str, new: str) -> Iterator[Case]:
    tried = 0
    for place in _touched(base.files, target.files):
        small = _around(place, base, target)
        patches = [
            *_patches(place, base.files[place.path], target.files.get(place.path, b"")),
            *_upstreams_own(place, base.files, target.files),
        ]
        for patch in patches:
            result = port([patch], *small)
            tried += 1
            (outcome, *others) = result.outcomes
            kind = _kind(outcome)
            if others or kind is None or outcome.drifted:
                continue
            name = outcome.definition_after or place.name
            where = outcome.path_after or place.path
            yield Case(kind, old, new, place.path, place.name, where, name, patch.decode())
        if tried > MOST_TRIED:
            return


def _around(place: Place, base: SourceTree, target: SourceTree) -> list[dict[str, bytes]]:
    """Both trees, but only the files that may matter: placing in whole ones takes a second each."""
    paths = {place.path}
    if not code.has(target.files.get(place.path), place.name) and "." not in place.name:
        word = f"def {place.name}(".encode()
        paths |= {p for p, text in target.files.items() if p.endswith(".py") and word in text}
    return [{p: tree.files[p] for p in paths if p in tree.files} for tree in (base, target)]


def _kind(outcome: HunkOutcome) -> str | None:
    """Which section of the page an outcome is an example for."""
    if outcome.status == "already_upstream":
        return "upstream"
    kinds = {e.kind for e in outcome.evidence}
    texts = " ".join(map(str, outcome.evidence))
    if outcome.status == "placed":
        if outcome.method == "typed":
            return "wrapped" if "in another block" in texts else "typed"
        if outcome.method == "moved":
            return "split" if "split" in kinds else "moved"
        if outcome.method == "renamed":
            definition = any(r.kind == "definition" for r in outcome.renames)
            likely = "% of its statements' text" in texts and outcome.rejected
            if definition:
                return "renamed definition" if likely else None
            return "renamed variable"
        return str(outcome.method)
    if outcome.status == "orphaned":
        likely = [r for r in outcome.rejected if re.match(r"[4-7]\d % .* is asked", r.why)]
        return "like, but not the same" if likely else None
    return "conflict" if outcome.status == "conflicted" and outcome.rejected else None


def _touched(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Iterator[Place]:
    """The small functions that upstream changed or took away, shortest first, and one beside."""
    found: list[tuple[bool, Place]] = []
    for path in sorted(old):
        before, after = old[path], new.get(path, b"")
        if path.startswith(SKIPPED) or not path.endswith(".py") or before == after:
            continue
        if len(before) > MOST_BYTES:
            continue
        for name, node in code.definitions(before).items():
            if isinstance(node, ast.ClassDef) or "#" in name:
                continue
            first, last = code.span(before, name)
            there = code.has(after, name)
            same = there and code.text_of(before, name) == code.text_of(after, name)
            if same or last - first > MOST_LINES or len(node.body) < 3:
                continue
            if there and _distance(before, after, name) > MOST_CHANGED:
                continue
            place = Place(path, name, last - first)
            found.append((not there or _is_reshaped(before, after, name), place))
    for _, place in sorted(found, key=lambda f: (not f[0], f[1].lines, f[1].path, f[1].name)):
        yield place


def _is_reshaped(before: bytes, after: bytes, name: str) -> bool:
    """Whether a definition got a block around lines of it, a new one to call, or another name."""
    old, new = (code.text_of(text, name).split("\n") for text in (before, after))
    lost, won = set(old) - set(new), set(new) - set(old)
    deeper = {line.strip() for line in lost} & {line.strip() for line in won}
    words, others = (set(re.findall(r"\w+", "\n".join(lines))) for lines in (old, new))
    fresh = code.definitions(after).keys() - code.definitions(before).keys()
    calls = {n.rpartition(".")[2] for n in fresh} & (others - words)
    return len(deeper) > 1 or bool(calls) or len(words - others) == len(others - words) == 1


def _distance(before: bytes, after: bytes, name: str) -> int:
    one, two = (set(code.text_of(text, name).split("\n")) for text in (before, after))
    return len(one ^ two)


def _upstreams_own(
    place: Place, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> Iterator[bytes]:
    """What upstream did to a definition, as a patch: what somebody had before it was merged."""
    before, after = old[place.path], new.get(place.path)
    if after is None or not code.has(after, place.name):
        return
    first, last = code.span(before, place.name)
    lines = before.decode().split("\n")
    text = [*lines[: first - 1], code.text_of(after, place.name), *lines[last:]]
    yield format_files(diff_files({place.path: before}, {place.path: "\n".join(text).encode()}))


def _patches(place: Place, source: bytes, after: bytes) -> Iterator[bytes]:
    """The statement before some of those in the definition, but for its first: a docstring.

    Where upstream lost one name of it, the statement reads that name.
    """
    old, new = code.definitions(source)[place.name], code.definitions(after).get(place.name)
    lost = sorted(code.mentions(old) - code.mentions(new)) if new is not None else []
    said = f"print({lost[0]})" if len(lost) == 1 else STATEMENT
    lines = source.split(b"\n")
    body = code.definitions(source)[place.name].body
    inside = sorted({n.lineno for s in body for n in ast.walk(s) if isinstance(n, ast.stmt)})
    for number in inside[1:MOST_PLACES]:
        at = number - 1
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        text = b"\n".join([*lines[:at], indent + said.encode(), *lines[at:]])
        if code.parsed(text) is not None:
            yield format_files(diff_files({place.path: source}, {place.path: text}))
