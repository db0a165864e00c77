"""Each sentence of evidence, read again and held against the trees.

A rule reads one sentence of one kind and yields what is not true of it. Nothing of the placing is
asked. A sentence that no rule reads is a problem in itself, so that no new one goes unchecked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from patchkit.diff import diff_lines
from patchkit.outcome import Method, Rename, Status
from tests.evidence import code
from tests.evidence.ground import (
    Ground,
    new_name,
    old_texts,
    places_of,
    renamed_line,
    target_lines,
    text_lines,
)

MODULE = "<module>"
Check = Callable[..., Iterator[str]]
_RULES: list[tuple[str, re.Pattern[str], Check]] = []


def _rule(kind: str, pattern: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        _RULES.append((kind, re.compile(pattern), check))
        return check

    return register


def untrue(ground: Ground, kind: str, text: str) -> Iterator[str]:
    """Yield what is not true of a sentence of evidence."""
    for known, pattern, check in _RULES:
        match = pattern.fullmatch(text) if known == kind else None
        if match:
            for problem in check(ground, **match.groupdict()):
                yield f"{text!r}: {problem}"
            return
    yield f"no rule reads the {kind} evidence {text!r}"


_UNDONE = r"(?P<undone>with upstream's rename taken back, )?"


@_rule("exact", _UNDONE + r"all (?P<count>\d+) old lines stand at line (?P<line>\d+)")
def _exact(ground: Ground, undone: str | None, count: str, line: str) -> Iterator[str]:
    lines = target_lines(ground, undone is not None)
    at = int(line) - 1
    if not any(lines[at : at + len(old)] == old for old in old_texts(ground, undone, int(count))):
        yield "they do not"


@_rule(
    "offset",
    _UNDONE + r"all (?P<count>\d+) old lines stand once in the file, (?P<by>[+-]\d+) lines away",
)
def _offset(ground: Ground, undone: str | None, count: str, by: str) -> Iterator[str]:
    lines = target_lines(ground, undone is not None)
    places = [places_of(lines, old) for old in old_texts(ground, undone, int(count))]
    starts = [h.old_start - 1 for h in ground.hunks] + [ground.start]
    if not any(len(p) == 1 and p[0] - int(by) in starts for p in places):
        yield f"they stand at {places}"


@_rule("merge3", r"its lines and both neighbours are unchanged in the (definition|file)")
def _merged(ground: Ground) -> Iterator[str]:
    lines = [line.strip() for line in target_lines(ground, True)]
    for block in _runs_with_neighbours(ground):
        if not places_of(lines, block):
            yield f"{block} is not in the target"


def _runs_with_neighbours(ground: Ground) -> Iterator[list[str]]:
    """The old lines of each run between the lines beside it, where the base's definition has them.

    Where a run is at an edge of its definition, what is beyond that is no neighbour.
    """
    base = (ground.base or b"").decode("utf-8", "replace").splitlines()
    low, high = 1, len(base)
    name = ground.outcome.definition_before or MODULE
    if ground.base is not None and code.has(ground.base, name):
        low, high = code.span(ground.base, name)
    at = ground.start
    begin, old, changed = at, [], False
    assert ground.hunk is not None
    for kind, text in [*((x.kind, x.text) for x in ground.hunk.lines), (" ", b"")]:
        if kind == " ":
            if changed:
                around = range(begin - 1, begin + len(old) + 1)
                inside = [n for n in around if n - begin in range(len(old)) or low <= n + 1 <= high]
                yield [renamed_line(ground, base[n]).strip() for n in inside if 0 <= n < len(base)]
            at += 1
            begin, old, changed = at, [], False
        else:
            changed = True
            if kind == "-":
                old.append(text)
                at += 1


@_rule("typed", r"what it replaces, or its neighbours, are there")
def _typed(ground: Ground) -> Iterator[str]:
    name = ground.outcome.definition_after or MODULE
    there = set(code.words(code.text_of(ground.target or b"", name)))
    assert ground.hunk is not None
    around = set(ground.renamed(code.words(ground.hunk.old)))
    if not around & there:
        yield f"nothing of its old lines is in {name}"


_PLACE = (
    r" in `(?P<name>[^`]+)`(, now `(?P<now>[^`]+)`)?"
    r"(?P<block>, in another block of it than in the base)?"
)


@_rule("replaced", r"(?P<what>[\w ]+)" + _PLACE + ": what it replaces is unchanged there")
def _replaced(ground: Ground, what: str, name: str, now: str, block: str) -> Iterator[str]:
    yield from _in_both(ground, name, now or name)
    if block or what.startswith("comment"):
        return
    # What a hunk's evidence says is of all that it replaces, in whichever definition.
    there = code.words(code.text_of(ground.target or b"", MODULE))
    there = " ".join(ground.renamed(there)) + " "
    for segment in _removed(ground):
        if " ".join(segment) + " " not in there:
            yield f"{' '.join(segment)} is not in the target"


@_rule(
    "replaced",
    r"(?P<what>[\w ]+)" + _PLACE + ": upstream changed other lines of what it replaces",
)
def _beside(ground: Ground, what: str, name: str, now: str, block: str) -> Iterator[str]:
    yield from _replaced(ground, what, name, now, block)
    if code.text_of(ground.base or b"", name) == code.text_of(ground.target or b"", now or name):
        yield f"upstream changed nothing in {name}"


def _removed(ground: Ground) -> Iterator[list[str]]:
    """The runs of words that a hunk's lines lose."""
    assert ground.hunk is not None
    text = [(line.kind, line.text.decode("utf-8", "replace")) for line in ground.hunk.lines]
    text = [(kind, line) for kind, line in text if not line.lstrip().startswith("#")]
    lines = [ground.renamed(code.words(line)) for kind, line in text if kind != "+"]
    owners = [index for index, line in enumerate(lines) for _ in line]
    old = [word for line in lines for word in line]
    new = ground.renamed(code.words("".join(line for kind, line in text if kind != "-")))
    for tag, low, high, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for owner in sorted(set(owners[low:high])) if tag in ("replace", "delete") else ():
            yield [old[n] for n in range(low, high) if owners[n] == owner]


