"""Code added to one file of a small tree, and what of it drifted on another."""

from __future__ import annotations

import textwrap

from patchkit.outcome import Drift
from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.tree import SourceTree
from tests.moves import diff

HOST = "vllm/host.py"
HEAD = "import os\n\nHERE = os.sep\n"

Files = dict[str, str]


def text(code: str) -> str:
    return textwrap.dedent(code).lstrip("\n")


def tree(files: Files, version: str, *, partial: bool = False) -> SourceTree:
    contents = {path: text(code).encode() for path, code in ({HOST: HEAD} | files).items()}
    return SourceTree(contents, name=version, version=version, partial=partial)


def found(base: Files, target: Files, code: str, *, partial: bool = False) -> list[Drift]:
    """Return what drifted of some code that is added to the end of the host."""
    old = text(base.get(HOST, HEAD))
    patch = PatchInput("probe", diff(old, f"{old}\n\n{text(code)}", HOST))
    trees = tree(base, "0.28.0"), tree(target, "0.29.0", partial=partial)
    (outcome,) = rebase_series([patch], *trees).outcomes
    assert outcome.landed, outcome.reason
    return list(outcome.drifts)


def said(base: Files | str, target: Files | str, code: str) -> list[str]:
    """Return what is said of each drift; a text stands for `vllm/a.py`."""
    trees = [{"vllm/a.py": t} if isinstance(t, str) else t for t in (base, target)]
    assert found(trees[0], trees[0], code) == [], "the base drifts from itself"
    return [drift.text for drift in found(*trees, code)]
