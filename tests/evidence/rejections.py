"""What is said to have been rejected, and the candidates: whether they are there, and as said."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchkit.outcome import Method, Rejected
from tests.evidence import code
from tests.evidence.ground import Ground, old_texts, places_of, target_lines
from tests.evidence.rules import other_share

_SHARE = r"\d+ % of its (words and signs|statements' text|neighbouring words) the same"
_LIKE = rf"(word for word|{_SHARE})"
_WHY = re.compile(
    r"the base has that one as well|not the only one it may be"
    rf"|{_LIKE}, and \d+ % (of the statements' text )?is asked"
    rf"|{_LIKE}, but nothing besides the name says that it went there"
    rf"|{_LIKE}, and `[^`]+` (has \d+ %|is called in its place|is the one that it is named after)"
    rf"|{_LIKE}, and `[^`]+` and `[^`]+` are less than \d+ % apart"
)


def not_rejected(ground: Ground, rejected: Rejected) -> Iterator[str]:
    """Yield what is not true of something that was rejected."""
    check = _not_refused if rejected.kind == "method" else _not_passed_over
    yield from (f"rejected {rejected}: {problem}" for problem in check(ground, rejected))


def _not_refused(ground: Ground, rejected: Rejected) -> Iterator[str]:
    if rejected.candidate.split(",")[0] not in set(Method):
        yield "no such method"
    if match := re.fullmatch(
        r"its (\d+) old lines stand (nowhere|more than once) .*", rejected.why
    ):
        # Read with upstream's renames made in every word, and in none: keywords do not follow.
        counts = []
        for undone in (None, "yes") if ground.names else (None,):
            lines = target_lines(ground, undone is not None)
            texts = old_texts(ground, undone, int(match[1]))
            counts += [len(places_of(lines, old)) for old in texts]
        if not any((n == 0) == (match[2] == "nowhere") and n != 1 for n in counts):
            yield f"they stand {counts} times"
    if match := re.fullmatch(
        r"line (\d+) of the base, (`.*`|a blank one), has no .*", rejected.why
    ):
        base = (ground.base or b"").decode("utf-8", "replace").splitlines()
        text = match[2].strip("`") if match[2] != "a blank one" else ""
        if base[int(match[1]) - 1].strip() != text.strip():
            yield "the base has another line there"


def _not_passed_over(ground: Ground, rejected: Rejected) -> Iterator[str]:
    match = re.fullmatch(r"`([^`]+)`(?: in (\S+))?", rejected.candidate)
    if not _WHY.fullmatch(rejected.why):
        yield "no rule reads that"
    path = match[2] or ground.outcome.path_before if match else ""
    name = match[1] if match else ""
    before, after = (tree.files for tree in ground.trees)
    if not code.has(after.get(path), name):
        yield "the target has no such definition"
        return
    if code.has(before.get(path), name) != (rejected.why == "the base has that one as well"):
        yield "whether the base has it is not as said"
    share = re.match(
        r"(\d+) % of its (words and signs|statements' text|neighbouring words) the same",
        rejected.why,
    )
    old = [n for n in _lineage(ground.outcome.definition_before) if code.has(ground.base, n)]
    wrong = [
        list(other_share(ground.base or b"", n, after[path], name, int(share[1]), share[2]))
        for n in old
        if share
    ]
    if wrong and all(wrong):
        yield wrong[0][0]
    asked = re.search(r"and (\d+) % is asked", rejected.why)
    if asked and share and int(share[1]) >= int(asked[1]):
        yield "that is enough"


def _lineage(name: str | None) -> list[str]:
    parts = (name or "").split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def no_candidate(ground: Ground, candidate: str) -> Iterator[str]:
    """Yield what is not true of a place to look at."""
    path, _, name = candidate.partition(" ")
    path, _, line = path.partition(":")
    content = ground.trees[1].files.get(path)
    if content is None or (name and not code.has(content, name)):
        yield f"candidate {candidate} is not in the target"
    elif line:
        node = code.definitions(content)[name]
        assert isinstance(node, ast.stmt)
        if not code.span(content, name)[0] <= int(line) <= node.lineno:
            yield f"candidate {candidate} is at line {node.lineno}"