def _in_both(ground: Ground, name: str, now: str) -> Iterator[str]:
    if not code.has(ground.base, name):
        yield f"the base has no {name}"
    there = next((n for n in (now, new_name(ground, now)) if code.has(ground.target, n)), None)
    if there is None:
        yield f"the target has no {now}"
    elif ground.outcome.target_lines and ground.final and code.has(ground.final, there):
        # A statement that is removed at a definition's end lies before the lines that follow.
        (first, last), (low, high) = ground.outcome.target_lines, code.span(ground.final, there)
        if last < low - 2 or high + 2 < first:
            yield f"lines {first} to {last} are not in {there}, {low} to {high}"


_HOW = (
    r"(?P<how>between the same neighbours(, one of them rewritten)?|which has one place for it|as "
    r"its docstring|on the right side of (both of its neighbours|its one neighbour that is left); "
    r"its order among others is free)"
)


@_rule("between", r"(?P<what>[\w ]+)" + _PLACE + ", " + _HOW)
def _between(ground: Ground, what: str, name: str, now: str, block: str, how: str) -> Iterator[str]:
    del block
    yield from _in_both(ground, name, now or name)
    if not what.endswith(("statement added", "member added", "definition added", "import added")):
        return
    if how != "between the same neighbours" or ground.outcome.target_lines is None:
        return
    first, last = ground.outcome.target_lines
    wanted = Counter(_said(ground, s) for s in code.siblings(ground.authored or b"", ground.added))
    old, new = text_lines(ground.target or b""), text_lines(ground.final or b"")
    changes = diff_lines([x.encode() for x in old], [x.encode() for x in new])
    lines = {n for c in changes for n in range(c.new_start + 1, c.new_end + 1)}
    lines &= set(range(first, last + 1))
    made = Counter(_said(ground, s) for s in code.siblings(ground.final or b"", lines))
    for statement, before, after in wanted:
        beside = [(a, b) for s, a, b in made if s == statement]
        if not beside:
            continue  # on a line with something else; the words of the whole were compared
        if not any(before == a or after == b for a, b in beside):
            yield f"it stands between {beside}, not {before} and {after}"


def _said(ground: Ground, entry: tuple[str, str | None, str | None]) -> tuple[str | None, ...]:
    def renamed(text: str | None) -> str | None:
        return None if text is None else renamed_line(ground, text)

    return tuple(map(renamed, entry))


