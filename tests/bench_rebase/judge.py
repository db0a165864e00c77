"""Right, wrong or refused: what a tool's answer is worth against the truth."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from tests.bench_rebase.source import UnreadableError, read_source

Files = Mapping[str, bytes]


class Verdict(StrEnum):
    """What an answer is: a tool that says nothing is wrong must be right."""

    RIGHT = "right"
    WRONG = "wrong"
    REFUSED = "refused"


@dataclass(frozen=True)
class Answer:
    """What a tool said and left: `files` are the whole tree after it, None where it refused.

    `remark` says why it refused, or what is odd.
    """

    accepted: bool
    files: Files | None
    remark: str = ""


@dataclass(frozen=True)
class Judgement:
    """The verdict on an answer, and whether the bytes are the truth's too."""

    verdict: Verdict
    exact: bool = False
    remark: str = ""


def judge(answer: Answer, target: Files, truth: Files) -> Judgement:
    """Return the verdict: right has the truth's syntax trees and leaves other files alone."""
    if not answer.accepted or answer.files is None:
        return Judgement(Verdict.REFUSED, remark=answer.remark)
    wrong = difference(answer.files, target, truth)
    if wrong:
        return Judgement(Verdict.WRONG, remark=wrong)
    return Judgement(Verdict.RIGHT, dict(answer.files) == dict(truth), answer.remark)


def difference(files: Files, target: Files, truth: Files) -> str:
    """Return in which way files are not the truth; empty where they are."""
    for path in sorted({*files, *truth}):
        if path not in files:
            return f"{path} is missing"
        if path not in truth:
            return f"{path} is surplus"
        if files[path] == truth[path]:
            continue
        if target.get(path) == truth[path]:
            return f"{path} is changed"
        tree = syntax_tree(files[path])
        if tree is None:
            return f"{path} does not parse"
        if tree != syntax_tree(truth[path]):
            return f"{path} has another tree" + (
                ", the target's" if tree == syntax_tree(target[path]) else ""
            )
    return ""


@lru_cache(maxsize=64)
def syntax_tree(text: bytes) -> str | None:
    """Return a text's tree without positions and type comments; None where it has none."""
    try:
        return ast.dump(read_source(text).tree)
    except UnreadableError:
        return None
