"""Whether a verdict is right, judged from the trees alone: what landed, once, and nothing else."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from packaging.version import Version

import patchkit
from patchkit.outcome import Status
from patchkit.stacking.rebase import RebaseResult
from tests.history.changes import HistoryChange, tree

Facts = Counter[tuple[str, str, str]]  # kind, scope, what


class Found(StrEnum):
    """What patchkit said of a whole change."""

    UPSTREAM = "upstream"
    LANDED = "landed"
    OPEN = "open"


class Judgement(StrEnum):
    """`MISSED` asks a person for what is there; `WRONG` would lose or double something."""

    RIGHT = "right"
    MISSED = "missed"
    WRONG = "wrong"


@dataclass(frozen=True)
class Answer:
    """A verdict on one change and one release."""

    change: str
    kind: str
    release: str
    found: Found
    judgement: Judgement
    remark: str = ""


def judge(change: HistoryChange, release: str) -> Answer:
    """Return what patchkit says of a change on a release, and whether that is right."""
    target = tree(release)
    result = patchkit.port([change.patch()], tree(change.older), target)
    found = _found(result)
    changed = {p: c or b"" for patch in result.patches for p, c in patch.after.items()}
    is_there = Version(release) in change.upstream
    wanted, old = change.contents(), tree(change.older).files
    renamed = {r.new for o in result.outcomes for r in o.renames}
    wrong = list(
        faults({p: old.get(p, b"") for p in wanted}, wanted, target.files, changed, renamed)
    )
    if found is Found.UPSTREAM:
        wrong = [f"{path} changed" for path in changed]
        wrong += [] if is_there else ["it is not there"]
    if found is Found.LANDED and is_there:
        wrong.append("it is there already")
    judgement, remark = Judgement.RIGHT, "; ".join(wrong)
    if wrong:
        judgement = Judgement.WRONG
    elif is_there and found is Found.OPEN:
        judgement = Judgement.MISSED
        said = [f"{o.hunk}: {o.status.value}: {o.reason}" for o in result.outcomes]
        remark = "; ".join(said)
    return Answer(change.name, change.kind, release, found, judgement, remark)


def _found(result: RebaseResult) -> Found:
    if all(o.status is Status.ALREADY_UPSTREAM for o in result.outcomes):
        return Found.UPSTREAM
    return Found.LANDED if result.ok else Found.OPEN


def faults(
    base: Mapping[str, bytes],
    authored: Mapping[str, bytes],
    target: Mapping[str, bytes],
    changed: Mapping[str, bytes],
    renamed: Collection[str] = (),
) -> Iterator[str]:
    """Yield what the changed files of a target lost besides what the patch takes, or have twice.

    `renamed` are names that upstream gave to what the patch calls otherwise.
    """
    gone, lost = Counter[str](), Counter[str]()
    for path, content in authored.items():
        gone += _words(base[path]) - _words(content)
    for path, content in changed.items():
        lost += _words(target.get(path, b"")) - _words(content)
    lost = Counter({word: n for word, n in (lost - gone).items() if word not in renamed})
    if lost:
        yield f"the target lost {sorted(lost.elements())}"
    most = Counter[tuple[str, str]]()
    for (kind, _, what), number in (f for c in authored.values() for f in facts(c).items()):
        most[kind, what] = max(most[kind, what], number)
    for path, content in changed.items():
        before, after = facts(target.get(path, b"")), facts(content)
        for (kind, scope, what), number in (after - before).items():
            there = before[kind, scope, what]
            if there and there + number > most[kind, what]:
                yield f"{path} holds {kind} {what!r} {there + number} times in {scope}"


def _words(content: bytes) -> Counter[str]:
    return Counter(re.findall(r"\w+", content.decode()))


_SAID_OFTEN = (ast.Pass, ast.Break, ast.Continue, ast.Return)


@lru_cache(maxsize=256)
def facts(source: bytes) -> Facts:
    """Return what a module defines, lists, imports and says, each with its scope and how often."""
    found = Facts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _collect(ast.parse(source), "", found)
    return found


def _collect(node: ast.AST, scope: str, found: Facts) -> None:
    for child in ast.iter_child_nodes(node):
        inside = scope
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found["definition", scope, child.name] += 1
            inside = f"{scope}.{child.name}"
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            module = getattr(child, "module", "")
            for name in child.names:
                found["import", scope, f"{module} {name.name} {name.asname}"] += 1
        elif isinstance(child, ast.stmt) and not isinstance(child, _SAID_OFTEN):
            found["statement", scope, ast.dump(child)] += 1
        elif isinstance(child, ast.arg):
            found["parameter", scope, child.arg] += 1
        elif isinstance(child, ast.Dict):
            for key in child.keys:
                if isinstance(key, ast.Constant):
                    found["key", scope, repr(key.value)] += 1
        elif isinstance(child, ast.Constant) and isinstance(node, (ast.List, ast.Set, ast.Tuple)):
            found["element", scope, repr(child.value)] += 1
        _collect(child, inside, found)