@_rule(
    "renamed", r"`(?P<old>[^`]+)` in `(?P<scope>[^`]+)` is called `(?P<new>[^`]+)` in the target"
)
def _variable(ground: Ground, old: str, scope: str, new: str) -> Iterator[str]:
    yield from no_rename(ground, Rename("variable", scope, old, new))


@_rule("renamed", r"`(?P<scope>[^`]+)` is called `(?P<new>[^`]+)` in the target; its uses follow")
def _definition(ground: Ground, scope: str, new: str) -> Iterator[str]:
    rename = Rename("definition", scope, scope.rpartition(".")[2], new)
    yield from no_rename(ground, rename)
    if ground.hunk is not None and ground.outcome.target_lines:
        first, last = ground.outcome.target_lines
        lines = (ground.final or b"").decode("utf-8", "replace").split("\n")[first - 1 : last]
        use = rf"(\bself\.){rename.old}\b" if "." in scope else rf"(?<![.\w]){rename.old}\b(?!=)"
        if any(re.search(use, line) for line in lines):
            yield f"{rename.old} is still used in what landed"


def no_rename(ground: Ground, rename: Rename) -> Iterator[str]:
    """Yield what is not true of a rename: one name is the base's alone, one the target's."""
    if rename.kind == "definition":
        scope = rename.scope.rpartition(".")[0]
        name = f"{scope}.{rename.new}" if scope else rename.new
        names = {name, new_name(ground, name), new_name(ground, rename.scope)}
        if not code.has(ground.base, rename.scope) or code.has(ground.target, rename.scope):
            yield f"{rename}: the old name is not the base's alone"
        if code.has(ground.base, name) or not any(code.has(ground.target, n) for n in names):
            yield f"{rename}: the new name is not the target's alone"
        return
    before, after = _function(ground, rename.scope)
    if before is None or after is None:
        yield f"{rename}: no such function"
        return
    masked = {n: "" for r in ground.outcome.renames for n in (r.old, r.new)}
    lost, won = (
        Counter({shape: n for (name, shape), n in code.bindings(f, masked).items() if name == own})
        for f, own in ((before, rename.old), (after, rename.new))
    )
    if rename.old in code.mentions(after) or rename.new in code.mentions(before):
        yield f"{rename}: both names are in use on one side"
    if (
        lost & won
    ).total() * 4 <= lost.total() + won.total():  # upstream may bind it once more or less
        yield f"{rename}: bound by {lost} in the base, by {won} in the target"


def _function(ground: Ground, scope: str) -> tuple[code.Definition | None, code.Definition | None]:
    """A function whose variable was renamed, in base and target, whatever it is called there."""
    old, new = code.definitions(ground.base or b""), code.definitions(ground.target or b"")
    outcome = ground.outcome
    other = new_name(ground, scope)
    before = old.get(scope) or old.get(outcome.definition_before or "")
    return before, new.get(other) or new.get(outcome.definition_after or "")


_LIKE = (
    r"(word for word|(?P<share>\d+) % of its "
    r"(?P<of>words and signs|statements' text|neighbouring words) the same)"
)


@_rule("renamed", rf"`(?P<old>[^`]+)` is called `(?P<new>[^`]+)` in the target, {_LIKE}")
def _likeness(ground: Ground, old: str, new: str, share: str, of: str) -> Iterator[str]:
    base, target = ground.base or b"", ground.target or b""
    if not code.has(base, old) or code.has(base, new):
        yield f"the base has not {old} alone"
    elif code.has(target, old) or not code.has(target, new):
        yield f"the target has not {new} alone"
    elif share is None:
        if not code.same_code(base, old, target, new, but_name=True):
            yield "they differ"
    else:
        yield from other_share(base, old, target, new, int(share), of)


_SHARES = {
    "words and signs": code.share_of_words,
    "statements' text": code.share_of_statements,
    "neighbouring words": code.share_of_neighbours,
}


def other_share(
    base: bytes, old: str, target: bytes, new: str, said: int, of: str
) -> Iterator[str]:
    """Yield the share that two definitions have in common where it is not as said, in percent."""
    share = _SHARES[of](base, old, target, new)
    if abs(share * 100 - said) > 1.0:
        yield f"it is {share:.1%}"


@_rule(
    "moved",
    rf"`(?P<old>[^`]+)` of (?P<path>\S+) is `(?P<new>[^`]+)` in (?P<to>\S+) in the target, {_LIKE}",
)
def _moved(
    ground: Ground, old: str, path: str, new: str, to: str, share: str, of: str
) -> Iterator[str]:
    before, after = (tree.files for tree in ground.trees)
    if not code.has(before.get(path), old) or code.has(after.get(path), old):
        yield f"{path} has not lost {old}"
    elif not code.has(after.get(to), new) or code.has(before.get(to), new):
        yield f"{to} has not won {new}"
    elif share is None:
        renamed = old.rpartition(".")[2] != new.rpartition(".")[2]
        if not code.same_code(before[path], old, after[to], new, but_name=renamed):
            yield "they differ"
    else:
        yield from other_share(before[path], old, after[to], new, int(share), of)


@_rule(
    "split", r"`(?P<old>[^`]+)` calls the new `(?P<new>[^`]+)`, which holds statements that it had"
)
def _split(ground: Ground, old: str, new: str) -> Iterator[str]:
    base, target = ground.base or b"", ground.target or b""
    if code.has(base, new) or not code.has(target, new):
        yield f"{new} is not new"
        return
    had, has, holds = (
        {dump for dump, _ in code.simple_statements(*d)}
        for d in ((base, old), (target, old), (target, new))
    )
    if not (had - has) & holds and not had & holds:
        yield "it holds none"
    if new.rpartition(".")[2] not in code.words(code.text_of(target, old)):
        yield "it does not call it"


@_rule(
    "upstream",
    r"(?P<what>[\w ]+): the target has it in `(?P<name>[^`]+)`, line (?P<line>\d+)"
    r"(?P<manner>, laid out or commented otherwise)?",
)
def _upstream(ground: Ground, what: str, name: str, line: str, manner: str) -> Iterator[str]:
    del what
    if manner and ground.hunk is not None and ground.hunk.new in (ground.target or b""):
        yield "its text is there as it is"
    if not code.has(ground.target, name):
        yield f"the target has no {name}"
        return
    low, high = code.span(ground.target or b"", name)
    if not low <= int(line) <= high:
        yield f"line {line} is not in it"
    assert ground.hunk is not None
    added = Counter(code.words(ground.hunk.new)) - Counter(code.words(ground.hunk.old))
    missing = added - Counter(code.words(ground.target or b""))
    if missing and ground.outcome.status is Status.ALREADY_UPSTREAM:
        yield f"the target lacks {sorted(missing)}"


@_rule(
    "upstream",
    r"(?P<what>[\w ]+): it is gone from `(?P<name>[^`]+)` in the target, its neighbours are there",
)
def _gone(ground: Ground, what: str, name: str) -> Iterator[str]:
    del what
    if not code.has(ground.target, name):
        yield f"the target has no {name}"
        return
    assert ground.hunk is not None
    text = code.text_of(ground.target or b"", name)
    lines = [line.strip() for line in text.split("\n")]
    kept = [line.text.decode().strip() for line in ground.hunk.lines if line.kind != "-"]
    for line in ground.hunk.lines:
        said = line.text.decode("utf-8", "replace").strip()
        if line.kind == "-" and len(said) > 3 and said not in kept and said in lines:
            yield f"{said} is there"


@_rule("upstream", r"its new lines stand in the target, between the same neighbours")
def _lines_there(ground: Ground) -> Iterator[str]:
    assert ground.hunk is not None
    new = [line.rstrip("\n") for line in text_lines(ground.hunk.new)]
    lines = [line.rstrip("\n") for line in target_lines(ground, False)]
    if not places_of(lines, new):
        yield "they do not"


@_rule("upstream", r"the target has no (?P<path>\S+)")
@_rule("new-file", r"the target has no (?P<path>\S+)")
def _no_file(ground: Ground, path: str) -> Iterator[str]:
    if path in ground.trees[1].files:
        yield "it has"


@_rule("upstream", r"the target has (?P<path>\S+) with the same content")
def _same_file(ground: Ground, path: str) -> Iterator[str]:
    if ground.trees[1].files.get(path) != ground.authored:
        yield "it has not"


@_rule("upstream", r"the target has (?P<path>\S+) with the same code, laid out otherwise")
def _same_file_code(ground: Ground, path: str) -> Iterator[str]:
    existing = ground.trees[1].files.get(path) or b""
    if existing == ground.authored or code.words(existing) == code.words(b""):
        yield "it has the same bytes, or none"
    old, new = (set(code.definitions(c or b"")) for c in (ground.authored, existing))
    if old != new:
        yield f"it defines {new}, not {old}"


@_rule("upstream", r"the target has all (?P<count>\d+) statements of (?P<path>\S+) in (?P<to>\S+)")
def _file_elsewhere(ground: Ground, count: str, path: str, to: str) -> Iterator[str]:
    before, after = (tree.files for tree in ground.trees)
    if path in after or to in before or to not in after:
        yield "it was not moved there"
        return
    names, there = (code.definitions(c or b"") for c in (ground.authored, after[to]))
    if not set(names) <= set(there) or len(names) < 1 or int(count) < 1:
        yield f"it lacks {set(names) - set(there)}"


@_rule(
    "upstream",
    r"definition added: the target has `(?P<name>[^`]+)` in (?P<to>\S+), word for word",
)
def _definition_elsewhere(ground: Ground, name: str, to: str) -> Iterator[str]:
    before, after = (tree.files for tree in ground.trees)
    if code.has(before.get(to), name) or not code.has(after.get(to), name):
        yield f"{to} has not won {name}"
    elif code.words(code.text_of(ground.authored or b"", name)) != code.words(
        code.text_of(after[to], name)
    ) and not code.same_code(ground.authored or b"", name, after[to], name):
        yield "they differ"


@_rule("upstream", r"the target has (?P<path>\S+) with another mode")
def _other_mode(ground: Ground, path: str) -> Iterator[str]:
    if ground.trees[1].files.get(path) != ground.authored:
        yield "it has not"


@_rule("upstream", r"(?P<path>\S+) has mode (?P<mode>\d+) already")
def _has_mode(ground: Ground, path: str, mode: str) -> Iterator[str]:
    if ground.trees[1].mode(path) != int(mode, 8):
        yield "it has another"


@_rule("upstream", r"the target calls (?P<old>\S+) (?P<new>\S+)")
def _other_name(ground: Ground, old: str, new: str) -> Iterator[str]:
    if ground.trees[1].files.get(new) != ground.trees[0].files.get(old):
        yield "it does not"


@_rule("exact", r"(?P<path>\S+) is the same in base and target")
def _unchanged(ground: Ground, path: str) -> Iterator[str]:
    if ground.trees[0].files.get(path) != ground.trees[1].files.get(path):
        yield "it is not"


@_rule("exact", r"the target has (?P<path>\S+)")
def _has_file(ground: Ground, path: str) -> Iterator[str]:
    if path not in ground.trees[1].files:
        yield "it has not"


@_rule("adaptation", r"stored for (?P<release>\S+): (?P<reason>.*)")
def _adapted(ground: Ground, release: str, reason: str) -> Iterator[str]:
    del release
    if not reason.strip() or ground.target == ground.landed:
        yield "nothing was adapted, or for no reason"


@_rule("fingerprints", r"the hunk and the target definitions are as they were then")
def _fingerprints(ground: Ground) -> Iterator[str]:
    if ground.outcome.method is not Method.ADAPTATION:
        yield "there is no adaptation"
    replayed = ground.outcome.replayed
    if replayed is not None and replayed.how != "exact":
        yield "they are not"


@_rule("resolution", r"resolved for (?P<release>\S+): (?P<reason>.*)")
def _resolved(ground: Ground, release: str, reason: str) -> Iterator[str]:
    replayed = ground.outcome.replayed
    if replayed is None or (replayed.release, replayed.reason) != (release, reason):
        yield "no such resolution was replayed"
    yield from _adapted(ground, release, reason)


@_rule(
    "carried",
    r"(?P<changed>[^;]+); its own change was placed there by (?P<methods>[^:]+), and proven: .+",
)
def _carried(ground: Ground, changed: str, methods: str) -> Iterator[str]:
    replayed = ground.outcome.replayed
    if replayed is None or replayed.how != "carried":
        yield "nothing was carried"
    if not set(methods.split(", ")) <= set(Method) or not changed:
        yield "there is no such method"
